"""Records of storms, their operators, and the plain model of a job: the output without a network.

A record begins with a key of two bytes. The output of each vertex is a function of the multiset of records
that it reads, so a model of a few lines gives the output of the whole job. State is part of this output:
sums and gathered records leave the state at the end of the input.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import (
    KeyedOperator,
    KeyedStateBackend,
    Operator,
    OperatorContext,
    OperatorFactory,
    ShipStrategy,
    Transaction,
    flat_map,
    map_records,
    transactional_sink,
)

from .case import StormCase, Work

KEY_BYTES = 2
_COUNTED = b"##counted"


def key_of(record: bytes) -> bytes:
    """Return the key of a record."""
    return record[:KEY_BYTES]


def key_hash(block: RecordBlock) -> NDArray[np.int32]:
    """Return the hash code of each record's key."""
    keys = [int.from_bytes(bytes(payload[:KEY_BYTES]), "big") for payload in block.payloads()]
    return np.array(keys, dtype=np.int32)


def _most_gathered(key: bytes) -> int:
    """Return how many records a key may have in its state: few, so that state is deleted, or many."""
    return 4 if key[-1] & 1 else 40


def value_of(record: bytes) -> int:
    """Return the number that a record adds to a sum; it depends on each byte of the record."""
    return crc32(record) & 0xFFFF


def draw_records(chance: random.Random, name: str, subtask: int, count: int, largest: int) -> list[bytes]:
    """Return different records of up to `largest` bytes, most of them small."""
    keys, hot = chance.choice((1, 3, 20, 200)), chance.choice((0.0, 0.0, 0.5))
    records = []
    for number in range(count):
        key = 0 if chance.random() < hot else chance.randrange(keys)
        head = b"%b%b.%d.%d" % (key.to_bytes(KEY_BYTES, "big"), name.encode(), subtask, number)
        records.append(head.ljust(int(largest * chance.random() ** 3), b"."))
    return records


def _mark(record: bytes) -> bytes:
    return record + b"'"


def _copies(record: bytes) -> list[bytes]:
    return [record, b"%b+%b" % (key_of(record), record[KEY_BYTES:])]


def _filtered(record: bytes) -> list[bytes]:
    return [record] if value_of(record) & 1 else []


def _sum_record(key: bytes, total: int) -> bytes:
    return b"%b sum %d" % (key, total)


class _Keyed(KeyedOperator):
    """State for each key, which the operator emits at the end of the input."""

    _state: Any

    def key_of(self, record: bytes) -> object:
        return key_of(record)

    def process_record(self, record: bytes) -> Iterable[bytes]:
        self._state.add(value_of(record))
        return ()

    def finish(self) -> RecordBlock:
        kept = sorted(self._state.items())
        return RecordBlock.from_payloads([each for key, value in kept for each in self._last(key, value)])

    def _last(self, key: bytes, kept: Any) -> Iterable[bytes]:
        return (_sum_record(key, kept),)


class _Sum(_Keyed):
    def declare(self, state: KeyedStateBackend) -> None:
        self._state = state.reducing("sum", lambda left, right: left + right)


class _SumInValue(_Keyed):
    def declare(self, state: KeyedStateBackend) -> None:
        self._state = state.value("sum", 0)

    def process_record(self, record: bytes) -> Iterable[bytes]:
        self._state.update(self._state.get() + value_of(record))
        return ()


class _SumInAggregate(_Keyed):
    def declare(self, state: KeyedStateBackend) -> None:
        self._state = state.aggregating("sum", lambda: [0], self._accumulate, lambda sums: sums[0])

    @staticmethod
    def _accumulate(sums: list[int], value: int) -> list[int]:
        sums[0] += value
        return sums


class _Gather(_Keyed):
    """Keeps the records of a key in a list, and emits and clears a full list."""

    def declare(self, state: KeyedStateBackend) -> None:
        self._state = state.list("records")

    def process_record(self, record: bytes) -> Iterable[bytes]:
        self._state.add(record)
        kept: list[bytes] = list(self._state.get())
        if len(kept) < _most_gathered(key_of(record)):
            return ()
        self._state.clear()
        return kept

    def _last(self, key: bytes, kept: Any) -> Iterable[bytes]:
        return list(kept)


