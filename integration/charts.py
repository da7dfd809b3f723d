"""The pictures of a report: Vega-Lite specifications, and PNGs made of them.

One function a picture. Runs stand side by side on the same scales. Titles say what was found; they are kept
apart from the specification, since a page breaks long lines and a picture does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert

from . import chart_data
from .chart_data import Results, Row, subtask_name
from .findings import Findings, find_all, segment_bytes
from .wording import NOTHING, milliseconds, percent, size

Spec = dict[str, Any]

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7a00", "#6f5fb5")
"""Colours that people of every colour vision tell apart (after Okabe and Ito), on white and on black."""

NEUTRAL = "#808080"
"""Of what is no subtask's."""

_PLACES = ("#0072b2", "#e69f00")
_PARTS = ("#56b4e9", "#d55e00")

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""The version of Vega-Lite that the specifications are written for."""

PANEL_WIDTH = 400
"""Width of one run's panel in a PNG, in pixels before `PNG_SCALE`."""

PANEL_GAP = 14

PNG_SCALE = 2

_FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture: the name of its file, what it shows in numbers, how to read it, and the specification."""

    name: str
    title: str
    note: str
    spec: Spec


def charts(results: Results) -> list[Chart]:
    """Return the pictures of some runs of one job, by name; those without anything to show are left out."""
    makers = (buffer_size, in_flight_time, checkpoint_time, queue_length)
    return [chart for make in makers if (chart := make(results)) is not None]


def buffer_size(results: Results) -> Chart | None:
    """The size of new buffers over time, one line per subtask; None where debloating is off in all runs."""
    rows = chart_data.buffer_sizes(results)
    if not rows or not chart_data.any_debloated(results):
        return None
    subtasks = _present(rows, "subtask", [*_subtask_names(), chart_data.FIXED])
    whole = max(segment_bytes(result) for result in results.values()) / 1024
    lines = (
        alt.Chart()
        .mark_line(interpolate="step-after", strokeWidth=1.8)
        .encode(
            x=_seconds(),
            y=alt.Y("kib:Q", title="buffer size (KiB)", scale=_from_0_to(whole), axis=_eighths(whole)),
            color=_subtask_colours(subtasks),
            tooltip=["vertex:N", "subtask:N", _tip("t", "time (s)"), _tip("kib", "KiB")],
        )
    )
    return Chart(
        "buffer-size",
        f"Size of new buffers: {_each(results, lambda found: size(found.buffer_bytes))}",
        f"Median of the smallest subtask. Receivers announce it for new buffers.{_ruler_note(results)}",
        _panels(lines, rows, results, row="vertex", height=200),
    )


def in_flight_time(results: Results) -> Chart | None:
    """Time that the job needs for what is queued, split by where it waits; None without samples of it."""
    rows = chart_data.in_flight(results)
    if not rows:
        return None
    places = [chart_data.RECEIVERS, chart_data.SENDERS]
    areas = (
        alt.Chart()
        .mark_area(interpolate="step-after", opacity=0.85)
        .encode(
            x=_seconds(),
            y=alt.Y("s:Q", title="time to consume (s)").stack("zero"),
            color=_colours("place", places, _PLACES),
            order=alt.Order("place:N", sort="descending"),
            tooltip=["place:N", _tip("t", "time (s)"), _tip("s", "seconds"), _tip("mib", "MiB")],
        )
    )
    return Chart(
        "in-flight-time",
        f"Records in flight last for: {_each(results, _in_flight)}",
        f"Queued bytes over throughput: how long a record waits on average.{_ruler_note(results)}",
        _panels(areas, rows, results, height=200),
    )


def checkpoint_time(results: Results) -> Chart | None:
    """Start delay and alignment of every checkpoint in every subtask, stacked; None without checkpoints."""
    rows = chart_data.checkpoint_parts(results)
    if not rows:
        return None
    parts = [chart_data.START_DELAY, chart_data.ALIGNMENT]
    bars = (
        alt.Chart()
        .mark_rect()
        .encode(
            x=_seconds("trigger of the checkpoint (s)"),
            x2="until:Q",
            y=alt.Y("from_s:Q", title="s"),
            y2="to_s:Q",
            color=_colours("part", parts, _PARTS),
            tooltip=["subtask:N", _tip("id", "checkpoint"), "part:N", _tip("s", "seconds")],
        )
    )
    return Chart(
        "checkpoint-time",
        f"Start delay and alignment: {_each(results, _waits)}",
        f"Medians of the slowest subtask. Each bar is a checkpoint.{_ruler_note(results)}",
        _panels(bars, rows, results, row="subtask", height=72),
    )


def queue_length(results: Results) -> Chart | None:
    """Buffers queued over time, one line per subtask, senders above receivers; None without samples."""
    rows = chart_data.queue_lengths(results)
    if not rows:
        return None
    lines = (
        alt.Chart()
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=_seconds(),
            y=alt.Y("buffers:Q", title="buffers"),
            color=_subtask_colours(_present(rows, "subtask", _subtask_names())),
            tooltip=["place:N", "subtask:N", _tip("t", "time (s)"), _tip("buffers", "buffers")],
        )
    )
    return Chart(
        "queue-length",
        f"Queued bytes that wait at the senders: {_each(results, _sender_share)}",
        f"The lines are buffers and events, whatever their size.{_ruler_note(results)}",
        _panels(lines, rows, results, row="place", height=130),
    )


def to_png(chart: Chart, *, scale: float = PNG_SCALE) -> bytes:
    """Return a picture, with its title, as a PNG on white."""
    title = {"text": chart.title, "subtitle": chart.note, "anchor": "start"}
    return vl_convert.vegalite_to_png(
        chart.spec | {"title": title}, vl_version=VEGA_LITE, scale=scale, config=_PNG_CONFIG
    )


_PNG_CONFIG = {
    "font": _FONT,
    "background": "white",
    "padding": 16,
    "title": {"fontSize": 17, "subtitleFontSize": 13, "subtitleColor": "#555", "offset": 14},
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "gridColor": "#e6e6e6"},
    "axisY": {"minExtent": 34, "maxExtent": 34},
    "header": {"labelFontSize": 13, "labelFontWeight": "bold"},
    "legend": {"labelFontSize": 12, "symbolStrokeWidth": 3},
    "view": {"stroke": "#ccc"},
}  # fmt: skip
"""How a PNG looks; a page has a configuration of its own, for light and for dark."""


def _panels(
    marks: alt.Chart, rows: list[Row], results: Results, *, height: int, row: str | None = None
) -> Spec:
    """One column for each run and one row for each value of a field; rulers where measuring begins."""
    runs = _present(rows, "run", list(results))
    layers: list[Any] = [marks, *(_ruler(t) for t in chart_data.window_edges(results))]
    width = PANEL_WIDTH if len(runs) > 1 else 2 * PANEL_WIDTH
    heading = alt.Header(labelAnchor="start") if len(runs) > 1 else None
    facets: dict[str, Any] = {"column": alt.Column("run:N", sort=runs, title=None, header=heading)}
    values = _present(rows, row, _distinct(rows, row)) if row else []
    if len(values) > 1:
        header = alt.Header(labelOrient="top", labelAnchor="start", labelFontWeight="normal", labelPadding=2)
        facets["row"] = alt.Row(f"{row}:N", sort=values, title=None, header=header)
    panels = alt.layer(*layers).properties(width=width, height=height)
    spec: Spec = panels.facet(**facets, data={"values": rows}, spacing=PANEL_GAP).to_dict()
    return spec


def _ruler(t: float) -> Any:
    return alt.Chart().mark_rule(strokeDash=[3, 3], color=NEUTRAL).encode(x=alt.datum(t))


def _ruler_note(results: Results) -> str:
    if any(len(result.steady) > 1 for result in results.values()):
        return " Dashed: what is measured begins and ends."
    return " Dashed: measuring begins." if chart_data.window_edges(results) else ""


def _seconds(title: str = "time (s)") -> alt.X:
    return alt.X("t:Q", title=title, axis=alt.Axis(grid=False, tickCount=6))


def _from_0_to(top: float) -> alt.Scale:
    return alt.Scale(domain=[0, 1.05 * top], nice=False)


def _eighths(top: float) -> alt.Axis:
    return alt.Axis(values=[top * part / 8 for part in range(0, 9, 2)])


def _tip(field: str, title: str) -> alt.Tooltip:
    return alt.Tooltip(f"{field}:Q", title=title)


def _colours(field: str, names: Sequence[str], colours: Sequence[str], symbol: str = "square") -> alt.Color:
    scale = alt.Scale(domain=list(names), range=list(colours[: len(names)]))
    legend = alt.Legend(title=None, orient="top", symbolType=symbol)
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def _subtask_colours(names: Sequence[str]) -> alt.Color:
    known = dict(zip(_subtask_names(), PALETTE, strict=True))
    return _colours("subtask", names, [known.get(name, NEUTRAL) for name in names], "stroke")


def _subtask_names() -> list[str]:
    return [subtask_name(index) for index in range(chart_data.MAX_SUBTASKS)]


def _distinct(rows: list[Row], field: str) -> list[str]:
    return list(dict.fromkeys(row[field] for row in rows))


def _present(rows: list[Row], field: str, names: Sequence[str]) -> list[str]:
    found = set(_distinct(rows, field))
    return [name for name in names if name in found]


def _each(results: Results, text: Callable[[Findings], str]) -> str:
    """Return what holds for each run and window, as "32.0 KiB (off), 5.10 KiB (on)"."""
    texts = {label: text(found) for label, found in find_all(results).items()}
    return (
        next(iter(texts.values())) if len(texts) == 1 else ", ".join(f"{v} ({k})" for k, v in texts.items())
    )


def _in_flight(found: Findings) -> str:
    return milliseconds(None if found.in_flight_s is None else 1000 * found.in_flight_s)


def _waits(found: Findings) -> str:
    return f"{milliseconds(found.start_delay_ms)} + {milliseconds(found.alignment_ms)}"


def _sender_share(found: Findings) -> str:
    return NOTHING if found.sender_share is None else percent(found.sender_share)
