"""One checkpoint from trigger to end: its tasks, their acknowledgements, the reason of a failure.

A job tolerates only a number of failures in a row. A failure counts if state or storage failed, or if the
checkpoint expired. It does not count if a task has ended, or has aborted the checkpoint for a newer one,
since both are normal. The rules are those of Flink's PendingCheckpoint and CheckpointFailureManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from flowcontrol import Alignment, CheckpointBarrier, CheckpointOptions, FailureReason

from ..results.recorder import CheckpointHead, Recorder
from ..results.result import CheckpointStatus, SubtaskCheckpoint
from ..scenarios.changes import ScheduledSavepoint
from ..scenarios.checkpoint_modes import TYPES_BY_ALIGNMENT, CheckpointType
from ..scenarios.checkpointed_shape import JobShape
from .control_plane import TaskKey
from .metadata import CheckpointMetadata, SubtaskSnapshot

COUNTED = frozenset(
    {
        FailureReason.IO_EXCEPTION,
        FailureReason.ASYNC_EXCEPTION,
        FailureReason.EXPIRED,
        FailureReason.DECLINED,
        FailureReason.FINALIZE_FAILURE,
    }
)
"""Failures that count; a job tolerates only a number of them in a row."""


class FailureCounter:
    """Counts failures in a row. When the count exceeds `tolerable`, the job fails and the count is reset."""

    def __init__(self, tolerable: int) -> None:
        self.tolerable = tolerable
        self.in_a_row = 0
        self._last_success = 0

    def succeeded(self, checkpoint_id: int) -> None:
        """Record a completed checkpoint. Failures of earlier checkpoints no longer count."""
        self._last_success = max(self._last_success, checkpoint_id)
        self.in_a_row = 0

    def failed(self, checkpoint_id: int, reason: FailureReason) -> bool:
        """Record a failed checkpoint; returns whether the job has to fail."""
        if reason not in COUNTED or checkpoint_id <= self._last_success:
            return False
        self.in_a_row += 1
        if self.in_a_row <= self.tolerable:
            return False
        self.in_a_row = 0
        return True


class Acknowledgement(NamedTuple):
    """Report of one subtask on its part of a checkpoint; the coordinator sets `end_to_end_s` of `part`."""

    checkpoint_id: int
    part: SubtaskCheckpoint
    snapshot: SubtaskSnapshot


class UpstreamTask(Protocol):
    """An upstream subtask; `str` returns its name and index."""

    @property
    def ended(self) -> bool:
        """Whether the subtask has ended."""


class CheckpointedTask(Protocol):
    """The properties and methods of a subtask that the coordinator uses."""

    @property
    def vertex(self) -> int:
        """Number of the subtask's vertex."""

    @property
    def index(self) -> int:
        """Index of the subtask in its vertex."""

    @property
    def ended(self) -> bool:
        """Whether the subtask has ended."""

    @property
    def upstream(self) -> Sequence[UpstreamTask]:
        """The subtasks that this one reads from."""

    @property
    def last_checkpoint(self) -> int:
        """Id of the last checkpoint that the subtask has begun."""

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Begin a checkpoint."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Handle the completion of a checkpoint.

        Output that belongs to the checkpoint may now be committed.
        """

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Handle the failure of a checkpoint. Data kept for the checkpoint may now be deleted."""


def key_of(task: CheckpointedTask) -> TaskKey:
    """Return the vertex number and the index of a subtask."""
    return task.vertex, task.index


