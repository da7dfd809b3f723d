"""What a setting is run for, besides being what it is: each probe is a scenario that answers one question.

| probe | question | how it differs from the setting |
|---|---|---|
| main | what does it come to? | not at all |
| baseline | what is it without debloating? | debloating is off |
| unaligned | what would unaligned checkpoints store, and how long would they take? | they are on |
| step | how fast does it follow the load? | a service time doubles in the middle; no checkpoints, no faults |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, get_args

from netstack import CheckpointMode, Scenario, Vertex, with_options

Probe = Literal["main", "unaligned", "step", "baseline"]
"""What a point is run for."""

PROBES: tuple[Probe, ...] = get_args(Probe)

STEP_FACTOR = 2.0
"""By what the service time of the bottleneck grows."""
LEAST_STEP_RUN_S = 60.0
"""How long a probe with a step lasts at least: debloating halves a size in about 2 s, and is to settle."""


def probes_of(scenario: Scenario, wanted: Iterable[Probe] = PROBES) -> list[tuple[Probe, Scenario]]:
    """Return the scenarios that answer the wanted questions about a setting, as far as they can be asked.

    No unaligned probe where checkpoints are taken at least once or not at all, since Flink then has none; no
    step where no vertex but a source has a service time; neither step nor baseline where debloating is off.
    """
    made = {
        "main": scenario,
        "baseline": baseline(scenario),
        "unaligned": unaligned(scenario),
        "step": with_step(scenario),
    }
    return [(probe, changed) for probe in wanted if (changed := made[probe]) is not None]


def baseline(scenario: Scenario) -> Scenario | None:
    """Return the scenario without debloating; None where it has none."""
    if not scenario.config.debloat_enabled:
        return None
    return replace(scenario, config=with_options(scenario.config, {"debloat_enabled": False}))


def unaligned(scenario: Scenario) -> Scenario | None:
    """Return the scenario with unaligned checkpoints from the start; None where there can be none."""
    config = scenario.config
    if not scenario.takes_checkpoints or config.checkpoint_mode is not CheckpointMode.EXACTLY_ONCE:
        return None
    values = {
        "unaligned_enabled": True,
        "aligned_checkpoint_timeout_s": 0.0,
        "max_concurrent_checkpoints": 1,
    }
    return replace(scenario, config=with_options(config, values))


def with_step(scenario: Scenario) -> Scenario | None:
    """Return the scenario with a step of the load at `step_at_s`; None where there is nothing to see.

    The bottleneck's service time doubles, and later steps of the scenario are left out. There are no
    checkpoints, each of which empties the queues for a while, and no faults. What is measured is the second
    half of what comes after the step.
    """
    slowest = bottleneck(scenario)
    if slowest is None or not scenario.config.debloat_enabled:
        return None
    duration = max(scenario.duration_s, LEAST_STEP_RUN_S)
    longer = replace(
        scenario,
        duration_s=duration,
        config=replace(scenario.config, checkpoint_interval_s=None),
        manual_checkpoints_s=(),
        faults=(),
    )
    at = step_at_s(longer)
    stepping = replace(slowest, service=_with_step(slowest, at))
    vertices = tuple(stepping if vertex is slowest else vertex for vertex in scenario.vertices)
    window = ((at + duration) / 2, duration)
    return replace(longer, vertices=vertices, phases=(window,), warmup_s=min(scenario.warmup_s, at))


def step_at_s(scenario: Scenario) -> float:
    """Return when the load of a probe with a step changes, in seconds since opening: in the middle."""
    return round(scenario.duration_s / 2, 3)


def bottleneck(scenario: Scenario) -> Vertex | None:
    """Return the vertex that can process the fewest records per second; None where none has a service time.

    Its slowest subtask counts, as if all got the same share, at the middle of the run.
    """
    at = step_at_s(scenario)
    slow = [vertex for vertex in scenario.vertices if vertex.source is None and _cost(vertex, at) > 0]
    return min(slow, key=lambda vertex: vertex.parallelism / _cost(vertex, at), default=None)


def _cost(vertex: Vertex, at: float) -> float:
    """Seconds that a record costs the slowest subtask at a time."""
    return max(_cost_at(vertex.service_steps(subtask), at) for subtask in range(max(1, vertex.parallelism)))


def _cost_at(steps: tuple[tuple[float, float], ...], at: float) -> float:
    return next((cost for begin, cost in reversed(steps) if begin <= at), 0.0)


def _with_step(vertex: Vertex, at: float) -> tuple[tuple[float, float], ...]:
    before = tuple(step for step in vertex.service if step[0] < at)
    return (*before, (at, STEP_FACTOR * _cost_at(vertex.service, at)))
