"""Compares the time of a sweep over Spark with that of its emulations; prints a table as Markdown.

Run it with ``python -m benches.sweep``; it takes some minutes. The job is ``4x4_1MBs`` for 60 emulated
seconds, with targets from 50 ms to 2 s. The time of the sweep is compared with two sums. The first is the sum
of the ``wall_seconds`` of its points, which run at the same time. The second is an estimate for the same
emulations one after the other: before Spark starts, one seed of each target runs on the otherwise idle
machine.

``python -m benches.sweep 4 5 10`` has 4 targets, 5 seeds and 10 emulated seconds.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from integration.spark import spark_session
from integration.tuning import Grid, PointRow, option_axes, run_points
from netstack import OPTIONS, Scenario, emulate

from .jobs import job

TARGETS, SEEDS, SECONDS = 20, 10, 60.0
LEAST_MS, MOST_MS = 50, 2000
ALLOWED = 1.2
"""Maximum time of a sweep after the start of Spark, as a multiple of its emulations' time / cores."""


def grid(targets: int, seeds: int) -> Grid:
    """Return a grid of debloat targets, in whole milliseconds with equal ratios between neighbours."""
    ratio = (MOST_MS / LEAST_MS) ** (1 / max(1, targets - 1))
    sizes = [round(LEAST_MS * ratio**number) for number in range(targets)]
    values = ",".join(f"{size}ms" for size in sizes)
    return Grid(option_axes([f"{OPTIONS['debloat_target_s'].name}={values}"]), seeds)


def alone(scenario: Scenario, wanted: Grid) -> float:
    """Return the estimated seconds of all points one after the other, from running one seed of each value."""
    (axis,) = wanted.axes
    return wanted.seeds * sum(emulate(value.change(scenario)).wall_seconds for value in axis.values)


def swept(scenario: Scenario, wanted: Grid) -> tuple[float, float, Sequence[PointRow]]:
    """Return the seconds to start Spark, the seconds to run the points, and the rows of the points."""
    begun = perf_counter()
    session = spark_session("local[*]", small=True)
    session.range(1).count()
    started = perf_counter()
    with tempfile.TemporaryDirectory() as out:
        rows = run_points(wanted.points(scenario), session, Path(out))
    ended = perf_counter()
    session.stop()
    return started - begun, ended - started, rows


def main() -> None:
    """Print the table."""
    targets, seeds, seconds = [float(text) for text in sys.argv[1:]] or (TARGETS, SEEDS, SECONDS)
    base = job(4, seconds)
    config = dataclasses.replace(base.config, debloat_enabled=True)
    scenario = dataclasses.replace(base, name="4x4_1MBs", warmup_s=seconds / 3, config=config)
    wanted, cores = grid(int(targets), int(seeds)), os.cpu_count() or 1
    single = alone(scenario, wanted) / cores
    start, took, rows = swept(scenario, wanted)
    within = sum(row.wall_seconds for row in rows) / cores
    failed = sum(row.status != "finished" for row in rows)
    print(f"{cores} cores, Python {sys.version.split()[0]}\n")
    print("| points | failed | Spark's start, s | sweep, s | its runs / cores, s | runs alone / cores, s |")
    print("|---:|---:|---:|---:|---:|---:|")
    print(f"| {len(rows)} | {failed} | {start:.1f} | {took:.1f} | {within:.1f} | {single:.1f} |\n")
    ratios = f"{took / within:.2f} times its own runs, {took / single:.2f} times those alone"
    print(f"{ratios}; {ALLOWED} are allowed")


if __name__ == "__main__":
    main()
