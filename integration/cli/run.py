"""The command ``netstack run``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from netstack import (
    FileLayout,
    InitialCheckpoint,
    JobFailedError,
    Result,
    Scenario,
    ScenarioError,
    SourceError,
    StorageError,
    distribution_notices,
    distribution_problems,
    task_managers,
)

from ..base.extras import require
from ..base.number_text import counted
from ..base.reading import one_line
from ..base.writing import prepare_folder
from ..runs.emulating import emulate
from ..runs.job_load import check_load
from ..show.terminal.console import PAGE, say, to_stderr
from ..show.terminal.documents import present
from ..show.terminal.progress import Report, progress
from ..show.terminal.run import TracePrinter, print_result
from .arguments import AllowCode, Flag, Whole, command_line, usage_error
from .exit_status import FAILED, failure_text
from .preparation import FROM_NOTHING, Begin, at_load_option, checkpoints_of, load_runnable, opened

_MANY_CHANNELS = 10_000
"""With more channels than this, building the job takes seconds."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """Place and clock of a run."""

    real_time: Flag = False
    """Run on the real clock instead of the virtual one."""
    on_spark: Flag = False
    """Run on the real clock over TCP, in a Spark task for each task manager."""
    master: str | None = None
    """Spark's master URL; by default this machine, with a slot for each task."""


IN_VIRTUAL_TIME = PlaceOptions()
"""A run in this process, in virtual time."""


def run(
    file: Path,
    /,
    *,
    json: Flag = False,
    out: Path | None = None,
    seed: Whole | None = None,
    load: float = 1.0,
    place: PlaceOptions = IN_VIRTUAL_TIME,
    trace: Flag = False,
    policy: str | None = None,
    begin: Begin = FROM_NOTHING,
    allow_code: AllowCode = False,
) -> int:
    """Run a scenario and print what was measured.

    Args:
        file: Scenario, as a TOML file or in its JSON form.
        json: Print the whole result as one JSON document.
        out: Folder for the result as NAME.json, report.html and its pictures.
        seed: Seed that replaces the scenario's.
        load: The load of the sources, as a multiple of that in the scenario.
        trace: Print each step of each checkpoint on stderr.
        policy: Debloating policy that replaces the scenario's; see docs/studies/POLICIES.md.
    """
    if place.master is not None and not place.on_spark:
        raise usage_error(
            "run", "--master can be used only with --on-spark; add --on-spark, or remove --master"
        )
    check_load(load)
    scenario = load_runnable(file, seed, stores=True, policy=policy, allow_code=allow_code)
    scenario = at_load_option(scenario, load)
    if out is not None:
        require("report", "netstack run --out")
    prepare_folder(out, PAGE)
    printer = TracePrinter(to_stderr()) if trace else None
    result = _run(scenario, file, begin, place, printer)
    try:
        if out is not None:
            from ..show.page.pages import write_report  # imported here, because altair takes a while

            page, *_ = write_report(out, {result.scenario.name: result}, command=command_line())
            say(f"wrote {page}")
    finally:  # print the result even if the report cannot be written
        present(result, print_result, json=json)
    if result.failure is not None:
        say(failure_text(result))
    return 0 if result.failure is None else FAILED


def _run(
    scenario: Scenario,
    file: Path,
    begin: Begin,
    place: PlaceOptions,
    trace: TracePrinter | None,
) -> Result:
    """Run a scenario in the given place. A job that failed permanently has a result too."""
    with checkpoints_of(scenario, file, begin) as (storage, initial):
        try:
            if place.on_spark:
                return _on_spark(scenario, file, place.master, trace, storage, initial)
            with opened(scenario, file) as ready, _progress(ready) as report:
                return emulate(
                    ready,
                    storage=storage,
                    from_checkpoint=initial,
                    progress=report,
                    meanwhile=report,
                    trace=trace,
                    real_time=place.real_time,
                )
        except JobFailedError as error:
            return error.result
        except StorageError as error:
            raise ScenarioError([f"{file}: {one_line(error)}"]) from None


def _progress(scenario: Scenario) -> AbstractContextManager[Report]:
    """Show the progress of a run. If stderr is no terminal, a line announces a long build."""
    console = to_stderr()
    channels = scenario.channels
    building = f"building {channels:,} channels" if channels > _MANY_CHANNELS else "building"
    if channels > _MANY_CHANNELS and not console.is_terminal:
        say(f"{scenario.name}: {building}")
    return progress(
        scenario.name, scenario.duration_s, "s", console, before=building, behind="releasing memory"
    )


def _on_spark(
    scenario: Scenario,
    file: Path,
    master: str | None,
    trace: TracePrinter | None,
    storage: FileLayout | None,
    initial: InitialCheckpoint | None,
) -> Result:
    """Run a scenario on Spark, with notices on stderr.

    Raises:
        JobFailedError: The job failed for good.
        ScenarioError: The scenario cannot run there, a source cannot be read, or Spark has too few slots.
    """
    # Imported here, because few runs need these modules.
    from ..show.terminal.spark_work import job_progress
    from ..spark.job_on_spark import run_on_spark

    problems = list(distribution_problems(scenario))
    if problems:
        raise ScenarioError([f"{file}: {key}: {message}" for key, message in problems])
    for key, message in distribution_notices(scenario):
        say(f"{file}: {key}: {message}")
    console = to_stderr()
    if not console.is_terminal:
        tasks = counted(len(task_managers(scenario)), "task")
        say(f"{scenario.name}: {tasks} on Spark, {scenario.duration_s:g} s")
    try:
        with job_progress(scenario, master, console) as report:
            return run_on_spark(
                scenario,
                master=master,
                trace=trace,
                storage=storage,
                from_checkpoint=initial,
                progress=report,
            )
    except SourceError as error:
        raise ScenarioError([f"{file}: {one_line(error)}"]) from None
