"""What each process tells of one attempt when that is over; whoever started them all puts it together."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import msgspec
import numpy as np

from ..results.result import Work
from ..results.statistics import (
    CheckpointHead,
    Figures,
    FiredFault,
    Recorder,
    SubtaskCheckpoint,
    SubtaskSample,
)
from ..results.trace import TraceEvent

COLUMNS = 1 + len(SubtaskSample._fields)
"""Figures of a subtask in a row of samples: the time comes first."""


class Blame(IntEnum):
    """How near a failure is to its cause: what happened here, that a peer has gone, or what a peer told."""

    OWN = 0
    PEER_LOST = 1
    TOLD = 2


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed as one process saw it, and when, in seconds of the run."""

    cause: str
    at: float
    blame: Blame = Blame.OWN
    unrestorable: bool = False
    """Whether the checkpoint that the attempt began with could not be restored."""


class CheckpointRecord(msgspec.Struct, frozen=True):
    """A checkpoint, and what each subtask did for it, by vertex and index."""

    head: CheckpointHead
    parts: list[tuple[int, int, SubtaskCheckpoint]]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as one process saw it; times in seconds of the run.

    `origin` is when the run began on the wall clock, None if the attempt failed before that was known, and
    `begins_at` when the tasks opened, None if it did not come to that.
    `samples` are rows of figures: the time, once for each subtask of this process, then a sample of each.
    `behind_s` is how far the process fell behind the clock on the wall, None if its tasks did not open.
    The leader alone has `checkpoints` and `running_at`, when all subtasks had their state. `leaked_segments`
    were not given back at the end.
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

    @property
    def rows(self) -> Figures:
        """The samples, ``rows[row, column, subtask]``, oldest first; the first column is the time."""
        return np.frombuffer(self.samples, dtype=np.float64).reshape(-1, COLUMNS, self.subtasks)


def checkpoint_records(recorder: Recorder) -> list[CheckpointRecord]:
    """Return the checkpoints that a recorder has kept."""
    tables = [recorder.parts_of(vertex) for vertex in range(len(recorder.parallelisms))]
    return [
        CheckpointRecord(head, list(_parts(tables, row))) for row, head in enumerate(recorder.checkpoints)
    ]


def _parts(tables: list[dict[str, Figures]], row: int) -> Iterator[tuple[int, int, SubtaskCheckpoint]]:
    """What each subtask did for the checkpoint in a row of the tables, of those that took part."""
    for vertex, table in enumerate(tables):
        for index in np.flatnonzero(~np.isnan(table["end_to_end_s"][row])).tolist():
            figures = {name: column[row][index].item() for name, column in table.items()}
            figures["unaligned"] = bool(figures["unaligned"])
            for name in ("alignment_processed_bytes", "alignment_persisted_bytes"):
                figures[name] = int(figures[name])
            yield vertex, index, SubtaskCheckpoint(**figures)


def encode_report(report: Report) -> bytes:
    """Return the bytes of a report."""
    return msgspec.msgpack.encode(report)


def decode_report(data: bytes) -> Report:
    """Return the report in these bytes.

    Raises:
        ValueError: if they are none.
    """
    try:
        return msgspec.msgpack.decode(data, type=Report)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
