"""Runs of scenarios: with the files that sources read, and with several seeds in parallel processes.

The order of results does not depend on which process ends first.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from netstack import (
    FROM_SOURCE,
    PathSpec,
    Result,
    Scenario,
    SourceError,
    Vertex,
    check_scenario,
    vertex_key,
)

from ..base.errors import WorkerError
from ..base.signals import begin_worker, starting_processes
from .emulating import emulate

PROCESSES = 2
"""Maximum number of processes that run scenarios."""

Done = Callable[[int], None]
"""Callback with the number of runs that have ended."""


def reads_paths(scenario: Scenario) -> bool:
    """Return whether a scenario has a source whose files are not opened yet."""
    return any(isinstance(vertex.source, PathSpec) for vertex in scenario.vertices)


@contextmanager
def open_sources(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with open sources, read by Spark. Spark's copies are deleted after the block.

    A vertex without a parallelism of its own gets one subtask for each of Spark's partitions. Scenarios
    without paths are not changed, and start no Spark.

    Raises:
        SourceError: Files cannot be read, a column is missing, or there is no Java; the message is one line
            and names the vertex.
        ScenarioError: The parallelism of a source, once known, does not fit the other vertices.
    """
    with ExitStack() as stack:
        vertices = tuple(_opened(vertex, stack) for vertex in scenario.vertices)
        ready = replace(scenario, vertices=vertices)
        check_scenario(ready)
        yield ready


def _opened(vertex: Vertex, stack: ExitStack) -> Vertex:
    spec = vertex.source
    if not isinstance(spec, PathSpec):
        return vertex
    from ..spark.sources import SparkSource  # imported here, so that only reading paths needs Spark

    wanted = None if vertex.parallelism == FROM_SOURCE else vertex.parallelism
    key = list(spec.key) if spec.key else None
    source = stack.enter_context(
        SparkSource(spec.path, key, parallelism=wanted, repeat=spec.repeat, format=spec.format)
    )
    try:
        source.prepare()
    except SourceError as error:
        raise SourceError(f"{vertex_key(vertex.name, 'source')}: {error}") from error
    return replace(vertex, parallelism=source.parallelism_hint, source=spec.opened(source))


def run_seeds(
    scenarios: Sequence[Scenario], seeds: int, *, done: Done = lambda count: None
) -> list[list[Result]]:
    """Run each scenario with its own seed and the following ones; return the results by scenario.

    Scenarios that read files run in this process, since their sources cannot be pickled.

    Raises:
        ScenarioError: A scenario cannot be run.
        WorkerError: A process was killed, as happens when memory is short.
        SourceError: A file cannot be read.
    """
    runs = [(scenario, scenario.seed + number) for scenario in scenarios for number in range(seeds)]
    workers = min(PROCESSES, sum(not reads_paths(scenario) for scenario, _ in runs))
    pending: list[Future[Result] | tuple[Scenario, int]] = [*runs]
    results: list[Result] = []
    with ExitStack() as stack:
        if workers >= 2:
            pool = stack.enter_context(worker_pool(workers))
            with starting_processes():
                pending = [run if reads_paths(run[0]) else pool.submit(_run, *run) for run in runs]
        for count, run in enumerate(pending, 1):
            results.append(run.result() if isinstance(run, Future) else _run(*run))
            done(count)
    return [results[first : first + seeds] for first in range(0, len(runs), seeds)]


def _run(scenario: Scenario, seed: int) -> Result:
    with open_sources(scenario) as ready:
        return emulate(ready, seed=seed)


@contextmanager
def worker_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of processes that ends with the block. After an error or Ctrl-C, it ends at once.

    Submit work within `starting_processes`, because processes start on submission.

    Raises:
        WorkerError: A process was killed, as happens when memory is short.
    """
    # Not forked, because this process may have threads, of the progress bar or of Spark.
    context = multiprocessing.get_context("spawn")
    ignored = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=begin_worker, initargs=(ignored,)
    ) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise WorkerError(
                "a process that ran a scenario was killed; the machine may be short of memory"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
