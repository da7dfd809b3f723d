"""Mistakes that one makes in Python, and what is said of them."""

from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy
import pytest
import trio

from buffers import RecordBlock
from netstack import (
    CollectionSource,
    Edge,
    FlatMap,
    GeneratorSpec,
    Keys,
    Machine,
    PathSpec,
    Scenario,
    ScenarioError,
    ScheduledChange,
    Vertex,
    emulate,
    run_job,
)
from netstack.scenarios.tables import HoldsTuples, keys_of


@pytest.mark.parametrize("records", [[b"a", b"b"], [bytearray(b"a")], ["a"], b"ab"])
def test_records_without_partitions_are_refused(records: object) -> None:
    with pytest.raises(TypeError, match="CollectionSource"):
        CollectionSource(records)  # type: ignore[arg-type]


def test_what_to_write_instead_is_said() -> None:
    with pytest.raises(TypeError, match=r"but got the record b'a'; .* write CollectionSource\(\[records\]\)"):
        CollectionSource([b"a"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a record must be bytes, but CollectionSource got 'a'"):
        CollectionSource([["a"]])  # type: ignore[list-item]


@pytest.mark.parametrize("returned", [b"record", None, memoryview(b"x")])
def test_an_operator_that_returns_one_record_is_told(returned: Iterable[bytes]) -> None:
    with pytest.raises(
        TypeError, match=r"an operator returned .*; it must return a list of records, such as \[record\]"
    ):
        FlatMap(lambda record: returned).process(RecordBlock.from_payloads([b"a"]))


def test_emulate_within_trio_names_what_to_await() -> None:
    scenario = Scenario(
        name="x",
        duration_s=0.01,
        vertices=(Vertex(name="source", source=GeneratorSpec(record_bytes=8, rates=(1.0,))),),
    )

    async def emulated() -> None:
        with pytest.raises(
            RuntimeError,
            match=r"emulate cannot be called inside a run of trio; write `await run_job\(scenario\)` there",
        ):
            emulate(scenario)
        assert (await run_job(scenario)).scenario.name == "x"

    trio.run(emulated)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (
            lambda: Vertex(name="a", service=0.005),
            "Vertex: service is 0.005; it must be a tuple, such as ((0.0, 0.005),)",
        ),
        (
            lambda: Vertex(name="a", service=(0.0, 0.005)),
            "Vertex: service is (0.0, 0.005); it must be pairs, such as ((0.0, 0.005),)",
        ),
        (
            lambda: Vertex(name="a", service_skew=2),
            "Vertex: service_skew is 2; it must be a tuple, such as (2,)",
        ),
        (
            lambda: GeneratorSpec(record_bytes=8, rates=100.0),
            "GeneratorSpec: rates is 100.0; it must be a tuple, such as (100.0,)",
        ),
        (
            lambda: PathSpec(path="rows.csv", key="carrier"),
            "PathSpec: key is 'carrier'; it must be a tuple, such as ('carrier',)",
        ),
        (
            lambda: Keys(number=2, most_frequent=0.5),
            "Keys: most_frequent is 0.5; it must be a tuple, such as (0.5,)",
        ),
        (
            lambda: Edge(source="a", target="b", service=0.1),
            "Edge: service is 0.1; it must be a tuple, such as ((0.0, 0.005),)",
        ),
        (
            lambda: Machine(cores=2.0, task_managers="tm-1"),
            "Machine: task_managers is 'tm-1'; it must be a tuple, such as ('tm-1',)",
        ),
        (
            lambda: Scenario(name="x", duration_s=1.0, vertices=Vertex(name="a"), phases=(0.0, 1.0)),
            "Scenario: vertices is Vertex(...); it must be a tuple, such as (Vertex(...),)\n"
            "Scenario: phases is (0.0, 1.0); it must be pairs, such as ((20.0, 60.0),)",
        ),
        (
            lambda: ScheduledChange(at_s=1.0, vertex="a", rates=5.0),
            "ScheduledChange: rates is 5.0; it must be a tuple, such as (5.0,)",
        ),
    ],
)
def test_a_single_value_in_place_of_a_tuple_is_said(make: Callable[[], object], line: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        make()
    assert str(raised.value) == line


@pytest.mark.parametrize("cls", {each.__name__: each for each in HoldsTuples.__subclasses__()}.values())
def test_each_tuple_field_has_a_kind_for_tuples(cls: type) -> None:
    hints = get_type_hints(cls, localns={"np": numpy})
    keys = keys_of(cls)
    assert {field for field in keys if is_tuple(hints[field])} == {
        field for field, key in keys.items() if key.kind.is_tuple
    }


def is_tuple(hint: Any) -> bool:
    """Whether a field has a tuple of any length, or None."""
    if get_origin(hint) is not UnionType:
        return get_origin(hint) is tuple and get_args(hint)[-1] is ...
    return all(each is NoneType or is_tuple(each) for each in get_args(hint))
