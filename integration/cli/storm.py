"""The command ``netstack storm``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.text import Text

from netstack import ScenarioError

from ..report.output import to_stderr, to_stdout
from ..report.progress import progress
from ..spark.session import spark_session
from ..storm.draw import draw_case
from ..storm.one_storm import run_storm
from ..storm.other_process import check_elsewhere
from ..storm.shrinking import Shrunk, again, shrink
from ..storm.storm_log import StormLog
from ..storm.storm_on_spark import MASTER, case_on_spark
from ..storm.storm_on_spark import run_on_spark as run_in_tasks
from ..storm.storm_outcome import Outcome
from ..storm.storm_over_tcp import case_over_tcp, run_over_tcp
from ..storm.storm_runs import run_on_spark, run_storms
from ..storm.tally import Tally
from .arguments import Flag, Several, Whole, require_some
from .exit_status import FAILED

SEEDS = 100

SHRUNK = 3
"""So many storms that failed are shrunk; the others can be, one by one."""

ELSEWHERE_EVERY = 64
"""One seed in so many is run once more in another process, at the end."""

ELSEWHERE_AT_MOST = 16


def storm(
    *,
    seeds: Whole = SEEDS,
    first_seed: Whole = 0,
    seed: Whole | None = None,
    simpler: Several = (),
    log: Path | None = None,
    paranoid: Flag = False,
    tcp: Flag = False,
    on_spark: Flag = False,
    spark: Flag = False,
    verbose: Flag = False,
) -> int:
    """Run small random jobs under random faults, and check each; exit status 1 if one failed.

    The first storms that fail are shrunk to the smallest cases that still fail; Ctrl-C prints the smallest
    so far.

    Args:
        seeds: How many; each seed is a case of its own, and always the same one.
        first_seed: The first of them.
        seed: Run this one alone, and print its case and what became of it.
        simpler: A step that makes the case of --seed simpler, as printed with a case that was shrunk.
        log: Note in this file which seeds are done and which failed, and leave out those that are done.
        paranoid: Look at each run after every single step of it, and not only now and then.
        tcp: Run them one after the other over real sockets and in real time, as far as they can be.
        on_spark: Run them so over several processes inside Spark tasks, some of which are killed.
        spark: Run them on Spark instead of the processes of this machine.
        verbose: Print each case and what became of it; they are run one after the other.
    """
    require_some("storm", "--seeds", seeds)
    _refuse_contradictions(first_seed, seed, simpler, log, spark, verbose)
    console = to_stdout()
    if tcp or on_spark:
        option = "--tcp" if tcp else "--on-spark"
        _refuse_in_real_time(option, tcp and on_spark, simpler, log, paranoid, spark, verbose)
        wanted = range(first_seed, first_seed + seeds) if seed is None else range(seed, seed + 1)
        if tcp:
            return _run_in_real_time(wanted, option, case_over_tcp, run_over_tcp, console)
        session = spark_session(MASTER)
        return _run_in_real_time(
            wanted, option, case_on_spark, lambda each: run_in_tasks(each, session), console
        )
    if seed is not None:
        return _run_one(seed, simpler, paranoid, console)
    wanted = range(first_seed, first_seed + seeds)
    if verbose:
        tally = _run_one_by_one(wanted, paranoid, console)
    else:
        tally = _run_all(wanted, log, paranoid, spark, console)
    tally.print(console)
    return FAILED if tally.failed else 0


def _refuse_contradictions(
    first_seed: int, seed: int | None, simpler: tuple[str, ...], log: Path | None, spark: bool, verbose: bool
) -> None:
    problem = ""
    if first_seed < 0 or (seed is not None and seed < 0):
        option, number = ("--first-seed", first_seed) if seed is None else ("--seed", seed)
        problem = f"{option} is {number}; it must be 0 or more"
    elif spark and (verbose or seed is not None):
        problem = f"{'--verbose' if verbose else '--seed'} runs the storms here; leave --spark out"
    elif log is not None and (verbose or seed is not None):
        problem = f"{'--verbose' if verbose else '--seed'} notes nothing; leave --log out"
    elif simpler and seed is None:
        problem = "--simpler is a step of one case; give its --seed"
    if problem:
        raise ScenarioError([f"netstack storm: {problem}"])


def _refuse_in_real_time(
    wanted: str,
    both: bool,
    simpler: tuple[str, ...],
    log: Path | None,
    paranoid: bool,
    spark: bool,
    verbose: bool,
) -> None:
    if both:
        raise ScenarioError(["netstack storm: --tcp and --on-spark are two ways to run them; leave one out"])
    of_virtual_time = (
        ("--simpler", simpler),
        ("--log", log),
        ("--paranoid", paranoid),
        ("--spark", spark),
        ("--verbose", verbose),
    )
    for option, value in of_virtual_time:
        if value:
            text = f"{option} is for runs in virtual time, and {wanted} runs in real time; leave one out"
            raise ScenarioError([f"netstack storm: {text}"])


class _WithLines(Protocol):
    """A case, as text."""

    def lines(self) -> Iterator[str]: ...


def _run_in_real_time(
    seeds: range,
    option: str,
    case_of: Callable[[int], _WithLines],
    run: Callable[[int], Outcome],
    console: Console,
) -> int:
    """Run storms one after the other; print each that failed, and of a single one all there is."""
    tally = Tally()
    with progress("storm", len(seeds), "seeds", to_stderr()) as report:
        for seed in seeds:
            outcome = run(seed)
            tally.add(outcome)
            if len(seeds) == 1:
                _print_lines([*case_of(seed).lines(), *outcome.lines()], console)
            elif outcome.problems:
                lines = [f"seed {seed}: {problem}" for problem in outcome.problems]
                _print_lines([*lines, f"  netstack storm {option} --seed {seed}"], console)
            report(tally.storms)
    tally.print(console)
    return FAILED if tally.failed else 0


def _run_one(seed: int, simpler: tuple[str, ...], paranoid: bool, console: Console) -> int:
    """Run the storm of a seed, or a simpler one, and print all there is to say of it."""
    if simpler:
        shrunk = again(draw_case(seed), simpler)
        _print_lines(shrunk.lines(), console)
        return FAILED if shrunk.problems else 0
    _print_lines(draw_case(seed).lines(), console)
    outcome = run_storm(seed, paranoid=paranoid)
    _print_lines(outcome.lines(), console)
    if outcome.problems:
        _print_shrunk(seed, outcome.problems, console)
    return FAILED if outcome.problems else 0


def _run_one_by_one(seeds: range, paranoid: bool, console: Console) -> Tally:
    """Run storms, and print all there is to say of each."""
    tally = Tally()
    for seed in seeds:
        _print_lines(draw_case(seed).lines(), console)
        outcome = run_storm(seed, paranoid=paranoid)
        _print_lines(outcome.lines(), console)
        tally.add(outcome)
    return tally


def _run_all(seeds: range, path: Path | None, paranoid: bool, spark: bool, console: Console) -> Tally:
    """Run storms, but for those that a log has; print those that failed, and the smallest cases of some."""
    if path is None:
        return _counted(_outcomes([seeds], paranoid, spark), len(seeds), Tally(), None, console)
    log, tally = StormLog(path), Tally()
    left = log.left(seeds)
    number = sum(map(len, left))
    for seed, problems in log.wrong_among(seeds).items():
        tally.failed_before(seed)
        _print_lines(_failed(seed, problems), console)
    tally.done_before = len(seeds) - number
    with closing(log):
        return _counted(_outcomes(left, paranoid, spark), number, tally, log, console)


def _outcomes(parts: Iterable[range], paranoid: bool, spark: bool) -> Iterator[Outcome]:
    for part in parts:
        if spark:
            yield from run_on_spark(part, spark_session(), paranoid=paranoid)
        else:
            yield from run_storms(part, paranoid=paranoid)


def _counted(
    outcomes: Iterable[Outcome], total: int, tally: Tally, log: StormLog | None, console: Console
) -> Tally:
    """Print those that failed as they come, then check some elsewhere and shrink some that failed."""
    failed: list[Outcome] = []
    digests: dict[int, str] = {}
    with progress("storm", total, "seeds", to_stderr()) as report:
        for outcome in outcomes:
            tally.add(outcome)
            if log is not None:
                log.note(outcome)
            if outcome.problems:
                failed.append(outcome)
                _print_lines(_failed(outcome.seed, outcome.problems), console)
            elif tally.storms % ELSEWHERE_EVERY == 0 and len(digests) < ELSEWHERE_AT_MOST:
                digests[outcome.seed] = outcome.digest
            report(tally.storms)
    for seed, problem in check_elsewhere(digests) if digests else ():
        tally.failed.append(seed)
        _print_lines(_failed(seed, (problem,)), console)
    for outcome in islice(failed, SHRUNK):
        _print_shrunk(outcome.seed, outcome.problems, console)
    return tally


def _print_shrunk(seed: int, problems: tuple[str, ...], console: Console) -> None:
    """Print the smallest case that fails as that of a seed does; if it is stopped, the smallest so far."""
    smallest: Shrunk | None = None
    try:
        for smaller in shrink(draw_case(seed), problems):
            smallest = smaller
    finally:
        if smallest is not None and smallest.steps:
            _print_lines(["", f"the smallest that fails as seed {seed} does:", *smallest.lines()], console)


def _failed(seed: int, problems: Iterable[str]) -> list[str]:
    return [*(f"seed {seed}: {problem}" for problem in problems), f"  netstack storm --seed {seed}"]


def _print_lines(lines: Iterable[str], console: Console) -> None:
    console.print(Text("\n".join(lines)), soft_wrap=True)
