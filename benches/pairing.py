"""Measures how much a comparison of two settings gains from equal seeds; prints a table as Markdown.

Run it with ``python -m benches.pairing [SCENARIO ...]``; six jobs take about two minutes. Each job runs with
its present setting and with a debloat target of 200 ms (``--target-ms``), both with the same eight seeds
(``--seeds``). For the mean difference of a figure, the table has two standard errors: the one that it would
have if the runs were independent, and the one from the differences of runs with equal seeds. If both are
equal, the same seed has no common effect on the two runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import hypot
from os import cpu_count
from pathlib import Path
from statistics import fmean

from integration import load_scenario
from integration.advise.sweeps.confidence import standard_error
from integration.advise.sweeps.points import point_of
from integration.advise.sweeps.sweep import LocalProcesses
from integration.tuning import run_points
from netstack import Scenario, with_options

ROOT = Path(__file__).parents[1]
JOBS = {
    "debloated": "docs/examples/jobs/rest_200KBs_on1s.toml",
    "unaligned": "tests/data/flink-reference/2x2_200KBs_unaligned.toml",
    "skewed": "tests/data/flink-reference/4x4_1MBs_skewed_consumers_off.toml",
    "vertex in the middle": "docs/examples/jobs/etl_off.toml",
    "paced": "tests/data/flink-reference/2x2_unsaturated_on100ms.toml",
    "saturated": "tests/data/flink-reference/2x2_1MBs_off.toml",
}
FIGURES = {
    "end_to_end_ms": "checkpoint time, ms",
    "start_delay_ms": "start delay, ms",
    "throughput_per_s": "throughput, 1/s",
}


def with_target(scenario: Scenario, target_s: float) -> Scenario:
    """Return a scenario with debloating at a target."""
    options = {"debloat_enabled": True, "debloat_target_s": target_s}
    return replace(scenario, config=with_options(scenario.config, options))


def lines(name: str, settings: Sequence[Scenario], seeds: int, local: LocalProcesses) -> Iterator[str]:
    """Yield a row of the table for each figure of a job. Failed runs and unknown figures are left out."""
    labels = [{"setting": str(number)} for number in range(len(settings))]
    points = [
        point_of(setting, label, setting.seed + number)
        for setting, label in zip(settings, labels, strict=True)
        for number in range(seeds)
    ]
    runs = [row.measures for row in run_points(points, processes=local)]
    for figure, text in FIGURES.items():
        pairs = [
            (before, after)
            for one, other in zip(runs[:seeds], runs[seeds:], strict=True)
            if (before := getattr(one, figure, None)) is not None
            and (after := getattr(other, figure, None)) is not None
        ]
        if len(pairs) < 2:
            yield f"| {name} | {text} | | | | | {len(pairs)} |"
            continue
        now, then = zip(*pairs, strict=True)
        independent = hypot(standard_error(now), standard_error(then))
        paired = standard_error([after - before for before, after in pairs])
        yield (
            f"| {name} | {text} | {fmean(now):.4g} | {fmean(then):.4g} | {independent:.3g} | {paired:.3g} "
            f"| {len(pairs)} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scenarios", nargs="*", type=Path)
    parser.add_argument("--target-ms", type=float, default=200.0)
    parser.add_argument("--seeds", type=int, default=8)
    given = parser.parse_args()
    jobs = {file.stem: file for file in given.scenarios} or {name: ROOT / file for name, file in JOBS.items()}
    print(
        f"| job | figure | mean now | mean with target {given.target_ms:g} ms | standard error, independent "
        "| standard error, paired | pairs |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    with LocalProcesses(cpu_count() or 1) as local:
        for name, file in jobs.items():
            now = load_scenario(file)
            settings = (now, with_target(now, given.target_ms / 1e3))
            for line in lines(name, settings, given.seeds, local):
                print(line, flush=True)


if __name__ == "__main__":
    main()
