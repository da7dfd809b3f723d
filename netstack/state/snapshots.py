"""The content of a checkpoint: for each subtask, handles to the bytes of its state.

A handle points to bytes in a file of the checkpoint storage, or contains a small number of bytes itself. A
file may be *shared* with earlier checkpoints. When a checkpoint is deleted, its shared files stay as long as
other checkpoints use them. The terms are those of Flink's state handles and OperatorSubtaskState.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ..exchange.key_groups import default_max_parallelism
from ..results.result import CheckpointType
from ..scenarios.exchange_patterns import Exchange

SCHEMA = "netstack.checkpoint/2"
"""Name of the layout of the metadata."""

READABLE = ("netstack.checkpoint/1", SCHEMA)
"""The layouts that can be read; the first one has no changelogs and no files of earlier checkpoints."""


class StateKind(StrEnum):
    """The type of a piece of state: keyed, operator or channel state."""

    KEYED = "keyed"
    OPERATOR = "operator"
    INPUT_CHANNEL = "input channel"
    OUTPUT_CHANNEL = "output channel"


class StateFormat(StrEnum):
    """The layout of the bytes of a piece of state."""

    CANONICAL = "canonical"
    """A table of entries, or other state whose layout does not depend on the backend."""
    TABLE_FILE = "table file"
    """A table file of a state backend."""
    CATALOGUE = "catalogue"
    """The list of the table files and of the states in them, and the backend's metadata files."""
    LOG = "log"
    """A sequence of changes."""


WHOLE_FILES = frozenset({StateFormat.TABLE_FILE, StateFormat.CATALOGUE})
"""Formats whose bytes fill a file (or handle). The size of such a handle is the size that results count,
since a few of the bytes vary between runs.
"""


class Redistribution(StrEnum):
    """Redistribution of a list of operator state to subtasks (Flink's OperatorStateHandle.Mode)."""

    SPLIT = "split"
    """Each value goes to one subtask; with the same parallelism, to its former subtask."""
    UNION = "union"
    """After every restore, each subtask gets all values of all subtasks."""
    BROADCAST = "broadcast"
    """The values are equal in all subtasks, so each subtask gets the values of one former subtask."""


CHANNEL_STATE = frozenset({StateKind.INPUT_CHANNEL, StateKind.OUTPUT_CHANNEL})
"""Kinds of state that exist only in unaligned checkpoints: data that the barrier has overtaken."""


HELD_BACK = "records held back"
"""Name of the operator state with records that a vertex has read and not emitted yet."""

POSITION = "source position"
"""Name of the operator state with the number of records that a source has emitted."""

SPLITS = "source splits"
"""Name of the operator state that replaces the position if a subtask reads splits of other subtasks: a list
of `Split`.
"""

EVENT_TIME = "event time"
"""Name of the operator state with the event time reached, in milliseconds."""

PENDING_TRANSACTIONS = "pending transactions"
"""Name of the operator state of a sink with closed transactions that are not committed yet."""

OWED = "part of a record owed"
"""Prefix of the names of operator states with the fraction of a record still to be emitted."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the checkpoint storage; `path` is relative to the storage's root, `checksum` is SHA-256."""

    path: str
    size: int
    checksum: str
    shared: bool = False


class StateHandle(msgspec.Struct, frozen=True, kw_only=True):
    """The location of one piece of state: `size` bytes from `offset` on in `file`, or `inline`.

    For `WHOLE_FILES`, it is all of `file` or `inline`.

    `name`: the name of the state; for a table file, the name of the table, unique in the job. `key_groups`:
    the first and the last key group of keyed state. For channel state, `exchange` is the index of the gate
    (or output) within the subtask, and `channel` the index of the channel (or subpartition) within this gate
    (or output).
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
    """Whether the bytes were stored by an earlier checkpoint and are used again."""

    def has_some_of(self, groups: range) -> bool:
        """Whether keyed state may belong to some of these key groups."""
        if self.key_groups is None:
            return True
        first, last = self.key_groups
        return first < groups.stop and groups.start <= last


class SubtaskSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one subtask in a checkpoint.

    `data_ended`: whether the last record had been processed and the operator's final output emitted.
    `finished`: whether the subtask had ended before the checkpoint, so that it has no state.
    """

    vertex: str
    subtask: int
    handles: tuple[StateHandle, ...] = ()
    data_ended: bool = False
    finished: bool = False

    @property
    def size(self) -> int:
        """Bytes of all state of the subtask."""
        return sum(handle.size for handle in self.handles)

    @property
    def new_files(self) -> list[StoredFile]:
        """The files that were stored for this checkpoint; a file may be listed several times."""
        new = [handle.file for handle in self.handles if not handle.stored_before]
        return [file for file in new if file is not None]

    @property
    def inline_log_bytes(self) -> int:
        """Bytes of changes that are contained in the handles."""
        logs = [handle for handle in self.handles if handle.format is StateFormat.LOG]
        return sum(handle.size for handle in logs if handle.file is None)

    @property
    def checkpointed_bytes(self) -> int:
        """Bytes that were stored for this checkpoint."""
        return sum(handle.size for handle in self.handles if not handle.stored_before)

    @property
    def persisted_bytes(self) -> int:
        """Bytes of overtaken in-flight data."""
        return sum(handle.size for handle in self.handles if handle.kind in CHANNEL_STATE)


class CheckpointMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a completed checkpoint. It is written last, and makes the checkpoint complete.

    Times are in seconds of the run. `parallelism` is by vertex. `exchanges`: the
    exchanges of the job, in order; None if the writer did not record them. `blank_exchanges`: exchanges whose
    in-flight records are stored as zeros, since no task reads them. `max_parallelism`: the vertices whose
    number of key groups is not the default.
    """

    schema: str = SCHEMA
    checkpoint_id: int
    job: str
    checkpoint_type: CheckpointType
    triggered_at: float
    completed_at: float
    parallelism: dict[str, int]
    subtasks: tuple[SubtaskSnapshot, ...]
    exchanges: tuple[Exchange, ...] | None = None
    blank_exchanges: tuple[Exchange, ...] = ()
    max_parallelism: dict[str, int] = {}

    def max_parallelism_of(self, vertex: str) -> int:
        """Return the number of key groups of a vertex's keyed state."""
        return self.max_parallelism.get(vertex) or default_max_parallelism(self.parallelism[vertex])

    @property
    def has_records(self) -> bool:
        """Whether the checkpoint contains records, in flight or held back by a vertex."""
        handles = [handle for snapshot in self.subtasks for handle in snapshot.handles if handle.size]
        return any(handle.kind in CHANNEL_STATE or handle.name == HELD_BACK for handle in handles)

    @property
    def size(self) -> int:
        """Bytes of all state."""
        return sum(snapshot.size for snapshot in self.subtasks)

    @property
    def duration_s(self) -> float:
        """Time from trigger to completion in seconds."""
        return self.completed_at - self.triggered_at

    @property
    def persisted_bytes(self) -> int:
        """Bytes of overtaken in-flight data."""
        return sum(snapshot.persisted_bytes for snapshot in self.subtasks)

    @property
    def files(self) -> dict[str, StoredFile]:
        """The files that the checkpoint needs, by path."""
        files = [handle.file for snapshot in self.subtasks for handle in snapshot.handles]
        return {file.path: file for file in files if file is not None}

    def of(self, vertex: str, subtask: int) -> SubtaskSnapshot | None:
        """Return the snapshot of one subtask; None if it took no part in the checkpoint."""
        for snapshot in self.subtasks:
            if (snapshot.vertex, snapshot.subtask) == (vertex, subtask):
                return snapshot
        return None
