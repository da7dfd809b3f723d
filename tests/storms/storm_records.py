"""The records of storms, and what each operator makes of them.

A record begins with a key of two bytes; whatever else an operator makes of it follows from its bytes. So
what a job has to put out follows from its case, as a multiset (`storm_flows`). Behind the key stand the name
of the source, the subtask and a number, by which the order of records is checked; the smallest records have
a key only.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import leading_bytes

from .case import SUMS, StormCase, StormVertex, Work

KEY_SIZE = 2
"""Bytes of the key that begins a record."""

_MARK = b"'"


def key_of(record: bytes) -> bytes:
    """The key of a record."""
    return record[:KEY_SIZE]


def value_of(record: bytes) -> int:
    """The number that a record adds to the sum of its key; each of its bytes has to do with it."""
    return crc32(record) & 0xFFFF


def key_hash(block: RecordBlock) -> NDArray[np.int32]:
    """The hash code of each record's key: its bytes as a number."""
    if block.stride == 0 or block.stride >= 4 + KEY_SIZE:
        sizes = block.sizes()
        if len(sizes) and sizes.min() >= 4 + KEY_SIZE:
            return leading_bytes(block, KEY_SIZE).view(">u2").ravel().astype(np.int32)
    keys = [int.from_bytes(bytes(payload[:KEY_SIZE]), "big") for payload in block.payloads()]
    return np.array(keys, dtype=np.int32)


def mark(record: bytes) -> bytes:
    """A record with a mark behind it."""
    return record + _MARK


def copies_of(record: bytes, copies: int) -> list[bytes]:
    """Copies of a record that differ behind the key."""
    key, rest = record[:KEY_SIZE], record[KEY_SIZE:]
    return [b"%b%d%b" % (key, number, rest) for number in range(copies)]


def filtered(record: bytes) -> list[bytes]:
    """The record or nothing, as likely."""
    return [record] if value_of(record) & 1 else []


def sum_record(key: bytes, total: int) -> bytes:
    """The record that tells the sum of a key."""
    return b"%b %d" % (key.rjust(KEY_SIZE, b"\0"), total)


def is_sum(record: bytes) -> bool:
    """Whether a record tells a sum; in others the name of a source, or a digit, follows the key."""
    return record[KEY_SIZE : KEY_SIZE + 1] == b" "


def parse_sum(record: bytes) -> tuple[bytes, int]:
    """The key, with the marks of the record behind it, and the sum that a record tells."""
    told = record[KEY_SIZE:].rstrip(_MARK)
    return key_of(record) + record[KEY_SIZE + len(told) :], int(told)


def records_of(case: StormCase, vertex: StormVertex, subtask: int) -> list[bytes]:
    """The records of one subtask of a source; no two of a case are equal, but for those without a number."""
    chance = random.Random(f"{case.seed} {vertex.name} {subtask}")
    least, greatest = vertex.record_bytes
    records = []
    for number in range(vertex.record_count(subtask)):
        key = 0 if chance.random() < vertex.hot_share else chance.randrange(vertex.keys)
        # Most are small, some are large.
        size = least + int((greatest - least) * chance.random() ** 3)
        if greatest <= KEY_SIZE:
            records.append(key.to_bytes(KEY_SIZE, "big")[-max(1, size) :])
            continue
        head = b"%b%b.%d.%d" % (key.to_bytes(KEY_SIZE, "big"), vertex.name.encode(), subtask, number)
        records.append(head.ljust(size, b"."))
    return records


def made_of(vertex: StormVertex, seen: Counter[bytes]) -> Counter[bytes]:
    """What a vertex makes of all the records it sees."""
    if vertex.work in SUMS:
        sums: Counter[bytes] = Counter()
        for record, number in seen.items():
            sums[key_of(record)] += number * value_of(record)
        return Counter(sum_record(key, total) for key, total in sums.items())
    made: Counter[bytes] = Counter()
    for record, number in seen.items():
        for result in _results(vertex, record):
            made[result] += number
    return made


def _results(vertex: StormVertex, record: bytes) -> Iterator[bytes]:
    match vertex.work:
        case Work.MARK:
            yield mark(record)
        case Work.COPY:
            yield from copies_of(record, vertex.copies)
        case Work.FILTER:
            yield from filtered(record)
        case _:
            yield record
