"""The fixture `measure`: measures the time of a case and of its yardstick, and reports to pytest-benchmark.

A round is one iteration of the case. An iteration of its yardstick follows if the case has a yardstick::

    round 1          round 2          ...    round n
    work yardstick   work yardstick          work yardstick      ratio = median of the ratios of the rounds

The clock of pytest-benchmark is `seconds_an_operation`, which each round sets to the time of one operation.
So its tables, saved runs, comparisons and histograms show the time of an operation, whether the case measures
real or emulated time. The score in the unit of flink-benchmarks and the ratio to the yardstick are in
``extra_info``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # processes that write records import this module, and not pytest
    from pytest_benchmark.fixture import BenchmarkFixture

REPETITION_S = 0.2
"""Approximate duration of a round of a micro-benchmark, in seconds."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a score, as in JMH."""

    name: str
    per_second: float
    """Number of time units in a second: 1000 for milliseconds."""
    is_rate: bool
    """Whether the score is operations per time (JMH's ``thrpt``), and not time per operation (``avgt``)."""

    def score(self, operations: float, seconds: float) -> float:
        """Return the score of `operations` operations that took `seconds` seconds."""
        time = seconds * self.per_second
        return operations / time if self.is_rate else time / operations


OPS_PER_MS = Unit("ops/ms", 1e3, is_rate=True)
OPS_PER_S = Unit("ops/s", 1.0, is_rate=True)
MS_PER_OP = Unit("ms/op", 1e3, is_rate=False)
US_PER_OP = Unit("us/op", 1e6, is_rate=False)

Iterate = Callable[[], float]
"""Function that performs all operations of one iteration, and returns the seconds that they took."""


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Work of the same kind and size, with which a case is compared."""

    name: str
    iterate: Iterate


class _Clock:
    now = 0.0


def seconds_an_operation() -> float:
    """Return the seconds of an operation in this round; 0 before the first round.

    pytest-benchmark uses this function as its timer.
    """
    return _Clock.now


@dataclass(frozen=True, slots=True)
class Measure:
    """Measurement of one case; the fixture `measure` returns such an object."""

    benchmark: BenchmarkFixture
    rounds: int
    """Number of measured rounds (``--benchmark-min-rounds``)."""
    scale: float
    """Multiplier for the number of records, or for the time, of an iteration (``--scale``)."""
    report: Callable[[str], None] = print
    """Function that prints a line with the score."""

    def iterations(
        self,
        iterate: Iterate,
        unit: Unit,
        *,
        operations: float = 1,
        yardstick: Yardstick | None = None,
        rounds: int | None = None,
        warmups: int = 0,
    ) -> None:
        """Measure `iterate`, of which each call performs `operations` operations.

        `rounds` is the number of rounds; None: as set by the user.
        """
        counted = rounds or self.rounds
        times, ratios = list[float](), list[float]()

        def reset() -> None:
            _Clock.now = 0.0

        def one_round() -> None:
            seconds = iterate()
            times.append(seconds)
            if yardstick is not None:
                beside = yardstick.iterate()
                ratios.append(beside / seconds if unit.is_rate else seconds / beside)
            _Clock.now = seconds / operations

        self.benchmark.pedantic(  # type: ignore[no-untyped-call]
            one_round, setup=reset, rounds=counted, warmup_rounds=warmups
        )
        score = unit.score(operations, median(times[-counted:]))
        self.benchmark.extra_info |= {"score": score, "unit": unit.name}
        text = f"{self.benchmark.name}: {score:,.4g} {unit.name}"
        if yardstick is not None:
            ratio = median(ratios[-counted:])
            self.benchmark.extra_info |= {"yardstick": yardstick.name, "ratio": ratio}
            text += f", {ratio:.4g} times {yardstick.name}"
        if not self.benchmark.disabled:
            self.report(text)

    def steps(self, step: Callable[[], object], *, operations: float = 1, copied_bytes: int = 0) -> None:
        """Measure a step of `operations` operations; a round repeats the step for about `REPETITION_S`.

        `copied_bytes` is the minimum that a step has to copy; the yardstick copies as many bytes for each
        step. 0: there is no yardstick.
        """
        steps = 1 if self.benchmark.disabled else steps_in(step, REPETITION_S * self.scale)
        yardstick = None
        if copied_bytes:
            yardstick = Yardstick("memory copy", partial(seconds_of, copying_of(copied_bytes), steps))
        self.iterations(
            partial(seconds_of, step, steps),
            US_PER_OP,
            operations=steps * operations,
            yardstick=yardstick,
            warmups=1,
        )


def copying_of(nbytes: int) -> Callable[[], None]:
    """Return a function that copies `nbytes` bytes within memory."""
    source, target = np.ones(nbytes, dtype=np.uint8), np.zeros(nbytes, dtype=np.uint8)
    return partial(np.copyto, target, source)


def steps_in(step: Callable[[], object], seconds: float) -> int:
    """Return the number of steps that take about `seconds` seconds."""
    steps = 1
    while (taken := seconds_of(step, steps)) < seconds / 8:
        steps *= 2
    return max(1, round(steps * seconds / taken))


def seconds_of(step: Callable[[], object], steps: int) -> float:
    """Return the seconds that `steps` steps take."""
    begun = perf_counter()
    for _ in range(steps):
        step()
    return perf_counter() - begun
