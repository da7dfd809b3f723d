"""Records of one process to itself, on the way from its writer to its reader: no segments, no copy."""

from __future__ import annotations

from collections import deque


class LoopbackRecords:
    """A queue of records that is full from `max_bytes` on; a single record may be larger.

    `records` and `bytes` count what was added and not given back by `close`. Invariant: what is closed is
    empty.
    """

    def __init__(self, max_bytes: int) -> None:
        self.records = 0
        self.bytes = 0
        self.closed = False
        self._max_bytes = max_bytes
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0

    def __len__(self) -> int:
        """Records that wait."""
        return len(self._queue)

    @property
    def full(self) -> bool:
        """Whether the writer has to wait before it adds another."""
        return self._queued_bytes >= self._max_bytes

    def add(self, record: memoryview) -> None:
        """Append a record of bytes; one that its writer can still change is copied."""
        size = len(record)
        self._queue.append(record if record.readonly else memoryview(bytes(record)))
        self._queued_bytes += size
        self.records += 1
        self.bytes += size

    def take(self) -> memoryview:
        """Take the first record, of which there is at least one."""
        record = self._queue.popleft()
        self._queued_bytes -= len(record)
        return record

    def close(self) -> list[memoryview]:
        """Take nothing more, and give back what waits, in order."""
        self.closed = True
        waiting = list(self._queue)
        self._queue.clear()
        self.records -= len(waiting)
        self.bytes -= self._queued_bytes
        self._queued_bytes = 0
        return waiting
