"""The command ``netstack``: its subcommands, and how they run.

Results go to stdout and everything else to stderr. Exit status: 0; 1 where a comparison is outside its
tolerance, or a job failed for good; 2 for a mistake, with one line for it on stderr; 130 after Ctrl-C, and
143 after SIGTERM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from ..stopping import LINE, STOP
from .arguments import set_arguments, usage_problem
from .exit_status import MISTAKE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; `arguments` are those of the process unless given."""
    _import_compiled(set_arguments(arguments))
    try:
        STOP.work_begins()
        status = _run(arguments)
        stopped = STOP.end()
    except BaseException as error:
        stopped = STOP.end(error)
        status = _report(error, arguments) if stopped is None else stopped
    if stopped is None:
        return status
    _say(LINE)
    return stopped


_ONLY_HELP = {"--help", "-h", "--version"}


def _import_compiled(arguments: Sequence[str]) -> None:
    """Import what is compiled in part, where a Ctrl-C is swallowed, before a command begins."""
    if arguments and _ONLY_HELP.isdisjoint(arguments):
        import concurrent.futures.process  # noqa: F401
        import statistics  # noqa: F401

        from . import run_errors  # noqa: F401


def _run(arguments: Sequence[str] | None) -> int:
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    from ..present.console import to_stdout  # here, since its library takes a while to import

    status = app(set_arguments(arguments), console=to_stdout())
    sys.stdout.flush()
    return status if isinstance(status, int) else 0


def _report(error: BaseException, arguments: Sequence[str] | None) -> int:
    """Say what went wrong and return the exit status; what is a defect of ours is raised again."""
    match error:
        case CycloptsError():
            _say(usage_problem(error, set_arguments(arguments)))
        case _:
            from .run_errors import report  # here, since what may raise it takes long to import

            return report(error)
    return MISTAKE


def _say(line: str) -> None:
    from ..present.console import say  # here, since its library takes a while to import

    say(line)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # here: it is slow to import

    try:
        number = version("netstack")
    except PackageNotFoundError:
        number = "of an unknown version"
    return f"netstack {number}, {_core()}"


def _core() -> str:
    from netstack import core_is_compiled, stale_modules

    if not core_is_compiled():
        return "plain Python"
    stale = stale_modules()
    if not stale:
        return "with a compiled core"
    return f"with a compiled core that is older than {stale[0]}; 'make fast' compiles it again"


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


# By name, so that they are imported when they are called: what some need takes a while.
app.command("integration.cli.run:run", name="run", help="Run a scenario and print what was measured.")
app.command(
    "integration.cli.compare:compare",
    name="compare",
    help="Compare scenarios or results with what a real Flink measured; exit status 1 where one is outside.",
)
app.command(
    "integration.cli.checkpoints:checkpoints",
    name="checkpoints",
    help="List the checkpoints in a directory, and check that all their files are as they were written.",
)
app.command(
    "integration.cli.savepoint:savepoint",
    name="savepoint",
    help="Take a savepoint of a job that runs on the real clock, and stop the job with it if asked to.",
)
app.command(
    "integration.cli.state:state",
    name="state",
    help="Show what lies in a checkpoint or savepoint: states, their sizes, how they are spread, large keys.",
)
app.command(
    "integration.cli.shuffle:package",
    name="package",
    help="Write the file from which Spark's executors get what a shuffle needs.",
)
app.command(
    "integration.cli.shuffle:shuffle",
    name="shuffle",
    help="Shuffle the rows of a file through the network layer, inside Spark, and write them to another.",
)
app.command(
    "integration.cli.tune:tune",
    name="tune",
    help="Try debloat targets on a job and say which one to set, what it costs, and what it cannot help.",
)
app.command(
    "integration.cli.size:size",
    name="size",
    help="Say without a run how many buffers a job has, what waits in them, and what its links need.",
)
app.command(
    "integration.cli.lint:lint",
    name="lint",
    help="Check a Flink configuration file for the network layer: ignored, misspelt and useless options.",
)
app.command(
    "integration.cli.schema:schema",
    name="schema",
    help="Print the JSON Schema of scenario files, by which editors complete and check them.",
)
app.command(
    "integration.cli.diagnose:diagnose",
    name="diagnose",
    help="Say what limits a job and where its checkpoints spend their time, from a result or a Flink job.",
)
app.command(
    "integration.cli.import_flink:import_flink",
    name="import-flink",
    help="Print a running Flink job, read through its REST API, as a scenario file.",
)
app.command(
    "integration.cli.validate:validate",
    name="validate",
    help="Predict what a running Flink job shows now, and print prediction, measurement and ratio.",
)
app.command(
    "integration.cli.lab:lab",
    name="lab",
    help="Open a page on which a job runs: watch its channels, change it, and see the effect.",
)
app.command(
    "integration.cli.demo:demo",
    name="demo",
    help="Run the main job on real data with debloating off and on, or in all checkpoint modes, and compare.",
)
app.command(
    "integration.cli.completion:install_completion",
    name="--install-completion",
    help="Let this shell complete commands and options; its start-up file gets a line for that.",
)
