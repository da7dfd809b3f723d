"""A job in a real Flink, whose reporter a real Prometheus scrapes, and its import of a time that has passed.

::

    load     . - ^ - .               . - ^ -
            time that is imported |   last minute: read from both

The first import is of the window with the slowest checkpoints. Then the last minute of the job is read from
Flink's REST API while it passes, and afterwards from Prometheus. Both must give the same scenario, within the
errors of sampling.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import httpx

from integration import write_whole
from integration.flink import (
    Imported,
    LiveCluster,
    Past,
    PastCluster,
    PrometheusServer,
    Recorder,
    import_scenario,
)
from integration.flink.recording import packed
from netstack import GeneratorSpec, Scenario

from .cluster import Cluster, TestbedError, cluster, prepare
from .loads import Attempt, Subject, add_subject_options, attempts_of, subject_of
from .measuring import sampled, say
from .references import whole

PROMETHEUS = "prometheus"
"""The program, which Debian has as a package of this name."""

_REPORTER = {
    "metrics.reporter.prom.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
    "metrics.reporter.prom.port": "9250-9260",
}
_FIRST_PORT = 9250
_MINUTE_S = 60.0
_PATIENCE_S = 30.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what `past` takes."""
    add_subject_options(parser)
    parser.add_argument("--seconds", type=whole, default=290, help="length of the run (%(default)s)")
    parser.add_argument("--window", type=whole, default=60, help="of the slowest checkpoints (%(default)s)")
    parser.add_argument("--scrape", type=whole, default=5, help="seconds between scrapes (%(default)s)")
    parser.add_argument("--prometheus-port", type=whole, default=19090, help="(%(default)s)")


def run(asked: argparse.Namespace) -> int:
    """Import the worst minute of a job from Prometheus, and its last minute from both sources."""
    if shutil.which(PROMETHEUS) is None:
        raise TestbedError(f"there is no {PROMETHEUS}; install the package of this name")
    subject = subject_of(asked)
    layout = dataclasses.replace(subject.layout, options={**subject.layout.options, **_REPORTER})
    with cluster(prepare(subject.release), layout, asked.port) as running, _scraped(running, asked) as url:
        found = _measured(running, url, subject, asked)
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, (imported, document) in found.imports.items():
        file = asked.out / f"{subject.name}.{name}.rest.json.gz"
        write_whole({file: packed(document, file)})
        say(f"wrote {file}")
        say("\n".join(f"  {note}" for note in imported.notes))
    attempts = [each._asdict() for each in found.attempts]
    write_whole({asked.out / f"{subject.name}.checkpoints.json": (json.dumps(attempts) + "\n").encode()})
    figures = {name: figures_of(imported) for name, (imported, _) in found.imports.items()}
    print(table_of(figures), end="")
    off = differences(figures["minute"], figures["minute_of_rest"])
    print(f"greatest difference between both readings of the last minute: {100 * max(off.values()):.1f} %")
    return 0


class _Found(NamedTuple):
    """The imports by name, each with its recording, and the checkpoints of the job."""

    imports: Mapping[str, tuple[Imported, bytes]]
    attempts: list[Attempt]


def _measured(running: Cluster, url: str, subject: Subject, asked: argparse.Namespace) -> _Found:
    job, vertices = subject.start(running, 1.0)
    say(f"{subject.name}, Flink {subject.release}: {asked.seconds} s")
    began_s = time.time()
    sampled(running, job, vertices, asked.seconds - _MINUTE_S, metrics={})
    flink, prometheus = LiveCluster(running.rest.url), PrometheusServer(url)
    recorder = Recorder(flink)
    minute_s = time.time()
    of_rest = import_scenario(recorder, job, watch_s=_MINUTE_S)
    imports = {"minute_of_rest": (of_rest, recorder.document(of_rest.scenario, of_rest.measured))}
    time.sleep(2 * asked.scrape)
    now_s = time.time()
    pasts = {
        "minute": Past(begin_s=minute_s, end_s=minute_s + _MINUTE_S, for_s=_MINUTE_S),
        "worst": Past(begin_s=began_s, end_s=now_s, for_s=asked.window),
    }
    for name, past in pasts.items():
        recorder = Recorder(PastCluster(flink, prometheus, past))
        imported = import_scenario(recorder, job)
        imports[name] = (imported, recorder.document(imported.scenario, imported.measured))
    attempts = attempts_of(running.rest, job, 1e3 * began_s)
    running.cancel(job)
    return _Found(imports, attempts)


@contextmanager
def _scraped(running: Cluster, asked: argparse.Namespace) -> Iterator[str]:
    """Scrape all processes of a cluster while the block runs; yields the address of Prometheus."""
    folder = running.folder / PROMETHEUS
    folder.mkdir()
    targets = [f"127.0.0.1:{_FIRST_PORT + number}" for number in range(len(running.processes.ids))]
    (folder / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": f"{asked.scrape}s"},
                "scrape_configs": [{"job_name": "flink", "static_configs": [{"targets": targets}]}],
            }
        ),
        "utf-8",
    )
    address = f"127.0.0.1:{asked.prometheus_port}"
    command = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    running.processes.start(PROMETHEUS, [PROMETHEUS, *command, f"--web.listen-address={address}"])
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        running.processes.check()
        try:
            if httpx.get(f"http://{address}/-/ready").is_success:
                break
        except httpx.HTTPError:
            pass
        time.sleep(0.3)
    else:
        raise TestbedError(f"Prometheus does not answer at {address}; its log is in {running.folder}")
    yield f"http://{address}"


def figures_of(imported: Imported) -> dict[str, float]:
    """Return the fitted figures of a scenario, and the durations of checkpoints."""
    figures: dict[str, float] = {}
    scenario: Scenario = imported.scenario
    for vertex, measured in zip(scenario.vertices, imported.measured.steady.vertices, strict=True):
        if isinstance(vertex.source, GeneratorSpec):
            figures[f"{vertex.name}: records/s"] = sum(vertex.source.rates) / len(vertex.source.rates)
            figures[f"{vertex.name}: bytes of a record"] = vertex.source.record_bytes
        else:
            figures[f"{vertex.name}: cost of a record, ms"] = 1e3 * (vertex.service or ((0.0, 0.0),))[0][1]
            busy = [each for each in measured.busy_ms_per_s if each is not None]
            figures[f"{vertex.name}: busy, ms/s"] = sum(busy) / len(busy) if busy else 0.0
    if (taken_ms := imported.measured.steady.end_to_end_ms) is not None:
        figures["checkpoints, ms"] = taken_ms
    return figures


def differences(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Return the relative differences of figures in both imports, except the durations of checkpoints."""
    return {
        name: abs(value - other[name]) / max(abs(other[name]), 1e-9)
        for name, value in one.items()
        if name in other and not name.startswith("checkpoints")
    }


def table_of(figures: Mapping[str, Mapping[str, float]]) -> str:
    """Return a table with a column for each import."""
    names = list(dict.fromkeys(name for each in figures.values() for name in each))
    lines = [f"{'':40}" + "".join(f"{name:>16}" for name in figures)]
    for name in names:
        cells = (each.get(name) for each in figures.values())
        lines.append(
            f"{name:40}" + "".join(f"{'-' if each is None else f'{each:.4g}':>16}" for each in cells)
        )
    return "\n".join(lines) + "\n"
