"""What barriers tell of the queues that they wait in: how these grow, and how far subtasks are apart.

A barrier waits as long as the records before it take, so delays that rise by 20 ms a second say that 2 % more
comes than is read. Counts alone cannot tell this: of two subtasks that both work all the time both read as
much as they can, though one of them gets more.

Where records are dealt out in turns (rebalance), subtasks that work all the time get and read the same, so
what one of them was once behind the others it stays behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from netstack import CheckpointResult, VertexCheckpoint

from ...analysis.known_values import complete, middle

_LEAST = 5
"""Fewer checkpoints show no trend."""

_LEAST_THAT_AGREE = 3
"""Fewer checkpoints may agree by chance."""

_AGREE = 0.8
"""Share of all checkpoints, or pairs of them, that have to show the same."""

_MOST = 0.1
"""A queue that grows or shrinks by more than this share of what is read is no steady trend."""


def queue_growth(checkpoints: Sequence[CheckpointResult], vertex: str, parallelism: int) -> list[float]:
    """Return by how much each subtask's queue grows, as a share of what it reads; 0 where there is no trend.

    The trend is the median over all pairs of checkpoints (Theil and Sen), so that one slow checkpoint changes
    nothing.
    """
    delays = aligned_start_delays(checkpoints, vertex, parallelism)
    return [_trend([(at, waits[subtask]) for at, waits in delays]) for subtask in range(parallelism)]


def aligned_start_delays(
    checkpoints: Sequence[CheckpointResult], vertex: str, parallelism: int
) -> list[tuple[float, list[float | None]]]:
    """Return when each aligned checkpoint was triggered, in seconds, and its start delays at all subtasks.

    An unaligned one tells nothing of queues, for its barriers overtake what waits.
    """
    return [(at, each.start_delay_ms) for at, each in _aligned(checkpoints, vertex, parallelism)]


def times_behind_s(checkpoints: Sequence[CheckpointResult], vertex: str, parallelism: int) -> list[float]:
    """Return how long after the first one each subtask has done what came before the barriers.

    In seconds, as the median over aligned checkpoints; 0 where they do not agree on it.
    """
    parts = [each for _, each in _aligned(checkpoints, vertex, parallelism)]
    rows = [
        complete(map(_sum_of_known, each.start_delay_ms, each.alignment_ms))
        for each in parts
        if len(each.alignment_ms) == parallelism
    ]
    later = [[(end - min(row)) / 1e3 for end in row] for row in rows if row is not None]
    if len(later) < _LEAST_THAT_AGREE:
        return [0.0] * parallelism
    return [_agreed(of_subtask) for of_subtask in zip(*later, strict=True)]


def _aligned(
    checkpoints: Sequence[CheckpointResult], vertex: str, parallelism: int
) -> list[tuple[float, VertexCheckpoint]]:
    return [
        (checkpoint.t, each)
        for checkpoint in checkpoints
        for each in checkpoint.vertices
        if each.name == vertex and len(each.start_delay_ms) == parallelism and not any(each.unaligned)
    ]


def _sum_of_known(delay: float | None, alignment: float | None) -> float | None:
    return None if delay is None or alignment is None else delay + alignment


def _agreed(values: Sequence[float]) -> float:
    most = middle(values) or 0.0
    return most if sum(value >= most / 2 for value in values) >= _AGREE * len(values) else 0.0


def _trend(points: Sequence[tuple[float, float | None]]) -> float:
    known = [(at, delay) for at, delay in points if delay is not None]
    slopes = [
        (late - early) / 1e3 / (later - earlier)
        for (earlier, early), (later, late) in combinations(sorted(known), 2)
        if later > earlier
    ]
    if len(known) < _LEAST:
        return 0.0
    slope = middle(slopes) or 0.0
    agreeing = sum(each * slope > 0 for each in slopes)
    return slope if agreeing >= _AGREE * len(slopes) and abs(slope) <= _MOST else 0.0
