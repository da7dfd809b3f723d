"""Change packages: a recommended change as files to apply, to undo and to watch, with what it promises.

| file | contents |
|---|---|
| `change.json` | the options before and after, and the promised figures; `netstack verify` reads it |
| `config.yaml`, `flinkdeployment-patch.yaml` | the change, for a config.yaml and for a FlinkDeployment |
| `revert-config.yaml`, `revert-patch.yaml` | the way back |
| `watch.promql` | a PromQL query for each figure, with the promised range |

The names of metrics are those of Flink's Prometheus reporter. It replaces or removes characters of labels
that are no letter, digit, colon or underscore, so the queries match any single character there, or none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np

from netstack import OPTIONS, PRESETS, NetworkConfig, QuantityError, preset_for

from ...base.errors import FileError
from ...base.number_text import milliseconds, per_second, percent
from ...base.optional_figures import complete, known, quotient
from ...base.reading import LARGEST_RESULT, read_user_file
from ...flink import Imported
from ...flink.http.answers import decode_json
from ..sweeps.confidence import Estimate
from .model_error import Band, ModelError
from .option_changes import (
    OptionChange,
    Restart,
    deployment_patch,
    patch_lines,
    restart_sentences,
    way_back_patch,
)
from .recommend import Recommendation, SettingSummary

SCHEMA = "netstack.change/1"

FOLDER = "change"
"""Folder of the package within the output folder of a tuning."""

DOCUMENT = "change.json"
"""The file of a package that a verification reads."""

FILES = (
    DOCUMENT,
    "config.yaml",
    "flinkdeployment-patch.yaml",
    "revert-config.yaml",
    "revert-patch.yaml",
    "watch.promql",
)

CHECKPOINT, CHECKPOINT_P95 = "checkpoint_ms", "checkpoint_p95_ms"
RATE, FAILED = "throughput_per_s", "failed_share"

TITLES = {
    CHECKPOINT: "checkpoint",
    CHECKPOINT_P95: "checkpoint, p95",
    RATE: "throughput",
    FAILED: "failed checkpoints",
}
"""Title of each promised figure."""

TEXTS = {CHECKPOINT: milliseconds, CHECKPOINT_P95: milliseconds, RATE: per_second, FAILED: percent}
"""Format of each promised figure."""

_LABEL = re.compile(r"[^a-zA-Z0-9:_]")


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """One figure before a change, and its promised value after the change; None: unknown."""

    before: float | None
    promised: float | None
    low: float | None = None
    """The ends of the promised range; None: the figure has no range."""
    high: float | None = None

    @property
    def least(self) -> float | None:
        """Lower end of the range, or the promised value if there is no range."""
        return self.promised if self.low is None else self.low

    @property
    def greatest(self) -> float | None:
        """Upper end of the range, or the promised value if there is no range."""
        return self.promised if self.high is None else self.high


class ChangePackage(msgspec.Struct, frozen=True, kw_only=True):
    """A recommended change of a job, with the figures that it promises."""

    schema: str = SCHEMA
    netstack: str
    """Version of netstack; empty if unknown."""
    job: str | None
    """The job's name in Flink; None: the job was tuned from a scenario file."""
    job_id: str | None
    flink: str | None
    """Flink's version."""
    scenario: str
    """Name of the scenario."""
    action: str
    """The change, as a clause: "set the debloat target to 1 s"."""
    changes: list[OptionChange]
    set_by_job: list[str]
    """Changed options that the program or its client sets, not the configuration of the cluster."""
    measured: bool
    """Whether the figures before were measured in Flink; otherwise they are emulated."""
    figures: dict[str, Promise]
    """The promised figures: times in ms, throughput in records/s of the last vertices, and a share."""
    max_checkpoint_ms: float | None
    """Limit for the 95th percentile of checkpoint times; None: the user gave none."""
    back_pressured_ms_per_s: float | None
    """Back-pressured time of the most back-pressured vertex before; None: not measured."""
    last_vertices: dict[str, str]
    """Flink's ids of the vertices whose throughput counts, by their names; empty ids if unknown."""

    @property
    def name(self) -> str:
        """Name of the job in Flink, or else that of the scenario."""
        return self.scenario if self.job is None else self.job


