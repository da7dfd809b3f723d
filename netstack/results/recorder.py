"""Recordings of a run: samples once a second, and checkpoints, in tables of bounded size.

The job passes its raw figures to a `Recorder`; `result_figures` turns them into a result.

Both tables are numpy arrays that grow by doubling. Their memory is bounded for runs of any length. Each time
a table is full, it drops every second row, and afterwards keeps only every 2nd, 4th, 8th ... row. The table
of samples is full after four hours with six subtasks, or after one hour with 25; until then, no sample is
lost. Afterwards, medians are computed from fewer values; slopes still cover the whole time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..scenarios.checkpoint_modes import CheckpointType
from .result import CheckpointStatus, SubtaskCheckpoint

__all__ = ["Recorder", "SubtaskSample"]

FloatArray = NDArray[np.float64]

TABLE_BYTES = 16 << 20
"""Maximum memory of a table in bytes; beyond it, rows are dropped."""

LEAST_ROWS = 1024
"""Minimum number of rows that a table keeps, whatever their size."""

_FIRST_ROWS = 64


class SubtaskSample(NamedTuple):
    """Figures of one subtask at one moment: counters and times since opening, and gauges."""

    records_in: int = 0
    bytes_in: int = 0
    """Bytes of records with their 4-byte length, without headers of buffers."""
    buffers_in: int = 0
    records_out: int = 0
    bytes_out: int = 0
    buffers_out: int = 0
    busy_s: float = 0.0
    backpressured_s: float = 0.0
    idle_s: float = 0.0
    debloated_buffer_size: float = math.nan
    """Size in bytes; NaN if debloating is off or there is no input."""
    estimated_time_to_consume_ms: float = math.nan
    """NaN if debloating is off or there is no input."""
    input_queue_length: int = 0
    """Buffers and events over all channels."""
    output_queue_length: int = 0
    input_queue_size: float = math.nan
    """Bytes in the queued buffers; NaN if unknown."""
    output_queue_size: float = math.nan
    """Bytes in the queued buffers; NaN if unknown."""
    in_pool_usage: float = 0.0
    """0 to 1, above 1 with overdraft buffers."""
    out_pool_usage: float = 0.0
    exclusive_buffers_usage: float = math.nan
    """Usage of the exclusive buffers alone; NaN if there is no input."""
    floating_buffers_usage: float = math.nan
    """Usage of the floating buffers alone; NaN if there is no input."""
    watermark_lag_ms: float = math.nan
    """Lag behind the clock: for a source, of the last watermark that it sent; for other tasks, of the lowest
    watermark read.
    """
    pending_records: float = math.nan
    """Records that have arrived and that the source has not read; NaN without a rate, or for other tasks."""


class FiredFault(msgspec.Struct, frozen=True):
    """A fault that has fired: its time in seconds since the tasks opened, its kind, and its effect."""

    time: float
    kind: str
    what: str


class Table:
    """Rows of figures for all subtasks, ``rows[row, column, subtask]``.

    A full table drops half of its rows.
    """

    def __init__(self, columns: int, subtasks: int, *, table_bytes: int = TABLE_BYTES) -> None:
        self._limit = max(LEAST_ROWS, table_bytes // (8 * columns * max(1, subtasks))) & ~1
        self._data: FloatArray = np.empty((min(_FIRST_ROWS, self._limit), columns, subtasks))
        self._rows = 0
        self._offered = 0
        self._stride = 1

    def __len__(self) -> int:
        return self._rows

    @property
    def rows(self) -> FloatArray:
        """The rows kept, oldest first; a view that the next `append` may invalidate."""
        return self._data[: self._rows]

    def append(self, row: FloatArray) -> bool:
        """Offer a row; returns whether it was kept. A full table first drops every second row."""
        wanted = self._offered % self._stride == 0
        self._offered += 1
        if not wanted:
            return False
        if self._rows == len(self._data):
            grown = np.empty((min(2 * len(self._data), self._limit), *self._data.shape[1:]))
            grown[: self._rows] = self._data
            self._data = grown
        self._data[self._rows] = row
        self._rows += 1
        if self._rows == self._limit:
            self._rows //= 2
            self._stride *= 2
            self._data[: self._rows] = self._data[0 : self._limit : 2]
        return True


class CheckpointHead(NamedTuple):
    """Figures of a checkpoint as a whole."""

    checkpoint_id: int
    triggered_at: float
    duration_s: float | None
    """Time from trigger to completion; None if not completed."""
    status: CheckpointStatus = CheckpointStatus.COMPLETED
    checkpoint_type: CheckpointType = CheckpointType.CHECKPOINT
    failure: str | None = None
    """Reason of a failure."""
    state_bytes: int = 0
    """Size of all state of the checkpoint, including in-flight data."""
    checkpointed_bytes: int | None = None
    """The part of the state that was newly stored for this checkpoint; None: unknown."""
    savepoint: str | None = None
    """Path of a savepoint."""
    ended_at: float | None = None
    """Time of completion or failure, in seconds; None: in progress at the end of the run."""


class Recorder:
    """Keeps the samples and checkpoints of a job.

    `parallelisms` holds the number of subtasks of each vertex. Columns of subtasks are ordered vertex by
    vertex.
    """

    def __init__(self, parallelisms: Sequence[int], *, table_bytes: int = TABLE_BYTES) -> None:
        self.parallelisms = tuple(parallelisms)
        self._offsets = [sum(self.parallelisms[:vertex]) for vertex in range(len(self.parallelisms) + 1)]
        total = self._offsets[-1]
        # The first column is the time, repeated for each subtask, so that it is dropped with its row.
        self._samples = Table(1 + len(SubtaskSample._fields), total, table_bytes=table_bytes)
        self._parts = Table(len(SubtaskCheckpoint._fields), total, table_bytes=table_bytes)
        self._heads: list[CheckpointHead] = []
        self._last_sample = -math.inf

    def sample(self, now: float, subtasks: Sequence[SubtaskSample]) -> None:
        """Record a sample of all subtasks at time `now` in seconds; a second sample for the same time is
        ignored.
        """
        if self._last_sample == now:
            return
        self._last_sample = now
        self._samples.append(np.array([(now, *sample) for sample in subtasks], dtype=np.float64).T)

    def checkpoint(self, head: CheckpointHead, parts: Mapping[tuple[int, int], SubtaskCheckpoint]) -> None:
        """Record a checkpoint that has ended.

        `parts` maps (vertex, subtask) to its figures; subtasks that did not acknowledge are missing.
        """
        row = np.full((len(SubtaskCheckpoint._fields), self._offsets[-1]), math.nan)
        for (vertex, subtask), part in parts.items():
            row[:, self._offsets[vertex] + subtask] = part
        if self._parts.append(row):
            self._heads.append(head)
            if len(self._parts) < len(self._heads):
                del self._heads[1::2]  # the full table has dropped these rows

    @property
    def times(self) -> FloatArray:
        """Times of the samples kept, in seconds."""
        return self._samples.rows[:, 0, 0]

    @property
    def checkpoints(self) -> list[CheckpointHead]:
        """The checkpoints kept, in the order of recording."""
        return self._heads

    def samples_of(self, vertex: int) -> dict[str, FloatArray]:
        """Return the samples of a vertex as arrays ``[subtask, sample]``, by field of `SubtaskSample`."""
        rows = self._samples.rows[:, :, self._offsets[vertex] : self._offsets[vertex + 1]]
        return {name: rows[:, column].T for column, name in enumerate(SubtaskSample._fields, 1)}

    def parts_of(self, vertex: int) -> dict[str, FloatArray]:
        """Return the checkpoints of a vertex as arrays ``[checkpoint, subtask]``, by field of
        `SubtaskCheckpoint`.
        """
        rows = self._parts.rows[:, :, self._offsets[vertex] : self._offsets[vertex + 1]]
        return {name: rows[:, column] for column, name in enumerate(SubtaskCheckpoint._fields)}


EndOfRun = Callable[[Recorder], float]
"""Returns the time at which the run ends, in emulated seconds; called with the recordings so far, at each
sample after the warm-up.
"""
