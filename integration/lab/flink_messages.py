"""What the lab says of a running Flink beside which it runs a job; `page_messages` has all the rest.

The page gets a `Reading` while the job is read, before there is a `Hello`, and a `FlinkFrame` each second
from then on. Times are in seconds, sizes in bytes, shares from 0 to 1; what nobody knows is null, never 0.
"""

from __future__ import annotations

from typing import Literal

import msgspec

FlinkState = Literal["running", "recorded", "away", "waiting", "gone"]
"""The job runs; it is a recording; the cluster cannot be reached; the job does not run at the moment; it is
not what was read any more."""


class Reading(msgspec.Struct, frozen=True, tag="reading"):
    """A job is read from Flink: its metrics were watched for `done_s` of `total_s` (null: not yet).

    `problem` says why it could not be read; then the page may ask to read again.
    """

    url: str
    done_s: float | None = None
    total_s: float | None = None
    problem: str | None = None


class FlinkJobShape(msgspec.Struct, frozen=True):
    """Which job was read; `notes` say what could not be."""

    url: str
    job: str
    job_name: str
    version: str
    notes: list[str]


class VertexFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a vertex does, over its subtasks: shares are means, rates are sums."""

    busy: float | None = None
    backpressured: float | None = None
    idle: float | None = None
    records_per_s: float | None = None
    """Records that it emits, if it is a source; else that it reads."""
    in_pool: float | None = None
    out_pool: float | None = None
    input_queue: float | None = None
    """Buffers, the mean of the subtasks; so is the next one."""
    output_queue: float | None = None
    buffer_bytes: float | None = None
    """The least debloated size."""
    time_to_consume_s: float | None = None
    """The longest."""
    start_delay_s: float | None = None
    """Median over checkpoints of the mean over subtasks."""
    alignment_s: float | None = None
    """Median over checkpoints of the slowest subtask's."""


class JobFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a job does over a window: its vertices in the order of `Hello`, and its completed checkpoints."""

    vertices: list[VertexFigures]
    over_s: float | None = None
    """How long the window is; null: as it was read."""
    checkpoints: int = 0
    end_to_end_s: float | None = None
    end_to_end_least_s: float | None = None
    end_to_end_most_s: float | None = None
    in_flight_bytes: float | None = None
    """Data in flight that was stored with a checkpoint."""


class FlinkCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One of the last checkpoints of the job in Flink; delays are the longest of all subtasks."""

    id: int
    t: float
    """When it was triggered, since the job began to run."""
    kind: str
    end_to_end_s: float | None
    start_delay_s: float | None
    alignment_s: float | None
    in_flight_bytes: int


class Predicted(msgspec.Struct, frozen=True):
    """What a side of the lab does over its last window; null until its queues are as they will be."""

    side: str
    figures: JobFigures | None


class FlinkFrame(msgspec.Struct, frozen=True, tag="flink"):
    """What Flink shows beside what is predicted.

    `age_s` is how old the figures of Flink are, null of a recording; `text` says what is wrong.
    """

    state: FlinkState
    text: str
    age_s: float | None
    flink: JobFigures
    predicted: list[Predicted]
    checkpoints: list[FlinkCheckpoint]


class ReadAgain(msgspec.Struct, frozen=True, tag="read_again"):
    """Read the job from Flink anew, and begin anew with it."""
