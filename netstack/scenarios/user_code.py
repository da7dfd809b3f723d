"""Interfaces for user code in a scenario: sources, keys, operators.

A job opens one `SourceReader` of a `Source` for each subtask, and reads blocks of records from it until the
input ends. Readers are synchronous and must not wait, so slow preparations belong before the start of the
job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock

__all__ = ["Source", "SourceReader", "object_name"]

KeyHash = Callable[[RecordBlock], "np.ndarray[tuple[int], np.dtype[np.int32]]"]
"""Returns Java's hashCode of the key of each record of a block."""

KeyOf = Callable[[bytes], object]
"""Returns the key of a record, computed from the bytes of that record only."""


class SourceReader(Protocol):
    """Reads the records of one subtask, in order."""

    def read(self, max_records: int) -> RecordBlock | None:
        """Return the next records, from 1 to ``max_records`` (>= 1) of them; None at the end of the input.

        The block stays valid and unchanged as long as it is referenced. After the first None, all further
        calls return None.

        Raises:
            SourceError: if the records cannot be read.
        """

    def seek(self, position: int) -> None:
        """Move to a position: the next record follows the first ``position`` (>= 0) records of the input.

        Later reads return the same records as if ``position`` records had been read; a position beyond the
        end of the input counts as the end. The method is optional: see `skip`.

        Raises:
            ValueError: if ``position`` is negative.
            SourceError: if the records cannot be read.
        """

    def close(self) -> None:
        """Release the resources of the reader (files, memory); a second call does nothing."""


class Source(Protocol):
    """The source of the records of a vertex.

    After a change of parallelism, a job opens the readers of the earlier run with their former subtask and
    parallelism. If the records of a source depend on more than these two numbers, the source has a method
    `open_split`. The job then calls `open_split`, which raises a SourceError if the source cannot provide the
    same records.
    """

    @property
    def parallelism_hint(self) -> int | None:
        """Number of subtasks that matches the source's own partitions; None if any number is possible."""

    def open(self, subtask: int, parallelism: int) -> SourceReader:
        """Return the reader of the subtask with index ``subtask``, out of ``parallelism`` subtasks.

        Together, the readers read every record once.

        Raises:
            SourceError: if the source cannot be read.
        """

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return Java's hash code of each record's key, read from the record's bytes."""


class OperatorOfRecords(Protocol):
    """The members of an `Operator` that the rules for scenarios use."""

    @property
    def keyed(self) -> bool:
        """Whether the operator keeps keyed state."""

    @property
    def reads_broadcast(self) -> bool:
        """Whether the operator processes records of ``broadcast`` edges separately."""

    def key_of(self, record: bytes) -> object:
        """Return the key of a record; also called on an operator that is never opened."""


@dataclass(frozen=True, slots=True)
class NamedObject:
    """Name of a Python object, in place of the object; documents can contain only names."""

    name: str


def object_name(user_object: object) -> str:
    """Return the name of a Python object for documents: the name of a function, or of an object's class."""
    if isinstance(user_object, NamedObject):
        return user_object.name
    return str(getattr(user_object, "__qualname__", type(user_object).__name__))
