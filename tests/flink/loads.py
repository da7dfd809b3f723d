"""Jobs under other loads than today's, and after an outage, in a real Flink.

`netstack forecast` predicts a job's headroom, its checkpoints at the limit, and the time to catch up after an
outage. `load` and `outage` measure these figures. The sources read a log that others fill at their rate, also
while the job is down or behind. Their metric ``pendingRecords`` reports the records that they have not read
yet::

    records in the log      running      down        catching up        running
    written                 ------------------------------------------------->
    read                    ------------|           |====================|--->
                            checkpoint ^            ^ from this checkpoint    pending < 1 s of records
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple, Protocol

import numpy as np

from integration import write_whole
from integration.advise.tune.change_package import read_package
from integration.cli.running_job_options import ReadingOptions, read_flink
from integration.flink import LiveCluster
from netstack import (
    OPTIONS,
    GeneratorSpec,
    QuantityError,
    Scenario,
    ScenarioError,
    parse_duration,
    read_scenario,
    scenario_document,
    split_assignment,
    vertex_key,
)

from . import ordinary_jobs
from .cluster import NEWEST, RELEASES, Cluster, Layout, TestbedError, cluster, prepare
from .job_description import described, layout_of
from .measuring import (
    METRICS,
    Asked,
    JobVertex,
    Load,
    Samples,
    all_vertices,
    growth,
    machine,
    sampled,
    say,
    submitted,
)
from .references import scenario_named, whole

PENDING, EMITTED = "pendingRecords", "sourceRecordsOut"
_METRICS = {**METRICS, PENDING: r"Source__.*\.pendingRecords", EMITTED: r"Source__[^.]*\.numRecordsOut"}
_BUSY, _BACKPRESSURED = "accumulateBusyTimeMs", "accumulateBackPressuredTimeMs"

_USUAL_OPTIONS = {
    "execution.checkpointing.tolerable-failed-checkpoints": 1_000_000,
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}
"""Options of a measured job, unless it has others: a failed checkpoint is a figure, and no reason to end."""

RATES: Mapping[str, float] = {"etl": 200, "enrich": 400, "wordcount": 450, "rules": 900}
"""Ordinary jobs that can be measured: records per second of each subtask of their unlimited source, which are
one half to three quarters of the limit.
"""

_PATIENCE_S = 120.0
_POLL_S = 1.0
_CAUGHT_UP_S = 1.0
"""A source that lacks no more than the records of this time has caught up."""


class Subject(Protocol):
    """A job to measure."""

    name: str
    release: str
    layout: Layout

    def start(
        self, running: Cluster, load: float | None, checkpoint: str | None = None
    ) -> tuple[str, list[JobVertex]]:
        """Submit the job with its rates times `load`; None: as fast as possible."""
        ...

    def read(self, running: Cluster, job: str, options: ReadingOptions) -> None:
        """Record the answers of the REST API."""
        ...


class ScenarioJob:
    """The job of a scenario."""

    def __init__(self, scenario: Scenario, settings: Mapping[str, str]) -> None:
        known = {option.name for option in OPTIONS.values()}
        given = {name: value for name, value in settings.items() if name in known}
        document = scenario_document(scenario)
        self._scenario = read_scenario({**document, "flink": {**document["flink"], **given}})
        self.name = self._scenario.name
        self.release = RELEASES.get(self._scenario.preset, NEWEST)
        described(self._scenario)
        _check_rates(self._scenario)
        layout = layout_of(self._scenario)
        self.layout = dataclasses.replace(layout, options={**_USUAL_OPTIONS, **layout.options, **settings})

    def start(
        self, running: Cluster, load: float | None, checkpoint: str | None = None
    ) -> tuple[str, list[JobVertex]]:
        """Submit the job."""
        loaded = at_load(self._scenario, load)
        text = json.dumps(described(loaded, logged=True))
        job, _, vertices = submitted(running, loaded, text, checkpoint)
        return job, vertices

    def read(self, running: Cluster, job: str, options: ReadingOptions) -> None:
        """Record the answers of the REST API."""
        read_flink(LiveCluster(running.rest.url), job, options)


class OrdinaryJob:
    """An ordinary job, whose unlimited source has a rate."""

    def __init__(
        self, asked: ordinary_jobs.Asked, rate: float | None, settings: Mapping[str, str], release: str
    ) -> None:
        if asked.job not in RATES:
            raise TestbedError(f"{asked.job}: its sources have no load; choose one of {', '.join(RATES)}")
        self._asked = asked
        self._rate = RATES[asked.job] if rate is None else rate
        self.name = asked.name
        self.release = release
        layout = ordinary_jobs.layout_of(asked)
        self.layout = dataclasses.replace(layout, options={**_USUAL_OPTIONS, **layout.options, **settings})

    def start(
        self, running: Cluster, load: float | None, checkpoint: str | None = None
    ) -> tuple[str, list[JobVertex]]:
        """Submit the job. Without a load, its paced sources keep their rates."""
        arguments = [*self._asked.arguments, "logged"]
        if load is not None:
            arguments += [f"rate={self._rate:g}", f"load={load:g}"]
        job = running.submit(ordinary_jobs.JOBS[self._asked.job].entry, arguments, checkpoint)
        return job, all_vertices(running.rest, job)

    def read(self, running: Cluster, job: str, options: ReadingOptions) -> None:
        """Record the answers of the REST API."""
        joining = dataclasses.replace(options, inputs=("join",))
        read_flink(LiveCluster(running.rest.url), job, joining)


def at_load(scenario: Scenario, load: float | None) -> Scenario:
    """Return a scenario whose sources have their rates times `load`; None: as fast as possible."""
    vertices = []
    for vertex in scenario.vertices:
        source = vertex.source
        if isinstance(source, GeneratorSpec):
            rates = (0.0,) if load is None else tuple(rate * load for rate in source.rates)
            vertex = dataclasses.replace(vertex, source=dataclasses.replace(source, rates=rates))
        vertices.append(vertex)
    return dataclasses.replace(scenario, vertices=tuple(vertices))


def _check_rates(scenario: Scenario) -> None:
    problems = [
        f"{vertex_key(vertex.name, 'source.rate')}: is 0, so the load has no limit; give a rate above 0"
        for vertex in scenario.vertices
        if isinstance(vertex.source, GeneratorSpec) and not all(vertex.source.rates)
    ]
    if problems:
        raise ScenarioError(problems)


class Attempt(NamedTuple):
    """A checkpoint that was triggered."""

    id: int
    t: float
    """Seconds since the measurement began."""
    status: str
    """That of Flink: COMPLETED, FAILED or IN_PROGRESS."""
    duration_ms: int
    failure: str | None
    """The reason of a failure."""


def attempts_of(rest: Asked, job: str, began_ms: float) -> list[Attempt]:
    """Return all checkpoints of a job, oldest first; times count from `began_ms`."""
    history = rest.get(f"/jobs/{job}/checkpoints")["history"]
    return [
        Attempt(
            each["id"],
            round((each["trigger_timestamp"] - began_ms) / 1000, 2),
            each["status"],
            each["end_to_end_duration"],
            each.get("failure_message"),
        )
        for each in sorted(history, key=lambda each: each["id"])
    ]


def summary(attempts: Iterable[Attempt], window: tuple[float, float]) -> dict[str, Any]:
    """Return the figures of the checkpoints triggered in a window; times in ms, None without a checkpoint."""
    begin, end = window
    inside = [each for each in attempts if begin <= each.t < end]
    durations = [each.duration_ms for each in inside if each.status == "COMPLETED"]
    return {
        "completed": len(durations),
        "failed": sum(each.status == "FAILED" for each in inside),
        "unfinished": sum(each.status == "IN_PROGRESS" for each in inside),
        "middle_ms": median(durations) if durations else None,
        "p95_ms": round(float(np.percentile(durations, 95))) if durations else None,
        "worst_ms": max(durations, default=None),
    }


def work_in(samples: Samples, window: tuple[float, float]) -> dict[str, Any]:
    """Return what the sources and the busiest subtask did in a window; None: too few samples."""

    def of(metric: str) -> dict[tuple[str, int], float]:
        """The growth per second of a counter, by vertex and subtask, where it is known."""
        return {
            (vertex.name, subtask): rate
            for vertex, series in zip(samples.vertices, samples.series, strict=True)
            for subtask, values in enumerate(series.get(metric, ()))
            if (rate := growth(samples.times, values, window)) is not None
        }

    emitted, busy = of(EMITTED), of(_BUSY)
    waiting = [rate for subtask, rate in of(_BACKPRESSURED).items() if subtask in emitted]
    busiest = max(busy, key=busy.__getitem__, default=None)
    pending = of(PENDING)
    return {
        "records_per_s": round(sum(emitted.values()), 1) if emitted else None,
        "pending_growth_per_s": round(sum(pending.values()), 1) if pending else None,
        "busiest": None if busiest is None else list(busiest),
        "busy_share": None if busiest is None else round(busy[busiest] / 1000, 3),
        "backpressured_ms_per_s": round(max(waiting), 1) if waiting else None,
        "backpressured_ms_per_s_mean": round(fmean(waiting), 1) if waiting else None,
    }


def limits_of(samples: Samples, window: tuple[float, float]) -> dict[tuple[int, int], float]:
    """Return the number of pending records at which each source subtask has caught up.

    The keys are the places of the vertex and of the subtask. `window` is one in which the job keeps up.

    Raises:
        TestbedError: a source was not seen to emit records.
    """
    limits = {}
    for place, series in enumerate(samples.series):
        for subtask, values in enumerate(series.get(EMITTED, ())):
            rate = growth(samples.times, values, window)
            if not rate:
                name = samples.vertices[place].name
                raise TestbedError(f"subtask {subtask} of {name} has emitted nothing; measure longer")
            limits[place, subtask] = rate * _CAUGHT_UP_S
    if not limits:
        raise TestbedError("no source has reported how many records it emitted; measure longer")
    return limits


def pending_at_end(samples: Samples, place: int, subtask: int) -> float | None:
    """Return the pending records of a source subtask in the latest sample; None: not reported."""
    rows = samples.series[place].get(PENDING)
    values = rows[subtask] if rows else []
    return values[-1] if len(values) == len(samples.times) and values else None


def caught_up(samples: Samples, limits: Mapping[tuple[int, int], float]) -> bool:
    """Whether every source subtask had caught up in the latest sample."""
    pending = {source: pending_at_end(samples, *source) for source in limits}
    return all(count is not None and count <= limits[source] for source, count in pending.items())


def most_pending(samples: Samples) -> float | None:
    """Return the greatest sum of the pending records of all sources in a sample; None: not reported."""
    rows = [values for series in samples.series for values in series.get(PENDING, ())]
    sums = [sum(known) for each in zip(*rows, strict=False) if (known := [v for v in each if v is not None])]
    return max(sums, default=None)


def add_load_options(parser: argparse.ArgumentParser) -> None:
    """Add what `load` takes."""
    add_subject_options(parser)
    parser.add_argument(
        "--loads",
        type=_loads,
        default=[],
        help="factors of the rates, such as 0.8,1,1.2; default: 1, and none with --at-limit",
    )
    parser.add_argument("--at-limit", action="store_true", help="measure with sources as fast as possible")
    parser.add_argument("--warmup", type=whole, default=60, help="seconds that do not count (%(default)s)")
    parser.add_argument("--seconds", type=whole, default=60, help="measured after them (%(default)s)")


def add_outage_options(parser: argparse.ArgumentParser) -> None:
    """Add what `outage` takes."""
    add_subject_options(parser)
    parser.add_argument("--down", type=_duration, default=120.0, help="length of the outage (120s)")
    parser.add_argument("--before", type=whole, default=60, help="seconds before the outage (%(default)s)")
    parser.add_argument(
        "--patience",
        type=whole,
        default=900,
        help="seconds to wait until the job has caught up (%(default)s)",
    )


def add_subject_options(parser: argparse.ArgumentParser) -> None:
    """Add the job, and options of Flink for it."""
    known = ", ".join(RATES)
    parser.add_argument("subject", metavar="NAME|FILE.toml|JOB:SETTING", help=f"JOB is one of {known}")
    parser.add_argument("--rate", type=_rate, help="records per second of each subtask of a JOB's source")
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="an option of Flink; several"
    )
    parser.add_argument(
        "--change", type=Path, metavar="PACKAGE", help="a change package of netstack tune, to be applied"
    )
    parser.add_argument(
        "--flink", choices=RELEASES.values(), help="release; default: that of the scenario's preset"
    )


def load(asked: argparse.Namespace) -> int:
    """Measure a job under other loads than today's, and at its limit."""
    subject = subject_of(asked)
    rows = {}
    loads: list[float | None] = [*asked.loads, *([None] if asked.at_limit else [])] or [1.0]
    with cluster(prepare(subject.release), subject.layout, asked.port) as running:
        for each in loads:
            document = _at(running, subject, each, asked)
            text = json.dumps(document, separators=(",", ":")) + "\n"
            write_whole({asked.out / f"{_stem(subject, each)}.json": text.encode()})
            rows[_spelt(each)] = document["figures"]
    print(table_of(rows), end="")
    return 0


