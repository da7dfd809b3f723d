"""Many storms, in this process, in several, or on Spark; their outcomes come in the order of the seeds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from integration.errors import WorkerError
from integration.seed_runs import ctrl_c_held, worker_pool
from integration.spark.driver import run_cancellable
from integration.spark.failure_causes import one_line

from .one_storm import run_storm
from .storm_outcome import Outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS_A_TASK = 16
"""Storms that another process is sent at once: enough that the way there does not count."""

TASKS_A_SLOT = 8
"""Tasks of a Spark job for each core; the next job begins when all are done."""


def run_storms(seeds: range, *, processes: int | None = None, paranoid: bool = False) -> Iterator[Outcome]:
    """Run the storms of `seeds` in that many processes, by default one for each core.

    `paranoid`: as of `run_storm`.

    Raises:
        WorkerError: a process was ended from outside, as happens when memory is short.
    """
    wanted = min(processes or os.cpu_count() or 1, len(seeds) // SEEDS_A_TASK)
    if wanted < 2:
        yield from (run_storm(seed, paranoid=paranoid) for seed in seeds)
        return
    with worker_pool(wanted) as pool:
        with ctrl_c_held():  # processes start here
            pending: list[Future[list[Outcome]]] = [
                pool.submit(run_each, part, paranoid=paranoid) for part in _parts(seeds, SEEDS_A_TASK)
            ]
        for future in pending:
            yield from future.result()


def run_on_spark(seeds: range, session: SparkSession, *, paranoid: bool = False) -> Iterator[Outcome]:
    """Run the storms of `seeds` in the workers of a Spark session, which can import this package.

    Raises:
        WorkerError: Spark could not run them.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    context = session.sparkContext
    tasks, each = context.defaultParallelism * TASKS_A_SLOT, partial(run_each, paranoid=paranoid)
    for wave in _parts(seeds, tasks * SEEDS_A_TASK):
        parts = _parts(wave, SEEDS_A_TASK)

        def run(parts: Sequence[range] = parts) -> list[list[Outcome]]:
            return context.parallelize(parts, len(parts)).map(each).collect()

        try:
            outcomes = run_cancellable(session, run)
        except (Py4JError, PySparkException) as error:
            raise WorkerError(one_line(error)) from error
        for part in outcomes:
            yield from part


def run_each(seeds: range, *, paranoid: bool = False) -> list[Outcome]:
    """Run storms one after the other; what other processes are sent."""
    return [run_storm(seed, paranoid=paranoid) for seed in seeds]


def _parts(seeds: range, size: int) -> list[range]:
    return [seeds[start : start + size] for start in range(0, len(seeds), size)]
