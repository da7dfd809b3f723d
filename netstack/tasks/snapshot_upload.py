"""The asynchronous part of a checkpoint of one task: its data is collected, stored and acknowledged.

It begins when the synchronous part ends, and ends when three uploads are complete::

    begin --- sync ---> upload of the state -----------------------\\
          \\-- unaligned: data of the inputs, until the last barrier -> upload of channel state -> acknowledge
           \\- unaligned: data overtaken in the outputs ------------/

The rules are those of Flink's AsyncCheckpointRunnable and ChannelStateWriter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from buffers import Content, Pieces
from flowcontrol import AlignmentMetrics, CheckpointBarrier

from ..checkpoints.metadata import SubtaskSnapshot
from ..checkpoints.pending_checkpoint import Acknowledgement
from ..checkpoints.storage import (
    ChannelPlace,
    CheckpointStorage,
    channel_handles,
    delete_where_possible,
    write_pieces,
)
from ..errors import StorageError
from ..results.result import SubtaskCheckpoint
from ..results.trace import acknowledgement_text, in_bytes, milliseconds
from ..scenarios.costs import CostModel
from ..state.handles import StateFormat, StateHandle, StoredFile
from ..state.state_kinds import CHANNEL_STATE, StateKind
from ..state.subtask_state import StateSnapshot

if TYPE_CHECKING:
    from .subtask import Subtask

UPLOADS_AT_ONCE = 4
"""Number of files of a snapshot that are uploaded at a time: Flink's default number of threads."""


