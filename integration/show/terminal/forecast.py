"""A forecast on an 80-column terminal: the limit, the figures over the load, the outage, one more subtask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Column
from rich.text import Text

from netstack import format_duration

from ...advise.diagnose.words import cpu_bound_text, headroom_text
from ...advise.forecast.scaling import TARGET_UTILISATION
from ...advise.tune.settings import NOW
from ...base.number_text import NOTHING, counted, milliseconds, per_second, percent, size
from ...base.optional_figures import known
from .table_style import figures, number

if TYPE_CHECKING:
    from ...advise.forecast.forecast import Forecast
    from ...advise.forecast.load_figures import Curve
    from ...advise.forecast.scaling import Scaling
    from ...advise.sweeps.restart_drill import RestartDrill

_HEADS = ("records", "check-\npoint", "95 %", "worst", "record", "in flight", "busiest")


KEYS = "The keys of each present subtask count as evenly spread; a single hot key cannot be divided."
"""Assumption about a job whose records are distributed by keys, when it gets one more subtask."""


def forecast_words(forecast: Forecast) -> list[str]:
    """Return the forecast in sentences: the limit, what happens there, the outage, and one more subtask."""
    return [
        headroom_text(forecast.now.headroom),
        *known([cpu_bound_text(forecast.now.headroom, forecast.if_cpu_bound)]),
        *_about_the_limit(forecast),
        *(drill_text(drill) for drill in forecast.restarts),
        *([] if forecast.scaling is None else scaling_words(forecast.scaling)),
    ]


def _about_the_limit(forecast: Forecast) -> Iterator[str]:
    now, advised, recommendation = forecast.now, forecast.advised, forecast.recommendation
    times = {curve.setting: curve.points[-1].checkpoint_ms for curve in (now, advised)}
    if not now.headroom.is_bounded or times[now.setting] is None:
        return
    sentence = f"There, checkpoints take {milliseconds(times[now.setting])}"
    if advised is now:
        yield f"{sentence}; {lower_first(recommendation.words[0])}"
        return
    other = milliseconds(times[advised.setting])
    limit = advised.headroom.limit
    share = "" if abs(limit / now.headroom.limit - 1) < 0.02 else f", and the limit is {limit:.3g}"
    yield f"{sentence}. With {advised.setting}, they take {other}{share}."


def lower_first(sentence: str) -> str:
    """Return a sentence with a lower-case first letter, to continue another one."""
    return sentence[:1].lower() + sentence[1:]


def drill_text(drill: RestartDrill) -> str:
    """Return what happens after an outage, in one sentence."""
    setting = "" if drill.setting == NOW else f", with {drill.setting}"
    down = f"Down {format_duration(drill.down_s)}{setting}:"
    if drill.failure is not None:
        return f"{down} the job fails for good: {drill.failure}."
    if drill.caught_up_s is None:
        caught_up = "it does not catch up"
    else:
        about = "about " if drill.emulated_s < drill.caught_up_s else ""
        caught_up = f"caught up after {about}{duration_text(drill.caught_up_s)}"
    take = f"checkpoints take {milliseconds(drill.checkpoint_ms)} meanwhile"
    if drill.checkpoint_ms is None:
        take = "no checkpoint completes meanwhile"
    expired = (
        f"{counted(drill.checkpoints_expired, 'checkpoint')} expire{'s' * (drill.checkpoints_expired == 1)}"
    )
    if not drill.checkpoints_expired:
        expired = "none expires"
    other = drill.checkpoints_failed - drill.checkpoints_expired
    failed = f", {counted(other, 'other checkpoint')} fail{'s' * (other == 1)}" if other else ""
    again = f", the job restarts {counted(drill.restarts, 'more time')}" if drill.restarts else ""
    return f"{down} {caught_up}; {take}, {expired}{failed}{again}."


def duration_text(seconds: float) -> str:
    """Return a duration as a person would say it, such as "19 min" or "45 s"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = f"{seconds / 60:.0f}" if seconds >= 600 else f"{seconds / 60:.1f}".removesuffix(".0")
    return f"{minutes} min"


def scaling_words(scaling: Scaling) -> list[str]:
    """Return what one more subtask brings, and what it needs."""
    more = scaling.parallelism + 1
    needs = []
    if scaling.slots_after > scaling.slots:
        needs.append(f"{counted(scaling.slots_after, 'slot')} instead of {scaling.slots}")
    if scaling.memory_bytes is not None and scaling.memory_bytes_after is not None:
        added = max(0, scaling.memory_bytes_after - scaling.memory_bytes)
        needs.append(f"{size(added)} more network memory to start")
    sentence = (
        f"With {more} instead of {scaling.parallelism} subtasks of {scaling.vertex}, the limit is "
        f"{scaling.limit:.3g} instead of {scaling.before:.3g} (then {scaling.limiting} is first)."
    )
    words = [f"{sentence} This needs {', and '.join(needs)}." if needs else sentence]
    if scaling.has_shares:
        words.append(KEYS)
    return words if scaling.autoscaler == scaling.parallelism else words + known([autoscaler_text(scaling)])