def package_of(
    recommendation: Recommendation, last_vertices: Sequence[str], imported: Imported | None
) -> ChangePackage | None:
    """Return the package of a recommendation; None if it changes no option of Flink.

    Args:
        recommendation: The recommendation.
        last_vertices: Names of the vertices without readers.
        imported: The job as read from Flink; None: it was read from a scenario file.
    """
    if recommendation.verdict != "set" or not recommendation.changes:
        return None
    now, advised = recommendation.now, recommendation.advised
    before = _emulated(now) if imported is None else figures_in_flink(imported)
    ids = {} if imported is None else {imported.job.names[each.id]: each.id for each in imported.job.vertices}
    changes = recommendation.changes
    if imported is not None:
        changes = [_as_configured(each, imported.job.configuration) for each in changes]
    return ChangePackage(
        netstack=recommendation.versions.get("netstack", ""),
        job=None if imported is None else imported.job.name,
        job_id=None if imported is None else imported.job.id,
        flink=None if imported is None else imported.job.version,
        scenario=recommendation.scenario,
        action=advised.action,
        changes=changes,
        set_by_job=[] if imported is None else [each.option for each in changes if _is_own(each, imported)],
        measured=imported is not None,
        figures=_promises(before, advised, recommendation.error),
        max_checkpoint_ms=recommendation.constraints.max_checkpoint_ms,
        back_pressured_ms_per_s=None if imported is None else back_pressured_ms_per_s(imported),
        last_vertices={name: ids.get(name, "") for name in last_vertices},
    )


def figures_in_flink(imported: Imported) -> dict[str, float | None]:
    """Return the figures of a job that were measured in Flink, by the names of a package's figures."""
    job, shown = imported.job, imported.measured
    times = known(each.duration_ms for each in shown.checkpoints)
    last = [
        figures
        for vertex, figures in zip(job.vertices, shown.steady.vertices, strict=True)
        if not job.outputs(vertex)
    ]
    rates = complete(rate for figures in last for rate in figures.records_in_per_s)
    ended = imported.ended
    return {
        CHECKPOINT: round(fmean(times), 2) if times else None,
        CHECKPOINT_P95: round(float(np.percentile(times, 95)), 2) if times else None,
        RATE: None if rates is None else round(sum(rates), 1),
        FAILED: quotient(ended.failed, ended.number),
    }


def back_pressured_ms_per_s(imported: Imported) -> float | None:
    """Return the back-pressured time of the most back-pressured vertex, in ms per second; None: unknown."""
    shares = [complete(each.backpressured_ms_per_s) for each in imported.measured.steady.vertices]
    return max((round(fmean(each), 1) for each in shares if each), default=None)


def _emulated(now: SettingSummary) -> dict[str, float | None]:
    named = _named(now.promised.figures)
    means = {name: None if figure is None else figure.mean for name, figure in named.items()}
    return {**means, FAILED: _failed_share(now)}


def _named(figures: Mapping[str, Estimate]) -> dict[str, Estimate | None]:
    return {
        CHECKPOINT: figures.get("end_to_end_ms"),
        CHECKPOINT_P95: figures.get("end_to_end_p95_ms"),
        RATE: figures.get("throughput_per_s"),
    }


def _failed_share(setting: SettingSummary) -> float | None:
    ended = setting.checkpoints_completed + setting.checkpoints_failed
    return setting.checkpoints_failed / ended if ended else None


