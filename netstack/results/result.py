"""Results: the figures of a run, as typed values and as one JSON document (schema ``netstack.result/1``).

Field names, units and definitions are the same as in measurements of a real Flink, so that numbers can be
compared directly. Every list over vertices contains all vertices, sources first, then in the order of the
scenario. Every list over subtasks is indexed by subtask.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from flowcontrol import readable

from ..scenarios.checkpoint_modes import CheckpointType
from ..scenarios.scenario import Scenario
from .notebook_views import Viewed

__all__ = [
    "SCHEMA",
    "CheckpointResult",
    "CheckpointStatus",
    "FaultResult",
    "RestartResult",
    "Result",
    "Series",
    "StartResult",
    "Steady",
    "VertexCheckpoint",
    "VertexSteady",
    "Work",
]

S = TypeVar("S")

Whole = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""An integer that other JSON readers can represent."""

SCHEMA = "netstack.result/1"
"""Name of the document's schema; readers reject other names."""


class CheckpointStatus(StrEnum):
    """Status of a checkpoint, by Flink's names."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    IN_PROGRESS = "IN_PROGRESS"


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Messages and bytes of a run, over all links, from opening to the end."""

    buffers: Whole = 0
    """Data buffers received, without events."""
    records: Whole = 0
    bytes: Whole = 0
    """Bytes of the data buffers received."""
    messages: Whole = 0
    """Messages of all kinds, in both directions."""

    def __add__(self, other: Work) -> Work:
        """Return the sum of both, figure by figure."""
        return Work(
            buffers=self.buffers + other.buffers,
            records=self.records + other.records,
            bytes=self.bytes + other.bytes,
            messages=self.messages + other.messages,
        )


class SubtaskCheckpoint(NamedTuple):
    """One subtask's part of a checkpoint, as it is measured; NaN: not measured.

    `VertexCheckpoint` has the same figures for all subtasks, with times in ms.
    """

    end_to_end_s: float = 0.0
    """Time from the trigger to the arrival of the acknowledgement."""
    start_delay_s: float = 0.0
    """Time from the trigger to the first barrier; for a source, to the emission of the barrier."""
    alignment_s: float = 0.0
    """Time from the first to the last barrier."""
    sync_s: float = 0.0
    async_s: float = 0.0
    alignment_processed_bytes: int = 0
    alignment_persisted_bytes: int = 0
    unaligned: bool = False


class VertexCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One vertex's part of a checkpoint.

    Lists are over subtasks, with None for a subtask that did not take part.
    """

    name: str
    end_to_end_ms: list[float | None] = []
    """Time from the trigger to the arrival of the acknowledgement."""
    start_delay_ms: list[float | None] = []
    """Time from the trigger to the first barrier; for a source, to the emission of the barrier."""
    alignment_ms: list[float | None] = []
    """Time from the first to the last barrier."""
    sync_ms: list[float | None] = []
    async_ms: list[float | None] = []
    alignment_processed_bytes: list[Whole | None] = []
    """Bytes read during the alignment."""
    alignment_persisted_bytes: list[Whole | None] = []
    """Size of the in-flight data that was stored."""
    unaligned: list[bool | None] = []


class CheckpointResult(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint; figures cover all subtasks that acknowledged it."""

    id: Whole
    t: float
    """Time of the trigger, in seconds."""
    status: CheckpointStatus = CheckpointStatus.COMPLETED
    checkpoint_type: str = CheckpointType.CHECKPOINT
    """A `CheckpointType`; "UNKNOWN" in measurements of a Flink that does not report it."""
    savepoint: str | UnsetType = UNSET
    """Path of the savepoint; absent for a checkpoint."""
    failure: str | None = None
    """Reason of a failure: the name of one of Flink's CheckpointFailureReason."""
    duration_ms: float | None = None
    """Time from trigger to completion; None if not completed."""
    state_bytes: Whole = 0
    """Size of all state, including in-flight data."""
    checkpointed_bytes: Whole | UnsetType = UNSET
    """Size of the state that was newly stored for this checkpoint; absent if all state was."""
    processed_bytes: Whole = 0
    persisted_bytes: Whole = 0
    vertices: list[VertexCheckpoint] = []

    @property
    def completed(self) -> bool:
        """Whether the checkpoint completed."""
        return self.status == CheckpointStatus.COMPLETED

    @property
    def failed(self) -> bool:
        """Whether the checkpoint failed."""
        return self.status == CheckpointStatus.FAILED


