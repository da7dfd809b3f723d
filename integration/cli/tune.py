"""The command ``netstack tune``: from a scenario, or a running job, to the debloat target to set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from netstack import OPTIONS, QuantityError, Scenario, ScenarioError, parse_flink_duration, scenario_document

from ..flink.rest import Overrides
from ..report.output import PAGE, prepare_folder, say, to_stderr, to_stdout, write_files, write_json
from ..report.tuning_text import print_recommendations
from ..tuning.advise import MOST_GROWTH, SEEDS, RunPoints, advise
from ..tuning.axes import DEFAULT_TARGETS, read_axes
from ..tuning.constraints import Constraints
from ..tuning.durations import seconds_for
from ..tuning.pitfalls import Pitfall, find_pitfalls
from ..tuning.points import Point
from ..tuning.recommend import Recommendation
from ..tuning.reruns import with_trials
from ..tuning.rows import FOLDER, PointRow
from ..tuning.sweep import run_points
from .arguments import Flag, Several, Whole, command_line
from .flink_options import overrides_of, read_flink
from .preparation import load_runnable
from .progress import duration_text, progress

SCHEMA = "netstack.tune/2"
"""Names the layout of what ``--json`` prints."""

_INTERVAL = {OPTIONS["checkpoint_interval_s"].name, *OPTIONS["checkpoint_interval_s"].former}

NONE_FITS = 1
DOCUMENT = "tuning.json"


class TuneDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep and what it says: what ``--json`` prints."""

    schema: str = SCHEMA
    command: str
    scenario: dict[str, Any]
    """What the sweep was made from, as a document; its run is as long as its checkpoints need."""
    notes: list[str]
    """Of a scenario that was read from a job: what could not be read."""
    recommendations: list[Recommendation]
    """One for each combination of the axes other than the target."""
    pitfalls: list[Pitfall]
    points: list[PointRow]
    """Without their results."""


def tune(
    file: Path | None = None,
    /,
    *,
    from_flink: str | None = None,
    job: str | None = None,
    record_bytes: Several = (),
    rate: Several = (),
    watch: str | None = None,
    target: str = DEFAULT_TARGETS,
    set: Several = (),
    service: str | None = None,
    skew: str | None = None,
    parallelism: str | None = None,
    latency: str | None = None,
    policy: str | None = None,
    seeds: Whole = SEEDS,
    min_throughput: float = 0.99,
    max_checkpoint: str | None = None,
    max_delay: str | None = None,
    allow_code: Flag = False,
    master: str | None = None,
    out: Path | None = None,
    json: Flag = False,
) -> int:
    """Try debloat targets on a job and say whether one is better than what is set now, and what it costs.

    Exit status 1 where nothing keeps to the constraints, the present setting included.

    Args:
        file: Scenario, a TOML file or its JSON form.
        from_flink: Address of a Flink's REST API, to read the job from in place of a file.
        job: Id of the job there; by default the one that runs.
        record_bytes: Bytes of a source's records, or VERTEX:BYTES, in place of what was read from Flink.
        rate: Records per second of a source's subtask, or VERTEX:RATE, likewise; 0: as fast as possible.
        watch: How long to watch the metrics of the job, as 30s; by default until they have changed.
        target: Debloat targets, in Flink's syntax.
        set: OPTION=V1,V2, values of any option of Flink's network layer; several may be given.
        service: Times of a record, as 2ms,5ms; of one vertex with VERTEX:2ms.
        skew: Factors of the subtasks, as 1:1:1:1,1:1:1:4.
        parallelism: Whole numbers, as 2,4,8; of one vertex with VERTEX:4.
        latency: Times, added to the way of each message between task managers.
        policy: Names of debloat policies.
        seeds: Runs of each setting, with the scenario's seed, the next one, and so on; up to four times as
            many where these do not decide.
        min_throughput: Share of the present throughput that has to be left, in the mean over seeds.
        max_checkpoint: What 95 % of the checkpoints may take, as 2s.
        max_delay: What 95 % of the records may take from emission to processing.
        allow_code: Let the file name a debloat policy as MODULE:CLASS, which is imported and so run.
        master: Spark's master URL; by default this machine, with a slot for each core.
        out: Folder for report.html, its pictures, tuning.json, and the points, which are not run again.
        json: Print all of it as one JSON document.
    """
    scenario, notes = _scenario(
        file, from_flink, job, overrides_of(record_bytes=record_bytes, rate=rate), watch, allow_code
    )
    constraints = _constraints(min_throughput, max_checkpoint, max_delay)
    axes = read_axes(
        target=target,
        options=set,
        service=service,
        skew=skew,
        parallelism=parallelism,
        latency=latency,
        policy=policy,
    )
    if max_checkpoint is not None and not scenario.takes_checkpoints and not _sets_interval(set):
        raise ScenarioError([f"netstack tune: --max-checkpoint: {scenario.name} takes no checkpoints"])
    prepare_folder(out, PAGE, DOCUMENT)
    prepare_folder(None if out is None else out / FOLDER)
    advice = advise(
        scenario, axes, constraints, _runner(scenario.name, out, master), seeds=seeds, planned=_announce
    )
    scenario, rows = advice.scenario, advice.rows
    document = TuneDocument(
        command=command_line(),
        scenario=scenario_document(scenario),
        notes=notes,
        recommendations=[with_trials(found, rows, scenario) for found in advice.recommendations],
        pitfalls=find_pitfalls(scenario, rows),
        points=[msgspec.structs.replace(row, result=None) for row in rows],
    )
    if out is not None:
        _write(out, document, scenario, rows)
    if json:
        write_json(msgspec.json.encode(document))
    else:
        print_recommendations(
            document.recommendations,
            document.pitfalls,
            to_stdout(),
            preset=scenario.preset,
            command=document.command,
        )
    return NONE_FITS if any(found.verdict == "none" for found in document.recommendations) else 0


