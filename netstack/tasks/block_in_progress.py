"""The block of records that a subtask is working on: what a snapshot taken meanwhile has to keep of it."""

from __future__ import annotations

from buffers import RecordBlock

from ..exchange.channel import InputChannel
from .operators import NOTHING, Operator
from .outbox import Outbox


class BlockInProgress:
    """A block whose records are emitted one after the other, and how far that has come."""

    __slots__ = ("_block", "_outbox", "channel")

    def __init__(self, channel: InputChannel, block: RecordBlock, outbox: Outbox) -> None:
        self.channel: InputChannel | None = channel
        self._block = block
        self._outbox = outbox

    def rest(self) -> bytes:
        """The records whose output is not written yet, encoded."""
        return self._block[self._outbox.position :].data.tobytes()


class BlockBeingServed:
    """A block whose records go nowhere: the operator sees them all at the end, or up to a snapshot.

    One object serves for all blocks of a subtask, one after the other: its user sets `block`, and `done`,
    the records that the operator has seen, back to 0. `channel` is None in between.
    """

    __slots__ = ("_operator", "block", "channel", "done")

    def __init__(self, operator: Operator) -> None:
        self.channel: InputChannel | None = None
        self.block = NOTHING
        self.done = 0
        self._operator = operator

    def catch_up(self, records: int) -> None:
        """Let the operator see the first `records` records, as far as it has not."""
        if records > self.done:
            seen_now = (
                self.block[self.done : records] if self.done or records < len(self.block) else self.block
            )
            self._operator.process(seen_now)
            self.done = records

    def rest(self) -> bytes:
        """The records that the operator has not seen, encoded."""
        return self.block[self.done :].data.tobytes()
