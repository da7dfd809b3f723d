"""The command ``netstack``: what a person types, and what comes of it.

Results go to stdout and everything else to stderr. Exit status: 0; 1 where a comparison is outside its
tolerance, or a job failed for good; 2 for a mistake, with one line for it on stderr; 130 after Ctrl-C, and
143 after SIGTERM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App, CycloptsError

from buffers import InsufficientBuffers
from netstack import (
    CheckpointStorage,
    InitialCheckpoint,
    JobFailedError,
    Result,
    Scenario,
    ScenarioError,
    SourceError,
    to_json,
)

from .commands.compare import Flag, Whole, compare
from .commands.invocation import command_line, set_arguments
from .commands.output import PAGE, OutputError, prepare_folder, say, to_stderr, to_stdout, write_json
from .commands.preparation import checkpoints_of, load_runnable, opened
from .commands.progress import Report as Progress
from .commands.progress import progress
from .commands.usage import usage_problem
from .comparison.seeds import WorkerDied
from .emulating import emulate
from .reporting.run_text import print_result
from .reporting.trace_text import TracePrinter
from .stopping import LINE, STOP

if TYPE_CHECKING:
    from .checkpoints.directory import DirectoryStorage

FAILED = 1
MISTAKE = 2
INTERRUPTED = 130
TERMINATED = 143
BROKEN_PIPE = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; `arguments` are those of the process unless given."""
    try:
        STOP.work_begins()
        status = _run(arguments)
        stopped = STOP.end()
    except BaseException as error:
        stopped = STOP.end(error)
        status = _said(error, arguments) if stopped is None else stopped
    if stopped is None:
        return status
    say(LINE)
    return stopped


def _run(arguments: Sequence[str] | None) -> int:
    if sys.stdout is None:  # closed by whoever started this
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    status = app(set_arguments(arguments))
    sys.stdout.flush()
    return status if isinstance(status, int) else 0


def _said(error: BaseException, arguments: Sequence[str] | None) -> int:
    """Say what went wrong and return the exit status; what is a defect of ours is raised again."""
    match error:
        case BrokenPipeError():
            _drop_stdout()  # whoever read has gone
            return BROKEN_PIPE
        case JobFailedError():
            say(_failed(error.result))
            return FAILED
        case ScenarioError():
            for problem in error.problems:
                say(problem)
        case CycloptsError():
            say(usage_problem(error, set_arguments(arguments)))
        case InsufficientBuffers() | OutputError() | SourceError() | WorkerDied():
            say(f"netstack: {' '.join(str(error).split())}")
        case OSError():
            _drop_stdout()  # which may be what could not be written
            say(f"netstack: {error}")
        case _:
            raise error
    return MISTAKE


