"""Jobs as people write them on an unchanged Flink, with recordings that `netstack import-flink` reads."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from integration import write_whole
from integration.cli.running_job_options import ReadingOptions, read_flink
from integration.flink import LiveCluster

from .cluster import NEWEST, RELEASES, Cluster, Layout, TestbedError, cluster, prepare, steps_file
from .debloating_steps import emulated_steps, side_by_side, steps_in
from .job_description import POLICIES, too_new
from .measuring import all_vertices, check_agent, checkpoints_of, machine, outcome, sampled, say, steady
from .references import SEEDS, whole

_DEBLOAT = "taskmanager.network.memory.buffer-debloat"
_UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "off": {},
    "adaptive": {"taskmanager.network.adaptive-partitioner.enabled": "true"},
    "unaligned": _UNALIGNED,
    "rocksdb": {"state.backend.type": "rocksdb"},
    "rocksdb_incremental": {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
    },
    "changelog": {
        "state.changelog.enabled": "true",
        "state.changelog.storage": "memory",
        "state.changelog.periodic-materialize.interval": "20 s",
    },
}
"""Options of Flink by a short name."""

_TIMED: Mapping[str, Callable[[str], Mapping[str, str]]] = {
    "on": lambda target: {f"{_DEBLOAT}.enabled": "true", f"{_DEBLOAT}.target": target},
    "unaligned_after_": lambda timeout: {
        **_UNALIGNED,
        "execution.checkpointing.aligned-checkpoint-timeout": timeout,
    },
}
_TIMED_NAME = re.compile(rf"({'|'.join(_TIMED)})([1-9]\d*)(ms|s)")
_KNOWN_SETTINGS = (
    f"{', '.join(SETTINGS)}, on300ms, unaligned_after_1s (or any other time), several joined by +"
)

BURN = "burn_"
"""Before a setting: costs are processor time, for which threads compete, instead of sleep."""


class Kind(NamedTuple):
    """A job, and the cluster that it runs in."""

    entry: str
    task_managers: int
    slots: int


_OF_FOUR_SLOTS = (
    "wordcount", "enrich", "windows", "etl", "alerts", "sessions", "merge", "rules", "lookups", "intervals",
    "slow_windows", "slow_sessions", "small_clicks", "amplify10", "amplify100", "large_records", "alternates",
    "stalls",
)  # fmt: skip
_QUERIES = ("nexmark_q3", "nexmark_q4", "nexmark_q8", "nexmark_q17", "nexmark_q19", "nexmark_q20")
_ORDINARY, _SQL = "testbed.OrdinaryJobs", "testbed.NexmarkSql"
JOBS: Mapping[str, Kind] = {
    **{name: Kind(_ORDINARY, 2, 2) for name in _OF_FOUR_SLOTS},
    "state": Kind(_ORDINARY, 1, 2),
    **{name: Kind(_SQL, 2, 2) for name in _QUERIES},
}

_FLINKS = "flink"
_NETWORK_BYTES = 128 << 20
_BETWEEN = ":"


class Asked(NamedTuple):
    """A job, its setting, and options that replace those of the setting."""

    job: str
    setting: str
    changes: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        return f"{self.job}_{self.setting}" + ("_changed" if self.changes else "")

    @property
    def burns(self) -> bool:
        return self.setting.startswith(BURN)

    @property
    def arguments(self) -> list[str]:
        """Those of the Java job."""
        return [self.job, *(["burn"] if self.burns else [])]

    @property
    def options(self) -> dict[str, str]:
        of_setting = _options_of(self.setting.removeprefix(BURN))
        return {"execution.checkpointing.interval": "2 s", **of_setting, **self.changes}


def _options_of(setting: str) -> dict[str, str]:
    """Return the options of a setting, or of several joined by ``+``.

    Raises:
        KeyError: there is no such setting.
    """
    options: dict[str, str] = {}
    for part in setting.split("+"):
        timed = _TIMED_NAME.fullmatch(part)
        options |= _TIMED[timed[1]](f"{timed[2]} {timed[3]}") if timed else SETTINGS[part]
    return options


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    known = f"JOB is one of {', '.join(JOBS)}; SETTING one of {_KNOWN_SETTINGS}, or {BURN} before one"
    parser.add_argument("jobs", nargs="+", metavar="JOB:SETTING", help=known)
    parser.add_argument("--seconds", type=whole, default=75, help="how long to measure (%(default)s)")
    parser.add_argument(
        "--policy", choices=POLICIES, default=_FLINKS, help="of debloating; its name comes behind the files'"
    )
    parser.add_argument(
        "--steps",
        action="store_true",
        help="show the inputs of each step of debloating too, in Flink and in the imported job",
    )
    parser.add_argument(
        "--seeds", type=whole, default=SEEDS, help="of the emulator, for --steps (%(default)s)"
    )
    parser.add_argument(
        "--flink", choices=RELEASES.values(), default=NEWEST, help="release of Flink (%(default)s)"
    )
    parser.add_argument("--warmup", type=whole, default=25, help="seconds that do not count (%(default)s)")


def run(options: argparse.Namespace) -> int:
    """Measure ordinary jobs on a Flink, unchanged but for its debloating policy, and record its REST API."""
    wanted = [asked_for(text, options.flink) for text in options.jobs]
    for asked in wanted:
        if options.steps and f"{_DEBLOAT}.enabled" not in asked.options:
            raise TestbedError(f"--steps: {asked.name} runs without debloating, so there are no steps")
    check_warmup(options)
    for asked in wanted:
        say(f"{asked.name}, {options.policy}, Flink {options.flink}: {options.seconds} s, then a recording")
        measure(asked, options)
    return 0


def check_warmup(options: argparse.Namespace) -> None:
    """Refuse a warm-up that is as long as the whole run.

    Raises:
        TestbedError: it is.
    """
    if options.warmup >= options.seconds:
        raise TestbedError(f"--warmup {options.warmup}: leaves nothing of --seconds {options.seconds}")


def asked_for(text: str, release: str = NEWEST) -> Asked:
    """Read ``JOB:SETTING``; without a setting it is "off".

    Raises:
        TestbedError: there is no such job or setting, or this release of Flink does not have it yet.
    """
    job, _, setting = text.partition(_BETWEEN)
    asked = Asked(job, setting or "off")
    if job not in JOBS:
        raise TestbedError(f"{text}: there is no job {job!r}; there are {', '.join(JOBS)}")
    try:
        chosen = asked.options
    except KeyError:
        raise TestbedError(f"{text}: there is no setting {setting!r}; there are {_KNOWN_SETTINGS}") from None
    for name, message in too_new(chosen, release):
        raise TestbedError(f"{text}: {name} {message}")
    return asked


def layout_of(asked: Asked) -> Layout:
    """Return the cluster of a job: its task managers, and the options of its setting."""
    kind = JOBS[asked.job]
    return Layout(
        task_managers=[{}] * kind.task_managers,
        slots=kind.slots,
        options=asked.options,
        network_bytes=_NETWORK_BYTES,
    )


def measure(asked: Asked, options: argparse.Namespace) -> None:
    """Run a job, and write what it shows and a recording of it.

    Raises:
        TestbedError: the cluster or the job has failed.
    """
    layout = dataclasses.replace(layout_of(asked), policy=options.policy, steps=options.steps)
    name = asked.name if options.policy == _FLINKS else f"{asked.name}.{options.policy}"
    options.out.mkdir(parents=True, exist_ok=True)
    recording = options.out / f"{name}.rest.json.gz"
    with cluster(prepare(options.flink), layout, options.port) as running:
        job = running.submit(JOBS[asked.job].entry, asked.arguments)
        if layout.changed:
            check_agent(running)
        document, began_ms = _document(running, job, asked, options)
        imported = read_flink(
            LiveCluster(running.rest.url), job, ReadingOptions(recording=recording, inputs=("join",))
        )
        running.cancel(job)
        files = [steps_file(running.folder, manager) for manager in running.processes.ids]
        names = {vertex.name: imported.job.names[vertex.id] for vertex in imported.job.vertices}
        steps = steps_in(files, names.__getitem__, began_ms) if options.steps else []
    _write(options.out / f"{name}.json", document)
    say(f"  {outcome(document)}; {recording} has {len(imported.scenario.vertices)} vertices")
    if steps:
        (options.out / f"{name}.steps.json").write_text(json.dumps(steps), "utf-8")
        scenario = dataclasses.replace(
            imported.scenario,
            config=dataclasses.replace(imported.scenario.config, debloat_policy=options.policy),
        )
        ours = [emulated_steps(scenario, seed) for seed in range(1, options.seeds + 1)]
        print(side_by_side([steps], ours, [(options.warmup, options.seconds)]), end="")


def _document(
    running: Cluster, job: str, asked: Asked, options: argparse.Namespace
) -> tuple[dict[str, Any], float]:
    """Watch a job; returns what it shows, as `tests/data/flink-reference` has it, and when that began."""
    vertices = all_vertices(running.rest, job)
    samples, began_ms = sampled(running, job, vertices, options.seconds)
    checkpoints, failed = checkpoints_of(running.rest, job, vertices, began_ms)
    window = (options.warmup, options.seconds)
    document = {
        "scenario": asked.name,
        "policy": options.policy,
        "flink_options": asked.options,
        "versions": {"flink": options.flink},
        "machine": machine(),
        "failed_checkpoints": failed,
        "steady": [steady(window, vertices, samples.times, samples.series, checkpoints)],
        "checkpoints": checkpoints,
        "t": samples.times,
        "series": samples.series,
    }
    return document, began_ms


def _write(file: Path, document: Mapping[str, Any]) -> None:
    write_whole({file: (json.dumps(document, separators=(",", ":")) + "\n").encode()})
