"""Input and reports of the processes that run one attempt of a job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import msgspec
import numpy as np

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.recovery import ClaimMode
from ..results.recorder import (
    CheckpointHead,
    FiredFault,
    FloatArray,
    Recorder,
    SubtaskSample,
)
from ..results.result import SubtaskCheckpoint, Work
from ..results.trace import TraceEvent
from ..scenarios.scenario import Scenario

__all__ = ["Assignment", "Report", "decode_report", "encode_report"]


class FilledLog(msgspec.Struct, frozen=True):
    """The log that a source subtask reads: the record at position `first` arrived at `since_s`, in seconds of
    the run, and the others follow at the subtask's rate.
    """

    task: TaskKey
    since_s: float
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The input that all processes of an attempt share.

    `origin`: start of the run on the wall clock; None for the first attempt. `restore`: id of the checkpoint
    to restore; None for the first attempt, or if no checkpoint was complete. `logs`: how far the logs of
    paced sources had been filled. `from_initial`: whether the
    checkpoint to restore belongs to an earlier run and is in the storage of that run. `retained`: complete
    checkpoints of this run, oldest first. `first_checkpoint`: id of the attempt's first checkpoint. `traced`:
    whether reports contain trace events.
    """

    scenario: Scenario
    origin: float | None = None
    restore: int | None = None
    logs: tuple[FilledLog, ...] = ()
    retained: tuple[int, ...] = ()
    from_initial: bool = False
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    in_place: bool = False
    first_checkpoint: int = 1
    traced: bool = False


COLUMNS = 1 + len(SubtaskSample._fields)
"""Number of figures of a subtask in a row of samples, including the time."""


class Blame(IntEnum):
    """Distance of a failure from its cause: 0 if this process itself failed, 1 if it lost a peer, 2 if a peer
    reported a failure.
    """

    OWN = 0
    PEER_LOST = 1
    PEER_REPORTED = 2


class Failure(msgspec.Struct, frozen=True):
    """Cause of an attempt's failure as one process reports it, and its time in seconds of the run."""

    cause: str
    at: float
    blame: Blame = Blame.OWN
    unrestorable: bool = False
    """Whether the checkpoint that the attempt began with could not be restored."""


class CheckpointRecord(msgspec.Struct, frozen=True):
    """A checkpoint, and its parts as (vertex, index of the subtask, figures of the subtask)."""

    head: CheckpointHead
    parts: list[tuple[int, int, SubtaskCheckpoint]]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one process on one attempt; times in seconds of the run.

    `origin`: start of the run on the wall clock; None if the attempt failed before the start was set.
    `begins_at`: time at which the tasks opened; None if they did not open. `samples`: rows of figures; each
    row holds the time, repeated for each subtask of this process, and then a sample of each subtask.
    `behind_s`: lag of the process behind the wall clock; None if its tasks did not open. Only the leader
    reports `checkpoints` and `running_at`, the time at which all subtasks had their state. `leaked_segments`:
    segments that were not returned by the end. `logs`: the logs of this process's source subtasks.
    """

    index: int
    origin: float | None
    begins_at: float | None
    ended_at: float
    failure: Failure | None = None
    subtasks: int = 0
    samples: bytes = b""
    work: Work = Work()
    behind_s: float | None = None
    running_at: float | None = None
    checkpoints: list[CheckpointRecord] = []
    faults: list[FiredFault] = []
    trace: list[TraceEvent] = []
    leaked_segments: int = 0
    logs: list[FilledLog] = []

    @property
    def rows(self) -> FloatArray:
        """The samples as ``rows[row, column, subtask]``, oldest first; column 0 is the time."""
        return np.frombuffer(self.samples, dtype=np.float64).reshape(-1, COLUMNS, self.subtasks)


def checkpoint_records(recorder: Recorder) -> list[CheckpointRecord]:
    """Return the checkpoints in a recorder."""
    tables = [recorder.parts_of(vertex) for vertex in range(len(recorder.parallelisms))]
    return [
        CheckpointRecord(head, list(_parts(tables, row))) for row, head in enumerate(recorder.checkpoints)
    ]


def _parts(tables: list[dict[str, FloatArray]], row: int) -> Iterator[tuple[int, int, SubtaskCheckpoint]]:
    """Yield vertex, index and figures of each subtask that took part in the checkpoint in row `row`."""
    for vertex, table in enumerate(tables):
        for index in np.flatnonzero(~np.isnan(table["end_to_end_s"][row])).tolist():
            figures = {name: column[row][index].item() for name, column in table.items()}
            figures["unaligned"] = bool(figures["unaligned"])
            for name in ("alignment_processed_bytes", "alignment_persisted_bytes"):
                figures[name] = int(figures[name])
            yield vertex, index, SubtaskCheckpoint(**figures)


def encode_report(report: Report) -> bytes:
    """Encode a report."""
    return msgspec.msgpack.encode(report)


def decode_report(data: bytes) -> Report:
    """Decode a report.

    Raises:
        ValueError: if the bytes are not a report.
    """
    try:
        return msgspec.msgpack.decode(data, type=Report)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
