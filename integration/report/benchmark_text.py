"""Benchmarks as people read them: a table of scores, what changed, which cases there are; and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..benchmarks.bench_case import Case, Way
from ..benchmarks.bench_results import BenchmarkRun, PointResult
from ..benchmarks.intervals import Interval, Verdict
from ..benchmarks.saved_runs import Change

LEGEND = (
    "Mean ± error: the interval at 99.9 % (Student's t) over all repetitions of all forks. thrpt: more is "
    "better; avgt: less is. Ratio: the mean over that of the yardstick, measured in turns with it."
)
_ONE_TRANSPORT = ("", "netstack")


def number(value: float) -> str:
    """Return a score with four significant digits, and no fewer before the point."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.4g}".rstrip(".")


def spread(interval: Interval) -> str:
    """Return a mean and its error."""
    return f"{number(interval.mean)} ± {number(interval.error) if interval.known else '?'}"


def _labels(result: PointResult) -> tuple[str, str]:
    transport = "" if result.transport in _ONE_TRANSPORT else f" ({result.transport})"
    return result.parameter + transport, result.way


def _ratio(result: PointResult) -> str:
    return "" if result.ratio is None else f"{number(result.ratio)} {result.yardstick}"


def print_run(run: BenchmarkRun, console: Console) -> None:
    """Print all scores, case by case."""
    for case, group in groupby(run.results, key=lambda result: result.case):
        results = list(group)
        compared = next((f"; yardstick: {result.yardstick}" for result in results if result.yardstick), "")
        _print_title(case, f"{results[0].mode}, {results[0].unit}{compared}", console)
        table = _table("parameter", "way", ">count", ">score", ">to yardstick")
        for result in results:
            ratio = "" if result.ratio is None else number(result.ratio)
            count = str(sum(map(len, result.scores)))
            table.add_row(*_labels(result), count, spread(result.interval), ratio)
        console.print(table)
    console.print(Text(f"{run.machine.text}; Python {run.software.python}, {run.software.core}."))
    console.print(Text(LEGEND, style="dim"))


def _print_title(case: str, unit: str, console: Console) -> None:
    console.print(Text.assemble((case, "bold"), f" ({unit})"))


def print_changes(changes: Sequence[Change], name: str, threshold_percent: float, console: Console) -> None:
    """Print what became of each score since a saved run, and by which rule."""
    for case, group in groupby(changes, key=lambda change: change.now.case):
        compared = list(group)
        _print_title(case, f"{compared[0].now.mode}, {compared[0].now.unit}", console)
        table = _table("parameter", "way", ">before", ">now", ">change", ">yardstick", "")
        for change in compared:
            drift = "" if change.yardstick_percent is None else f"{change.yardstick_percent:+.1f} %"
            style = "bold red" if change.verdict is Verdict.WORSE else ""
            intervals = (spread(change.before.interval), spread(change.now.interval))
            percent = f"{change.percent:+.1f} %"
            table.add_row(*_labels(change.now), *intervals, percent, drift, change.verdict, style=style)
        console.print(table)
    worse = sum(change.verdict is Verdict.WORSE for change in changes)
    console.print(Text(f"Against {name}: {worse} of {len(changes)} worse.", style="bold" if worse else ""))
    rule = (
        f"Worse: the intervals do not overlap and the mean is worse by more than {threshold_percent:g} %. "
        "The yardstick's change is the machine's."
    )
    console.print(Text(rule, style="dim"))


def print_cases(cases: Iterable[Case], console: Console) -> None:
    """Print what there is to run, in which ways, and why not in others."""
    for case in cases:
        console.print(
            Text(case.name, style="bold"), Text(f"({case.unit.mode}, {case.unit.name})", style="dim")
        )
        console.print(Text(f"  {case.what}"))
        parameters = [repr(parameter)[1:-1] for parameter in case.parameters if parameter]
        if parameters:
            console.print(Text(f"  parameters: {'; '.join(parameters)}"))
        console.print(Text(f"  ways: {', '.join(case.courses)}"))
        for line in _reasons(case):
            console.print(Text(f"  {line}", style="dim"))


def _reasons(case: Case) -> Iterator[str]:
    for way in Way:
        if way in case.absent:
            yield f"not {way}: {case.absent[way]}"
    for why, excluded in groupby(case.excluded.items(), key=lambda item: (item[0][1], item[1])):
        yield f"not {why[0]} with {'; '.join(parameter for (parameter, _), _ in excluded)}: {why[1]}"


def markdown(run: BenchmarkRun) -> str:
    """Return the table of a run for a document, with the spread of the repetitions."""
    lines = [
        "| case | parameter | way | score ± error | least – greatest | unit | ratio |",
        "|---|---|---|---:|---:|---|---:|",
    ]
    for result in run.results:
        parameter, way = _labels(result)
        least, greatest = result.extremes
        cells = (
            result.case,
            parameter,
            way,
            spread(result.interval),
            f"{number(least)} – {number(greatest)}",
            result.unit,
            _ratio(result),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _table(*heads: str) -> Table:
    """A table whose columns are those; one whose head begins with ">" is set to the right."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for head in heads:
        right = head.startswith(">")
        table.add_column(head.removeprefix(">"), justify="right" if right else "left", overflow="fold")
    return table
