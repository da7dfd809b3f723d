"""Checks whether `tune` gives the same advice for a job with other seeds; prints a table as Markdown.

Run it with ``python -m benches.advice [SCENARIO ...]``; it takes some minutes for each job. The jobs are
those in ``docs/examples/jobs`` unless others are named. `tune` decides 20 times, in groups that each draw
other seeds out of 40 (``--groups 20 --pool 40``). The table shows how often each setting was advised, and
whether only one setting and its neighbour in the list of settings were advised. It also shows the number of
runs, and the figures of the advised setting over all groups.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from os import cpu_count
from pathlib import Path
from statistics import fmean

import msgspec

from integration import load_scenario
from integration.advise.sweeps.points import point_of
from integration.advise.sweeps.sweep import LocalProcesses
from integration.tuning import Point, PointRow, Recommendation, advise, run_points
from netstack import Scenario, read_scenario

JOBS = Path(__file__).parents[1] / "docs" / "examples" / "jobs"


class Group:
    """One call of `advise`, with the seeds in an order of its own.

    It runs the points that `advise` asks for, and reuses the runs of earlier calls.
    """

    def __init__(self, seeds: Sequence[int], group: int, rows: dict[str, PointRow], local: LocalProcesses):
        self._seeds = random.Random(group).sample(list(seeds), len(seeds))
        self._first = min(seeds)
        self._rows = rows
        self._local = local
        self.runs = 0

    def __call__(self, points: Sequence[Point], why: str) -> list[PointRow]:
        """Return the results of points, one row for each."""
        self.runs += len(points)
        drawn = [self._with_own_seed(point) for point in points]
        missing = [point for point in drawn if point.key not in self._rows]
        self._rows |= {row.key: row for row in run_points(missing, processes=self._local)}
        return [
            msgspec.structs.replace(self._rows[own.key], key=point.key, seed=point.seed, labels=point.labels)
            for own, point in zip(drawn, points, strict=True)
        ]

    def _with_own_seed(self, point: Point) -> Point:
        seed = self._seeds[point.seed - self._first]
        return point_of(read_scenario(point.document), point.labels, seed, point.probe)


def are_neighbours(found: Sequence[Recommendation]) -> bool:
    """Return whether only one setting, or two neighbours in the list of settings, were advised."""
    order = [setting.name for setting in found[0].settings]
    places = {order.index(each.chosen) for each in found if each.chosen in order}
    return max(places) - min(places) <= 1


def figures(found: Sequence[Recommendation], name: str) -> str:
    """Return the checkpoint time and the share of the throughput of a setting, as means over groups."""
    chosen = [each.at(name) for each in found if each.chosen == name or name == "now"]
    times = [time for each in chosen if (time := each.mean("end_to_end_ms")) is not None]
    shares = [each.throughput_share.mean for each in chosen if each.throughput_share is not None]
    took = f"{fmean(times):.0f} ms" if times else "no checkpoints"
    return f"{name}: {took}, {fmean(shares):.3f}"


def line_of(scenario: Scenario, name: str, groups: int, pool: int) -> str:
    """Return a row of the table for a job."""
    seeds = [scenario.seed + number for number in range(pool)]
    rows: dict[str, PointRow] = {}
    found, runs = [], []
    with LocalProcesses(cpu_count() or 1) as local:
        for number in range(groups):
            group = Group(seeds, number, rows, local)
            found.append(advise(scenario, group).recommendations[0])
            runs.append(group.runs)
    counts = Counter(each.chosen for each in found).most_common()
    advised = ", ".join(f"{chosen} ({count})" for chosen, count in counts)
    shown = "; ".join(figures(found, each) for each in dict.fromkeys(["now", *(one for one, _ in counts)]))
    same = "yes" if are_neighbours(found) else "no"
    return f"| {name} | {found[0].present} | {advised} | {same} | {min(runs)} to {max(runs)} | {shown} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scenarios", nargs="*", type=Path)
    parser.add_argument("--pool", type=int, default=40)
    parser.add_argument("--groups", type=int, default=20)
    given = parser.parse_args()
    print(
        "| job | now | advised, in how many groups | only one setting, or two neighbours | runs in one group "
        "| checkpoint time, share of throughput |"
    )
    print("|---|---|---|---|---|---|", flush=True)
    for file in given.scenarios or sorted(JOBS.glob("*.toml")):
        print(line_of(load_scenario(file), file.stem, given.groups, given.pool), flush=True)


if __name__ == "__main__":
    main()
