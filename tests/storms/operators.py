"""Records of storms, and the operators of their vertices: stateless work, and each kind of keyed state.

A record begins with a key of two bytes. All that operators emit for it follows from its bytes, so the
expected output of a job follows from its case, as a multiset (`expected`). After the key, a record has the
name of its source, the subtask and a number, by which the order of records is checked; the smallest records
are only a key.

Operators with state report to a `StateWitness` what they keep at each barrier, and the witness compares it
with what is stored. State with a time-to-live and operator state are compared with a copy. The copy at each
barrier is noted, so that an attempt or run that continues from there knows what it must find.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Any, NamedTuple, Protocol
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
    Redistribution,
    StateTtlConfig,
    Transaction,
    flat_map,
    leading_bytes,
    map_records,
    sink,
    transactional_sink,
)

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


Commit = Callable[[Transaction], None]

_NUMBERS = 8
"""Entries of the broadcast state that counts, at most."""

_LOOKS_OFTEN = 16
"""So many records of a key look at what is remembered; of later ones one in as many does."""


class Broken(AssertionError):  # noqa: N818 - it names what happened
    """Something does not hold in the middle of a run."""


class Noted(Protocol):
    """What operators have noted at barriers."""

    def add(self, context: OperatorContext, checkpoint_id: int, note: Any) -> None:
        """Keep a note of a subtask."""
        ...

    def of(self, vertex: str, checkpoint_id: int) -> dict[int, Any]:
        """The notes at a checkpoint that subtasks begin with now, by subtask."""
        ...

    def is_own(self, checkpoint_id: int) -> bool:
        """Whether a checkpoint is of the run that goes on, and so of the same parallelism."""
        ...


class Witness(Protocol):
    """Who is told what an operator keeps."""

    @property
    def now_ms(self) -> int:
        """The time of the run in whole milliseconds, rounded as state rounds it."""
        ...

    @property
    def notes(self) -> Noted:
        """What was noted at the barriers."""
        ...

    def restored(self, context: OperatorContext) -> int | None:
        """The checkpoint that a subtask has begun with; None: it began with nothing."""
        ...

    def barrier(self, context: OperatorContext, checkpoint_id: int, kept: dict[Any, Any]) -> None:
        """The state at a barrier, by key."""
        ...

    def completed(self, context: OperatorContext, checkpoint_id: int) -> None:
        """A checkpoint with that state is complete."""
        ...


class Keeping(KeyedOperator):
    """Keeps something for each key; gives it all when the input has ended."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._state: Any = None

    def key_of(self, record: bytes) -> object:
        """The key of a record."""
        return key_of(record)

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Tell what is kept."""
        self._witness.barrier(self._context, checkpoint_id, dict(self._state.items()))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Tell that it is stored."""
        self._witness.completed(self._context, checkpoint_id)

    def finish(self) -> RecordBlock:
        """What is kept, key by key."""
        kept = sorted(self._state.items())
        return RecordBlock.from_payloads([each for key, value in kept for each in self.results(key, value)])

    def results(self, key: bytes, kept: Any) -> Iterable[bytes]:
        """The last records of a key."""
        return (sum_record(key, kept),)


class Sum(Keeping):
    """Sums in a reducing state."""

    def declare(self, state: KeyedStateBackend) -> None:
        """Ask for the state."""
        self._state = state.reducing("sum", _add)

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Add up."""
        self._state.add(value_of(record))
        return ()


class SumInValue(Keeping):
    """Sums in a value."""

    def declare(self, state: KeyedStateBackend) -> None:
        """Ask for the state."""
        self._state = state.value("sum", 0)

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Add up."""
        self._state.update(self._state.get() + value_of(record))
        return ()


class SumInAggregate(Keeping):
    """Sums in an accumulator, which is changed in place."""

    def declare(self, state: KeyedStateBackend) -> None:
        """Ask for the state."""
        self._state = state.aggregating("sum", lambda: [0, 0], _accumulate, lambda sums: sums[0])

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Add up."""
        self._state.add(value_of(record))
        return ()


class Gather(Keeping):
    """Keeps all records in a list of their key."""

    def declare(self, state: KeyedStateBackend) -> None:
        """Ask for the state."""
        self._state = state.list("records")

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Keep the record."""
        self._state.add(record)
        return ()

    def results(self, key: bytes, kept: list[bytes]) -> Iterable[bytes]:
        """The records of a key."""
        return kept


