"""Input and reports of the processes that run one attempt of a job.

Between real processes, transfers and threads take real time. Emulated costs for these would count twice, so
they are set to zero. The service time of records and the rate of sources belong to the job and are kept. The
link conditions are those of the actual network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from math import inf

import msgspec
import numpy as np

from ..checkpoints.recovery import ClaimMode
from ..jobs.failover import failover_regions
from ..results.recorder import (
    CheckpointHead,
    Figures,
    FiredFault,
    Recorder,
    SubtaskCheckpoint,
    SubtaskSample,
)
from ..results.result import Work
from ..results.trace import TraceEvent
from ..scenarios.config import CostModel, LinkConditions
from ..scenarios.config_rules import Problem, option_key
from ..scenarios.faults import AtTime, KillSubtask, KillTaskManager
from ..scenarios.scenario import FROM_SOURCE, Scenario

TURN_S = 1e-9
"""Cost of a source record in seconds.

It makes a source pause after each batch, so that other tasks in its process can run.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The input that all processes of an attempt share.

    `origin`: start of the run on the wall clock; None for the first attempt. `restore`: id of the checkpoint
    to restore; None for the first attempt, or if no checkpoint was complete. `from_initial`: whether that
    checkpoint belongs to an earlier run and is in that run's storage. `retained`: complete checkpoints of
    this run, oldest first. `first_checkpoint`: id of the attempt's first checkpoint. `traced`: whether
    reports contain trace events.
    """

    scenario: Scenario
    origin: float | None = None
    restore: int | None = None
    retained: tuple[int, ...] = ()
    from_initial: bool = False
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    in_place: bool = False
    first_checkpoint: int = 1
    traced: bool = False


def task_managers(scenario: Scenario) -> list[str]:
    """Return the task managers of a scenario in the order of their processes."""
    return list(scenario.task_managers)


def with_real_costs(scenario: Scenario) -> Scenario:
    """Return the scenario without costs except the service time of its records."""
    nothing: dict[str, object] = {}
    for field in fields(CostModel):
        value = getattr(scenario.costs, field.name)
        if field.name.endswith("_bytes_per_s"):
            nothing[field.name] = inf
        elif field.name.endswith("_s"):
            nothing[field.name] = (0.0, 0.0) if isinstance(value, tuple) else 0.0
    nothing["source_record_s"] = TURN_S
    return replace(scenario, costs=replace(scenario.costs, **nothing))  # type: ignore[arg-type]


def distribution_problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield the settings of a scenario that are not supported over several processes."""
    for vertex in scenario.vertices:
        if len(vertex.managers) > 1:
            text = (
                f"is {', '.join(vertex.managers)}, but over TCP all subtasks of a vertex run in one "
                "task manager"
            )
            yield (
                f"vertices.{vertex.name}.task_manager",
                (f"{text}; name one task manager here, and give no slots"),
            )
    for number, machine in enumerate(scenario.machines):
        if len(machine.task_managers) > 1:
            text = "over TCP, each task manager is a process of its own, so put only one on a machine"
            yield f"machines.{number}.task_managers", f"is {', '.join(machine.task_managers)}; {text}"
    for number, fault in enumerate(scenario.faults):
        if not (isinstance(fault, KillSubtask | KillTaskManager) and isinstance(fault.when, AtTime)):
            if isinstance(fault, KillSubtask | KillTaskManager):
                text = f"{fault.kind} over TCP needs a time (`at`), not an event (`on`)."
            else:
                text = (
                    f"{fault.kind} does not work over TCP. Only kill_subtask and kill_task_manager with a "
                    "time (`at`) do; remove this fault, or run in emulated time."
                )
            yield f"faults[{number}]", text

    if scenario.changes:
        yield "changes", "are possible in emulated time only; to run over TCP, remove the changes"


def distribution_notices(scenario: Scenario) -> Iterator[Problem]:
    """Yield a notice for each setting that has no effect over several processes."""
    if scenario.costs != CostModel():
        yield (
            "costs",
            ("have no effect over TCP, where everything but the service time of records takes real time"),
        )
    if scenario.link != LinkConditions():
        yield "link", "has no effect over TCP, where the real network between the processes is used"
    known = all(vertex.parallelism != FROM_SOURCE for vertex in scenario.vertices)
    if known and len(regions := failover_regions(scenario)) > 1:
        text = f"is region, and the job has {len(regions)} regions, but over TCP all regions restart together"
        yield option_key("failover_strategy"), text


COLUMNS = 1 + len(SubtaskSample._fields)
"""Number of figures of a subtask in a row of samples, including the time."""


class Blame(IntEnum):
    """Distance of a failure from its cause: this process failed, lost a peer, or got the report of a peer."""

    OWN = 0
    PEER_LOST = 1
    TOLD = 2


class Failure(msgspec.Struct, frozen=True):
    """Cause of an attempt's failure as one process reports it, and its time in seconds of the run."""

    cause: str
    at: float
    blame: Blame = Blame.OWN
    unrestorable: bool = False
    """Whether the checkpoint that the attempt began with could not be restored."""


class CheckpointRecord(msgspec.Struct, frozen=True):
    """A checkpoint, and the part of each subtask in it, by vertex and index."""

    head: CheckpointHead
    parts: list[tuple[int, int, SubtaskCheckpoint]]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one process on one attempt; times in seconds of the run.

    `origin`: start of the run on the wall clock; None if the attempt failed before the start was set.
    `begins_at`: time at which the tasks opened; None if they did not open. `samples`: rows of figures. A row
    holds a sample of each subtask of this process, and before it the time, repeated for each subtask.
    `behind_s`: lag of the process behind the wall clock; None if its tasks did not open. Only the leader
    reports `checkpoints` and `running_at`, the time at which all subtasks had their state. `leaked_segments`:
    segments that were not returned by the end.
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
        """The samples as ``rows[row, column, subtask]``, oldest first; column 0 is the time."""
        return np.frombuffer(self.samples, dtype=np.float64).reshape(-1, COLUMNS, self.subtasks)


def checkpoint_records(recorder: Recorder) -> list[CheckpointRecord]:
    """Return the checkpoints in a recorder."""
    tables = [recorder.parts_of(vertex) for vertex in range(len(recorder.parallelisms))]
    return [
        CheckpointRecord(head, list(_parts(tables, row))) for row, head in enumerate(recorder.checkpoints)
    ]


def _parts(tables: list[dict[str, Figures]], row: int) -> Iterator[tuple[int, int, SubtaskCheckpoint]]:
    """Yield vertex, index and figures of each subtask that took part in the checkpoint of a row."""
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
