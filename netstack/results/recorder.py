"""Recordings of a run: samples once a second, and checkpoints, in tables of bounded size.

The job hands its raw figures to a `Recorder`; `summary` turns them into a result.

Both tables are numpy arrays that grow by doubling. Memory stays bounded for jobs of any length: a full
table drops every other row and from then on takes only every 2nd, 4th, 8th ... row offered. Up to that
point, four hours of a job of six subtasks and one of a job of 25, nothing is lost; after it medians are taken
over fewer values and slopes over the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Figures = NDArray[np.float64]

TABLE_BYTES = 16 << 20
"""Memory that a table may take before it is thinned out."""

LEAST_ROWS = 1024
"""Rows that a table keeps at least, whatever they take."""

_FIRST_ROWS = 64


class SubtaskSample(NamedTuple):
    """One subtask at one moment: counters and times since opening, and gauges."""

    records_in: int = 0
    bytes_in: int = 0
    """Bytes of records with their 4-byte length; headers of buffers are not in."""
    buffers_in: int = 0
    records_out: int = 0
    bytes_out: int = 0
    buffers_out: int = 0
    busy_s: float = 0.0
    backpressured_s: float = 0.0
    idle_s: float = 0.0
    debloated_buffer_size: float = math.nan
    """Bytes; NaN where there is no such gauge. So is the next one, in milliseconds."""
    estimated_time_to_consume_ms: float = math.nan
    input_queue_length: int = 0
    """Buffers and events over all channels."""
    output_queue_length: int = 0
    input_queue_size: float = math.nan
    """Bytes in those buffers; NaN where it is not known. So is the next one."""
    output_queue_size: float = math.nan
    in_pool_usage: float = 0.0
    """0 to 1, above 1 with overdraft buffers."""
    out_pool_usage: float = 0.0
    exclusive_buffers_usage: float = math.nan
    """Parts of the in-pool usage; NaN where there is no input."""
    floating_buffers_usage: float = math.nan
    watermark_lag_ms: float = math.nan
    """Lag of the watermark behind the clock: of the last one sent by a source, else the least one read."""


class FiredFault(msgspec.Struct, frozen=True):
    """A fault that has fired: when, in seconds since the tasks opened; its kind; and what happened then."""

    time: float
    kind: str
    what: str


class SubtaskCheckpoint(NamedTuple):
    """One subtask's part in a checkpoint; NaN is what was not measured."""

    end_to_end_s: float
    """Trigger to the arrival of the acknowledgement."""
    start_delay_s: float
    """Trigger to the first barrier; of a source, to its emission."""
    alignment_s: float = 0.0
    """First to last barrier."""
    sync_s: float = 0.0
    async_s: float = 0.0
    alignment_processed_bytes: int = 0
    alignment_persisted_bytes: int = 0
    unaligned: bool = False


