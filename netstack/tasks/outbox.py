"""What comes of one block of input records, emitted as the service of each of them is over."""

from __future__ import annotations

from buffers import RecordBlock

from .operators import Operator
from .subtask import Subtask


class Outbox:
    """The output of one block of input records, emitted up to a given input record.

    `position`: input records that are done with, their output written. A snapshot may be taken whenever the
    subtask waits for its outputs between two of them, so an operator with state sees a record only when
    its turn has come; one without is given the whole block at once.
    """

    __slots__ = ("_ahead", "_block", "_channels", "_operator", "_subtask", "position")

    def __init__(self, subtask: Subtask, operator: Operator, block: RecordBlock) -> None:
        self.position = 0
        self._subtask = subtask
        self._operator = operator
        self._ahead = operator.one_to_one
        self._block = operator.process(block) if self._ahead and len(block) else block
        self._channels = subtask.select_channels(self._block) if self._ahead else []

    async def emit(self, records: int) -> None:
        """Emit what comes of the first `records` input records and has not been emitted yet."""
        if self._ahead:
            await self._emit_ready(records)
            return
        if self.position == records:
            return
        if self._operator.emits_later and self._subtask.available:  # and so it is after each of them
            self._operator.process(self._block[self.position : records])
            self.position = records
        while self.position < records:
            await self._process_next()
            if not self._subtask.available:
                await self._subtask.wait_for_output()

    async def _emit_ready(self, records: int) -> None:
        """Emit records one by one: each only while the outputs are available."""
        subtask = self._subtask
        while self.position < records:
            self.position = await subtask.emit(self._block, self._channels, self.position, records)
            if not subtask.available:
                await subtask.wait_for_output()

    async def _process_next(self) -> None:
        """Process one record and emit all that comes of it; mail has to wait meanwhile."""
        start = self.position
        output = self._operator.process(self._block[start : start + 1])
        if len(output):
            await self._subtask.emit_all(output)
        self.position = start + 1
