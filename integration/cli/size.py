"""The command ``netstack size``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from cyclopts import Parameter

from buffers import InsufficientBuffers
from netstack import (
    DEFAULT_PRESET,
    PRESETS,
    QuantityError,
    Scenario,
    format_size,
    parse_flink_size,
    scenario_problems,
    scenario_toml,
)

from ..analysis.sizing.budget_plan import BudgetPlan
from ..analysis.sizing.job_size import JobSize, size_job
from ..analysis.sizing.numbers import (
    Numbers,
    read_option_texts,
    scenario_of_numbers,
    unreached,
    with_round_trip,
)
from ..errors import UsageError
from ..files.reading import one_line
from ..files.writing import prepare_folder
from ..present.budget_text import print_plan
from ..present.console import say, to_stderr, to_stdout
from ..present.documents import indented, print_document, write_files
from ..present.progress import progress
from ..present.sizing_text import print_size
from ..runs.budget_planning import most_runs, plan_budget, planned_scenario
from ..runs.sizing_check import RUNS, JobCheck, check_job
from .arguments import AllowCode, Flag, Settings, Whole, require_some
from .preparation import load_runnable

SEEDS = 3
RECORD_BYTES = 1000
DOCUMENT = "size.json"
PLAN_FILE = "plan.toml"


class SizeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--json`` prints."""

    size: JobSize
    check: JobCheck | None
    plan: BudgetPlan | None = None
    """How a budget is split; None: none was given."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SizingOptions:
    """What there is to say of a job without a scenario; of one with a scenario, what to say otherwise."""

    throughput: str | None = None
    """Of all subtasks of the consumer, as "10 MB/s" or "5000 records/s"."""
    parallelism: str | None = None
    """Of both ends, as 4, or of producer and consumer, as 4:8; by default 1."""
    record_bytes: Whole | None = None
    """Size of a record, by default 1000; of a scenario, of those that it reads from files."""
    round_trip: str | None = None
    """From one task manager to another and back, as "1 ms"."""
    ship: str | None = None
    """How records are dealt out, by default rebalance."""
    settings: Settings = ()
    """OPTION=VALUE, an option of Flink's; several may be given."""
    flink: str | None = None
    """Version whose defaults hold, 2.2 or 1.20; of a scenario, its own."""

    def numbers(self) -> Numbers:
        """Return what describes a job without a scenario.

        Raises:
            UsageError: there is no throughput, or no such version.
        """
        if self.throughput is None:
            raise UsageError(["netstack size: name a scenario, or give --throughput"])
        return Numbers(
            throughput=self.throughput,
            parallelism=self.parallelism or "1",
            record_bytes=RECORD_BYTES if self.record_bytes is None else self.record_bytes,
            ship=self.ship or "rebalance",
            round_trip=self.round_trip,
            preset=_preset(self.flink),
            options=self.settings,
        )

    def useless(self) -> list[str]:
        """Return the options given that a scenario leaves nothing to say for, by their names."""
        values = {
            "--throughput": self.throughput,
            "--parallelism": self.parallelism,
            "--ship": self.ship,
            "--flink": self.flink,
        }
        return [name for name, value in values.items() if value]


AS_THE_SCENARIO_SAYS = SizingOptions()
"""Nothing is said otherwise."""


