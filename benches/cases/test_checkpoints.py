"""The checkpoint cases of flink-benchmarks, and recovery.

The checkpoint cases measure the checkpoints per second of a job under back-pressure.

The jobs are Flink's: ``source -> map -> sink`` for a single input, two sources into one task for several
inputs. Each vertex has 4 subtasks, and every record keeps a sink busy for 0.2 ms. A segment has 8 KiB. The
parameter of a case is Flink's mode. The part after a comma is a variant that Flink does not have::

    ALIGNED       records of 1 byte, debloating to 300 ms  ALIGNED,NO_DEBLOAT   the same without debloating
    UNALIGNED     records of 1 KiB, no debloating          UNALIGNED,DEBLOAT    records of 1 byte, with it
    UNALIGNED_1   the same, after a timeout of 1 ms        UNALIGNED_1,DEBLOAT  records of 1 byte, with it

Flink runs the job with several inputs in the mode ALIGNED only. One of its sources always has records of 1
byte, the other records of 1 KiB. The next checkpoint is triggered when the one before is complete. A job runs
once. At first it runs until back-pressure and buffer sizes are stable. The rest of the run is divided into
slices, one for each round. The time of a round is the mean duration of the checkpoints that were triggered in
its slice. There is no yardstick, because the 0.2 ms for a record determine the time, and not the machine.

The case ``recovery`` measures the time from the failure of a task until the job runs again with its restored
state. Two sources send records to two tasks that count them by key, and one of these tasks is killed. The
restart has no delay, and checkpoints are stored in files. The case is not emulated, because the emulation
does not model scheduling. It does not run in several processes, because most of the time would be the start
of new processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import pytest

from netstack import (
    AtTime,
    CheckpointResult,
    Edge,
    GeneratorSpec,
    KeyedOperator,
    KeyedStateBackend,
    Keys,
    KillSubtask,
    NetworkConfig,
    RestartStrategy,
    Result,
    Scenario,
    SubtaskName,
    Vertex,
    emulate,
)

from ..clusters import run_in_one_process, run_in_processes
from ..harness import MS_PER_OP, OPS_PER_S, Measure

PARALLELISM = 4
SERVICE_S = 0.0002
SMALL, BIG = 1, 1024
"""Bytes of the payload of a record."""

RECORD_OVERHEAD = 12
"""Bytes of a record in Flink's benchmark without its payload: a 64-bit number and the payload's length."""

PACE_S = 0.01
"""Minimum pause between checkpoints in seconds, the smallest that Flink allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """Settings of a job, and the times of its phases."""

    debloat: bool
    record_bytes: int
    settle_s: float
    """Seconds from the start until checkpoints are measured."""
    slice_s: float
    """Length of a round in seconds; several checkpoints must fit into it."""
    unaligned: bool = False
    timeout_s: float = 0.0


_SMALL_AND_DEBLOATED = Mode(debloat=True, record_bytes=SMALL, settle_s=5.0, slice_s=0.5, unaligned=True)
_BIG = Mode(debloat=False, record_bytes=BIG, settle_s=2.0, slice_s=0.5, unaligned=True)

