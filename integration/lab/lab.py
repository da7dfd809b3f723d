"""One or two runs of a job by the clock of a user: at a pace, step by step, back to a moment, side by side.

::

    a  ------o---------------------->          fork at o: b is run up to o, then both go on together
    b        o-- change ------------>

    a  ----------------- back ----->           a run from the beginning up to the moment takes its place
               <--------/
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter, process_time

from netstack import (
    AtTime,
    CutLink,
    KillSubtask,
    KillTaskManager,
    Scenario,
    SubtaskName,
    TableStores,
    scenario_toml,
)

from ..errors import UsageError
from .channels import edge_shape
from .controls import change_of, controls_of, policies_of
from .drawing import task_manager_links, vertex_shapes
from .live_job import LiveJob
from .page_messages import (
    Answer,
    Back,
    Change,
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
    TakeCheckpoint,
)

LEAST_PACE, MOST_PACE = 1 / 1000, 1000.0
"""Emulated seconds a second."""

_LONGEST_PAUSE_S = 0.25
"""Of time on the wall that was not used, no more than this is made up for."""

_NEAR_S = 1.0
"""A side that lags by no more emulated seconds than this is where its user is, and can be acted on."""


class Lab:
    """A job under the eyes of a user; `version` goes up whenever a page has to be told all anew.

    It is run as fast as possible up to `begin_s` emulated seconds, where its user comes in. `policies` are
    offered to debloat by, beside those that there are. `asked_s` is the duration of a copied scenario, until
    more has been run; by default it is that of `scenario`.

    Raises:
        UsageError: the scenario makes no sense.
        InsufficientBuffers: the network memory is too small for the job.
    """

    def __init__(
        self,
        scenario: Scenario,
        tables: TableStores | None = None,
        *,
        begin_s: float = 0.0,
        policies: Sequence[str] = (),
        asked_s: float | None = None,
    ) -> None:
        self.version = 0
        self.pace: float | None = 1.0
        self.paused = False
        self._base = scenario
        self._asked_s = scenario.duration_s if asked_s is None else asked_s
        self._policies = policies_of(scenario, policies)
        self._tables = tables
        self._now = begin_s  # where the sides are, or are to come
        self._stops_at = math.inf
        self._seen_at = perf_counter()
        self._speeds: list[tuple[float, float]] = []
        self._sides: list[LiveJob] = [LiveJob("a", scenario, tables)]

    @property
    def sides(self) -> Sequence[LiveJob]:
        """The runs, a and perhaps b."""
        return self._sides

    @property
    def now(self) -> float:
        """The moment that is shown, in emulated seconds."""
        return self._now

    @property
    def stands(self) -> bool:
        """Whether nothing happens until the user wants something."""
        return not self._behind and (self.paused or all(side.over for side in self._sides))

    @property
    def _behind(self) -> list[LiveJob]:
        return [side for side in self._sides if not side.over and side.now < self._now]

    def turn(self, budget_s: float) -> bool:
        """Run on for at most so long in processor time, as far as the pace allows.

        Returns whether more could be run at once: the pace is not kept, or there is none.
        """
        began = perf_counter()
        deadline, behind = process_time() + budget_s, self._behind
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
        # A side that has not come so far is behind, and the others wait for it.
        self._now = min(goal, max(side.now for side in self._sides))
        if all(in_time) and self._now >= self._stops_at:
            self.paused, self._stops_at = True, math.inf
        self._note_speed()
        return not all(in_time) or self.pace is None

    def _as_fast_as_possible(self, deadline: float) -> float:
        """Let the first side run that can, and return how far it has come: so far the others follow."""
        leader = next(side for side in self._sides if not side.over)
        began = process_time()
        leader.advance(math.inf, began + (deadline - began) / len(self._sides))
        return leader.now

    def _note_speed(self) -> None:
        wall = perf_counter()
        self._speeds = [each for each in self._speeds if each[0] > wall - 1.0]
        self._speeds.append((wall, self._now))

    @property
    def speed(self) -> float | None:
        """Emulated seconds a second, over the last second; None: it stands."""
        if self.stands or len(self._speeds) < 2:
            return None
        (first, before), (last, after) = self._speeds[0], self._speeds[-1]
        return (after - before) / (last - first) if last > first else None

    def frames(self) -> list[Frame]:
        """Return what there is to see at this moment, side by side."""
        return [side.frame(self._state(side), self.speed) for side in self._sides]

    def _state(self, side: LiveJob) -> str:
        if side.now < self._now - _NEAR_S:
            return "behind"
        return "paused" if self.paused else "running"

    def hello(self) -> Hello:
        """Return the job and all that is behind it."""
        scenario = self._base
        return Hello(
            name=scenario.name,
            duration_s=scenario.duration_s,
            segment_bytes=scenario.config.segment_bytes,
            vertices=vertex_shapes(scenario),
            edges=[edge_shape(scenario, edge) for edge in scenario.edges],
            task_managers=list(scenario.task_managers),
            links=task_manager_links(scenario),
            sides=[side.history(controls_of(side.scenario, self._policies)) for side in self._sides],
            pace=self.pace,
            paused=self.paused,
        )

    def handle(self, request: Request) -> Answer | None:
        """Do what a page asks for; returns what only that page is to be told.

        Raises:
            UsageError: it cannot be done; nothing has changed.
        """
        match request:
            case Pace(value=value):
                if value is not None and not LEAST_PACE <= value <= MOST_PACE:
                    bounds = f"{LEAST_PACE:g} to {MOST_PACE:g}"
                    raise UsageError([f"the pace is {value:g}; it must be {bounds}"])
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
                self._act(request)
        self.version += 1
        return None

    def _act(self, request: Change | Kill | Cut | TakeCheckpoint) -> None:
        """Do what is done to the job of one side."""
        side = self._side(request.side)
        if self._state(side) == "behind":
            raise UsageError(["this side is not there yet; wait until it has come to this moment"])
        at = AtTime(side.now)
        match request:
            case Change():
                side.change(change_of(request, self._policies))
            case Kill(task_manager=str(name)):
                side.add_fault(KillTaskManager(when=at, task_manager=name))
            case Kill(vertex=str(vertex), subtask=int(subtask)):
                side.add_fault(KillSubtask(when=at, subtask=SubtaskName(vertex, subtask)))
            case Kill():
                raise UsageError(["what is to be killed is not said; name a task manager, or a subtask"])
            case Cut(link=(one, other), seconds=seconds):
                cut = CutLink(when=at, from_task_manager=one, to_task_manager=other, for_s=seconds)
                side.add_fault(cut)
            case TakeCheckpoint():
                side.take_checkpoint()

    def _side(self, name: Side) -> LiveJob:
        for side in self._sides:
            if side.side == name:
                return side
        raise UsageError([f"there is no side {name!r}; fork the run first"])

    def _step(self, seconds: float | None) -> None:
        if seconds is None:
            goal = min(side.next_s for side in self._sides)
        elif 0 < seconds < math.inf:
            goal = self._now + seconds
        else:
            raise UsageError([f"a step takes {seconds:g} s; it must be more than 0 s"])
        self._stops_at = min(goal, self._base.duration_s)
        self.paused = False
        self._seen_at = perf_counter()
        if seconds is None:
            self._run_to_next_thing()

    def _run_to_next_thing(self) -> None:
        goal = self._stops_at
        for side in self._sides:
            side.advance(goal)
        self._now, self.paused, self._stops_at = max(self._now, goal), True, math.inf

    def _go_back(self, t: float) -> None:
        if not 0 <= t <= self._now:
            raise UsageError([f"there is no way back to {t:g} s; it must be from 0 s to {self._now:g} s"])
        anew = [LiveJob(side.side, self._until(side.scenario, t), self._tables) for side in self._sides]
        self._replace(anew)
        self._now = t

    def _until(self, scenario: Scenario, t: float) -> Scenario:
        """A scenario without what a user has done from a moment on."""
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
            raise UsageError(["there are two sides already; keep one of them first"])
        self._sides.append(LiveJob("b", self._sides[0].scenario, self._tables))

    def _keep_only(self, kept: LiveJob) -> None:
        for side in self._sides:
            if side is not kept:
                side.close()
        kept.rename("a")
        self._sides = [kept]

    def _replace(self, sides: list[LiveJob]) -> None:
        for side in self._sides:
            side.close()
        self._sides = sides
        self._speeds = []

    def _copied(self, side: LiveJob) -> str:
        scenario = side.scenario
        comment = f"As it was run in the lab up to {self._now:.3f} s; running it gives the same numbers."
        duration_s = max(self._asked_s, math.ceil(self._now * 1000) / 1000)
        return scenario_toml(replace(scenario, duration_s=duration_s), [comment])

    def close(self) -> None:
        """Take everything back."""
        self._replace([])
