"""The command ``netstack``: its subcommands, and how they run.

Results go to stdout and everything else to stderr. Exit status: 0 for success; 1 if a comparison is outside
its tolerance, a promise is not kept, a configuration has an error or a warning, or a job failed permanently;
2 for a mistake of the user, with a line on stderr; 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, and
141 if the reader of a pipe ended.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Group

from ..base.stopping import LINE, STOP
from .arguments import set_arguments, usage_problem
from .exit_status import MISTAKE, report
from .option_names import run_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; `arguments` are by default those of the process."""
    given = set_arguments(arguments)
    run_command(given[0] if given and not given[0].startswith("-") else None, app)
    _import_compiled(given)
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


_STDIN = "/dev/stdin"
"""File that replaces the argument "-"."""

_ONLY_HELP = {"--help", "-h", "--version"}


def _import_compiled(arguments: Sequence[str]) -> None:
    """Import modules with compiled parts before a command begins, because a Ctrl-C during such an import is
    lost.
    """
    if arguments and _ONLY_HELP.isdisjoint(arguments):
        import concurrent.futures.process  # noqa: F401
        import statistics  # noqa: F401

        import netstack  # noqa: F401

        from ..base import reading  # noqa: F401
        from ..show.terminal import console  # noqa: F401


def _run(arguments: Sequence[str] | None) -> int:
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
        from ..base.errors import OutputError  # imported here, because its module imports much

        raise OutputError(
            "stdout is closed, so the result would be lost; redirect it to a file or to /dev/null"
        )
    from ..show.terminal.console import to_stdout  # imported here, because its library takes a while

    given = [_STDIN if argument == "-" else argument for argument in set_arguments(arguments)]
    status = app(given, console=to_stdout())
    sys.stdout.flush()
    return status if isinstance(status, int) else 0


def _report(error: BaseException, arguments: Sequence[str] | None) -> int:
    """Print an error and return the exit status. Raise the error again if it is a defect of netstack."""
    if isinstance(error, CycloptsError):
        _say(usage_problem(error, set_arguments(arguments)))
        return MISTAKE
    return report(error)


def _say(line: str) -> None:
    from ..show.terminal.console import say  # imported here, because its library takes a while

    say(line)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # here: it is slow to import

    from netstack import core_is_compiled, stale_modules

    try:
        number = version("netstack")
    except PackageNotFoundError:
        number = "of an unknown version"
    if not core_is_compiled():
        return f"netstack {number}, plain Python"
    core = "with a compiled core"
    if stale := stale_modules():
        core += f" that is older than its source file {stale[0]}; run 'make fast' to compile it again"
    return f"netstack {number}, {core}"


app = App(
    name="netstack",
    help="Flink's network layer, emulated: back-pressure, buffer debloating, checkpoint barriers.",
    version=_version,
    version_flags=["--version"],
    help_format="markdown",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)


_COMMANDS = {
    "Diagnose and tune": {
        "diagnose": "Print what limits a job and what its checkpoints wait for.",
        "tune": "Say what to set so that checkpoints are fast, and what it costs.",
        "forecast": "Say how much load a job can take, and how it catches up after an outage.",
        "verify": "Compare a job after a change with what the change promised.",
        "size": "Compute buffers, memory and drain times without a run.",
        "lint": (
            "Check the options of the network layer and of checkpoints in a Flink configuration file.\n\n"
            "The exit status is 1 if there is an error or a warning, otherwise 0."
        ),
        "validate": "Compare a prediction with what a Flink job shows.",
        "import-flink": "Print a running Flink job as a scenario file.",
    },
    "Run and compare": {
        "run": "Run a scenario and print its figures.",
        "compare": "Compare scenarios or results with a real Flink's figures.",
        "lab": "Open a page on which a job runs: watch its channels and change it.",
        "demo": "Run the main job with debloating off and on.",
    },
    "Checkpoints": {
        "checkpoints": "List the checkpoints in a directory, and verify their files.",
        "state": "Show the states of a checkpoint: sizes, skew, large keys.",
    },
    "Spark": {
        "shuffle": "Shuffle the rows of a file inside Spark, and write them to another.",
        "package": "Write the file by which Spark's executors get the code of a shuffle.",
    },
    "Developer": {
        "schema": "Print the JSON Schema of scenario files, which editors use to check them.",
    },
}
"""Names of the commands by group, and the one-line help of each."""

for _group, _commands in _COMMANDS.items():
    _ordered = Group.create_ordered(_group)
    for _name, _help in _commands.items():
        _function = _name.replace("-", "_")
        # Named by text, so that they are imported only when called, because some take a while.
        app.command(f"integration.cli.{_function}:{_function}", name=_name, help=_help, group=_ordered)
app.group_commands = Group.create_ordered("Options")
app.command(
    "integration.cli.completion:install_completion",
    name="--install-completion",
    help="Set up completion of commands and options in the start-up file of this shell.",
)