class _GatherInMap(_Keyed):
    """Keeps in a map of each key how often each record came, and removes the entries of a full map."""

    def declare(self, state: KeyedStateBackend) -> None:
        self._state = state.map("records")

    def process_record(self, record: bytes) -> Iterable[bytes]:
        self._state.put(record, (self._state.get(record) or 0) + 1)
        kept = dict(self._state.entries())
        if len(kept) < _most_gathered(key_of(record)):
            return ()
        for each in kept:
            self._state.remove(each)
        return self._last(b"", kept)

    def _last(self, key: bytes, kept: Any) -> Iterable[bytes]:
        return [record for record, times in sorted(kept.items()) for _ in range(times)]


class _Count(Operator):
    """Forwards records, counts them in operator state, and emits a record for each at the end."""

    def open(self, context: OperatorContext) -> None:
        self._context = context
        self._count = sum(context.operator.get("counts"))

    def process(self, block: RecordBlock) -> RecordBlock:
        self._count += len(block)
        return block

    def before_snapshot(self, checkpoint_id: int) -> None:
        self._context.operator.put("counts", [self._count])

    def finish(self) -> RecordBlock:
        # A checkpoint of the ended subtask must not hold what is emitted here: at another parallelism, its
        # state goes to subtasks that have not ended.
        count, self._count = self._count, 0
        return RecordBlock.from_payloads([_COUNTED] * count)


_OPERATORS: dict[Work, OperatorFactory] = {
    Work.MARK: map_records(_mark),
    Work.COPY: flat_map(_copies),
    Work.FILTER: flat_map(_filtered),
    Work.SUM: lambda subtask: _Sum(),
    Work.SUM_IN_VALUE: lambda subtask: _SumInValue(),
    Work.SUM_IN_AGGREGATE: lambda subtask: _SumInAggregate(),
    Work.GATHER: lambda subtask: _Gather(),
    Work.GATHER_IN_MAP: lambda subtask: _GatherInMap(),
    Work.COUNT: lambda subtask: _Count(),
}


def operator_of(work: Work, commit: Callable[[Transaction], None]) -> OperatorFactory | None:
    """Return what a vertex runs; None for sources, and for vertices without a function."""
    return transactional_sink(commit) if work is Work.SINK else _OPERATORS.get(work)


def expected_output(case: StormCase) -> Counter[bytes]:
    """Return the records that the sinks commit if each record counts exactly once."""
    emitted: dict[str, Counter[bytes]] = {}
    output: Counter[bytes] = Counter()
    for vertex in case.scenario.topological_order():
        read = records_in(case.records.get(vertex.name, ()))
        for edge in case.scenario.inputs(vertex):
            times = vertex.parallelism if ShipStrategy.of(edge.ship).copies else 1
            for record, number in emitted[edge.source].items():
                read[record] += number * times
        work = case.works[vertex.name]
        emitted[vertex.name] = Counter(_emitted(work, read))
        if work is Work.SINK:
            output += read
    return output


def records_in(parts: Sequence[Sequence[bytes]]) -> Counter[bytes]:
    """Return how often each record occurs in some lists of records."""
    return Counter(record for part in parts for record in part)


def _emitted(work: Work, read: Counter[bytes]) -> Iterator[bytes]:
    if work in (Work.SUM, Work.SUM_IN_VALUE, Work.SUM_IN_AGGREGATE):
        sums: Counter[bytes] = Counter()
        for record, number in read.items():
            sums[key_of(record)] += number * value_of(record)
        yield from (_sum_record(key, total) for key, total in sums.items())
        return
    for record in read.elements():
        match work:
            case Work.MARK:
                yield _mark(record)
            case Work.COPY:
                yield from _copies(record)
            case Work.FILTER:
                yield from _filtered(record)
            case Work.EMIT:
                yield from (record, record)
            case Work.COUNT:
                yield from (record, _COUNTED)
            case _:
                yield record
