"""The command ``netstack size``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cyclopts import Parameter

from buffers import HEADER_BYTES, InsufficientBuffers
from netstack import (
    DEFAULT_PRESET,
    PRESETS,
    Scenario,
    format_size,
    parse_flink_size,
    scenario_toml,
)

from ..advise.size.budget import BudgetPlan, most_runs, plan_budget, planned_scenario
from ..advise.size.emulated_check import RUNS, JobCheck, check_job
from ..advise.size.job_from_numbers import Numbers, records_per_s, scenario_of_numbers, with_settings
from ..advise.size.job_size import JobSize, size_job
from ..base.errors import UsageError
from ..base.extras import require
from ..base.reading import one_line
from ..base.writing import prepare_folder
from ..show.terminal.console import say, to_stderr
from ..show.terminal.documents import indented, present, write_files
from ..show.terminal.progress import progress
from ..show.terminal.sizing import SizeReport, print_sizing
from .arguments import (
    AllowCode,
    Flag,
    Settings,
    Whole,
    read_quantity,
    require_some,
    usage_error,
    warn_of_bare_numbers,
)
from .preparation import load_runnable

SEEDS_OF_CHECK, SEEDS_OF_PLAN = 3, 1
RECORD_BYTES = 1000
DOCUMENT = "size.json"
PLAN_FILE = "plan.toml"
_REACHED = 0.99
"""A required throughput counts as reached if the consumer can read this share of it."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SizingOptions:
    """Description of a job without a scenario, or values that override those of a scenario."""

    throughput: str | None = None
    """Rate of all subtasks of the consumer, such as "10 MB/s" or "5000 records/s"."""
    parallelism: str | None = None
    """Parallelism of both ends, such as 4, or of producer and consumer, such as 4:8; by default 1."""
    record_bytes: Whole | None = None
    """Bytes of a record, by default 1000. With a scenario, the bytes of records that it reads from files."""
    round_trip: str | None = None
    """Round-trip time between task managers, such as "1 ms"."""
    ship: str | None = None
    """Distribution of records to consumers, by default rebalance."""
    settings: Settings = ()
    """An option of Flink, as OPTION=VALUE; may be repeated."""
    flink: str | None = None
    """Flink version whose defaults apply, such as 2.3 or 1.20. A scenario file states its own version."""


NO_OVERRIDES = SizingOptions()


def size(
    file: Path | None = None,
    /,
    *,
    options: SizingOptions = NO_OVERRIDES,
    check: Flag = False,
    budget: str | None = None,
    seeds: Whole | None = None,
    allow_code: AllowCode = False,
    json: Flag = False,
    out: Path | None = None,
) -> int:
    """Compute buffers, network memory, data in flight and link requirements of a job, without a run.

    Args:
        file: Scenario, as a TOML file or in its JSON form. Without a file, --throughput describes a job of
            one source and one consumer.
        check: Emulate the job too, and print its figures beside the computed ones. With a budget, emulate
            other settings with the same memory, and print them beside the plan.
        budget: Network memory of each task manager, such as "512 mb", to split over gates and partitions so
            that barriers wait as briefly as possible. The search emulates the job. It accepts 1 % less
            throughput; if every split that it tries costs more, it reports the loss. Requires SciPy.
        seeds: Number of runs of each emulation; by default 3, or 1 with a budget.
        json: Print all figures as one JSON document.
        out: Folder for size.json and, with a budget, plan.toml, the scenario with the plan's buffers.
    """
    if seeds is not None:
        require_some("size", "--seeds", seeds)
    if budget is not None:
        require("statistics", "netstack size --budget")
    warn_of_bare_numbers("netstack size: --set", options.settings)
    scenario = _of_numbers(options) if file is None else _of_file(file, options, allow_code)
    given = None if budget is None else _budget_bytes(budget, scenario.config.segment_bytes)
    prepare_folder(out, DOCUMENT, *([] if given is None else [PLAN_FILE]))
    job = size_job(scenario, options.record_bytes)
    if options.throughput is not None:
        _warn_if_unreached(options.throughput, options.record_bytes or RECORD_BYTES, job)
    if given is not None:
        plan = _plan(scenario, given, seeds or SEEDS_OF_PLAN, options.record_bytes, check=check)
        comment = f"The buffers of netstack size --budget '{format_size(plan.budget_bytes)}'."
        planned = scenario_toml(planned_scenario(scenario, plan), [comment]).encode()
        _show(SizeReport(size=job, check=None, plan=plan), json, out, {PLAN_FILE: planned})
    else:
        emulated = _check(scenario, job, seeds or SEEDS_OF_CHECK) if check else None
        _show(SizeReport(size=job, check=emulated), json, out, {})
    return 0


