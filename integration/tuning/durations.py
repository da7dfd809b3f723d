"""Expected time of points, by the time of earlier runs of each setting, and the order to begin them in."""

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
"""Buffers from which on a run is expensive: three seconds with a compiled core, ten without.

Buffers, and not seconds, so that advice does not depend on what else a machine does.
"""


def is_expensive(row: PointRow) -> bool:
    """Whether more runs of a setting are costly, by the buffers of its first run; False without a result."""
    if row.result is None or row.emulated_seconds is None:
        return False
    windows = from_json(row.result).steady[-1:]  # a job that failed early has none
    rates = [
        rate for window in windows for vertex in window.vertices for rate in known(vertex.buffers_in_per_s)
    ]
    return sum(rates) * row.emulated_seconds >= EXPENSIVE_BUFFERS


def longest_first(points: Sequence[Point], tried: Sequence[PointRow]) -> list[Point]:
    """Return points in the order to begin them in, so that the last to end is a short one.

    Where nothing of a setting was tried, a shorter target takes longer, as it has smaller buffers.
    """

    def length(point: Point) -> tuple[float, float]:
        seconds = seconds_for([point], tried)
        return (inf if seconds is None else seconds), -target_s(setting_of(point))

    return sorted(points, key=length, reverse=True)


def seconds_for(points: Sequence[Point], tried: Sequence[PointRow]) -> float | None:
    """Return the seconds that points will take on one core, by the rows of other runs of the same settings.

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
