"""Compares debloating policies by delay, throughput, time to adapt and worst case; prints tables as Markdown.

Run it with ``python -m benches.policies``; docs/studies/POLICIES.md has some of the tables. ``--seeds N``,
``--first-seed S`` and ``--only NAME,...`` select the seeds and the scenarios. It takes about ten minutes on
two cores. All runs are in virtual time, and figures are measured after a warm-up. Each figure is a median
over the seeds, unless stated otherwise:

- end to end: median duration of the checkpoints of a run, with the minimum and maximum over the runs;
- record delay: time from the emission of a record by the vertex before the sink until the sink reads it,
  median over one sample a second;
- longest checkpoint: the longest of all seeds;
- throughput: records per second into the sink, relative to the policy "flink";
- time to adapt: time from a change of the load until all checkpoints before the next change take at most
  twice the target, for the change with the slowest adaptation.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from statistics import median

import msgspec
import numpy as np

from integration.runs.measures import reached
from netstack import Result, emulate

from .policy_scenarios import CASES, SINK, Case
from .studied_policies import STUDIED

SEEDS = 3
PROCESSES = 2
DEFAULT = "flink"
BAND = 2.0


class RunFigures(msgspec.Struct, frozen=True):
    """The figures of one run."""

    end_to_end_ms: float
    delay_ms: float
    worst_ms: float
    records_per_s: float
    adaptation_s: float | None


def run(case: int, policy: str, seed: int) -> RunFigures:
    """Run one scenario with one policy and one seed."""
    chosen = CASES[case]
    config = dataclasses.replace(chosen.scenario.config, debloat_policy=policy)
    return figures_of(emulate(dataclasses.replace(chosen.scenario, config=config), seed=seed), chosen)


def figures_of(result: Result, case: Case) -> RunFigures:
    """Return the figures of a run."""
    done = durations(result)
    counted = [duration for at, duration in done if at >= case.scenario.warmup_s]
    series = next(series for series in result.series if series.vertex == SINK)
    read = [sum(subtask) for subtask in zip(*series.numRecordsIn, strict=True)]
    first = next(place for place, at in enumerate(series.t) if at >= case.scenario.warmup_s)
    target_ms = case.scenario.config.debloat_target_s * 1000
    adaptations = [adaptation(done, window, target_ms) for window in case.changes]
    return RunFigures(
        end_to_end_ms=median(counted),
        delay_ms=record_delay_ms(result, case),
        worst_ms=max(counted),
        records_per_s=(read[-1] - read[first]) / (series.t[-1] - series.t[first]),
        adaptation_s=max(adaptations, default=None),
    )


def durations(result: Result) -> list[tuple[float, float]]:
    """Return the trigger time in seconds and the duration in ms of each completed checkpoint."""
    return [(one.t, one.duration_ms) for one in result.checkpoints if one.duration_ms is not None]


def adaptation(done: list[tuple[float, float]], window: tuple[float, float], target_ms: float) -> float:
    """Return the seconds from the start of a window until checkpoints are short and stay so until its end."""
    start, end = window
    inside = [(at, duration) for at, duration in done if start <= at < end]
    late = [place for place, (_, duration) in enumerate(inside) if duration > BAND * target_ms]
    if not late:
        return 0.0
    after = late[-1] + 1
    return inside[after][0] - start if after < len(inside) else end - start


def record_delay_ms(result: Result, case: Case) -> float:
    """Return the median time from a sample until the sink has read all records sent before the sample."""
    producers = {edge.source for edge in case.scenario.edges if edge.target == SINK}
    sink = next(series for series in result.series if series.vertex == SINK)
    times, read = np.array(sink.t), np.sum(sink.numRecordsIn, axis=0)
    sent = sum(np.sum(one.numRecordsOut, axis=0) for one in result.series if one.vertex in producers)
    counted = (read[0] < sent) & (sent <= read[-1]) & (times >= case.scenario.warmup_s)
    delays = np.maximum(0.0, reached(times, read, sent) - times)[counted]
    return float(np.median(delays)) * 1000


def scenarios(cases: list[Case]) -> str:
    """Return a table that describes the scenarios."""
    lines = ["| scenario | description | target, ms |", "|---|---|---:|"]
    lines += [f"| {case.scenario.name} | {case.about} | {target(case):.0f} |" for case in cases]
    return "\n".join(lines) + "\n"


def table(title: str, all_runs: list[tuple[Case, dict[str, list[RunFigures]]]]) -> str:
    """Return the table of one measure, with a column for each policy.

    It has a row for each scenario that has this measure.
    """
    lines = [f"**{title}**\n", f"| scenario | {' | '.join(STUDIED)} |", "|---|" + "---:|" * len(STUDIED)]
    for case, runs in all_runs:
        cells = [MEASURES[title](runs[policy], runs[DEFAULT]) for policy in STUDIED]
        if any(cells):
            lines.append(f"| {case.scenario.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def end_to_end(found: list[RunFigures], _base: list[RunFigures]) -> str:
    """Return the median, the minimum and the maximum over the seeds, as a cell."""
    ends = [one.end_to_end_ms for one in found]
    return f"{median(ends):.0f} ({min(ends):.0f}-{max(ends):.0f})"


def adapts_in(found: list[RunFigures], _base: list[RunFigures]) -> str:
    """Return the seconds to adapt as a cell, empty if the load does not change."""
    adapted = [one.adaptation_s for one in found if one.adaptation_s is not None]
    return f"{median(adapted):.1f}" if adapted else ""


MEASURES: dict[str, Callable[[list[RunFigures], list[RunFigures]], str]] = {
    "End to end, ms": end_to_end,
    "Longest checkpoint, ms": lambda found, _: f"{max(one.worst_ms for one in found):.0f}",
    "Record delay, ms": lambda found, _: f"{median(one.delay_ms for one in found):.0f}",
    "Throughput": lambda found, base: f"{rate(found) / rate(base):.1%}",
    "Time to adapt, s": adapts_in,
}
"""Function that returns a cell of a table, by the title of the table."""


def summary(all_runs: list[tuple[Case, dict[str, list[RunFigures]]]]) -> str:
    """Return a table of the checkpoint times of each policy relative to the target.

    It also counts the scenarios in which the policy is not worse than the default.
    """
    lines = [
        "| policy | end to end / target: median | end to end / target: greatest "
        "| longest checkpoint / target: greatest | lowest throughput | not worse than flink in scenarios |",
        "|---|" + "---:|" * 5,
    ]
    for policy in STUDIED:
        rows = [(case, runs[policy], runs[DEFAULT]) for case, runs in all_runs]
        missed = [median(one.end_to_end_ms for one in own) / target(case) for case, own, _ in rows]
        worst = [max(one.worst_ms for one in own) / target(case) for case, own, _ in rows]
        rates = [rate(own) / rate(base) for _, own, base in rows]
        good = sum(not_worse(own, base) for _, own, base in rows)
        lines.append(
            f"| {policy} | {median(missed):.2f} | {max(missed):.2f} | {max(worst):.1f} | {min(rates):.1%} |"
            f" {good} of {len(rows)} |"
        )
    return "\n".join(lines) + "\n"


def target(case: Case) -> float:
    """Return the debloat target in milliseconds."""
    return case.scenario.config.debloat_target_s * 1000


def rate(found: list[RunFigures]) -> float:
    """Return the median over the seeds of the records per second."""
    return median(one.records_per_s for one in found)


def not_worse(own: list[RunFigures], base: list[RunFigures]) -> bool:
    """Return whether a policy is at most slightly worse than the default, by medians over the seeds.

    Allowed are 2 % + 3 ms for times, 0.3 s for the time to adapt, and 0.5 % for the throughput.
    """
    for time in ("end_to_end_ms", "delay_ms", "worst_ms"):
        mine, its = (median(getattr(one, time) for one in found) for found in (own, base))
        if mine > its * 1.02 + 3:
            return False
    adapted, base_adapted = (
        [one.adaptation_s for one in found if one.adaptation_s is not None] for found in (own, base)
    )
    if adapted and median(adapted) > median(base_adapted) + 0.3:
        return False
    return rate(own) >= rate(base) * 0.995


def main() -> None:
    """Run all policies on all scenarios, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--only", default="", help="names of scenarios, separated by commas")
    asked = parser.parse_args()
    only = asked.only.split(",") if asked.only else [case.scenario.name for case in CASES]
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    chosen = [place for place, case in enumerate(CASES) if case.scenario.name in only]
    if unknown := set(only) - {case.scenario.name for case in CASES}:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        pending = {
            (place, policy): [pool.submit(run, place, policy, seed) for seed in seeds]
            for place in chosen
            for policy in STUDIED
        }
        found = []
        for place in chosen:
            print(CASES[place].scenario.name, file=sys.stderr)
            runs = {policy: [one.result() for one in pending[place, policy]] for policy in STUDIED}
            found.append((CASES[place], runs))
    each = f"seeds {seeds[0]} to {seeds[-1]} each"
    head = f"netstack {version('netstack')}, virtual clock, {each}, preset flink-2.2.\n"
    tables = [table(title, found) for title in MEASURES]
    print("\n".join([head, summary(found), scenarios([case for case, _ in found]), *tables]))


if __name__ == "__main__":
    main()
