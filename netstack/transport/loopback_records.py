"""Records of one process to itself, on the way from its writer to its reader: no segments, no copy."""

from __future__ import annotations

from collections import deque

RECORD_BYTES = 200
"""What a record takes beside its bytes: the object that holds them, and its place in the queue."""

_MOST_KEPT = 2
"""How many times as large as a record the memory may be that it is a part of, to be kept for it."""


class LoopbackRecords:
    """A queue of records that is full from `max_bytes` on, by what they take; one record may take more.

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
        """Append a record of bytes; it is copied if it could still change, or keeps much else alive."""
        size = len(record)
        self._queue.append(record if _may_be_kept(record) else memoryview(bytes(record)))
        self._queued_bytes += size + RECORD_BYTES
        self.records += 1
        self.bytes += size

    def take(self) -> memoryview:
        """Take the first record, of which there is at least one."""
        record = self._queue.popleft()
        self._queued_bytes -= len(record) + RECORD_BYTES
        return record

    def close(self) -> list[memoryview]:
        """Take nothing more, and give back what waits, in order."""
        self.closed = True
        waiting = list(self._queue)
        self._queue.clear()
        self.records -= len(waiting)
        self.bytes -= sum(map(len, waiting))
        self._queued_bytes = 0
        return waiting


def _may_be_kept(record: memoryview) -> bool:
    """Whether the memory of a record never changes, as that of bytes and of Arrow's buffers, and is its own.

    That a view cannot be written to says nothing of its owner.
    """
    owner = record.obj
    never_changes = type(owner) is bytes or getattr(owner, "is_mutable", True) is False
    return never_changes and memoryview(owner).nbytes <= _MOST_KEPT * (len(record) + RECORD_BYTES)
