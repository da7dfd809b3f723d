"""How long it will take to run points, by what a few of them took.

The shorter the target, the more and smaller the buffers: an emulated second takes about a + b / target, where
a is that without debloating. A run lasts about as long as that of the nearest target that was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .point_rows import PointRow
from .points import Point
from .summaries import setting_of, target_s


class _Tried(NamedTuple):
    inverse_target: float
    """1 / s; 0 without debloating."""
    per_emulated_s: float
    """Seconds that an emulated second took."""
    emulated_s: float


def seconds_for(points: Sequence[Point], tried: Sequence[PointRow]) -> float | None:
    """Return the seconds that points will take on one core; None where nothing that was tried has ended.

    Those that are among `tried` take none. A point without a target is `OFF`.
    """
    ended = sorted(
        _Tried(1.0 / target_s(setting_of(row)), row.wall_seconds / row.emulated_seconds, row.emulated_seconds)
        for row in tried
        if row.wall_seconds and row.emulated_seconds
    )
    if not ended:
        return None
    least, most = ended[0], ended[-1]
    spread = most.inverse_target - least.inverse_target
    slope = max(0.0, (most.per_emulated_s - least.per_emulated_s) / spread) if spread else 0.0
    have_run = {row.key for row in tried}
    seconds = 0.0
    for point in points:
        if point.key not in have_run:
            inverse = 1.0 / target_s(setting_of(point))
            nearest = min(ended, key=lambda each: _distance(each.inverse_target, inverse))
            pace = max(0.0, least.per_emulated_s + slope * (inverse - least.inverse_target))
            seconds += pace * nearest.emulated_s
    return seconds


def _distance(one: float, other: float) -> tuple[bool, float]:
    """How unlike two settings are; those without debloating are unlike all that have it."""
    return (one == 0.0) != (other == 0.0), abs(one - other)
