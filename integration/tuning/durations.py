"""How long the runs of a sweep have to be, and how long it takes to make them.

A run has to be long enough for ten checkpoints to complete in its window. Those that take six seconds at an
interval of two follow one another, and a window of forty seconds holds six of them. So some settings are
tried with one seed, and the window grows until each holds enough. All settings then get the same window,
since their throughput is compared.

The points that were tried tell how long the others will take. The shorter the target, the more and smaller
the buffers: an emulation takes about a + b / target, where a is that without debloating.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from netstack import Scenario

from .measures import Measures
from .point_rows import PointRow
from .points import Point
from .summaries import setting_of, target_s

LEAST_CHECKPOINTS = 10
"""Completed ones that a window is to hold."""
_SPARE = 1.25
"""By how much a window is longer than one seed needs, for the others."""
MOST_WINDOW_S = 1200.0
"""Windows do not grow beyond this; what then has too few checkpoints is said to have."""
_MOST_TRIES = 4

Run = Callable[[Sequence[Point]], list[PointRow]]
"""Runs points and returns their rows in the same order."""


class Tried(NamedTuple):
    """A scenario whose windows are long enough, and what was run to find that out."""

    scenario: Scenario
    rows: list[PointRow]
    """Rows of this scenario's points, which need not be run again."""


def with_enough_checkpoints(
    scenario: Scenario, points_of: Callable[[Scenario], Sequence[Point]], run: Run
) -> Tried:
    """Return the scenario with a window in which ten checkpoints complete at each of its points.

    `points_of` makes the points that are tried. A scenario without a checkpoint interval keeps its window, as
    does one whose last window does not end with the run, or whose checkpoints do not grow more with it.
    """
    rows = run(points_of(scenario))
    for _ in range(_MOST_TRIES):
        growth_s = _growth_s(scenario, rows)
        if not growth_s:
            break
        longer = lengthened(scenario, growth_s)
        rows_of_longer = run(points_of(longer))
        if _fewest(rows_of_longer) <= _fewest(rows):
            break
        scenario, rows = longer, rows_of_longer
    return Tried(scenario, rows)


def lengthened(scenario: Scenario, by_s: float) -> Scenario:
    """Return the scenario with a run, and a last window, that are longer by that many seconds."""
    longer = scenario.duration_s + by_s
    *others, (begin, _) = scenario.windows
    return replace(scenario, duration_s=longer, phases=(*others, (begin, longer)) if scenario.phases else ())


def _growth_s(scenario: Scenario, rows: Sequence[PointRow]) -> float:
    """By how much the last window has to grow for what these rows show; 0: it need not, or cannot."""
    begin, end = scenario.windows[-1]
    if scenario.config.checkpoint_interval_s is None or end < scenario.duration_s:
        return 0.0
    length_s = end - begin
    wanted_s = max(
        (_wanted_s(row.measures, length_s) for row in rows if row.measures is not None), default=0.0
    )
    return max(0.0, math.ceil(min(wanted_s, MOST_WINDOW_S) - length_s))


def _wanted_s(measures: Measures, length_s: float) -> float:
    """The window that holds enough checkpoints at the pace of a run; twice as long where none completed."""
    completed = measures.checkpoints_completed
    if completed >= LEAST_CHECKPOINTS * _SPARE:
        return 0.0
    return length_s * LEAST_CHECKPOINTS * _SPARE / completed if completed else 2 * length_s


def _fewest(rows: Sequence[PointRow]) -> int:
    return min((row.measures.checkpoints_completed for row in rows if row.measures is not None), default=0)


def seconds_for(points: Sequence[Point], tried: Sequence[PointRow]) -> float | None:
    """Return the seconds that points will take on one core; None where nothing that was tried has ended.

    Those that are among `tried` take none. A point without a target is `OFF`.
    """
    ended = [(1.0 / target_s(setting_of(row)), row.wall_seconds) for row in tried if row.wall_seconds]
    if not ended:
        return None
    (least, least_s), (most, most_s) = min(ended), max(ended)
    slope = max(0.0, (most_s - least_s) / (most - least)) if most > least else 0.0
    have_run = {row.key for row in tried}
    left = [1.0 / target_s(setting_of(point)) for point in points if point.key not in have_run]
    return sum(max(0.0, least_s + slope * (rate - least)) for rate in left)
