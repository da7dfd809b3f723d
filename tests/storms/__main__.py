"""Runs random jobs under random disturbances, and checks each: ``python -m tests.storms --seeds 300``.

Prints the failing seeds; the exit status is 1 if there are any. docs/RELIABILITY.md says what storms draw
and check.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from .draw import draw_case
from .one_storm import run_storm


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the storms that the arguments ask for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="number of seeds (%(default)s)")
    parser.add_argument("--first-seed", type=int, default=0, metavar="M", help="the first (%(default)s)")
    parser.add_argument("--seed", type=int, help="run this seed alone, and print its case and its outcome")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds is {options.seeds}; it must be at least 1")
    if options.seed is not None:
        print(*draw_case(options.seed).lines(), sep="\n")
        outcome = run_storm(options.seed)
        print(outcome, *outcome.problems, sep="\n  ")
        return int(bool(outcome.problems))
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    ends, restarts, failed = Counter[str](), 0, list[int]()
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(seeds))) as pool:
        for outcome in pool.map(run_storm, seeds, chunksize=8):
            ends[outcome.end] += 1
            restarts += outcome.restarts
            if outcome.problems:
                failed.append(outcome.seed)
                print(f"seed {outcome.seed}:", *outcome.problems, sep="\n  ", flush=True)
    counts = ", ".join(f"{number} {end}" for end, number in sorted(ends.items()))
    print(f"{len(seeds)} storms: {counts}; {restarts} restarts; failing seeds: {failed or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