def _promises(
    before: Mapping[str, float | None], advised: SettingSummary, error: ModelError
) -> dict[str, Promise]:
    """Return the promised figures. Their ranges include the known error of the emulation.

    The promised throughput is the one before, times the share that the emulation keeps. So an error of the
    emulated throughput cancels out.
    """
    load, rate = advised.promised, before[RATE]
    promises = {FAILED: Promise(before=before[FAILED], promised=_failed_share(advised))}
    for name, figure in _named(load.figures).items():
        mean = None if figure is None else figure.mean
        band = None if figure is None or name == RATE else error.of_time(figure)
        promises[name] = _promise(before[name], mean, band)
    if load.throughput_share is not None and rate is not None:
        share = load.throughput_share
        low, high = (1.0, 1.0) if advised.today else error.of_share(share)
        promises[RATE] = _promise(rate, rate * share.mean, Band(rate * low, rate * high))
    return {name: promises[name] for name in TITLES}


def _promise(before: float | None, promised: float | None, band: Band | None) -> Promise:
    """Return the promise of a value and its range, rounded."""
    low, high = (None, None) if band is None else (round(band.low, 2), round(band.high, 2))
    value = None if promised is None else round(promised, 2)
    return Promise(before=before, promised=value, low=low, high=high)


def _as_configured(change: OptionChange, configuration: Mapping[str, str]) -> OptionChange:
    """Return a change with the value of the cluster's configuration.

    If Flink does not report its configuration, the way back sets the value in force.
    """
    configured = configuration.get(change.option) if configuration else change.before
    return msgspec.structs.replace(change, configured=configured)


def _is_own(change: OptionChange, imported: Imported) -> bool:
    """Whether the value in force before is neither that of the configuration nor Flink's default."""
    job = imported.job
    if change.restart is not Restart.JOB or not job.configuration:
        return False
    field, option = next((name, each) for name, each in OPTIONS.items() if each.name == change.option)
    value: object = getattr(PRESETS[preset_for(job.version)], field)
    if change.configured is not None:
        try:
            value = option.kind.parse(change.configured)
        except QuantityError:
            return False
    return bool(value != getattr(imported.scenario.config, field))


def in_force(change: OptionChange, config: NetworkConfig) -> bool:
    """Return whether a job's options have the value after the change."""
    field, option = next((name, each) for name, each in OPTIONS.items() if each.name == change.option)
    return bool(getattr(config, field) == option.kind.parse(change.after))


# Files


def files_of(package: ChangePackage, document: bytes) -> dict[str, bytes]:
    """Return the files of a package by name; `document` is the package as JSON."""
    restart = [f"# {sentence}" for sentence in restart_sentences(package.changes)]
    own = [
        f"# The job sets {name} itself, or its client does when it submits the job: change it there, too."
        for name in package.set_by_job
    ]
    head = f"# {_one_line(package.name)}: {package.action}."
    back = f"# {_one_line(package.name)}: the way back to the options before this change: {package.action}."
    redeploys = "# Flink's Kubernetes operator redeploys the FlinkDeployment after this patch:"
    texts = {
        "config.yaml": [head, *restart, *own, *(each.line for each in package.changes)],
        "flinkdeployment-patch.yaml": [
            head,
            *own,
            redeploys,
            f"# kubectl patch flinkdeployment NAME --type merge --patch-file {FILES[2]}",
            *patch_lines(deployment_patch(package.changes)),
        ],
        "revert-config.yaml": [back, *restart, *own, *map(_line_back, package.changes)],
        "revert-patch.yaml": [
            back,
            *own,
            redeploys,
            f"# kubectl patch flinkdeployment NAME --type merge --patch-file {FILES[4]}",
            *patch_lines(way_back_patch(package.changes)),
        ],
        "watch.promql": list(_queries(package)),
    }
    return {DOCUMENT: document, **{name: _text(lines) for name, lines in texts.items()}}