def _drop_stdout() -> None:
    """Keep the interpreter from flushing stdout once more, and failing again, when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version() -> str:
    try:
        return f"netstack {version('netstack')}"
    except PackageNotFoundError:
        return "netstack, not installed"


app = App(
    name="netstack",
    help="Flink's network layer, emulated: back-pressure, buffer debloating, checkpoint barriers.",
    version=_version,
    version_flags=["--version"],
    help_format="plaintext",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)


@app.command
def run(
    file: Path,
    /,
    *,
    json: Flag = False,
    out: Path | None = None,
    seed: Whole | None = None,
    real_time: Flag = False,
    on_spark: Flag = False,
    master: str | None = None,
    trace: Flag = False,
    policy: str | None = None,
    from_checkpoint: str | None = None,
    allow_code: Flag = False,
) -> int:
    """Run a scenario and print what was measured.

    Args:
        file: Scenario, a TOML file or its JSON form.
        json: Print the whole result as one JSON document.
        out: Folder for the result as NAME.json, report.html and its pictures.
        seed: In place of the scenario's.
        real_time: Run on the real clock instead of the virtual one.
        on_spark: Run on the real clock over TCP, in a Spark task for each task manager.
        master: Spark's master URL; by default this machine, with a slot for each task.
        trace: Print on stderr what happens to each checkpoint, step by step.
        policy: How debloating sizes buffers, in place of the scenario's way; docs/POLICIES.md has the names.
        from_checkpoint: Go on from a checkpoint of an earlier run: a chk-N, or the latest in a directory.
        allow_code: Let the file name a debloat policy as MODULE:CLASS, which is imported and so run.
    """
    if master is not None and not on_spark:
        raise ScenarioError(["netstack run: --master is for --on-spark; give that too, or leave it out"])
    scenario = load_runnable(file, seed, stores=True, policy=policy, allow_code=allow_code)
    prepare_folder(out, PAGE)
    printer = TracePrinter(to_stderr()) if trace else None
    with checkpoints_of(scenario, file, from_checkpoint) as (storage, initial):
        if on_spark:
            result = _on_spark(scenario, file, master, printer, storage, initial)
        else:
            with (
                opened(scenario, file) as ready,
                progress(ready.name, ready.duration_s, "s", to_stderr()) as report,
            ):
                result = _emulate(ready, storage, initial, report, printer, real_time)
    if out is not None:
        _write_report(out, result)
    if json:
        write_json(to_json(result))
    else:
        print_result(result, to_stdout())
    if result.failure is not None:
        say(_failed(result))
    return 0 if result.failure is None else FAILED


def _emulate(
    scenario: Scenario,
    storage: CheckpointStorage | None,
    initial: InitialCheckpoint | None,
    report: Progress,
    trace: TracePrinter | None,
    real_time: bool,
) -> Result:
    """Run it; a job that failed for good has a result too."""
    try:
        return emulate(
            scenario,
            storage=storage,
            from_checkpoint=initial,
            progress=report,
            trace=trace,
            real_time=real_time,
        )
    except JobFailedError as error:
        return error.result


def _on_spark(
    scenario: Scenario,
    file: Path,
    master: str | None,
    trace: TracePrinter | None,
    storage: DirectoryStorage | None,
    initial: InitialCheckpoint | None,
) -> Result:
    # Here, for the same reason as below.
    from .commands.on_spark import run_over_tcp

    return run_over_tcp(scenario, file, master, trace, storage, initial)


def _failed(result: Result) -> str:
    name, cause = result.scenario["name"], " ".join(str(result.failure).split())
    return f"netstack: {name}: the job failed for good after {result.emulated_seconds:.1f} s: {cause}"


def _write_report(folder: Path, result: Result) -> None:
    # Here, since what draws takes a while to import.
    from .reporting.report import write_report

    page, *_ = write_report(folder, {str(result.scenario["name"]): result}, command=command_line())
    say(f"wrote {page}")


app.command(compare)
# By name, so that they are imported when they are called, for the same reason.
app.command(
    "integration.commands.checkpoints:checkpoints",
    name="checkpoints",
    help="List the checkpoints in a directory, and check that all their files are as they were written.",
)
app.command(
    "integration.commands.storm:storm",
    name="storm",
    help="Run small random jobs under random faults, and check that each kept what Flink promises.",
)
app.command(
    "integration.commands.package:package",
    name="package",
    help="Write the file from which Spark's executors get what a shuffle needs.",
)
app.command(
    "integration.commands.shuffle:shuffle",
    name="shuffle",
    help="Shuffle the rows of a file through the network layer, inside Spark, and write them to another.",
)
app.command(
    "integration.commands.tune:tune",
    name="tune",
    help="Try debloat targets on a job and say which one to set, what it costs, and what it cannot help.",
)
app.command(
    "integration.commands.size:size",
    name="size",
    help="Say without a run how many buffers a job has, what waits in them, and what its links need.",
)
app.command(
    "integration.commands.lint:lint",
    name="lint",
    help="Check a Flink configuration file for the network layer: ignored, misspelt and useless options.",
)
app.command(
    "integration.commands.diagnose:diagnose",
    name="diagnose",
    help="Say what limits a job and where its checkpoints spend their time, from a result or a Flink job.",
)
app.command(
    "integration.commands.import_flink:import_flink",
    name="import-flink",
    help="Print a running Flink job, read through its REST API, as a scenario file.",
)
app.command(
    "integration.commands.validate:validate",
    name="validate",
    help="Predict what a running Flink job shows now, and print prediction, measurement and ratio.",
)
app.command(
    "integration.demo.demo:demo",
    name="demo",
    help="Run the main job on real data with debloating off and on, or in all checkpoint modes, and compare.",
)


if __name__ == "__main__":
    from .__main__ import main as start

    sys.exit(start())
