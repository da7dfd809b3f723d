"""The command ``netstack size``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from buffers import InsufficientBuffers
from netstack import DEFAULT_PRESET, PRESETS, Scenario, ScenarioError, scenario_problems

from ..analysis.sizing.numbers import (
    Numbers,
    read_option_texts,
    scenario_of_numbers,
    unreached,
    with_round_trip,
)
from ..analysis.sizing.size import JobSize, size_job
from ..report.output import prepare_folder, say, to_stderr, to_stdout, write_files, write_json
from ..report.size_text import print_size
from ..runs.sizing_check import RUNS, JobCheck, check_job
from .arguments import Flag, Whole
from .preparation import load_runnable
from .progress import progress

SEEDS = 3
RECORD_BYTES = 1000
DOCUMENT = "size.json"

Texts = Annotated[Sequence[str], Parameter(negative=(), show_default=False)]


class SizeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--json`` prints."""

    size: JobSize
    check: JobCheck | None


def size(
    file: Path | None = None,
    /,
    *,
    throughput: str | None = None,
    parallelism: str | None = None,
    record_bytes: Whole | None = None,
    round_trip: str | None = None,
    ship: str | None = None,
    set: Texts = (),
    flink: str | None = None,
    check: Flag = False,
    seeds: Whole = SEEDS,
    allow_code: Flag = False,
    json: Flag = False,
    out: Path | None = None,
) -> int:
    """Say without a run how many buffers a job has, what waits in them, and what its links need.

    Args:
        file: Scenario, a TOML file or its JSON form; or give --throughput for a source and a consumer.
        throughput: Of all subtasks of the consumer, as "10 MB/s" or "5000 records/s".
        parallelism: Of both ends, as 4, or of producer and consumer, as 4:8; by default 1.
        record_bytes: Size of a record, by default 1000; of a scenario, of those that it reads from files.
        round_trip: From one task manager to another and back, as "1 ms".
        ship: How records are dealt out, by default rebalance.
        set: OPTION=VALUE, an option of Flink's; several may be given.
        flink: Version whose defaults hold, 2.2 or 1.20; of a scenario, its own.
        check: Emulate the job too, and print its figures beside the computed ones.
        seeds: Runs of each of the two emulations.
        allow_code: Let the file name a debloat policy as MODULE:CLASS, which is imported and so run.
        json: Print all figures as one JSON document.
        out: Folder for size.json.
    """
    if seeds < 1:
        raise ScenarioError([f"netstack size: --seeds is {seeds}; at least 1 is needed"])
    numbers = None
    if file is not None:
        given = {"--throughput": throughput, "--parallelism": parallelism, "--ship": ship, "--flink": flink}
        scenario = _of_file(file, given, round_trip, set, allow_code)
    elif throughput is None:
        raise ScenarioError(["netstack size: name a scenario, or give --throughput"])
    else:
        numbers = Numbers(
            throughput=throughput,
            parallelism=parallelism or "1",
            record_bytes=RECORD_BYTES if record_bytes is None else record_bytes,
            ship=ship or "rebalance",
            round_trip=round_trip,
            preset=_preset(flink),
            options=set,
        )
        scenario = scenario_of_numbers(numbers)
    prepare_folder(out, DOCUMENT)
    job = size_job(scenario, record_bytes)
    if numbers is not None and (line := unreached(numbers, job)):
        say(f"netstack size: {line}")
    emulated = _check(scenario, job, seeds) if check else None
    _show(SizeReport(size=job, check=emulated), json, out)
    return 0


def _of_file(
    file: Path,
    given: dict[str, str | None],
    round_trip: str | None,
    options: Sequence[str],
    allow_code: bool,
) -> Scenario:
    extra = [f"netstack size: {name} goes without a scenario" for name, value in given.items() if value]
    if extra:
        raise ScenarioError(extra)
    scenario = load_runnable(file, allow_code=allow_code)
    problems: list[str] = []
    config = read_option_texts(options, scenario.config, problems)
    scenario = with_round_trip(dataclasses.replace(scenario, config=config), round_trip)
    problems += [f"{key}: {message}" for key, message in scenario_problems(scenario)]
    if problems:
        raise ScenarioError([f"netstack size: {problem}" for problem in problems])
    return scenario


def _preset(version: str | None) -> str:
    preset = DEFAULT_PRESET if version is None else f"flink-{version}"
    if preset not in PRESETS:
        known = " or ".join(name.removeprefix("flink-") for name in PRESETS)
        raise ScenarioError([f"netstack size: --flink is {version!r}; it must be {known}"])
    return preset


def _check(scenario: Scenario, job: JobSize, seeds: int) -> JobCheck:
    with progress(f"{scenario.name}: emulating", RUNS * seeds, "runs", to_stderr()) as report:
        try:
            return check_job(scenario, job, seeds, report)
        except InsufficientBuffers as error:
            raise ScenarioError([f"netstack size: {' '.join(str(error).split())}"]) from None


def _show(report: SizeReport, json: bool, out: Path | None) -> None:
    document = msgspec.json.encode(report)
    if out is not None:
        write_files(out, {DOCUMENT: msgspec.json.format(document, indent=1) + b"\n"})
    if json:
        write_json(document)
    else:
        print_size(report.size, report.check, to_stdout())
