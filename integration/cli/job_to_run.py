"""The job that a command runs in the emulator: a scenario, or a job in Flink, at some load.

Annotations are not postponed here, because cyclopts would look for those of inherited options in the module
of the inheriting class.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cyclopts import Group, Parameter

from netstack import CheckpointResult, Scenario

from ..advise.sweeps.point_rows import FOLDER, PointRow
from ..advise.sweeps.points import Point
from ..advise.sweeps.sweep import LocalProcesses, run_points
from ..advise.sweeps.waves import RunPoints
from ..base.file_kinds import FileKind, kind_of
from ..flink import Imported
from ..runs.job_load import check_load
from ..show.terminal.console import say, to_stderr
from ..show.terminal.progress import progress
from .arguments import usage_error
from .cluster_access import AccessOptions
from .option_names import option_for
from .past_options import PastOptions
from .preparation import at_load_option, load_runnable
from .running_job_options import LoadOptions, ReadingOptions, read_flink


@Parameter(name="*", group=Group("Job in Flink", sort_key=3))
@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions(LoadOptions):
    """The job, if it is not read from a file, and another load than today's."""

    from_flink: str | None = None
    """Address of a Flink cluster's REST API, or a recording of it, to read the job from instead of a file."""
    job: str | None = None
    """Id of the job in Flink; required if several jobs run."""
    load: float = 1.0
    """The load of the sources, as a multiple of the present one."""


OF_A_FILE = JobOptions()
"""A job that is read from a file, at its own load."""


class JobToRun(NamedTuple):
    """A job that the emulator can run."""

    scenario: Scenario
    notes: list[str]
    """Notes on values that could not be read from a running job; empty for a scenario file."""
    unsteady: list[str]
    """Lines about changes of a running job while it was read; empty for a scenario file."""
    checkpoints: list[CheckpointResult]
    """The completed checkpoints that Flink reports; empty for a scenario file."""
    if_cpu_bound: Scenario | None = None
    """The job if its work is CPU-bound, where this is unknown."""
    imported: Imported | None = None
    """The job as read from Flink; None for a scenario file."""


def read_job(
    command: str,
    file: Path | None,
    running: JobOptions,
    access: AccessOptions,
    past: PastOptions,
    allow_code: bool,
) -> JobToRun:
    """Read the job from a file or from Flink, and give it the load that the user asks for.

    Raises:
        UsageError: the options do not fit together.
        InputError: the job cannot be read.
    """
    check_load(running.load)
    load, running = running.load, replace(running, load=1.0)
    job = _read(command, file, running, access, past, allow_code)
    if load == 1:
        return job
    if_cpu_bound = None if job.if_cpu_bound is None else at_load_option(job.if_cpu_bound, load)
    scenario = at_load_option(job.scenario, load)
    return job._replace(scenario=scenario, checkpoints=[], if_cpu_bound=if_cpu_bound)


def _read(
    command: str,
    file: Path | None,
    running: JobOptions,
    access: AccessOptions,
    past: PastOptions,
    allow_code: bool,
) -> JobToRun:
    if running.from_flink is None and file is not None and kind_of(file) is FileKind.RECORDING:
        running, file = replace(running, from_flink=str(file)), None
    if (file is None) == (running.from_flink is None):
        raise usage_error(command, "give either a scenario, or a Flink cluster with --from-flink")
    if file is None:
        assert running.from_flink is not None
        load = {field.name: getattr(running, field.name) for field in fields(LoadOptions)}
        cluster = past.of(partial(access.cluster, running.from_flink), watch=running.watch)
        imported = read_flink(cluster, running.job, ReadingOptions(**load))
        notes = [note for note in imported.notes if note not in imported.unsteady]
        return JobToRun(
            imported.scenario,
            notes,
            imported.unsteady,
            imported.measured.checkpoints,
            imported.if_cpu_bound,
            imported,
        )
    if running != OF_A_FILE:
        names = [each.name for each in fields(running)]
        given = [option_for(each) for each in names if getattr(running, each) != getattr(OF_A_FILE, each)]
        only = f"{' and '.join(given)} can be used only with --from-flink"
        raise usage_error(
            command, f"{only}; give --from-flink instead of a file, or remove {' and '.join(given)}"
        )
    access.refuse_without_address(f"{file} is a scenario")
    past.refuse("with a file")
    return JobToRun(load_runnable(file, allow_code=allow_code), [], [], [])


def runner_of(name: str, out: Path | None, master: str | None, processes: LocalProcesses) -> RunPoints:
    """Return the function that runs points with progress on stderr, and keeps finished points in `out`."""

    def run(points: Sequence[Point], why: str) -> list[PointRow]:
        try:
            with progress(f"{name}: {why}", len(points), "points", to_stderr()) as report:
                return run_points(
                    points, None, out, report, processes=None if master else processes, master=master
                )
        except KeyboardInterrupt:
            if out is not None:
                say(f"finished points are in {out / FOLDER}; the same command continues from there")
            raise

    return run
