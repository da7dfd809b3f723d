"""Runs scenarios: with the files open that their sources read, and with several seeds in parallel processes.

The order of results does not depend on the processes.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager

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

from ..emulating import emulate
from ..errors import WorkerError


@contextmanager
def open_sources(scenario: Scenario) -> Iterator[Scenario]:
    """Give a scenario whose paths Spark has read; the copies are deleted when the block ends.

    A vertex without a parallelism of its own gets one subtask for each of Spark's partitions. Scenarios
    without paths come back as they are, and start no Spark.

    Raises:
        SourceError: files that cannot be read, a missing column, no Java; one line that names the vertex.
        ScenarioError: the parallelism that a source turned out to have does not fit the rest.
    """
    with ExitStack() as stack:
        vertices = tuple(_opened(vertex, stack) for vertex in scenario.vertices)
        ready = dataclasses.replace(scenario, vertices=vertices)
        check_scenario(ready)
        yield ready


def reads_paths(scenario: Scenario) -> bool:
    """Return whether a source of a scenario has yet to be opened."""
    return any(isinstance(vertex.source, PathSpec) for vertex in scenario.vertices)


def _opened(vertex: Vertex, stack: ExitStack) -> Vertex:
    spec = vertex.source
    if not isinstance(spec, PathSpec):
        return vertex
    # Here, so that only those who read paths need Spark.
    from ..spark.spark_source import SparkSource

    wanted = None if vertex.parallelism == FROM_SOURCE else vertex.parallelism
    key = list(spec.key) if spec.key else None
    source = stack.enter_context(
        SparkSource(spec.path, key, parallelism=wanted, repeat=spec.repeat, format=spec.format)
    )
    try:
        source.prepare()
    except SourceError as error:
        raise SourceError(f"{vertex_key(vertex.name, 'source')}: {error}") from error
    return dataclasses.replace(
        vertex,
        parallelism=source.parallelism_hint,
        source=spec.opened(source),
    )


PROCESSES = 2


Done = Callable[[int], None]
"""Told how many runs have ended."""


def run_seeds(
    scenarios: Sequence[Scenario], seeds: int, *, processes: int = PROCESSES, done: Done = lambda count: None
) -> list[list[Result]]:
    """Return the results of each scenario: of its own seed, the next one, and so on.

    Scenarios that read files run in this process, since their sources cannot travel.

    Raises:
        ScenarioError: a scenario cannot be run.
        WorkerError: a process was ended from outside, as happens when memory is short.
        SourceError: a file cannot be read.
    """
    runs = [(scenario, scenario.seed + number) for scenario in scenarios for number in range(seeds)]
    results = _run_all(runs, processes, done)
    return [results[first : first + seeds] for first in range(0, len(runs), seeds)]


def _run_all(runs: list[tuple[Scenario, int]], processes: int, done: Done) -> list[Result]:
    travelling = sum(not reads_paths(scenario) for scenario, _ in runs)
    if min(travelling, processes) < 2:
        return _run_here(runs, done)
    with worker_pool(min(travelling, processes)) as pool:
        return _gather(pool, runs, done)


@contextmanager
def worker_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, at once if it is left by an error or by Ctrl-C.

    Work is to be submitted while `ctrl_c_held`, since that is when processes start.

    Raises:
        WorkerError: a process was ended from outside, as happens when memory is short.
    """
    # Not forked: this process may have threads, of the progress bar or of Spark.
    context = multiprocessing.get_context("spawn")
    deaf = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_quiet, initargs=(deaf,)) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise WorkerError("a process that ran a scenario was killed; is memory short?") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _gather(pool: ProcessPoolExecutor, runs: list[tuple[Scenario, int]], done: Done) -> list[Result]:
    with ctrl_c_held():  # processes start here
        pending: list[Future[Result] | tuple[Scenario, int]] = [
            run if reads_paths(run[0]) else pool.submit(_run, *run) for run in runs
        ]
    results = []
    for count, run in enumerate(pending, 1):
        results.append(run.result() if isinstance(run, Future) else _run(*run))
        done(count)
    return results


def _run_here(runs: list[tuple[Scenario, int]], done: Done) -> list[Result]:
    results = []
    for count, run in enumerate(runs, 1):
        results.append(_run(*run))
        done(count)
    return results


def _run(scenario: Scenario, seed: int) -> Result:
    with open_sources(scenario) as ready:
        return emulate(ready, seed=seed)


@contextmanager
def ctrl_c_held() -> Iterator[None]:
    """Hold Ctrl-C back, here until the end of the block, and in processes started in it until `_quiet`.

    To block it is not enough: another thread, such as those of numpy's algebra, may take it for this one.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    handler, came = signal.getsignal(signal.SIGINT), list[int]()
    held = callable(handler) and threading.current_thread() is threading.main_thread()
    if held:
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        if held:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _quiet(deaf: bool) -> None:
    """Let Ctrl-C end a worker without a word: the main process says what there is to say.

    Unless the main process is deaf to it, as what runs in the background of a shell is.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN if deaf else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
