"""The command ``netstack tune``: from a scenario, or a running job, to the debloat target to set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from netstack import QuantityError, Scenario, ScenarioError, parse_flink_duration, scenario_document

from ..flink_rest import Overrides
from ..reporting.tuning_text import print_recommendations
from ..scenarios.scenario_reader import read_scenario
from ..tuning.axes import DEFAULT_TARGETS, read_axes
from ..tuning.constraints import Constraints
from ..tuning.pitfalls import Pitfall, find_pitfalls
from ..tuning.points import SEEDS, Grid, Point
from ..tuning.probes import probes_of
from ..tuning.recommend import Recommendation, recommendations
from ..tuning.rows import PointRow
from ..tuning.store import FOLDER
from ..tuning.sweep import run_points
from .compare import Flag, Whole
from .flink_options import Several, overrides_of, read_flink
from .invocation import command_line
from .output import PAGE, prepare_folder, say, to_stderr, to_stdout, write_files, write_json
from .preparation import load_runnable
from .progress import progress

SCHEMA = "netstack.tune/1"
"""Names the layout of what ``--json`` prints."""

NONE_FITS = 1
DOCUMENT = "tuning.json"


class TuneDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep and what it says: what ``--json`` prints."""

    schema: str = SCHEMA
    command: str
    scenario: dict[str, Any]
    """What the sweep was made from, as a document."""
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
    master: str | None = None,
    out: Path | None = None,
    json: Flag = False,
) -> int:
    """Try debloat targets on a job and say which one to set, what it costs, and what it cannot help.

    Exit status 1 where no target keeps to the constraints.

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
        seeds: Runs of each point, with the scenario's seed, the next one, and so on.
        min_throughput: Share of the throughput without debloating that has to be left, with every seed.
        max_checkpoint: What 95 % of the checkpoints may take, as 2s.
        max_delay: What 95 % of the records may take from emission to processing.
        master: Spark's master URL; by default this machine, with a slot for each core.
        out: Folder for report.html, its pictures, tuning.json, and the points, which are not run again.
        json: Print all of it as one JSON document.
    """
    scenario, notes = _scenario(
        file, from_flink, job, overrides_of(record_bytes=record_bytes, rate=rate), watch
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
    points = Grid(axes, seeds).points(scenario, probes_of)
    if max_checkpoint is not None and not any(_takes_checkpoints(point) for point in points):
        raise ScenarioError([f"netstack tune: --max-checkpoint: {scenario.name} takes no checkpoints"])
    prepare_folder(out, PAGE, DOCUMENT)
    prepare_folder(None if out is None else out / FOLDER)
    rows = _run(scenario, points, out, master)
    document = TuneDocument(
        command=command_line(),
        scenario=scenario_document(scenario),
        notes=notes,
        recommendations=recommendations(rows, scenario, constraints),
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
    file: Path | None, address: str | None, job: str | None, given: Overrides, watch: str | None
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
    return load_runnable(file), []


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
    return found


def _takes_checkpoints(point: Point) -> bool:
    return point.probe == "main" and read_scenario(point.document).takes_checkpoints


def _run(scenario: Scenario, points: Sequence[Point], out: Path | None, master: str | None) -> list[PointRow]:
    with progress(f"{scenario.name}: tuning", len(points), "points", to_stderr()) as report:
        return run_points(points, None, out, report, master=master)


def _write(out: Path, document: TuneDocument, scenario: Scenario, rows: Sequence[PointRow]) -> None:
    # Here, since what draws takes a while to import.
    from ..reporting.tuning_report import Sweep, write_tuning_report
    from ..tuning.replay import runs_to_show

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
