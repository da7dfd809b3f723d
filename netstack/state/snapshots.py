"""The content of a checkpoint: for each subtask, handles to the bytes of its state.

A handle points to bytes in a file of the checkpoint storage, or holds them itself if they are few. A file
may be *shared* with earlier checkpoints; whoever deletes a checkpoint leaves such files to those that
still use them. The terms are those of Flink's state handles and OperatorSubtaskState.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ..exchange.key_groups import default_max_parallelism
from ..scenarios.topology import Exchange

SCHEMA = "netstack.checkpoint/2"
"""Names the layout of the metadata."""

READABLE = ("netstack.checkpoint/1", SCHEMA)
"""The layouts that are read; the first had nothing that was stored before, and no logs."""


class StateKind(StrEnum):
    """The owner of a piece of state: keyed, operator or channel state."""

    KEYED = "keyed"
    OPERATOR = "operator"
    INPUT_CHANNEL = "input channel"
    OUTPUT_CHANNEL = "output channel"


class StateFormat(StrEnum):
    """The layout of the bytes of a piece of state."""

    CANONICAL = "canonical"
    """A table of entries, or what else does not depend on the backend."""
    TABLE_FILE = "table file"
    """Name of the store that keeps the state."""
    CATALOGUE = "catalogue"
    """The list of the table files, and their states."""
    LOG = "log"
    """Changes, one after the other."""


class Redistribution(StrEnum):
    """Redistribution of a list of operator state to subtasks (Flink's OperatorStateHandle.Mode)."""

    SPLIT = "split"
    """Each value goes to one subtask; at the same parallelism, to the one that had it."""
    UNION = "union"
    """All values of all subtasks go to each of them, whenever state is restored."""
    BROADCAST = "broadcast"
    """The same in all subtasks, so each is given what one of them had."""


CHANNEL_STATE = frozenset({StateKind.INPUT_CHANNEL, StateKind.OUTPUT_CHANNEL})
"""Kinds that only unaligned checkpoints have: data that the barrier has overtaken."""


HELD_BACK = "records held back"
"""Name of the state of a vertex that emits later than it reads."""

POSITION = "source position"
"""Name of the operator state that holds how many records a source has emitted."""

SPLITS = "source splits"
"""Name of that in its place where a subtask reads what others have begun: `Split` by `Split`."""

EVENT_TIME = "event time"
"""Name of the operator state that says how far event time had come, in milliseconds."""

PENDING_TRANSACTIONS = "pending transactions"
"""Name of the operator state of a sink that has sealed records and not committed them."""

OWED = "part of a record owed"
"""Begins the names of operator states that say how near the next record is, where not every one gives one."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the checkpoint storage; `path` is relative to the storage's root, `checksum` is SHA-256."""

    path: str
    size: int
    checksum: str
    shared: bool = False


class StateHandle(msgspec.Struct, frozen=True, kw_only=True):
    """The place of one piece of state: `size` bytes from `offset` on in `file`, or `inline`.

    `name` is that of the state; of a table file that of the table, which is no other's in the job.
    `key_groups` are the first and the last key group of keyed state. `exchange` and `channel` say which
    channel the data of a channel belongs to: the number of the gate (or of the output) within the subtask,
    and that of the channel (or subpartition) within it.
    """

    kind: StateKind
    format: StateFormat = StateFormat.CANONICAL
    name: str = ""
    size: int
    inline: bytes | None = None
    file: StoredFile | None = None
    offset: int = 0
    key_groups: tuple[int, int] | None = None
    exchange: int = 0
    channel: int = 0
    redistribution: Redistribution = Redistribution.SPLIT
    """Redistribution of operator state."""
    stored_before: bool = False
    """Whether its bytes were stored before this checkpoint, and are used again."""


class SubtaskSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one subtask in a checkpoint.

    `data_ended`: its last record had been processed, and what its operator gives at the end was emitted.
    `finished`: it had ended before the checkpoint and has no state any more.
    """

    vertex: str
    subtask: int
    handles: tuple[StateHandle, ...] = ()
    data_ended: bool = False
    finished: bool = False

    @property
    def size(self) -> int:
        """Bytes of all its state."""
        return sum(handle.size for handle in self.handles)

    @property
    def new_files(self) -> list[StoredFile]:
        """The files that were stored for this checkpoint; one may come several times."""
        new = [handle.file for handle in self.handles if not handle.stored_before]
        return [file for file in new if file is not None]

    @property
    def inline_log_bytes(self) -> int:
        """Bytes of changes that stand in the handles themselves."""
        logs = [handle for handle in self.handles if handle.format is StateFormat.LOG]
        return sum(handle.size for handle in logs if handle.file is None)

    @property
    def checkpointed_bytes(self) -> int:
        """Bytes that were stored for this checkpoint."""
        return sum(handle.size for handle in self.handles if not handle.stored_before)

    @property
    def persisted_bytes(self) -> int:
        """Bytes of overtaken data in it."""
        return sum(handle.size for handle in self.handles if handle.kind in CHANNEL_STATE)


class CheckpointMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """All of a completed checkpoint; its bytes are written last and make it complete.

    Times are in seconds of the run. `checkpoint_type` is CHECKPOINT, UNALIGNED_CHECKPOINT,
    AT_LEAST_ONCE_CHECKPOINT, SAVEPOINT or SYNC_SAVEPOINT. `parallelism` is by vertex. `exchanges` are those
    of the job, in its order; None where whoever wrote it did not say. The records of `blank_exchanges` are
    all zeros in it, since no task read them. `max_parallelism` has the vertices whose number of key
    groups is not the one that follows from their parallelism.
    """

    schema: str = SCHEMA
    checkpoint_id: int
    job: str
    checkpoint_type: str
    triggered_at: float
    completed_at: float
    parallelism: dict[str, int]
    subtasks: tuple[SubtaskSnapshot, ...]
    exchanges: tuple[Exchange, ...] | None = None
    blank_exchanges: tuple[Exchange, ...] = ()
    max_parallelism: dict[str, int] = {}

    def max_parallelism_of(self, vertex: str) -> int:
        """The number of key groups by which the keyed state of a vertex is ordered."""
        return self.max_parallelism.get(vertex) or default_max_parallelism(self.parallelism[vertex])

    @property
    def has_records(self) -> bool:
        """Whether there are records in it, in flight or held back by a vertex."""
        handles = [handle for snapshot in self.subtasks for handle in snapshot.handles if handle.size]
        return any(handle.kind in CHANNEL_STATE or handle.name == HELD_BACK for handle in handles)

    @property
    def size(self) -> int:
        """Bytes of all state."""
        return sum(snapshot.size for snapshot in self.subtasks)

    @property
    def duration_s(self) -> float:
        """Trigger to completion in seconds."""
        return self.completed_at - self.triggered_at

    @property
    def persisted_bytes(self) -> int:
        """Bytes of overtaken data in it."""
        return sum(snapshot.persisted_bytes for snapshot in self.subtasks)

    @property
    def files(self) -> dict[str, StoredFile]:
        """The files it needs, by path."""
        files = [handle.file for snapshot in self.subtasks for handle in snapshot.handles]
        return {file.path: file for file in files if file is not None}

    def of(self, vertex: str, subtask: int) -> SubtaskSnapshot | None:
        """The snapshot of one subtask; None if it is not part of the checkpoint."""
        for snapshot in self.subtasks:
            if (snapshot.vertex, snapshot.subtask) == (vertex, subtask):
                return snapshot
        return None
