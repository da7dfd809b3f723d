"""What the pictures of a report have in common: panels of runs on the same scales, rulers, colours.

Up to `MOST_COLUMNS` runs stand side by side, more of them one below the other. What happened to the jobs is
in every picture over time: a red rule for each fault, and a shade from a failure until the job runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
from msgspec import UNSET

from ..analysis.window_figures import WindowFigures, figures_of_runs
from . import chart_data
from .chart_data import Results, Row, subtask_name

Spec = dict[str, Any]

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7a00", "#6f5fb5")
"""Colours that people of every colour vision tell apart (after Okabe and Ito), on white and on black."""

NEUTRAL = "#808080"
"""Colour of what belongs to no subtask."""

ALARM = "#d1242f"
"""Colour of what has gone wrong."""

SHADE = 0.14
"""How opaque the shade of a job that is down is."""

PANEL_WIDTH = 400
"""Width of one run's panel in a PNG, in pixels before its scale."""

PANEL_GAP = 14

_NARROWEST, _WIDER, _WIDEST = 1.5, 1.4, 4.5
"""Pixels of the first subtask's line, how much wider each next one is, and at most the last one."""

TIME = "time (s)"
"""What the axis of time is called."""

MOST_COLUMNS = 2
"""Runs that stand side by side."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture: the name of its file, what it shows in numbers, how to read it, and the specification."""

    name: str
    title: str
    note: str
    spec: Spec


def panels(
    marks: Sequence[Any],
    rows: list[Row],
    results: Results,
    *,
    height: int,
    row: str | None = None,
    time: str = TIME,
) -> Spec:
    """Return one panel for each run, and for each value of the field `row` where runs stand side by side.

    Runs without rows have none. `marks` are layers without data, which is `rows`; `time` is what their axis
    of time is called.
    """
    runs = present(rows, "run", list(results))
    values = present(rows, row, distinct(rows, row)) if row else []
    side_by_side = len(results) <= MOST_COLUMNS
    if row and side_by_side:
        rows = rows + _blanks(rows, runs, row, values)
    events = chart_data.events({run: results[run] for run in runs}, row, values)
    layers = [*_shades(events, time), *(_no_event(mark) if events else mark for mark in marks)]
    layers += [*_faults(events, time), *(_ruler(t) for t in chart_data.window_edges(results))]
    layers.append(_whole_run(results))
    width = PANEL_WIDTH if side_by_side and len(runs) > 1 else 2 * PANEL_WIDTH
    facets = _side_by_side(runs, row, values) if side_by_side else {"row": _row("run", runs)}
    layered = alt.layer(*layers).properties(width=width, height=height)
    spec: Spec = layered.facet(**facets, data={"values": rows + events}, spacing=PANEL_GAP).to_dict()
    return spec


def _blanks(rows: list[Row], runs: list[str], row: str, values: list[str]) -> list[Row]:
    """Rows without a mark for the panels that would be missing, whose places others would take."""
    there = {(each["run"], each.get(row)) for each in rows}
    return [{"run": run, row: value} for value in values for run in runs if (run, value) not in there]


def _side_by_side(runs: list[str], row: str | None, values: list[str]) -> dict[str, Any]:
    heading = alt.Header(labelAnchor="start") if len(runs) > 1 else None
    facets: dict[str, Any] = {"column": alt.Column("run:N", sort=runs, title=None, header=heading)}
    if row and len(values) > 1:
        facets["row"] = _row(row, values)
    return facets


def _row(field: str, values: list[str]) -> alt.Row:
    header = alt.Header(labelOrient="top", labelAnchor="start", labelFontWeight="normal", labelPadding=2)
    return alt.Row(f"{field}:N", sort=values, title=None, header=header)


def _no_event(mark: Any) -> Any:
    return mark.transform_filter("!isValid(datum.event)")


def _shades(events: list[Row], time: str) -> list[Any]:
    """The layer of when the jobs were down, if any was."""
    tooltip = ["what:N", tip("t", "from (s)"), tip("until", "to (s)")]
    shade = alt.Chart().mark_rect(color=ALARM, opacity=SHADE).encode(x=seconds(time), x2="until:Q")
    return _layer_of(chart_data.DOWN, events, shade.encode(tooltip=tooltip))


