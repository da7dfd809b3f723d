"""Operators: process the records that a subtask reads.

A user provides a function over one record (`bytes`) or over a block of records; blocks are faster. An
operator is created for each subtask and each attempt. Data that it needs after a restart must be in the state
of its context; all other data is lost with the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import add
from types import MappingProxyType
from typing import Any, NamedTuple

from buffers import RecordBlock

from ..exchange.key_groups import key_groups
from ..scenarios.user_code import KeyHash
from ..state.keyed_state import KeyedStateBackend
from ..state.operator_state import BroadcastState, OperatorStateBackend
from ..state.state_kinds import ReducingState

__all__ = [
    "FlatMap",
    "KeyedBroadcastOperator",
    "KeyedOperator",
    "Map",
    "Operator",
    "OperatorContext",
    "OperatorFactory",
    "Sink",
    "flat_map",
    "key_sum",
    "map_blocks",
    "map_records",
    "sink",
]

RecordFunction = Callable[[bytes], bytes]
FlatFunction = Callable[[bytes], Iterable[bytes]]
BlockFunction = Callable[[RecordBlock], RecordBlock]
Pair = tuple[bytes, int]

BROADCAST_NAME = "broadcast"
"""Name of the broadcast state."""

NOTHING = RecordBlock.from_payloads([])
"""An empty block."""


class OperatorContext(NamedTuple):
    """Context that an operator gets when it opens; the state in it has been restored.

    `key_hash`: Java's hashCode of the key of each record of a block; None if the input is not hash
    partitioned. `checkpointing`: whether checkpoints are taken regularly. `trace` adds a text to the trace of
    the job, if the job has a trace.
    """

    vertex: str
    subtask: int
    keyed: KeyedStateBackend
    operator: OperatorStateBackend
    key_hash: KeyHash | None = None
    checkpointing: bool = False
    trace: Callable[[str], None] = lambda text: None

    def key_groups(self, block: RecordBlock) -> list[int]:
        """Return the key group of each record.

        Without hash partitioning this is the subtask's first key group.
        """
        if self.key_hash is None:
            return [self.keyed.key_groups.start] * len(block)
        groups: list[int] = key_groups(self.key_hash(block), self.keyed.max_parallelism).tolist()
        return groups


class Operator:
    """Base of all operators; most methods do nothing, so a subclass overrides only those that it needs."""

    one_to_one = False
    """Whether each input record yields exactly one output record, independent of other records, so that
    blocks may be processed ahead of time and split anywhere.
    """

    emits_later = False
    """Whether output is only emitted later, never while records are processed, so that many records may be
    processed together.
    """

    keyed = False
    """Whether the operator keeps state for each key that `key_of` returns.

    All records of a key must then reach the same subtask. A hash exchange without its own hash function
    distributes records by this key.
    """

    reads_broadcast = False
    """Whether the operator processes the records of ``broadcast`` edges separately."""

    hears_of_completion = False
    """Whether `checkpoint_completed` is overridden."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.hears_of_completion = cls.checkpoint_completed is not Operator.checkpoint_completed

    def key_of(self, record: bytes) -> object:
        """Return the key of a record: bytes, text, a number, or a tuple of these.

        This method may be called before `open`.
        """
        raise NotImplementedError

    def open(self, context: OperatorContext) -> None:
        """Prepare the operator; called once, before the first record."""

    def process(self, block: RecordBlock) -> RecordBlock:
        """Turn input records into output records."""
        raise NotImplementedError

    def finish(self) -> RecordBlock:
        """Return the last output records, at the end of the input.

        Remove from the state what is returned. A checkpoint may follow, and at another parallelism its state
        goes to subtasks that have not ended, as in Flink.
        """
        return NOTHING

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Write all data that must survive a restart into the state, before the state is snapshotted."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Handle the completion of a checkpoint by the whole job. Does nothing unless overridden."""


OperatorFactory = Callable[[int], Operator]
"""Creates the operator of the subtask with this index.

Some operators are never opened, and only used for their keys.
"""


class Forward(Operator):
    """Forwards records unchanged; the operator of a vertex without a function."""

    one_to_one = True

    def process(self, block: RecordBlock) -> RecordBlock:
        """Return the block unchanged."""
        return block


class Map(Operator):
    """Applies a function to each record, one to one."""

    one_to_one = True

    def __init__(self, function: RecordFunction) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """Return one output record for each input record."""
        return RecordBlock.from_payloads([self._function(bytes(payload)) for payload in block.payloads()])


class MapBlocks(Operator):
    """Applies a function to whole blocks; it must return as many records as it gets."""

    one_to_one = True

    def __init__(self, function: BlockFunction) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """Return the function's result, with as many records as the block.

        Raises:
            ValueError: if the function returned another number of records.
        """
        result = self._function(block)
        if len(result) != len(block):
            raise ValueError(
                f"a block function got {len(block)} records but returned {len(result)}; it must return "
                "one for each"
            )
        return result


def _several(records: Iterable[bytes]) -> Iterable[bytes]:
    """Check that a user function returned neither None nor a single record.

    Each byte of a single record would count as a record.
    """
    if records is None or isinstance(records, bytes | bytearray | memoryview | str):
        raise TypeError(
            f"an operator returned {records!r:.40}; it must return a list of records, such as [record]"
        )
    return records


