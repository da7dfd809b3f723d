"""Operators: what a subtask does with the records it reads.

A user gives a function over one record (`bytes`) or over a block of records; blocks are the fast path.
An operator is made anew for each subtask and each attempt to run the job. What it wants to find again
after a restart it keeps in the state of its context; anything else is gone with the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from buffers import RecordBlock

from ..exchange.key_groups import key_groups
from ..scenarios.user_code import KeyHash
from ..state.keyed_state import KeyedStateBackend
from ..state.operator_state import BroadcastState, OperatorStateBackend
from ..state.state_kinds import ReducingState

RecordFunction = Callable[[bytes], bytes]
FlatFunction = Callable[[bytes], Iterable[bytes]]
BlockFunction = Callable[[RecordBlock], RecordBlock]
Pair = tuple[bytes, int]

BROADCAST_NAME = "broadcast"
"""Name of the state of what all subtasks have read."""

NOTHING = RecordBlock.from_payloads([])
"""No records."""


def _unheard(text: str) -> None:
    """Discard a trace message."""


class OperatorContext(NamedTuple):
    """Context of an operator when it opens; its state has been restored by then.

    `key_hash`: Java's hashCode of the key of each record of a block, None where the input is not hash
    partitioned. `checkpointing`: whether checkpoints are taken regularly. `trace` tells the trace of the
    job, if there is one, what happens here.
    """

    vertex: str
    subtask: int
    keyed: KeyedStateBackend
    operator: OperatorStateBackend
    key_hash: KeyHash | None = None
    checkpointing: bool = False
    trace: Callable[[str], None] = _unheard

    def key_groups(self, block: RecordBlock) -> list[int]:
        """Return the key group of each record; the subtask's first one if the records are not hashed."""
        if self.key_hash is None:
            return [self.keyed.key_groups.start] * len(block)
        groups: list[int] = key_groups(self.key_hash(block), self.keyed.max_parallelism).tolist()
        return groups


class Operator:
    """Base of all operators; the methods here do nothing, so that an operator writes only those it needs."""

    one_to_one = False
    """Whether each input record gives exactly one output record and nothing is remembered of it, so that
    blocks may be processed ahead of their time and cut anywhere."""

    emits_later = False
    """Whether the results of a record are never emitted at once, so that many may be processed together."""

    keyed = False
    """Whether it keeps state by the key that `key_of` says: then all records of a key have to reach one
    subtask, and a hash exchange that is given no other hash deals them out by this key."""

    reads_broadcast = False
    """Whether it treats the records of edges of ship ``broadcast`` by themselves."""

    hears_of_completion = False
    """Whether `checkpoint_completed` does anything; follows from that."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.hears_of_completion = cls.checkpoint_completed is not Operator.checkpoint_completed

    def key_of(self, record: bytes) -> object:
        """The key of a record: bytes, text, a number, or a tuple of these; also asked before `open`."""
        raise NotImplementedError

    def open(self, context: OperatorContext) -> None:
        """Get ready; called once, before the first record."""

    def process(self, block: RecordBlock) -> RecordBlock:
        """Turn input records into output records."""
        raise NotImplementedError

    def finish(self) -> RecordBlock:
        """The last output records, when the input has ended."""
        return NOTHING

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Put into the state what is not there yet: it is about to be snapshotted."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """The whole job has completed a checkpoint."""


OperatorFactory = Callable[[int], Operator]
"""Makes the operator of the subtask with the given index; also to ask it for keys, and never to open it."""


class Forward(Operator):
    """Hands records on as they are; what a vertex without a function does."""

    one_to_one = True

    def process(self, block: RecordBlock) -> RecordBlock:
        """Return the block as it came."""
        return block


class Map(Operator):
    """Applies a function to each record, one to one."""

    one_to_one = True

    def __init__(self, function: RecordFunction) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """One output record for each input record."""
        return RecordBlock.from_payloads([self._function(bytes(payload)) for payload in block.payloads()])


class MapBlocks(Operator):
    """Applies a function to whole blocks; it has to return as many records as it was given."""

    one_to_one = True

    def __init__(self, function: BlockFunction) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """Return as many records as went in.

        Raises:
            ValueError: if the function returned another number of records.
        """
        result = self._function(block)
        if len(result) != len(block):
            raise ValueError(f"a block function was given {len(block)} records and returned {len(result)}")
        return result


def _several(records: Iterable[bytes]) -> Iterable[bytes]:
    """Records that a user's function gives; of one by itself each byte would be taken for a record."""
    if records is None or isinstance(records, bytes | bytearray | memoryview | str):
        raise TypeError(f"an operator returned {records!r:.40}; return a list of records, such as [record]")
    return records


class FlatMap(Operator):
    """Applies a function to each record that gives any number of records."""

    def __init__(self, function: FlatFunction) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """All output records of all input records."""
        function = self._function
        return RecordBlock.from_payloads(
            [out for payload in block.payloads() for out in _several(function(bytes(payload)))]
        )


