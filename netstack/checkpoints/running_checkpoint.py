"""What a subtask holds of one checkpoint between its trigger and its acknowledgement."""

from __future__ import annotations

from buffers import Pieces
from flowcontrol import AlignmentMetrics, CheckpointBarrier

from ..state.snapshots import StateHandle, StoredFile
from ..state.subtask_state import StateSnapshot
from .storage import ChannelPlace, CheckpointStorage


class RunningCheckpoint:
    """A checkpoint that this subtask has triggered and not acknowledged.

    `timed_out`: the barrier was sent on to be aligned, and overtakes what is queued now after all.
    `metrics` is None until the alignment is over. `uploading` from the end of the synchronous part on;
    `uploads` counts those that are under way; `written` are the files that were stored for it alone, in
    `storage`.
    """

    __slots__ = (
        "barrier",
        "channel_data",
        "channels_stored",
        "data_ended",
        "handles",
        "metrics",
        "open_outputs",
        "state",
        "storage",
        "sync_s",
        "timed_out",
        "uploading",
        "uploads",
        "uploads_since",
        "written",
    )

    def __init__(
        self,
        barrier: CheckpointBarrier,
        metrics: AlignmentMetrics | None,
        data_ended: bool,
        storage: CheckpointStorage,
    ) -> None:
        self.barrier = barrier
        self.storage = storage
        self.metrics = metrics
        self.data_ended = data_ended
        self.sync_s = 0.0
        self.timed_out = False
        self.state: StateSnapshot | None = None
        self.handles: list[StateHandle] = []
        self.written: list[StoredFile] = []
        self.channel_data: dict[ChannelPlace, Pieces] = {}
        self.channels_stored = False
        self.open_outputs = 0
        self.uploading = False
        self.uploads = 0
        self.uploads_since = 0.0

    @property
    def unaligned(self) -> bool:
        """Whether the barrier overtakes data."""
        return self.barrier.options.is_unaligned

    @property
    def channels_complete(self) -> bool:
        """Whether all channel state is there and none has been stored yet."""
        known = self.metrics is not None and self.open_outputs == 0
        return self.uploading and known and not self.channels_stored
