"""Operators with keyed state: all records of a key come to one subtask, or the job is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buffers import RecordBlock
from netstack import (
    CollectionSource,
    Edge,
    KeyedOperator,
    KeyedStateBackend,
    Operator,
    OperatorContext,
    Scenario,
    ScenarioError,
    SourceObject,
    StateError,
    Vertex,
    emulate,
    key_sum,
    map_records,
    payload_hash,
    sink,
    text_hash,
)
from netstack.exchange import java_hash
from netstack.tasks.key_hash import hash_keys

RECORDS = [b"k%d:%d" % (number % 20, number) for number in range(200)]
SUMS = Counter[bytes]()
for record in RECORDS:
    SUMS[record.split(b":")[0]] += 2 * int(record.split(b":")[1])


class Total(KeyedOperator):
    """Adds up the number of each record; `key` says what is made of its first part."""

    def __init__(self, key: str = "bytes") -> None:
        self._key = key

    def declare(self, state: KeyedStateBackend) -> None:
        self._total = state.value("total", default=0)

    def key_of(self, record: bytes) -> object:
        name = record.split(b":")[0]
        number = int(name[1:])
        kinds = {"bytes": name, "text": name.decode(), "number": number, "tuple": (number % 2, name)}
        mixed = list(kinds.values())[number % 4]
        return kinds.get(self._key, mixed)

    def process_record(self, record: bytes) -> Iterable[bytes]:
        name, number = record.split(b":")
        self._total.update(self._total.get() + int(number))
        return [b"%b:%d" % (name, self._total.get())]


def parse(record: bytes) -> tuple[bytes, int]:
    name, number = record.split(b":")
    return name, int(number)


def totals(
    ships: Sequence[str],
    *,
    parallelism: int = 4,
    source: CollectionSource | None = None,
    between: object = None,
    keyed: object = lambda subtask: Total(),
    **edge: object,
) -> dict[bytes, int]:
    """The last total of each key; vertices: numbers, each ship's target, the last of which keeps state."""
    out: list[bytes] = []
    names = [*(f"between{number}" for number in range(len(ships) - 1)), "totals"]
    source = CollectionSource([RECORDS, RECORDS]) if source is None else source
    vertices = [Vertex(name="numbers", parallelism=2, source=SourceObject(source=source))]
    vertices += [
        Vertex(name=name, parallelism=parallelism, operator=keyed if name == "totals" else between)  # type: ignore[arg-type]
        for name in names
    ]
    emulate(
        Scenario(
            name="totals",
            duration_s=20.0,
            vertices=(*vertices, Vertex(name="out", operator=sink(out.append))),
            edges=(
                *(
                    Edge(source=before, target=name, ship=ship, **(edge if name == "totals" else {}))  # type: ignore[arg-type]
                    for before, name, ship in zip(["numbers", *names], names, ships, strict=False)
                ),
                Edge(source="totals", target="out"),
            ),
        )
    )
    found: dict[bytes, int] = {}
    for record in out:
        name, total = parse(record.replace(b" ", b":"))
        found[name] = max(total, found.get(name, 0))
    return found


@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("key", ["bytes", "text", "number", "tuple", "mixed"])
def test_without_a_hash_records_are_dealt_out_by_the_key_of_the_operator(key: str, parallelism: int) -> None:
    assert totals(["hash"], parallelism=parallelism, keyed=lambda subtask: Total(key)) == SUMS


def test_sums_by_key_need_no_hash_either() -> None:
    assert totals(["hash"], keyed=key_sum(parse)) == SUMS


def test_a_function_before_may_make_other_records() -> None:
    marked = map_records(lambda record: record + b"0")
    tenfold = {key: 10 * total for key, total in SUMS.items()}
    assert totals(["rebalance", "hash"], between=marked) == tenfold


def key_hash(block: RecordBlock) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array([int(bytes(payload).split(b":")[0][1:]) for payload in block.payloads()], dtype=np.int32)


def test_a_hash_that_follows_from_the_key_is_used_as_it_is() -> None:
    assert totals(["hash"], key_hash=key_hash) == SUMS
    assert totals(["hash"], source=CollectionSource([RECORDS, RECORDS], key_hash)) == SUMS


@pytest.mark.parametrize("parallelism", [1, 4])
def test_a_hash_that_does_not_is_found_with_the_first_key_that_it_splits(parallelism: int) -> None:
    with pytest.raises(StateError, match=r"^the key b'k\d+' arrived with the key groups \d+ and \d+"):
        totals(["hash"], parallelism=parallelism, key_hash=payload_hash)
    with pytest.raises(StateError, match="the exchange distributes the records by another key"):
        totals(
            ["hash"], parallelism=parallelism, source=CollectionSource([RECORDS, RECORDS], key_hash=text_hash)
        )


