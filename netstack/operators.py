"""Operators: what a subtask does with the records it reads.

A user gives a function over one record (`bytes`) or over a block of records; blocks are the fast path.
An operator is made anew for each subtask, so its state is the subtask's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from buffers import RecordBlock

RecordFunction = Callable[[bytes], bytes]
FlatFunction = Callable[[bytes], Iterable[bytes]]
BlockFunction = Callable[[RecordBlock], RecordBlock]
Pair = tuple[bytes, int]


class Operator(Protocol):
    """What a subtask runs."""

    one_to_one: bool
    """Whether each input record gives exactly one output record, so that blocks can be cut anywhere."""

    def process(self, block: RecordBlock) -> RecordBlock:
        """Turn input records into output records."""
        ...

    def finish(self) -> RecordBlock:
        """The last output records, when the input has ended."""
        ...


OperatorFactory = Callable[[int], Operator]
"""Makes the operator of the subtask with the given index."""

NOTHING = RecordBlock.from_payloads([])
"""No records."""


class Forward:
    """Hands records on as they are; what a vertex without a function does."""

    one_to_one = True

    def process(self, block: RecordBlock) -> RecordBlock:
        """The same block."""
        return block

    def finish(self) -> RecordBlock:
        """Nothing is left."""
        return NOTHING


class Map:
    """Applies a function to each record, one to one."""

    one_to_one = True

    def __init__(self, function: RecordFunction) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """One output record for each input record."""
        return RecordBlock.from_payloads([self._function(bytes(payload)) for payload in block.payloads()])

    def finish(self) -> RecordBlock:
        """Nothing is left."""
        return NOTHING


class MapBlocks:
    """Applies a function to whole blocks; it has to return as many records as it was given."""

    one_to_one = True

    def __init__(self, function: BlockFunction) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """As many records as went in.

        Raises:
            ValueError: if the function returned another number of records.
        """
        result = self._function(block)
        if len(result) != len(block):
            raise ValueError(f"a block function was given {len(block)} records and returned {len(result)}")
        return result

    def finish(self) -> RecordBlock:
        """Nothing is left."""
        return NOTHING


class FlatMap:
    """Applies a function to each record that gives any number of records."""

    one_to_one = False

    def __init__(self, function: FlatFunction) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """All output records of all input records."""
        function = self._function
        return RecordBlock.from_payloads(
            [out for payload in block.payloads() for out in function(bytes(payload))]
        )

    def finish(self) -> RecordBlock:
        """Nothing is left."""
        return NOTHING


class KeySum:
    """Sums numbers by key and gives the sums when the input has ended, ordered by key."""

    one_to_one = False

    def __init__(self, parse: Callable[[bytes], Pair], render: Callable[[bytes, int], bytes]) -> None:
        self._parse = parse
        self._render = render
        self.sums: dict[bytes, int] = {}

    def process(self, block: RecordBlock) -> RecordBlock:
        """Add up; nothing goes out yet."""
        sums = self.sums
        for payload in block.payloads():
            key, value = self._parse(bytes(payload))
            sums[key] = sums.get(key, 0) + value
        return NOTHING

    def finish(self) -> RecordBlock:
        """One record for each key."""
        return RecordBlock.from_payloads(
            [self._render(key, value) for key, value in sorted(self.sums.items())]
        )


class Sink:
    """Hands each record to a function; nothing goes on."""

    one_to_one = False

    def __init__(self, function: Callable[[bytes], None]) -> None:
        self._function = function

    def process(self, block: RecordBlock) -> RecordBlock:
        """Call the function for each record, in order."""
        for payload in block.payloads():
            self._function(bytes(payload))
        return NOTHING

    def finish(self) -> RecordBlock:
        """Nothing is left."""
        return NOTHING


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
    """A vertex that sums by key: ``parse(record)`` gives key and number, ``render`` the last records."""
    return lambda subtask: KeySum(parse, render)


def sink(function: Callable[[bytes], None]) -> OperatorFactory:
    """A vertex that hands each record to `function`."""
    return lambda subtask: Sink(function)
