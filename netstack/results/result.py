"""Results: what a run found, as typed values and as one JSON document (schema ``netstack.result/1``).

Field names, units and definitions are those in which a real Flink was measured, so that numbers can be
compared without translation. Every list of vertices has all of them, sources first, otherwise in the
scenario's order; every list over subtasks is indexed by subtask.
"""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from flowcontrol import readable

from ..scenarios.scenario import Scenario
from .notebook_views import Viewed

S = TypeVar("S")

Whole = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A number that others can read, too."""

SCHEMA = "netstack.result/1"
"""Names the layout of the document; a reader refuses another."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Messages and bytes of an emulation, over all links, from opening to the end."""

    buffers: Whole = 0
    """Data buffers received, events not counted."""
    records: Whole = 0
    bytes: Whole = 0
    """Bytes of the data buffers received."""
    messages: Whole = 0
    """Messages of all kinds, in both directions."""


class VertexCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One vertex's part in a checkpoint; lists over subtasks, None where a subtask did not take part."""

    name: str
    end_to_end_ms: list[float | None] = []
    """Trigger to the arrival of the acknowledgement."""
    start_delay_ms: list[float | None] = []
    """Trigger to the first barrier; of a source, to its emission."""
    alignment_ms: list[float | None] = []
    """First to last barrier."""
    sync_ms: list[float | None] = []
    async_ms: list[float | None] = []
    alignment_processed_bytes: list[Whole | None] = []
    """Read during alignment."""
    alignment_persisted_bytes: list[Whole | None] = []
    """Size of the in-flight data that was stored."""
    unaligned: list[bool | None] = []


