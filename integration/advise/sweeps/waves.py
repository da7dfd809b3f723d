"""Waves: points that run together, since their rows decide which points run next."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from .point_rows import PointRow
from .points import Point

T = TypeVar("T")

RunPoints = Callable[[Sequence[Point], str], list[PointRow]]
"""Function that runs points and returns their rows in the same order.

Its second argument is a text to show meanwhile.
"""


class Wave(NamedTuple):
    """Points to run together, and the text to show while they run."""

    why: str
    points: list[Point]


Waves = Generator[Wave, Sequence[PointRow], T]
"""Yields one wave after the other, gets the rows of each, and returns what follows from them."""


def run_side_by_side(searches: Sequence[Waves[T]], run: RunPoints) -> list[T]:
    """Run several series of waves, always the next wave of all of them together, and return their results."""
    ended: dict[int, T] = {}
    rows: dict[int, Sequence[PointRow] | None] = dict.fromkeys(range(len(searches)))
    while rows:
        waves: dict[int, Wave] = {}
        for number, answer in rows.items():
            search = searches[number]
            try:
                waves[number] = next(search) if answer is None else search.send(answer)
            except StopIteration as end:
                ended[number] = end.value
        points = [point for wave in waves.values() for point in wave.points]
        why = next((wave.why for wave in waves.values()), "")
        left = iter(run(points, why) if points else ())
        rows = {number: list(islice(left, len(wave.points))) for number, wave in waves.items()}
    return [ended[number] for number in range(len(searches))]
