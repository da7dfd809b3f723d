"""The pictures of a report over time: Vega-Lite specifications, and PNGs made of them.

One function a picture; those of checkpoints are in `checkpoint_charts`. Titles say what was found; they are
kept apart from the specification, since a page breaks long lines and a picture does not.
"""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import altair as alt
import vl_convert

from ..analysis.window_figures import WindowFigures
from ..analysis.wording import NOTHING, milliseconds, size
from . import chart_data
from .chart_data import Results
from .checkpoint_charts import checkpoint_bytes, checkpoint_history, checkpoint_phases, checkpoint_time
from .output import shown
from .panels import (
    MOST_COLUMNS,
    Chart,
    coincidence_note,
    colours,
    each,
    panels,
    present,
    ruler_note,
    seconds,
    subtask_colours,
    subtask_names,
    subtask_widths,
    tip,
)

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""The version of Vega-Lite that the specifications are written for."""

PNG_SCALE = 2

_LEAST_TOP = 4
"""What an axis of counts goes up to at least, so that it has whole numbers only."""

_PLACES = ("#0072b2", "#e69f00")
FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
"""Of the same widths wherever it is found, since the library that draws measures text by its own."""
_TITLE_CHARACTERS = 100
_NOTE_CHARACTERS = 130


def charts(results: Results) -> list[Chart]:
    """Return the pictures of some runs of one job, by name; those without anything to show are left out.

    Of more runs than stand side by side, those that compare subtasks are left out.
    """
    several = (checkpoint_phases, checkpoint_history, checkpoint_bytes, in_flight_time)
    few = (checkpoint_history, checkpoint_bytes, buffer_size, in_flight_time, checkpoint_time, queue_length)
    makers = several if len(results) > MOST_COLUMNS else few
    return [chart for make in makers if (chart := make(results)) is not None]


def buffer_size(results: Results) -> Chart | None:
    """The size of new buffers over time, one line per subtask; None where debloating is off in all runs."""
    rows = chart_data.buffer_sizes(results)
    if not rows or not chart_data.any_debloated(results):
        return None
    subtasks = present(rows, "subtask", [*subtask_names(), chart_data.FIXED])
    whole = max(result.scenario.config.segment_bytes for result in results.values()) / 1024
    lines = (
        alt.Chart()
        .mark_line(interpolate="step-after")
        .encode(
            x=seconds(),
            y=alt.Y("kib:Q", title="buffer size (KiB)", scale=_from_0_to(whole), axis=_eighths(whole)),
            color=subtask_colours(subtasks),
            strokeWidth=subtask_widths(subtasks),
            tooltip=["vertex:N", "subtask:N", tip("t", "time (s)"), tip("kib", "KiB")],
        )
    )
    return Chart(
        "buffer-size",
        f"Size of new buffers: {each(results, lambda findings: size(findings.buffer_bytes))}",
        f"Median of the smallest subtask. Receivers announce it for new buffers."
        f"{coincidence_note(subtasks)}{ruler_note(results)}",
        panels([lines], rows, results, row="vertex", height=200),
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
            x=seconds(),
            y=alt.Y("s:Q", title="time to consume (s)").stack("zero"),
            color=colours("place", places, _PLACES),
            order=alt.Order("place:N", sort="descending"),
            tooltip=["place:N", tip("t", "time (s)"), tip("s", "seconds"), tip("mib", "MiB")],
        )
    )
    return Chart(
        "in-flight-time",
        f"Records in flight last for: {each(results, _in_flight)}",
        f"Queued bytes over throughput: how long a record waits on average.{ruler_note(results)}",
        panels([areas], rows, results, height=200 if len(results) <= MOST_COLUMNS else 110),
    )


def queue_length(results: Results) -> Chart | None:
    """Buffers queued over time, one line per subtask, senders above receivers; None without samples."""
    rows = chart_data.queue_lengths(results)
    if not rows:
        return None
    subtasks = present(rows, "subtask", subtask_names())
    most = max(_LEAST_TOP, *(row["buffers"] for row in rows))
    lines = (
        alt.Chart()
        .mark_line(interpolate="step-after")
        .encode(
            x=seconds(),
            y=alt.Y("buffers:Q", title="buffers", scale=alt.Scale(domain=[0, most])),
            color=subtask_colours(subtasks),
            strokeWidth=subtask_widths(subtasks),
            tooltip=["place:N", "subtask:N", tip("t", "time (s)"), tip("buffers", "buffers")],
        )
    )
    return Chart(
        "queue-length",
        f"Buffers that wait at senders and receivers: {each(results, _buffers_that_wait)}",
        f"Medians of all subtasks together; a line is a subtask. Events, such as barriers, are counted, too."
        f"{coincidence_note(subtasks)}{ruler_note(results)}",
        panels([lines], rows, results, row="place", height=130),
    )


def to_png(chart: Chart, *, scale: float = PNG_SCALE) -> bytes:
    """Return a picture, with its title, as a PNG on white."""
    title = {
        "text": wrap(chart.title, _TITLE_CHARACTERS),
        "subtitle": wrap(chart.note, _NOTE_CHARACTERS),
        "anchor": "start",
    }
    spec = drawable(chart.spec | {"title": title})
    return vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=scale, config=_PNG_CONFIG)


def drawable(value: Any) -> Any:
    """Return a specification in which control characters are shown: an SVG can have none."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, list):
        return [drawable(each) for each in value]
    return {key: drawable(each) for key, each in value.items()} if isinstance(value, dict) else value


_PNG_CONFIG = {
    "font": FONT,
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


def _from_0_to(top: float) -> alt.Scale:
    return alt.Scale(domain=[0, 1.05 * top], nice=False)


def _eighths(top: float) -> alt.Axis:
    return alt.Axis(values=[top * part / 8 for part in range(0, 9, 2)])


def _in_flight(findings: WindowFigures) -> str:
    return milliseconds(None if findings.in_flight_s is None else 1000 * findings.in_flight_s)


def _buffers_that_wait(findings: WindowFigures) -> str:
    sent, received = findings.sender_buffers, findings.receiver_buffers
    if sent is None or received is None:
        return NOTHING
    return f"{sent:,g} + {received:,g}"
