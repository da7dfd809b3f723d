"""How tasks that are busy at random share cores: how many are in use, and what each task has of one.

Who is busy when is taken to be independent of the others, and those that are busy at a time to share cores
equally, as in the emulation (`netstack/engine/cores.py`). Three tasks that are busy for half of their time::

    busy at a time      0     1     2     3
    chance            1/8   3/8   3/8   1/8     of 2 cores in use: 3/8 + 2 * 3/8 + 2 * 1/8 = 1.375
    each has of one           1     1   2/3     while it is busy: 1/4 + 2/4 + 2/3 * 1/4 = 0.917
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

Chances = Floats
"""How likely 0, 1, 2 ... tasks are busy at a time."""


def cores_in_use(busy: Sequence[float], cores: float) -> float:
    """Return the cores in use on average if tasks that are busy for these shares of time take one each."""
    if cores >= len(busy):
        return sum(busy)
    free = cores - np.arange(ceil(cores))
    chances = _chances(busy, len(free))
    return cores - float(chances @ free[: len(chances)])


def shares_of_core(busy: Sequence[float], cores: float) -> dict[float, float]:
    """Return what a task has of a core on average while it is busy, by the share of its time in which it is.

    `busy` are the shares of all tasks, and the keys those that occur in it.
    """
    seldom = sorted({share for share in busy if share <= 0.5})
    often = sorted({share for share in busy if share > 0.5})
    if cores >= len(busy):
        return dict.fromkeys([*seldom, *often], 1.0)
    chances = _chances(busy)
    of_one = np.minimum(1.0, cores / np.arange(1, len(busy) + 1))
    # Of those that are busy for most of their time it is counted how many are idle.
    for_seldom = of_one @ _without_one(chances, np.array(seldom))
    for_often = of_one[::-1] @ _without_one(chances[::-1], 1 - np.array(often))
    return dict(zip([*seldom, *often], [*for_seldom.tolist(), *for_often.tolist()], strict=True))


def _chances(busy: Sequence[float], counts: int | None = None) -> Chances:
    """The chances of the first `counts` of 0, 1, 2 ... tasks that are busy, or of all."""
    chances = np.ones(1)
    for share in busy:
        # Fewer tasks do not depend on how likely more are.
        chances = np.convolve(chances, [1 - share, share])[:counts]
    return chances


def _without_one(chances: Chances, shares: Floats) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The chances if one task is left out, by the share of time for which it counts: a column for each.

    It is the reverse of adding the task. An error goes on from one count to the next, multiplied by
    ``share / (1 - share)``, so shares must be 0.5 at most.
    """
    others = np.outer(chances[:-1], 1 / (1 - shares))
    odds = shares / (1 - shares)
    for count in range(1, len(others)):
        others[count] -= odds * others[count - 1]
    return others