def _text(lines: Sequence[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def _one_line(name: str) -> str:
    return " ".join(name.split())


def _line_back(change: OptionChange) -> str:
    if change.configured is None:
        return f"# Remove the line {change.line}"
    return f"{change.option}: {change.configured}"


def _queries(package: ChangePackage) -> Iterator[str]:
    """Yield the lines of the file of queries."""
    job = f'job_name=~"{_label(package.name)}"'
    ids = [_label(each) for each in package.last_vertices.values() if each]
    names = [f".*{_label(each)}.*" for each in package.last_vertices]
    last = f'task_id=~"{"|".join(ids)}"' if ids else f'task_name=~"{"|".join(names)}"'
    yield f"# {_one_line(package.name)}: what to watch after this change: {package.action}."
    yield "# The queries use the metrics of Flink's Prometheus reporter."
    if package.job is None:
        yield "# The job was tuned from a scenario file: write the job's name in Flink as job_name."
    yield ""
    duration = f"flink_jobmanager_job_lastCheckpointDuration{{{job}}}"
    yield _comment(package, CHECKPOINT, "mean, in ms")
    yield f"avg_over_time({duration}[10m])"
    yield ""
    yield _comment(package, CHECKPOINT_P95, "in ms")
    yield f"quantile_over_time(0.95, {duration}[1h])"
    yield ""
    yield _comment(package, RATE, "records/s of the last vertices")
    yield f"sum(rate(flink_taskmanager_job_task_numRecordsIn{{{job},{last}}}[5m]))"
    yield ""
    yield _comment(package, FAILED, "growth of their number in an hour")
    yield f"delta(flink_jobmanager_job_numberOfFailedCheckpoints{{{job}}}[1h])"
    yield ""
    pressure = package.back_pressured_ms_per_s
    before = "not measured" if pressure is None else f"{pressure:.0f} ms/s at the slowest vertex"
    yield f"# Back-pressured time by vertex, in ms/s. No value is promised. Before: {before}."
    yield (
        "avg by (task_name) (avg_over_time("
        f"flink_taskmanager_job_task_backPressuredTimeMsPerSecond{{{job}}}[5m]))"
    )


def _label(name: str) -> str:
    """Return a regular expression for a name as a label."""
    return _LABEL.sub(".?", name)


def _comment(package: ChangePackage, name: str, unit: str) -> str:
    figure, text = package.figures[name], TEXTS[name]
    title = TITLES[name][0].upper() + TITLES[name][1:]
    promised = "Nothing is promised" if figure.promised is None else f"Promised: {promise_text(name, figure)}"
    source = "measured in Flink" if package.measured else "emulated"
    before = "unknown" if figure.before is None else f"{text(figure.before)}, {source}"
    return f"# {title}: {unit}. {promised}. Before: {before}."


def promise_text(name: str, figure: Promise) -> str:
    """Return a promised value with its range, as "281 ms, 252 ms to 340 ms"."""
    text = TEXTS[name]
    ends = "" if figure.low is None else f", {text(figure.low)} to {text(figure.high)}"
    return f"{text(figure.promised)}{ends}"


def read_package(place: Path) -> ChangePackage:
    """Read a package from its folder or its document.

    Raises:
        FileError: it cannot be read, or is not a package of this schema.
    """
    file = place / DOCUMENT if place.is_dir() else place
    if place.is_dir() and not file.exists():
        raise FileError(
            [f"{place}: holds no {DOCUMENT}; give the folder {FOLDER} that tune writes beside its report"]
        )
    content = read_user_file(file, LARGEST_RESULT)
    try:
        schema = decode_json(content, _Schema).schema
        if schema != SCHEMA:
            raise ValueError(f"its schema is {schema!r}; it must be {SCHEMA!r}")
        package = decode_json(content, ChangePackage)
        if missing := [name for name in TITLES if name not in package.figures]:
            raise ValueError(f"it has no figure {missing[0]}")
        for change in package.changes:
            _check(change)
    except ValueError as error:
        raise FileError([f"{file}: is not a change package, as tune writes it: {error}"]) from None
    return package


class _Schema(msgspec.Struct):
    schema: str


def _check(change: OptionChange) -> None:
    """Check that an option is known and has a valid value.

    Raises:
        ValueError: it is unknown, or its value is invalid.
    """
    option = next((each for each in OPTIONS.values() if each.name == change.option), None)
    if option is None:
        raise ValueError(f"{change.option} is not an option that netstack knows")
    try:
        option.kind.parse(change.after)
    except QuantityError as error:
        raise ValueError(f"{change.option}: {error.wrong}; it must be {error.right}") from None