class GatherInMap(Keeping):
    """Keeps in a map of each key how often each record came."""

    def declare(self, state: KeyedStateBackend) -> None:
        """Ask for the state."""
        self._state = state.map("records")

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Keep the record."""
        self._state.put(record, (self._state.get(record) or 0) + 1)
        return ()

    def results(self, key: bytes, kept: dict[bytes, int]) -> Iterable[bytes]:
        """The records of a key."""
        return [record for record, times in sorted(kept.items()) for _ in range(times)]


class Written(NamedTuple):
    """A record that was written, and between which times of its state's clock, in ms."""

    record: bytes
    earliest_ms: int
    latest_ms: int


class RememberedUntil(NamedTuple):
    """What a subtask has written up to a barrier, and between which times of its state's clock that came.

    Of each key so many records of the list count.
    """

    earliest_ms: int
    latest_ms: int
    written: dict[bytes, tuple[list[Written], int]]


class Remember(KeyedOperator):
    """Hands records on, and remembers them for a while: a value, a list and a map of each key that expire.

    What is written is noted beside the state, with its time. The clock of the state is that of the run; one
    that goes on from another run goes on from the latest time that any subtask had reached there. When state
    was restored is known only to have been between `__init__` and `open`, so that of what another run has
    written some may have expired or not.
    """

    def __init__(self, witness: Witness, ttl_s: float) -> None:
        self._witness = witness
        self._ttl = StateTtlConfig(ttl_s)
        self._made_ms = witness.now_ms
        self._ahead_ms = 0, 0
        self._known: dict[bytes, list[Written]] = {}
        self._own: set[bytes] = set()  # keys that this subtask has had since

    def open(self, context: OperatorContext) -> None:
        """Declare the states, and find out what is in them."""
        super().open(context)
        restored = self._witness.restored(context)
        notes: dict[int, RememberedUntil] = (
            {} if restored is None else self._witness.notes.of(context.vertex, restored)
        )
        if not notes:
            return
        earliest_ms = max(note.earliest_ms for note in notes.values())
        latest_ms = max(note.latest_ms for note in notes.values())
        self._ahead_ms = max(0, earliest_ms - self._witness.now_ms), max(0, latest_ms - self._made_ms)
        for note in notes.values():
            for key, (written, number) in note.written.items():
                if number > len(self._known.get(key, ())):  # the others had it before they lost the key
                    self._known[key] = written[:number]

    def key_of(self, record: bytes) -> object:
        """The key of a record."""
        return key_of(record)

    def declare(self, state: KeyedStateBackend) -> None:
        """Ask for the states."""
        self._last = state.value("last", ttl=self._ttl)
        self._all = state.list("all", ttl=self._ttl)
        self._times = state.map("times", ttl=self._ttl)

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Compare the values of all keys, and note what was written so far."""
        now_ms, (least, most) = self._witness.now_ms, self._ahead_ms
        self._compare_values(now_ms)
        written = {key: (list_, len(list_)) for key, list_ in self._known.items()}
        note = RememberedUntil(now_ms + least, now_ms + most, written)
        self._witness.notes.add(self._context, checkpoint_id, note)

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Look at what is remembered of the key, and add the record."""
        key, now_ms = key_of(record), self._witness.now_ms
        self._own.add(key)
        written = self._known.setdefault(key, [])
        if written and (len(written) < _LOOKS_OFTEN or len(written) % _LOOKS_OFTEN == 0):
            self._compare(key, written, now_ms)
        self._last.update(record)
        self._all.add(record)
        self._times.put(record, len(written))
        least, most = self._ahead_ms
        written.append(Written(record, now_ms + least, now_ms + most))
        return (record,)

    def _compare_values(self, now_ms: int) -> None:
        least, most = self._ahead_ms
        found = dict(self._last.items())
        for key in self._own | found.keys():
            latest, value = self._known[key][-1], found.get(key)
            lives = now_ms + most - latest.earliest_ms < self._ttl.ttl_ms
            may_live = now_ms + least - latest.latest_ms < self._ttl.ttl_ms
            if value != latest.record if lives else value is not None and not may_live:
                text = "has not expired" if lives else "has expired"
                raise Broken(f"key {key!r} has the value {value!r}, and {latest.record!r} {text}")

    def _compare(self, key: bytes, written: list[Written], now_ms: int) -> None:
        least, most = self._ahead_ms
        ttl_ms = self._ttl.ttl_ms
        living = sum(now_ms + most - each.earliest_ms < ttl_ms for each in written)
        may_live = sum(now_ms + least - each.latest_ms < ttl_ms for each in written)
        records = [each.record for each in written]
        last, every = self._last.get(), list(self._all.get())
        if last != records[-1] if living else last is not None and (last != records[-1] or not may_live):
            text = "has not expired" if living else "may live" if may_live else "has expired"
            raise Broken(f"key {key!r} has the value {last!r}, and {records[-1]!r} {text}")
        if not living <= len(every) <= may_live or every != records[len(records) - len(every) :]:
            text = f"the last {living} to {may_live} of {len(records)} have not expired"
            raise Broken(f"key {key!r} has a list of {len(every)} that ends with {every[-3:]}, and {text}")
        for place, record in enumerate(records):
            if record in records[place + 1 :]:
                continue
            left = len(records) - place
            if left <= living if record not in self._times else left > may_live:
                text = "is in the map" if record in self._times else "is not in the map"
                raise Broken(f"key {key!r}: {record!r} {text}, and {living} to {may_live} have not expired")


