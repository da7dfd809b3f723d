"""Whether `tune` gives the same advice for the same job with other seeds, printed as Markdown.

Run it with ``python -m benches.advice [SCENARIO ...]``; it takes some minutes a job. The jobs are those in
``docs/examples/jobs`` unless others are named. Of each, every setting is run with a pool of seeds; then tune
decides again and again, each time with the seeds of the pool in another order, and asks for more of them as
it would do on its own. A table has what it advised how often, whether all of that is one target and its
neighbours, how many runs it took, and what was advised against: the figures of the present setting and of
each target that was chosen, over the whole pool.

``--pool 40 --groups 20 --out FOLDER``; what is finished is kept in the folder and not run again.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from integration import load_scenario
from integration.spark import (
    DEFAULT_TARGETS,
    Axis,
    Constraints,
    Grid,
    Point,
    PointRow,
    Probe,
    Recommendation,
    advise,
    probes_of,
    read_axes,
    recommend,
    run_points,
)
from netstack import Scenario, format_duration

JOBS = Path(__file__).parents[1] / "docs" / "examples" / "jobs"
MAIN: tuple[Probe, ...] = ("main", "baseline")
MOST_SEEDS = 20
"""Most seeds that tune gives a setting."""

Row = tuple[str, int]
"""Key of a row of a pool: setting and seed."""


def setting(point: Point | PointRow) -> str:
    """The target of a point, "off" where it has none."""
    return point.labels.get("target", "off")


class Pool:
    """Rows of all settings with many seeds, dealt out in an order of seeds that each group draws."""

    def __init__(self, rows: Sequence[PointRow], seeds: Sequence[int], group: int) -> None:
        self.rows: dict[Row, PointRow] = {(setting(row), row.seed): row for row in rows}
        self.seeds = random.Random(group).sample(list(seeds), len(seeds))
        self.first = min(seeds)

    def __call__(self, points: Sequence[Point], known: Sequence[PointRow], why: str) -> list[PointRow]:
        """Answer with rows of the pool; a probe, by which nothing is decided, has not been run."""
        return [self._row(point) for point in points]

    def _row(self, point: Point) -> PointRow:
        seed = self.seeds[point.seed - self.first]
        if point.probe in MAIN:
            row = self.rows[setting(point), seed]
            return msgspec.structs.replace(row, key=point.key, seed=point.seed, labels=point.labels)
        row = self.rows["off", seed]
        return msgspec.structs.replace(
            row, key=point.key, labels=point.labels, probe=point.probe, status="failed", measures=None
        )


def axes_of(scenario: Scenario) -> Sequence[Axis]:
    """The targets that are tried: those that `tune` tries, and the present one."""
    config = scenario.config
    present = [format_duration(config.debloat_target_s)] if config.debloat_enabled else []
    return read_axes(target=",".join([DEFAULT_TARGETS, *present]))


def whole_pool(scenario: Scenario, count: int, out: Path) -> list[PointRow]:
    """All settings of a scenario with that many seeds."""
    points = Grid(tuple(axes_of(scenario)), count).points(scenario, lambda varied: probes_of(varied, MAIN))
    print(f"{scenario.name}: {len(points)} points", flush=True)
    return run_points(points, None, out)


def neighbours(chosen: Sequence[str], found: Recommendation) -> bool:
    """Whether all that was chosen is one setting and one beside it."""
    order = [*(one.target for one in found.targets), "off"]
    places = {order.index(target) for target in chosen}
    return max(places) - min(places) <= 1


def figures(found: Recommendation, target: str, text: Callable[[float], str] = "{:.3g}".format) -> str:
    """Checkpoint time and share of the present throughput, over the whole pool."""
    one = next(one for one in found.settings if one.target == target)
    time, share = one.end_to_end_ms, one.throughput_share
    return f"{target}: {text(time.mean if time else 0.0)} ms, {text(share.mean if share else 0.0)}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scenarios", nargs="*", type=Path)
    parser.add_argument("--pool", type=int, default=40)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("netstack-advice"))
    given = parser.parse_args()
    lines = []
    for file in given.scenarios or sorted(JOBS.glob("*.toml")):
        scenario = load_scenario(file)
        rows = whole_pool(scenario, given.pool, given.out)
        seeds = [scenario.seed + number for number in range(given.pool)]
        of_all = recommend(rows, scenario)
        chosen, spent = Counter[str](), []
        for group in range(given.groups):
            dealt, most = Pool(rows, seeds, group), min(given.pool, MOST_SEEDS)
            found = advise(scenario, axes_of(scenario), Constraints(), dealt, most_seeds=most)
            chosen[found.recommendations[0].advised.target] += 1
            spent.append(sum(len(one.seeds) for one in found.recommendations[0].settings))
        counts = ", ".join(f"{target} ({count})" for target, count in chosen.most_common())
        same = "yes" if neighbours(list(chosen), of_all) else "no"
        shown = "; ".join(figures(of_all, target) for target in dict.fromkeys([of_all.current, *chosen]))
        lines.append(
            f"| {file.stem} | {of_all.current} | {counts} | {same} | {of_all.advised.target} "
            f"| {min(spent)} to {max(spent)} | {shown} |"
        )
        print(lines[-1], flush=True)
    print("\n| job | now | advised (groups) | one and its neighbour | whole pool | runs | ms, throughput |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
