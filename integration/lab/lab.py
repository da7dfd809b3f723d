"""One or two runs of a job that a user controls: pace, single steps, steps back, and two sides to compare.

::

    a  ------o--------------->     Fork at o: side b repeats the run up to o. Then both sides continue.
    b        o--- change ---->

    a  ------o- - - - - -          Back to o: a new run, from the beginning up to o, replaces the old run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from time import perf_counter, process_time

from netstack import (
    AtTime,
    CutLink,
    KillSubtask,
    KillTaskManager,
    Outage,
    Scenario,
    ScenarioError,
    SubtaskName,
    TableStores,
    changed,
    read_scenario,
    scenario_toml,
)

from ..base.errors import UsageError
from ..runs.job_load import at_load
from ..show.page.job_graph import ranks
from .channels import edge_shape
from .controls import LOAD, change_of, controls_of, in_page_words, load_changes, policies_of
from .live_job import STEP_S, LiveJob
from .messages import (
    Answer,
    Back,
    Change,
    Control,
    Copied,
    Copy,
    Cut,
    Fork,
    Frame,
    Hello,
    Join,
    Kill,
    Pace,
    Pause,
    Request,
    Side,
    Step,
    StopFor,
    TakeCheckpoint,
    VertexShape,
)

LEAST_PACE, MOST_PACE = 1 / 1000, 1000.0
"""Bounds of the pace, in emulated seconds per second."""

_LONGEST_PAUSE_S = 0.25
"""Maximum pause between two turns, in wall-clock seconds, that the emulation makes up for."""

_EXAMPLE = {
    "name": "lab",
    "duration": "1 h",
    "flink": {"execution.checkpointing.interval": "5 s"},
    "vertices": [
        {"name": "source", "parallelism": 4, "source": {"record_bytes": 200, "rate": [3000]}},
        {"name": "map", "parallelism": 4, "service": "100 us"},
        {"name": "sink", "parallelism": 4, "service": "400 us"},
    ],
    "edges": [
        {"from": "source", "to": "map", "ship": "rebalance"},
        {"from": "map", "to": "sink", "ship": "hash"},
    ],
}


class Lab:
    """A job that a user watches; `version` increases whenever a page needs a new `Hello`.

    The job runs as fast as possible up to `begin_s` emulated seconds. `policies` are additional debloating
    policies to choose from. The job begins at `load`, a multiple of the scenario's rates.

    Raises:
        UsageError: the scenario is invalid, or the load is impossible.
        InsufficientBuffers: the network memory is too small for the job.
    """

    def __init__(
        self,
        scenario: Scenario,
        tables: TableStores | None = None,
        *,
        begin_s: float = 0.0,
        policies: Sequence[str] = (),
        load: float = 1.0,
    ) -> None:
        self.version = 0
        self.pace: float | None = 1.0
        self.paused = False
        self._unloaded = scenario
        self._base = scenario = at_load(scenario, load)
        self._policies = policies_of(scenario, policies)
        self._tables = tables
        self._now = begin_s  # the moment of all sides, once they have caught up
        self._stops_at = math.inf
        self._seen_at = perf_counter()
        self._speeds: list[tuple[float, float]] = []
        self._sides: list[LiveJob] = [LiveJob("a", scenario, tables)]
        self._started = list(self._sides)  # sides that have not yet reached the current moment

    @property
    def sides(self) -> Sequence[LiveJob]:
        """The runs: side a, and side b after a fork."""
        return self._sides

    @property
    def now(self) -> float:
        """The current moment, in emulated seconds."""
        return self._now

    @property
    def stands(self) -> bool:
        """Whether nothing runs until the user acts, because the lab is paused or all sides have ended."""
        return not self._behind and (self.paused or all(side.over for side in self._sides))

    @property
    def _behind(self) -> list[LiveJob]:
        return [side for side in self._sides if not side.over and side.now < self._now]

    def turn(self, budget_s: float) -> bool:
        """Run for at most `budget_s` of processor time, as far as the pace allows.

        Return whether the caller has to call this method again at once, because the lab is behind its pace or
        has no pace.
        """
        began = perf_counter()
        deadline, behind = process_time() + budget_s, self._behind
        self._started = [side for side in self._started if side in behind]
        passed, self._seen_at = min(began - self._seen_at, _LONGEST_PAUSE_S), began
        if behind:
            for side in behind:
                side.advance(self._now, deadline)
            return True
        if self.stands:
            return False
        wanted = math.inf if self.pace is None else self._now + passed * self.pace
        goal = min(self._stops_at, wanted)
        if goal == math.inf:
            goal = self._as_fast_as_possible(deadline)
        in_time = [side.advance(goal, deadline) for side in self._sides]
        # The other sides wait for a side that has not reached the current moment.
        self._now = min(goal, max(side.now for side in self._sides))
        if all(in_time) and self._now >= self._stops_at:
            self.paused, self._stops_at = True, math.inf
        wall = perf_counter()
        self._speeds = [each for each in self._speeds if each[0] > wall - 1.0]
        self._speeds.append((wall, self._now))
        return not all(in_time) or self.pace is None

    def _as_fast_as_possible(self, deadline: float) -> float:
        """Run the first unfinished side. Return its time, up to which the other sides follow."""
        leader = next(side for side in self._sides if not side.over)
        began = process_time()
        leader.advance(math.inf, began + (deadline - began) / len(self._sides))
        return leader.now

    @property
    def speed(self) -> float | None:
        """Emulated seconds per second, over the last second; None: paused."""
        if self.stands or len(self._speeds) < 2:
            return None
        (first, before), (last, after) = self._speeds[0], self._speeds[-1]
        return (after - before) / (last - first) if last > first else None

    def frames(self) -> list[Frame]:
        """Return the current frame of each side."""
        state = "paused" if self.paused else "running"
        return [
            side.frame("behind", self.speed, self._now)
            if self._replays(side)
            else side.frame(state, self.speed, None)
            for side in self._sides
        ]

    def _replays(self, side: LiveJob) -> bool:
        """Whether a side is still replaying up to the current moment."""
        return side in self._started and not side.over and side.now < self._now

    def hello(self) -> Hello:
        """Return the job and its history."""
        scenario = self._base
        return Hello(
            name=scenario.name,
            duration_s=scenario.duration_s,
            segment_bytes=scenario.config.segment_bytes,
            vertices=vertex_shapes(scenario),
            edges=[edge_shape(scenario, edge) for edge in scenario.edges],
            task_managers=list(scenario.task_managers),
            links=task_manager_links(scenario),
            sides=[side.history(self._controls(side)) for side in self._sides],
            pace=self.pace,
            paused=self.paused,
        )

    def _controls(self, side: LiveJob) -> list[Control]:
        return controls_of(side.scenario, self._policies, self._unloaded_at(side.now))

    def _unloaded_at(self, now: float) -> Scenario:
        """Return the scenario at a load of 1, with its own changes up to a moment."""
        past = [change for change in self._unloaded.changes if change.at_s <= now]
        return reduce(changed, past, self._unloaded)

    def handle(self, request: Request) -> Answer | None:
        """Carry out a request of a page; return the answer for that page alone.

        Raises:
            UsageError: the request is impossible; nothing has changed.
        """
        match request:
            case Pace(value=value):
                if value is not None and not LEAST_PACE <= value <= MOST_PACE:
                    bounds = f"{LEAST_PACE:g} to {MOST_PACE:g}"
                    raise UsageError([f"Pace: {value:g} is not possible; the pace must be from {bounds}."])
                self.pace, self._speeds = value, []
            case Pause(paused=paused):
                self.paused, self._stops_at, self._speeds = paused, math.inf, []
                self._seen_at = perf_counter()
            case Step(seconds=seconds):
                self._step(seconds)
            case Back(t=t):
                self._go_back(t)
            case Fork():
                self._fork()
            case Join(side=name):
                self._keep_only(self._side(name))
            case Copy(side=name):
                return Copied(name, self._copied(self._side(name)))
            case _:
                try:
                    self._act(request)
                except ScenarioError as error:
                    raise UsageError([in_page_words(problem) for problem in error.problems]) from None
        self.version += 1
        return None

    def _act(self, request: Change | Kill | Cut | StopFor | TakeCheckpoint) -> None:
        """Carry out a request for the job of one side."""
        side = self._side(request.side)
        if self._replays(side):
            text = (
                f"Side {side.side} is still replaying the run. Wait until it has reached {self._now:.3f} s."
            )
            raise UsageError([text])
        at = AtTime(side.now)
        match request:
            case Change(key=key, value=value) if key == LOAD:
                side.change(*load_changes(self._unloaded_at(side.now), value))
            case Change():
                side.change(change_of(request, self._policies))
            case Kill(task_manager=str(name)):
                side.add_fault(KillTaskManager(when=at, task_manager=name))
            case Kill(vertex=str(vertex), subtask=int(subtask)):
                side.add_fault(KillSubtask(when=at, subtask=SubtaskName(vertex, subtask)))
            case Kill():
                raise UsageError(["Nothing was chosen to kill. Choose a task manager or a subtask."])
            case Cut(link=(one, other), seconds=seconds):
                cut = CutLink(when=at, from_task_manager=one, to_task_manager=other, for_s=seconds)
                side.add_fault(cut)
            case StopFor(seconds=seconds):
                side.add_fault(Outage(when=at, for_s=seconds))
            case TakeCheckpoint():
                side.take_checkpoint()

    def _side(self, name: Side) -> LiveJob:
        for side in self._sides:
            if side.side == name:
                return side
        raise UsageError([f"There is no side {name}. Start a second side first."])

    def _step(self, seconds: float | None) -> None:
        end_s = self._base.duration_s
        if seconds is None:
            goal = min([end_s, *(side.next_s for side in self._sides)])
            for side in self._sides:
                side.advance(goal)
            self._now, self.paused, self._stops_at = max(self._now, goal), True, math.inf
        elif 0 < seconds < math.inf:
            self.paused, self._stops_at = False, min(self._now + seconds, end_s)
        else:
            raise UsageError([f"Length of a step: {seconds:g} s is not possible; it must be more than 0 s."])
        self._seen_at = perf_counter()

    def _go_back(self, t: float) -> None:
        if not 0 <= t <= self._now:
            raise UsageError(
                [f"Back to: the run has no moment {t:g} s; the moment must be from 0 s to {self._now:.3f} s."]
            )
        anew = [LiveJob(side.side, self._until(side.scenario, t), self._tables) for side in self._sides]
        self._replace(anew)
        self._now = t

    def _until(self, scenario: Scenario, t: float) -> Scenario:
        """Return a scenario without the user's actions after a moment."""
        base = self._base
        faults = scenario.faults[len(base.faults) :]
        asked = [at for at in scenario.manual_checkpoints_s[len(base.manual_checkpoints_s) :] if at < t]
        return replace(
            scenario,
            changes=base.changes + tuple(c for c in scenario.changes[len(base.changes) :] if c.at_s < t),
            faults=base.faults + tuple(f for f in faults if isinstance(f.when, AtTime) and f.when.time_s < t),
            manual_checkpoints_s=(*base.manual_checkpoints_s, *asked),
        )

    def _fork(self) -> None:
        if len(self._sides) > 1:
            raise UsageError(["Two sides are running already. Keep only one of them first."])
        forked = LiveJob("b", self._sides[0].scenario, self._tables)
        self._sides.append(forked)
        self._started = [*self._started, forked]

    def _keep_only(self, kept: LiveJob) -> None:
        for side in self._sides:
            if side is not kept:
                side.close()
        kept.rename("a")
        self._sides = [kept]

    def _replace(self, sides: list[LiveJob]) -> None:
        for side in self._sides:
            side.close()
        self._sides, self._started = sides, list(sides)
        self._speeds = []

    def _copied(self, side: LiveJob) -> str:
        """Return a side as a scenario that ends at the current moment, or later if an action is still due."""
        end_s = max(math.ceil(self._now / STEP_S - 1e-6) * STEP_S, side.acted_at + STEP_S)
        scenario = side.scenario.ending_at(round(end_s, 3))
        comments = [
            f"A run in the lab up to {scenario.duration_s:.3f} s; running this file again gives the "
            "same figures."
        ]
        if scenario.warmup_s >= scenario.duration_s:
            comments.append(
                f"The warm-up of {scenario.warmup_s:g} s had not ended, so this file has no warm-up."
            )
            scenario = replace(scenario, warmup_s=0.0)
        return scenario_toml(scenario, comments)

    def close(self) -> None:
        """Close all runs."""
        self._replace([])


def vertex_shapes(scenario: Scenario) -> list[VertexShape]:
    """Return the vertices in order, with their ranks."""
    rank_of = ranks(scenario)
    return [
        VertexShape(
            name=vertex.name,
            parallelism=vertex.parallelism,
            source=vertex.source is not None,
            rank=rank_of[vertex.name],
            task_managers=[vertex.manager_of(subtask) for subtask in range(vertex.parallelism)],
        )
        for vertex in scenario.vertices
    ]


def task_manager_links(scenario: Scenario) -> list[tuple[str, str]]:
    """Return the pairs of task managers (producer, consumer) between which data flows."""
    ends = (pair for edge in scenario.edges for pair in scenario.channel_ends(edge))
    return list(dict.fromkeys((one, other) for one, other in ends if one != other))


def example() -> Scenario:
    """Return the job of a lab without a scenario.

    Its sinks process 2,500 records a second each and its sources emit 3,000, so that back-pressure can be
    seen.
    """
    return read_scenario(_EXAMPLE)
