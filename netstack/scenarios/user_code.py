"""Interfaces of user code in a scenario: sources, keys, operators.

A job asks a `Source` for one `SourceReader` per subtask and reads blocks of records from it until the input
ends. Readers are synchronous and never wait: what is slow to prepare is prepared before the job starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock

KeyHash = Callable[[RecordBlock], "np.ndarray[tuple[int], np.dtype[np.int32]]"]
"""Gives Java's hashCode of the key of each record of a block."""

KeyOf = Callable[[bytes], object]
"""Gives the key of a record, from the bytes of that record alone."""


class SourceReader(Protocol):
    """The records of one subtask, in order."""

    def read(self, max_records: int) -> RecordBlock | None:
        """Return the next records: at least one and at most ``max_records`` (>= 1), or None at the end of
        input.

        The block stays valid, and unchanged, for as long as it is referenced. Once None, always None.

        Raises:
            SourceError: The records cannot be read.
        """
        ...

    def seek(self, position: int) -> None:
        """Make the next record the one that ``position`` (>= 0) records precede in the whole input.

        Reading on then gives what it would give had that many records been read; a position at or beyond
        the end of input is its end. A reader without this method works too: see `skip`.

        Raises:
            ValueError: ``position`` is negative.
            SourceError: The records cannot be read.
        """
        ...

    def close(self) -> None:
        """Give back what the reader holds (files, memory); a second call does nothing."""
        ...


class Source(Protocol):
    """The source of the records of a vertex.

    A job that goes on at another parallelism opens what the earlier one had opened, with the numbers of then.
    If what `open` gives depends on more than these, the source has a method `open_split` in its place, which
    raises a SourceError where it cannot give the same records.
    """

    @property
    def parallelism_hint(self) -> int | None:
        """Number of subtasks that fits the source's own partitions; None where any number does."""
        ...

    def open(self, subtask: int, parallelism: int) -> SourceReader:
        """Return the reader of subtask ``subtask`` of ``parallelism``; together they read every record once.

        Raises:
            SourceError: The source cannot be read.
        """
        ...

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return Java's hash code of each record's key, read from the record's bytes."""
        ...


class OperatorOfRecords(Protocol):
    """The part of an operator that the rules of scenarios need; a subtask runs an `Operator`."""

    @property
    def keyed(self) -> bool:
        """Whether it keeps state by key."""
        ...

    @property
    def reads_broadcast(self) -> bool:
        """Whether it treats records of edges of ship ``broadcast`` by themselves."""
        ...

    def key_of(self, record: bytes) -> object:
        """The key of a record; also asked of one that is never opened."""
        ...


@dataclass(frozen=True, slots=True)
class NamedObject:
    """The name of a Python object in its place: a document has no more of it, and nothing to run."""

    name: str


def object_name(user_object: object) -> str:
    """Return what a document calls a Python object: a function by its name, any other by its class's."""
    if isinstance(user_object, NamedObject):
        return user_object.name
    return str(getattr(user_object, "__qualname__", type(user_object).__name__))
