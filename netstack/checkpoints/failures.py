"""Why checkpoints fail, and how many failures a job puts up with.

A failure counts if something is wrong with the state or its storage, or if it took too long. That a task
has ended or gave a checkpoint up for a newer one is part of a job's life and does not count. The rules are
those of Flink's CheckpointFailureManager.
"""

from __future__ import annotations

from enum import StrEnum


class FailureReason(StrEnum):
    """Why a checkpoint was not completed, or not begun (Flink's CheckpointFailureReason)."""

    TOO_MANY_CHECKPOINT_REQUESTS = "TOO_MANY_CHECKPOINT_REQUESTS"
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = "MINIMUM_TIME_BETWEEN_CHECKPOINTS"
    NOT_ALL_REQUIRED_TASKS_RUNNING = "NOT_ALL_REQUIRED_TASKS_RUNNING"
    IO_EXCEPTION = "IO_EXCEPTION"
    CHECKPOINT_ASYNC_EXCEPTION = "CHECKPOINT_ASYNC_EXCEPTION"
    CHECKPOINT_EXPIRED = "CHECKPOINT_EXPIRED"
    CHECKPOINT_SUBSUMED = "CHECKPOINT_SUBSUMED"
    CHECKPOINT_DECLINED = "CHECKPOINT_DECLINED"
    CHECKPOINT_DECLINED_TASK_NOT_READY = "CHECKPOINT_DECLINED_TASK_NOT_READY"
    CHECKPOINT_DECLINED_TASK_CLOSING = "CHECKPOINT_DECLINED_TASK_CLOSING"
    CHECKPOINT_DECLINED_SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"
    CHECKPOINT_COORDINATOR_SUSPEND = "CHECKPOINT_COORDINATOR_SUSPEND"
    TASK_FAILURE = "TASK_FAILURE"
    FINALIZE_CHECKPOINT_FAILURE = "FINALIZE_CHECKPOINT_FAILURE"


COUNTED = frozenset(
    {
        FailureReason.IO_EXCEPTION,
        FailureReason.CHECKPOINT_ASYNC_EXCEPTION,
        FailureReason.CHECKPOINT_EXPIRED,
        FailureReason.CHECKPOINT_DECLINED,
        FailureReason.FINALIZE_CHECKPOINT_FAILURE,
    }
)
"""Failures that a job tolerates only so many of in a row."""


class FailureCounter:
    """Counts failures in a row; more than `tolerable` are too many, and the count begins anew."""

    def __init__(self, tolerable: int) -> None:
        self.tolerable = tolerable
        self.in_a_row = 0
        self._last_success = 0

    def succeeded(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: earlier ones do not count any more, whenever they fail."""
        self._last_success = max(self._last_success, checkpoint_id)
        self.in_a_row = 0

    def failed(self, checkpoint_id: int, reason: FailureReason) -> bool:
        """A checkpoint has failed; whether the job has to fail too."""
        if reason not in COUNTED or checkpoint_id <= self._last_success:
            return False
        self.in_a_row += 1
        if self.in_a_row <= self.tolerable:
            return False
        self.in_a_row = 0
        return True
