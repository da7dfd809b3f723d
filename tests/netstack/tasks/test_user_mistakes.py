"""Mistakes that one makes in Python, and what is said of them."""

from collections.abc import Iterable

import pytest
import trio

from buffers import RecordBlock
from netstack import CollectionSource, FlatMap, GeneratorSpec, Scenario, Vertex, emulate, run_job


@pytest.mark.parametrize("records", [[b"a", b"b"], [bytearray(b"a")], ["a"], b"ab"])
def test_records_without_partitions_are_refused(records: object) -> None:
    with pytest.raises(TypeError, match="CollectionSource"):
        CollectionSource(records)  # type: ignore[arg-type]


def test_what_to_write_instead_is_said() -> None:
    with pytest.raises(TypeError, match=r"not the record b'a'; .* write CollectionSource\(\[records\]\)"):
        CollectionSource([b"a"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a record is bytes; CollectionSource was given 'a'"):
        CollectionSource([["a"]])  # type: ignore[list-item]


@pytest.mark.parametrize("returned", [b"record", None, memoryview(b"x")])
def test_an_operator_that_returns_one_record_is_told(returned: Iterable[bytes]) -> None:
    with pytest.raises(
        TypeError, match=r"an operator returned .*; return a list of records, such as \[record\]"
    ):
        FlatMap(lambda record: returned).process(RecordBlock.from_payloads([b"a"]))


def test_emulate_within_trio_names_what_to_await() -> None:
    scenario = Scenario(
        name="x",
        duration_s=0.01,
        vertices=(Vertex(name="source", source=GeneratorSpec(record_bytes=8, rates=(1.0,))),),
    )

    async def emulated() -> None:
        with pytest.raises(RuntimeError, match=r"within one, write `await run_job\(scenario\)`"):
            emulate(scenario)
        assert (await run_job(scenario)).scenario.name == "x"

    trio.run(emulated)
