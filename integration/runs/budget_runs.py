"""Runs a job with buffers of many sizes, always at the same load and with checkpoints at the same times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from buffers import InsufficientBuffers
from netstack import Result, Scenario

from ..analysis.sizing.budget_plan import Trial, figures_of
from ..analysis.sizing.job_size import JobSize, size_job
from .scenario_runs import PROCESSES, run_seeds

CHECKPOINTS = 16
"""Checkpoints of each run, at least."""

_SETTLES_S = 15.0
"""Time in which debloated sizes settle, with the default 20 samples of 200 ms."""

_OFF_BEAT_S = 0.37
"""Keeps checkpoints from coinciding with what happens each second."""

Done = Callable[[int], None]
"""Told how many runs have ended."""


class BudgetRuns:
    """Emulations of a job under several splits of its memory.

    `scenario` is the job with as much memory as it can use, timed so that its checkpoints say enough;
    `count` how many runs there were.
    """

    def __init__(self, scenario: Scenario, size: JobSize, seeds: int, done: Done) -> None:
        self.scenario = _timed(scenario, size)
        self.count = 0
        self._seeds = seeds
        self._done = done

    def results(self, scenarios: Sequence[Scenario]) -> list[list[Result]]:
        """Return the results of all seeds of each."""
        before = self.count
        runs = len(scenarios) * self._seeds
        # To start processes takes as long as a short run.
        processes = PROCESSES if runs > PROCESSES else 1
        results = run_seeds(
            scenarios, self._seeds, processes=processes, done=lambda count: self._done(before + count)
        )
        self.count += runs
        return results

    def trials(self, name: str, scenarios: Sequence[Scenario], memory_bytes: int) -> list[Trial]:
        """Return what comes of scenarios with a network memory of so many bytes in each task manager."""
        figures = map(figures_of, self.results([_limited(each, memory_bytes) for each in scenarios]))
        return [Trial(name=name, memory_bytes=memory_bytes, figures=each) for each in figures]

    def trial(self, name: str, scenario: Scenario, memory_bytes: int) -> Trial:
        """Return what comes of a scenario with so much memory, if it starts."""
        try:
            return self.trials(name, [scenario], memory_bytes)[0]
        except InsufficientBuffers:
            return Trial(name=name, memory_bytes=memory_bytes, figures=None)


def _limited(scenario: Scenario, memory_bytes: int) -> Scenario:
    """The job with so much network memory; where its pools cannot use as much, without a limit."""
    most = max(each.most_bytes for each in size_job(scenario, 1).task_managers)
    limit = memory_bytes if memory_bytes < most else None
    return replace(scenario, config=replace(scenario.config, network_memory_max_bytes=limit))


def _timed(scenario: Scenario, size: JobSize) -> Scenario:
    """The job with at least `CHECKPOINTS` checkpoints, each with time to fill the queues again before it.

    A load that changes over time is not run on beyond the end that the scenario says.
    """
    config, window = scenario.config, scenario.duration_s - scenario.warmup_s
    full = [each.debloated_drain_ms or each.expected_drain_ms for each in size.consumers if each.is_held_back]
    drain_s = 0.0 if _changes(scenario) else sum(ms or 0.0 for ms in full) / 1000
    most = window / CHECKPOINTS if _changes(scenario) else math.inf
    calm = round(min(most, max(1.0, 3 * drain_s) + _OFF_BEAT_S), 2)
    interval = calm if config.checkpoint_interval_s is None else min(calm, config.checkpoint_interval_s)
    if not _changes(scenario):
        window = max(window, CHECKPOINTS * interval)
    settles = 0.0 if _changes(scenario) else 1.0 + 2 * drain_s + _SETTLES_S * config.debloat_enabled
    warmup = max(scenario.warmup_s, round(settles, 2))
    config = replace(
        config,
        checkpoint_interval_s=interval,
        checkpoint_dir=None,
        checkpoint_storage=None,
        network_memory_max_bytes=None,
    )
    return replace(
        scenario,
        config=config,
        warmup_s=warmup,
        duration_s=round(warmup + window, 2),
        phases=(),
        manual_checkpoints_s=(),
        faults=(),
    )


def _changes(scenario: Scenario) -> bool:
    """Whether the cost of a record changes while the job runs."""
    costs = [vertex.service for vertex in scenario.vertices] + [edge.service for edge in scenario.edges]
    return any(steps is not None and len(steps) > 1 for steps in costs)