class CheckpointResult(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint; figures are over all subtasks that acknowledged it."""

    id: Whole
    t: float
    """Time of the trigger, in seconds."""
    status: str = "COMPLETED"
    """COMPLETED, FAILED or IN_PROGRESS."""
    checkpoint_type: str = "CHECKPOINT"
    """CHECKPOINT, UNALIGNED_CHECKPOINT or AT_LEAST_ONCE_CHECKPOINT, as it turned out; or SAVEPOINT, or
    SYNC_SAVEPOINT, with which the job stopped."""
    savepoint: str | UnsetType = UNSET
    """Path of the savepoint; absent for a checkpoint."""
    failure: str | None = None
    """Why it failed, by Flink's CheckpointFailureReason."""
    duration_ms: float | None = None
    """Trigger to completion; None if it did not complete."""
    state_bytes: Whole = 0
    """Size of all state, data in flight included."""
    checkpointed_bytes: Whole | UnsetType = UNSET
    """The part that was stored for this checkpoint; absent if that is all of it."""
    processed_bytes: Whole = 0
    persisted_bytes: Whole = 0
    vertices: list[VertexCheckpoint] = []


class RestartResult(msgspec.Struct, frozen=True, kw_only=True):
    """A failure of tasks and the restart after it; times in seconds, None if it did not happen."""

    failed_at: float
    cause: str
    restarted_at: float | None = None
    """Time at which the tasks existed again and began to read their state."""
    running_at: float | None = None
    """Time at which all of them had read it; checkpoints continue then, or after other recoveries."""
    tasks: list[str] | UnsetType = UNSET
    """The tasks that failed and restarted, while the others went on; absent if the whole job restarted.

    A vertex by its name, or some of its subtasks as in `map[0, 2]`.
    """
    checkpoint_id: Whole | None = None
    """Number of the restored checkpoint; None: the tasks began without state."""
    restored_bytes: Whole = 0
    """Size of all state that was read, data in flight included."""
    persisted_bytes: Whole = 0
    """Size of the data in flight among that state."""
    unusable_checkpoint_id: Whole | UnsetType = UNSET
    """Error of the restore, which was the next failure; absent after a success."""


class StartResult(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint of an earlier run that the run went on from."""

    checkpoint_id: Whole
    path: str
    """Its path."""
    restored_bytes: Whole = 0
    """Size of all state, data in flight included."""
    persisted_bytes: Whole = 0
    """Size of the data in flight in the checkpoint."""
    running_at: float | None = None
    """Time at which all tasks had read it and checkpoints began, in seconds; None if it did not happen."""


class FaultResult(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of the scenario that has fired, at `t` seconds."""

    t: float
    kind: str
    what: str


class VertexSteady(msgspec.Struct, frozen=True, kw_only=True):
    """A vertex over one window; lists over subtasks. None: there was nothing to measure it by.

    Delays and alignments are medians over the window's checkpoints; rates are slopes between the window's
    first and last sample; the rest are medians of samples.
    """

    name: str
    parallelism: Whole
    start_delay_ms: float | None = None
    """Median over all subtasks and checkpoints."""
    start_delay_ms_max_subtask: float | None = None
    """Median over checkpoints of the slowest subtask's."""
    start_delay_ms_mean_subtask: float | None = None
    """Median over checkpoints of the mean over subtasks."""
    alignment_ms: float | None = None
    alignment_ms_max_subtask: float | None = None
    unaligned_share: float | None = None
    """Share of the subtasks' parts that were unaligned, 0 to 1."""
    records_in_per_s: list[float | None] = []
    bytes_in_per_s: list[float | None] = []
    """Bytes of records with their 4-byte length; headers of buffers are not in."""
    buffers_in_per_s: list[float | None] = []
    records_out_per_s: list[float | None] = []
    bytes_out_per_s: list[float | None] = []
    buffers_out_per_s: list[float | None] = []
    debloatedBufferSize: list[float | None] = []  # noqa: N815 - Flink's name of the metric
    """Bytes; None where debloating is off or there is no input."""
    estimatedTimeToConsumeBuffersMs: list[float | None] = []  # noqa: N815
    inputQueueLength: list[float | None] = []  # noqa: N815
    """Buffers and events."""
    outputQueueLength: list[float | None] = []  # noqa: N815
    inputQueueSize: list[float | None] = []  # noqa: N815
    """Bytes."""
    outputQueueSize: list[float | None] = []  # noqa: N815
    inPoolUsage: list[float | None] = []  # noqa: N815
    """0 to 1."""
    outPoolUsage: list[float | None] = []  # noqa: N815
    busy_ms_per_s: list[float | None] = []
    backpressured_ms_per_s: list[float | None] = []
    idle_ms_per_s: list[float | None] = []
    inputExclusiveBuffersUsage: list[float | None] = []  # noqa: N815
    """0 to 1, of remote channels; None where there is no input. So is the next one."""
    inputFloatingBuffersUsage: list[float | None] = []  # noqa: N815
    watermark_lag_ms: list[float | None] | UnsetType = UNSET
    """Lag of the watermark behind the clock: for a source the last that it sent (Flink's watermarkLag),
    else the least of its channels (currentInputWatermark); absent where no watermarks flow."""


class Steady(msgspec.Struct, frozen=True, kw_only=True):
    """One window: medians over the completed checkpoints triggered in it, and its vertices."""

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
    """A vertex over time: ``metric[subtask][sample]`` at ``t[sample]`` seconds."""

    vertex: str
    t: list[float] = []
    numRecordsIn: list[list[Whole]] = []  # noqa: N815
    numRecordsOut: list[list[Whole]] = []  # noqa: N815
    debloatedBufferSize: list[list[float | None]] | UnsetType = UNSET  # noqa: N815
    """Absent, with the next one, where debloating is off or there is no input."""
    estimatedTimeToConsumeBuffersMs: list[list[float | None]] | UnsetType = UNSET  # noqa: N815
    inputQueueLength: list[list[Whole]] = []  # noqa: N815
    outputQueueLength: list[list[Whole]] = []  # noqa: N815
    inputQueueSize: list[list[Whole]] = []  # noqa: N815
    outputQueueSize: list[list[Whole]] = []  # noqa: N815
    inPoolUsage: list[list[float]] = []  # noqa: N815
    outPoolUsage: list[list[float]] = []  # noqa: N815
    backpressured_ms: list[list[float]] = []
    """Milliseconds spent so since opening; so are the next two."""
    busy_ms: list[list[float]] = []
    idle_ms: list[list[float]] = []
    inputExclusiveBuffersUsage: list[list[float | None]] | UnsetType = UNSET  # noqa: N815
    """Absent, with the next one, where there is no input."""
    inputFloatingBuffersUsage: list[list[float | None]] | UnsetType = UNSET  # noqa: N815
    watermark_lag_ms: list[list[float | None]] | UnsetType = UNSET
    """Absent where no watermarks flow."""


class Run(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """What a result says, of a scenario or of its document."""

    schema: str = SCHEMA
    scenario: S
    """The scenario; Python objects and policies of a document are only named."""
    preset: str
    clock: str
    """Either "virtual" or "real"."""
    link: str = "emulated"
    """Either "emulated" or "tcp"; over TCP, costs other than the service time of records are real."""
    seed: Whole
    emulated_seconds: float
    wall_seconds: float
    """The only number that differs between two runs of one scenario and seed in virtual time."""
    behind_s: float | UnsetType | None = UNSET
    """Delay of the end of a run in real time, in seconds; absent in virtual time.

    Over several processes the greatest one; None if one of them did not report it.
    """
    task_managers_behind_s: dict[str, float | None] | UnsetType = UNSET
    """The same for each task manager that was a process, by its name."""
    versions: dict[str, str] = {}
    work: Work = Work()
    checkpoints: list[CheckpointResult] = []
    started_from: StartResult | UnsetType = UNSET
    """Absent where the job began with nothing."""
    restarts: list[RestartResult] = []
    faults: list[FaultResult] = []
    failure: str | None = None
    """Why the job failed for good; None: it did not."""
    steady: list[Steady] = []
    series: list[Series] = []


class Result(Run[Scenario], Viewed, frozen=True, kw_only=True):
    """Figures of a run; shown in a notebook as sentences, a picture and a table.

    `to_pandas` and `to_arrow` have the tables "vertices", "subtasks", "windows", "checkpoints",
    "checkpoint_subtasks", "series", "restarts" and "faults"; `plot` has the pictures of ``report.html``.
    """

    def __repr__(self) -> str:
        """Summary of the run in one line."""
        completed = sum(checkpoint.status == "COMPLETED" for checkpoint in self.checkpoints)
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
"""Letters of a failure in a line about a result."""
