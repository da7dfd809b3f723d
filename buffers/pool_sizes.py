"""Division of the network memory beyond all minima among local pools: arithmetic only.

The rules are those of redistributeBuffers in Flink's NetworkBufferPool (2.x).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

__all__ = ["plan_sizes"]


class Resizable(Protocol):
    """A pool whose size is computed; all numbers count segments."""

    @property
    def minimum(self) -> int:
        """Guaranteed segments."""
        ...

    @property
    def maximum(self) -> int:
        """Maximum number of segments, at least the minimum."""
        ...

    @property
    def expected(self) -> int:
        """The weight of the pool, at least 1."""
        ...


Pool = TypeVar("Pool", bound=Resizable)


def plan_sizes(pools: Iterable[Pool], available: int) -> list[tuple[Pool, int]]:
    """Divide the `available` segments beyond all minima among the `pools` that may grow.

    Returns the size of each pool that may grow, between its minimum and its maximum. The sum of the sizes is
    `available` plus the minima of these pools, or less if all are at their maximum. Shares are proportional
    to the expected sizes. Among equal pools, the earlier pools get the remaining segments.
    """
    growing = [pool for pool in pools if pool.minimum < pool.maximum]
    if not growing:
        return []
    if available <= 0:
        return [(pool, pool.minimum) for pool in growing]
    to_distribute = available + sum([pool.minimum for pool in growing])
    weight = sum([pool.expected for pool in growing])
    sizes = [
        min(max(pool.expected * to_distribute // weight, pool.minimum), pool.maximum) for pool in growing
    ]
    remaining = to_distribute - sum(sizes)
    while remaining:
        left = _divide(growing, sizes, remaining)
        if left == remaining:
            break
        remaining = left
    return list(zip(growing, sizes, strict=True))


def _divide(pools: Sequence[Resizable], sizes: list[int], amount: int) -> int:
    """Add `amount` segments to the pools below their maximum; a negative amount is taken from the pools above
    their minimum. Returns the part of the amount that is left.
    """
    sign = 1 if amount > 0 else -1
    room = [
        pool.maximum - size if amount > 0 else size - pool.minimum
        for pool, size in zip(pools, sizes, strict=True)
    ]
    changeable = [index for index in range(len(pools)) if room[index]]
    weight = sum([pools[index].expected for index in changeable])
    left = abs(amount)
    piece = left / weight if weight else 0.0
    for index in changeable:
        step = min(left, math.ceil(piece * pools[index].expected), room[index])
        sizes[index] += sign * step
        left -= step
    return sign * left
