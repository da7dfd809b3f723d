"""Shuffles under faults that are drawn from seeds, and a tally of what became of them, as Markdown.

Run it with ``python -m tests.shuffle_faults [--number 1000] [--first-seed 0] [--log FILE]``. Each seed is a
shuffle (`case`) that meets with a fault: Python workers and executors are killed or stopped, readers are
slow, strangers come to the door, disks are full. It has to be right, each row where it belongs (`rows`), or
fail with its first cause within 10 s (`judging`), and leave nothing behind (`one_shuffle`).

With ``--log`` each outcome is a line of a file, and what stands there is not run again. Ctrl-C or SIGTERM
ends it with the tally of what was done. It ends with status 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic

from .case import LIMIT_S, Case, Fault, draw
from .driver import Driver
from .log import Log
from .one_shuffle import FAILED, RIGHT, WRONG, Outcome

BLOCK = 200
"""Seeds within which all that need executors come last, so that Spark is seldom started."""

REPORT_EVERY_S = 10.0


def in_turn(seeds: Iterable[int]) -> Iterator[Case]:
    """Give the cases of seeds, those that need the same session side by side."""
    blocks: dict[int, list[Case]] = {}
    for seed in seeds:
        blocks.setdefault(seed // BLOCK, []).append(draw(seed))
    for number in sorted(blocks):
        # Every other block begins with executors: the session of the one before serves again.
        yield from sorted(blocks[number], key=lambda case: (case.executors != bool(number % 2), case.seed))


def run(cases: Sequence[Case]) -> Generator[Outcome, None, None]:
    """Run cases, many on one session of Spark's; what that leaves at its end is wrong, too."""
    driver: Driver | None = None
    last: Case | None = None
    try:
        for case in cases:
            if driver is not None and driver.executors != case.executors:
                ending, driver = driver, None
                yield from _end(ending, last)
            driver = driver or Driver(executors=case.executors)
            outcome, last = driver.run(case), case
            yield outcome
            if not outcome.whole:
                ending, driver = driver, None
                ending.end(now=True)
        if driver is not None:
            ending, driver = driver, None
            yield from _end(ending, last)
    finally:
        if driver is not None:
            driver.end(now=True)


def _end(driver: Driver, last: Case | None) -> Iterator[Outcome]:
    left = driver.end()
    if left and last is not None:
        said = f"the session has left behind: {', '.join(left)}"
        yield Outcome(last.seed, last.fault, WRONG, said, True, None, 0.0)


def print_tally(outcomes: Sequence[Outcome]) -> None:
    """Print a row for each fault, and each outcome that is wrong."""
    print("| fault | shuffles | struck | right | failed with the cause | longest till then, s | wrong |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for fault in Fault:
        print(f"| {fault} | {' | '.join(_cells([each for each in outcomes if each.fault == fault]))} |")
    print(f"| all | {' | '.join(_cells(outcomes))} |")
    for outcome in sorted(outcomes, key=lambda each: each.seed):
        if outcome.verdict == WRONG:
            print(f"WRONG: seed {outcome.seed} ({draw(outcome.seed)}): {outcome.said}")


def _cells(outcomes: Sequence[Outcome]) -> list[str]:
    counts = [sum(each.verdict == verdict for each in outcomes) for verdict in (RIGHT, FAILED, WRONG)]
    after = [each.after_s for each in outcomes if each.after_s is not None and each.verdict == FAILED]
    longest = f"{max(after):.1f}" if after else ""
    struck = sum(each.struck for each in outcomes)
    return [str(len(outcomes)), str(struck), str(counts[0]), str(counts[1]), longest, str(counts[2])]


class _Progress:
    """Says on stderr how far it is, now and then, and at once what is wrong."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._started = self._said = monotonic()

    def add(self, outcome: Outcome) -> None:
        self._done += 1
        now = monotonic()
        if outcome.verdict == WRONG:
            print(f"seed {outcome.seed}: {outcome.said}", file=sys.stderr, flush=True)
        if now - self._said >= REPORT_EVERY_S:
            self._said = now
            left_s = (now - self._started) / self._done * max(0, self._total - self._done)
            text = f"{self._done} of {self._total} shuffles, {left_s / 60:.0f} min left"
            print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Run, and print the tally."""
    parser = argparse.ArgumentParser(prog="python -m tests.shuffle_faults", description=__doc__)
    parser.add_argument("--number", type=int, default=1000, help="of shuffles (%(default)s)")
    parser.add_argument("--first-seed", type=int, default=0, help="(%(default)s)")
    parser.add_argument("--log", type=Path, help="a file of outcomes, by which a run goes on")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.number)
    try:
        log = Log(options.log) if options.log else None
    except (OSError, ValueError) as error:
        parser.error(str(error))
    done = {seed: outcome for seed, outcome in (log.outcomes if log else {}).items() if seed in seeds}
    cases = list(in_turn(seed for seed in seeds if seed not in done))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    progress, outcomes = _Progress(len(cases)), list(done.values())
    runs = run(cases)
    try:
        for outcome in runs:
            outcomes.append(outcome)
            progress.add(outcome)
            if log is not None:
                log.note(outcome)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    finally:
        runs.close()
    print_tally(outcomes)
    print(f"\nat most {LIMIT_S:g} s from a fault to its failure are allowed")
    sys.exit(any(outcome.verdict == WRONG for outcome in outcomes))


if __name__ == "__main__":
    main()