def _scenario(
    file: Path | None,
    address: str | None,
    job: str | None,
    given: Overrides,
    watch: str | None,
    allow_code: bool,
) -> tuple[Scenario, list[str]]:
    """The scenario of a file, or of a running job with what could not be read of it."""
    if address is not None and file is None:
        imported = read_flink(address, job, given, watch)
        return imported.scenario, list(imported.notes)
    if file is None or address is not None:
        raise ScenarioError(["netstack tune: name a scenario, or a Flink with --from-flink; one of the two"])
    if job is not None or watch is not None or given != Overrides():
        only = "--job, --record-bytes, --rate and --watch are for --from-flink"
        raise ScenarioError([f"netstack tune: {only}; give that in place of a file, or leave them out"])
    return load_runnable(file, allow_code=allow_code), []


def _constraints(min_throughput: float, max_checkpoint: str | None, max_delay: str | None) -> Constraints:
    if not 0 <= min_throughput <= 1:
        raise ScenarioError(
            [f"netstack tune: --min-throughput is {min_throughput:g}; it must be a share from 0 to 1"]
        )
    return Constraints(
        min_throughput=min_throughput,
        max_checkpoint_ms=_milliseconds("--max-checkpoint", max_checkpoint),
        max_delay_ms=_milliseconds("--max-delay", max_delay),
    )


def _milliseconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        found = 1e3 * parse_flink_duration(text)
    except QuantityError as error:
        raise ScenarioError([f"netstack tune: {option}: {error.wrong}; it must be {error.right}"]) from None
    if not found:
        raise ScenarioError([f"netstack tune: {option} is {text}; it must be more than 0"])
    if text.strip().isdigit():
        raise ScenarioError(
            [f"netstack tune: {option} is {text}; it must have a unit, as {text}s or {text}ms"]
        )
    return found


def _sets_interval(options: Several) -> bool:
    """Whether an axis may turn checkpoints on."""
    return any(text.partition("=")[0].strip() in _INTERVAL for text in options)


def _runner(name: str, out: Path | None, master: str | None) -> RunPoints:
    def run(points: Sequence[Point], known: Sequence[PointRow], why: str) -> list[PointRow]:
        with progress(f"{name}: {why}", len(points), "points", to_stderr()) as report:
            return run_points(points, None, out, report, master=master, known=known)

    return run


def _announce(scenario: Scenario, points: Sequence[Point], tried: Sequence[PointRow]) -> None:
    """Say how much there is to do, and how long that takes by what was tried."""
    seconds, cores = seconds_for(points, tried), os.cpu_count() or 1
    time = "for an unknown time" if seconds is None else f"about {duration_text(seconds / cores)}"
    say(
        f"{scenario.name}: {len(points)} emulations of up to {scenario.duration_s:g} s, {time} on {cores} "
        f"cores; up to {MOST_GROWTH} times the seeds for settings that these leave open"
    )


def _write(out: Path, document: TuneDocument, scenario: Scenario, rows: Sequence[PointRow]) -> None:
    # Here, since what draws takes a while to import.
    from ..report.tuning_report import Sweep, write_tuning_report
    from ..tuning.reruns import runs_to_show

    page, *_ = write_tuning_report(
        out,
        Sweep(
            scenario=document.scenario,
            recommendations=document.recommendations,
            pitfalls=document.pitfalls,
            points=len(rows),
            command=document.command,
            notes=document.notes,
        ),
        runs_to_show(document.recommendations[0], scenario, rows),
    )
    write_files(out, {DOCUMENT: msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"})
    say(f"wrote {page}")
