"""What a benchmark is: a case, its parameters, the ways in which it can be run, and what an iteration gives.

The words are those of JMH, which flink-benchmarks runs under: a *fork* is a fresh process, in which some
*warm-ups* and then some *repetitions* (JMH's measurement iterations) are made; each gives a score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum

from .bench_transport import BenchTransport


class Way(StrEnum):
    """How a case is run."""

    EMULATED = "emulated"
    """In virtual time: what the model of a Flink cluster predicts. The same on any machine."""
    PROCESS = "process"
    """In one process, on the real clock."""
    TCP = "tcp"
    """Between processes of this machine, over TCP."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a score is, as JMH has it: its mode, its name, and how it comes of a time."""

    mode: str
    """``thrpt``: more is better; ``avgt``: less is."""
    name: str
    per_second: float
    """What a second counts in the unit's time: 1000 for milliseconds."""

    @property
    def more_is_better(self) -> bool:
        """Whether a higher score is a better one."""
        return self.mode == "thrpt"

    def score(self, operations: float, seconds: float) -> float:
        """Return the score of so many operations in so many seconds."""
        time = seconds * self.per_second
        return operations / time if self.more_is_better else time / operations


OPS_PER_MS = Unit("thrpt", "ops/ms", 1e3)
OPS_PER_S = Unit("thrpt", "ops/s", 1.0)
MS_PER_OP = Unit("avgt", "ms/op", 1e3)
US_PER_OP = Unit("avgt", "us/op", 1e6)

UNITS = {unit.name: unit for unit in (OPS_PER_MS, OPS_PER_S, MS_PER_OP, US_PER_OP)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often a case is run; more makes the interval narrower."""

    forks: int = 2
    warmups: int = 2
    """Iterations of each fork that do not count."""
    repetitions: int = 5
    """Iterations of each fork that do."""
    scale: float = 1.0
    """Factor of what an iteration does: of its records, of its time."""

    @property
    def iterations(self) -> int:
        """Of all forks, warm-ups among them."""
        return self.forks * (self.warmups + self.repetitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A case that is ready to run, with its parameter, in its way."""

    iterate: Callable[[], float]
    """Does all operations of an iteration; returns the seconds they took, by the clock of the way."""
    operations: float
    yardstick: Callable[[], float] | None = None
    """Does as many of what the case is set in proportion to; returns the seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """With what a case is opened."""

    parameter: str = ""
    scale: float = 1.0
    iterations: int = 1
    """How many there will be, at most."""
    transport: type[BenchTransport] | None = None
    """What takes the place of this project's transport."""


Open = Callable[[Opening], AbstractContextManager[Trial]]
"""Makes a trial, and puts away what it needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One way in which a case can be run."""

    open: Open
    effort: Effort = Effort()
    """How often, unless a user says otherwise."""
    yardstick: str = ""
    """What its score is set in proportion to; empty: nothing that would be of the same kind."""
    iteration_s: float = 1.0
    """About how long an iteration takes, for the time left before the first is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A benchmark."""

    name: str
    what: str
    """What an operation is, in a few words."""
    unit: Unit
    courses: Mapping[Way, Course]
    absent: Mapping[Way, str]
    """Why it is not run in the other ways."""
    parameters: tuple[str, ...] = ("",)
    takes_transport: bool = False
    """Whether another transport can be measured by it."""
    excluded: Mapping[tuple[str, Way], str] = field(default_factory=dict)
    """Parameters that are not run in some way, and why."""

    def __post_init__(self) -> None:
        if set(self.courses) | set(self.absent) != set(Way) or set(self.courses) & set(self.absent):
            raise ValueError(f"{self.name}: each way is run, or has a reason why it is not")

    def points(self) -> list[Point]:
        """Return what there is to run, parameter by parameter."""
        return [
            Point(self, parameter, way)
            for parameter in self.parameters
            for way in self.courses
            if (parameter, way) not in self.excluded
        ]


@dataclass(frozen=True, slots=True)
class Point:
    """A case with a parameter in a way."""

    case: Case
    parameter: str
    way: Way

    @property
    def course(self) -> Course:
        """How it is run."""
        return self.case.courses[self.way]

    @property
    def name(self) -> str:
        """What lines about it begin with."""
        return " ".join(filter(None, (self.case.name, self.parameter, self.way)))

    def open(
        self, effort: Effort, transport: type[BenchTransport] | None = None
    ) -> AbstractContextManager[Trial]:
        """Make it ready for the iterations of one fork."""
        opening = Opening(
            parameter=self.parameter,
            scale=effort.scale,
            iterations=effort.warmups + effort.repetitions,
            transport=transport,
        )
        return self.course.open(opening)
