"""A run over several processes, put together from what they report of each attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

import numpy as np

from ..jobs.emulation import result_of
from ..jobs.job import SAMPLE_INTERVAL_S
from ..jobs.restarts import Restart, Start, Totals
from ..results.result import Result, Work
from ..results.statistics import Figures, FiredFault, Recorder, SubtaskSample
from ..scenarios.scenario import Scenario
from ..state.snapshots import CheckpointMetadata
from .attempt_report import Failure, Report
from .terms import task_managers


class RunHistory:
    """All attempts of a run, one after the other.

    `origin` is when the run began on the wall clock, None while no attempt has; `ended_at` when the last
    attempt ended, in seconds of the run. `start`: from which checkpoint of an earlier run, if so.
    """

    def __init__(self, scenario: Scenario, start: Start | None = None) -> None:
        self.origin: float | None = None
        self.ended_at = 0.0
        self.restarts: list[Restart] = []
        self._scenario = scenario
        self._start = start
        self._fired: list[FiredFault] = []
        self._behind: dict[str, float | None] = dict.fromkeys(task_managers(scenario))
        self._recorder = Recorder([vertex.parallelism for vertex in scenario.vertices])
        self._totals = Totals(sum(self._recorder.parallelisms))

    def add(self, reports: Sequence[Report]) -> Failure | None:
        """An attempt is over, and this is what its processes report; returns why it failed."""
        reports = sorted(reports, key=lambda report: report.index)
        leader = reports[0]
        failures = [report.failure for report in reports if report.failure is not None]
        if leader.begins_at is not None:
            self.origin = leader.origin
            self._begun(leader, leader.begins_at)
            self._add_samples(reports)
            self.lost()
            names = list(self._behind)
            self._behind.update((names[report.index], report.behind_s) for report in reports)
            self.ended_at = max(report.ended_at for report in reports)
        elif not failures:  # its time was over before
            self.nothing_ran_until(self._scenario.duration_s)
        for record in leader.checkpoints:
            parts = {(vertex, index): part for vertex, index, part in record.parts}
            self._recorder.checkpoint(parts=parts, **record.head._asdict())
        fired = [fault for report in reports for fault in report.faults]
        self._fired += sorted(fired, key=lambda fault: fault.time)
        return min(failures, key=lambda failure: (failure.blame, failure.at), default=None)

    def lost(self) -> None:
        """Nothing is known of how far the processes of the last attempt were behind the clock."""
        self._behind = dict.fromkeys(self._behind)

    def _begun(self, leader: Report, at: float) -> None:
        if self.restarts:
            self.restarts[-1].restarted_at = at
            self.restarts[-1].running_at = leader.running_at
            self.nothing_ran_until(at)
        elif self._start is not None:
            self._start.running_at = leader.running_at

    def _add_samples(self, reports: Sequence[Report]) -> None:
        figures = _together(self._scenario, reports)
        for row in figures:
            samples = [SubtaskSample._make(column) for column in row[1:].T.tolist()]
            self._recorder.sample(float(row[0, 0]), self._totals.plus(samples))
        last = [SubtaskSample._make(column) for column in figures[-1][1:].T.tolist()] if len(figures) else []
        work = Work(
            buffers=sum(report.work.buffers for report in reports),
            records=sum(report.work.records for report in reports),
            bytes=sum(report.work.bytes for report in reports),
            messages=sum(report.work.messages for report in reports),
        )
        self._totals.add(last, work)

    def failed(self, at: float, cause: str) -> None:
        """The last attempt has failed at that time of the run, and another one is to follow."""
        self.ended_at = max(self.ended_at, at)
        self.restarts.append(Restart(at, cause))

    @property
    def checkpoint_ids(self) -> list[int]:
        """The numbers of the checkpoints that are known to have begun."""
        return [head.checkpoint_id for head in self._recorder.checkpoints]

    def began_with(self, metadata: CheckpointMetadata, *, restored: bool) -> None:
        """The last attempt began with this checkpoint, or could not; the first one is no restart."""
        if self.restarts and restored:
            self.restarts[-1].restored(metadata)
        elif self.restarts:
            self.restarts[-1].unusable_checkpoint_id = metadata.checkpoint_id

    def nothing_ran_until(self, time: float) -> None:
        """There was no attempt from the end of the last one until `time`."""
        for second in range(ceil(self.ended_at / SAMPLE_INTERVAL_S), ceil(time / SAMPLE_INTERVAL_S)):
            self._recorder.sample(second * SAMPLE_INTERVAL_S, self._totals.plus([]))
        self.ended_at = max(self.ended_at, time)

    def result(self, *, wall_seconds: float, failure: str | None) -> Result:
        """Return the result of the whole run; `failure` says why it failed for good.

        How far processes were behind the clock is told of the last attempt, at whose end the run ends.
        """
        known = [behind for behind in self._behind.values() if behind is not None]
        return result_of(
            self._scenario,
            self._recorder,
            clock="real",
            link="tcp",
            emulated_seconds=self.ended_at,
            wall_seconds=wall_seconds,
            work=self._totals.work,
            start=self._start,
            restarts=self.restarts,
            fired=self._fired,
            failure=failure,
            behind_s=None if None in self._behind.values() else max(known),
            task_managers_behind_s=self._behind,
        )


def _together(scenario: Scenario, reports: Sequence[Report]) -> Figures:
    """The samples of all processes in one table, with the subtasks in the order of the scenario.

    One process may have taken a sample more than another before both took their last one.
    """
    tables = [report.rows for report in reports]
    rows = min(len(table) for table in tables)
    if not rows or len(tables) < len(task_managers(scenario)):
        return np.empty((0, 0, 0))
    same = [np.concatenate((table[: rows - 1], table[-1:])) for table in tables]
    order = np.argsort(list(_flat_places(scenario)), kind="stable")
    joined: Figures = np.concatenate(same, axis=2)[:, :, order]
    return joined


def _flat_places(scenario: Scenario) -> Iterator[int]:
    """The place, among all subtasks, of each subtask, process by process."""
    first = 0
    places: dict[str, list[int]] = {name: [] for name in task_managers(scenario)}
    for vertex in scenario.vertices:
        places[vertex.manager_of(0)] += range(first, first + vertex.parallelism)
        first += vertex.parallelism
    for of_manager in places.values():
        yield from of_manager
