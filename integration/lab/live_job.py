"""A job that is run piece by piece, watched and changed meanwhile.

Whatever a user does becomes part of the scenario, with its time. So a job can be run again from its start,
to go back to a moment, to have a second one beside it, or from a file, with the same numbers to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from time import process_time

import msgspec

from netstack import (
    Agenda,
    AtTime,
    CutLink,
    Job,
    KillSubtask,
    KillTaskManager,
    Scenario,
    ScheduledChange,
    Steady,
    TableStores,
)

from ..errors import UsageError
from .channels import EdgeView
from .live_figures import Figures, checkpoint_row
from .page_messages import CheckpointRow, Control, Frame, History, Incident, PendingRow, Row, Side

STEP_S = 0.001
"""What a user does happens at a whole multiple of this, in emulated seconds."""

_ENTRIES = 200
"""How many entries of the agenda run before the clock is looked at."""


class LiveJob:
    """One run of `scenario` from its beginning, of which `now` seconds are over.

    `rows`, `checkpoints` and `incidents` are what has come of it so far; nothing is ever taken from them.
    It has to be closed.

    Raises:
        UsageError: the scenario makes no sense.
        InsufficientBuffers: the network memory is too small for the job.
    """

    def __init__(self, side: Side, scenario: Scenario, tables: TableStores | None = None) -> None:
        self.side: Side = side
        self.now = 0.0
        self.rows: list[Row] = []
        self.checkpoints: list[CheckpointRow] = []
        self.incidents: list[Incident] = []
        self.over = False
        self._agenda = Agenda()
        self._job = Job(scenario, self._agenda, progress=self._sampled, trace=self._traced, tables=tables)
        self._figures = Figures(self._job)
        self._viewed: tuple[object, object] = None, None
        self._views: list[EdgeView] = []
        self._closed = False
        self._seen_checkpoints = 0
        self._seen_faults = 0
        self._done_at = 0.0  # the last moment that a user has chosen
        try:
            self._job.begin()
        except BaseException:
            self.close()
            raise

    @property
    def scenario(self) -> Scenario:
        """What is run, with all that was done to it."""
        return self._job.scenario

    @property
    def failure(self) -> str | None:
        """Why the job has failed for good; None: it has not."""
        return self._job.failure

    @property
    def changed_at(self) -> float:
        """When a user has changed something last, or let it go wrong; 0: never."""
        scenario = self.scenario
        faults = [fault.when.time_s for fault in scenario.faults if isinstance(fault.when, AtTime)]
        return max([0.0, *(change.at_s for change in scenario.changes), *faults])

    def steady(self, from_s: float) -> Steady:
        """Return what the run comes to from a moment on, as results have it of their windows."""
        return self._job.steady(from_s, self.now)

    @property
    def restarting(self) -> bool:
        """Whether the whole job waits to be restarted."""
        return self._job.attempt is None and not self.over

    @property
    def next_s(self) -> float:
        """When something happens next; infinity: never."""
        return math.inf if self.over else self._agenda.next_s

    def advance(self, until: float, deadline: float = math.inf) -> bool:
        """Run up to a moment, or until `process_time` shows `deadline`; returns whether it has come there."""
        agenda = self._agenda
        while not self.over and agenda.next_s <= until:
            agenda.run_until(until, _ENTRIES)
            if agenda.stopped or agenda.next_s == math.inf:
                self._end()
            elif process_time() >= deadline and agenda.next_s <= until:
                self.now = max(self.now, agenda.now)
                return False
        self.now = agenda.now if self.over else max(self.now, until)
        return True

    def change(self, change: ScheduledChange) -> None:
        """Change settings or a vertex from now on, whatever time the change says.

        Raises:
            UsageError: that is not possible.
        """
        at = self._moment()
        scenario = self.scenario
        self._plan(replace(scenario, changes=(*scenario.changes, replace(change, at_s=at))))

    def add_fault(self, fault: KillSubtask | KillTaskManager | CutLink) -> None:
        """Let something go wrong now, whenever the fault says.

        Raises:
            UsageError: that is not possible.
        """
        scenario, when = self.scenario, AtTime(self._moment())
        self._plan(replace(scenario, faults=(*scenario.faults, replace(fault, when=when))))

    def take_checkpoint(self) -> None:
        """Ask for a checkpoint now.

        Raises:
            UsageError: the run is over.
        """
        scenario = self.scenario
        self._plan(replace(scenario, manual_checkpoints_s=(*scenario.manual_checkpoints_s, self._moment())))

    def _moment(self) -> float:
        """The next moment at which nothing has happened yet and nothing else was planned by a user."""
        scenario = self.scenario
        taken = {*scenario.manual_checkpoints_s, *(savepoint.at_s for savepoint in scenario.savepoints)}
        step = math.floor(max(self.now, self._agenda.now, self._done_at) / STEP_S + 1e-6) + 1
        while step * STEP_S in taken:
            step += 1
        return round(step * STEP_S, 3)

    def _plan(self, scenario: Scenario) -> None:
        if self.over:
            raise UsageError(["the run is over; go back to a moment to change something"])
        self._job.plan(scenario)
        self._done_at = self._moment()

    def _sampled(self, now: float) -> None:
        row = self._figures.row(self.side, now, [view.in_flight_bytes for view in self._edge_views()])
        if row is not None:
            self.rows.append(row)

    def _traced(self, at: float, place: str, text: str, checkpoint_id: int | None = None) -> None:
        if place == "job":
            self.incidents.append(Incident(self.side, at, text))

    def new_checkpoints(self) -> Sequence[CheckpointRow]:
        """Return the checkpoints that have ended since this was asked last."""
        known = len(self._job.recorder.checkpoints)
        first = min(self._seen_checkpoints, known)  # a full table drops every other one
        new = [checkpoint_row(self.side, self._job, place) for place in range(first, known)]
        self._seen_checkpoints = known
        self.checkpoints += new
        return new

    def _note_faults(self) -> None:
        """Put faults that have fired among the incidents; of what is killed the trace has told."""
        fired = self._job.faults.fired
        for fault in fired[self._seen_faults :]:
            if fault.kind not in (KillSubtask.kind, KillTaskManager.kind):
                self.incidents.append(Incident(self.side, fault.time, fault.what))
        self._seen_faults = len(fired)

    def frame(self, state: str, speed: float | None) -> Frame:
        """Return all that moves, as it is now; `state` is what is to be said of a job that works."""
        self._note_faults()
        text = ""
        if self.over:
            over = f"after {self.now:g} s; go back to a moment to go on from there"
            state, text = ("ended", over) if self.failure is None else ("failed", self.failure)
        elif self.restarting:
            state, text = "restarting", self.incidents[-1].text if self.incidents else ""
        pending = [
            PendingRow(
                each.checkpoint_id, each.triggered_at, len(each.parts), len(each.parts) + len(each.awaited)
            )
            for each in self._job.coordinator.pending
        ]
        edges = [view.look(barriers=bool(pending)) for view in self._edge_views()]
        shares = self._figures.shares()
        return Frame(self.side, self.now, state, text, speed, shares, edges, pending)

    def history(self, controls: list[Control]) -> History:
        """Return what is behind it."""
        self.new_checkpoints()
        self._note_faults()
        return History(self.side, self.now, self.rows, self.checkpoints, self.incidents, controls)

    def _edge_views(self) -> Sequence[EdgeView]:
        job = self._job
        restarts = [(restart.restarted_at, restart.running_at) for restart in job.restarts]
        if (job.attempt, restarts) != self._viewed:
            self._viewed = job.attempt, restarts
            edges = range(len(self.scenario.edges)) if job.attempt is not None else ()
            self._views = [EdgeView(job, number) for number in edges]
        return self._views

    def _end(self) -> None:
        self.over = True
        self._job.conclude()
        self.new_checkpoints()

    def rename(self, side: Side) -> None:
        """Let it be another side, with all that is behind it."""
        self.side = side
        self.rows = [msgspec.structs.replace(row, side=side) for row in self.rows]
        self.checkpoints = [msgspec.structs.replace(row, side=side) for row in self.checkpoints]
        self.incidents = [msgspec.structs.replace(row, side=side) for row in self.incidents]

    def close(self) -> None:
        """Take everything back."""
        if not self._closed:
            self._closed = True
            self._job.release()
            self._agenda.clear()  # of tasks that have not begun