def _spelt(load: float | None) -> str:
    return "at limit" if load is None else f"load {load:g}"


def _stem(subject: Subject, load: float | None) -> str:
    return f"{subject.name}.{_spelt(load).replace(' ', '_')}"


def _at(running: Cluster, subject: Subject, load: float | None, asked: argparse.Namespace) -> dict[str, Any]:
    """Run a job at one load; returns what was measured."""
    window = (float(asked.warmup), float(asked.warmup + asked.seconds))
    say(f"{subject.name}, {_spelt(load)}, Flink {subject.release}: {window[1]:.0f} s")
    document = _head(subject)
    job, vertices = subject.start(running, load)
    others = Load()
    others.begin(running)
    samples, began_ms = sampled(running, job, vertices, window[1], metrics=_METRICS)
    others.end(running)
    asked.out.mkdir(parents=True, exist_ok=True)
    recording = asked.out / f"{_stem(subject, load)}.rest.json.gz"
    subject.read(running, job, ReadingOptions(recording=recording))
    attempts = _finished(running, job, began_ms, window)
    running.cancel(job)
    return document | {
        "load": load,
        "other_cores_used": others.of_others,
        "window_s": window,
        "figures": work_in(samples, window) | {"checkpoints": summary(attempts, window)},
        **_details(samples, attempts),
    }