def size(
    file: Path | None = None,
    /,
    *,
    options: SizingOptions = AS_THE_SCENARIO_SAYS,
    check: Flag = False,
    budget: str | None = None,
    seeds: Whole = SEEDS,
    allow_code: AllowCode = False,
    json: Flag = False,
    out: Path | None = None,
) -> int:
    """Say without a run how many buffers a job has, what waits in them, and what its links need.

    Args:
        file: Scenario, a TOML file or its JSON form; or give --throughput for a source and a consumer.
        check: Emulate the job too, and print its figures beside the computed ones; those of a plan beside
            those of the options as they are.
        budget: Split so much network memory of each task manager, as "512 mb", over gates and partitions,
            so that barriers wait least. The job is emulated for that, and does as much as now, but for 1 %;
            where no split that is tried keeps that, what is lost is said.
        seeds: Runs of each emulation.
        json: Print all figures as one JSON document.
        out: Folder for size.json; with a budget, for plan.toml too, the scenario with the plan's buffers.
    """
    require_some("size", "--seeds", seeds)
    numbers: Numbers | None = None
    if file is None:
        numbers = options.numbers()
        scenario = scenario_of_numbers(numbers)
    else:
        scenario = _of_file(file, options, allow_code)
    given = None if budget is None else _budget(budget, scenario)
    prepare_folder(out, DOCUMENT, *([] if given is None else [PLAN_FILE]))
    job = size_job(scenario, options.record_bytes)
    if numbers is not None and (line := unreached(numbers, job)):
        say(f"netstack size: {line}")
    if given is not None:
        plan = _plan(scenario, job, given, seeds, check)
        _show(SizeReport(size=job, check=None, plan=plan), json, out, _plan_files(scenario, plan))
        return 0
    emulated = _check(scenario, job, seeds) if check else None
    _show(SizeReport(size=job, check=emulated), json, out, {})
    return 0


def _of_file(file: Path, options: SizingOptions, allow_code: bool) -> Scenario:
    extra = [f"netstack size: {name} goes without a scenario" for name in options.useless()]
    if extra:
        raise UsageError(extra)
    scenario = load_runnable(file, allow_code=allow_code)
    problems: list[str] = []
    config = read_option_texts(options.settings, scenario.config, problems)
    scenario = with_round_trip(dataclasses.replace(scenario, config=config), options.round_trip)
    problems += [f"{key}: {message}" for key, message in scenario_problems(scenario)]
    if problems:
        raise UsageError([f"netstack size: {problem}" for problem in problems])
    return scenario


def _preset(version: str | None) -> str:
    preset = DEFAULT_PRESET if version is None else f"flink-{version}"
    if preset not in PRESETS:
        known = " or ".join(name.removeprefix("flink-") for name in PRESETS)
        raise UsageError([f"netstack size: --flink is {version!r}; it must be {known}"])
    return preset


def _check(scenario: Scenario, job: JobSize, seeds: int) -> JobCheck:
    with progress(f"{scenario.name}: emulating", RUNS * seeds, "runs", to_stderr()) as report:
        try:
            return check_job(scenario, job, seeds, report)
        except InsufficientBuffers as error:
            raise UsageError([f"netstack size: {one_line(error)}"]) from None


def _budget(text: str, scenario: Scenario) -> int:
    try:
        size = parse_flink_size(text)
    except QuantityError as error:
        raise UsageError([f"netstack size: --budget: {error.wrong}; it must be {error.right}"]) from None
    segment = scenario.config.segment_bytes
    if size < segment:
        line = f"--budget: {text!r} holds no buffer; one has {format_size(segment)}"
        raise UsageError([f"netstack size: {line}"])
    return size


def _plan(scenario: Scenario, job: JobSize, budget: int, seeds: int, check: bool) -> BudgetPlan:
    most = most_runs(scenario, seeds, check=check)
    with progress(f"{scenario.name}: emulating", most, "runs at most", to_stderr()) as report:
        done = lambda count: report(min(count, most))  # noqa: E731
        return plan_budget(scenario, job, budget, seeds, check=check, done=done)


def _plan_files(scenario: Scenario, plan: BudgetPlan) -> dict[str, bytes]:
    comment = f"The buffers of netstack size --budget '{format_size(plan.budget_bytes)}'."
    return {PLAN_FILE: scenario_toml(planned_scenario(scenario, plan), [comment]).encode()}


def _show(report: SizeReport, json: bool, out: Path | None, files: Mapping[str, bytes]) -> None:
    if out is not None:
        write_files(out, {DOCUMENT: indented(report), **files})
    if json:
        print_document(msgspec.json.encode(report))
    elif report.plan is not None:
        print_plan(report.size, report.plan, to_stdout())
    else:
        print_size(report.size, report.check, to_stdout())