class SnapshotUpload:
    """The data of a checkpoint that `task` has begun, until it is stored in `storage` and acknowledged.

    `barrier` becomes unaligned when it may overtake data. `metrics` is None until the alignment has ended.
    `on_end` is called before the acknowledgement with None, or after a failure with its cause. `sync_s`:
    duration of the synchronous part in seconds. `state`: the marked state, until it is written.
    `open_outputs`: number of subpartitions whose data is still missing. `over`: whether the checkpoint is
    acknowledged or aborted.
    """

    def __init__(
        self,
        task: Subtask,
        barrier: CheckpointBarrier,
        metrics: AlignmentMetrics | None,
        storage: CheckpointStorage,
        data_ended: bool,
        on_end: Callable[[int, str | None], None],
    ) -> None:
        self.checkpoint_id = barrier.checkpoint_id
        self.barrier = barrier
        self.sync_s = 0.0
        self.state: StateSnapshot | None = None
        self.open_outputs = 0
        self.over = False
        self._task, self._storage = task, storage
        self._metrics, self._data_ended = metrics, data_ended
        self._on_end = on_end
        self._handles: list[StateHandle] = []
        self._written: list[StoredFile] = []  # files that belong only to this checkpoint
        self._channel_data: dict[ChannelPlace, Pieces] | None = {}  # None when it is complete and stored
        self._since: float | None = None  # end of the synchronous part
        self._uploads = 0  # in progress

    def add(self, kind: StateKind, exchange: int, channel: int, data: list[Content]) -> int:
        """Add data in flight in a channel; returns its size in bytes."""
        if self._channel_data is not None:
            self._channel_data.setdefault(ChannelPlace(kind, exchange, channel), Pieces()).extend(data)
        return sum(map(len, data))

    def output_resolved(self, output: int, channel: int, data: list[Content] | None) -> None:
        """Add the data that the barrier has overtaken in a subpartition.

        If `data` is None, a newer barrier with a timeout was queued before this barrier had left, so this
        checkpoint fails.
        """
        self.open_outputs -= 1
        if data is None:
            if not self.over:
                overlap = "a newer checkpoint began while the alignment of this one could still time out"
                self._on_end(self.checkpoint_id, overlap)
            return
        if data:
            size = self.add(StateKind.OUTPUT_CHANNEL, output, channel, data)
            if self._task.traced:
                vertex, consumers = self._task.readers[output]
                where = f"on the way to {vertex}[{consumers[channel]}]"
                text = f"barrier {self.checkpoint_id} overtakes {in_bytes(size)} {where}"
                self._task.trace(text, self.checkpoint_id)
        self._store_channels()

    def end_alignment(self, metrics: AlignmentMetrics) -> None:
        """End the alignment of an unaligned checkpoint: its last barrier has arrived."""
        self._metrics = metrics
        if self._task.traced:
            took = milliseconds(metrics.alignment_s)
            came = f"all barriers of checkpoint {self.checkpoint_id} arrived within {took}"
            self._task.trace(f"{came}: its channel state is complete", self.checkpoint_id)
        self._store_channels()

    def start(self) -> None:
        """Begin the uploads, at the end of the synchronous part."""
        if self.state is None:  # aborted meanwhile
            return
        environment = self._task.environment
        self._since = environment.agenda.now
        if self.state.work.entry_bytes > environment.config.state_memory_threshold_bytes:
            # The fixed cost of a file comes first; the task already changes the state meanwhile.
            environment.scope.after(environment.costs.state_file_s, self._store_state)
        else:
            self._store_state()
        self._store_channels()

    def _store_state(self) -> None:
        state, self.state = self.state, None
        if state is not None and self._since is not None:
            self._store(partial(state.handles, self._write), self._since)

    def _store_channels(self) -> None:
        """Store the channel state when it is complete."""
        if self.over or self._since is None or self._metrics is None or self.open_outputs:
            return
        data, self._channel_data = self._channel_data, None
        if data is not None:
            ordered, write = dict(sorted(data.items())), partial(self._write, "channels")
            self._store(partial(channel_handles, ordered, write), self._task.agenda.now)

    def _write(self, name: str, data: bytes | Pieces, /, *, shared: bool = False) -> StoredFile:
        name = f"{self._task.name}-{self._task.index}-{name}"
        if isinstance(data, Pieces):
            file = write_pieces(self._storage, self.checkpoint_id, name, data)
        else:
            file = self._storage.write(self.checkpoint_id, name, data, shared=shared)
        self._written.append(file)
        return file

    def _store(self, store: Callable[[int], list[StateHandle]], since: float) -> None:
        """Write the data at once. In emulated time, the upload begins at `since` and takes as long as the
        storage needs, or no time if the data is inline.
        """
        environment = self._task.environment
        try:
            handles = store(environment.config.state_memory_threshold_bytes)
        except StorageError as error:
            self._on_end(self.checkpoint_id, str(error))
            return
        self._handles += handles
        self._uploads += 1
        if duration := storing_s(handles, environment.costs):
            environment.scope.at(since + duration, self._uploaded)
        else:
            self._uploaded()

    def _uploaded(self) -> None:
        """Acknowledge the checkpoint if this was the last upload."""
        self._uploads -= 1
        task, metrics, since = self._task, self._metrics, self._since
        incomplete = self._uploads or self.state is not None or self._channel_data is not None
        if self.over or incomplete or metrics is None or since is None:
            return
        self.over = True
        self._on_end(self.checkpoint_id, None)
        snapshot = SubtaskSnapshot(
            vertex=task.name, subtask=task.index, handles=tuple(self._handles), data_ended=self._data_ended
        )
        text = acknowledgement_text(self.checkpoint_id, snapshot.size, snapshot.persisted_bytes)
        task.trace(text, self.checkpoint_id)
        part = SubtaskCheckpoint(
            start_delay_s=metrics.start_delay_s,
            alignment_s=metrics.alignment_s,
            sync_s=self.sync_s,
            async_s=task.agenda.now - since,
            alignment_processed_bytes=metrics.bytes_processed,
            alignment_persisted_bytes=snapshot.persisted_bytes,
            unaligned=self.barrier.options.is_unaligned,
        )
        task.environment.coordinator.acknowledge(task, Acknowledgement(self.checkpoint_id, part, snapshot))

    def release(self) -> None:
        """Drop the data, and delete the files of this checkpoint."""
        self.over = True
        if self.state is not None:
            self.state.release()
            self.state = None
        delete_where_possible(self._storage, self._written)


def storing_s(handles: Sequence[StateHandle], costs: CostModel) -> float:
    """Return the time to store the new state of these handles, in seconds.

    Inline state takes no time. State in memory is serialized first, other state is stored as bytes already.
    Up to `UPLOADS_AT_ONCE` files of state are uploaded together, so their fixed costs count only once.
    """
    new = [handle for handle in handles if handle.file is not None and not handle.stored_before]
    uploading_s = sum(handle.size for handle in new) / costs.upload_rate_bytes_per_s
    state = [each for each in new if each.kind not in CHANNEL_STATE and each.format is not StateFormat.LOG]
    files = len({handle.file.path for handle in state if handle.file is not None})
    serialized = sum(handle.size for handle in state if handle.format is StateFormat.CANONICAL)
    at_once = -(-files // UPLOADS_AT_ONCE)
    return uploading_s + at_once * costs.state_file_s + serialized / costs.serialize_rate_bytes_per_s