@pytest.mark.parametrize("keyed", [lambda subtask: Total(), key_sum(parse)], ids=["operator", "sum"])
@pytest.mark.parametrize("ship", ["rebalance", "rescale", "broadcast"])
def test_an_exchange_that_does_not_go_by_key_is_refused(ship: str, keyed: object) -> None:
    with pytest.raises(ScenarioError) as refused:
        totals([ship], keyed=keyed)
    text = f"totals has keyed state, but {ship} sends records of one key to several subtasks; use hash"
    assert refused.value.problems == (f"edges.numbers->totals.ship: {text}",)
    assert totals([ship], keyed=keyed, parallelism=1) == SUMS  # where there is only one, all come to it


def test_forward_is_right_behind_what_was_dealt_out_by_key() -> None:
    source = CollectionSource([RECORDS, RECORDS], key_hash)
    assert totals(["rebalance", "hash", "forward"], source=source) == SUMS
    with pytest.raises(
        ScenarioError,
        match="totals has keyed state, but forward sends records of one key to several subtasks",
    ):
        totals(["rebalance", "forward"])


def test_forward_behind_another_key_is_found_when_records_come() -> None:
    with pytest.raises(
        StateError,
        match=", so its state would be split: the exchange distributes the records by another key; give the "
        "edge a key_hash that is the hash of this key, or no key_hash",
    ):
        totals(["hash", "forward"], source=CollectionSource([RECORDS, RECORDS], key_hash=payload_hash))


class OwnState(Operator):
    """Uses keyed state without saying what its keys are."""

    def open(self, context: OperatorContext) -> None:
        self._context = context
        self._seen = context.keyed.list("seen")

    def process(self, block: RecordBlock) -> RecordBlock:
        for payload, group in zip(block.payloads(), self._context.key_groups(block), strict=True):
            self._context.keyed.set_current_key(bytes(payload)[:2], group)
            self._seen.add(1)
        return RecordBlock.from_payloads([])


def test_state_that_is_split_is_found_in_any_operator() -> None:
    with pytest.raises(StateError, match=r"the key b'k\d' arrived with the key groups "):
        totals(["rebalance"], keyed=lambda subtask: OwnState())


SHIPS_TO_STATE = [
    ["hash"],
    ["rebalance", "hash"],
    ["broadcast", "hash"],
    ["hash", "forward"],
    ["forward"],
    ["rebalance", "forward"],
    ["rescale"],
    ["broadcast"],
]
kinds = st.sampled_from([payload_hash, key_hash, None])


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    records=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=5, max_size=20),
    ships=st.sampled_from(SHIPS_TO_STATE),
    parallelism=st.integers(1, 3),
    hashed=kinds,
    source_hash=kinds,
)
def test_sums_are_right_or_the_job_is_refused(
    records: list[tuple[int, int]],
    ships: list[str],
    parallelism: int,
    hashed: object,
    source_hash: object,
) -> None:
    """Whatever the exchanges and hashes are, no sum is wrong without a word."""
    payloads = [b"k%d:%d" % record for record in records]
    source = CollectionSource([payloads, payloads], key_hash=source_hash)  # type: ignore[arg-type]
    copies = parallelism if ships[:-1] == ["broadcast"] else 1
    expected: Counter[bytes] = Counter()
    for name, number in map(parse, payloads):
        expected[name] += 2 * number * copies
    try:
        found = totals(ships, parallelism=parallelism, source=source, key_hash=hashed)
    except (ScenarioError, StateError):
        return
    assert found == dict(expected)


values = st.recursive(
    st.one_of(st.text(), st.binary(), st.integers(-(1 << 63), (1 << 64) - 1), st.booleans(), st.floats()),
    lambda inner: st.tuples(inner, inner),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(values, min_size=1, max_size=12))
def test_the_hash_of_a_key_depends_on_nothing_else(keys: list[object]) -> None:
    try:
        together = hash_keys(keys).tolist()
    except UnicodeEncodeError:
        return  # half of a surrogate pair
    assert together == [hash_keys([key])[0] for key in keys]


def test_text_bytes_and_numbers_hash_as_in_java() -> None:
    assert hash_keys(["flink", b"flink", 1 << 40]).tolist() == [
        java_hash.hash_strings(["flink"])[0],
        payload_hash(RecordBlock.from_payloads([b"flink"]))[0],
        java_hash.hash_longs(np.array([1 << 40]))[0],
    ]
