"""The processor time that a buffer and a checkpoint cost a real Flink, by the threads that spend it.

Each run is a job whose consumers wait, at one size of buffers, one parallelism and one checkpoint interval::

    source ---- all buffers cross a connection ----> consumer
    task manager 0                                    task manager 1

Linux counts the processor time of each thread, and Java gives threads their names. So the time of tasks and
of the network can be separated from that of the compiler, of metrics and of garbage collection. These differ
between two runs of one job by more than the cost of a buffer.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from integration import write_whole
from integration.base.optional_figures import known
from netstack import Scenario, read_scenario

from .cluster import NEWEST, Cluster, TestbedError, cluster, prepare
from .job_description import described, layout_of
from .measuring import checkpoints_of, growth, machine, sampled, say, submitted
from .ordinary_jobs import check_warmup
from .references import whole

_GROUPS: Mapping[str, Sequence[str]] = {
    "task": ("v", "Source: v"),
    "network": ("Flink Netty",),
    "flusher": ("OutputFlusher",),
    "checkpoint": ("AsyncOperations", "jobmanager-io", "Checkpoint"),
    "rpc": ("flink-pekko", "flink-scheduler"),
    "collector": ("GC Thread", "G1 "),
    "compiler": ("C1 Compiler", "C2 Compiler"),
}
"""The beginnings of the names of threads, by what they do; all others are "other"."""


class Row(NamedTuple):
    """A run: what happened in a second, and the cores that each group of threads took."""

    parallelism: int
    segment: str
    target: str
    interval: str
    records_per_s: float
    buffers_per_s: float
    checkpoints_per_s: float
    cores: Mapping[str, Mapping[str, float]]
    """Cores in use, for each process and each group of threads."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what `costs` takes."""
    parser.add_argument("--parallelism", type=whole, nargs="+", default=[2], help="of both vertices")
    parser.add_argument("--segments", nargs="+", default=["32 kb"], help="sizes of buffers")
    parser.add_argument("--targets", nargs="+", default=["off"], help="debloat targets, or off")
    parser.add_argument("--intervals", nargs="+", default=["60 s"], help="of checkpoints")
    parser.add_argument("--service", default="500 us", help="of a record, at a consumer (%(default)s)")
    parser.add_argument("--mode", choices=("throttle", "burn"), default="throttle")
    parser.add_argument("--rate", type=float, help="records/s of each source (as fast as they can)")
    parser.add_argument("--record-bytes", type=whole, default=1013, help="(%(default)s)")
    parser.add_argument("--warmup", type=whole, default=20, help="seconds that do not count (%(default)s)")
    parser.add_argument("--seconds", type=whole, default=45, help="of each run (%(default)s)")


def run(asked: argparse.Namespace) -> int:
    """Measure the processor time of threads, at several sizes of buffers, parallelisms and intervals."""
    rows = []
    check_warmup(asked)
    asked.out.mkdir(parents=True, exist_ok=True)
    for each in itertools.product(asked.parallelism, asked.segments, asked.targets, asked.intervals):
        row = _measured(*each, asked)
        rows.append(row)
        say(_line(row))
        document = {"machine": machine(), "rows": [one._asdict() for one in rows]}
        write_whole({asked.out / "thread-costs.json": json.dumps(document).encode()})
    return 0


def _measured(parallelism: int, segment: str, target: str, interval: str, asked: argparse.Namespace) -> Row:
    scenario = _scenario(parallelism, segment, target, interval, asked)
    description = json.dumps(described(scenario))
    with cluster(prepare(NEWEST), layout_of(scenario), asked.port) as running:
        job, _, vertices = submitted(running, scenario, description)
        sampled(running, job, vertices, asked.warmup, metrics={})
        before, began = _times(running), time.monotonic()
        samples, began_ms = sampled(running, job, vertices, asked.seconds - asked.warmup)
        after, seconds = _times(running), time.monotonic() - began
        completed, _ = checkpoints_of(running.rest, job, vertices, began_ms)
        running.cancel(job)
    inside = (0.0, seconds)

    def rate(vertex: int, metric: str) -> float:
        rates = [growth(samples.times, each, inside) for each in samples.series[vertex][metric]]
        if None in rates:
            raise TestbedError(f"{metric} is unknown, since there are too few samples; give more --seconds")
        return sum(known(rates))

    return Row(
        parallelism,
        segment,
        target,
        interval,
        records_per_s=rate(1, "numRecordsIn"),
        buffers_per_s=rate(0, "numBuffersOut"),
        checkpoints_per_s=sum(each["t"] >= 0 for each in completed) / seconds,
        cores={
            name: {
                group: round((after[name][group] - before[name][group]) / seconds, 5) for group in after[name]
            }
            for name in after
        },
    )


def _scenario(
    parallelism: int, segment: str, target: str, interval: str, asked: argparse.Namespace
) -> Scenario:
    source: dict[str, object] = {"record_bytes": asked.record_bytes}
    if asked.rate:
        source["rate"] = asked.rate
    flink = {"execution.checkpointing.interval": interval, "taskmanager.memory.segment-size": segment}
    if target != "off":
        flink["taskmanager.network.memory.buffer-debloat.enabled"] = "true"
        flink["taskmanager.network.memory.buffer-debloat.target"] = target
    return read_scenario(
        {
            "name": "costs",
            "duration": f"{asked.seconds} s",
            "warmup": f"{asked.warmup} s",
            "flink": flink,
            "vertices": [
                {
                    "name": "source",
                    "parallelism": parallelism,
                    "task_manager": "feeder",
                    "source": source,
                },
                {
                    "name": "consumer",
                    "parallelism": parallelism,
                    "task_manager": "worker",
                    "service": asked.service,
                    "service_mode": asked.mode,
                },
            ],
            "edges": [{"from": "source", "to": "consumer"}],
        }
    )


def _times(running: Cluster) -> dict[str, Counter[str]]:
    """Return the processor time of each process so far, in seconds, by group of threads."""
    return {name: thread_times(process) for name, process in running.processes.ids.items()}


def thread_times(process: int) -> Counter[str]:
    """Return the processor time of a process so far, in seconds, by group of threads."""
    times: Counter[str] = Counter(dict.fromkeys((*_GROUPS, "other"), 0.0))
    for folder in Path(f"/proc/{process}/task").iterdir():
        try:
            name = (folder / "comm").read_text("utf-8")
            # The scheduler's count is exact to the nanosecond, and that of ticks to 10 ms.
            nanoseconds = int((folder / "schedstat").read_text("ascii").split()[0])
        except OSError:  # the thread has ended
            continue
        times[_group_of(name)] += 1e-9 * nanoseconds
    return times


def _group_of(thread: str) -> str:
    for group, beginnings in _GROUPS.items():
        if thread.startswith(tuple(beginnings)):
            return group
    return "other"


def _line(row: Row) -> str:
    shown = (
        f"{name}: " + " ".join(f"{group} {value:.3f}" for group, value in groups.items() if value >= 0.0005)
        for name, groups in row.cores.items()
    )
    return (
        f"{row.parallelism} x {row.parallelism}, {row.segment}, {row.target}, {row.interval}: "
        f"{row.records_per_s:.0f} records/s, {row.buffers_per_s:.0f} buffers/s, "
        f"{row.checkpoints_per_s:.2f} checkpoints/s\n    " + "\n    ".join(shown)
    )