class Counted(NamedTuple):
    """The operator state of a subtask at a barrier."""

    counts: list[list[int]]
    numbers: dict[int, int]


class Count(Operator):
    """Hands records on, and counts them in a list that is united and in broadcast state.

    After a restore each subtask has the counts of all, and the numbers of one: its own at the same
    parallelism. A subtask that had ended has left nothing.
    """

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._count = 0

    def open(self, context: OperatorContext) -> None:
        """Compare what was restored.

        Raises:
            Broken: it is not what was there at the barrier.
        """
        self._context = context
        self._numbers = context.operator.broadcast("numbers")
        restored = self._witness.restored(context)
        notes: dict[int, Counted] = (
            {} if restored is None else self._witness.notes.of(context.vertex, restored)
        )
        where = f"{context.vertex}[{context.subtask}] begins with checkpoint {restored}"
        counts, numbers = context.operator.get("counts"), dict(self._numbers)
        wanted = sorted(count for note in notes.values() for count in note.counts)
        if sorted(counts) != wanted:
            raise Broken(f"{where} and the counts {counts}, and {wanted} were there")
        if restored is not None and self._witness.notes.is_own(restored):
            own = notes.get(context.subtask)
            allowed = [{} if own is None else own.numbers]
        else:
            allowed = [{}, *(note.numbers for note in notes.values())]
        if numbers not in allowed:
            raise Broken(f"{where} and the broadcast state {numbers}, and {allowed} was there")

    def process(self, block: RecordBlock) -> RecordBlock:
        """Count the records."""
        for payload in block.payloads():
            self._count += 1
            self._numbers[payload[-1] % _NUMBERS] = self._count
        return block

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Put the count into the state, and note all of it."""
        context = self._context
        counts = [[context.subtask, checkpoint_id, self._count]]
        context.operator.put("counts", counts, Redistribution.UNION)
        self._witness.notes.add(context, checkpoint_id, Counted(counts, dict(self._numbers)))


def _add(left: int, right: int) -> int:
    return left + right


def _accumulate(sums: list[int], value: int) -> list[int]:
    sums[0] += value
    sums[1] += 1
    return sums


_KEEPING: dict[Work, type[Keeping]] = {
    Work.SUM: Sum,
    Work.SUM_IN_VALUE: SumInValue,
    Work.SUM_IN_AGGREGATE: SumInAggregate,
    Work.GATHER: Gather,
    Work.GATHER_IN_MAP: GatherInMap,
}


def operator_of(
    case: StormCase, vertex: StormVertex, commit: Commit, witness: Witness
) -> OperatorFactory | None:
    """What a vertex does; None: it hands records on."""
    if vertex.work in _KEEPING:
        return partial(_made, partial(_KEEPING[vertex.work], witness))
    match vertex.work:
        case Work.MARK:
            return map_records(mark)
        case Work.COPY:
            return flat_map(lambda record: copies_of(record, vertex.copies))
        case Work.FILTER:
            return flat_map(filtered)
        case Work.REMEMBER:
            return partial(_made, partial(Remember, witness, vertex.ttl_s))
        case Work.COUNT:
            return partial(_made, partial(Count, witness))
        case Work.SINK:
            return transactional_sink(commit) if case.transactional else _plain_sink(vertex, commit)
        case _:
            return None


def _made(make: Callable[[], Operator], subtask: int) -> Operator:
    return make()


def _plain_sink(vertex: StormVertex, commit: Commit) -> OperatorFactory:
    """A sink that takes each record for final at once, which a restart proves wrong."""
    numbers = count()
    return sink(lambda record: commit(Transaction(vertex.name, 0, next(numbers), (record,))))
