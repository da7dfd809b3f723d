"""Measures the cost of one look of adaptive partition selection: ``python -m tests.flink.look_cost``.

A source sends small records to eight consumers as fast as it can, with the selection off and with several
traverse sizes, in turns. Each record looks at as many subpartitions as the traverse size says, because all of
them hold an open buffer. So the processor time of the source's thread for each record, by the traverse size,
is a line, and its slope is the cost of one look. Other processes on the machine slow the thread down, but
their time does not count.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import linear_regression, median
from typing import NamedTuple

from netstack import Scenario, read_scenario

from .cluster import PORT, TestbedError, cluster, prepare
from .job_description import ENTRY, described, in_order, layout_of
from .measuring import say, vertices_of
from .references import whole

CONSUMERS = 8
TRAVERSE_SIZES = (2, 4, 6, 8)
OFF = 0
ROUNDS = 5

_ADAPTIVE = "taskmanager.network.adaptive-partitioner"
_WARM_UP_S, _SECONDS, _PAUSE_S = 14, 10, 0.5
_THREAD = "Source: v0 (1/1"
"""Name of the source's thread, as Linux cuts it off."""


class Point(NamedTuple):
    """Processor time for one record with one setting, in nanoseconds."""

    traverse_size: int
    """`OFF`: no adaptive selection."""
    record_ns: float


def scenario_of(traverse_size: int) -> Scenario:
    """Return the job for a traverse size, or with records sent in turns if it is `OFF`."""
    flink = {f"{_ADAPTIVE}.enabled": True, f"{_ADAPTIVE}.max-traverse-size": traverse_size}
    return read_scenario(
        {
            "name": "look cost",
            "duration": "60 s",
            "flink": {} if traverse_size == OFF else flink,
            "vertices": [
                {"name": "source", "source": {"record_bytes": 21}},
                {"name": "consumer", "parallelism": CONSUMERS},
            ],
            "edges": [{"from": "source", "to": "consumer", "ship": "rebalance"}],
        }
    )


def measured(traverse_size: int, port: int = PORT) -> Point:
    """Run the job once.

    Raises:
        TestbedError: the cluster or the job has failed, or no record was sent.
    """
    scenario = scenario_of(traverse_size)
    with cluster(prepare(), layout_of(scenario), port) as running:
        job = running.submit(ENTRY, [json.dumps(described(scenario))])
        source = vertices_of(running.rest, job, [vertex.name for vertex in in_order(scenario)])[0]
        thread = _thread(running.processes.ids[source.task_managers[0]])
        time.sleep(_WARM_UP_S)
        path = f"/jobs/{job}/vertices/{source.id}/subtasks/0/metrics?get=numRecordsOut"
        seen: dict[float, float] = {}  # the metric is fetched once a second: keep its first sight
        for _ in range(round(_SECONDS / _PAUSE_S)):
            time.sleep(_PAUSE_S)
            running.check(job)
            (metric,) = running.rest.get(path)
            seen.setdefault(
                float(metric["value"]), float((thread / "schedstat").read_text("ascii").split()[0])
            )
        running.cancel(job)
    if len(seen) < 3:
        raise TestbedError(f"the source has sent nothing for {_SECONDS} s")
    return Point(traverse_size, linear_regression(list(seen), list(seen.values())).slope)


def _thread(process: int) -> Path:
    for thread in Path(f"/proc/{process}/task").iterdir():
        if (thread / "comm").read_text("utf-8").startswith(_THREAD):
            return thread
    raise TestbedError(f"process {process} has no thread {_THREAD!r}")


def summary(points: Sequence[Point]) -> str:
    """Return the median for each setting, and the slope: the cost of one look."""
    sizes = sorted({point.traverse_size for point in points})
    lines = []
    for size in sizes:
        times = [point.record_ns for point in points if point.traverse_size == size]
        name = "off" if size == OFF else f"max-traverse-size {size}"
        lines.append(f"{name}: {median(times):.1f} ns a record ({min(times):.1f}-{max(times):.1f})")
    return "\n".join([*lines, f"one look: {_slope_ns(points):.1f} ns"])


def _slope_ns(points: Iterable[Point]) -> float:
    adaptive = [point for point in points if point.traverse_size != OFF]
    return linear_regression(
        [point.traverse_size for point in adaptive], [point.record_ns for point in adaptive]
    ).slope


def main() -> None:
    """Measure all settings in turns, every second round backwards, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.flink.look_cost")
    parser.add_argument("--rounds", type=whole, default=ROUNDS, help="of all settings (%(default)s)")
    settings, points = (OFF, *TRAVERSE_SIZES), []
    for number in range(parser.parse_args().rounds):
        for size in settings[:: -1 if number % 2 else 1]:
            points.append(measured(size))
            say(f"round {number + 1}: {points[-1]}")
    print(summary(points))


if __name__ == "__main__":
    try:
        main()
    except TestbedError as error:
        sys.exit(f"tests.flink: {error}")
