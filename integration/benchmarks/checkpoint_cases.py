"""The checkpoint cases of flink-benchmarks: checkpoints a second of a job under back-pressure.

The jobs are Flink's: ``source -> map -> sink`` for a single input, two sources into one task for several
inputs, each in 4 subtasks, and every record keeps a sink busy for 0.2 ms. Segments have 8 KiB. A parameter is
Flink's mode; what follows the comma is ours::

    ALIGNED       records of 1 byte, debloating to 300 ms  ALIGNED,NO_DEBLOAT   the same without debloating
    UNALIGNED     records of 1 KiB, no debloating          UNALIGNED,DEBLOAT    records of 1 byte, with it
    UNALIGNED_1   the same, after a timeout of 1 ms        UNALIGNED_1,DEBLOAT  records of 1 byte, with it

Flink runs the one with several inputs in ALIGNED only; its sources have records of 1 byte and of 1 KiB
always. The next checkpoint is triggered when the one before is complete. A job runs once in a fork: for a
while until back-pressure and buffer sizes have settled, then for a slice of time in each iteration, whose
score is that of the checkpoints that were triggered in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

from netstack import CheckpointResult, Edge, GeneratorSpec, NetworkConfig, Result, Scenario, Vertex, emulate

from .bench_case import OPS_PER_S, Case, Course, Effort, Opening, Trial, Way
from .bench_errors import BenchmarkError
from .cluster_runs import run_in_one_process, run_in_processes

PARALLELISM = 4
SERVICE_S = 0.0002
SMALL, BIG = 1, 1024
"""Bytes of the payload of a record."""

RECORD_OVERHEAD = 12
"""Bytes of a record of Flink's besides its payload: a number of 64 bits, and the length of the payload."""

PACE_S = 0.01
"""Least time between two triggers, which is the least that Flink allows."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A parameter."""

    unaligned: bool
    timeout_s: float
    debloat: bool
    record_bytes: int
    settle_s: float
    """Seconds until checkpoints count."""
    slice_s: float
    """Seconds of an iteration; some checkpoints have to fit in."""


MODES = {
    "ALIGNED": Mode(False, 0.0, True, SMALL, 5.0, 2.0),
    "ALIGNED,NO_DEBLOAT": Mode(False, 0.0, False, SMALL, 10.0, 6.0),
    "UNALIGNED": Mode(True, 0.0, False, BIG, 2.0, 0.5),
    "UNALIGNED,DEBLOAT": Mode(True, 0.0, True, SMALL, 5.0, 0.5),
    "UNALIGNED_1": Mode(True, 0.001, False, BIG, 2.0, 0.5),
    "UNALIGNED_1,DEBLOAT": Mode(True, 0.001, True, SMALL, 5.0, 0.5),
}


def config_of(mode: Mode) -> NetworkConfig:
    """Return the options of a mode."""
    return NetworkConfig(
        segment_bytes=8 << 10,
        min_segment_bytes=256,
        debloat_enabled=mode.debloat,
        debloat_target_s=0.3,
        debloat_period_s=0.2,
        debloat_samples=5,
        unaligned_enabled=mode.unaligned,
        aligned_checkpoint_timeout_s=mode.timeout_s,
        checkpoint_interval_s=PACE_S,
    )


def single_input(mode: Mode, duration_s: float) -> Scenario:
    """Return the job of checkpointSingleInput."""
    return Scenario(
        name="checkpointSingleInput",
        duration_s=duration_s,
        config=config_of(mode),
        vertices=(
            _source("source", mode.record_bytes),
            Vertex(name="map", parallelism=PARALLELISM),
            Vertex(name="sink", parallelism=PARALLELISM, service=((0.0, SERVICE_S),)),
        ),
        edges=(Edge(source="source", target="map"), Edge(source="map", target="sink")),
    )


def multi_input(mode: Mode, duration_s: float) -> Scenario:
    """Return the job of checkpointMultiInput."""
    return Scenario(
        name="checkpointMultiInput",
        duration_s=duration_s,
        config=config_of(mode),
        vertices=(
            _source("small", SMALL),
            _source("big", BIG),
            Vertex(name="map-and-sink", parallelism=PARALLELISM, service=((0.0, SERVICE_S),)),
        ),
        edges=(
            Edge(source="small", target="map-and-sink"),
            Edge(source="big", target="map-and-sink", input=1),
        ),
    )


def _source(name: str, payload_bytes: int) -> Vertex:
    source = GeneratorSpec(record_bytes=payload_bytes + RECORD_OVERHEAD)
    return Vertex(name=name, parallelism=PARALLELISM, source=source)


Run = Callable[[Scenario], Result]

RUNS: dict[Way, Run] = {
    Way.EMULATED: emulate,
    Way.PROCESS: run_in_one_process,
    Way.TCP: run_in_processes,
}


@contextmanager
def _opened(job: Callable[[Mode, float], Scenario], run: Run, opening: Opening) -> Iterator[Trial]:
    mode = MODES[opening.parameter]
    slice_s = mode.slice_s * opening.scale
    # One more slice, in which what was triggered in the last one can complete.
    begin_s = mode.settle_s * min(1.0, opening.scale)
    result = run(job(mode, begin_s + (opening.iterations + 1) * slice_s))
    durations = slices(result.checkpoints, begin_s, slice_s)
    yield Trial(iterate=partial(next, durations), operations=1)


def slices(checkpoints: Sequence[CheckpointResult], begin_s: float, slice_s: float) -> Iterator[float]:
    """Yield the mean duration in seconds of the checkpoints of each slice of a run, from `begin_s` on.

    A checkpoint belongs to the slice in which it was triggered; one that the run's end cuts off, to none.

    Raises:
        BenchmarkError: none was triggered in a slice and completed, or one has failed.
    """
    for number in count():
        start = begin_s + number * slice_s
        durations = []
        for checkpoint in checkpoints:
            if start <= checkpoint.t < start + slice_s:
                if checkpoint.status == "FAILED":
                    raise BenchmarkError(f"a checkpoint has failed: {checkpoint.failure}")
                if checkpoint.duration_ms is not None:
                    durations.append(checkpoint.duration_ms / 1e3)
        if not durations:
            raise BenchmarkError(
                f"no checkpoint was triggered from {start:.1f} to {start + slice_s:.1f} s and completed; "
                "a greater --scale gives it more time"
            )
        yield sum(durations) / len(durations)


def _checkpoint_case(name: str, job: Callable[[Mode, float], Scenario]) -> Case:
    effort = Effort(forks=1, warmups=0, repetitions=4)
    courses = {
        way: Course(open=partial(_opened, job, run), effort=effort, iteration_s=3.0)
        for way, run in RUNS.items()
    }
    what = "a checkpoint under back-pressure, from its trigger until it is complete"
    return Case(name=name, what=what, unit=OPS_PER_S, parameters=tuple(MODES), courses=courses, absent={})


CASES = (
    _checkpoint_case("checkpointSingleInput", single_input),
    _checkpoint_case("checkpointMultiInput", multi_input),
)
