"""Expected durations of points, from earlier runs of their settings, and the order in which to start them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from netstack import from_json, read_scenario

from ..optional_figures import known
from .point_rows import PointRow
from .points import Point
from .recommend import place_of
from .summaries import setting_of, target_s

EXPENSIVE_BUFFERS = 150_000
"""Number of buffers from which on a run is expensive: three seconds with a compiled core, ten without.

Buffers, and not seconds, so that advice does not depend on what else a machine does.
"""


def is_expensive(row: PointRow) -> bool:
    """Whether more runs of a setting are costly, judged by the buffers of its first run;

    False if it failed.
    """
    if row.result is None or row.emulated_seconds is None:
        return False
    windows = from_json(row.result).steady[-1:]  # a job that failed early has none
    rates = [
        rate for window in windows for vertex in window.vertices for rate in known(vertex.buffers_in_per_s)
    ]
    return sum(rates) * row.emulated_seconds >= EXPENSIVE_BUFFERS


def longest_first(points: Sequence[Point], tried: Sequence[PointRow]) -> list[Point]:
    """Return points in the order in which to start them, the longest first.

    Where a setting has not run yet, a shorter target takes longer, as it has smaller buffers.
    """

    def length(point: Point) -> tuple[float, float]:
        seconds = seconds_for([point], tried)
        return (inf if seconds is None else seconds), -target_s(setting_of(point))

    return sorted(points, key=length, reverse=True)


def seconds_for(points: Sequence[Point], tried: Sequence[PointRow]) -> float | None:
    """Estimate the seconds that points take on one core, from earlier runs of the same settings.

    A run takes as long as that of its setting did; one that follows a step in the load lasts as long as its
    scenario says. None where a setting has no run that has ended.
    """
    runs = {place_of(row): row for row in tried if row.emulated_seconds}
    seconds = 0.0
    for point in points:
        row = runs.get(place_of(point))
        if row is None or row.emulated_seconds is None:
            return None
        if point.probe == "step":
            pace = row.wall_seconds / row.emulated_seconds
            seconds += pace * read_scenario(point.document).duration_s
        else:
            seconds += row.wall_seconds
    return seconds
