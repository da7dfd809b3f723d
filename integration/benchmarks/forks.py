"""Runs the points of benchmarks: each fork of each in a fresh process, which tells every score as it comes.

::

    this process                          a fork
    start, point, effort --------------->  open the case, warm up
    Told: done so far    <-- iteration --  repeat: the case, then its yardstick
    scores               <-- iteration --
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import FrameType

from ..runs.scenario_runs import ctrl_c_held
from .bench_case import Effort, Point, Trial, Way
from .bench_errors import BenchmarkError
from .bench_results import PointResult
from .bench_transport import BenchTransport
from .catalogue_of_cases import case_named
from .credit_transport import CreditTransport

Score = tuple[float, float | None]
"""Of an iteration: that of the case, and that of its yardstick if there is one."""

Tell = Callable[[int], None]
"""Told how many iterations of a point are over, warm-ups among them."""


@dataclass(slots=True)
class Scores:
    """Those of the repetitions of one fork."""

    case: list[float] = field(default_factory=list)
    yardstick: list[float] = field(default_factory=list)

    def add(self, score: Score) -> None:
        """Take note of a repetition."""
        self.case.append(score[0])
        if score[1] is not None:
            self.yardstick.append(score[1])


def transport_name(point: Point, transport: type[BenchTransport] | None) -> str:
    """Return what results say of the transport: nothing where it takes no part."""
    if not point.case.takes_transport or point.way is Way.EMULATED:
        return ""
    return (transport or CreditTransport).name


def run_point(
    point: Point,
    effort: Effort | None = None,
    transport: type[BenchTransport] | None = None,
    tell: Tell = lambda done: None,
) -> PointResult:
    """Run a point, in as many processes as `effort` has forks, by default as its case says.

    `transport`, of a case that takes one, is measured in the place of ours; its class has to be at the top of
    a module that other processes can import.

    Raises:
        BenchmarkError: it could not be run; one line that names the point.
    """
    effort = effort or point.course.effort
    forks = []
    for fork in range(effort.forks):
        done = fork * (effort.warmups + effort.repetitions)
        forks.append(_run_fork(point, effort, transport, done, tell))
    return _result(point, effort, transport, forks)


def run_here(
    point: Point,
    effort: Effort,
    transport: type[BenchTransport] | None = None,
    tell: Tell = lambda done: None,
) -> PointResult:
    """As `run_point`, in this process and without forks."""
    scores = Scores()
    try:
        for number, score in enumerate(_iterations(point, effort, transport), 1):
            if number > effort.warmups:
                scores.add(score)
            tell(number)
    except BenchmarkError as error:
        raise BenchmarkError(f"{point.name}: {error}") from None
    return _result(point, effort, transport, [scores])


def _result(
    point: Point, effort: Effort, transport: type[BenchTransport] | None, forks: list[Scores]
) -> PointResult:
    unit = point.case.unit
    compared = any(fork.yardstick for fork in forks)
    return PointResult(
        case=point.case.name,
        parameter=point.parameter,
        way=point.way,
        transport=transport_name(point, transport),
        mode=unit.mode,
        unit=unit.name,
        warmups=effort.warmups,
        scale=effort.scale,
        scores=[fork.case for fork in forks],
        yardstick=point.course.yardstick if compared else "",
        yardstick_scores=[fork.yardstick for fork in forks] if compared else [],
    )


def _iterations(point: Point, effort: Effort, transport: type[BenchTransport] | None) -> Iterator[Score]:
    with point.open(effort, transport) as trial:
        for _ in range(effort.warmups + effort.repetitions):
            yield _iteration(point, trial)


def _iteration(point: Point, trial: Trial) -> Score:
    unit = point.case.unit
    score = unit.score(trial.operations, trial.iterate())
    if trial.yardstick is None:
        return score, None
    return score, unit.score(trial.operations, trial.yardstick())


def _run_fork(
    point: Point, effort: Effort, transport: type[BenchTransport] | None, done: int, tell: Tell
) -> Scores:
    scores = Scores()
    with _fork(point, effort, transport) as pipe:
        for number in range(1, effort.warmups + effort.repetitions + 1):
            try:
                said: Score | str = pipe.recv()
            except EOFError:
                raise BenchmarkError(f"{point.name}: its process has ended; is memory short?") from None
            if isinstance(said, str):
                raise BenchmarkError(f"{point.name}: {said}")
            if number > effort.warmups:
                scores.add(said)
            tell(done + number)
    return scores


@contextmanager
def _fork(point: Point, effort: Effort, transport: type[BenchTransport] | None) -> Iterator[Connection]:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("spawn")
    place = (point.case.name, point.parameter, point.way)
    process = context.Process(target=_serve, args=(*place, effort, transport, theirs))
    with ctrl_c_held():  # it starts deaf to what is for this process
        process.start()
    theirs.close()
    try:
        yield ours
    except BaseException:
        process.terminate()
        raise
    finally:
        ours.close()
        process.join()


def _serve(
    case: str,
    parameter: str,
    way: Way,
    effort: Effort,
    transport: type[BenchTransport] | None,
    pipe: Connection,
) -> None:
    """The process of a fork."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    with suppress(BrokenPipeError):  # whoever started it has gone
        try:
            for score in _iterations(Point(case_named(case), parameter, way), effort, transport):
                pipe.send(score)
        except BenchmarkError as error:
            pipe.send(str(error))
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {' '.join(str(error).split())}")


def _leave(number: int, frame: FrameType | None) -> None:
    """End this process in order, and so those that it has started."""
    sys.exit(128 + number)