def print_forecast(forecast: Forecast, console: Console, *, verbose: bool = False) -> None:
    """Print the sentences, the options to paste, and a table over the load for each setting."""
    verdict, *others = forecast_words(forecast)
    console.print(Text(verdict, style="bold"))
    for sentence in others:
        console.print(Text(sentence))
    if forecast.recommendation.configuration:
        console.print()
        for line in forecast.recommendation.configuration:  # not wrapped, without trailing blanks
            console.print(Text(f"  {line}"), soft_wrap=True)
    console.print()
    for curve in forecast.curves:
        _print_curve(curve, forecast, console)
    if verbose:
        for sentence in forecast.recommendation.words:
            console.print(Text(sentence, style="dim"))
    for failure in forecast.failures:
        console.print(Text(f"failed: {failure}", style="red"))


def _print_curve(curve: Curve, forecast: Forecast, console: Console) -> None:
    table = figures([Column("load", justify="right"), *map(number, _HEADS)], padding=(0, 1, 0, 0), edge=False)
    table.title, table.title_justify, table.title_style = curve_name(curve, forecast), "left", "bold"
    for row in load_rows(curve):
        style = "dim" if row.is_beyond else "bold" if row.is_limit else ""
        table.add_row(*row.texts, style=style)
    console.print(table)
    console.print()


def curve_name(curve: Curve, forecast: Forecast) -> str:
    """Return the name of a setting, with the meaning of the present one."""
    return f"now: {forecast.recommendation.present}" if curve.setting == NOW else curve.setting


class LoadRow(NamedTuple):
    """A row of the table over the load."""

    texts: list[str]
    """The load, then the figures of `LOAD_COLUMNS`."""
    is_limit: bool
    """Whether the load is the limit of the job."""
    is_beyond: bool
    """Whether the load is more than the job can take."""


LOAD_COLUMNS = ("records/s", "checkpoint", "95 %", "worst", "record delay", "in flight", "busiest subtask")
"""Names of the figures over the load."""


def load_rows(curve: Curve) -> list[LoadRow]:
    """Return the table of a job over the load, with one setting."""
    rows = []
    for point in curve.points:
        is_limit = curve.headroom.is_bounded and abs(point.load - curve.headroom.limit) < 1e-3
        texts = [
            f"{point.load:.3g}" + (" limit" if is_limit else ""),
            per_second(point.throughput_per_s),
            milliseconds(point.checkpoint_ms),
            milliseconds(point.checkpoint_p95_ms),
            milliseconds(point.checkpoint_max_ms),
            milliseconds(point.record_delay_ms) if point.keeps_up else "grows",
            size(point.in_flight_bytes),
            f"{point.busiest} {percent(point.busiest.busy_share)}",
        ]
        rows.append(LoadRow(texts, is_limit, point.load > curve.headroom.limit * 1.001))
    return rows


DRILL_COLUMNS = ("caught up after", "completed", "expired", "failed", "checkpoint", "worst", "before")
"""Names of the figures of a restart drill."""


def drill_cells(drill: RestartDrill) -> list[str]:
    """Return the figures of a restart drill: when it has caught up, and its checkpoints meanwhile."""
    caught_up = NOTHING
    if drill.caught_up_s is not None:
        about = "about " if drill.emulated_s < drill.caught_up_s else ""
        caught_up = f"{about}{duration_text(drill.caught_up_s)}"
    return [
        caught_up,
        str(drill.checkpoints_completed),
        str(drill.checkpoints_expired),
        str(drill.checkpoints_failed - drill.checkpoints_expired),
        milliseconds(drill.checkpoint_ms),
        milliseconds(drill.checkpoint_max_ms),
        milliseconds(drill.before_ms),
    ]


def scaling_table(forecast: Forecast) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Return the heads and the rows that compare the job without and with one more subtask.

    Each row has the name of a figure and its two values. Both lists are empty for a job without a limit.
    """
    scaling = forecast.scaling
    if scaling is None:
        return [], []
    today = next((point for point in forecast.advised.points if point.load == 1.0), None)
    before_ms = None if today is None else today.checkpoint_ms
    rows = [
        ("limit, as a multiple of today's load", f"{scaling.before:.3g}", f"{scaling.limit:.3g}"),
        ("first at its limit", scaling.vertex, scaling.limiting),
        ("checkpoint at today's load", milliseconds(before_ms), milliseconds(scaling.checkpoint_ms)),
        ("slots", str(scaling.slots), str(scaling.slots_after)),
        ("network memory to start", size(scaling.memory_bytes), size(scaling.memory_bytes_after)),
    ]
    return [counted(scaling.parallelism + more, "subtask") for more in (0, 1)], rows


def autoscaler_text(scaling: Scaling) -> str | None:
    """Return the number of subtasks that Flink's autoscaler would choose, in one sentence; None: unknown."""
    if scaling.autoscaler is None:
        return None
    return (
        f"Flink's autoscaler, which wants vertices busy for {percent(TARGET_UTILISATION)} of the time, would "
        f"choose {counted(scaling.autoscaler, 'subtask')} of {scaling.vertex} for today's load."
    )