def _of_numbers(options: SizingOptions) -> Scenario:
    version, problems = options.flink, []
    if options.throughput is None:
        problems.append("netstack size: give a scenario, or --throughput")
    preset = DEFAULT_PRESET if version is None else f"flink-{version}"
    if preset not in PRESETS:
        *versions, last = (name.removeprefix("flink-") for name in PRESETS)
        right = f"{', '.join(versions)} or {last}"
        problems.append(f"netstack size: --flink is {version!r}; it must be {right}")
    if options.throughput is None or problems:
        raise UsageError(problems)
    return scenario_of_numbers(
        Numbers(
            throughput=options.throughput,
            parallelism=options.parallelism or "1",
            record_bytes=RECORD_BYTES if options.record_bytes is None else options.record_bytes,
            ship=options.ship or "rebalance",
            round_trip=options.round_trip,
            preset=preset,
            options=options.settings,
        )
    )


def _of_file(file: Path, options: SizingOptions, allow_code: bool) -> Scenario:
    names = ("throughput", "parallelism", "ship", "flink")
    extra = [
        f"netstack size: --{name} cannot be combined with a scenario"
        for name in names
        if getattr(options, name)
    ]
    if extra:
        raise UsageError(extra)
    scenario = load_runnable(file, allow_code=allow_code)
    return with_settings(scenario, options.settings, options.round_trip)


def _budget_bytes(text: str, segment_bytes: int) -> int:
    budget_bytes = read_quantity("size", "--budget", text, partial(parse_flink_size, needs_unit=True))
    if budget_bytes < segment_bytes:
        least = f"it must be at least {format_size(segment_bytes)}"
        raise usage_error("size", f"--budget: {text!r} is smaller than one buffer; {least}")
    return budget_bytes


def _warn_if_unreached(throughput: str, record_bytes: int, job: JobSize) -> None:
    """Report a throughput that the consumer cannot reach even with the minimum cost of a record."""
    consumer = job.consumers[-1]
    most = consumer.records_per_s * consumer.parallelism
    if most < _REACHED * records_per_s(throughput, record_bytes + HEADER_BYTES):
        say(
            f"netstack size: --throughput {throughput}: the consumer can read at most "
            f"{consumer.parallelism} x {consumer.records_per_s:,.0f} records/s, so the figures are for "
            "that rate; give a higher --parallelism, or a larger --record-bytes"
        )


def _plan(
    scenario: Scenario, budget_bytes: int, seeds: int, record_bytes: int | None, *, check: bool
) -> BudgetPlan:
    most = most_runs(scenario, seeds, check=check)
    with progress(f"{scenario.name}: emulating", most, "runs (at most)", to_stderr()) as report:
        return plan_budget(
            scenario,
            budget_bytes,
            seeds,
            record_bytes=record_bytes,
            check=check,
            done=lambda count: report(min(count, most)),
        )


def _check(scenario: Scenario, job: JobSize, seeds: int) -> JobCheck:
    with progress(f"{scenario.name}: emulating", RUNS * seeds, "runs", to_stderr()) as report:
        try:
            return check_job(scenario, job, seeds, report)
        except InsufficientBuffers as error:
            raise usage_error("size", one_line(error)) from None


def _show(report: SizeReport, json: bool, out: Path | None, files: Mapping[str, bytes]) -> None:
    if out is not None:
        write_files(out, {DOCUMENT: indented(report), **files})
    present(report, print_sizing, json=json)
