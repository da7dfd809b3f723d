"""The command ``netstack diagnose``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from netstack import JobFailedError, Result, parse_duration

from ..diagnosis.checkpoint_rules import BARRIERS_WAIT
from ..diagnosis.observation import observations
from ..diagnosis.rule_table import Diagnosis
from ..diagnosis.rule_table import diagnose as diagnosed
from ..diagnosis.trial import trials
from ..emulating import emulate
from ..errors import UsageError
from ..files.kinds import FileKind
from ..files.reading import load_result
from ..present.console import say, to_stderr
from ..present.documents import present
from ..present.findings import print_diagnosis
from ..present.progress import progress
from .arguments import AllowCode, Flag, Verbose, command_line, naming_options, read_quantity, usage_error
from .cluster_access import ANYBODY, AccessOptions
from .exit_status import failure_text
from .preparation import load_runnable, opened
from .running_job_options import watching
from .wrong_file_kind import require_kind


def diagnose(
    file: Path | None = None,
    /,
    *,
    from_flink: str | None = None,
    job: str | None = None,
    latency: str | None = None,
    access: AccessOptions = ANYBODY,
    allow_code: AllowCode = False,
    verbose: Verbose = False,
    json: Flag = False,
) -> int:
    """Print what limits a job, its problems with evidence and an action for each, and the command to run
    next.

    Args:
        file: A result that `netstack run --json` printed, a scenario, or a recording of Flink's REST API.
            A scenario is run first. "-": standard input.
        from_flink: Address of a Flink cluster's REST API, such as http://localhost:8081, or a recording.
        job: Id of the job in Flink; required if several jobs run.
        latency: Latency between task managers of that cluster, such as "1 ms".
        json: Print the findings as one JSON document.
    """
    if file is not None and file.parts[:1] in (("http:",), ("https:",)):
        raise usage_error(
            "diagnose",
            "the address of a cluster must be given with --from-flink; write that before the address",
        )
    if (file is None) == (from_flink is None):
        raise usage_error(
            "diagnose",
            "give either a file (a result, a scenario or a recording), or a cluster with --from-flink",
        )
    kind = None
    if file is not None:
        kind = require_kind(file, FileKind.RESULT, FileKind.SCENARIO, FileKind.RECORDING)
        if kind is FileKind.RECORDING:
            from_flink = str(file)
    for option, value in (("--job", job), ("--latency", latency)):
        if value is not None and from_flink is None:
            raise usage_error(
                "diagnose",
                f"{option} can be used only with --from-flink; add --from-flink, or remove {option}",
            )
    if from_flink is not None:
        diagnosis = _of_flink(from_flink, job, latency, access)
    else:
        access.refuse_without_address("the job is read from a file")
        assert file is not None
        result = _run(file, allow_code) if kind is FileKind.SCENARIO else load_result(file)
        diagnosis = _of_result(result, file)
    can_tune = from_flink is not None or kind is FileKind.SCENARIO
    following = _following(diagnosis, can_tune=can_tune, verbose=verbose)
    show = partial(print_diagnosis, following=following, verbose=verbose)
    present(diagnosis, show, json=json)
    return 0


def _following(diagnosis: Diagnosis, *, can_tune: bool, verbose: bool) -> str:
    """Return the command to suggest next: `tune` if barriers wait behind in-flight data, otherwise this
    command with `--verbose`. After `--verbose`, it is always `tune`.
    """
    rules = {finding.rule for window in diagnosis.windows for finding in window.findings}
    command = command_line().removesuffix(" --verbose")
    if can_tune and (verbose or BARRIERS_WAIT in rules):
        return command.replace("netstack diagnose", "netstack tune", 1)
    return "netstack tune SCENARIO.toml" if verbose else f"{command} --verbose"


def _run(file: Path, allow_code: bool) -> Result:
    """Run a scenario. A job that failed permanently has a result too."""
    scenario = load_runnable(file, allow_code=allow_code)
    with (
        opened(scenario, file) as ready,
        progress(scenario.name, scenario.duration_s, "s", to_stderr()) as report,
    ):
        try:
            return emulate(ready, progress=report, meanwhile=report)
        except JobFailedError as error:
            say(failure_text(error.result))
            return error.result


def _of_result(result: Result, file: Path) -> Diagnosis:
    views = observations(result)
    if not views:
        raise UsageError([f"{file}: has no measured window, since the run was shorter than its warm-up"])
    version = result.versions.get("netstack", "unknown version")
    return Diagnosis(
        name=views[0].name,
        of=f"{result.preset}, seed {result.seed}, {result.clock} clock, netstack {version}",
        windows=[
            diagnosed(replace(view, tried=tried)) for view, tried in zip(views, trials(result), strict=True)
        ],
    )


def _of_flink(place: str, job: str | None, latency: str | None, access: AccessOptions) -> Diagnosis:
    # Imported here, because few diagnoses need it.
    from ..flink.diagnose_job import diagnose_job

    latency_s = None
    if latency is not None:
        latency_s = read_quantity("diagnose", "--latency", latency, parse_duration)
    cluster = access.cluster(place)
    with watching(cluster, f"{cluster.name}: reading the job", always=True) as report:
        return diagnose_job(cluster, job, latency_s, watching=report, wording=naming_options)
