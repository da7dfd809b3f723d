"""Measure how many mutants the unit tests kill: ``python -m tests.mutants --sample 400 --seed 1``.

mutmut makes the mutants of the folders that ``[tool.mutmut]`` of pyproject.toml names. A random sample of
them is tried in copies of the checkout, each against the test files of its package that share most words with
the mutated module. The folder ``--work`` keeps the sample and a log, and a run with the same folder continues
it; delete the folder after a change of the source.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path

from .mutations import Mutant, sample
from .relevance import Relevance
from .trial import SURVIVED, Trial, Verdict, failing_tests, fresh_copy


def sampled(work: Path, number: int, seed: int) -> list[Mutant]:
    """Return the sample that the folder keeps, or draw one."""
    file = work / f"sample-{number}-{seed}.jsonl"
    if not file.exists():
        file.write_text(
            "".join(f"{json.dumps(asdict(mutant))}\n" for mutant in sample(number, seed)), "utf-8"
        )
    return [Mutant(**json.loads(line)) for line in file.read_text("utf-8").splitlines()]


def logged(log: Path) -> dict[int, Verdict]:
    """Return the verdicts of a log by the number of the mutant."""
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    return {verdict.number: verdict for verdict in (Verdict(**json.loads(line)) for line in lines)}


def verdicts_of(
    left: Iterable[tuple[int, Mutant, Sequence[Path]]], copies: list[Path], count: int, spark: bool
) -> Iterator[Verdict]:
    """Try mutants, as many at a time as there are copies, and yield the verdicts as they come.

    `count`: number of test files that a verdict is about, with those that were tried before.
    """
    waiting = iter(left)
    running: dict[int, tuple[Trial, Path, int]] = {}
    try:
        while True:
            while copies and (following := next(waiting, None)) is not None:
                number, mutant, files = following
                trial, copy = Trial(copies[-1], number, mutant, spark), copies.pop()
                running[trial.start(files)] = trial, copy, number
            if not running:
                return
            for sentinel in [each for each in wait(list(running)) if isinstance(each, int)]:
                trial, copy, number = running.pop(sentinel)
                outcome, by = trial.outcome()
                copies.append(copy)
                yield Verdict(number, outcome, by, count, spark)
    finally:
        for trial, *_ in running.values():
            trial.stop()


@cache
def _relevance(package: str, spark: bool) -> Relevance:
    files = sorted(Path("tests", package).rglob("test_*.py"))
    return Relevance([file for file in files if not spark or "mark.spark" in file.read_text("utf-8")])


def files_for(mutant: Mutant, number: int, spark: bool, before: Verdict | None) -> list[Path]:
    """Return the test files of its package for a mutant, without those that it has survived."""
    path = Path(mutant.path)
    files = _relevance(path.parts[0], spark).ranked(path.stem, mutant.source, mutant.line)[:number]
    return files[before.files :] if before is not None and before.spark == spark else files


def summary(
    mutants: Sequence[Mutant], verdicts: dict[int, Verdict], unusable: Sequence[str]
) -> Iterator[str]:
    """Yield the scores and the survivors as lines of text."""
    judged = [(mutants[number], verdict) for number, verdict in sorted(verdicts.items())]
    judged = [(mutant, verdict) for mutant, verdict in judged if verdict.by not in unusable]
    tried = Counter(mutant.folder for mutant, _ in judged)
    killed = Counter(mutant.folder for mutant, verdict in judged if verdict.outcome != SURVIVED)
    for mutant, verdict in judged:
        if verdict.outcome == SURVIVED:
            yield f"survived {verdict.files} test files: {mutant}\n"
    for folder in [*tried, None]:
        of, out_of = (killed[folder], tried[folder]) if folder else (killed.total(), tried.total())
        yield f"{folder or 'all'}: {of} of {out_of} killed ({of / out_of:.0%})"
    outcomes = Counter(verdict.outcome for _, verdict in judged)
    yield f"{dict(outcomes)}, of a sample of {len(mutants)}"
    for test in unusable:
        yield f"not counted, since it fails without a mutant: {test}"


def _is_done(verdict: Verdict | None, files: int, spark: bool) -> bool:
    """Whether a mutant needs no trial; one that survived fewer tests than are wanted now does."""
    if verdict is None:
        return False
    return verdict.outcome != SURVIVED or (verdict.files >= files and verdict.spark >= spark)


def main() -> None:
    """Do what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=400, help="number of mutants (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
    parser.add_argument("--files", type=int, default=8, help="test files for a mutant (%(default)s)")
    parser.add_argument("--spark", action="store_true", help="try tests marked spark, and modules of Spark")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="(%(default)s)")
    parser.add_argument("--work", type=Path, default=Path("build/mutants"), help="(%(default)s)")
    parser.add_argument("--report", action="store_true", help="print the results so far, and try no mutant")
    options = parser.parse_args()
    work: Path = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    mutants = sampled(work, options.sample, options.seed)
    log = work / f"log-{options.seed}.jsonl"
    verdicts = logged(log)
    if not options.report:
        left = [
            (number, mutant, files_for(mutant, options.files, options.spark, verdicts.get(number)))
            for number, mutant in enumerate(mutants)
            if not options.spark or "spark" in mutant.path
            if not _is_done(verdicts.get(number), options.files, options.spark)
        ]
        copies = [fresh_copy(work / f"copy-{number}") for number in range(options.processes)]
        with log.open("a", encoding="utf-8", buffering=1) as file:
            for done, verdict in enumerate(verdicts_of(left, copies, options.files, options.spark), 1):
                verdicts[verdict.number] = verdict
                print(json.dumps(asdict(verdict)), file=file)
                text = f"{verdict.outcome} {mutants[verdict.number].path} {verdict.by}"
                print(f"{done} of {len(left)}: {text}", flush=True)
    killers = sorted({verdict.by for verdict in verdicts.values() if "::" in verdict.by})
    print("\n".join(summary(mutants, verdicts, failing_tests(fresh_copy(work / "copy-0"), killers))))


if __name__ == "__main__":
    main()
