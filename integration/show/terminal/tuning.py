"""Recommendations of a tuning on an 80-column terminal: the verdict, lines to paste, a table, and details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from ...advise.tune.option_changes import patch_lines, restart_sentences
from ...advise.tune.recommend import are_alike
from ...advise.tune.settings import NOW
from ...base.number_text import NOTHING, milliseconds
from ...runs.quantities import BYTES, JOB, SETTING, SETTINGS, Quantity, in_view
from ...runs.window_figures import WindowFigures
from .console import print_next
from .table_style import figures, number

if TYPE_CHECKING:
    from ...advise.tune.pitfalls import Pitfall
    from ...advise.tune.recommend import Recommendation, SettingSummary
    from .documents import Tuning

RULE = (
    "Rule: each setting that keeps to the limits has a distance from the best checkpoint time, record delay, "
    "throughput and stored bytes. The setting with the smallest sum of these distances is chosen; if some "
    "gain enough even with the known error of the emulation, only among these. If others are nearly as good, "
    "the one that changes the job least is chosen. For times, the ratio to the best counts; times below a "
    "tenth of the present one count alike."
)

LEGEND = (
    "Figures are means over seeds, with 95 % intervals. The intervals do not include the difference between "
    "the emulation and a real job (docs/FIDELITY.md). Throughput is relative to the present one, with the "
    "same seeds. Start delay, alignment and total time of checkpoints are of the subtask that acknowledged "
    "last. Stored: data in flight in a checkpoint. Record: time from emission to processing. Adapts: time "
    "until queues are steady again after a service time has doubled."
)

NOT_IN_FLINK = (
    "Flink does not have this policy, so there are no options to paste. docs/TRY_A_CHANGE.md shows how to "
    "try it in a real Flink."
)

MOST_SETTINGS = 4
"""Maximum number of settings that are named for a pitfall. The first ones are named."""

MOST_FAILURES = 6
"""Maximum number of failed points that are named. The first ones are named."""


CHECKPOINT, SLOWEST = "end_to_end_ms", "end_to_end_max_ms"

Form = Literal["yaml", "kubernetes"]
"""Form of the lines to paste: those of a config.yaml, or the patch of a FlinkDeployment."""


DETAILS = in_view(JOB, SETTING)
"""Figures of a setting in the details and on the page."""


def conditions_of(recommendation: Recommendation) -> str:
    """Return the values of the axes, as "execution.buffer-timeout 10 ms"."""
    return ", ".join(f"{name} {value}" for name, value in recommendation.conditions.items())


def print_tuning(
    tuning: Tuning, console: Console, *, following: str, form: Form = "yaml", verbose: bool = False
) -> None:
    """Print a verdict, lines to paste and a table for each recommendation, and then the command `following`.

    The lines are those of a config.yaml, or the patch of a FlinkDeployment in YAML. With `verbose`,
    intervals, the rule and pitfalls are printed as well.
    """
    for recommendation in tuning.recommendations:
        if conditions := conditions_of(recommendation):
            console.print(Text(conditions, style="dim"))
        _print_verdict(recommendation, console, form)
        console.print(_settings_table(recommendation))
        console.print()
        if verbose:
            _print_details(recommendation, tuning.scenario["preset"], console)
    if verbose:
        _print_pitfalls(tuning.pitfalls, console)
        console.print(Text(f"{RULE}\n{LEGEND}", style="dim"))
        if tuning.command:
            console.print(Text(tuning.command, style="dim"))
    print_next(following, console)


def _print_verdict(recommendation: Recommendation, console: Console, form: Form) -> None:
    verdict, *others = recommendation.words
    console.print(Text(verdict, style="bold"))
    for failure in recommendation.failures[:1]:
        console.print(Text(f"Some runs failed; the first: {failure}", style="red"))
    if recommendation.configuration:
        lines = recommendation.configuration
        console.print()
        for line in lines if form == "yaml" else patch_lines(recommendation.flink_deployment):
            console.print(Text(f"  {line}"), soft_wrap=True)  # not wrapped, without trailing blanks
        console.print()
        for sentence in restart_sentences(recommendation.changes):
            console.print(Text(sentence))
    elif recommendation.verdict == "set":
        console.print(Text(NOT_IN_FLINK))
    for sentence in others:
        console.print(Text(sentence))
    console.print()


def _settings_table(recommendation: Recommendation) -> Table:
    has_today = bool(recommendation.now.today)
    # At the limit, the table has the checkpoint time of today in place of the slowest checkpoint.
    quantities = [each for each in in_view(JOB, SETTINGS) if not (has_today and each.name == SLOWEST)]
    heads = ["through-\nput", *(each.head(SETTINGS) for each in quantities)]
    heads += ["point\ntoday"] if has_today else []
    title = None
    if has_today and recommendation.headroom is not None:
        title = f"At the limit, {recommendation.headroom.limit:.3g} times today's load"
    columns = [Column("setting"), *map(number, heads), Column("")]
    table = figures(columns, padding=(0, 0, 0, 0), edge=False)
    table.title, table.title_justify, table.title_style = title, "left", ""
    for group in _rows(recommendation):
        setting, marked = group[0], mark(recommendation, group[0])
        style = "bold green" if marked == "set" else "dim" if setting.broken else ""
        cells = [_cell(each, setting.mean(each.name)) for each in quantities]
        if has_today:
            today = setting.today.get(CHECKPOINT)
            cells.append(milliseconds(None if today is None else today.mean))
        name = f"now: {recommendation.present}" if setting.name == NOW else _name_of(group)
        table.add_row(name, throughput_text(setting), *cells, marked, style=style)
    return table


def _cell(quantity: Quantity[WindowFigures], value: float | None) -> str:
    return "0" if quantity.unit is BYTES and value == 0 else quantity.unit.text(value)


def _rows(recommendation: Recommendation) -> list[list[SettingSummary]]:
    """Return the settings of each row. Neighbouring debloat targets that differ by noise share one.

    The chosen setting and the present one have rows of their own.
    """
    rows: list[list[SettingSummary]] = []
    for setting in recommendation.settings:
        last = rows[-1] if rows else []
        joins = all(
            each.target_ms is not None and each.name not in (NOW, recommendation.chosen)
            for each in (*last, setting)
        )
        if last and joins and all(are_alike(each, setting) for each in last):
            last.append(setting)
        else:
            rows.append([setting])
    return rows


def _name_of(group: Sequence[SettingSummary]) -> str:
    first, last = group[0].name, group[-1].name
    return (
        first if first == last else f"{first.replace('target', 'targets')} to {last.removeprefix('target ')}"
    )


def throughput_text(setting: SettingSummary) -> str:
    """Return the throughput of a setting as a share of the present one."""
    share = setting.throughput_share
    return NOTHING if share is None else f"{100 * share.mean:.1f} %"


def mark(recommendation: Recommendation, setting: SettingSummary) -> str:
    """Return the mark of a setting in the table: "set", or a note that the setting violates a limit."""
    if setting.name == recommendation.chosen and recommendation.verdict == "set":
        return "set"
    return "over limit" if setting.broken else ""


def interval_text(setting: SettingSummary, figure: Quantity[WindowFigures]) -> str:
    """Return the interval of a figure, as "140–173 ms"; empty for a single run or equal ends."""
    estimate = setting.figures.get(figure.name)
    if estimate is None or estimate.low is None:
        return ""
    least, most = figure.unit.text(estimate.low), figure.unit.text(estimate.high)
    if least == most:
        return ""
    amount, _, unit = least.rpartition(" ")
    return f"{amount}–{most}" if amount and unit == most.rpartition(" ")[2] else f"{least}–{most}"


def _print_details(recommendation: Recommendation, preset: str, console: Console) -> None:
    versions, seeds = recommendation.versions, recommendation.seeds
    listed = ", ".join(map(str, seeds))
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        listed = f"{seeds[0]}-{seeds[-1]}"
    version = f", netstack {versions['netstack']}" if "netstack" in versions else ""
    how = f"{preset}, seeds {listed}, {recommendation.clock} clock{version}; now: {recommendation.present}"
    console.print(Text.assemble((recommendation.scenario, "bold"), f"  {how}"))
    for name in dict.fromkeys([NOW, recommendation.chosen]):
        shown = recommendation.at(name)
        console.print(Text(name, style="bold"))
        for figure in DETAILS:
            if (value := shown.mean(figure.name)) is not None:
                interval = interval_text(shown, figure)
                in_brackets = f" ({interval})" if interval else ""
                console.print(_indented(f"{figure.head(SETTING)}: {figure.unit.text(value)}{in_brackets}"))
    for setting in recommendation.settings:
        if setting.broken:
            console.print(_indented(f"{setting.name}: {'; '.join(setting.broken)}"))
    for failure in failures_of(recommendation):
        console.print(Text(f"failed: {failure}", style="red"))
    console.print()


def _indented(text: str) -> Padding:
    return Padding(Text(text), (0, 0, 0, 2), expand=False)


def failures_of(recommendation: Recommendation) -> list[str]:
    """Return the first failed points, and the number of the others."""
    more = len(recommendation.failures) - MOST_FAILURES
    return recommendation.failures[:MOST_FAILURES] + ([f"and {more} more points"] if more > 0 else [])


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
    """Return the settings that show a pitfall."""
    shown = [name for name in pitfall.settings if name]
    more = len(shown) - MOST_SETTINGS
    texts = shown[:MOST_SETTINGS] + ([f"and {more} more"] if more > 0 else [])
    return ("; " if any("," in text for text in shown) else ", ").join(texts) or "as it is"