class KeyedOperator(Operator):
    """Works on one record at a time, with state that is scoped by the record's key.

    A subclass declares its state, says what the key of a record is, and what a record does. Where there are
    several subtasks, its input has to be hash partitioned by that key.
    """

    keyed = True
    _context: OperatorContext

    def open(self, context: OperatorContext) -> None:
        """Declare the state."""
        self._context = context
        self.declare(context.keyed)

    def declare(self, state: KeyedStateBackend) -> None:
        """Ask for the states that `process_record` uses: value, list, map, reducing, aggregating ones."""
        raise NotImplementedError

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Work on one record; the states are those of its key. Returns the output records."""
        raise NotImplementedError

    def process(self, block: RecordBlock) -> RecordBlock:
        """Work on each record, in order."""
        context, results = self._context, list[bytes]()
        for payload, group in zip(block.payloads(), context.key_groups(block), strict=True):
            record = bytes(payload)
            context.keyed.set_current_key(self.key_of(record), group)
            results.extend(_several(self.process_record(record)))
        return RecordBlock.from_payloads(results)


class KeyedBroadcastOperator(KeyedOperator):
    """Works on records by key, by rules that come with records that all subtasks read.

    These come by edges of ship ``broadcast``, and only they change the state `broadcast`, which is the same
    in all subtasks. (Flink: ``KeyedBroadcastProcessFunction``.)
    """

    reads_broadcast = True

    broadcast: Mapping[Any, Any]
    """State that the broadcast records have left; there from `open` on."""

    def open(self, context: OperatorContext) -> None:
        """Declare the states."""
        super().open(context)
        self.written_broadcast = context.operator.broadcast(BROADCAST_NAME)
        self.broadcast = MappingProxyType(self.written_broadcast)

    def process_broadcast(self, record: bytes, state: BroadcastState) -> Iterable[bytes]:
        """Work on a record that every subtask reads, and change `state` by it; returns output records."""
        raise NotImplementedError


class BroadcastSide(Operator):
    """The part of an operator that treats the records that all subtasks read."""

    def __init__(self, operator: KeyedBroadcastOperator) -> None:
        self._operator = operator

    def process(self, block: RecordBlock) -> RecordBlock:
        """Work on each record, in order."""
        operator, results = self._operator, list[bytes]()
        for payload in block.payloads():
            results.extend(_several(operator.process_broadcast(bytes(payload), operator.written_broadcast)))
        return RecordBlock.from_payloads(results)


class KeySum(Operator):
    """Sums numbers by key in keyed state; gives the sums when the input has ended, ordered by key."""

    keyed = True

    def __init__(self, parse: Callable[[bytes], Pair], render: Callable[[bytes, int], bytes]) -> None:
        self._parse = parse
        self._render = render
        self._context: OperatorContext
        self._sums: ReducingState[int]

    def open(self, context: OperatorContext) -> None:
        """Declare the state."""
        self._context = context
        self._sums = context.keyed.reducing("sum", _add)

    def key_of(self, record: bytes) -> object:
        """The key of a record."""
        return self._parse(record)[0]

    def process(self, block: RecordBlock) -> RecordBlock:
        """Add up; nothing goes out yet."""
        context, sums = self._context, self._sums
        for payload, group in zip(block.payloads(), context.key_groups(block), strict=True):
            key, value = self._parse(bytes(payload))
            context.keyed.set_current_key(key, group)
            sums.add(value)
        return NOTHING

    def finish(self) -> RecordBlock:
        """One record for each key."""
        return RecordBlock.from_payloads(
            [self._render(key, value) for key, value in sorted(self._sums.items())]
        )


class Sink(Operator):
    """Hands each record to a function, at once: after a restart it sees some of them again."""

    def __init__(self, function: Callable[[bytes], None]) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """Call the function for each record, in order."""
        for payload in block.payloads():
            self._function(bytes(payload))
        return NOTHING


def _add(left: int, right: int) -> int:
    return left + right


def map_records(function: RecordFunction) -> OperatorFactory:
    """A vertex that applies `function` to each record."""
    return lambda subtask: Map(function)


def map_blocks(function: BlockFunction) -> OperatorFactory:
    """A vertex that applies `function` to blocks of records; it keeps their number."""
    return lambda subtask: MapBlocks(function)


def flat_map(function: FlatFunction) -> OperatorFactory:
    """A vertex that turns each record into any number of records."""
    return lambda subtask: FlatMap(function)


def key_sum(
    parse: Callable[[bytes], Pair],
    render: Callable[[bytes, int], bytes] = lambda key, value: b"%b %d" % (key, value),
) -> OperatorFactory:
    """Return a vertex that sums by key: ``parse(record)`` gives key and number.

    When the input ends, ``render(key, sum)`` gives the record of each key.
    """
    return lambda subtask: KeySum(parse, render)


def sink(function: Callable[[bytes], None]) -> OperatorFactory:
    """A vertex that hands each record to `function`; after a restart, some of them a second time."""
    return lambda subtask: Sink(function)
