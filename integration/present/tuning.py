"""Recommendations of a sweep on an 80-column terminal: the verdict, lines to paste, a table, and details."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from ..number_text import NOTHING, milliseconds, size_in
from ..optional_figures import quotient
from ..tuning.axes import POLICY
from ..tuning.constraints import CHECKPOINTS, MAX_CHECKPOINT, MAX_DELAY, MIN_THROUGHPUT, RUNS
from ..tuning.summaries import OFF, TargetSummary
from .console import print_next
from .table_style import BOTH, TIGHT, figures, number

if TYPE_CHECKING:
    from ..tuning.estimates import Estimate
    from ..tuning.pitfalls import Pitfall
    from ..tuning.recommend import Recommendation
    from ..tuning.remedies import Remedy
    from .documents import Tuning

LEGEND = (
    "Means over seeds; ranges are 95 % intervals over seeds. They do not include the difference between the "
    "emulation and a real job (docs/FIDELITY.md). Times in ms, bytes in KiB. "
    "thr. %: throughput, relative to the present one. "
    "delay, align, end to end: start delay, alignment and total time of checkpoints, of the subtask that "
    "acknowledged last; p95: 95th percentile of the total. flight: bytes queued. unal.: bytes that an "
    "unaligned checkpoint would store. record: from a record's emission to its processing, which unaligned "
    "checkpoints do not shorten. adapt: s until queues have settled after the load has doubled; 1/3: in one "
    "run of three only."
)

NOT_IN_FLINK = (
    "Flink does not have this policy, so there are no options to paste. docs/TRY_A_CHANGE.md shows how to "
    "try it in a real Flink."
)

MOST_SETTINGS = 4
"""Largest number of settings that are named for a pitfall; the first ones."""

MOST_FAILURES = 6
"""Largest number of failed points that are named; the first ones."""

Cell = Callable[[TargetSummary], str]


def _mean(name: str, text: Callable[[float], str] = "{:.0f}".format) -> Cell:
    def cell(summary: TargetSummary) -> str:
        value: Estimate | None = getattr(summary, name)
        return NOTHING if value is None else text(value.mean)

    return cell


def _adapts(summary: TargetSummary) -> str:
    """Return the time to adapt; if not all runs have one, their share, since a partial mean would mislead."""
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


def conditions_of(recommendation: Recommendation, *leaving_out: str) -> str:
    """Return the values of the axes other than the target and those left out, as "service 2 ms, skew 1:4"."""
    shown = (
        f"{name} {value}" for name, value in recommendation.conditions.items() if name not in leaving_out
    )
    return ", ".join(shown)


def print_tuning(tuning: Tuning, console: Console, *, following: str, verbose: bool = False) -> None:
    """Print a verdict, lines to paste and a table, and then the command `following`.

    Each combination of conditions has its own verdict and lines; all share one table. Policies belong to the
    same combination. With `verbose`, all figures, rules, remedies and pitfalls are printed as well.
    """
    groups: dict[str, list[Recommendation]] = {}
    for recommendation in tuning.recommendations:
        groups.setdefault(conditions_of(recommendation, POLICY), []).append(recommendation)
    for conditions, group in groups.items():
        if conditions:
            console.print(Text(conditions, style="dim"))
        _print_verdict(group, console)
    console.print(_advised_table(tuning) if len(groups) > 1 else _settings_table(tuning.recommendations))
    console.print()
    if verbose:
        for recommendation in tuning.recommendations:
            _print_details(recommendation, tuning.scenario["preset"], console)
        _print_pitfalls(tuning.pitfalls, console)
        console.print(Text(LEGEND, style="dim"))
        if tuning.command:
            console.print(Text(tuning.command, style="dim"))
    print_next(following, console)


def _print_verdict(group: Sequence[Recommendation], console: Console) -> None:
    """Print the verdict on a job, and lines to paste; the members of `group` differ only in policy."""
    own, *others = group
    for other in others:
        console.print(Text(other.words[0], style="bold"))
    if not any(other.verdict == "set" for other in others):
        console.print(Text(own.words[0], style="" if others else "bold"))
        lines = list(own.configuration)
        if own.verdict in ("set", "turn off"):
            for remedy in own.remedies:
                console.print(Text(f"This helps as well: {remedy_text(remedy)}."))
                lines += remedy.configuration
        elif own.remedies:
            names = ", ".join(remedy.name for remedy in own.remedies)
            console.print(Text(f"What would help instead: {names}."))
    else:
        lines = []
    for failure in (failure for each in group for failure in each.failures[:1]):
        console.print(Text(f"Some runs failed; the first: {failure}", style="red"))
    if lines:
        console.print()
        _print_lines(lines, 2, console)
    elif any(each.verdict in ("set", "turn off") for each in group):
        console.print(Text(NOT_IN_FLINK))
    console.print()


def _print_details(recommendation: Recommendation, preset: str, console: Console) -> None:
    console.print(Text.assemble((recommendation.scenario, "bold"), f"  {how_of(recommendation, preset)}"))
    if recommendation.conditions:
        console.print(Text(conditions_of(recommendation), style="bold"))
    console.print(target_table(recommendation))
    console.print()
    for sentence in recommendation.words[1:]:
        console.print(Text(sentence))
    console.print(Text(f"Knee: {recommendation.knee or 'none'}; {recommendation.knee_why}."))
    console.print(Text(f"Rule: {recommendation.rule}", style="dim"))
    if recommendation.remedies:
        console.print(Text("\nWhat else would help", style="bold"))
    for remedy in recommendation.remedies:
        console.print(_indented(f"- {remedy_text(remedy)}"))
        _print_lines(remedy.configuration, 4, console)
    for failure in failures_of(recommendation):
        console.print(Text(f"failed: {failure}", style="red"))
    console.print()


def _print_lines(lines: Sequence[str], indent: int, console: Console) -> None:
    """Print lines to paste: unwrapped, and without blanks at their ends."""
    for line in lines:
        console.print(Text(" " * indent + line), soft_wrap=True)


def _indented(text: str) -> Padding:
    return Padding(Text(text), (0, 0, 0, 2), expand=False)


def _settings_table(group: Sequence[Recommendation]) -> Table:
    """Return a row for each setting, with its policy if there are several."""
    several = len(group) > 1
    leads = ["policy", "target"] if several else ["target"]
    heads = [*(Column(lead, no_wrap=True) for lead in leads), *map(number, _SHORT), Column("")]
    table = figures(heads, padding=BOTH, edge=False)
    for recommendation in group:
        for summary in recommendation.settings:
            if summary.target == OFF and recommendation.reference is not UNSET:
                continue  # the same with each policy
            cells = _short_cells(summary, group[0].now)
            lead = [recommendation.conditions[POLICY]] if several else []
            said = mark(recommendation, summary, _BROKEN_IN_WORDS)
            table.add_row(*lead, summary.target, *cells, said, style=_style(recommendation, summary))
    return table


def _advised_table(tuning: Tuning) -> Table:
    """Return a row for each combination of conditions, with the figures of its advised setting."""
    heads = [Column(""), Column("advised", no_wrap=True), *map(number, _SHORT)]
    table = figures(heads, padding=BOTH, edge=False)
    for each in tuning.recommendations:
        table.add_row(conditions_of(each), each.advised.target, *_short_cells(each.advised, each.now))
    return table


_SHORT = ("throughput", "checkpoint", "95 %")


def _short_cells(summary: TargetSummary, now: TargetSummary) -> list[str]:
    """Return relative throughput, and mean and 95th percentile of checkpoint times, as texts."""
    rate, before = summary.throughput_per_s, now.throughput_per_s
    share = quotient(rate.mean if rate else None, before.mean if before else None)
    times = (summary.end_to_end_ms, summary.end_to_end_p95_ms)
    return [
        NOTHING if share is None else f"{100 * share:.1f} %",
        *(milliseconds(time.mean if time else None) for time in times),
    ]


def _style(recommendation: Recommendation, summary: TargetSummary) -> str:
    if summary.target == recommended(recommendation):
        return "bold green"
    return "dim" if summary.keeps == "no" else ""


def target_table(recommendation: Recommendation) -> Table:
    """Return a row for no debloating and for each target, with a mark beside the recommended one."""
    marks = Column("")  # the only column that may wrap, so that figures stay whole
    heads = [Column("\ntarget", no_wrap=True), *(number(head) for head, _ in _COLUMNS), marks]
    table = figures(heads, padding=TIGHT)
    for summary in recommendation.settings:
        cells = (cell(summary) for _, cell in _COLUMNS)
        table.add_row(
            summary.target, *cells, mark(recommendation, summary), style=_style(recommendation, summary)
        )
    return table


def recommended(recommendation: Recommendation) -> str | None:
    """Return the recommended setting, "off" for no debloating; None if no setting keeps the constraints."""
    keep = recommendation.current if recommendation.reference is UNSET else None
    return {"set": recommendation.chosen, "turn off": OFF, "keep": keep}.get(recommendation.verdict)


_BROKEN = {MIN_THROUGHPUT: "thr.", MAX_CHECKPOINT: "slow", MAX_DELAY: "late", CHECKPOINTS: "fails", RUNS: ""}
"""Marks for constraints that are not met."""
_BROKEN_IN_WORDS = {
    MIN_THROUGHPUT: "throughput too low",
    MAX_CHECKPOINT: "checkpoints too slow",
    MAX_DELAY: "records too slow",
    CHECKPOINTS: "checkpoints fail",
    RUNS: "",
}
_DOUBT = {"undecided": "?"}


def mark(recommendation: Recommendation, summary: TargetSummary, broken: Mapping[str, str] = _BROKEN) -> str:
    """Return the marks of a setting in the table: recommended, present, knee, constraints not met."""
    is_change = recommendation.verdict != "keep" and summary.target == recommended(recommendation)
    said = ["set" if recommendation.reference is UNSET else "better"] if is_change else []
    said += ["now"] if recommendation.is_present(summary.target) else []
    said += [f"{summary.failed}/{len(summary.seeds) + summary.failed} failed"] if summary.failed else []
    said += [
        f"{broken[shortfall.constraint]}{_DOUBT.get(shortfall.kept, '')}" for shortfall in summary.shortfalls
    ]
    if not said and broken is _BROKEN and summary.target == recommendation.knee:
        return "knee"
    return ", ".join(text for text in said if text)


def mark_in_words(recommendation: Recommendation, summary: TargetSummary) -> str:
    """Return the marks of a setting in full words, for a page."""
    is_change = recommendation.verdict != "keep" and summary.target == recommended(recommendation)
    said = ["recommended"] if is_change else []
    said += ["now"] if recommendation.is_present(summary.target) else []
    said += ["knee"] if summary.target == recommendation.knee else []
    said += [
        f"not decided: {shortfall.constraint}" if shortfall.kept == "undecided" else shortfall.text
        for shortfall in summary.shortfalls
    ]
    return "; ".join(said)


def remedy_text(remedy: Remedy) -> str:
    """Return a remedy with its reason, and whether it was measured, emulated or estimated."""
    how = "measured" if remedy.measured else "estimated"
    if remedy.emulated_s is not None:
        how = f"emulated in {remedy.emulated_s:g} s"
    return f"{remedy.name}: {remedy.why} ({how})"


def failures_of(recommendation: Recommendation) -> list[str]:
    """Return the first failed points, and the number of others."""
    more = len(recommendation.failures) - MOST_FAILURES
    return recommendation.failures[:MOST_FAILURES] + ([f"and {more} more points"] if more > 0 else [])


def how_of(recommendation: Recommendation, preset: str) -> str:
    """Return preset, seeds and clock behind a recommendation, and the present setting, as text."""
    versions, seeds = recommendation.versions, _listed(recommendation.seeds)
    version = f", netstack {versions['netstack']}" if "netstack" in versions else ""
    return f"{preset}, seeds {seeds}, {recommendation.clock} clock{version}; now: {recommendation.current}"


def _print_pitfalls(pitfalls: Sequence[Pitfall], console: Console) -> None:
    if not pitfalls:
        console.print("No pitfalls were found.\n", highlight=False)
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
