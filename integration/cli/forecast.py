"""The command ``netstack forecast``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import msgspec

from netstack import Result, from_json, parse_flink_duration, scenario_toml

from ..advise.forecast.forecast import forecast as forecasted
from ..advise.sweeps.point_rows import FOLDER
from ..advise.sweeps.restart_drill import drill_scenario
from ..advise.sweeps.sweep import LocalProcesses
from ..advise.tune.settings import SETTING
from ..base.extras import require
from ..base.writing import prepare_folder
from ..show.terminal.console import PAGE, say
from ..show.terminal.documents import indented, present, write_files
from ..show.terminal.forecast import print_forecast
from .arguments import AllowCode, Flag, Verbose, command_line, read_quantity
from .cluster_access import ANYBODY, AccessOptions
from .job_to_run import OF_A_FILE, JobOptions, read_job, runner_of
from .option_names import naming_options
from .past_options import NOW, PastOptions
from .running_job_options import say_assumptions

DOCUMENT = "forecast.json"
DRILL = "restart.toml"


def forecast(
    file: Path | None = None,
    /,
    *,
    restart: str | None = None,
    running: JobOptions = OF_A_FILE,
    access: AccessOptions = ANYBODY,
    past: PastOptions = NOW,
    allow_code: AllowCode = False,
    master: str | None = None,
    out: Path | None = None,
    verbose: Verbose = False,
    json: Flag = False,
) -> int:
    """Run a job at several loads, and print how much it can take, now and with the recommended setting.

    Args:
        file: Scenario, as a TOML file or in its JSON form, a result of it, or a recording of Flink's REST
            API.
        restart: Length of an outage, such as 10m, after which the job catches up.
        master: Spark's master URL: run on Spark instead of in processes of this machine.
        out: Folder for report.html, forecast.json, the results of finished runs and, with --restart,
            restart.toml, the outage as a scenario for run and lab.
        json: Print everything as one JSON document.
    """
    require("statistics", "netstack forecast")
    if out is not None:
        require("report", "netstack forecast --out")
    down_s = None
    if restart is not None:
        down_s = read_quantity(
            "forecast", "--restart", restart, partial(parse_flink_duration, needs_unit=True)
        )
    job = read_job("forecast", file, running, access, past, allow_code)
    prepare_folder(out, PAGE, DOCUMENT, *([] if down_s is None else [DRILL]))
    prepare_folder(None if out is None else out / FOLDER)
    with LocalProcesses(os.cpu_count() or 1) as processes:
        run = runner_of(job.scenario.name, out, master, processes)
        made = forecasted(job.scenario, run, down_s=down_s, if_cpu_bound=job.if_cpu_bound)
    found = made.forecast
    words = [*map(naming_options, found.recommendation.words), *job.unsteady]
    found = msgspec.structs.replace(
        found, recommendation=msgspec.structs.replace(found.recommendation, words=words)
    )
    if out is not None:
        from ..show.page.pages import write_forecast  # imported here, because altair takes a while

        drills: dict[str, Result] = {
            row.labels[SETTING]: from_json(row.result) for row in made.drills if row.result
        }
        page, *_ = write_forecast(out, found, job.scenario, drills, command=command_line())
        files = {DOCUMENT: indented(found)}
        if down_s is not None:
            drill = drill_scenario(job.scenario, down_s, found.now.headroom.limit)
            files[DRILL] = scenario_toml(drill, [f"The outage of {command_line()}"]).encode()
        write_files(out, files)
        say(f"wrote {page}")
    present(found, partial(print_forecast, verbose=verbose), json=json)
    say_assumptions(job.notes)
    return 0
