"""Running a scenario: in virtual time as a plain function, on the real clock as a coroutine."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any

import numpy as np
import trio
from msgspec import UNSET, UnsetType

from ..checkpoints.initial import InitialCheckpoint
from ..checkpoints.savepoint_request import SavepointRequests
from ..checkpoints.storage import CheckpointStorage, exclusively
from ..engine.agenda import Agenda
from ..errors import JobFailedError
from ..faults.fired import FiredFault
from ..results.result import Result, Work
from ..results.statistics import EndOfRun, Recorder
from ..results.trace import Trace
from ..scenarios.rules import check_scenario
from ..scenarios.scenario import Scenario, SourceObject, SourceSpec
from ..scenarios.user_code import NamedObject, object_name
from ..state.table_store import TableStores
from .job import Job, Progress
from .restarts import Restart, Start
from .summary import (
    checkpoint_results,
    fault_results,
    restart_results,
    series_results,
    start_result,
    steady_results,
)


def emulate(
    scenario: Scenario,
    *,
    seed: int | None = None,
    storage: CheckpointStorage | None = None,
    from_checkpoint: InitialCheckpoint | None = None,
    progress: Progress | None = None,
    meanwhile: Progress | None = None,
    trace: Trace | None = None,
    real_time: bool = False,
    end_of_run: EndOfRun | None = None,
    tables: TableStores | None = None,
    savepoint_requests: SavepointRequests | None = None,
) -> Result:
    """Run `scenario` and return what was measured; nothing is left running.

    `seed` replaces the scenario's. `storage` keeps the checkpoints; None: memory does, and they are gone
    with the run. `from_checkpoint` is one of an earlier run of the same job, which this one goes on from.
    `trace` is told what happens to checkpoints, step by step. `progress` is called with the
    emulated time in seconds, about once an emulated second, `meanwhile` a few times a second of real time,
    from when the job is built. In virtual time the same scenario and seed give the same result,
    `wall_seconds` apart; `real_time` runs the same job in real time. `end_of_run` is asked
    once an emulated second, from the end of the warm-up on, with what was recorded so far, when the run is to
    end, sooner or later than the scenario says; the result is that of a scenario of that duration, which it
    names.
    `tables` opens the stores in which ``state.backend.type: rocksdb`` keeps keyed state.
    `savepoint_requests` is asked twice an emulated second for the savepoints that users want.

    Raises:
        ScenarioError: if the scenario makes no sense, or needs `tables` and has none.
        InsufficientBuffers: if the network memory is too small for the job.
        StorageError: if another run has the directory of `storage`, or has claimed `from_checkpoint`.
        JobFailedError: if the job failed and its restart strategy allows no further restart, or no checkpoint
            could be restored.
        RuntimeError: if trio runs already: there, `run_job` is to be awaited.
        TypeError: if `scenario` is none.
    """
    if not isinstance(scenario, Scenario):
        raise TypeError(f"{scenario!r} is no Scenario; integration.load_scenario reads one from a file")
    if trio.lowlevel.in_trio_run():
        raise RuntimeError("emulate begins a run of trio; within one, write `await run_job(scenario)`")
    run = partial(
        run_job,
        scenario,
        seed=seed,
        storage=storage,
        from_checkpoint=from_checkpoint,
        progress=progress,
        meanwhile=meanwhile,
        trace=trace,
        real_time=real_time,
        end_of_run=end_of_run,
        tables=tables,
        savepoint_requests=savepoint_requests,
    )
    # Between two checkpoints Ctrl-C would leave routines behind that nobody has begun.
    return trio.run(run, restrict_keyboard_interrupt_to_checkpoints=True)


async def run_job(
    scenario: Scenario,
    *,
    seed: int | None = None,
    storage: CheckpointStorage | None = None,
    from_checkpoint: InitialCheckpoint | None = None,
    progress: Progress | None = None,
    meanwhile: Progress | None = None,
    trace: Trace | None = None,
    real_time: bool = True,
    end_of_run: EndOfRun | None = None,
    tables: TableStores | None = None,
    savepoint_requests: SavepointRequests | None = None,
) -> Result:
    """Run `scenario` within a trio program, by default on the real clock; otherwise as `emulate`.

    Cancelling it leaves no task and no buffer behind.

    Raises:
        ScenarioError: if the scenario makes no sense.
        InsufficientBuffers: if the network memory is too small for the job.
        StorageError: if another run has the directory of `storage`, or has claimed `from_checkpoint`.
        JobFailedError: if the job failed and its restart strategy allows no further restart, or no checkpoint
            could be restored.
    """
    if seed is not None:
        scenario = replace(scenario, seed=seed)
    check_scenario(scenario)
    with exclusively(storage):
        started, agenda = perf_counter(), Agenda(real_time=real_time)
        agenda.meanwhile = meanwhile
        job = Job(
            scenario,
            agenda,
            storage=storage,
            initial=from_checkpoint,
            progress=progress,
            trace=trace,
            end_of_run=end_of_run,
            tables=tables,
            savepoint_requests=savepoint_requests,
        )
        return await _run(job, started)


async def _run(job: Job, started: float) -> Result:
    scenario, agenda = job.scenario, job.agenda
    await job.run()
    result = result_of(
        scenario.ending_at(job.ends_at),
        job.recorder,
        clock="real" if agenda.real_time else "virtual",
        emulated_seconds=agenda.now,
        wall_seconds=perf_counter() - started,
        work=job.work,
        start=job.start,
        restarts=job.restarts,
        fired=job.faults.fired,
        failure=job.failure,
        behind_s=agenda.behind_s if agenda.real_time else UNSET,
    )
    if job.failure is not None:
        raise JobFailedError(result)
    return result


def result_of(
    scenario: Scenario,
    recorder: Recorder,
    *,
    clock: str,
    link: str = "emulated",
    emulated_seconds: float,
    wall_seconds: float,
    work: Work,
    start: Start | None,
    restarts: Sequence[Restart],
    fired: Sequence[FiredFault],
    failure: str | None,
    behind_s: float | UnsetType | None = UNSET,
    task_managers_behind_s: dict[str, float | None] | UnsetType = UNSET,
) -> Result:
    """Return the result of a run from what was recorded of it."""
    return Result(
        scenario=_without_objects(scenario),
        preset=scenario.preset,
        clock=clock,
        link=link,
        seed=scenario.seed,
        emulated_seconds=emulated_seconds,
        wall_seconds=wall_seconds,
        versions=_versions(),
        work=work,
        checkpoints=checkpoint_results(scenario, recorder),
        started_from=UNSET if start is None else start_result(start),
        restarts=restart_results(restarts),
        faults=fault_results(fired),
        failure=failure,
        behind_s=behind_s,
        task_managers_behind_s=task_managers_behind_s,
        steady=steady_results(scenario, recorder),
        series=series_results(scenario, recorder),
    )


def _without_objects(scenario: Scenario) -> Scenario:
    """A scenario as a document tells of it: names of a user's functions and sources, paths of opened files.

    So a result keeps nothing alive, travels between processes, and is equal to what is read back.
    """
    vertices = tuple(
        replace(vertex, source=_named_source(vertex.source), operator=_named(vertex.operator))
        for vertex in scenario.vertices
    )
    edges = tuple(replace(edge, key_hash=_named(edge.key_hash)) for edge in scenario.edges)
    return replace(scenario, vertices=vertices, edges=edges)


def _named_source(source: SourceSpec | None) -> SourceSpec | None:
    if not isinstance(source, SourceObject):
        return source
    if source.spec is not None:
        return replace(source.spec, rates=source.rates)
    return replace(source, source=_named(source.source))


def _named(user_object: object) -> Any:
    return None if user_object is None else NamedObject(object_name(user_object))


def _versions() -> dict[str, str]:
    try:
        netstack = version("netstack")
    except PackageNotFoundError:
        netstack = "unknown"
    return {
        "netstack": netstack,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "trio": trio.__version__,
    }
