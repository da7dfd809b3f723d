"""Splits the network memory of each task manager over its gates and partitions, in whole buffers.

All gates of an exchange are of one size, and so are all its partitions, in whatever task managers they are.
Each task manager is split by itself; a place that several have gets the least of what they would give it.
That fits them all, and it is the optimum where each place is in one task manager, or one of them has of every
place as many as any other, as slots that are filled in turn do; else there may be something left to gain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .allocation import BudgetTooSmall, Curve, Many, allocate

Counts = Sequence[Mapping[str, int]]
"""For each place, how many gates or partitions of it each task manager has."""

_ALIKE = 1e-6
"""By which part of a buffer two sizes may differ and be one."""


class Worth(NamedTuple):
    """What more memory would bring in some task managers that have the same places."""

    task_managers: tuple[str, ...]
    price: float
    """What a further buffer in each of them would save, in the unit of the costs; 0: nothing."""
    gaining: tuple[int, ...]
    """The places that would get it."""


class Split(NamedTuple):
    """Sizes of all places in whole buffers, and what more would bring."""

    sizes: tuple[int, ...]
    worth: tuple[Worth, ...]


class TaskManagerTooSmall(ValueError):  # noqa: N818 - it names what is wrong
    """A task manager cannot have its places at their least, which come to `least` buffers."""

    def __init__(self, task_manager: str, least: int) -> None:
        super().__init__(f"{task_manager} needs at least {least} buffers")
        self.task_manager = task_manager
        self.least = least


def split(curves: Sequence[Curve], counts: Counts, budget: int) -> Split:
    """Return the sizes of least cost with which every task manager needs `budget` buffers at most.

    A place's curve is its cost by the size of one gate or partition.

    Raises:
        TaskManagerTooSmall: one needs more with all its places at their least; the one that needs most.
    """
    sizes = [curve.ceiling for curve in curves]
    prices: list[tuple[tuple[str, ...], float, dict[int, float]]] = []
    least = least_buffers(curves, counts)
    for names in _alike(counts):
        places = [place for place, each in enumerate(counts) if names[0] in each]
        many = [counts[place][names[0]] for place in places]
        try:
            shares = allocate(
                [Many(curves[place], count) for place, count in zip(places, many, strict=True)], budget
            )
        except BudgetTooSmall:
            largest = max(least, key=lambda name: least[name])
            raise TaskManagerTooSmall(largest, least[largest]) from None
        given = {
            place: amount / count for place, amount, count in zip(places, shares.amounts, many, strict=True)
        }
        for place, size in given.items():
            sizes[place] = min(sizes[place], size)
        prices.append(
            (names, shares.price, {places[number]: given[places[number]] for number in shares.gaining})
        )
    worth = [_worth(names, price, gaining, sizes) for names, price, gaining in prices]
    return Split(_whole(sizes, counts, budget), tuple(worth))


def least_buffers(curves: Sequence[Curve], counts: Counts) -> dict[str, int]:
    """Return what each task manager needs at least."""
    return {
        name: sum(round(curve.floor) * each.get(name, 0) for curve, each in zip(curves, counts, strict=True))
        for names in _alike(counts)
        for name in names
    }


def buffers_of(sizes: Sequence[int], counts: Counts) -> dict[str, int]:
    """Return what each task manager needs for places of these sizes."""
    used = dict.fromkeys((name for each in counts for name in each), 0)
    for size, each in zip(sizes, counts, strict=True):
        for name, count in each.items():
            used[name] += size * count
    return used


def _alike(counts: Counts) -> list[tuple[str, ...]]:
    """The task managers, together those that have as many of every place."""
    alike: dict[tuple[int, ...], list[str]] = {}
    for name in dict.fromkeys(name for each in counts for name in each):
        alike.setdefault(tuple(each.get(name, 0) for each in counts), []).append(name)
    return [tuple(names) for names in alike.values()]


def _worth(
    names: tuple[str, ...], price: float, gaining: Mapping[int, float], sizes: Sequence[float]
) -> Worth:
    """What more would bring where it is not another task manager that holds a place back."""
    places = tuple(place for place, size in gaining.items() if size <= sizes[place] + _ALIKE)
    return Worth(names, price if places else 0.0, places)


def _whole(sizes: Sequence[float], counts: Counts, budget: int) -> tuple[int, ...]:
    """Sizes rounded down, the greatest remainders up, as far as all task managers go."""
    numbers = [math.floor(size + _ALIKE) for size in sizes]
    used = buffers_of(numbers, counts)
    for place in sorted(range(len(sizes)), key=lambda place: numbers[place] - sizes[place]):
        fits = all(used[name] + count <= budget for name, count in counts[place].items())
        if fits and sizes[place] - numbers[place] > _ALIKE:
            numbers[place] += 1
            for name, count in counts[place].items():
                used[name] += count
    return tuple(numbers)
