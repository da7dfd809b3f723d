"""How long it will take to run points, by what a run of each setting took."""

from __future__ import annotations

from collections.abc import Sequence

from netstack import read_scenario

from .point_rows import PointRow
from .points import Point
from .recommend import place_of


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
