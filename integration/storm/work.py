"""What the jobs of storms do: their records, their operators, and what comes out without any network.

A record begins with a key of two bytes; whatever else an operator makes of it follows from its bytes. So
what a job has to put out follows from its case alone, as a multiset: `expected_output`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import (
    CollectionSource,
    Edge,
    Operator,
    OperatorContext,
    OperatorFactory,
    Scenario,
    SourceObject,
    Transaction,
    Vertex,
    flat_map,
    key_sum,
    leading_bytes,
    map_records,
    sink,
    transactional_sink,
)

from .case import StormCase, StormVertex, Work

KEY_SIZE = 2
"""Bytes of the key that begins a record."""

Commit = Callable[[Transaction], None]


def key_of(record: bytes) -> bytes:
    """The key of a record."""
    return record[:KEY_SIZE]


def value_of(record: bytes) -> int:
    """The number that a record adds to the sum of its key; each of its bytes has to do with it."""
    return crc32(record) & 0xFFFF


def key_hash(block: RecordBlock) -> NDArray[np.int32]:
    """The hash code of each record's key: its two bytes as a number."""
    return leading_bytes(block, KEY_SIZE).view(">u2").ravel().astype(np.int32)


def mark(record: bytes) -> bytes:
    """A record with a mark behind it."""
    return record + b"'"


def copies_of(record: bytes, copies: int) -> list[bytes]:
    """Copies of a record that differ behind the key."""
    key, rest = record[:KEY_SIZE], record[KEY_SIZE:]
    return [b"%b%d%b" % (key, number, rest) for number in range(copies)]


def filtered(record: bytes) -> list[bytes]:
    """The record or nothing, as likely."""
    return [record] if value_of(record) & 1 else []


def sum_record(key: bytes, total: int) -> bytes:
    """The record that tells the sum of a key."""
    return b"%b %d" % (key, total)


def is_sum(record: bytes) -> bool:
    """Whether a record tells a sum; in others the name of a source, or a digit, follows the key."""
    return record[KEY_SIZE : KEY_SIZE + 1] == b" "


def parse_sum(record: bytes) -> tuple[bytes, int]:
    """The key and the sum that a record tells."""
    return key_of(record), int(record[KEY_SIZE:])


def records_of(case: StormCase, vertex: StormVertex, subtask: int) -> list[bytes]:
    """The records of one subtask of a source; no two of a case are equal."""
    chance = random.Random(f"{case.seed} {vertex.name} {subtask}")
    least, greatest = vertex.record_bytes
    records = []
    for number in range(vertex.record_count(subtask)):
        key = 0 if chance.random() < vertex.hot_share else chance.randrange(vertex.keys)
        head = b"%b%b.%d.%d" % (key.to_bytes(KEY_SIZE, "big"), vertex.name.encode(), subtask, number)
        # Most are small, some are large.
        size = least + int((greatest - least) * chance.random() ** 3)
        records.append(head.ljust(size, b"."))
    return records


class Gather(Operator):
    """Keeps all records in a list of their key; gives them all when the input has ended."""

    def open(self, context: OperatorContext) -> None:
        """Declare the state."""
        self._context = context
        self._lists = context.keyed.list("records")

    def process(self, block: RecordBlock) -> RecordBlock:
        """Keep the records."""
        context = self._context
        for payload, group in zip(block.payloads(), context.key_groups(block), strict=True):
            record = bytes(payload)
            context.keyed.set_current_key(key_of(record), group)
            self._lists.add(record)
        return RecordBlock.from_payloads([])

    def finish(self) -> RecordBlock:
        """All records, key by key."""
        kept = sorted(self._lists.items())
        return RecordBlock.from_payloads([record for _, records in kept for record in records])


def scenario_of(case: StormCase, commit: Commit, parallelism: Sequence[int] = ()) -> Scenario:
    """The scenario of a case, whose sinks hand what is final to `commit`.

    `parallelism` is that of each vertex, where it is not the case's; the records stay the same.
    """
    return Scenario(
        name=f"storm {case.seed}",
        duration_s=case.duration_s,
        vertices=tuple(
            replace(_vertex(case, vertex, commit), parallelism=subtasks)
            for vertex, subtasks in zip(
                case.vertices, parallelism or [each.parallelism for each in case.vertices], strict=True
            )
        ),
        edges=tuple(
            Edge(source=source, target=target, ship=ship, key_hash=key_hash)
            for source, target, ship in case.edges
        ),
        seed=case.seed,
        config=case.config,
        costs=case.costs,
        link=case.link,
        faults=case.faults,
        manual_checkpoints_s=case.manual_checkpoints_s,
    )


def _vertex(case: StormCase, vertex: StormVertex, commit: Commit) -> Vertex:
    if vertex.work is Work.SOURCE:
        partitions = [records_of(case, vertex, subtask) for subtask in range(vertex.parallelism)]
        return Vertex(
            name=vertex.name,
            parallelism=vertex.parallelism,
            task_manager=vertex.task_manager,
            source=SourceObject(source=CollectionSource(partitions, key_hash), rates=vertex.rates),
        )
    return Vertex(
        name=vertex.name,
        parallelism=vertex.parallelism,
        task_manager=vertex.task_manager,
        service=((0.0, vertex.service_s),) if vertex.service_s else (),
        service_skew=vertex.service_skew,
        service_mode=vertex.service_mode,
        operator=_operator(case, vertex, commit),
    )


def _operator(case: StormCase, vertex: StormVertex, commit: Commit) -> OperatorFactory | None:
    match vertex.work:
        case Work.MARK:
            return map_records(mark)
        case Work.COPY:
            return flat_map(lambda record: copies_of(record, vertex.copies))
        case Work.FILTER:
            return flat_map(filtered)
        case Work.SUM:
            return key_sum(lambda record: (key_of(record), value_of(record)), sum_record)
        case Work.GATHER:
            return lambda subtask: Gather()
        case Work.SINK:
            return transactional_sink(commit) if case.transactional else _plain_sink(vertex, commit)
        case _:
            return None


def _plain_sink(vertex: StormVertex, commit: Commit) -> OperatorFactory:
    """A sink that takes each record for final at once, which a restart proves wrong."""
    numbers = count()
    return sink(lambda record: commit(Transaction(vertex.name, 0, next(numbers), (record,))))


def expected_output(case: StormCase) -> Counter[bytes]:
    """What the sinks of a case have to commit in the end: each record, and how often."""
    output: dict[str, Counter[bytes]] = {}
    committed: Counter[bytes] = Counter()
    for vertex in case.vertices:  # each stands behind those that it reads from
        if vertex.work is Work.SOURCE:
            subtasks = range(vertex.parallelism)
            output[vertex.name] = Counter(
                record for subtask in subtasks for record in records_of(case, vertex, subtask)
            )
            continue
        inputs = case.inputs(vertex)
        broadcast = all(ship == "broadcast" for _, ship in inputs)
        seen: Counter[bytes] = Counter()
        for producer, ship in inputs:
            times = vertex.parallelism if ship == "broadcast" and not broadcast else 1
            for record, number in output[producer.name].items():
                seen[record] += number * times
        # If all inputs are broadcast, each subtask sees, and does, the same.
        made = _made(vertex, seen)
        times = vertex.parallelism if broadcast else 1
        output[vertex.name] = Counter({record: number * times for record, number in made.items()})
        if vertex.work is Work.SINK:
            committed += output[vertex.name]
    return committed


def _made(vertex: StormVertex, seen: Counter[bytes]) -> Counter[bytes]:
    """What a vertex makes of all the records it sees."""
    if vertex.work is Work.SUM:
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
