"""Errors of memory and records."""

__all__ = ["CorruptRecord", "InsufficientBuffers", "PoolDestroyed"]

# ruff: noqa: N818 - the names describe the error without the suffix "Error".


class PoolDestroyed(RuntimeError):
    """The pool has been destroyed, because the task is being cancelled (CancelTaskException)."""


class InsufficientBuffers(OSError):
    """The network memory has too few segments for a request. No segment was taken. (Flink: an IOException.)

    `required`: segments that the request needs. `available`: segments that it could get. `total`: segments of
    the pool. `segment_size`: bytes. `task_manager`: owner of the memory, if known.
    """

    def __init__(
        self, required: int, available: int, total: int, segment_size: int, task_manager: str = ""
    ) -> None:
        self.required = required
        self.available = available
        self.total = total
        self.segment_size = segment_size
        self.task_manager = task_manager
        where = f"task manager {task_manager}: " if task_manager else ""
        super().__init__(
            f"{where}Insufficient number of network buffers: required {required}, but only {available} "
            f"available. The total number of network buffers is currently set to {total} of "
            f"{segment_size} bytes each. Raise the option that sets this number "
            "(taskmanager.memory.network.max, taskmanager.memory.network.min or "
            "taskmanager.memory.network.fraction), or lower the parallelism, which needs fewer buffers."
        )

    def __reduce__(self) -> tuple[type, tuple[int, int, int, int, str]]:
        return type(self), (self.required, self.available, self.total, self.segment_size, self.task_manager)


class CorruptRecord(ValueError):
    """The bytes are not a sequence of records: a length is negative or over the limit.

    `length` is the length in the header, in bytes; `position` is the start of the header, in bytes from the
    start of the stream.
    """

    def __init__(self, length: int, position: int, limit: int) -> None:
        self.length = length
        self.position = position
        self.limit = limit
        super().__init__(
            f"the record at byte {position} of the stream has a length of {length} bytes; its length "
            f"must be from 0 to {limit}"
        )

    def __reduce__(self) -> tuple[type, tuple[int, int, int]]:
        return type(self), (self.length, self.position, self.limit)
