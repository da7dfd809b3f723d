"""Plant defects, one at a time, and say what finds them: ``python -m tests.mutants``.

Each defect of the catalogue is planted in a copy of the packages. Storms, and the tests of its package, then
say whether they see it. With ``--log FILE`` each defect that was tried leaves a line there, and a run with
the same file goes on where the last one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from .catalogue import MUTANTS
from .mutant import Mutant, copy_into, planted
from .trials import TrialError, first_failing_test, first_wrong_storm

NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What has found a mutant: a storm or a test, None if nothing has, or that it was not tried."""

    name: str
    storms: str | None = NOT_TRIED
    tests: str | None = NOT_TRIED
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """The verdict as text."""
        yield f"{self.name} ({self.seconds:.0f} s)"
        for who, what in (("storms", self.storms), ("tests", self.tests)):
            if what != NOT_TRIED:
                yield f"  {who}: {'NOT FOUND' if what is None else what[:160]}"


def judge(mutant: Mutant, copy: Path, *, seeds: int, by: str) -> Verdict:
    """Plant a defect in a copy, and let storms and tests look for it.

    Raises:
        UnplantableError: It does not fit the code any more.
        TrialError: Storms or tests could not be run.
    """
    started = time.perf_counter()
    with planted(mutant, copy):
        storms = NOT_TRIED if by == "tests" else first_wrong_storm(copy, seeds)
        tests = NOT_TRIED if by == "storms" else first_failing_test(copy, mutant)
    return Verdict(mutant.name, storms, tests, round(time.perf_counter() - started, 1))


def judge_all(mutants: Iterable[Mutant], processes: int, *, seeds: int, by: str) -> Iterator[Verdict]:
    """Judge mutants in several copies at once, as they come."""
    with ExitStack() as stack:
        copies: SimpleQueue[Path] = SimpleQueue()
        for _ in range(processes):
            copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-")))
            copy_into(copy)
            copies.put(copy)

        def judged(mutant: Mutant) -> Verdict:
            copy = copies.get()
            try:
                return judge(mutant, copy, seeds=seeds, by=by)
            finally:
                copies.put(copy)

        pool = stack.enter_context(ThreadPoolExecutor(processes))
        futures = [pool.submit(judged, mutant) for mutant in mutants]
        stack.callback(lambda: [future.cancel() for future in futures])
        for future in as_completed(futures):
            yield future.result()


def main() -> None:
    """Do what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="which mutants (all)")
    parser.add_argument("--list", action="store_true", help="name all mutants, and try none")
    parser.add_argument("--by", choices=("storms", "tests", "both"), default="both", help="(%(default)s)")
    parser.add_argument("--seeds", type=int, default=300, help="storms for each (%(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="(%(default)s)")
    parser.add_argument("--log", type=Path, help="a file for those that are done")
    options = parser.parse_args()
    if unknown := set(options.names) - {mutant.name for mutant in MUTANTS}:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}; --list names all")
    wanted = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    if options.list:
        for mutant in wanted:
            print(f"{mutant.name} ({mutant.path}): {mutant.defect}")
        return
    log: Path | None = options.log
    verdicts = {each.name: each for each in _logged(log)}
    left = [mutant for mutant in wanted if mutant.name not in verdicts]
    started = time.perf_counter()
    try:
        for done, verdict in enumerate(
            judge_all(left, options.processes, seeds=options.seeds, by=options.by), 1
        ):
            verdicts[verdict.name] = verdict
            if log is not None:
                with log.open("a", encoding="utf-8") as file:
                    print(json.dumps(asdict(verdict)), file=file)
            print("\n".join(verdict.lines()), flush=True)
            minutes = (time.perf_counter() - started) / done * (len(left) - done) / 60
            print(f"{done} of {len(left)}, about {minutes:.0f} min left", file=sys.stderr, flush=True)
    except (TrialError, KeyboardInterrupt) as error:
        sys.exit(str(error) or "stopped")
    _sum_up([verdicts[mutant.name] for mutant in wanted])


def _logged(log: Path | None) -> Iterator[Verdict]:
    if log is not None and log.exists():
        for line in log.read_text("utf-8").splitlines():
            yield Verdict(**json.loads(line))


def _sum_up(verdicts: list[Verdict]) -> None:
    for who, found in (
        ("storms", {each.name: each.storms for each in verdicts}),
        ("tests", {each.name: each.tests for each in verdicts}),
    ):
        tried = {name: what for name, what in found.items() if what != NOT_TRIED}
        if tried:
            missed = [name for name, what in tried.items() if what is None]
            print(f"{who} find {len(tried) - len(missed)} of {len(tried)}")
            for name in missed:
                print(f"  not {name}")


if __name__ == "__main__":
    main()