def _faults(events: list[Row], time: str) -> list[Any]:
    """The layer of the faults, if there were any."""
    rule = alt.Chart().mark_rule(color=ALARM, strokeWidth=1.5).encode(x=seconds(time))
    return _layer_of(chart_data.FAULT, events, rule.encode(tooltip=["what:N", tip("t", "time (s)")]))


def _layer_of(event: str, events: list[Row], mark: Any) -> list[Any]:
    there = any(row["event"] == event for row in events)
    return [mark.transform_filter(f"datum.event == '{event}'")] if there else []


def _ruler(t: float) -> Any:
    return alt.Chart().mark_rule(strokeDash=[3, 3], color=NEUTRAL).encode(x=alt.datum(t))


def _whole_run(results: Results) -> Any:
    """Nothing to see, but the axis of time goes from the beginning to the end of the longest run for it."""
    end = max(result.emulated_seconds for result in results.values())
    scale = alt.Scale(domain=[0, end], nice=False)
    return alt.Chart().mark_rule(opacity=0).encode(x=alt.XDatum(end, scale=scale))


def ruler_note(results: Results) -> str:
    """Return what the lines and shades of `panels` mean, as sentences after a space; or nothing."""
    notes = ""
    if any(len(result.steady) > 1 for result in results.values()):
        notes = " Dashed: what is measured begins and ends."
    elif chart_data.window_edges(results):
        notes = " Dashed: measuring begins."
    if any(result.faults for result in results.values()):
        notes += " Red lines: faults."
    restarts = [restart for result in results.values() for restart in result.restarts]
    if restarts:
        whole = all(restart.tasks is UNSET for restart in restarts)
        notes += " Shaded: the job is down." if whole else " Shaded: the job, or a part of it, is down."
    return notes


def seconds(title: str = TIME) -> alt.X:
    """Return the axis of time, which the field `t` is on."""
    return alt.X("t:Q", title=title, axis=alt.Axis(grid=False, tickCount=6))


def tip(field: str, title: str) -> alt.Tooltip:
    """Return a number of a tooltip."""
    return alt.Tooltip(f"{field}:Q", title=title)


def colours(field: str, names: Sequence[str], palette: Sequence[str], symbol: str = "square") -> alt.Color:
    """Return the colours of a field's values, with a legend of them above the picture."""
    scale = alt.Scale(domain=list(names), range=list(palette[: len(names)]))
    legend = alt.Legend(title=None, orient="top", symbolType=symbol)
    if symbol == "stroke":
        legend.symbolOpacity = 1  # lines have it, whatever the marks beside them have
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def subtask_colours(names: Sequence[str]) -> alt.Color:
    """Return the colours of subtasks by name; what is no subtask's name is neutral."""
    known = dict(zip(subtask_names(), PALETTE, strict=True))
    return colours("subtask", names, [known.get(name, NEUTRAL) for name in names], "stroke")


def subtask_widths(names: Sequence[str]) -> alt.StrokeWidth:
    """Return the widths of subtasks' lines: all that coincide can be seen, if the widest is drawn first."""
    step = min(_WIDER, _WIDEST / max(1, len(names) - 1))
    known = set(subtask_names())
    widths = [_NARROWEST + step * place * (name in known) for place, name in enumerate(names)]
    scale = alt.Scale(type="ordinal", domain=list(names), range=widths)
    return alt.StrokeWidth("subtask:N", scale=scale, legend=None)


def coincidence_note(names: Sequence[str]) -> str:
    """Return how lines of several subtasks are told apart, as a sentence after a space; or nothing."""
    return " Subtasks that coincide lie on one another." if len(names) > 1 else ""


def subtask_names() -> list[str]:
    """Return the names of all subtasks that may be drawn."""
    return [subtask_name(index) for index in range(chart_data.MAX_SUBTASKS)]


def distinct(rows: list[Row], field: str) -> list[str]:
    """Return the values of a field, in order of appearance; rows without it do not count."""
    return list(dict.fromkeys(row[field] for row in rows if field in row))


def present(rows: list[Row], field: str, names: Sequence[str]) -> list[str]:
    """Return those of some names that are values of a field."""
    values = set(distinct(rows, field))
    return [name for name in names if name in values]


def each(results: Results, text: Callable[[WindowFigures], str]) -> str:
    """Return what holds for each run and window, as "32.0 KiB (off), 5.10 KiB (on)"."""
    texts = {label: text(findings) for label, findings in figures_of_runs(results).items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{value} ({label})" for label, value in texts.items())
