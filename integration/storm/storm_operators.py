"""What the vertices of storms do: stateless work, and every kind of keyed state.

Operators with state tell a `StateWitness` what they keep at each barrier, which it holds against what is
stored then. State with a time-to-live is held against a copy beside it, whose entries have their times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Any, Protocol

from buffers import RecordBlock
from netstack import (
    KeyedOperator,
    KeyedStateBackend,
    Operator,
    OperatorContext,
    OperatorFactory,
    StateTtlConfig,
    Transaction,
    flat_map,
    map_records,
    sink,
    transactional_sink,
)

from .case import StormCase, StormVertex, Work
from .storm_records import copies_of, filtered, key_of, mark, sum_record, value_of

Commit = Callable[[Transaction], None]

_LOOKS_OFTEN = 16
"""So many records of a key look at what is remembered; of later ones one in as many does."""


class Broken(AssertionError):  # noqa: N818 - it names what happened
    """Something does not hold in the middle of a run."""


class Witness(Protocol):
    """Who is told what an operator keeps."""

    @property
    def now_ms(self) -> int:
        """The time of the run in whole milliseconds, rounded as state rounds it."""
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


class Remember(KeyedOperator):
    """Hands records on, and remembers them for a while: a value, a list and a map of each key that expire.

    What is written is noted beside the state, with its time; what was written by an attempt before is not
    known, and so only what this attempt has written is looked for.
    """

    def __init__(self, witness: Witness, ttl_s: float) -> None:
        self._witness = witness
        self._ttl = StateTtlConfig(ttl_s)
        self._known: dict[bytes, list[tuple[bytes, int]]] = {}

    def key_of(self, record: bytes) -> object:
        """The key of a record."""
        return key_of(record)

    def declare(self, state: KeyedStateBackend) -> None:
        """Ask for the states."""
        self._last = state.value("last", ttl=self._ttl)
        self._all = state.list("all", ttl=self._ttl)
        self._times = state.map("times", ttl=self._ttl)

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Look at what is remembered of the key, and add the record."""
        key, now_ms = key_of(record), self._witness.now_ms
        written = self._known.setdefault(key, [])
        if written and (len(written) < _LOOKS_OFTEN or len(written) % _LOOKS_OFTEN == 0):
            living = [each for each, at_ms in written if at_ms + self._ttl.ttl_ms > now_ms]
            self._compare(key, living, written[-1][0])
        self._last.update(record)
        self._all.add(record)
        self._times.put(record, len(written))
        written.append((record, now_ms))
        return (record,)

    def _compare(self, key: bytes, living: list[bytes], latest: bytes) -> None:
        last, every = self._last.get(), self._all.get()
        if last != (latest if living else None):
            raise Broken(
                f"key {key!r} has the value {last!r}, and {living[-1:]} was written and has not expired"
            )
        if living and every[-len(living) :] != living:
            raise Broken(f"key {key!r} has a list that ends with {every[-3:]}, and not with {living[-3:]}")
        missing = [each for each in living if each not in self._times]
        if missing:
            raise Broken(f"key {key!r} has a map without {missing[0]!r}, which has not expired")


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
