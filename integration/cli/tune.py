"""The command ``netstack tune``."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Group, Parameter

from netstack import (
    OPTIONS,
    parse_flink_duration,
    parse_flink_size,
    preset_for,
    scenario_document,
)

from ..advise.sweeps.axes import Axis, option_axes
from ..advise.sweeps.point_rows import FOLDER
from ..advise.sweeps.sweep import LocalProcesses
from ..advise.tune.advice import advise
from ..advise.tune.change_package import DOCUMENT as CHANGE_DOCUMENT
from ..advise.tune.change_package import FOLDER as CHANGE
from ..advise.tune.change_package import files_of, package_of
from ..advise.tune.charted_runs import runs_to_show
from ..advise.tune.choice import Constraints
from ..advise.tune.pitfalls import find_pitfalls
from ..advise.tune.recommend import Recommendation
from ..advise.tune.settings import Mechanism, Question
from ..advise.tune.words import measured_text
from ..base.extras import require
from ..base.optional_figures import known
from ..base.writing import prepare_folder, write_outputs
from ..show.terminal.console import PAGE, say
from ..show.terminal.documents import Tuning, indented, present, write_files
from ..show.terminal.tuning import Form, conditions_of, print_tuning
from .arguments import (
    AllowCode,
    Flag,
    Settings,
    Verbose,
    Whole,
    check_policies,
    command_line,
    read_quantity,
    require_some,
    usage_error,
    warn_of_bare_numbers,
)
from .cluster_access import ANYBODY, AccessOptions
from .exit_status import FAILED
from .job_to_run import OF_A_FILE, JobOptions, JobToRun, read_job, runner_of
from .option_names import naming_options
from .past_options import NOW, USUAL_SEARCH, PastOptions
from .running_job_options import say_assumptions

_INTERVAL = {OPTIONS["checkpoint_interval_s"].name, *OPTIONS["checkpoint_interval_s"].former}
_OF_TARGET = {
    name
    for field in ("debloat_enabled", "debloat_target_s")
    for name in (OPTIONS[field].name, *OPTIONS[field].former)
}
"""Options that a debloat target sets."""

DOCUMENT = "tuning.json"

_USUAL_ADDRESS = "http://HOST:8081"


@Parameter(name="*", group=Group("Settings to try", sort_key=1))
@dataclass(frozen=True, slots=True, kw_only=True)
class TriedOptions:
    """Settings to try."""

    only: Annotated[tuple[Mechanism, ...], Parameter(negative=(), show_default=False)] = ()
    """Mechanism to try; by default all of them."""
    target: str | None = None
    """Debloat targets to try; by default 50ms,100ms,200ms,300ms,500ms,1s,2s, or 300ms,1s for a large job."""
    policy: str | None = None
    """Debloating policies to compare with that of the scenario; see docs/studies/POLICIES.md."""
    flink: str | None = None
    """Version of Flink that you may upgrade to, such as 2.3; by default that of the scenario."""
    settings: Settings = ()
    """Values of an option of Flink to compare, OPTION=V1,V2; advice is given for each. May be repeated."""

    def question(self, constraints: Constraints) -> Question:
        """Return the settings to compare, with the limits that they must meet.

        Raises:
            UsageError: a value is invalid.
        """
        if not self._debloats and (self.policy is not None or self.target is not None):
            raise usage_error(
                "tune",
                "--target and --policy are for debloating, but --only excludes it; add --only debloating, or "
                "remove --target and --policy",
            )
        policies = _parts(self.policy)
        check_policies("tune", policies)
        return Question(
            constraints=constraints,
            targets_s=[_seconds("--target", text) for text in _parts(self.target)] or None,
            policies=policies,
            only=self.only or tuple(Mechanism),
            version=self._version,
        )

    def axes(self) -> tuple[Axis, ...]:
        """Return the options of Flink whose values are compared.

        Raises:
            UsageError: a value is invalid.
        """
        axes = option_axes(self.settings)
        for axis in axes:
            if self._debloats and axis.name in _OF_TARGET:
                problem = f"--set: {axis.name} conflicts with the debloat targets that are tried"
                raise usage_error("tune", f"{problem}; use --target, or exclude debloating with --only")
        return axes

    @property
    def _debloats(self) -> bool:
        return Mechanism.DEBLOATING in (self.only or tuple(Mechanism))

    @property
    def _version(self) -> str | None:
        """Return the preset of the version that the user may upgrade to; None: not given.

        Raises:
            UsageError: the text is not a version.
        """
        if self.flink is None:
            return None
        if not re.fullmatch(r"[12]\.\d+(\.\d+)*", self.flink):
            wrong = f"--flink: {self.flink!r} is not a version of Flink"
            raise usage_error("tune", f"{wrong}; it must be a version such as 2.3")
        return preset_for(self.flink)

    @property
    def sets_interval(self) -> bool:
        """Whether an axis may turn checkpoints on, by setting an interval."""
        return any(text.partition("=")[0].strip() in _INTERVAL for text in self.settings)


@Parameter(name="*", group=Group("Limits", sort_key=2))
@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintOptions:
    """Limits that the recommended setting must meet."""

    min_throughput: float = Constraints().min_throughput
    """Minimum throughput as a share of the present one; the mean over seeds counts."""
    max_checkpoint: str | None = None
    """Limit for the duration of 95 % of the checkpoints, such as 2s."""
    max_delay: str | None = None
    """Limit for the time from emission to processing of 95 % of the records."""
    max_stored: str | None = None
    """Limit for the data in flight that a checkpoint stores, such as 10mb; 0b: aligned checkpoints only."""
    fast_enough: str = "1s"
    """Nothing changes while 95 % of the checkpoints take less than this, and no limit is violated."""
    fast_enough_share: float = Constraints().fast_enough_share
    """They must also take less than this share of the checkpoint interval."""

    def constraints(self) -> Constraints:
        """Return the limits as numbers.

        Raises:
            UsageError: an option is not a share, a time or a size.
        """
        shares = {"--min-throughput": self.min_throughput, "--fast-enough-share": self.fast_enough_share}
        for option, share in shares.items():
            if not 0 <= share <= 1:
                raise usage_error("tune", f"{option} is {share:g}; it must be a share from 0 to 1")
        checkpoint_s, delay_s = (
            None if text is None else _seconds(option, text)
            for option, text in (("--max-checkpoint", self.max_checkpoint), ("--max-delay", self.max_delay))
        )
        read_time = partial(parse_flink_duration, needs_unit=True)
        fast_enough_s = read_quantity("tune", "--fast-enough", self.fast_enough, read_time)
        stored_bytes = None
        if self.max_stored is not None:
            read_size = partial(parse_flink_size, needs_unit=True)
            stored_bytes = read_quantity("tune", "--max-stored", self.max_stored, read_size)
        return Constraints(
            min_throughput=self.min_throughput,
            max_checkpoint_ms=None if checkpoint_s is None else 1e3 * checkpoint_s,
            max_delay_ms=None if delay_s is None else 1e3 * delay_s,
            max_stored_bytes=stored_bytes,
            fast_enough_ms=1e3 * fast_enough_s,
            fast_enough_share=self.fast_enough_share,
        )


USUAL_TRIALS, USUAL_CONSTRAINTS = TriedOptions(), ConstraintOptions()


def tune(
    file: Path | None = None,
    /,
    *,
    running: JobOptions = OF_A_FILE,
    access: AccessOptions = ANYBODY,
    past: PastOptions = NOW,
    tried: TriedOptions = USUAL_TRIALS,
    seeds: Whole | None = None,
    limits: ConstraintOptions = USUAL_CONSTRAINTS,
    allow_code: AllowCode = False,
    master: str | None = None,
    out: Path | None = None,
    form: Annotated[Form, Parameter(name="--as")] = "yaml",
    verbose: Verbose = False,
    json: Flag = False,
) -> int:
    """Try settings on a job, and print the one to take, its effect and its cost.

    The exit status is 1 if no setting keeps to the limits, not even the present one.

    Args:
        file: Scenario, as a TOML file or in its JSON form, a result of it, or a recording of Flink's REST
            API.
        seeds: Maximum number of runs of a setting: with the scenario's seed, the next seed, and so on; by
            default 8, or 1 for a large job.
        master: Spark's master URL: run on Spark instead of in processes of this machine.
        out: Folder for report.html, its pictures, tuning.json and the results of finished runs. The same
            command does not repeat these runs. The subfolder change has the change as files to apply, to
            undo and to watch, for `netstack verify`.
        form: Print the change as lines of config.yaml, or as the patch of a FlinkDeployment.
        json: Print everything as one JSON document.
    """
    require("statistics", "netstack tune")
    if seeds is not None:
        require_some("tune", "--seeds", seeds)
    if out is not None:
        require("report", "netstack tune --out")
    job = read_job("tune", file, running, access, past, allow_code)
    scenario = job.scenario
    question, axes = tried.question(limits.constraints()), tried.axes()
    warn_of_bare_numbers("netstack tune: --set", tried.settings)
    if limits.max_checkpoint is not None and not scenario.takes_checkpoints and not tried.sets_interval:
        raise usage_error("tune", f"--max-checkpoint: {scenario.name} takes no checkpoints")
    prepare_folder(out, PAGE, DOCUMENT)
    prepare_folder(None if out is None else out / FOLDER)
    with LocalProcesses(os.cpu_count() or 1) as processes:
        run = runner_of(scenario.name, out, master, processes)
        advice = advise(
            scenario,
            run,
            question,
            axes,
            most_seeds=seeds,
            if_cpu_bound=job.if_cpu_bound,
            measured_ms=known(each.duration_ms for each in job.checkpoints),
        )
    tuning = Tuning(
        command=command_line(),
        scenario=scenario_document(scenario),
        notes=job.notes,
        recommendations=[_worded(each, job) for each in advice.recommendations],
        pitfalls=find_pitfalls(advice.rows),
        points=[msgspec.structs.replace(row, result=None) for row in advice.rows],
    )
    if out is not None:
        from ..show.page.pages import write_tuning  # imported here, because altair takes a while

        results = runs_to_show(tuning.recommendations[0], advice.rows, scenario)
        page, *_ = write_tuning(out, tuning, scenario, results)
        write_files(out, {DOCUMENT: indented(tuning)})
        say(f"wrote {page}")
    package = None if out is None else _write_package(out / CHANGE, tuning.recommendations, job, running.load)
    following = _following(tuning, running.from_flink, past, package, verbose=verbose)
    show = partial(print_tuning, following=following, form=form, verbose=verbose)
    present(tuning, show, json=json)
    say_assumptions(job.notes)
    return FAILED if any(each.verdict == "none" for each in tuning.recommendations) else 0


def _worded(recommendation: Recommendation, job: JobToRun) -> Recommendation:
    """Return a recommendation with options named in its words, and what Flink reports after the verdict."""
    verdict, *others = map(naming_options, recommendation.words)
    measured = measured_text(recommendation.now, job.checkpoints)
    words = [verdict, *([] if measured is None else [measured]), *job.unsteady, *others]
    return msgspec.structs.replace(recommendation, words=words)


def _write_package(
    folder: Path, recommendations: Sequence[Recommendation], job: JobToRun, load: float
) -> Path | None:
    """Write the change package of a recommendation, and return its folder; None: there is no change."""
    package, why = None, "the recommendation changes no option of Flink"
    if len(recommendations) > 1:
        why = "there are several recommendations"
    elif conditions := conditions_of(recommendations[0]):
        why = f"the recommendation holds for {conditions} only"
    elif job.imported is not None and load != 1:
        why = f"its promise would be for {load:g} times the load that the job has"
    else:
        edges = job.scenario.edges
        last = {edge.target for edge in edges} - {edge.source for edge in edges}
        package = package_of(recommendations[0], sorted(last), job.imported)
    if package is None:
        stale = f"; {folder} is of an earlier call" if (folder / CHANGE_DOCUMENT).exists() else ""
        say(f"wrote no change package, because {why}{stale}")
        return None
    files = files_of(package, indented(package))
    prepare_folder(folder, *files)
    write_outputs({folder / name: content for name, content in files.items()})
    say(f"wrote {folder}, the change package")
    return folder


def _following(
    tuning: Tuning, from_flink: str | None, past: PastOptions, package: Path | None, *, verbose: bool
) -> str:
    """Return the next command: `--verbose`, or a verification or diagnosis of the changed job.

    If the advice is for an earlier time, the next command reads the next time with slow checkpoints.
    """
    if not any(each.configuration for each in tuning.recommendations) and not verbose:
        return f"{tuning.command} --verbose"
    address = from_flink if from_flink is not None and from_flink.startswith("http") else _USUAL_ADDRESS
    command = "diagnose" if package is None else f"verify {shlex.quote(str(package))}"
    if past.metrics_from is not None:
        address += f" --metrics-from {shlex.quote(past.metrics_from)} --worst {past.worst or USUAL_SEARCH}"
    return f"netstack {command} --from-flink {address}  # after the change"


def _parts(text: str | None) -> list[str]:
    """Return the different texts between commas, in their order."""
    return [] if text is None else list(dict.fromkeys(part.strip() for part in text.split(",")))


def _seconds(option: str, text: str) -> float:
    time_s = read_quantity("tune", option, text, partial(parse_flink_duration, needs_unit=True))
    if not time_s:
        raise usage_error("tune", f"{option} is {text}; it must be more than 0")
    return time_s
