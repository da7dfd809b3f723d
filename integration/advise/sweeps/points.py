"""Points of a sweep: every combination of the values of its axes, with several seeds.

A point is one emulation. It is sent to workers as the document of its scenario. Its key identifies repeated
points, because the same scenario, probe and code give the same result. A point of the probe "step" measures
how fast a setting follows the load: in the middle of its run the service time of the bottleneck doubles. The
run has no checkpoints and no faults.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from netstack import (
    Scenario,
    SourceObject,
    Vertex,
    edge_key,
    scenario_document,
    vertex_key,
)

from ...base.errors import UsageError
from ...spark.python_workers import code_digest
from .axes import Axis, AxisValue, apply, problems_after

Probe = Literal["main", "brief", "step", "restart"]
"""Purpose of a point.

"main" measures the performance of a setting, until its figures have settled. "brief" does so below the limit,
where few checkpoints show enough. "step" measures how fast a setting follows the load, and "restart" how it
catches up after an outage.
"""

STEP_FACTOR = 2.0
"""Factor by which the service time of the bottleneck increases."""
LEAST_STEP_RUN_S = 60.0
"""Minimum length, in seconds, of a run with a step of the load.

Debloating must settle by its end. It halves a size in about 2 s.
"""


def with_step(scenario: Scenario) -> Scenario | None:
    """Return the scenario with a step of the load at `step_at_s`.

    Return None if debloating is off, or no vertex has a service time.

    The bottleneck's service time doubles, and later steps of the scenario are left out. The run has no
    faults, and no checkpoints, because each would empty the queues for a while. The measured window is the
    second half of the time after the step.
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
        checkpoints_from_s=None,
        faults=(),
    )
    at = step_at_s(longer)
    before = tuple(step for step in slowest.service if step[0] < at)
    stepping = replace(slowest, service=(*before, (at, STEP_FACTOR * _cost_at(slowest.service, at))))
    vertices = tuple(stepping if vertex is slowest else vertex for vertex in scenario.vertices)
    window = ((at + duration) / 2, duration)
    return replace(longer, vertices=vertices, phases=(window,), warmup_s=min(scenario.warmup_s, at))


def step_at_s(scenario: Scenario) -> float:
    """Return the time of the load step, in seconds since opening: half the run."""
    return round(scenario.duration_s / 2, 3)


def bottleneck(scenario: Scenario) -> Vertex | None:
    """Return the vertex that can process the fewest records per second; None if no vertex has a service time.

    The slowest subtask, in the middle of the run, determines the rate of a vertex, because all subtasks count
    as having equal shares of the records.
    """
    at = step_at_s(scenario)
    slow = [vertex for vertex in scenario.vertices if vertex.source is None and _cost(vertex, at) > 0]
    return min(slow, key=lambda vertex: vertex.parallelism / _cost(vertex, at), default=None)


def _cost(vertex: Vertex, at: float) -> float:
    """Return the seconds per record of the slowest subtask at the time `at`."""
    return max(_cost_at(vertex.service_steps(subtask), at) for subtask in range(max(1, vertex.parallelism)))


def _cost_at(steps: tuple[tuple[float, float], ...], at: float) -> float:
    return next((cost for begin, cost in reversed(steps) if begin <= at), 0.0)


SEEDS = 3
"""Default number of seeds of a point."""

KEY_CHARACTERS = 24

Labels = Mapping[str, str]
"""The value of each axis, by its name."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One emulation of a sweep."""

    key: str
    """Digest of the inputs; points with the same key give the same result."""
    labels: dict[str, str]
    seed: int
    probe: Probe = "main"
    """Purpose of the point."""
    document: dict[str, Any]
    """The scenario as a document, with the seed of the point."""

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.document["name"])


def point_of(
    scenario: Scenario, labels: Labels | None = None, seed: int | None = None, probe: Probe = "main"
) -> Point:
    """Return the point for a scenario, with the scenario's seed or another one.

    Raises:
        UsageError: a part of the scenario is a Python object, which no document can hold.
    """
    problems = [f"{key}: {_NO_OBJECTS}" for key in _objects_in(scenario)]
    if problems:
        raise UsageError(problems)
    seeded = scenario if seed is None else replace(scenario, seed=seed)
    document = scenario_document(seeded)
    content = msgspec.json.encode([document, probe, code_digest()], order="sorted")
    return Point(
        key=hashlib.sha256(content).hexdigest()[:KEY_CHARACTERS],
        labels=dict(labels or {}),
        seed=seeded.seed,
        probe=probe,
        document=document,
    )


@dataclass(frozen=True, slots=True)
class Grid:
    """Every combination of the values of some axes, with `seeds` consecutive seeds each.

    The first seed is the scenario's.
    """

    axes: tuple[Axis, ...] = ()
    seeds: int = SEEDS

    def points(self, scenario: Scenario) -> list[Point]:
        """Return the points without duplicates, in the order of the combinations.

        Raises:
            UsageError: a value or a combination is invalid for the scenario; one line for each.
        """
        points = [
            point_of(varied, labels, scenario.seed + number)
            for labels, varied in self.combinations(scenario)
            for number in range(self.seeds)
        ]
        return list({point.key: point for point in points}.values())

    def combinations(self, scenario: Scenario) -> list[tuple[Labels, Scenario]]:
        """Return the scenario with each combination of values, and the text of each value by its axis.

        Raises:
            UsageError: a value or a combination is invalid for the scenario; one line for each.
        """
        self._check(scenario)
        names = [axis.name for axis in self.axes]
        return [
            (dict(zip(names, (value.text for value in values), strict=True)), apply(scenario, values))
            for values in self._combinations()
        ]

    def _combinations(self) -> Iterator[tuple[AxisValue, ...]]:
        return itertools.product(*(axis.values for axis in self.axes))

    def _check(self, scenario: Scenario) -> None:
        """Check each value alone, then combinations, so that an error names the value that causes it."""
        if self.seeds < 1:
            raise UsageError([f"seeds: is {self.seeds}; at least 1 is needed"])
        problems = problems_after(scenario, ())
        problems = problems or [problem for axis in self.axes for problem in axis.problems(scenario)]
        if not problems:
            for values in self._combinations():
                pairs = zip(self.axes, values, strict=True)
                where = ", ".join(f"{axis.name} {value.text}" for axis, value in pairs)
                problems += [f"{where}: {problem}" for problem in problems_after(scenario, values)]
        if problems:
            raise UsageError(problems)


_NO_OBJECTS = "is a Python object, which no document can hold; sweep over a scenario of generated records"


def _objects_in(scenario: Scenario) -> Iterator[str]:
    """Yield the Python objects in a scenario, of which a document could hold only the names."""
    for vertex in scenario.vertices:
        if isinstance(vertex.source, SourceObject) and vertex.source.spec is None:
            yield vertex_key(vertex.name, "source")
        if vertex.operator is not None:
            yield vertex_key(vertex.name, "operator")
    for edge in scenario.edges:
        if edge.key_hash is not None:
            yield edge_key(edge, "key_hash")