class Checkpoint:
    """A checkpoint and its progress (Flink's PendingCheckpoint).

    The coordinator triggers the subtasks in `first`; the others begin when a barrier arrives. The subtasks in
    `awaited` have not acknowledged yet. The subtasks in `finished` had ended before the trigger and take no
    part. `parts` (measurements) and `snapshots` (state) are from the subtasks that have acknowledged.
    `failure`: the reason of the failure, or None. `ended_at`: time of the completion or failure. Times are in
    seconds of the run. `request`: the user's request, if this is a savepoint.
    """

    def __init__(
        self,
        checkpoint_id: int,
        triggered_at: float,
        options: CheckpointOptions,
        *,
        awaited: Iterable[TaskKey],
        first: Iterable[TaskKey],
        finished: Iterable[TaskKey] = (),
        request: ScheduledSavepoint | None = None,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.request = request
        self.triggered_at = triggered_at
        self.options = options
        self.ended_at: float | None = None
        self.failure: FailureReason | None = None
        self.first = frozenset(first)
        self.finished = frozenset(finished)
        self.awaited = set(awaited)
        self.parts: dict[TaskKey, SubtaskCheckpoint] = {}
        self.snapshots: dict[TaskKey, SubtaskSnapshot] = {}

    @property
    def name(self) -> str:
        """Name in messages, such as "checkpoint 3"."""
        kind = "checkpoint" if self.options.savepoint is None else "savepoint"
        return f"{kind} {self.checkpoint_id}"

    @property
    def status(self) -> CheckpointStatus:
        """Status of the checkpoint at this moment."""
        if self.failure is not None:
            return CheckpointStatus.FAILED
        return CheckpointStatus.IN_PROGRESS if self.ended_at is None else CheckpointStatus.COMPLETED

    @property
    def duration_s(self) -> float | None:
        """Time from trigger to completion in seconds; None if not completed."""
        if self.failure is not None or self.ended_at is None:
            return None
        return self.ended_at - self.triggered_at

    @property
    def checkpoint_type(self) -> CheckpointType:
        """Type of the checkpoint: unaligned if it began unaligned, or turned unaligned at any subtask."""
        if (savepoint := self.options.savepoint) is not None:
            return CheckpointType.SYNC_SAVEPOINT if savepoint.stops else CheckpointType.SAVEPOINT
        turned = any(part.unaligned for part in self.parts.values())
        return TYPES_BY_ALIGNMENT[Alignment.UNALIGNED if turned else self.options.alignment]

    @property
    def size(self) -> int:
        """Bytes of the acknowledged state."""
        return sum(snapshot.size for snapshot in self.snapshots.values())

    @property
    def checkpointed_bytes(self) -> int:
        """Bytes of the acknowledged state that were newly stored for this checkpoint."""
        return sum(snapshot.checkpointed_bytes for snapshot in self.snapshots.values())

    def acknowledge(self, task: TaskKey, report: Acknowledgement, now: float) -> bool:
        """Add the report of a subtask; returns False if the subtask is not awaited."""
        if task not in self.awaited:
            return False
        self.awaited.remove(task)
        self.snapshots[task] = report.snapshot
        self.parts[task] = report.part._replace(end_to_end_s=now - self.triggered_at)
        return True

    def metadata(self, job: JobShape, now: float) -> CheckpointMetadata:
        """Return the metadata of the acknowledged state."""
        names = list(job.parallelism)
        snapshots = dict(self.snapshots)
        for vertex, index in self.finished:
            snapshots[vertex, index] = SubtaskSnapshot(
                vertex=names[vertex], subtask=index, data_ended=True, finished=True
            )
        return CheckpointMetadata(
            checkpoint_id=self.checkpoint_id,
            job=job.name,
            checkpoint_type=self.checkpoint_type,
            triggered_at=self.triggered_at,
            completed_at=now,
            parallelism=dict(job.parallelism),
            subtasks=tuple(snapshots[task] for task in sorted(snapshots)),
            exchanges=job.exchanges,
            blank_exchanges=job.unread,
            max_parallelism=dict(job.max_parallelism),
        )


def record_checkpoint(recorder: Recorder, checkpoint: Checkpoint) -> None:
    """Record a checkpoint that has ended."""
    savepoint = checkpoint.options.savepoint
    head = CheckpointHead(
        checkpoint_id=checkpoint.checkpoint_id,
        triggered_at=checkpoint.triggered_at,
        duration_s=checkpoint.duration_s,
        status=checkpoint.status,
        checkpoint_type=checkpoint.checkpoint_type,
        failure=checkpoint.failure,
        state_bytes=checkpoint.size,
        checkpointed_bytes=checkpoint.checkpointed_bytes,
        savepoint=None if savepoint is None else savepoint.location,
        ended_at=checkpoint.ended_at,
    )
    recorder.checkpoint(head, checkpoint.parts)
