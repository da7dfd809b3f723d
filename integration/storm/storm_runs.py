"""Storms: small random jobs under random faults, run in virtual time and held to what Flink promises.

The seed is the case: `run_storm` draws it, runs it and checks it. What is checked is in `checks`. Many storms
run in this process, in several, or on Spark; their outcomes come in the order of the seeds.
"""

from __future__ import annotations

import hashlib
import os
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import trio

from netstack import Agenda, Job, MemoryStorage, check_scenario

from ..emulating import heard_by_trio
from ..runs.scenario_runs import WorkerDied, ctrl_c_held, worker_pool
from ..spark.interrupts import run_cancellable
from ..spark.spark_errors import one_line
from .case import GoingOn, Guarantee, StormCase
from .checks import CommitLog, check_end, check_memory, check_order, check_output, check_storage
from .coordinator_log import CoordinatorLog, check_coordinator, check_heartbeats, check_restarts
from .draw import draw_case
from .figures import check_checkpoint_times, check_figures
from .going_on import second_run, stopping
from .memory_rules import MemoryRules
from .work import scenario_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROBES_S = tuple(0.003 * 1.35**number for number in range(24))
"""When memory is looked at, in emulated seconds: often at first, when most goes on."""

LITERAL_EVERY = 16
"""One seed in so many is run once more as it is, and once without faults."""

SEEDS_A_TASK = 16
"""Storms that another process is sent at once: enough that the way there does not count."""

TASKS_A_SLOT = 8
"""Tasks of a Spark job for each core; the next job begins when all are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a storm; it has failed if there are `problems`."""

    seed: int
    problems: tuple[str, ...]
    end: str
    """How the job came to its end."""
    emulated_s: float
    causes: tuple[str, ...]
    """Causes of all failures of the job, in their order."""
    restarts: int
    of_regions: int
    """How many of these were of single regions, while the others went on."""
    restored_bytes: int
    """Bytes of data in flight that restarts put back."""
    moved: bool = False
    """Whether a second run went on from a checkpoint at another parallelism."""
    from_savepoint: bool = False
    """Whether a second run went on from a savepoint."""
    moved_bytes: int = 0
    """Bytes of data in flight that a second run began with."""
    checkpoints: Counter[str] = field(default_factory=Counter)
    """How many have come to which end."""
    fired: tuple[str, ...] = ()
    records: int = 0
    """Records that were committed."""
    digest: str = ""
    """Equal for equal runs."""
    output: str = ""
    """Equal for equal output, in whatever order."""
    wall_s: float = field(default=0.0, compare=False)

    @property
    def replay(self) -> str:
        """The command that runs this storm again."""
        return f"netstack storm --seeds 1 --first-seed {self.seed} --verbose"

    def lines(self) -> Iterator[str]:
        """The outcome as text."""
        yield f"{self.end} after {self.emulated_s:.3f} s, {self.records} records committed"
        for cause in self.causes:
            yield f"  failed: {cause}"
        for fault in self.fired:
            yield f"  fired: {fault}"
        for status, number in sorted(self.checkpoints.items()):
            yield f"  checkpoints {status}: {number}"
        if self.restored_bytes:
            yield f"  in flight and restored: {self.restored_bytes} bytes"
        if self.moved:
            yield f"  gone on at another parallelism with {self.moved_bytes} bytes in flight"
        for problem in self.problems:
            yield f"  WRONG: {problem}"


def run_storm(seed: int) -> Outcome:
    """Draw the case of a seed, run it and check it; some seeds are run again, to compare two runs."""
    case = draw_case(seed)
    outcome = run_case(case)
    if outcome.problems or seed % LITERAL_EVERY:
        return outcome
    problems = [f"without faults: {problem}" for problem in run_case(replace(case, faults=())).problems]
    if run_case(case).digest != outcome.digest:
        problems.append("a second run gives another result")
    return replace(outcome, problems=tuple(problems))


def run_case(case: StormCase) -> Outcome:
    """Run a case and check all there is to check of it."""
    started = perf_counter()
    log, storage = CommitLog(), MemoryStorage()
    scenario_at = partial(scenario_of, case, log.commit)
    first, going_on = scenario_at(()), case.going_on
    check_scenario(first)
    if going_on is not None and going_on.stopped_at_s < case.duration_s:
        first = stopping(first, going_on)
    else:
        going_on = None
    coordinator_log = CoordinatorLog()
    jobs = [Job(first, Agenda(), storage=storage, trace=coordinator_log)]
    problems = list(_problems_of(case, jobs[0], storage, coordinator_log, stopped=going_on is not None))
    if not problems and going_on is not None and _is_gone_on_with(jobs[0], going_on):
        found, storage = storage, MemoryStorage()
        files = dict(found.files)
        log_of_second = CoordinatorLog()
        second, problems = second_run(going_on, scenario_at, jobs[0], found, storage, log_of_second)
        jobs.append(second)
        problems += _problems_of(case, second, storage, log_of_second)
        if found.files != files:
            problems.append("files of the run before were changed")
    restarts = sum(len(job.restarts) for job in jobs) + len(jobs) - 1
    if not problems:
        problems += check_output(case, log, _has_ended(jobs[-1]), restarts)
        exactly_once = case.guarantee(restarts) is Guarantee.EXACTLY_ONCE
        if case.transactional and exactly_once and len(jobs) == 1:
            problems += check_order(case, log)
    return _outcome(case, jobs, log, tuple(problems), perf_counter() - started)


