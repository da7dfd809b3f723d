"""The command ``netstack diagnose``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from netstack import InputError, JobFailedError, Result, Scenario, parse_duration

from ..advise.diagnose.checkpoint_rules import BARRIERS_WAIT
from ..advise.diagnose.observation import observations
from ..advise.diagnose.trial import may_run_again, trials
from ..advise.diagnose.verdict import Diagnosis
from ..advise.diagnose.verdict import diagnose as diagnosed
from ..base.errors import UsageError
from ..base.file_kinds import FileKind
from ..base.optional_figures import known
from ..base.reading import load_result
from ..flink import Answers, Overrides, import_scenario
from ..runs.emulating import emulate
from ..runs.job_load import check_load
from ..show.terminal.console import say, to_stderr
from ..show.terminal.documents import present
from ..show.terminal.findings import print_diagnosis
from ..show.terminal.progress import activity, progress
from .accepted_kinds import require_kind
from .arguments import AllowCode, Flag, Verbose, command_line, read_quantity, usage_error
from .cluster_access import ANYBODY, AccessOptions
from .exit_status import failure_text
from .option_names import naming_options
from .past_options import NOW, PastOptions
from .preparation import at_load_option, load_runnable, opened
from .running_job_options import watching


def diagnose(
    file: Path | None = None,
    /,
    *,
    from_flink: str | None = None,
    job: str | None = None,
    latency: str | None = None,
    load: float = 1.0,
    access: AccessOptions = ANYBODY,
    past: PastOptions = NOW,
    allow_code: AllowCode = False,
    verbose: Verbose = False,
    json: Flag = False,
) -> int:
    """Print what limits a job, its problems with evidence and an action for each, how much more load it can
    take, and the command to run next.

    Args:
        file: A result that `netstack run --json` printed, a scenario, or a recording of Flink's REST API.
            A scenario is run first. "-": standard input.
        from_flink: Address of a Flink cluster's REST API, such as http://localhost:8081, or a recording.
        job: Id of the job in Flink; required if several jobs run.
        latency: Latency between task managers of that cluster, such as "1 ms".
        load: The load of the sources, as a multiple of the present one; the job then runs in the emulator.
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
    check_load(load)
    if from_flink is not None:
        diagnosis = _of_flink(past.of(partial(access.cluster, from_flink)), job, latency, load)
    else:
        access.refuse_without_address("the job is read from a file")
        past.refuse("with a file")
        assert file is not None
        if kind is FileKind.SCENARIO or load != 1:
            scenario = at_load_option(load_runnable(file, allow_code=allow_code), load)
            result = _run(scenario, file)
        else:
            result = load_result(file)
        diagnosis = _of_result(result, str(file))
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


def _run(scenario: Scenario, file: Path | None = None) -> Result:
    """Run a scenario. A job that failed permanently has a result too."""
    with (
        opened(scenario, file or Path(scenario.name)) as ready,
        progress(scenario.name, scenario.duration_s, "s", to_stderr()) as report,
    ):
        try:
            return emulate(ready, progress=report, meanwhile=report)
        except JobFailedError as error:
            say(failure_text(error.result))
            return error.result


def _of_result(result: Result, name: str) -> Diagnosis:
    views = observations(result)
    if not views:
        raise UsageError([f"{name}: has no measured window, since the run was shorter than its warm-up"])
    version = result.versions.get("netstack", "unknown version")
    return Diagnosis(
        name=views[0].name,
        of=f"{result.preset}, seed {result.seed}, {result.clock} clock, netstack {version}",
        windows=[
            diagnosed(replace(view, tried=tried)) for view, tried in zip(views, trials(result), strict=True)
        ],
        headroom=_headroom(result.scenario, result) if may_run_again(result) else None,
    )


def _headroom(
    scenario: Scenario, today: Result | None = None, if_cpu_bound: Scenario | None = None
) -> str | None:
    """Return how much more load a job can take, in a sentence; None: unknown, or it is at its limit."""
    # Imported here, because pyarrow takes a while.
    from ..advise.diagnose.headroom import headroom_of
    from ..advise.diagnose.words import cpu_bound_text, headroom_text
    from ..advise.tune.settings import is_large

    if is_large(scenario):
        return "The job is large, so runs at other loads take long: `netstack forecast` finds its limit."
    with activity(f"{scenario.name}: looking for the limit", to_stderr()):
        found = headroom_of(scenario, today)
        other = None if if_cpu_bound is None else headroom_of(if_cpu_bound)
    if found is None:
        return None
    return " ".join(known([headroom_text(found), cpu_bound_text(found, other)]))


def _of_flink(cluster: Answers, job: str | None, latency: str | None, load: float) -> Diagnosis:
    # Imported here, because few diagnoses need it.
    from ..advise.diagnose.flink_job import diagnose_job
    from ..flink import Recorder

    latency_s = None
    if latency is not None:
        latency_s = read_quantity("diagnose", "--latency", latency, parse_duration)
    recorder = Recorder(cluster)
    with watching(cluster, f"{cluster.name}: reading the job", always=True) as report:
        diagnosis = diagnose_job(recorder, job, latency_s, watching=report, wording=naming_options)
        try:
            imported = import_scenario(
                recorder.replay(), job, overrides=Overrides(latency_s=latency_s or 0.0)
            )
        except InputError as error:
            if load == 1:
                return diagnosis  # an ended job, or one that shows too little to be emulated
            raise UsageError([f"netstack diagnose: --load: {line}" for line in error.problems]) from None
        if load == 1:
            return msgspec.structs.replace(
                diagnosis, headroom=_headroom(imported.scenario, if_cpu_bound=imported.if_cpu_bound)
            )
    result = _run(at_load_option(imported.scenario, load))
    return msgspec.structs.replace(_of_result(result, diagnosis.name), notes=diagnosis.notes)
