"""Run small random jobs under random faults, and check each: ``python -m tests.storms --seeds 300``.

The exit status is 1 if a storm failed. The first storms that fail are shrunk to the smallest cases that still
fail; Ctrl-C prints the smallest so far. docs/RELIABILITY.md says what storms draw and check.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.text import Text

from integration.cli.exit_status import FAILED
from integration.cli.run_errors import report as report_error
from integration.present.console import say, to_stderr, to_stdout
from integration.present.progress import progress
from integration.spark.session import spark_session
from integration.stopping import LINE, STOP

from .draw import draw_case
from .many import StormLog, Tally, check_elsewhere, run_on_spark, run_storms
from .on_spark import MASTER, case_on_spark
from .on_spark import run_on_spark as run_in_tasks
from .one_storm import Outcome, run_storm
from .over_tcp import case_over_tcp, run_over_tcp
from .shrinking import Shrunk, again, shrink

ROOT = Path(__file__).parents[2]

SEEDS = 100

SHRUNK = 3
"""Number of failed storms that are shrunk; `--seed` shrinks any other."""

ELSEWHERE_EVERY = 64
"""One seed in so many is run once more in another process, at the end."""

ELSEWHERE_AT_MOST = 16


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the storms that the arguments ask for and return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if problem := _problem_with(options):
        parser.error(problem)
    try:
        STOP.work_begins()
        status = _run(options)
        stopped = STOP.end()
    except BaseException as error:
        stopped = STOP.end(error)
        if stopped is None:
            return report_error(error)
    if stopped is None:
        return status
    say(LINE)
    return stopped


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.storms", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--seeds", type=int, default=SEEDS, metavar="N", help="number of seeds (%(default)s)")
    add("--first-seed", type=int, default=0, metavar="SEED", help="the first of them (%(default)s)")
    add("--seed", type=int, help="run this one alone, and print its case and its outcome")
    add(
        "--simpler",
        action="append",
        default=[],
        metavar="STEP",
        help="a step that makes the case of --seed simpler, as printed with a case that was shrunk",
    )
    add("--log", type=Path, metavar="FILE", help="note in this file which seeds are done, and skip these")
    for option, text in (
        ("--paranoid", "check each run after every single step of it, and not only now and then"),
        ("--tcp", "run them one after the other over real sockets and in real time, as far as possible"),
        ("--on-spark", "as --tcp, over several processes inside Spark tasks, some of which are killed"),
        ("--spark", "run them on Spark instead of the processes of this machine"),
        ("--verbose", "run them one after the other, and print each case and its outcome"),
    ):
        add(option, action="store_true", help=text)
    return parser


def _problem_with(options: argparse.Namespace) -> str:
    """Return why the options cannot be obeyed, in one line; empty if they can."""
    if options.seeds < 1:
        return f": --seeds is {options.seeds}; it must be at least 1"
    for option, number in (("--first-seed", options.first_seed), ("--seed", options.seed)):
        if number is not None and number < 0:
            return f"{option} is {number}; it must be 0 or more"
    one_by_one = "--verbose" if options.verbose else "--seed" if options.seed is not None else ""
    if options.spark and one_by_one:
        return f"{one_by_one} runs the storms here; leave --spark out"
    if options.log is not None and one_by_one:
        return f"{one_by_one} notes nothing; leave --log out"
    if options.simpler and options.seed is None:
        return "--simpler is a step of one case; give its --seed"
    if options.tcp and options.on_spark:
        return "--tcp and --on-spark are two ways to run them; leave one out"
    if options.tcp or options.on_spark:
        wanted = "--tcp" if options.tcp else "--on-spark"
        for name in ("simpler", "log", "paranoid", "spark", "verbose"):
            if getattr(options, name):
                return f"--{name} is for runs in virtual time, and {wanted} runs in real time; leave one out"
    return ""


def _run(options: argparse.Namespace) -> int:
    console = to_stdout()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    alone = seeds if options.seed is None else range(options.seed, options.seed + 1)
    if options.spark or options.on_spark:
        _let_spark_import_tests()
    if options.tcp:
        return _run_in_real_time(alone, "--tcp", case_over_tcp, run_over_tcp, console)
    if options.on_spark:
        session = spark_session(MASTER)
        return _run_in_real_time(
            alone, "--on-spark", case_on_spark, lambda seed: run_in_tasks(seed, session), console
        )
    if options.seed is not None:
        return _run_one(options.seed, options.simpler, options.paranoid, console)
    if options.verbose:
        tally = _run_one_by_one(seeds, options.paranoid, console)
    else:
        tally = _run_all(seeds, options.log, options.paranoid, options.spark, console)
    tally.print(console)
    return FAILED if tally.failed else 0


def _let_spark_import_tests() -> None:
    """Put this checkout on the path of Spark's Python workers: the tests are not installed."""
    path = [str(ROOT), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))


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
    with progress("storms", len(seeds), "seeds", to_stderr()) as report:
        for seed in seeds:
            outcome = run(seed)
            tally.add(outcome)
            if len(seeds) == 1:
                _print_lines([*case_of(seed).lines(), *outcome.lines()], console)
            elif outcome.problems:
                lines = [f"seed {seed}: {problem}" for problem in outcome.problems]
                _print_lines([*lines, f"  python -m tests.storms {option} --seed {seed}"], console)
            report(tally.storms)
    tally.print(console)
    return FAILED if tally.failed else 0


def _run_one(seed: int, simpler: Sequence[str], paranoid: bool, console: Console) -> int:
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
    with progress("storms", total, "seeds", to_stderr()) as report:
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
    return [*(f"seed {seed}: {problem}" for problem in problems), f"  python -m tests.storms --seed {seed}"]


def _print_lines(lines: Iterable[str], console: Console) -> None:
    console.print(Text("\n".join(lines)), soft_wrap=True)


if __name__ == "__main__":
    STOP.install()
    sys.exit(main())
