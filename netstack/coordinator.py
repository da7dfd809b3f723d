"""The checkpoint coordinator: triggers checkpoints at the sources and gathers the acknowledgements.

A tick that finds a checkpoint pending leaves one queued request, which fires when that one is complete.
The control plane takes its time: a trigger reaches the first source after milliseconds and each
further one later still, an acknowledgement comes back after some more. The rules are those of Flink's
CheckpointCoordinator and CheckpointRequestDecider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flowcontrol import CheckpointBarrier

from .agenda import Agenda
from .config import CostModel
from .randomness import Randomness
from .statistics import SubtaskCheckpoint
from .subtask import Acknowledgement, Subtask

QUEUED_REQUEST_DELAY_S = 0.002
"""From the completion of a checkpoint to the trigger of the one that was asked for meanwhile."""


class Checkpoint:
    """One checkpoint: when and where it was triggered, who still owes an acknowledgement, what has come."""

    def __init__(
        self, identity: int, triggered_at: float, awaited: Sequence[Subtask], first: Sequence[Subtask]
    ) -> None:
        self.identity = identity
        self.triggered_at = triggered_at
        self.completed_at: float | None = None
        self.failed = False
        self.first = frozenset((subtask.vertex, subtask.index) for subtask in first)
        self.awaited = {(subtask.vertex, subtask.index) for subtask in awaited}
        self.parts: dict[tuple[int, int], SubtaskCheckpoint] = {}

    @property
    def status(self) -> str:
        """COMPLETED, FAILED or IN_PROGRESS."""
        if self.failed:
            return "FAILED"
        return "IN_PROGRESS" if self.completed_at is None else "COMPLETED"

    @property
    def duration_s(self) -> float | None:
        """From the trigger to completion in seconds; None if it is not complete."""
        return None if self.completed_at is None else self.completed_at - self.triggered_at


class CheckpointCoordinator:
    """Triggers a checkpoint each `interval_s`, one at a time; `on_end` is told of each that has ended.

    Unless `after_tasks_finish`, none is triggered any more once a subtask has ended.
    """

    def __init__(
        self,
        agenda: Agenda,
        costs: CostModel,
        randomness: Randomness,
        interval_s: float | None,
        after_tasks_finish: bool,
        on_end: Callable[[Checkpoint], None],
    ) -> None:
        self.pending: Checkpoint | None = None
        self._agenda = agenda
        self._costs = costs
        self._randomness = randomness
        self._interval = interval_s
        self._after_tasks_finish = after_tasks_finish
        self._on_end = on_end
        self._subtasks: list[Subtask] = []
        self._triggered = 0
        self._queued = False

    def start(self, subtasks: Sequence[Subtask]) -> None:
        """Begin, with a first trigger after a random part of the interval."""
        self._subtasks = list(subtasks)
        if self._interval is not None:
            self._agenda.at(self._randomness.between((0.0, self._interval)), self._tick)

    def _tick(self) -> None:
        assert self._interval is not None
        self._agenda.after(self._interval, self._tick)
        if self.pending is None:
            self._trigger()
        else:
            self._queued = True

    def _trigger(self) -> None:
        running = [subtask for subtask in self._subtasks if not subtask.ended]
        complete = len(running) == len(self._subtasks)
        if self.pending is not None or not running or not (complete or self._after_tasks_finish):
            return
        # The sources, and later whoever has no upstream task left that could send a barrier.
        first = [subtask for subtask in running if all(task.ended for task in subtask.upstream)]
        now = self._agenda.now
        self._triggered += 1
        self.pending = checkpoint = Checkpoint(self._triggered, now, running, first)
        barrier = CheckpointBarrier(checkpoint.identity, now)
        delay = self._randomness.uniform(*self._costs.trigger_s)
        for subtask in first:
            self._agenda.after(delay, subtask.trigger_checkpoint, barrier)
            delay += self._costs.trigger_per_source_s

    def acknowledge(self, subtask: Subtask, report: Acknowledgement) -> None:
        """A subtask has taken its snapshot; the coordinator learns of it a little later."""
        self._agenda.after(self._randomness.uniform(*self._costs.ack_s), self._acknowledged, subtask, report)

    def _acknowledged(self, subtask: Subtask, report: Acknowledgement) -> None:
        checkpoint = self.pending
        if checkpoint is None or checkpoint.identity != report.checkpoint_id:
            return
        key = subtask.vertex, subtask.index
        checkpoint.parts[key] = SubtaskCheckpoint(
            end_to_end_s=self._agenda.now - checkpoint.triggered_at,
            start_delay_s=report.metrics.start_delay_s,
            alignment_s=report.metrics.alignment_s,
            sync_s=report.sync_s,
            alignment_processed_bytes=report.metrics.bytes_processed,
        )
        checkpoint.awaited.discard(key)
        self._complete_if_all_came(checkpoint)

    def finished(self, subtask: Subtask) -> None:
        """A subtask has ended: no acknowledgement is waited for any more, unless it is under way.

        One that should have sent the first barrier and did not fails the checkpoint.
        """
        checkpoint = self.pending
        if checkpoint is None:
            return
        never_began = subtask.last_checkpoint < checkpoint.identity
        if never_began and (subtask.vertex, subtask.index) in checkpoint.first:
            self.decline(checkpoint.identity)
        else:
            self._agenda.after(self._costs.ack_s[1], self._forget, subtask, checkpoint)

    def _forget(self, subtask: Subtask, checkpoint: Checkpoint) -> None:
        checkpoint.awaited.discard((subtask.vertex, subtask.index))
        if checkpoint is self.pending:
            self._complete_if_all_came(checkpoint)

    def _complete_if_all_came(self, checkpoint: Checkpoint) -> None:
        if checkpoint.awaited:
            return
        checkpoint.completed_at = self._agenda.now
        self._end(checkpoint)

    def decline(self, checkpoint_id: int) -> None:
        """A subtask has given a checkpoint up; the coordinator learns of it a little later and fails it."""
        self._agenda.after(self._randomness.uniform(*self._costs.ack_s), self._declined, checkpoint_id)

    def _declined(self, checkpoint_id: int) -> None:
        checkpoint = self.pending
        if checkpoint is not None and checkpoint.identity == checkpoint_id:
            checkpoint.failed = True
            self._end(checkpoint)

    def _end(self, checkpoint: Checkpoint) -> None:
        self.pending = None
        self._on_end(checkpoint)
        if self._queued:
            self._queued = False
            self._agenda.after(QUEUED_REQUEST_DELAY_S, self._trigger)