def outage(asked: argparse.Namespace) -> int:
    """Measure how long a job takes to catch up after an outage."""
    subject = subject_of(asked)
    with cluster(prepare(subject.release), subject.layout, asked.port) as running:
        document = _through(running, subject, asked)
    file = asked.out / f"{subject.name}.outage.json"
    write_whole({file: (json.dumps(document, separators=(",", ":")) + "\n").encode()})
    print(json.dumps(document["figures"], indent=1))
    return 0 if document["figures"]["caught_up_after_s"] is not None else 1


def _through(running: Cluster, subject: Subject, asked: argparse.Namespace) -> dict[str, Any]:
    """Run a job, stop it, start it again, and watch it until it has caught up."""
    say(f"{subject.name}, Flink {subject.release}: {asked.before} s, then down for {asked.down:g} s")
    document = _head(subject)
    job, vertices = subject.start(running, 1.0)
    others = Load()
    others.begin(running)
    before, began_ms = sampled(running, job, vertices, asked.before, metrics=_METRICS)
    steady = (asked.before / 3, float(asked.before))
    limits = limits_of(before, steady)
    figures: dict[str, Any] = {"before": work_in(before, steady)}
    figures["before"]["checkpoints"] = summary(attempts_of(running.rest, job, began_ms), steady)
    running.cancel(job)
    stopped_ms = running.rest.get(f"/jobs/{job}")["end-time"]
    restored = running.rest.get(f"/jobs/{job}/checkpoints")["latest"]["completed"]
    if restored is None:
        raise TestbedError(f"no checkpoint was completed in {asked.before} s; --before gives more time")
    time.sleep(max(0.0, stopped_ms / 1000 + asked.down - time.time()))
    job, vertices = subject.start(running, 1.0, restored["external_path"])
    running_ms = time.time() * 1000
    started_ms = running.rest.get(f"/jobs/{job}")["start-time"]
    after, sampled_ms = sampled(
        running, job, vertices, asked.patience, metrics=_METRICS, enough=partial(caught_up, limits=limits)
    )
    others.end(running)
    after.times = [round(at + (sampled_ms - started_ms) / 1000, 2) for at in after.times]
    end_s = after.times[-1]
    attempts = _finished(running, job, started_ms, (0.0, end_s))
    running.cancel(job)
    figures |= {
        "restored_checkpoint": restored["id"],
        "restored_age_s": round((stopped_ms - restored["trigger_timestamp"]) / 1000, 2),
        "down_s": round((started_ms - stopped_ms) / 1000, 2),
        "running_after_s": round((running_ms - started_ms) / 1000, 2),
        "caught_up_after_s": end_s if caught_up(after, limits) else None,
        "backlog_records": most_pending(after),
        "catching_up": work_in(after, (after.times[0], end_s)),
        "checkpoints": summary(attempts, (0.0, end_s)),
    }
    return document | {
        "other_cores_used": others.of_others,
        "figures": figures,
        **_details(after, attempts),
    }


