"""What a run of benchmarks comes to, as a value that is written as JSON and CSV, and read again."""

from __future__ import annotations

import csv
import io
import os
import platform
from collections.abc import Sequence

import msgspec

from netstack import core_is_compiled

from .bench_case import UNITS, Effort, Unit
from .intervals import Interval, interval_of

FORMAT = "netstack-bench-1"


class MachineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was run; scores of different ones cannot be compared."""

    system: str
    architecture: str
    processor: str
    cores: int

    @property
    def text(self) -> str:
        """It in a few words."""
        return f"{self.processor}, {self.cores} cores, {self.system} {self.architecture}"


class Software(msgspec.Struct, frozen=True, kw_only=True):
    """With what it was run; to compare that is what runs are compared for."""

    python: str
    core: str
    """``compiled`` or ``plain Python``."""


class PointResult(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of a case with a parameter in a way."""

    case: str
    parameter: str
    way: str
    transport: str
    """The transport that was measured; empty where the case takes none but ours."""
    mode: str
    unit: str
    warmups: int
    scale: float
    scores: list[list[float]]
    """Of each repetition, fork by fork."""
    yardstick: str = ""
    yardstick_scores: list[list[float]] = []
    """What the yardstick had, in the same unit, in turns with the repetitions."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells it from others of its run."""
        return self.case, self.parameter, self.way, self.transport

    @property
    def name(self) -> str:
        """What lines about it begin with."""
        return " ".join(filter(None, self.key))

    @property
    def effort(self) -> Effort:
        """How often it was run."""
        repetitions = max(map(len, self.scores))
        return Effort(forks=len(self.scores), warmups=self.warmups, repetitions=repetitions, scale=self.scale)

    @property
    def measure(self) -> Unit:
        """What its scores are."""
        return UNITS[self.unit]

    @property
    def interval(self) -> Interval:
        """Of all repetitions."""
        return interval_of(_flat(self.scores))

    @property
    def extremes(self) -> tuple[float, float]:
        """The least and the greatest score of a repetition."""
        scores = _flat(self.scores)
        return min(scores), max(scores)

    @property
    def yardstick_interval(self) -> Interval | None:
        """Of what the yardstick had; None where there is none."""
        scores = _flat(self.yardstick_scores)
        return interval_of(scores) if scores else None

    @property
    def ratio(self) -> float | None:
        """The mean in proportion to that of the yardstick: 2 is twice its rate, or twice its time."""
        yardstick = self.yardstick_interval
        return None if yardstick is None or not yardstick.mean else self.interval.mean / yardstick.mean


class BenchmarkRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run: what was typed, where, and what came of it."""

    format: str = FORMAT
    command: str
    machine: MachineInfo
    software: Software
    results: list[PointResult]


def _flat(scores: Sequence[Sequence[float]]) -> list[float]:
    return [score for fork in scores for score in fork]


def this_machine() -> MachineInfo:
    """Return what this process runs on."""
    return MachineInfo(
        system=platform.system(),
        architecture=platform.machine(),
        processor=_processor(),
        cores=os.cpu_count() or 1,
    )


def _processor() -> str:
    """The model of the processor, as Linux tells it, or what Python knows."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"


def this_software() -> Software:
    """Return what this process runs."""
    core = "compiled" if core_is_compiled() else "plain Python"
    return Software(python=platform.python_version(), core=core)


COLUMNS = (
    "case",
    "parameter",
    "way",
    "transport",
    "mode",
    "forks",
    "repetitions",
    "score",
    "error",
    "least",
    "greatest",
    "unit",
    "yardstick",
    "yardstick_score",
    "ratio",
)


def as_csv(run: BenchmarkRun) -> bytes:
    """Return a table with a line for each result; errors are half the interval, at 99.9 %."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for result in run.results:
        interval, yardstick = result.interval, result.yardstick_interval
        writer.writerow(
            [
                *(result.case, result.parameter, result.way, result.transport, result.mode),
                *(len(result.scores), result.effort.repetitions, interval.mean),
                interval.error if interval.known else "",
                *(*result.extremes, result.unit, result.yardstick),
                "" if yardstick is None else yardstick.mean,
                "" if result.ratio is None else result.ratio,
            ]
        )
    return text.getvalue().encode()
