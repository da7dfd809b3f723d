"""What has to follow the end of a checkpoint: tasks hear of it, older ones are given up, a job may fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from netstack import CHANNEL_STATE, Job, StateFormat, SubtaskSnapshot

_LAST_S = 0.05
"""So long before the end of a run, tasks may have ended that would have to hear of something."""

_ROUNDING_S = 1e-9

_COUNTED = (
    "IO_EXCEPTION",
    "CHECKPOINT_ASYNC_EXCEPTION",
    "CHECKPOINT_EXPIRED",
    "CHECKPOINT_DECLINED",
    "FINALIZE_CHECKPOINT_FAILURE",
)
"""Failures of which a job tolerates only so many in a row."""


_ABORTED = "aborted"


class Notices:
    """Counts what a coordinator tells its tasks, by kind and time."""

    def __init__(self) -> None:
        self._sent: Counter[tuple[str, float]] = Counter()

    def listen(self, job: Job) -> None:
        """Hear what is sent in a job."""

        def heard(kind: str, task: tuple[int, int]) -> float:
            self._sent[kind, job.agenda.now] += 1
            return 0.0

        # First, since a fault may lose a message, of which nobody else hears then.
        job.coordinator.control_plane.interference.insert(0, heard)

    def check(self, job: Job) -> Iterator[str]:
        """Yield for which checkpoints no task was told that they had ended."""
        for head in job.recorder.checkpoints:
            if (
                head.ended_at is None
                or head.savepoint is not None
                or head.ended_at > job.agenda.now - _LAST_S
            ):
                continue
            if head.failure == "CHECKPOINT_COORDINATOR_SUSPEND":
                continue  # the tasks are gone
            kind = _ABORTED if head.failure else "completed"
            if not self._sent[kind, head.ended_at]:
                yield f"no task was told that checkpoint {head.checkpoint_id} was {kind}"

    def were_all_over(self, job: Job, failed_at: float) -> bool:
        """Whether all tasks had ended when a checkpoint failed, as nobody was told of it."""
        return failed_at > job.agenda.now - _LAST_S and not self._sent[_ABORTED, failed_at]


def check_subsumed(job: Job) -> Iterator[str]:
    """No checkpoint goes on when a later one is complete, but for those that users want."""
    heads = [head for head in job.recorder.checkpoints if head.savepoint is None]
    for head in heads:
        if head.status != "COMPLETED" or head.ended_at is None:
            continue
        for older in heads:
            goes_on = older.ended_at is None or older.ended_at > head.ended_at + _ROUNDING_S
            if older.checkpoint_id < head.checkpoint_id and goes_on:
                text = f"checkpoint {older.checkpoint_id} goes on behind {head.ended_at:.6f} s"
                yield f"{text}, when checkpoint {head.checkpoint_id} was complete"


def check_tolerance(job: Job, notices: Notices) -> Iterator[str]:
    """A job that is not over fails with the first checkpoint that is one failure in a row too many."""
    tolerable, in_a_row, succeeded = job.scenario.config.tolerable_failed_checkpoints, 0, 0
    failed_at = [restart.failed_at for restart in job.restarts]
    if job.failure is not None:
        failed_at.append(job.agenda.now)
    ended = [(head.ended_at, head) for head in job.recorder.checkpoints if head.ended_at is not None]
    for ended_at, head in sorted(ended, key=lambda each: (each[0], each[1].checkpoint_id)):
        if head.status == "COMPLETED":
            in_a_row, succeeded = 0, max(succeeded, head.checkpoint_id)
        elif head.failure in _COUNTED and head.checkpoint_id > succeeded and not head.savepoint:
            in_a_row += 1
            if in_a_row > tolerable:
                in_a_row = 0
                failed = any(abs(at - ended_at) <= _ROUNDING_S for at in failed_at)
                if not failed and not notices.were_all_over(job, ended_at):
                    text = f"checkpoint {head.checkpoint_id} failed at {ended_at:.6f} s"
                    yield f"{text}, more in a row than {tolerable}, and the job went on"


def check_uploads(job: Job) -> Iterator[str]:
    """To store what a task had not stored before takes its time, at the rate of the costs."""
    rate = job.scenario.costs.upload_rate_bytes_per_s
    places = {head.checkpoint_id: place for place, head in enumerate(job.recorder.checkpoints)}
    for metadata in job.coordinator.store.checkpoints:
        place = places.get(metadata.checkpoint_id)
        if place is not None:
            yield from _too_fast(job, metadata.subtasks, place, rate)


def _too_fast(job: Job, subtasks: Sequence[SubtaskSnapshot], place: int, rate: float) -> Iterator[str]:
    numbers = {vertex.name: number for number, vertex in enumerate(job.scenario.vertices)}
    for each in subtasks:
        new = [handle for handle in each.handles if handle.file is not None and not handle.stored_before]
        # Changes and overtaken data may have been under way before.
        sizes = [
            handle.size
            for handle in new
            if handle.format is not StateFormat.LOG and handle.kind not in CHANNEL_STATE
        ]
        stored = sum(sizes)
        took = job.recorder.parts_of(numbers[each.vertex])["async_s"][place][each.subtask]
        if stored / rate > took + _ROUNDING_S:
            yield f"{each.vertex}[{each.subtask}] stored {stored} bytes in {took:.9f} s, at {rate:g} B/s"
