"""Recovery: from the failure of a task until the job, its state restored, runs and takes checkpoints again.

Two sources count by key over two tasks, of which one is killed; the restart has no delay. On the real clock
the restart is done by the cluster's code with checkpoints in files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from netstack import (
    AtTime,
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
)

from .bench_case import MS_PER_OP, Case, Course, Effort, Opening, Trial, Way
from .bench_errors import BenchmarkError
from .cluster_runs import run_in_one_process

KEYS = 10_000
KEY_BYTES = 8
RATE = 5000.0
DURATION_S = 3.0
KILLED_AT_S = 2.0


class CountByKey(KeyedOperator):
    """Counts the records of each key."""

    def declare(self, state: KeyedStateBackend) -> None:
        """Name the state."""
        self.seen = state.value("seen", default=0)

    def key_of(self, record: bytes) -> bytes:
        """What a record begins with."""
        return record[:KEY_BYTES]

    def process_record(self, record: bytes) -> list[bytes]:
        """Count it."""
        self.seen.update(self.seen.get() + 1)
        return []


def job(seed: int) -> Scenario:
    """Return the job that fails."""
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
        BenchmarkError: it did not come to that.
    """
    for restart in result.restarts:
        if restart.running_at is not None and restart.checkpoint_id is not None:
            return restart.running_at - restart.failed_at
    raise BenchmarkError("the job did not come back from a checkpoint before its end")


@contextmanager
def _opened(opening: Opening) -> Iterator[Trial]:
    seeds = count(1)
    yield Trial(iterate=lambda: recovery_s(run_in_one_process(job(next(seeds)))), operations=1)


CASES = (
    Case(
        name="recovery",
        what="from a task's failure until all tasks run again",
        unit=MS_PER_OP,
        courses={
            Way.PROCESS: Course(
                open=_opened,
                effort=Effort(forks=1, warmups=0, repetitions=5),
                iteration_s=DURATION_S + 0.5,
            ),
        },
        absent={
            Way.EMULATED: "takes next to no time in the model, which has no scheduling and deployment",
            Way.TCP: "begins there with fresh processes, and their imports would be most of the time",
        },
    ),
)
