"""When the records of a source are due, if not one after the other in even steps.

A pace says how many records are due by a time, and when the next ones will be; seconds count from when the
source began.
"""

from __future__ import annotations

from math import cos, floor, pi
from typing import Protocol

from ..scenarios.scenario import GeneratorSpec, SourceSpec

_LOOK_S = 0.001
"""How often a rate that changes all the time is looked at."""

_ROUNDING = 1e-9


class Pace(Protocol):
    """The records that are due over time."""

    def due_by(self, elapsed_s: float) -> int:
        """How many records are due by a time."""
        ...

    def next_due(self, elapsed_s: float) -> float:
        """When more records will be due than by a time."""
        ...


class Bursts:
    """`rate` records per second, those of `period_s` seconds all at once at its beginning."""

    def __init__(self, rate: float, period_s: float) -> None:
        self._records = rate * period_s
        self._period = period_s

    def due_by(self, elapsed_s: float) -> int:
        """How many records are due by a time."""
        return int((self._bursts(elapsed_s) + 1) * self._records + _ROUNDING)

    def next_due(self, elapsed_s: float) -> float:
        """When the next burst comes."""
        return (self._bursts(elapsed_s) + 1) * self._period

    def _bursts(self, elapsed_s: float) -> int:
        return floor(elapsed_s / self._period + _ROUNDING)


class Wave:
    """A rate that follows a sine wave around `rate` records per second, from 0 to twice as many."""

    def __init__(self, rate: float, period_s: float) -> None:
        self._rate = rate
        self._period = period_s

    def due_by(self, elapsed_s: float) -> int:
        """How many records are due by a time: the integral of the rate."""
        turn = 2 * pi / self._period
        return int(self._rate * (elapsed_s + (1 - cos(turn * elapsed_s)) / turn) + _ROUNDING) + 1

    def next_due(self, elapsed_s: float) -> float:
        """A little later, when it is worth looking again."""
        return elapsed_s + _LOOK_S


def pace_of(source: SourceSpec | None, rate: float) -> Pace | None:
    """Return the pace of a source's subtask that emits `rate` records per second; None: even, or none."""
    if not isinstance(source, GeneratorSpec) or rate <= 0:
        return None
    if source.burst_s is not None:
        return Bursts(rate, source.burst_s)
    return None if source.wave_s is None else Wave(rate, source.wave_s)