def _finished(running: Cluster, job: str, began_ms: float, window: tuple[float, float]) -> list[Attempt]:
    """Return the checkpoints of a job, once those of a window have ended."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        attempts = attempts_of(running.rest, job, began_ms)
        if not summary(attempts, window)["unfinished"] or time.monotonic() > deadline:
            return attempts
        running.check(job)
        time.sleep(_POLL_S)


def _head(subject: Subject) -> dict[str, Any]:
    return {
        "job": subject.name,
        "flink_options": dict(subject.layout.options),
        "versions": {"flink": subject.release},
        "machine": machine(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _details(samples: Samples, attempts: Sequence[Attempt]) -> dict[str, Any]:
    return {
        "vertices": [dataclasses.asdict(vertex) for vertex in samples.vertices],
        "checkpoints": [attempt._asdict() for attempt in attempts],
        "t": samples.times,
        "series": samples.series,
    }


_COLUMNS = ("records/s", "busy", "busiest", "waiting", "middle", "p95", "worst", "done", "failed")


def table_of(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the figures of each load as a table; "?" stands for a figure that was not measured."""
    lines = [["", *_COLUMNS]]
    for name, figures in rows.items():
        checkpoints = figures["checkpoints"]
        busiest = figures["busiest"]
        cells = [
            figures["records_per_s"],
            figures["busy_share"],
            None if busiest is None else f"{busiest[0]} {busiest[1]}",
            figures["backpressured_ms_per_s"],
            *(checkpoints[key] for key in ("middle_ms", "p95_ms", "worst_ms", "completed", "failed")),
        ]
        lines.append([name, *("?" if cell is None else str(cell) for cell in cells)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    explained = "waiting: back-pressure of the slowest source subtask, ms/s. Checkpoints: ms."
    return "".join(f"{text.rstrip()}\n" for text in [*texts, explained])


def subject_of(asked: argparse.Namespace) -> Subject:
    """Return the job that the arguments name.

    Raises:
        FileError: the change package cannot be read.
        ScenarioError: there is no such scenario, or Flink cannot run it here.
        TestbedError: there is no such job or setting.
    """
    changes = read_package(asked.change).changes if asked.change else []
    settings = {change.option: change.after for change in changes}
    for text in asked.set:
        assigned = split_assignment(text)
        if assigned is None:
            raise TestbedError(f"--set {text}: has no value; write it as OPTION=VALUE")
        settings[assigned[0]] = assigned[1]
    if asked.subject.partition(":")[0] in ordinary_jobs.JOBS:
        release = asked.flink or NEWEST
        job = ordinary_jobs.asked_for(asked.subject, release)
        return OrdinaryJob(job, asked.rate, settings, release)
    if asked.rate is not None:
        raise TestbedError(f"--rate {asked.rate:g}: {asked.subject} has rates in its file; change them there")
    return ScenarioJob(scenario_named(asked.subject, None, asked.flink), settings)


def _loads(text: str) -> list[float]:
    return [_rate(part) for part in text.split(",")]


def _rate(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except QuantityError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
