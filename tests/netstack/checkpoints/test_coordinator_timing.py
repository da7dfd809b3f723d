"""Times at which plain checkpoints begin and end: the coordinator equals a model of its simplest rules.

Random numbers are drawn in the same order, so a run of an aligned job without faults is reproduced exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flowcontrol import (
    CheckpointBarrier,
    FailureReason,
)
from netstack import Edge, GeneratorSpec, Scenario, Vertex, emulate
from netstack.checkpoints.coordinator import CheckpointCoordinator
from netstack.checkpoints.metadata import SubtaskSnapshot
from netstack.checkpoints.pending_checkpoint import Acknowledgement
from netstack.checkpoints.storage import MemoryStorage
from netstack.engine.agenda import Agenda
from netstack.engine.agenda_loop import run_agenda
from netstack.engine.randomness import Randomness
from netstack.results.result import SubtaskCheckpoint
from netstack.scenarios.checkpointed_shape import JobShape
from netstack.scenarios.costs import CostModel
from netstack.scenarios.options import NetworkConfig

COSTS = CostModel()
NAMES = ("source", "stage")
PARALLELISM = 2
Log = list[tuple[Any, ...]]


@dataclass
class Plan:
    """What happens in a job of two sources and two stages, apart from its coordinator."""

    seed: int
    interval: float
    after_tasks_finish: bool
    travel: list[float]
    """Times of barriers from a source to a stage, cyclic."""
    ends: list[float]
    """Times at which the sources end."""
    drain: float
    """Seconds after its sources at which a stage may end."""
    declined: set[int]
    """Checkpoints that stage 0 gives up."""


class Reports(Protocol):
    """Reports of the tasks of the model job."""

    def acknowledge(self, task: Task, report: Acknowledgement) -> None: ...
    def decline(self, task: Task, checkpoint_id: int, reason: FailureReason) -> None: ...
    def finished(self, task: Task) -> None: ...


@dataclass
class Task:
    """Begins a checkpoint when it is triggered or all upstream tasks have begun it, and then acknowledges."""

    job: ModelJob
    vertex: int
    index: int
    upstream: list[Task] = field(default_factory=list)
    last_checkpoint: int = 0
    ended: bool = False
    busy: int = 0
    arrived: dict[int, set[int]] = field(default_factory=dict)

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        self.job.log.append((self.job.agenda.now, "trigger", self.vertex, self.index, barrier))
        if not self.ended:
            self.begin(barrier)

    def begin(self, barrier: CheckpointBarrier) -> None:
        if barrier.checkpoint_id <= self.last_checkpoint:
            return
        if self.vertex == 1 and self.index == 0 and barrier.checkpoint_id in self.job.plan.declined:
            self.last_checkpoint = barrier.checkpoint_id
            reason = FailureReason.DECLINED_SUBSUMED
            self.job.coordinator.decline(self, barrier.checkpoint_id, reason)
            return
        self.last_checkpoint = barrier.checkpoint_id
        self.busy += 1
        sync = self.job.randomness.between(COSTS.sync_s, "snapshot", self.vertex, self.index)
        self.job.agenda.after(sync, self.acknowledge, barrier, sync)
        for task in self.job.tasks:
            if self in task.upstream:
                self.job.agenda.after(self.job.next_travel(), task.barrier_from, self.index, barrier)

    def barrier_from(self, source: int, barrier: CheckpointBarrier) -> None:
        arrived = self.arrived.setdefault(barrier.checkpoint_id, set())
        arrived.add(source)
        if all(task.index in arrived or task.ended for task in self.upstream) and not self.ended:
            self.begin(barrier)

    def acknowledge(self, barrier: CheckpointBarrier, sync: float) -> None:
        self.busy -= 1
        part = SubtaskCheckpoint(start_delay_s=self.job.agenda.now - barrier.timestamp, sync_s=sync)
        snapshot = SubtaskSnapshot(vertex=NAMES[self.vertex], subtask=self.index)
        self.job.coordinator.acknowledge(self, Acknowledgement(barrier.checkpoint_id, part, snapshot))

    def end(self) -> None:
        """End as soon as nothing is left to do; a stage does so some time after its sources."""
        if self.busy or not all(task.ended for task in self.upstream) or self.job.under_way:
            self.job.agenda.after(0.0007, self.end)
            return
        self.ended = True
        self.job.log.append((self.job.agenda.now, "end", self.vertex, self.index))
        self.job.coordinator.finished(self)

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Do nothing: no test waits for this."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Do nothing: no test waits for this."""


