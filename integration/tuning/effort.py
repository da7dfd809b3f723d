"""How long a sweep will take, by the few points of it that were tried.

The shorter the target, the more and smaller the buffers: an emulation takes about a + b / target, where
a is that without debloating.
"""

from __future__ import annotations

from collections.abc import Sequence

from .points import Point
from .rows import PointRow
from .summaries import setting_of, target_s


def seconds_for(points: Sequence[Point], tried: Sequence[PointRow]) -> float | None:
    """Return the seconds that points will take on one core; None where nothing that was tried has ended.

    Those that are among `tried` take none. A point without a target is `OFF`.
    """
    ended = [(1.0 / target_s(setting_of(row)), row.wall_seconds) for row in tried if row.wall_seconds]
    if not ended:
        return None
    (least, least_s), (most, most_s) = min(ended), max(ended)
    slope = max(0.0, (most_s - least_s) / (most - least)) if most > least else 0.0
    there = {row.key for row in tried}
    left = [1.0 / target_s(setting_of(point)) for point in points if point.key not in there]
    return sum(max(0.0, least_s + slope * (rate - least)) for rate in left)
