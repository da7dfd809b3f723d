"""The command ``netstack storm``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from netstack import ScenarioError

from ..report.output import progress, to_stderr, to_stdout
from ..spark.session import spark_session
from ..storm.draw import draw_case
from ..storm.storm_runs import Outcome, run_on_spark, run_storm, run_storms
from .arguments import Flag, Whole, require_some
from .exit_status import FAILED

SEEDS = 100


class Tally:
    """What many storms come to."""

    def __init__(self) -> None:
        self.storms = 0
        self.failed: list[int] = []
        self._ends: Counter[str] = Counter()
        self._restarts = 0
        self._of_regions = 0
        self._restored = 0
        self._completed = 0
        self._aborted = 0
        self._faults = 0

    def add(self, outcome: Outcome) -> None:
        """Count one storm."""
        self.storms += 1
        if outcome.problems:
            self.failed.append(outcome.seed)
        completed = outcome.checkpoints["COMPLETED"]
        self._ends[outcome.end] += 1
        self._restarts += outcome.restarts
        self._of_regions += outcome.of_regions
        self._restored += outcome.restored_bytes > 0
        self._completed += completed
        self._aborted += outcome.checkpoints.total() - completed
        self._faults += len(outcome.fired)

    def print(self, console: Console) -> None:
        """Print what was run and how many failed."""
        restarts = f"{self._restarts} restarts, {self._of_regions} of them of single regions"
        lines = [
            f"{self.storms} storms: {', '.join(f'{n} {end}' for end, n in sorted(self._ends.items()))}",
            f"{self._faults} faults, {restarts}; data in flight restored: {self._restored}",
            f"{self._completed} checkpoints completed, {self._aborted} did not",
            f"wrong: {len(self.failed) or 'none'}",
        ]
        console.print(Text("\n".join(lines)), soft_wrap=True)


def storm(
    *,
    seeds: Whole = SEEDS,
    first_seed: Whole = 0,
    spark: Flag = False,
    verbose: Flag = False,
) -> int:
    """Run small random jobs under random faults, and check each; exit status 1 if one failed.

    Args:
        seeds: How many; each seed is a case of its own, and always the same one.
        first_seed: The first of them.
        spark: Run them on Spark instead of the processes of this machine.
        verbose: Print each case and what became of it; they are run one after the other.
    """
    require_some("storm", "--seeds", seeds)
    if first_seed < 0:
        raise ScenarioError([f"netstack storm: --first-seed is {first_seed}; it must be 0 or more"])
    if spark and verbose:
        raise ScenarioError(["netstack storm: --verbose runs the storms here; leave --spark out"])
    wanted = range(first_seed, first_seed + seeds)
    console = to_stdout()
    if verbose:
        tally = _run_one_by_one(wanted, console)
    else:
        outcomes = run_on_spark(wanted, spark_session()) if spark else run_storms(wanted)
        tally = _counted(outcomes, seeds, console)
    tally.print(console)
    return FAILED if tally.failed else 0


def _run_one_by_one(seeds: range, console: Console) -> Tally:
    """Run storms, and print all there is to say of each."""
    tally = Tally()
    for seed in seeds:
        _print_lines(draw_case(seed).lines(), console)
        outcome = run_storm(seed)
        _print_lines(outcome.lines(), console)
        tally.add(outcome)
    return tally


def _counted(outcomes: Iterable[Outcome], total: int, console: Console) -> Tally:
    """Print those that failed as they come, and what all come to."""
    tally = Tally()
    with progress("storm", total, "seeds", to_stderr()) as report:
        for outcome in outcomes:
            tally.add(outcome)
            if outcome.problems:
                lines = [f"seed {outcome.seed}: {problem}" for problem in outcome.problems]
                _print_lines([*lines, f"  {outcome.replay}"], console)
            report(tally.storms)
    return tally


def _print_lines(lines: Iterable[str], console: Console) -> None:
    console.print(Text("\n".join(lines)), soft_wrap=True)
