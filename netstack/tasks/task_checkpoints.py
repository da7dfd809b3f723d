"""The checkpoints of one task: their synchronous part, which blocks the task, and their abortion.

The synchronous part sends the barrier downstream and marks the state. A task with inputs begins it at the
barriers that arrive there (`input_barriers`), a source when the coordinator triggers it. The asynchronous
part follows in the background (`snapshot_upload`). The rules are those of Flink's
SubtaskCheckpointCoordinatorImpl.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flowcontrol import (
    AlignmentMetrics,
    CancelCheckpointMarker,
    CheckpointBarrier,
    FailureReason,
    PostCheckpointAction,
)

from ..results.trace import snapshot_text
from ..scenarios.costs import CostModel
from ..state.backend import SnapshotWork
from .snapshot_upload import SnapshotUpload

if TYPE_CHECKING:
    from .subtask import Subtask


class TaskCheckpoints:
    """Begins and aborts the checkpoints of `task`.

    `last`: the last checkpoint begun. `final`: the first checkpoint taken after the last record.
    `snapshots`: number of snapshots taken. `stops_with`: the savepoint with which the job will stop;
    `drains`: whether the data ends before it. `running`: the checkpoints that have begun and are not
    acknowledged, by id. `on_abort` is called with the id of a running checkpoint that is aborted.
    """

    def __init__(self, task: Subtask) -> None:
        self.last = 0
        self.final: int | None = None
        self.stops_with: int | None = None
        self.drains = False
        self.snapshots = 0
        self.running: dict[int, SnapshotUpload] = {}
        self.on_abort: Callable[[int], None] | None = None
        self._task = task
        self._aborted: set[int] = set()

    def is_over(self, checkpoint_id: int) -> bool:
        """Whether this task takes no snapshot for a checkpoint any more: it was aborted, or has begun."""
        return checkpoint_id <= self.last or checkpoint_id in self._aborted

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Take a checkpoint that the coordinator has triggered; must be called between two records.

        If a newer checkpoint has begun, this one is skipped: it has been aborted, and its barrier would make
        the newer checkpoint fail. (Flink: "out of order checkpoint barrier".)
        """
        if barrier.checkpoint_id <= self.last:
            return
        start_delay = max(0.0, self._task.agenda.now - barrier.timestamp)
        upload = self.begin(barrier, AlignmentMetrics(start_delay, 0.0, 0))
        if upload is not None:
            self._task.block(upload.sync_s)
            self._task.environment.scope.after(upload.sync_s, upload.start)

    def begin(self, barrier: CheckpointBarrier, metrics: AlignmentMetrics | None) -> SnapshotUpload | None:
        """Run the synchronous part; the caller blocks the task for its duration, then starts the upload.

        `metrics` is None if the alignment has not ended; an unaligned checkpoint does not wait for its end.
        Returns None if the coordinator has aborted the checkpoint: no snapshot is taken, and a cancel marker
        is sent downstream.
        """
        task, environment, checkpoint_id = self._task, self._task.environment, barrier.checkpoint_id
        if task.traced:
            task.trace(snapshot_text(barrier, metrics, sends=bool(task.outputs)), checkpoint_id)
        self.last = checkpoint_id
        is_aborted = checkpoint_id in self._aborted
        self._aborted = {aborted for aborted in self._aborted if aborted > checkpoint_id}
        if is_aborted:
            task.broadcast(CancelCheckpointMarker(checkpoint_id))
            return None
        savepoint, storage = barrier.options.savepoint, environment.storage
        if savepoint is not None:
            storage = storage.savepoint(savepoint.location)
            if savepoint.stops:
                self.stops_with = checkpoint_id
            self.drains = savepoint.action is PostCheckpointAction.TERMINATE
        # If the data has only ended to drain the job, a job restored from this checkpoint continues to read.
        # A task that had ended before emits no more records, even if the barrier has overtaken its EndOfData.
        data_ended = (task.data_ended or task.had_ended) and not self.drains
        # A barrier that had to stay aligned so far may overtake again on the outputs.
        sent_on = replace(barrier, options=barrier.options.with_unaligned_supported())
        upload = SnapshotUpload(task, sent_on, metrics, storage, data_ended, self._ended)
        self.running[checkpoint_id] = upload
        if task.data_ended and self.final is None:
            self.final = checkpoint_id
        task.before_snapshot(checkpoint_id)
        self._send_on(upload)
        state = task.state.snapshot(checkpoint_id, None if savepoint is None else savepoint.format)
        marking_s = environment.randomness.between(environment.costs.sync_s, "snapshot", str(task))
        upload.state, upload.sync_s = state, marking_s + snapshot_s(state.work, environment.costs)
        self.snapshots += 1
        return upload

    def _send_on(self, upload: SnapshotUpload) -> None:
        """Send the barrier to all outputs. It may overtake their queued data, now or after a timeout."""
        barrier, environment = upload.barrier, self._task.environment
        for number, output in enumerate(self._task.outputs):
            upload.open_outputs += len(output.partition.subpartitions)
            if not output.partition.broadcast_barrier(barrier, partial(upload.output_resolved, number)):
                upload.open_outputs -= len(output.partition.subpartitions)
        timeout = barrier.options.timeout_s
        if barrier.options.timeoutable and timeout is not None and upload.open_outputs:
            delay = max(0.0, timeout - (environment.agenda.now - barrier.timestamp))
            environment.scope.after(delay, self._task.post, partial(self._outputs_timed_out, upload))

    def _outputs_timed_out(self, upload: SnapshotUpload) -> None:
        if upload.open_outputs and not upload.over:
            unaligned = upload.barrier.as_unaligned()
            for output in self._task.outputs:
                if output.partition.supports_unaligned:
                    upload.barrier = unaligned
                    output.partition.alignment_timeout(unaligned)

    def _ended(self, checkpoint_id: int, failure: str | None) -> None:
        """Forget a checkpoint that is complete; decline one that has failed."""
        if failure is None:
            del self.running[checkpoint_id]
            return
        self.abort(checkpoint_id)
        coordinator = self._task.environment.coordinator
        coordinator.decline(self._task, checkpoint_id, FailureReason.ASYNC_EXCEPTION, failure)

    def abort(self, checkpoint_id: int) -> None:
        """Abort a checkpoint: drop its data if it has begun, otherwise never begin it."""
        upload = self.running.pop(checkpoint_id, None)
        if checkpoint_id == self.stops_with:
            self.stops_with = None
        self._task.state.checkpoint_aborted(checkpoint_id)
        if upload is not None:
            if self.on_abort is not None:
                self.on_abort(checkpoint_id)
            upload.release()
        elif checkpoint_id > self.last:
            self._aborted.add(checkpoint_id)

    def release(self) -> None:
        """Drop all running checkpoints without reporting them: the attempt has ended."""
        while self.running:
            self.running.popitem()[1].release()


def snapshot_s(work: SnapshotWork, costs: CostModel) -> float:
    """Return the duration of the synchronous part of a snapshot in seconds, computed from its work."""
    logging_s = work.logged_bytes / costs.log_rate_bytes_per_s
    flushing_s = work.flushed_bytes / costs.table_flush_rate_bytes_per_s
    return logging_s + flushing_s + work.linked * costs.table_snapshot_s
