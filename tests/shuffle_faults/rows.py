"""The rows of a case, and where each belongs: computed here, one by one, by nothing that a shuffle uses."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from .case import Case

SCHEMA = "id long, source int, key {key}, payload binary"
"""Of the rows, in Spark's words: `source` is the partition of the input, `key` a long or a string."""

BATCH_ROWS = 500
_CONTENTS = random.Random(1).randbytes(1 << 20)
_ROW_BITS = 32


def schema_of(case: Case) -> str:
    """Return the columns of the rows, in Spark's words."""
    return SCHEMA.format(key="string" if case.text_keys else "long")


def input_batches(case: Case, source: int) -> Iterator[pa.RecordBatch]:
    """Give the rows of a partition of the input; of none, no batch."""
    for first in range(0, case.rows[source], BATCH_ROWS):
        ids = [
            (source << _ROW_BITS) + row for row in range(first, min(first + BATCH_ROWS, case.rows[source]))
        ]
        keys = pa.array(
            [key_of(case, number) for number in ids], pa.string() if case.text_keys else pa.int64()
        )
        payloads = pa.array([payload_of(case, number) for number in ids], pa.binary())
        columns = [pa.array(ids, pa.int64()), pa.array([source] * len(ids), pa.int32()), keys, payloads]
        yield pa.record_batch(columns, ["id", "source", "key", "payload"])


def payload_of(case: Case, number: int) -> bytes:
    """Return the bytes of a row, which follow from its id."""
    mixed = number * 2654435761 % (1 << 40)
    start = (mixed >> 8) % (len(_CONTENTS) - case.longest)
    return _CONTENTS[start : start + mixed % (case.longest + 1)]


def key_of(case: Case, number: int) -> int | str:
    """Return the key of a row, which follows from its id; for ranges they lie around all bounds."""
    mixed = number * 40503 % (1 << 31)
    most = case.keys * (case.partitions + 1) if case.ship == "range" else case.keys
    key = 0 if case.hot and mixed & 1 else mixed // 2 % most
    return f"key {key}" if case.text_keys else key


def problem_with(case: Case, table: pa.Table, by_spark: dict[int, int] | None) -> str:
    """Say what is wrong with the rows that came out; empty: nothing.

    Args:
        case: The case.
        table: The rows with one more column `place`, the partition that each was in.
        by_spark: The place of each id by Spark's own `repartition`, if that is what it has to be.
    """
    ids, places = table["id"].to_pylist(), table["place"].to_pylist()
    copies = case.partitions if case.ship == "broadcast" else 1
    wanted = [(source << _ROW_BITS) + row for source, count in enumerate(case.rows) for row in range(count)]
    counted = Counter(ids)
    wrong = [number for number in wanted if counted[number] != copies]
    if wrong or len(counted) != len(wanted):
        strange = f"{len(counted.keys() - set(wanted))} rows were never sent"
        return (
            f"the row {wrong[0]:x} exists {counted[wrong[0]]} times in place of {copies}"
            if wrong
            else strange
        )
    for number, source, key, payload in zip(
        ids, *(table[name].to_pylist() for name in ("source", "key", "payload")), strict=True
    ):
        if (source, key, payload) != (number >> _ROW_BITS, key_of(case, number), payload_of(case, number)):
            return f"row {number:x} has other values than were sent"
    return _problem_with_places(case, ids, places, by_spark)


def _problem_with_places(
    case: Case, ids: list[int], places: list[int], by_spark: dict[int, int] | None
) -> str:
    if case.ship in ("rebalance", "broadcast"):
        return _problem_with_turns(case, ids, places)
    found: dict[int | str, int] = {}
    for number, place in zip(ids, places, strict=True):
        key = key_of(case, number)
        if key not in found:
            found[key] = by_spark[number] if by_spark is not None else place_of(case, key)
        if place != found[key] or (by_spark is not None and by_spark[number] != place):
            return f"row {number:x} with {key!r} is in partition {place} in place of {found[key]}"
    return ""


def _problem_with_turns(case: Case, ids: list[int], places: list[int]) -> str:
    """Rows of one input are dealt out in turns, so partitions differ by one at most; or all go to each."""
    counted = Counter((number >> _ROW_BITS, place) for number, place in zip(ids, places, strict=True))
    for source, rows in enumerate(case.rows):
        least, more = (rows, 0) if case.ship == "broadcast" else divmod(rows, case.partitions)
        of_source = [counted[source, place] for place in range(case.partitions)]
        if not all(least <= count <= least + bool(more) for count in of_source):
            return f"rows of input {source} are {of_source} by partition"
    return ""


def place_of(case: Case, key: int | str) -> int:
    """Return the partition of a key: by the bounds, or by Flink's key groups."""
    if case.bounds is not None:
        assert isinstance(key, int)
        return bisect_left(case.bounds, key)
    groups = max(128, 1 << (case.partitions + case.partitions // 2 - 1).bit_length())
    return _murmur(_java_hash(key)) % groups * case.partitions // groups


def _java_hash(key: int | str) -> int:
    """`String.hashCode` and `Long.hashCode`, without a sign."""
    if isinstance(key, int):
        return (key ^ key >> 32) & 0xFFFFFFFF
    code = 0
    for letter in key:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return code


def _murmur(code: int) -> int:
    """Flink's `MathUtils.murmurHash`: never negative."""
    mixed = _rotated(code * 0xCC9E2D51, 15) * 0x1B873593
    mixed = (_rotated(mixed, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    mixed ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ mixed >> shift) * factor & 0xFFFFFFFF
    signed = mixed - (1 << 32) if mixed >> 31 else mixed
    return 0 if signed == -(1 << 31) else abs(signed)


def _rotated(number: int, by: int) -> int:
    number &= 0xFFFFFFFF
    return (number << by | number >> 32 - by) & 0xFFFFFFFF
