"""Lengths of runs: warm-ups that fill the queues of a job, and windows of whole periods of its load."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from netstack import GeneratorSpec, Scenario

from .job_load import course_s

SETTLES_S = 15.0
"""Time in seconds until debloated sizes have settled, with the default of 20 samples at 200 ms."""

SHIFT_S = 0.37
"""Offset in seconds that keeps checkpoints from coinciding with samples, which are one second apart."""

_WINDOW_S, _LEAST_CHECKPOINTS = 20.0, 2
"""Minimum length of a measured window in seconds, and minimum number of checkpoints in it."""
_MOST_PERIOD_S = 60.0
"""The window contains whole periods of waves, bursts and windows if they last at most this many seconds."""


def undisturbed(scenario: Scenario, **options: Any) -> Scenario:
    """Return a job with these options, without phases, faults, manual and stored checkpoints."""
    config = replace(scenario.config, checkpoint_dir=None, checkpoint_storage=None, **options)
    return replace(scenario, config=config, phases=(), manual_checkpoints_s=(), faults=())


def periods_s(scenario: Scenario) -> list[float]:
    """Return the periods after which the load repeats, in seconds: of waves, bursts, windows and courses."""
    sources = [vertex.source for vertex in scenario.vertices if isinstance(vertex.source, GeneratorSpec)]
    periods = [vertex.emit_every_s for vertex in scenario.vertices]
    periods += [period for source in sources for period in (source.burst_s, source.wave_s)]
    return [period for period in (*periods, course_s(scenario)) if period]


def calm_interval_s(scenario: Scenario, drain_s: float) -> float:
    """Return a checkpoint interval in which all queues fill again, or the job's interval if it is shorter.

    `drain_s`: the time in which a barrier passes all queues if they are full.
    """
    window_s = scenario.duration_s - scenario.warmup_s
    calm_s = window_s / 16 if _changes(scenario) else 1.2 * drain_s + SHIFT_S
    return round(min(calm_s, scenario.config.checkpoint_interval_s or math.inf), 2)


def filled(scenario: Scenario, drain_s: float) -> Scenario:
    """Return a scenario with a warm-up that fills its queues, and a window of whole periods of its load.

    `drain_s`: the time in which a barrier passes all queues if they are full. If the cost of a record changes
    over time, warm-up and window stay as they are.
    """
    if _changes(scenario):
        return scenario
    period_s = max(scenario.config.checkpoint_interval_s or 0.0, 1.2 * drain_s)
    warmup = 1.0 + 1.2 * drain_s + SETTLES_S * scenario.config.debloat_enabled
    window = max(_WINDOW_S, _LEAST_CHECKPOINTS * period_s)
    for period in sorted(periods_s(scenario)):  # the longest comes last, because not all periods can be whole
        if period <= _MOST_PERIOD_S or period == course_s(scenario):
            warmup, window = (math.ceil(length / period) * period for length in (warmup, window))
    return replace(scenario, warmup_s=round(warmup, 2), duration_s=round(warmup + window, 2))


def _changes(scenario: Scenario) -> bool:
    costs = [each.service for each in scenario.vertices] + [each.service for each in scenario.edges]
    return any(steps and len(steps) > 1 for steps in costs)
