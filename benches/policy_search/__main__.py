"""Search a family of debloating rules for better ones than FLIP-183's; the tables are printed as Markdown.

Run it with ``python -m benches.policy_search --log search.jsonl``; an hour with ``make fast``.

1. *Search*: every rule of the family (`rules`) on the scenarios of `benches.policy_scenarios`, with one seed;
   those with an operator in Python, which takes most of the time, come with the choice only.
2. *Choice*: the best of them, at most ``--chosen``, of those that keep the throughput: half with the shortest
   times, half that are worse than FLIP-183 in the fewest scenarios; on the same scenarios with three seeds.
3. *Held back*: what was chosen, on scenarios that nothing was chosen by: those of `tests/flink/scenarios`,
   and files that are named on the command line.

What is run already stands in the log, and is not run again: Ctrl-C, and the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from integration.spark import spark_session

from ..policy_scenarios import CASES
from .comparing import LEAST_THROUGHPUT, Runs, Summary, against, front, middle, summary
from .rules import FLINK, KNOWN, Rule, all_rules
from .trials import Figures, Trial, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
CHOSEN_BY = tuple(case.scenario.name for case in CASES)
SEARCHED = tuple(
    case.scenario.name for case in CASES if all(vertex.operator is None for vertex in case.scenario.vertices)
)
HELD_BACK = tuple(
    sorted(path for path in (ROOT / "tests/flink/scenarios").glob("*.toml") if path.stem != "proof")
)
SEEDS = (1, 2, 3)
WAVE_A_CORE = 64
"""Trials between two lines of progress, for each core."""


class Log:
    """Figures by trial, and the file where they stand; a trial without any says why."""

    def __init__(self, file: Path | None) -> None:
        self.figures: dict[str, Figures | str] = {}
        self._file = file
        for line in file.read_text("utf-8").splitlines() if file is not None and file.exists() else ():
            row = json.loads(line)
            self.figures[row["of"]] = row.get("error") or msgspec.convert(row["figures"], Figures)

    def add(self, key: str, figures: Figures | str) -> None:
        """Take a trial that is done."""
        self.figures[key] = figures
        if self._file is not None:
            row = (
                {"error": figures} if isinstance(figures, str) else {"figures": msgspec.to_builtins(figures)}
            )
            with self._file.open("a", encoding="utf-8") as log:
                log.write(json.dumps({"of": key} | row) + "\n")


def run_or_say(trial: Trial) -> tuple[str, Figures | str]:
    """Run a trial in a worker; whatever it raises is said instead of figures."""
    try:
        return trial.key, run(trial)
    except Exception as error:  # other trials have nothing to do with it
        return trial.key, " ".join(f"{type(error).__name__}: {error}".split())


def run_all(trials: Iterable[Trial], log: Log, session: SparkSession, what: str) -> None:
    """Run over Spark what the log does not have."""
    missing = [trial for trial in trials if trial.key not in log.figures]
    context, begun = session.sparkContext, monotonic()
    wave = context.defaultParallelism * WAVE_A_CORE
    for start in range(0, len(missing), wave):
        part = missing[start : start + wave]
        for key, figures in context.parallelize(part, len(part)).map(run_or_say).collect():
            log.add(key, figures)
        done = start + len(part)
        left_s = (monotonic() - begun) / done * (len(missing) - done)
        print(f"{what}: {done} of {len(missing)}, {left_s:.0f} s left", file=sys.stderr, flush=True)


def runs_of(log: Log, rules: Iterable[Rule], scenarios: Sequence[str], seeds: Sequence[int]) -> Runs:
    """The figures of rules that came through every trial; FLIP-183 has to.

    Raises:
        SystemExit: it did not.
    """
    runs: dict[tuple[str, Rule], list[Figures]] = {}
    for rule in rules:
        found = {name: [log.figures[Trial(name, rule, seed).key] for seed in seeds] for name in scenarios}
        errors = [one for figures in found.values() for one in figures if isinstance(one, str)]
        if errors and rule == FLINK:
            raise SystemExit(f"policy_search: {errors[0]}")
        if not errors:
            runs |= {
                (name, rule): [one for one in figures if isinstance(one, Figures)]
                for name, figures in found.items()
            }
    return runs


def summaries(runs: Runs, scenarios: Sequence[str]) -> list[Summary]:
    """A summary of each rule that came through."""
    return [summary(rule, runs, scenarios) for rule in dict.fromkeys(rule for _, rule in runs)]


def summary_table(rows: Iterable[Summary], scenarios: int) -> str:
    """A row for each rule."""
    lines = [
        "| rule | end to end | worst | record delay | throughput, least | announcements | not worse in |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    names = {rule: name for name, rule in KNOWN.items()}
    for row in rows:
        name = f"**{names[row.rule]}**" if row.rule in names else f"`{row.rule.name}`"
        times = " | ".join(f"{ratio:.2f}" for ratio in (row.end_to_end, row.worst, row.delay))
        rest = f"{row.least_throughput:.1%} | {row.announcements:.2f} | {row.not_worse} of {scenarios}"
        lines.append(f"| {name} | {times} | {rest} |")
    return "\n".join(lines) + "\n"


def scenario_table(rule: Rule, runs: Runs, scenarios: Sequence[str]) -> str:
    """A rule on each scenario beside FLIP-183, with the counts on which it is worse."""
    lines = [
        f"`{rule.name}`, and FLIP-183 before the stroke:\n",
        "| scenario | end to end, ms | worst, ms | delay, ms | records/s | announcements/s | worse on |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for name in scenarios:
        pairs = zip(
            msgspec.structs.astuple(middle(runs[name, FLINK])),
            msgspec.structs.astuple(middle(runs[name, rule])),
            ("{:.0f}", "{:.0f}", "{:.0f}", "{:.0f}", "{:.2f}"),
            strict=True,
        )
        cells = [f"{form.format(flink)} / {form.format(mine)}" for flink, mine, form in pairs]
        worse = ", ".join(against(runs[name, rule], runs[name, FLINK]).worse_on)
        lines.append(f"| {Path(name).stem} | {' | '.join(cells)} | {worse} |")
    return "\n".join(lines) + "\n"


def choose(found: Sequence[Summary], number: int) -> list[Rule]:
    """Return the known policies, and as many rules that keep the throughput.

    Half of these have the shortest times, as far as no other rule beats them; the others are worse than
    FLIP-183 in the fewest scenarios.
    """
    fit = [row for row in found if not row.objectives[-1]]
    shortest = [row.rule for row in front(fit)]
    safest = [row.rule for row in sorted(fit, key=lambda row: (-row.not_worse, row.score))]
    new = [[rule for rule in rules if rule not in KNOWN.values()] for rules in (shortest, safest)]
    return list(dict.fromkeys([*KNOWN.values(), *new[0][: number // 2], *new[1][: number - number // 2]]))


def search(log: Log, session: SparkSession, held_back: Sequence[str], number: int) -> list[Rule]:
    """Run all three parts, and return what was chosen."""
    rules = list(all_rules())
    run_all((Trial(name, rule, SEEDS[0]) for rule in rules for name in SEARCHED), log, session, "search")
    found = summaries(runs_of(log, rules, SEARCHED, SEEDS[:1]), SEARCHED)
    chosen = choose(found, number)
    for what, names in (("choice", CHOSEN_BY), ("held back", held_back)):
        trials = (Trial(name, rule, seed) for rule in chosen for name in names for seed in SEEDS)
        run_all(trials, log, session, what)
    fit = sum(not row.objectives[-1] for row in found)
    print(f"{len(found)} rules, of which {fit} keep {LEAST_THROUGHPUT:.1%} of the throughput everywhere.\n")
    return chosen


def show(log: Log, chosen: Sequence[Rule], held_back: Sequence[str]) -> None:
    """Print a row for each rule, by what it was chosen by and by what was held back, then the best one."""
    for title, scenarios in (("Chosen by", CHOSEN_BY), ("Held back", held_back)):
        runs = runs_of(log, chosen, scenarios, SEEDS)
        rows = sorted(summaries(runs, scenarios), key=lambda row: (-row.not_worse, row.score))
        print(f"{title}, {len(scenarios)} scenarios, ratios to FLIP-183:\n")
        print(summary_table(rows, len(scenarios)))
    print(scenario_table(rows[0].rule, runs, held_back))


def main() -> None:
    """Search, choose, and look at what was held back."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.policy_search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("held_back", nargs="*", type=Path, help="more scenario files that are held back")
    parser.add_argument("--chosen", type=int, default=12, help="rules looked at closely (%(default)s)")
    parser.add_argument("--log", type=Path, help="a file by which a run goes on")
    options = parser.parse_args()
    log = Log(options.log)
    held_back = [str(path.resolve()) for path in (*HELD_BACK, *options.held_back)]
    session = spark_session(small=True)
    try:
        chosen = search(log, session, held_back, options.chosen)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        session.stop()
    show(log, chosen, held_back)


if __name__ == "__main__":
    main()
