"""What the harness measures a transport by: one class, whose methods move blocks of records.

In one process an object has both ends. Between processes there are two, of the same class and shape::

    process:   listen, connect | write ... write | read ... read | close
    tcp:       listen          |                 | read ... read | close     where records arrive
                       connect | write ... write |               | close     where they are written

The harness writes from as many trio tasks as there are writers and reads in another, and takes the time from
before the first `write` until the last record has been read. Nothing says which record is the last one, so
what is not sent at once has to leave by itself, as Flink's buffer timeout sees to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import trio

from buffers import RecordBlock

from .certificates import Certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What an exchange has to be like."""

    writers: int = 4
    """How many write, each to all channels."""
    channels: int = 100
    """How many channels each writer has."""
    flush_s: float = 0.1
    """The longest that a record may wait for others, in seconds (Flink's ``execution.buffer-timeout``)."""
    broadcast: bool = False
    """Whether every record goes to all channels of its writer."""
    certificate: Certificate | None = None
    """What TLS is done with; None: nothing is encrypted."""


class BenchTransport(ABC):
    """A transport under test; inherit from it, and hand the class to `run_point`, or to ``--transport``.

    An object is made for a shape within a trio program. It may start tasks in `nursery`, which are cancelled
    after `close`. What it raises ends the run, and is its result.
    """

    name: ClassVar[str]
    """What tables call it."""

    between_processes: ClassVar[bool] = True
    """Whether its two ends may be in two processes."""

    def __init__(self, shape: Shape, nursery: trio.Nursery) -> None:
        self.shape = shape
        self.nursery = nursery

    @abstractmethod
    async def listen(self) -> str:
        """Open the end where records arrive; returns what `connect` needs to know, anything or nothing."""

    @abstractmethod
    async def connect(self, address: str) -> None:
        """Open the end where records are written; `address` is what `listen` has returned."""

    @abstractmethod
    async def write(self, writer: int, block: RecordBlock, channels: Sequence[int]) -> None:
        """Write the records of a block, in order; waits while there is no room for them.

        `channels` has the channel of each record, 0 to ``shape.channels - 1``, and is empty where every
        record goes to all of them. Writers call it at the same time, each for itself.
        """

    @abstractmethod
    async def read(self) -> int:
        """Wait until something has arrived, and return how many records, of all channels together.

        A record that went to all channels counts once for each of them.
        """

    async def close(self) -> None:  # noqa: B027 - there may be nothing to do
        """Give back what was opened; called once at each end, also after a failure."""
