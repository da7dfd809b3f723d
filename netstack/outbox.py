"""What came of one block of input records, emitted as the service of each of them is over."""

from __future__ import annotations

from itertools import accumulate

from buffers import RecordBlock

from .operators import Operator
from .subtask import Subtask


class Outbox:
    """The output of one block of input records, emitted up to a given input record."""

    __slots__ = ("_block", "_channels", "_done", "_ends", "_subtask")

    def __init__(self, subtask: Subtask, operator: Operator, block: RecordBlock) -> None:
        self._subtask = subtask
        self._done = 0
        self._ends: list[int] | None = None
        if operator.one_to_one:
            self._block = operator.process(block) if len(block) else block
        else:
            parts = [operator.process(block[index : index + 1]) for index in range(len(block))]
            self._ends = list(accumulate(len(part) for part in parts))
            self._block = RecordBlock.concat(parts)
        self._channels = subtask.select_channels(self._block)

    async def emit(self, records: int) -> None:
        """Emit what came of the first `records` input records and has not been emitted yet."""
        if records > self._done:
            subtask, ends, start = self._subtask, self._ends, self._done
            self._done = records
            if ends is None:
                await self._emit_each(start, records)
                return
            for record in range(start, records):
                first = ends[record - 1] if record else 0
                while first < ends[record]:
                    first = await subtask.emit(self._block, self._channels, first, ends[record])
                await subtask.wait_for_output()

    async def _emit_each(self, start: int, stop: int) -> None:
        """Emit records one by one: each only while the outputs are available."""
        subtask = self._subtask
        while start < stop:
            start = await subtask.emit(self._block, self._channels, start, stop)
            if not subtask.available:
                await subtask.wait_for_output()
