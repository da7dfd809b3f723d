"""Cases of a few microseconds: a piece of work that is repeated until a repetition has taken long enough.

They have one way, in this process: no network and no waiting takes part. The yardstick of most is a copy of
the bytes that they move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np

from .bench_case import US_PER_OP, Case, Course, Effort, Opening, Trial, Way

REPETITION_S = 0.2
"""About how long a repetition takes, in seconds."""

COPY = "memory copy"

NO_CLOCK = "waits for nothing, so there is no time to emulate"
NO_PROCESSES = "is work within one process"


@dataclass(frozen=True, slots=True)
class Work:
    """What a case repeats."""

    step: Callable[[], object]
    operations: int = 1
    """Of one step: records, rows, pairs of calls."""
    copied_bytes: int = 0
    """What a step moves at least, in bytes, and its yardstick copies; 0: there is no yardstick."""


Works = Mapping[str, Callable[[], Work]]
"""The work of each parameter; that of a case without parameters is called ""."""


def micro_case(name: str, what: str, works: Works, *, copies: bool = True) -> Case:
    """Return the case that does these works; `copies`: whether all of them have a yardstick."""
    course = Course(
        open=partial(_opened, works),
        effort=Effort(forks=2, warmups=1, repetitions=5),
        yardstick=COPY if copies else "",
        iteration_s=2 * REPETITION_S if copies else REPETITION_S,
    )
    return Case(
        name=name,
        what=what,
        unit=US_PER_OP,
        parameters=tuple(works),
        courses={Way.PROCESS: course},
        absent={Way.EMULATED: NO_CLOCK, Way.TCP: NO_PROCESSES},
    )


@contextmanager
def _opened(works: Works, opening: Opening) -> Iterator[Trial]:
    work = works[opening.parameter]()
    steps = _steps_in(work.step, REPETITION_S * opening.scale)
    copying = copying_of(work.copied_bytes) if work.copied_bytes else None
    yield Trial(
        iterate=partial(_seconds_of, work.step, steps),
        operations=steps * work.operations,
        yardstick=None if copying is None else partial(_seconds_of, copying, steps),
    )


def copying_of(nbytes: int) -> Callable[[], None]:
    """Return a function that copies so many bytes from one place in memory to another."""
    source, target = np.ones(nbytes, dtype=np.uint8), np.zeros(nbytes, dtype=np.uint8)
    return partial(np.copyto, target, source)


def _steps_in(step: Callable[[], object], seconds: float) -> int:
    """How many steps take about so long."""
    steps = 1
    while (taken := _seconds_of(step, steps)) < seconds / 8:
        steps *= 2
    return max(1, round(steps * seconds / taken))


def _seconds_of(step: Callable[[], object], steps: int) -> float:
    begun = perf_counter()
    for _ in range(steps):
        step()
    return perf_counter() - begun
