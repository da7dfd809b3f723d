"""Entry points that run a scenario: `emulate` is a plain function, `run_job` a coroutine."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any, Unpack, cast

import numpy as np
import trio
from msgspec import UNSET, UnsetType

from ..checkpoints.storage import exclusively
from ..engine.agenda import Agenda
from ..errors import JobFailedError
from ..results.recorder import FiredFault, Recorder
from ..results.result import Result, Work
from ..scenarios.rules import check_scenario
from ..scenarios.scenario import Scenario, SourceObject, SourceSpec
from ..scenarios.user_code import NamedObject, object_name
from .job import Job, JobOptions, Progress
from .restarts import Restart, Start
from .result_figures import (
    checkpoint_results,
    fault_results,
    restart_results,
    series_results,
    start_result,
    steady_results,
)

__all__ = ["RunOptions", "emulate", "run_job"]


class RunOptions(JobOptions, total=False):
    """Options of `emulate` and `run_job`; all may be absent or None."""

    seed: int | None
    """Replaces the seed of the scenario."""
    meanwhile: Progress | None
    """Called like `progress`, but a few times per second of real time, and already while the job is built."""
    real_time: bool
    """Whether the job runs on the real clock, instead of in virtual time."""


def emulate(scenario: Scenario, **options: Unpack[RunOptions]) -> Result:
    """Run `scenario`, by default in virtual time, and return the measured result.

    `RunOptions` describes the options: `seed`, `storage`, `from_checkpoint`, `progress`, `meanwhile`,
    `trace`, `real_time`, `end_of_run`, `tables`. In virtual time, the same scenario and seed give the same
    result, except for `wall_seconds`.

    Raises:
        ScenarioError: if the scenario is invalid, or needs `tables` and has none.
        InsufficientBuffers: if the network memory is too small for the job.
        StorageError: if another run uses the directory of `storage`, or has claimed `from_checkpoint`.
        JobFailedError: if the job failed and its restart strategy allows no further restart, or no checkpoint
            could be restored.
        RuntimeError: if it is called within a trio program; use `run_job` there.
        TypeError: if `scenario` is not a Scenario, or an option is unknown.
    """
    if not isinstance(scenario, Scenario):
        raise TypeError(
            f"emulate needs a Scenario, not {scenario!r}; integration.load_scenario reads one from a file"
        )
    if trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "emulate cannot be called inside a run of trio; write `await run_job(scenario)` there"
        )
    options.setdefault("real_time", False)
    # Between two checkpoints of trio, Ctrl-C would leave routines that were never started.
    return trio.run(partial(run_job, scenario, **options), restrict_keyboard_interrupt_to_checkpoints=True)


async def run_job(scenario: Scenario, **options: Unpack[RunOptions]) -> Result:
    """Run `scenario` within a trio program, by default on the real clock.

    In all else, errors included, it is like `emulate`. After a cancellation, no task and no buffer is left.
    """
    if unknown := options.keys() - RunOptions.__optional_keys__:
        raise TypeError(
            f"unknown options: {', '.join(sorted(unknown))}; see netstack.RunOptions for those that exist"
        )
    seed, storage = options.get("seed"), options.get("storage")
    if seed is not None:
        scenario = replace(scenario, seed=seed)
    check_scenario(scenario)
    with exclusively(storage):
        started, agenda = perf_counter(), Agenda(real_time=options.get("real_time", True))
        agenda.meanwhile = options.get("meanwhile")
        job = Job(scenario, agenda, **cast(JobOptions, options))  # it reads no others
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
    """Return the result of a run from its recordings."""
    try:
        netstack = version("netstack")
    except PackageNotFoundError:
        netstack = "unknown"
    return Result(
        scenario=_without_objects(scenario),
        preset=scenario.preset,
        clock=clock,
        link=link,
        seed=scenario.seed,
        emulated_seconds=emulated_seconds,
        wall_seconds=wall_seconds,
        versions={
            "netstack": netstack,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "trio": trio.__version__,
        },
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
    """Return the scenario as in a document: a user's functions and sources as names, opened files as paths.

    So a result holds no references to user objects and can be sent to other processes. Reading a stored
    result yields an equal object.
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