class Table:
    """Rows of figures for all subtasks, ``rows[row, column, subtask]``; thinned out when it is full."""

    def __init__(self, columns: int, subtasks: int, *, table_bytes: int = TABLE_BYTES) -> None:
        self._limit = max(LEAST_ROWS, table_bytes // (8 * columns * max(1, subtasks))) & ~1
        self._data: Figures = np.empty((min(_FIRST_ROWS, self._limit), columns, subtasks))
        self._rows = 0
        self._offered = 0
        self._stride = 1

    def __len__(self) -> int:
        return self._rows

    @property
    def rows(self) -> Figures:
        """The rows kept, oldest first; a view that the next `append` may invalidate."""
        return self._data[: self._rows]

    def append(self, row: Figures) -> bool:
        """Offer a row; True if it was kept. A full table first drops every other of its rows."""
        wanted = self._offered % self._stride == 0
        self._offered += 1
        if not wanted:
            return False
        if self._rows == len(self._data):
            self._grow()
        self._data[self._rows] = row
        self._rows += 1
        if self._rows == self._limit:
            self._rows //= 2
            self._stride *= 2
            self._data[: self._rows] = self._data[0 : self._limit : 2]
        return True

    def _grow(self) -> None:
        grown = np.empty((min(2 * len(self._data), self._limit), *self._data.shape[1:]))
        grown[: self._rows] = self._data
        self._data = grown


class CheckpointHead(NamedTuple):
    """A checkpoint as a whole."""

    checkpoint_id: int
    triggered_at: float
    status: str
    duration_s: float | None
    checkpoint_type: str = "CHECKPOINT"
    failure: str | None = None
    state_bytes: int = 0
    """Size of all its state, data in flight included."""
    checkpointed_bytes: int | None = None
    """The part that was stored for this checkpoint; None: unknown."""
    savepoint: str | None = None
    """Path of a savepoint."""
    ended_at: float | None = None
    """Time of completion or failure, in seconds; None: it was in progress when the run ended."""


class Recorder:
    """Keeps what a job reports.

    `parallelisms` has the number of subtasks of each vertex; a subtask's place is that in the flat list of
    all subtasks, vertex by vertex.
    """

    def __init__(self, parallelisms: Sequence[int], *, table_bytes: int = TABLE_BYTES) -> None:
        self.parallelisms = tuple(parallelisms)
        self._offsets = [sum(self.parallelisms[:vertex]) for vertex in range(len(self.parallelisms) + 1)]
        total = self._offsets[-1]
        # The first column is the time, once for each subtask: so it is thinned out with the rest.
        self._samples = Table(1 + len(SubtaskSample._fields), total, table_bytes=table_bytes)
        self._parts = Table(len(SubtaskCheckpoint._fields), total, table_bytes=table_bytes)
        self._heads: list[CheckpointHead] = []
        self._last_sample = -math.inf

    def sample(self, now: float, subtasks: Sequence[SubtaskSample]) -> None:
        """Record all subtasks at a time, in seconds; a second report for one moment is ignored."""
        if self._last_sample == now:
            return
        self._last_sample = now
        self._samples.append(np.array([(now, *sample) for sample in subtasks], dtype=np.float64).T)

    def checkpoint(
        self,
        checkpoint_id: int,
        triggered_at: float,
        parts: Mapping[tuple[int, int], SubtaskCheckpoint],
        *,
        duration_s: float | None,
        status: str = "COMPLETED",
        checkpoint_type: str = "CHECKPOINT",
        failure: str | None = None,
        state_bytes: int = 0,
        checkpointed_bytes: int | None = None,
        savepoint: str | None = None,
        ended_at: float | None = None,
    ) -> None:
        """Record a checkpoint when nothing of it changes any more.

        `parts` is by vertex and subtask; who is missing did not acknowledge. `duration_s` is from the trigger
        to completion, None if that did not come. `failure` is the reason why, and `state_bytes` the size of
        all state, of which `checkpointed_bytes` were stored for it. `savepoint` is the location of one,
        `ended_at` the second of the run at which it was completed or failed.
        """
        row = np.full((len(SubtaskCheckpoint._fields), self._offsets[-1]), math.nan)
        for (vertex, subtask), part in parts.items():
            row[:, self._offsets[vertex] + subtask] = part
        if self._parts.append(row):
            self._heads.append(
                CheckpointHead(
                    checkpoint_id,
                    triggered_at,
                    status,
                    duration_s,
                    checkpoint_type,
                    failure,
                    state_bytes,
                    checkpointed_bytes,
                    savepoint,
                    ended_at,
                )
            )
            if len(self._parts) < len(self._heads):
                del self._heads[1::2]

    @property
    def times(self) -> Figures:
        """The times of the samples kept, in seconds."""
        return self._samples.rows[:, 0, 0]

    @property
    def checkpoints(self) -> list[CheckpointHead]:
        """The checkpoints kept, as they were recorded."""
        return self._heads

    def samples_of(self, vertex: int) -> dict[str, Figures]:
        """The samples of a vertex: ``[subtask, sample]`` by the name of a field of `SubtaskSample`."""
        rows = self._samples.rows[:, :, self._offsets[vertex] : self._offsets[vertex + 1]]
        return {name: rows[:, column].T for column, name in enumerate(SubtaskSample._fields, 1)}

    def parts_of(self, vertex: int) -> dict[str, Figures]:
        """The checkpoints of a vertex: ``[checkpoint, subtask]`` by the field of `SubtaskCheckpoint`."""
        rows = self._parts.rows[:, :, self._offsets[vertex] : self._offsets[vertex + 1]]
        return {name: rows[:, column] for column, name in enumerate(SubtaskCheckpoint._fields)}


EndOfRun = Callable[[Recorder], float]
"""Asked at each sample from the end of the warm-up on, with what was recorded so far, when the run is to end,
in emulated seconds."""