MODES = {
    "ALIGNED": Mode(debloat=True, record_bytes=SMALL, settle_s=5.0, slice_s=2.0),
    "ALIGNED,NO_DEBLOAT": Mode(debloat=False, record_bytes=SMALL, settle_s=10.0, slice_s=6.0),
    "UNALIGNED": _BIG,
    "UNALIGNED,DEBLOAT": _SMALL_AND_DEBLOATED,
    "UNALIGNED_1": replace(_BIG, timeout_s=0.001),
    "UNALIGNED_1,DEBLOAT": replace(_SMALL_AND_DEBLOATED, timeout_s=0.001),
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


RUNS: dict[str, Callable[[Scenario], Result]] = {
    "emulated": emulate,
    "process": run_in_one_process,
    "tcp": run_in_processes,
}


@pytest.mark.parametrize("way", RUNS)
@pytest.mark.parametrize("mode", MODES)
def test_checkpointSingleInput(measure: Measure, mode: str, way: str) -> None:
    measure_checkpoints(measure, single_input, MODES[mode], way)


@pytest.mark.parametrize("way", RUNS)
@pytest.mark.parametrize("mode", MODES)
def test_checkpointMultiInput(measure: Measure, mode: str, way: str) -> None:
    measure_checkpoints(measure, multi_input, MODES[mode], way)


def measure_checkpoints(
    measure: Measure, job: Callable[[Mode, float], Scenario], mode: Mode, way: str
) -> None:
    """Run a job once and measure the checkpoints of each slice."""
    slice_s = mode.slice_s * measure.scale
    begin_s = mode.settle_s * min(1.0, measure.scale)
    # One more slice, in which checkpoints that were triggered in the last one can complete.
    result = RUNS[way](job(mode, begin_s + (measure.rounds + 1) * slice_s))
    durations = slices(result.checkpoints, begin_s, slice_s)
    measure.iterations(partial(next, durations), OPS_PER_S)


def slices(checkpoints: Sequence[CheckpointResult], begin_s: float, slice_s: float) -> Iterator[float]:
    """Yield the mean duration in seconds of the checkpoints of each slice of a run, from `begin_s` on.

    A checkpoint belongs to the slice in which it was triggered. A checkpoint that is pending at the end of
    the run belongs to no slice.

    Raises:
        RuntimeError: a slice has no completed checkpoint, or a checkpoint has failed.
    """
    for number in count():
        start = begin_s + number * slice_s
        durations = []
        for checkpoint in checkpoints:
            if start <= checkpoint.t < start + slice_s:
                if checkpoint.failed:
                    raise RuntimeError(f"a checkpoint has failed: {checkpoint.failure}")
                if checkpoint.duration_ms is not None:
                    durations.append(checkpoint.duration_ms / 1e3)
        if not durations:
            raise RuntimeError(
                f"no checkpoint was triggered from {start:.1f} to {start + slice_s:.1f} s and completed; "
                "a greater --scale gives it more time"
            )
        yield sum(durations) / len(durations)


KEYS = 10_000
KEY_BYTES = 8
RATE = 5000.0
DURATION_S = 3.0
KILLED_AT_S = 2.0


def test_recovery(measure: Measure) -> None:
    seeds = count(1)
    measure.iterations(lambda: recovery_s(run_in_one_process(failing_job(next(seeds)))), MS_PER_OP)


class CountByKey(KeyedOperator):
    """Counts the records of each key."""

    def declare(self, state: KeyedStateBackend) -> None:
        """Declare the state."""
        self.seen = state.value("seen", default=0)

    def key_of(self, record: bytes) -> bytes:
        """Return the first bytes of a record."""
        return record[:KEY_BYTES]

    def process_record(self, record: bytes) -> list[bytes]:
        """Count the record."""
        self.seen.update(self.seen.get() + 1)
        return []


def failing_job(seed: int) -> Scenario:
    """Return the job of the case ``recovery``, one of whose tasks is killed."""
    return Scenario(
        name="recovery",
        duration_s=DURATION_S,
        seed=seed,
        config=NetworkConfig(
            checkpoint_interval_s=0.5, restart_strategy=RestartStrategy.FIXED_DELAY, restart_delay_s=0.0
        ),
        vertices=(
            Vertex(
                name="source",
                parallelism=2,
                source=GeneratorSpec(record_bytes=KEY_BYTES, rates=(RATE,), keys=Keys(number=KEYS)),
            ),
            Vertex(name="count", parallelism=2, operator=lambda subtask: CountByKey()),
        ),
        edges=(Edge(source="source", target="count", ship="hash"),),
        faults=(KillSubtask(when=AtTime(KILLED_AT_S), subtask=SubtaskName("count", 1)),),
    )


def recovery_s(result: Result) -> float:
    """Return the seconds from the first failure until the job ran again.

    Raises:
        RuntimeError: the job did not restart from a checkpoint.
    """
    for restart in result.restarts:
        if restart.running_at is not None and restart.checkpoint_id is not None:
            return restart.running_at - restart.failed_at
    raise RuntimeError("the job did not restart from a checkpoint before its end")