class FlatMap(Operator):
    """Applies a function to each record; the function returns any number of records."""

    def __init__(self, function: FlatFunction) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """Return all output records of all input records."""
        function = self._function
        return RecordBlock.from_payloads(
            [out for payload in block.payloads() for out in _several(function(bytes(payload)))]
        )


class KeyedOperator(Operator):
    """Processes one record at a time, with state that is scoped by the record's key.

    A subclass declares its state, the key of a record, and the processing of a record. With several subtasks,
    its input must be hash partitioned by this key.
    """

    keyed = True
    _context: OperatorContext

    def open(self, context: OperatorContext) -> None:
        """Declare the state."""
        self._context = context
        self.declare(context.keyed)

    def declare(self, state: KeyedStateBackend) -> None:
        """Declare the states that `process_record` uses: value, list, map, reducing, aggregating ones."""
        raise NotImplementedError

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Process one record; the states refer to its key. Returns the output records."""
        raise NotImplementedError

    def process(self, block: RecordBlock) -> RecordBlock:
        """Process each record, in order."""
        context, results = self._context, list[bytes]()
        for payload, group in zip(block.payloads(), context.key_groups(block), strict=True):
            record = bytes(payload)
            context.keyed.set_current_key(self.key_of(record), group)
            results.extend(_several(self.process_record(record)))
        return RecordBlock.from_payloads(results)


class KeyedBroadcastOperator(KeyedOperator):
    """Processes keyed records with rules from broadcast records, which all subtasks read.

    Broadcast records arrive on edges of ship ``broadcast``. Only broadcast records change the state
    `broadcast`, so it is equal in all subtasks. (Flink: ``KeyedBroadcastProcessFunction``.)
    """

    reads_broadcast = True

    broadcast: Mapping[Any, Any]
    """State written by the broadcast records; available from `open` on."""

    def open(self, context: OperatorContext) -> None:
        """Declare the states."""
        super().open(context)
        self.written_broadcast = context.operator.broadcast(BROADCAST_NAME)
        self.broadcast = MappingProxyType(self.written_broadcast)

    def process_broadcast(self, record: bytes, state: BroadcastState) -> Iterable[bytes]:
        """Process a broadcast record, which may change `state`; returns output records."""
        raise NotImplementedError


class BroadcastSide(Operator):
    """The part of an operator that processes broadcast records."""

    def __init__(self, operator: KeyedBroadcastOperator) -> None:
        self._operator = operator

    def process(self, block: RecordBlock) -> RecordBlock:
        """Process each record, in order."""
        operator, results = self._operator, list[bytes]()
        for payload in block.payloads():
            results.extend(_several(operator.process_broadcast(bytes(payload), operator.written_broadcast)))
        return RecordBlock.from_payloads(results)


class KeySum(Operator):
    """Sums numbers by key in keyed state; emits the sums at the end of the input, ordered by key."""

    keyed = True

    def __init__(self, parse: Callable[[bytes], Pair], render: Callable[[bytes, int], bytes]) -> None:
        self._parse = parse
        self._render = render
        self._context: OperatorContext
        self._sums: ReducingState[int]

    def open(self, context: OperatorContext) -> None:
        """Declare the state."""
        self._context = context
        self._sums = context.keyed.reducing("sum", add)

    def key_of(self, record: bytes) -> object:
        """Return the key of a record."""
        return self._parse(record)[0]

    def process(self, block: RecordBlock) -> RecordBlock:
        """Add the numbers of the records; returns no records."""
        context, sums = self._context, self._sums
        for payload, group in zip(block.payloads(), context.key_groups(block), strict=True):
            key, value = self._parse(bytes(payload))
            context.keyed.set_current_key(key, group)
            sums.add(value)
        return NOTHING

    def finish(self) -> RecordBlock:
        """Return one record for each key."""
        return RecordBlock.from_payloads(
            [self._render(key, value) for key, value in sorted(self._sums.items())]
        )


class Sink(Operator):
    """Passes each record to a function at once. After a restart, some records are passed again."""

    def __init__(self, function: Callable[[bytes], None]) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """Call the function for each record, in order."""
        for payload in block.payloads():
            self._function(bytes(payload))
        return NOTHING


def map_records(function: RecordFunction) -> OperatorFactory:
    """Return a factory of operators that apply `function` to each record."""
    return lambda subtask: Map(function)


def map_blocks(function: BlockFunction) -> OperatorFactory:
    """Return a factory of operators that apply `function` to blocks; it must keep the number of records."""
    return lambda subtask: MapBlocks(function)


def flat_map(function: FlatFunction) -> OperatorFactory:
    """Return a factory of operators that turn each record into any number of records."""
    return lambda subtask: FlatMap(function)


def key_sum(
    parse: Callable[[bytes], Pair],
    render: Callable[[bytes, int], bytes] = lambda key, value: b"%b %d" % (key, value),
) -> OperatorFactory:
    """Return a factory of operators that sum by key: ``parse(record)`` returns key and number.

    At the end of the input, ``render(key, sum)`` returns the record of each key.
    """
    return lambda subtask: KeySum(parse, render)


def sink(function: Callable[[bytes], None]) -> OperatorFactory:
    """Return a factory of operators that pass each record to `function`.

    After a restart, some records are passed again.
    """
    return lambda subtask: Sink(function)
