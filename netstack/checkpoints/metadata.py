"""The metadata of a checkpoint: for each subtask, handles to its state."""

from __future__ import annotations

import msgspec

from ..exchange.key_groups import default_max_parallelism
from ..scenarios.checkpoint_modes import CheckpointType
from ..scenarios.checkpointed_shape import Exchange
from ..state.handles import HELD_BACK, StateFormat, StateHandle, StoredFile
from ..state.state_kinds import CHANNEL_STATE

__all__ = ["CheckpointMetadata", "SubtaskSnapshot"]

SCHEMA = "netstack.checkpoint/2"
"""Name of the layout of the metadata."""


READABLE = ("netstack.checkpoint/1", SCHEMA)
"""The layouts that can be read; the first one has no changelogs and no files of earlier checkpoints."""


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
