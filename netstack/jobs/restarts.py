"""What is known of failures and restarts, and the counters that go on over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..checkpoints.initial import InitialCheckpoint
from ..checkpoints.recovery import SubtaskRecovery
from ..results.result import Work
from ..results.statistics import SubtaskSample
from ..state.snapshots import CheckpointMetadata

_COUNTERS = (
    "records_in",
    "bytes_in",
    "buffers_in",
    "records_out",
    "bytes_out",
    "buffers_out",
    "busy_s",
    "backpressured_s",
    "idle_s",
)


class Restart:
    """A failure and the restart after it; times in seconds, None for what has not come.

    `tasks`: those that failed and restarted, by `task_names`; none are named if all of the job did.
    `checkpoint_id`: what was restored, None if they began anew. `restored_bytes` is the size of their
    state in it, `persisted_bytes` that of the data that was in flight. `unusable_checkpoint_id`: what could
    not be restored, so that the job failed at once.
    """

    def __init__(self, failed_at: float, cause: str, tasks: Sequence[str] = ()) -> None:
        self.failed_at = failed_at
        self.cause = cause
        self.tasks = list(tasks)
        self.restarted_at: float | None = None
        self.running_at: float | None = None
        self.checkpoint_id: int | None = None
        self.unusable_checkpoint_id: int | None = None
        self.restored_bytes = 0
        self.persisted_bytes = 0

    def restored(self, metadata: CheckpointMetadata) -> None:
        """The job begins again with the state of this checkpoint."""
        self.checkpoint_id = metadata.checkpoint_id
        self.restored_bytes = metadata.size
        self.persisted_bytes = metadata.persisted_bytes

    def restored_part(self, checkpoint_id: int, parts: Iterable[SubtaskRecovery]) -> None:
        """Some tasks begin again, each with its part of the state of this checkpoint."""
        self.checkpoint_id = checkpoint_id
        for part in parts:
            self.restored_bytes += part.bytes
            self.persisted_bytes += part.persisted_bytes


def failed_for_good(cause: str, why: str) -> str:
    """Return the cause of a job's last failure with what allows no further restart, if anything does."""
    return f"{cause} ({why})" if why else cause


def never_restored(restarts: Sequence[Restart]) -> str | None:
    """Return why a run has failed that was over before it could try another checkpoint; None: it was not."""
    if len(restarts) < 2 or restarts[-1].restarted_at is not None:
        return None
    latest = max(restarts[:-1], key=lambda restart: restart.restarted_at or 0.0)
    unusable = any(each.unusable_checkpoint_id is not None for each in (restarts[-2], latest))
    return f"{restarts[-1].cause}; the run was over before an older one was tried" if unusable else None


class Start:
    """The start of a run from a checkpoint of an earlier one.

    `running_at`: when all tasks had their state, in seconds; None if it did not come to that.
    """

    def __init__(self, initial: InitialCheckpoint) -> None:
        self.initial = initial
        self.running_at: float | None = None


NOTHING_RUNS = SubtaskSample(input_queue_size=0, output_queue_size=0)
"""The figures of a subtask that is not there."""


class Totals:
    """Counters of all attempts that have ended."""

    def __init__(self, subtasks: int) -> None:
        self._ended = [NOTHING_RUNS] * subtasks
        self.work = Work()

    def add(self, samples: Sequence[SubtaskSample], work: Work) -> None:
        """An attempt has ended with these figures; one that failed while it was built has fewer."""
        missing = [NOTHING_RUNS] * (len(self._ended) - len(samples))
        self._ended = [
            NOTHING_RUNS._replace(**{name: getattr(sum_, name) for name in _COUNTERS})
            for sum_ in self.plus([*samples, *missing])
        ]
        self.work = self.work_plus(work)

    def plus(self, samples: Sequence[SubtaskSample]) -> list[SubtaskSample]:
        """The samples of a running attempt with the counters of those before; none: nothing runs."""
        if not samples:
            return self._ended
        return [
            sample._replace(**{name: getattr(sample, name) + getattr(ended, name) for name in _COUNTERS})
            for ended, sample in zip(self._ended, samples, strict=True)
        ]

    def work_plus(self, work: Work) -> Work:
        """The work of a running attempt and of those before."""
        before = self.work
        return Work(
            buffers=before.buffers + work.buffers,
            records=before.records + work.records,
            bytes=before.bytes + work.bytes,
            messages=before.messages + work.messages,
        )