class ModelJob:
    """A job that runs for ten seconds; `log` has what can be seen of its checkpoints."""

    def __init__(self, plan: Plan, coordinator: Callable[[ModelJob], Any]) -> None:
        self.plan = plan
        self.agenda = Agenda()
        self.randomness = Randomness(plan.seed, 1.0)
        self.log: Log = []
        self.under_way = 0
        self._travelled = 0
        sources = [Task(self, 0, index) for index in range(PARALLELISM)]
        stages = [Task(self, 1, index, list(sources)) for index in range(PARALLELISM)]
        self.tasks = sources + stages
        self.coordinator: Any = coordinator(self)

    def next_travel(self) -> float:
        self._travelled += 1
        self.under_way += 1
        travel = self.plan.travel[self._travelled % len(self.plan.travel)]
        self.agenda.after(travel, self._travel_ends)
        return travel

    def _travel_ends(self) -> None:
        self.under_way -= 1

    def run(self) -> Log:
        for task in self.tasks:
            self.agenda.at(self.plan.ends[task.index] + task.vertex * self.plan.drain, task.end)
        self.agenda.at(10.0, self.agenda.stop)
        self.coordinator.start(self.tasks)
        trio.run(run_agenda, self.agenda)
        return self.log

    def checkpoint_ended(self, checkpoint: Any) -> None:
        self.log.append(
            (
                self.agenda.now,
                checkpoint.checkpoint_id,
                checkpoint.triggered_at,
                checkpoint.status,
                checkpoint.duration_s,
                {key: part.end_to_end_s for key, part in checkpoint.parts.items()},
            )
        )


class OneAtATime:
    """The rules for plain checkpoints and no others: one at a time, nothing stored, nobody told."""

    def __init__(self, job: ModelJob) -> None:
        self.job = job
        self.agenda, self.between = job.agenda, job.randomness.between
        self.pending: ModelCheckpoint | None = None
        self.triggered = 0
        self.queued = False

    def start(self, tasks: list[Task]) -> None:
        self.agenda.at(self.job.randomness.between((0.0, self.job.plan.interval), "scheduler"), self.tick)

    def tick(self) -> None:
        self.agenda.after(self.job.plan.interval, self.tick)
        if self.pending is None:
            self.trigger()
        else:
            self.queued = True

    def trigger(self) -> None:
        running = [task for task in self.job.tasks if not task.ended]
        allowed = len(running) == len(self.job.tasks) or self.job.plan.after_tasks_finish
        if self.pending is not None or not running or not allowed:
            return
        first = [task for task in running if all(other.ended for other in task.upstream)]
        self.triggered += 1
        self.pending = ModelCheckpoint(self.triggered, self.agenda.now, running, first)
        delay = self.between(COSTS.trigger_s, "trigger")
        for task in first:
            barrier = CheckpointBarrier(self.triggered, self.agenda.now)
            self.agenda.after(delay, task.trigger_checkpoint, barrier)
            delay += COSTS.trigger_per_source_s

    def acknowledge(self, task: Task, report: Acknowledgement) -> None:
        self.agenda.after(self.delay_from(task), self.acknowledged, task, report)

    def acknowledged(self, task: Task, report: Acknowledgement) -> None:
        checkpoint = self.pending
        if checkpoint is None or checkpoint.checkpoint_id != report.checkpoint_id:
            return
        checkpoint.parts[task.vertex, task.index] = ModelPart(self.agenda.now - checkpoint.triggered_at)
        checkpoint.awaited.remove(task)
        if not checkpoint.awaited:
            checkpoint.status, checkpoint.duration_s = "COMPLETED", self.agenda.now - checkpoint.triggered_at
            self.end(checkpoint)

    def finished(self, task: Task) -> None:
        checkpoint = self.pending
        if (
            checkpoint is not None
            and task.last_checkpoint < checkpoint.checkpoint_id
            and task in checkpoint.first
        ):
            self.decline(task, checkpoint.checkpoint_id, FailureReason.DECLINED)

    def decline(self, task: Task, checkpoint_id: int, reason: FailureReason) -> None:
        self.agenda.after(self.delay_from(task), self.declined, checkpoint_id)

    def delay_from(self, task: Task) -> float:
        return self.between(COSTS.ack_s, "acknowledgement", f"{NAMES[task.vertex]}[{task.index}]")

    def declined(self, checkpoint_id: int) -> None:
        if self.pending is not None and self.pending.checkpoint_id == checkpoint_id:
            self.pending.status = "FAILED"
            self.end(self.pending)

    def end(self, checkpoint: ModelCheckpoint) -> None:
        self.pending = None
        self.job.checkpoint_ended(checkpoint)
        if self.queued:
            self.queued = False
            self.agenda.after(0.002, self.trigger)


