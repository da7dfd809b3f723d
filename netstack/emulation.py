"""Running a scenario: in virtual time as a plain function, on the real clock as a coroutine."""

from __future__ import annotations

import platform
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter

import numpy as np
import trio

from .agenda import Agenda
from .job import Job, Progress
from .result import Result
from .scenario import Scenario
from .scenario_document import scenario_document
from .scenario_rules import check_scenario, check_supported
from .summary import checkpoint_results, series_results, steady_results


def emulate(
    scenario: Scenario,
    *,
    seed: int | None = None,
    progress: Progress | None = None,
    real_time: bool = False,
) -> Result:
    """Run `scenario` and return what was measured; nothing is left running.

    `seed` replaces the scenario's. `progress` is called with the emulated time in seconds, about once an
    emulated second. In virtual time the same scenario and seed give the same result, `wall_seconds` apart;
    `real_time` runs the same job on the clock on the wall.

    Raises:
        ScenarioError: if the scenario makes no sense or asks for what this version cannot do.
        InsufficientBuffers: if the network memory is too small for the job.
    """
    return trio.run(partial(run_job, scenario, seed=seed, progress=progress, real_time=real_time))


async def run_job(
    scenario: Scenario,
    *,
    seed: int | None = None,
    progress: Progress | None = None,
    real_time: bool = True,
) -> Result:
    """Run `scenario` within a trio program, by default on the real clock; otherwise as `emulate`.

    Cancelling it leaves no task and no buffer behind.

    Raises:
        ScenarioError: if the scenario makes no sense or asks for what this version cannot do.
        InsufficientBuffers: if the network memory is too small for the job.
    """
    if seed is not None:
        scenario = replace(scenario, seed=seed)
    check_scenario(scenario)
    check_supported(scenario)
    started = perf_counter()
    agenda = Agenda(real_time=real_time)
    job = Job(scenario, agenda, progress=progress)
    await job.run()
    return Result(
        scenario=scenario_document(scenario),
        preset=scenario.preset,
        clock="real" if real_time else "virtual",
        seed=scenario.seed,
        emulated_seconds=agenda.now,
        wall_seconds=perf_counter() - started,
        versions=_versions(),
        work=job.work,
        checkpoints=checkpoint_results(scenario, job.recorder),
        steady=steady_results(scenario, job.recorder),
        series=series_results(scenario, job.recorder),
    )


def _versions() -> dict[str, str]:
    try:
        own = version("netstack")
    except PackageNotFoundError:
        own = "unknown"
    return {
        "netstack": own,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "trio": trio.__version__,
    }
