"""A job that is run piece by piece, watched and changed meanwhile.

Each action of a user becomes part of the scenario, with its time. So the run can be repeated with bitwise
equal numbers. The lab does this to step back, to fork the run into a second one (side b), and to replay a
saved file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from math import isnan
from time import process_time

import msgspec

from netstack import (
    Agenda,
    AtTime,
    CutLink,
    Job,
    KillSubtask,
    KillTaskManager,
    Outage,
    Scenario,
    ScheduledChange,
    Steady,
    SubtaskSample,
    TableStores,
    checkpoint_result,
)

from ..base.errors import UsageError
from ..runs.quantities import CHECKPOINT
from .channels import EdgeView
from .controls import without_constants, words_of
from .messages import (
    CHECKPOINT_VIEWS,
    CheckpointRow,
    Control,
    Frame,
    History,
    Incident,
    PendingRow,
    SampleRow,
    Shares,
    Side,
    figures_of,
)

STEP_S = 0.001
"""Interval in emulated seconds. Actions of a user happen at its multiples."""

_ENTRIES = 200
"""Number of agenda entries that run between two readings of the clock."""


Times = tuple[float, float, float]
"""Busy, idle and back-pressured time of a subtask so far, in seconds."""

_NOTHING: Shares = (0.0, 0.0, 0.0)


class LiveJob:
    """One run of `scenario` from its beginning, at `now` emulated seconds.

    `rows`, `checkpoints` and `incidents` are its history, which only grows. `acted_at` is the
    time of the user's last action or, if this is a checkpoint, a step after it. Call `close` at the end.

    Raises:
        UsageError: the scenario is invalid.
        InsufficientBuffers: the network memory is too small for the job.
    """

    def __init__(self, side: Side, scenario: Scenario, tables: TableStores | None = None) -> None:
        self.side: Side = side
        self.now = 0.0
        self.rows: list[SampleRow] = []
        self.checkpoints: list[CheckpointRow] = []
        self.incidents: list[Incident] = []
        self.over = False
        self._agenda = Agenda()
        self._job = Job(scenario, self._agenda, progress=self._sampled, trace=self._traced, tables=tables)
        self._figures = LiveFigures(self._job)
        self._viewed: tuple[object, object] = None, None
        self._views: list[EdgeView] = []
        self._closed = False
        self._seen_checkpoints = 0
        self._seen_faults = 0
        self.acted_at = 0.0
        try:
            self._job.begin()
        except BaseException:
            self.close()
            raise

    @property
    def scenario(self) -> Scenario:
        """The scenario with all actions of the user."""
        return self._job.scenario

    @property
    def failure(self) -> str | None:
        """The reason of a final failure of the job; None: it has not failed."""
        return self._job.failure

    @property
    def changed_at(self) -> float:
        """Time of the last change or fault; 0: none."""
        scenario = self.scenario
        faults = [fault.when.time_s for fault in scenario.faults if isinstance(fault.when, AtTime)]
        return max([0.0, *(change.at_s for change in scenario.changes), *faults])

    def steady(self, from_s: float) -> Steady:
        """Return the figures of the run since a moment, like those of a window of a result."""
        return self._job.steady(from_s, self.now)

    @property
    def restarting(self) -> bool:
        """Whether the whole job is down and waits for its restart."""
        return self._job.attempt is None and not self.over

    @property
    def next_s(self) -> float:
        """Time of the next event; infinity: none."""
        return math.inf if self.over else self._agenda.next_s

    def advance(self, until: float, deadline: float = math.inf) -> bool:
        """Run up to a moment, or until `process_time` reaches `deadline`.

        Return whether the moment was reached.
        """
        agenda = self._agenda
        while not self.over and agenda.next_s <= until:
            agenda.run_until(until, _ENTRIES)
            if agenda.stopped or agenda.next_s == math.inf:
                self.over = True
                self._job.conclude()
                self.new_checkpoints()
            elif process_time() >= deadline and agenda.next_s <= until:
                self.now = max(self.now, agenda.now)
                return False
        self.now = agenda.now if self.over else max(self.now, until)
        return True

    def change(self, *changes: ScheduledChange) -> None:
        """Change settings or vertices from now on; the times in `changes` are ignored.

        Raises:
            UsageError: a change is invalid, or the run is over.
        """
        at = self._moment()
        scenario = self.scenario
        new = [replace(change, at_s=at) for change in changes]
        self._plan(replace(scenario, changes=(*scenario.changes, *new)))

    def add_fault(self, fault: KillSubtask | KillTaskManager | CutLink | Outage) -> None:
        """Inject a fault now; the time in the fault is ignored.

        Raises:
            UsageError: the fault is invalid, or the run is over.
        """
        scenario, when = self.scenario, AtTime(self._moment())
        self._plan(replace(scenario, faults=(*scenario.faults, replace(fault, when=when))))

    def take_checkpoint(self) -> None:
        """Trigger a checkpoint now.

        Raises:
            UsageError: the run is over.
        """
        scenario = self.scenario
        self._plan(replace(scenario, manual_checkpoints_s=(*scenario.manual_checkpoints_s, self._moment())))

    def _moment(self) -> float:
        """Return the next multiple of `STEP_S` after the user's last action, without a planned checkpoint."""
        scenario = self.scenario
        taken = {*scenario.manual_checkpoints_s, *(savepoint.at_s for savepoint in scenario.savepoints)}
        step = math.floor(max(self.now, self._agenda.now, self.acted_at) / STEP_S + 1e-6) + 1
        while step * STEP_S in taken:
            step += 1
        return round(step * STEP_S, 3)

    def _plan(self, scenario: Scenario) -> None:
        if self.over:
            raise UsageError(["The run has ended. Go back to an earlier moment to change the job."])
        self._job.plan(scenario)
        self.acted_at = self._moment()

    def _sampled(self, now: float) -> None:
        row = self._figures.row(self.side, now, [view.in_flight_bytes for view in self._edge_views()])
        if row is not None:
            self.rows.append(row)

    def _traced(self, at: float, place: str, text: str, checkpoint_id: int | None = None) -> None:
        if place == "job":
            change = next((each for each in self.scenario.changes if text.endswith(str(each))), None)
            shown = without_constants(text) if change is None else words_of(change)
            self.incidents.append(Incident(self.side, at, shown))

    def new_checkpoints(self) -> Sequence[CheckpointRow]:
        """Return the checkpoints that have ended since the last call."""
        known = len(self._job.recorder.checkpoints)
        first = min(self._seen_checkpoints, known)  # a full table drops every second entry
        new = [checkpoint_row(self.side, self._job, place) for place in range(first, known)]
        self._seen_checkpoints = known
        self.checkpoints += new
        return new

    def _note_faults(self) -> None:
        """Append injected faults to the incidents. The trace reports kills and outages."""
        fired = self._job.faults.fired
        for fault in fired[self._seen_faults :]:
            if fault.kind not in (KillSubtask.kind, KillTaskManager.kind, Outage.kind):
                self.incidents.append(Incident(self.side, fault.time, fault.what))
        self._seen_faults = len(fired)

    def frame(self, state: str, speed: float | None, replays_to_s: float | None) -> Frame:
        """Return the current frame; `state` is used if the job runs normally."""
        self._note_faults()
        text = ""
        if self.over and self.failure is not None:
            state, text = "failed", without_constants(self.failure)
        elif self.over:
            state = "ended"
            text = f"after {self.now:g} s. Go back to an earlier moment to continue from there."
        elif (down_until := self._job.down_until) is not None:
            state, text = "down", f"until {down_until:.3f} s"
        elif self.restarting:
            state, text = "restarting", self.incidents[-1].text if self.incidents else ""
        pending = [
            PendingRow(
                each.checkpoint_id, each.triggered_at, len(each.parts), len(each.parts) + len(each.awaited)
            )
            for each in self._job.coordinator.pending
        ]
        edges = [view.frame(barriers=bool(pending)) for view in self._edge_views()]
        job, shares = self._job, self._figures.shares()
        backlogs = list(job.backlogs.values()) or [None]
        return Frame(
            self.side,
            self.now,
            state,
            text,
            speed,
            shares,
            edges,
            pending,
            None if None in backlogs else sum(filter(None, backlogs)),
            job.catches_up,
            replays_to_s,
        )

    def history(self, controls: list[Control]) -> History:
        """Return the history of the run."""
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

    def rename(self, side: Side) -> None:
        """Change the side of the run and of its history."""
        self.side = side
        self.rows = [msgspec.structs.replace(row, side=side) for row in self.rows]
        self.checkpoints = [msgspec.structs.replace(row, side=side) for row in self.checkpoints]
        self.incidents = [msgspec.structs.replace(row, side=side) for row in self.incidents]

    def close(self) -> None:
        """Release the job; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._job.release()
            self._agenda.clear()  # tasks that have not started


class LiveFigures:
    """Figures of a job's subtasks, as differences between two calls."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._parallelisms = [vertex.parallelism for vertex in job.scenario.vertices]
        self._ends = list(accumulate(self._parallelisms))
        self._sources = [vertex.source is not None for vertex in job.scenario.vertices]
        self._before: Sequence[Times] = ()
        self._attempt: object = None
        self._row_before: Sequence[SubtaskSample] = ()
        self._row_attempt: object = None
        self._row_at = 0.0

    def shares(self) -> list[list[Shares]]:
        """Return the shares of each subtask's time since the last call: busy, idle, back-pressured."""
        attempt = self._job.attempt
        times = [] if attempt is None else attempt.times()
        before = self._before if attempt is self._attempt else []
        self._before, self._attempt = times, attempt
        if not times:
            return [[_NOTHING] * count for count in self._parallelisms]
        pairs = zip(times, before or [(0.0, 0.0, 0.0)] * len(times), strict=True)
        return self._by_vertex([_shares(now, then) for now, then in pairs])

    def row(self, side: Side, now: float, in_flight_bytes: Sequence[float]) -> SampleRow | None:
        """Return a row of the time series; None for the first sample of an attempt."""
        attempt, samples = self._job.attempt, self._job.latest
        before = self._row_before if attempt is self._row_attempt and self._row_before else []
        since, self._row_at = now - self._row_at, now
        self._row_before, self._row_attempt = samples, attempt
        if not samples or not before or since <= 0:
            return None
        pairs = zip(map(_times, samples), map(_times, before), strict=True)
        shares = self._by_vertex([_shares(*pair) for pair in pairs])
        rates, sizes, times = [], [], []
        for source, end, count in zip(self._sources, self._ends, self._parallelisms, strict=True):
            mine = range(end - count, end)
            field = "records_out" if source else "records_in"
            records = sum(getattr(samples[n], field) - getattr(before[n], field) for n in mine)
            rates.append(records / since)
            sizes.append(min(_known(samples[n].debloated_buffer_size for n in mine), default=None))
            longest_ms = max(_known(samples[n].estimated_time_to_consume_ms for n in mine), default=None)
            times.append(None if longest_ms is None else longest_ms / 1e3)
        busy, idle, backpressured = ([_mean(vertex, place) for vertex in shares] for place in range(3))
        backlogs = self._job.backlogs
        waiting = [backlogs.get(number) for number in range(len(rates))]
        in_flight = list(in_flight_bytes)
        return SampleRow(side, now, busy, idle, backpressured, rates, sizes, times, waiting, in_flight)

    def _by_vertex(self, values: Sequence[Shares]) -> list[list[Shares]]:
        ends = zip(self._ends, self._parallelisms, strict=True)
        return [list(values[end - count : end]) for end, count in ends]


def _times(sample: SubtaskSample) -> Times:
    return sample.busy_s, sample.idle_s, sample.backpressured_s


def _shares(now: Times, then: Times) -> Shares:
    busy, idle, backpressured = (max(0.0, later - earlier) for later, earlier in zip(now, then, strict=True))
    total = busy + idle + backpressured
    if total <= 0:
        return _NOTHING
    return round(busy / total, 4), round(idle / total, 4), round(backpressured / total, 4)


def _mean(shares: Sequence[Shares], place: int) -> float | None:
    return round(sum(each[place] for each in shares) / len(shares), 4)


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not isnan(value)]


def checkpoint_row(side: Side, job: Job, place: int) -> CheckpointRow:
    """Return the row of a checkpoint, by its index in the job's recorder."""
    checkpoint = checkpoint_result(job.scenario, job.recorder, place, decimals=6)
    return CheckpointRow(
        side=side,
        id=checkpoint.id,
        t=job.recorder.checkpoints[place].triggered_at,
        status=checkpoint.status,
        kind=checkpoint.checkpoint_type,
        figures=figures_of(CHECKPOINT, CHECKPOINT_VIEWS, checkpoint),
        failure=None if checkpoint.failure is None else without_constants(checkpoint.failure),
    )