@dataclass
class ModelPart:
    end_to_end_s: float


@dataclass
class ModelCheckpoint:
    checkpoint_id: int
    triggered_at: float
    awaited: list[Task]
    first: list[Task]
    status: str = "IN_PROGRESS"
    duration_s: float | None = None
    parts: dict[tuple[int, int], ModelPart] = field(default_factory=dict)


def real_coordinator(job: ModelJob) -> CheckpointCoordinator:
    return CheckpointCoordinator(
        agenda=job.agenda,
        config=NetworkConfig(
            checkpoint_interval_s=job.plan.interval,
            checkpoints_after_tasks_finish=job.plan.after_tasks_finish,
        ),
        costs=COSTS,
        randomness=job.randomness,
        job=JobShape("model", dict.fromkeys(NAMES, PARALLELISM)),
        storage=MemoryStorage(),
        on_end=job.checkpoint_ended,
        fail_job=lambda cause: None,
    )


travels = st.lists(st.floats(0.0, 0.3) | st.floats(0.3, 3.0), min_size=1, max_size=7)
plans = st.builds(
    Plan,
    seed=st.integers(0, 99),
    interval=st.sampled_from([0.01, 0.013, 0.1, 0.5, 2.0]),
    after_tasks_finish=st.booleans(),
    travel=travels,
    ends=st.lists(st.floats(0.0, 12.0), min_size=PARALLELISM, max_size=PARALLELISM),
    drain=st.floats(0.0, 3.0),
    declined=st.sets(st.integers(1, 20), max_size=5),
)
LONGER_THAN_THE_INTERVAL = Plan(1, 2.0, True, [2.9, 3.0, 2.5], [20.0, 20.0], 0.0, set())
ENDS_AND_DRAINS = Plan(2, 0.1, True, [0.004, 0.2, 0.01], [3.0, 5.0], 2.0, {3, 9})


@settings(max_examples=60)
@example(LONGER_THAN_THE_INTERVAL)
@example(ENDS_AND_DRAINS)
@given(plans)
def test_plain_checkpoints_begin_and_end_as_in_the_model(plan: Plan) -> None:
    assert ModelJob(plan, real_coordinator).run() == ModelJob(plan, OneAtATime).run()


def test_the_examples_show_what_they_are_for() -> None:
    back_to_back = ModelJob(LONGER_THAN_THE_INTERVAL, real_coordinator).run()
    ends = {entry[1]: entry[0] for entry in back_to_back if entry[1] in (1, 2)}
    starts = {entry[1]: entry[2] for entry in back_to_back if entry[1] in (1, 2)}
    assert starts[2] == ends[1] + 0.002
    drained = ModelJob(ENDS_AND_DRAINS, real_coordinator).run()
    assert {"COMPLETED", "FAILED"} <= {entry[3] for entry in drained if isinstance(entry[1], int)}
    assert {0, 1} == {entry[2] for entry in drained if entry[1] == "trigger"}


def test_the_first_checkpoint_may_have_a_time() -> None:
    source = Vertex(name="source", source=GeneratorSpec(record_bytes=100, rates=(10.0,)))
    job = Scenario(
        name="timed",
        duration_s=7.0,
        config=NetworkConfig(checkpoint_interval_s=2.0),
        checkpoints_from_s=0.7,
        vertices=(source, Vertex(name="sink")),
        edges=(Edge(source="source", target="sink"),),
    )
    times = [[each.t for each in emulate(job, seed=seed).checkpoints] for seed in (1, 2)]
    assert times == [pytest.approx([0.7, 2.7, 4.7, 6.7])] * 2
    other = replace(job, checkpoints_from_s=None)
    assert len({emulate(other, seed=seed).checkpoints[0].t for seed in (1, 2)}) == 2