class RestartResult(msgspec.Struct, frozen=True, kw_only=True):
    """A failure of tasks and the restart after it. Times are in seconds, None for an event that did not
    happen.
    """

    failed_at: float
    cause: str
    restarted_at: float | None = None
    """Time at which the tasks existed again and began to read their state."""
    running_at: float | None = None
    """Time at which all tasks had read their state.

    Checkpoints resume then, or later if other regions are still recovering.
    """
    tasks: list[str] | UnsetType = UNSET
    """The tasks that failed and restarted while others kept running; absent if the whole job restarted.

    An entry is the name of a vertex, or names some of its subtasks as in `map[0, 2]`.
    """
    checkpoint_id: Whole | None = None
    """Id of the restored checkpoint; None: the tasks started without state."""
    restored_bytes: Whole = 0
    """Size of all restored state, including in-flight data."""
    persisted_bytes: Whole = 0
    """Size of the restored in-flight data."""
    unusable_checkpoint_id: Whole | UnsetType = UNSET
    """Id of a checkpoint that could not be restored, so that the job failed again; absent if there is none.
    """


class StartResult(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint of an earlier run from which this run started."""

    checkpoint_id: Whole
    path: str
    """Path of the checkpoint."""
    restored_bytes: Whole = 0
    """Size of all state, including in-flight data."""
    persisted_bytes: Whole = 0
    """Size of the in-flight data in the checkpoint."""
    running_at: float | None = None
    """Time at which all tasks had read their state and checkpoints began, in seconds; None if never."""


class FaultResult(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of the scenario that has fired, at `t` seconds."""

    t: float
    kind: str
    what: str


class VertexSteady(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a vertex in one window; lists are over subtasks.

    None: not measured. Delays and alignments are medians over the window's checkpoints. Rates are slopes
    between the window's first and last sample. All other figures are medians of samples.
    """

    name: str
    parallelism: Whole
    start_delay_ms: float | None = None
    """Start delay: the median over all subtasks and checkpoints."""
    start_delay_ms_max_subtask: float | None = None
    """Start delay of the slowest subtask; the median over checkpoints."""
    start_delay_ms_mean_subtask: float | None = None
    """Mean start delay of the subtasks; the median over checkpoints."""
    alignment_ms: float | None = None
    alignment_ms_max_subtask: float | None = None
    unaligned_share: float | None = None
    """Fraction of the subtasks' checkpoint parts that were unaligned, 0 to 1."""
    records_in_per_s: list[float | None] = []
    bytes_in_per_s: list[float | None] = []
    """Bytes of records with their 4-byte length, without headers of buffers."""
    buffers_in_per_s: list[float | None] = []
    records_out_per_s: list[float | None] = []
    bytes_out_per_s: list[float | None] = []
    buffers_out_per_s: list[float | None] = []
    debloatedBufferSize: list[float | None] = []  # noqa: N815 - Flink's name of the metric
    """Bytes; None if debloating is off or there is no input."""
    estimatedTimeToConsumeBuffersMs: list[float | None] = []  # noqa: N815
    inputQueueLength: list[float | None] = []  # noqa: N815
    """Number of buffers and events."""
    outputQueueLength: list[float | None] = []  # noqa: N815
    inputQueueSize: list[float | None] = []  # noqa: N815
    """Bytes in the queued buffers."""
    outputQueueSize: list[float | None] = []  # noqa: N815
    inPoolUsage: list[float | None] = []  # noqa: N815
    """Used share of the input buffers, 0 to 1."""
    outPoolUsage: list[float | None] = []  # noqa: N815
    busy_ms_per_s: list[float | None] = []
    backpressured_ms_per_s: list[float | None] = []
    idle_ms_per_s: list[float | None] = []
    inputExclusiveBuffersUsage: list[float | None] = []  # noqa: N815
    """Used share of the exclusive buffers of remote channels, 0 to 1; None if there is no input."""
    inputFloatingBuffersUsage: list[float | None] = []  # noqa: N815
    """Used share of the floating buffers of remote channels, 0 to 1; None if there is no input."""
    watermark_lag_ms: list[float | None] | UnsetType = UNSET
    """Lag of the watermark behind the clock; absent if there are no watermarks.

    For a source it is the lag of the last watermark sent (Flink's watermarkLag), for other vertices the lag
    of the lowest watermark of the input channels (currentInputWatermark).
    """


class Steady(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one window: medians over the completed checkpoints that were triggered in it, and figures of
    the vertices.
    """

    from_s: float
    to_s: float
    checkpoints: Whole
    end_to_end_ms: float | None = None
    end_to_end_ms_min: float | None = None
    end_to_end_ms_max: float | None = None
    processed_bytes: float | None = None
    persisted_bytes: float | None = None
    vertices: list[VertexSteady] = []


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of a vertex over time: ``metric[subtask][sample]`` at ``t[sample]`` seconds."""

    vertex: str
    t: list[float] = []
    numRecordsIn: list[list[Whole]] = []  # noqa: N815
    numRecordsOut: list[list[Whole]] = []  # noqa: N815
    debloatedBufferSize: list[list[float | None]] | UnsetType = UNSET  # noqa: N815
    """Absent if debloating is off or there is no input."""
    estimatedTimeToConsumeBuffersMs: list[list[float | None]] | UnsetType = UNSET  # noqa: N815
    """Absent if debloating is off or there is no input."""
    inputQueueLength: list[list[Whole]] = []  # noqa: N815
    outputQueueLength: list[list[Whole]] = []  # noqa: N815
    inputQueueSize: list[list[Whole]] = []  # noqa: N815
    outputQueueSize: list[list[Whole]] = []  # noqa: N815
    inPoolUsage: list[list[float]] = []  # noqa: N815
    outPoolUsage: list[list[float]] = []  # noqa: N815
    backpressured_ms: list[list[float]] = []
    """Back-pressured time since opening."""
    busy_ms: list[list[float]] = []
    """Busy time since opening."""
    idle_ms: list[list[float]] = []
    """Idle time since opening."""
    inputExclusiveBuffersUsage: list[list[float | None]] | UnsetType = UNSET  # noqa: N815
    """Absent if there is no input."""
    inputFloatingBuffersUsage: list[list[float | None]] | UnsetType = UNSET  # noqa: N815
    """Absent if there is no input."""
    watermark_lag_ms: list[list[float | None]] | UnsetType = UNSET
    """Absent if there are no watermarks."""
    pendingRecords: list[list[float | None]] | UnsetType = UNSET  # noqa: N815
    """Records that have arrived and that a source has not read; absent if the vertex has no rate.

    None while the subtask does not run.
    """


class Run(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """The fields of a result, with the scenario as an object or as a document."""

    schema: str = SCHEMA
    scenario: S
    """The scenario. A document contains Python objects and policies only by name."""
    preset: str
    clock: str
    """Either "virtual" or "real"."""
    link: str = "emulated"
    """Either "emulated" or "tcp".

    Over TCP, only the service time of records is emulated; all other times are real.
    """
    seed: Whole
    emulated_seconds: float
    wall_seconds: float
    """Duration on the wall clock. In virtual time, all other numbers are equal in all runs of the same
    scenario and seed.
    """
    behind_s: float | UnsetType | None = UNSET
    """Lag behind the clock at the end of a run in real time, in seconds; absent in virtual time.

    Over several processes it is the largest lag; None if a process did not report its lag.
    """
    task_managers_behind_s: dict[str, float | None] | UnsetType = UNSET
    """Lag behind the clock of each task manager that ran as a process, by its name; in seconds."""
    versions: dict[str, str] = {}
    work: Work = Work()
    checkpoints: list[CheckpointResult] = []
    started_from: StartResult | UnsetType = UNSET
    """The checkpoint from which the job started; absent if it started without one."""
    restarts: list[RestartResult] = []
    faults: list[FaultResult] = []
    failure: str | None = None
    """Cause of a permanent failure; None if the job did not fail."""
    steady: list[Steady] = []
    series: list[Series] = []


class Result(Run[Scenario], Viewed, frozen=True, kw_only=True):
    """Figures of a run; a notebook shows them as sentences, a chart and a table.

    `to_pandas` and `to_arrow` return the tables "vertices", "subtasks", "windows", "checkpoints",
    "checkpoint_subtasks", "series", "restarts" and "faults"; `plot` returns the charts of ``report.html``.
    """

    def __repr__(self) -> str:
        """Summary of the run in one line."""
        completed = sum(checkpoint.completed for checkpoint in self.checkpoints)
        parts = [
            f"{self.emulated_seconds:g} s of {self.clock} time with seed {self.seed}",
            f"{len(self.scenario.vertices)} vertices",
            f"{completed} of {len(self.checkpoints)} checkpoints completed",
        ]
        if self.restarts:
            parts.append(f"{len(self.restarts)} restarts")
        if self.failure is not None:
            parts.append(f"failed for good: {readable(self.failure)[:_LONGEST_CAUSE]}")
        return f"<Result of {readable(self.scenario.name)}: {', '.join(parts)}>"


_LONGEST_CAUSE = 200
"""Maximum length of a failure's cause in the one-line summary."""
