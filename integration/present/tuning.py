"""Recommendations of a sweep on an 80-column terminal: a table by target, the setting to make, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from ..number_text import NOTHING, size_in
from ..tuning.constraints import CHECKPOINTS, MAX_CHECKPOINT, MAX_DELAY, MIN_THROUGHPUT, RUNS
from ..tuning.summaries import OFF, TargetSummary
from .table_style import TIGHT, figures, number

if TYPE_CHECKING:
    from ..tuning.estimates import Estimate
    from ..tuning.pitfalls import Pitfall
    from ..tuning.recommend import Recommendation
    from ..tuning.remedies import Remedy
    from .documents import Tuning

LEGEND = (
    "Means over seeds; ranges are 95 % intervals over seeds, not of the emulation against a real job, whose "
    "throughput may differ by more (docs/FIDELITY.md). Times in ms, bytes in KiB. "
    "thr. %: throughput, of what it is now. "
    "delay, align, end to end: start delay, alignment and whole of checkpoints, of the subtask that "
    "acknowledged last, with the 95th percentile of the whole. flight: bytes queued. unal.: bytes that an "
    "unaligned checkpoint would store. record: from a record's emission to its processing, which unaligned "
    "checkpoints do not shorten. adapt: s until queues have settled after the load has doubled; 1/3: in one "
    "run of three only."
)

MOST_SETTINGS = 4
"""Settings named for a pitfall: the first ones."""

MOST_FAILURES = 6
"""Failed points that are named: the first ones."""

Cell = Callable[[TargetSummary], str]


def _mean(name: str, text: Callable[[float], str] = "{:.0f}".format) -> Cell:
    def cell(summary: TargetSummary) -> str:
        value: Estimate | None = getattr(summary, name)
        return NOTHING if value is None else text(value.mean)

    return cell


def _adapts(summary: TargetSummary) -> str:
    """The time, or the share of runs that have one, since a mean of some would pass for that of all."""
    settled = summary.adaptation_ms
    if not summary.step_runs:
        return NOTHING
    if settled is None or settled.runs < settled.of:
        return f"{settled.runs if settled else 0}/{summary.step_runs}"
    return f"{settled.mean / 1e3:.0f}"


def _percent(share: Estimate | None) -> str:
    return NOTHING if share is None else f"{100 * share.mean:.1f}"


_COLUMNS: Sequence[tuple[str, Cell]] = (
    ("\nthr. %", lambda summary: _percent(summary.throughput_share)),
    ("\ndelay", _mean("start_delay_ms")),
    ("\nalign", _mean("alignment_ms")),
    ("end to\nend", _mean("end_to_end_ms")),
    ("\np95", _mean("end_to_end_p95_ms")),
    ("\nflight", _mean("in_flight_bytes", text=partial(size_in, "KiB"))),
    ("\nunal.", _mean("persisted_bytes", text=partial(size_in, "KiB"))),
    ("\nrecord", _mean("record_delay_ms")),
    ("\np95", _mean("record_delay_p95_ms")),
    ("\nadapt", _adapts),
)


def conditions_of(recommendation: Recommendation) -> str:
    """Return the values of the axes other than the target, as "service 2 ms, skew 1:4"."""
    return ", ".join(f"{name} {value}" for name, value in recommendation.conditions.items())


def print_tuning(tuning: Tuning, console: Console) -> None:
    """Print a table and a recommendation for each combination of conditions, and the pitfalls of all."""
    for recommendation in tuning.recommendations:
        _print_recommendation(recommendation, tuning.scenario["preset"], console)
    _print_pitfalls(tuning.pitfalls, console)
    console.print(Text(LEGEND, style="dim"))
    if tuning.command:
        console.print(Text(tuning.command, style="dim"))


def _print_recommendation(recommendation: Recommendation, preset: str, console: Console) -> None:
    console.print(Text.assemble((recommendation.scenario, "bold"), f"  {how_of(recommendation, preset)}"))
    if recommendation.conditions:
        console.print(Text(conditions_of(recommendation), style="bold"))
    console.print(target_table(recommendation))
    console.print()
    for place, sentence in enumerate(recommendation.words):
        console.print(Text(sentence, style="" if place else "bold"))
    console.print(Text(f"Knee: {recommendation.knee or 'none'}; {recommendation.knee_why}."))
    console.print(Text(f"Rule: {recommendation.rule}", style="dim"))
    if recommendation.remedies:
        console.print(Text("\nWhat would help instead", style="bold"))
    for remedy in recommendation.remedies:
        console.print(_indented(f"- {remedy_text(remedy)}"))
        _print_lines(remedy.configuration, 4, console)
    for failure in failures_of(recommendation):
        console.print(Text(f"failed: {failure}", style="red"))
    if recommendation.configuration:
        console.print()
        _print_lines(recommendation.configuration, 2, console)
    console.print()


def _print_lines(lines: Sequence[str], indent: int, console: Console) -> None:
    """Print lines to paste: unwrapped, and without blanks at their ends."""
    for line in lines:
        console.print(Text(" " * indent + line), soft_wrap=True)


def _indented(text: str) -> Padding:
    return Padding(Text(text), (0, 0, 0, 2), expand=False)


def target_table(recommendation: Recommendation) -> Table:
    """Return a row for no debloating and for each target, with a mark beside the recommended one."""
    marks = Column("")  # the only column that may wrap, so that figures stay whole
    heads = [Column("\ntarget", no_wrap=True), *(number(head) for head, _ in _COLUMNS), marks]
    table = figures(heads, padding=TIGHT)
    for summary in recommendation.settings:
        style = "dim" if summary.keeps == "no" else ""
        if summary.target == recommended(recommendation):
            style = "bold green"
        cells = (cell(summary) for _, cell in _COLUMNS)
        table.add_row(summary.target, *cells, mark(recommendation, summary), style=style)
    return table


def recommended(recommendation: Recommendation) -> str | None:
    """Return the recommended setting, "off" for no debloating; None if no setting keeps the constraints."""
    kept = {"set": recommendation.chosen, "turn off": OFF, "keep": recommendation.current}
    return kept.get(recommendation.verdict)


def mark(recommendation: Recommendation, summary: TargetSummary) -> str:
    """Return the mark of a setting in the table: recommended, present, knee, broken constraints."""
    is_change = recommendation.verdict != "keep" and summary.target == recommended(recommendation)
    said = ["set"] if is_change else []
    said += ["now"] if summary.target == recommendation.current else []
    said += [f"{summary.failed}/{len(summary.seeds) + summary.failed} failed"] if summary.failed else []
    said += [
        f"{_BROKEN[shortfall.constraint]}{_DOUBT.get(shortfall.kept, '')}" for shortfall in summary.shortfalls
    ]
    if not said and summary.target == recommendation.knee:
        return "knee"
    return ", ".join(text for text in said if text)


_BROKEN = {MIN_THROUGHPUT: "thr.", MAX_CHECKPOINT: "slow", MAX_DELAY: "late", CHECKPOINTS: "fails", RUNS: ""}
"""Marks of broken constraints."""
_DOUBT = {"undecided": "?"}


def mark_in_words(recommendation: Recommendation, summary: TargetSummary) -> str:
    """Return the mark of a setting for a page, which has more room."""
    is_change = recommendation.verdict != "keep" and summary.target == recommended(recommendation)
    said = ["recommended"] if is_change else []
    said += ["now"] if summary.target == recommendation.current else []
    said += ["knee"] if summary.target == recommendation.knee else []
    said += [
        f"not decided: {shortfall.constraint}" if shortfall.kept == "undecided" else shortfall.text
        for shortfall in summary.shortfalls
    ]
    return "; ".join(said)


def remedy_text(remedy: Remedy) -> str:
    """Return a remedy, its reason, and whether it was measured, emulated or estimated."""
    how = "measured" if remedy.measured else "reckoned"
    if remedy.emulated_s is not None:
        how = f"emulated in {remedy.emulated_s:g} s"
    return f"{remedy.name}: {remedy.why} ({how})"


def failures_of(recommendation: Recommendation) -> list[str]:
    """Return the first failed points, and the number of others."""
    more = len(recommendation.failures) - MOST_FAILURES
    return recommendation.failures[:MOST_FAILURES] + ([f"and {more} more points"] if more > 0 else [])


def how_of(recommendation: Recommendation, preset: str) -> str:
    """Return preset, seeds and clock of a recommendation, and the present setting."""
    versions, seeds = recommendation.versions, _listed(recommendation.seeds)
    version = f", netstack {versions['netstack']}" if "netstack" in versions else ""
    return f"{preset}, seeds {seeds}, {recommendation.clock} clock{version}; now: {recommendation.current}"


def _print_pitfalls(pitfalls: Sequence[Pitfall], console: Console) -> None:
    if not pitfalls:
        console.print("No pitfall of debloating was found.\n", highlight=False)
        return
    console.print(Text("Pitfalls", style="bold"))
    for pitfall in pitfalls:
        console.print(
            Text.assemble((f"{pitfall.name}: ", "bold yellow"), f"{pitfall.what} ({settings_of(pitfall)}).")
        )
        for line in (
            f"At {pitfall.point or 'this setting'}, {pitfall.evidence}.",
            pitfall.remedy,
            f"See {pitfall.shown_by}.",
        ):
            console.print(_indented(line))
    console.print()


def settings_of(pitfall: Pitfall) -> str:
    """Return the settings at which a pitfall shows."""
    shown = [name for name in pitfall.settings if name]
    more = len(shown) - MOST_SETTINGS
    texts = shown[:MOST_SETTINGS] + ([f"and {more} more"] if more > 0 else [])
    return ("; " if any("," in text for text in shown) else ", ").join(texts) or "as it is"


def _listed(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}-{seeds[-1]}"
    return ", ".join(map(str, seeds))
