"""What ``netstack run --on-spark`` does instead of emulating."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from netstack import (
    InitialCheckpoint,
    JobFailedError,
    Result,
    Scenario,
    ScenarioError,
    SourceError,
    Trace,
    distribution_notices,
    distribution_problems,
    task_managers,
)

from ..checkpoints.directory import DirectoryStorage
from ..report.output import say, to_stderr
from ..spark.distributed.run import run_on_spark


def run_over_tcp(
    scenario: Scenario,
    file: Path,
    master: str | None,
    trace: Trace | None,
    storage: DirectoryStorage | None,
    initial: InitialCheckpoint | None,
) -> Result:
    """Run a scenario on Spark, and say on stderr what a user should know; one that failed has a result too.

    Raises:
        ScenarioError: it is not possible there, a source cannot be read, or Spark has no room for it.
    """
    problems = list(distribution_problems(scenario))
    if problems:
        raise ScenarioError([f"{file}: {key}: {message}" for key, message in problems])
    for key, message in distribution_notices(scenario):
        say(f"{file}: {key}: {message}")
    tasks = len(task_managers(scenario))
    doing = f"{scenario.name}: {tasks} task{'' if tasks == 1 else 's'} on Spark, {scenario.duration_s:g} s"
    console = to_stderr()
    if not console.is_terminal:
        say(doing)
    try:
        with console.status(Text(doing)):
            return run_on_spark(
                scenario, master=master, trace=trace, storage=storage, from_checkpoint=initial
            )
    except JobFailedError as error:
        return error.result
    except SourceError as error:
        raise ScenarioError([f"{file}: {' '.join(str(error).split())}"]) from None