def _has_ended(job: Job) -> bool:
    """Whether a job has come to the end of its input."""
    stopped = job.coordinator.stopped_with is not None
    return job.failure is None and not stopped and job.agenda.now < job.scenario.duration_s


def _is_gone_on_with(job: Job, going_on: GoingOn) -> bool:
    """Whether a job was stopped as it should have been, before it was done."""
    if going_on.savepoint is not None and job.coordinator.stopped_with is None:
        return False  # there was no savepoint, and so it has gone on by itself
    if job.coordinator.stopped_with is not None:
        return True  # also where it has failed before all tasks had heard
    return job.failure is None and not _has_ended(job)


def _problems_of(
    case: StormCase, job: Job, storage: MemoryStorage, log: CoordinatorLog, *, stopped: bool = False
) -> Iterator[str]:
    """Run a job, and yield what is wrong with how it went; `stopped`: it need not have ended."""
    try:
        heard_by_trio(trio.run)(_run, case, job, restrict_keyboard_interrupt_to_checkpoints=True)
        yield from check_end(case, job, stopped or _has_ended(job))
        yield from check_storage(job, storage)
        yield from check_coordinator(case, job, log)
        yield from check_restarts(case, job)
        yield from check_figures(case, job, ended=_has_ended(job))
        yield from check_checkpoint_times(case, job)
        yield from check_heartbeats(case, job)
    except Exception as error:
        yield _with_places(error)
    yield from check_memory(job)


async def _run(case: StormCase, job: Job) -> None:
    rules = MemoryRules(case)
    for at in PROBES_S:
        job.agenda.keep(at, rules.check, job)
    await job.run()


def _with_places(error: Exception) -> str:
    """An exception in one line, with the two places nearest to it."""
    places = [
        f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    return f"{type(error).__name__}: {error} ({' < '.join(places[:-4:-1])})"


def _outcome(
    case: StormCase, jobs: Sequence[Job], log: CommitLog, problems: tuple[str, ...], wall_s: float
) -> Outcome:
    job, ended = jobs[-1], _has_ended(jobs[-1])
    heads = [head for each in jobs for head in each.recorder.checkpoints]
    restarts = [restart for each in jobs for restart in each.restarts]
    causes = [restart.cause for restart in restarts] + ([] if job.failure is None else [job.failure])
    begun = [] if job.start is None else [job.start.initial.metadata]
    run = (
        list(log.transactions.values()),
        [vars(restart) for restart in restarts],
        heads,
        [each.work for each in jobs],
        job.agenda.now,
        job.failure,
    )
    return Outcome(
        seed=case.seed,
        problems=problems,
        end="gave up" if job.failure is not None else "ended" if ended else "stopped",
        emulated_s=job.agenda.now,
        causes=tuple(causes),
        restarts=len(restarts),
        of_regions=sum(bool(restart.tasks) for restart in restarts),
        restored_bytes=sum(restart.persisted_bytes for restart in restarts),
        moved_bytes=sum(metadata.persisted_bytes for metadata in begun),
        moved=any(metadata.parallelism != _parallelism(job) for metadata in begun),
        from_savepoint=any(metadata.checkpoint_type == "SYNC_SAVEPOINT" for metadata in begun),
        checkpoints=Counter(head.failure or head.status for head in heads),
        fired=tuple(f"{fault.what} at {fault.time:.4f} s" for each in jobs for fault in each.faults.fired),
        records=log.output.total(),
        digest=_digest(run),
        output=_digest(sorted(log.output.items())),
        wall_s=wall_s,
    )


def _parallelism(job: Job) -> dict[str, int]:
    return {vertex.name: vertex.parallelism for vertex in job.scenario.vertices}


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def run_storms(seeds: range, *, processes: int | None = None) -> Iterator[Outcome]:
    """Run the storms of `seeds` in that many processes, by default one for each core.

    Raises:
        WorkerDied: a process was ended from outside, as happens when memory is short.
    """
    wanted = min(processes or os.cpu_count() or 1, len(seeds) // SEEDS_A_TASK)
    if wanted < 2:
        yield from map(run_storm, seeds)
        return
    with worker_pool(wanted) as pool:
        with ctrl_c_held():  # processes start here
            pending: list[Future[list[Outcome]]] = [
                pool.submit(run_each, part) for part in _parts(seeds, SEEDS_A_TASK)
            ]
        for future in pending:
            yield from future.result()


def run_on_spark(seeds: range, session: SparkSession) -> Iterator[Outcome]:
    """Run the storms of `seeds` in the workers of a Spark session, which can import this package.

    Raises:
        WorkerDied: Spark could not run them.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    context = session.sparkContext
    tasks = context.defaultParallelism * TASKS_A_SLOT
    for wave in _parts(seeds, tasks * SEEDS_A_TASK):
        parts = _parts(wave, SEEDS_A_TASK)

        def run(parts: Sequence[range] = parts) -> list[list[Outcome]]:
            return context.parallelize(parts, len(parts)).map(run_each).collect()

        try:
            outcomes = run_cancellable(session, run)
        except (Py4JError, PySparkException) as error:
            raise WorkerDied(one_line(error)) from error
        for part in outcomes:
            yield from part


def run_each(seeds: range) -> list[Outcome]:
    """Run storms one after the other; what other processes are sent."""
    return [run_storm(seed) for seed in seeds]


def _parts(seeds: range, size: int) -> list[range]:
    return [seeds[start : start + size] for start in range(0, len(seeds), size)]
