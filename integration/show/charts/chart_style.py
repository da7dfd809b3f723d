"""Charts of runs: panels on common scales, colours, and output as PNG, SVG or an altair chart.

Two runs stand side by side. Every chart over time shows the events of its jobs: a red line for each fault,
a shaded area from a failure until the job runs again, and a violet line for each change of options, rates or
service times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import ceil, floor, log10
from textwrap import wrap
from typing import Any

import altair as alt
import vl_convert
from msgspec import UNSET

from netstack import Result

from ...runs.window_figures import WindowFigures, figures_of_runs
from ..terminal.console import shown
from ..terminal.sentences import changes, down_times

ChartRow = dict[str, Any]
"""One mark of a chart."""

Results = Mapping[str, Result]
"""Results by name of the run."""

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: the name of its file, its finding as the title, a note on reading it, and its specification.

    Title and note are not part of the specification, because a page breaks long lines, and Vega-Lite does
    not.
    """

    name: str
    title: str
    note: str
    spec: Spec
    of_checkpoints: bool = False
    """Whether a report shows the chart in its part about checkpoints."""
    in_tuning: bool = False
    """Whether the page of `tune` includes the chart."""


PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7a00", "#6f5fb5")
"""Colours that are distinct for every kind of colour vision (after Okabe and Ito), on white and on black."""

NEUTRAL = "#808080"
"""Colour of marks that belong to no subtask."""

ALARM = "#d1242f"
"""Colour of failures."""

CHANGED = "#8b5cf6"
"""Colour of changes of the job and its load."""

SHADE = 0.14
"""Opacity of the area that marks a job that is down."""

PANEL_WIDTH = 400
"""Width of one run's panel in a PNG, in pixels, without the axis beside it."""

PANEL_GAP = 14

_NARROWEST, _WIDER, _WIDEST = 1.5, 1.4, 4.5
"""Width of the thinnest line, increment for each further line, and maximum total increment, in pixels."""

TIME = "time (s)"
"""Title of the time axis."""

MAX_SUBTASKS = 8
"""Maximum number of subtasks of a vertex in a chart. The first ones are drawn."""

MAX_EVENTS = 100
"""Maximum number of events of each kind of a run in a chart. The first ones are drawn."""

DOWN, FAULT, CHANGE = "down", "fault", "change"
"""Values of the field ``event``: the job is down; an injected fault; a change of the job or its load."""

SUBTASKS = tuple(f"subtask {index}" for index in range(MAX_SUBTASKS))
"""Names of subtasks in legends."""

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""Version of Vega-Lite of the specifications."""

PNG_SCALE = 2

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
"""Fonts with equal character widths, since vl-convert measures text with a font of its own."""


def panels(
    marks: Sequence[Any],
    rows: list[ChartRow],
    results: Results,
    *,
    height: int,
    row: str | None = None,
    time: str = TIME,
) -> Spec:
    """Return the specification of panels: a column for each run, a row for each value of the field `row`.

    Runs without rows have no panel. `marks` are layers that draw `rows`; `time` is the time axis's title.
    """
    runs = ordered(rows, "run", list(results))
    values = ordered(rows, row, distinct(rows, row)) if row else []
    if row:
        # Rows without a mark keep the places of missing panels, which other panels would take.
        there = {(each["run"], each.get(row)) for each in rows}
        rows = rows + [
            {"run": run, row: value} for value in values for run in runs if (run, value) not in there
        ]
    events = event_rows({run: results[run] for run in runs}, row, values)
    layers = [*_with_events(marks, events, time), *_window_rules(results), _end_of_longest(results)]
    width = PANEL_WIDTH if len(runs) > 1 else 2 * PANEL_WIDTH
    heading = alt.Header(labelAnchor="start") if len(runs) > 1 else None
    facets: dict[str, Any] = {"column": alt.Column("run:N", sort=runs, title=None, header=heading)}
    if len(values) > 1:
        facets["row"] = _rows_of_panels(str(row), values)
    layered = alt.layer(*layers).properties(width=width, height=height)
    spec: Spec = layered.facet(**facets, data={"values": rows + events}, spacing=PANEL_GAP).to_dict()
    return spec


def _rows_of_panels(field: str, values: list[str]) -> alt.Row:
    header = alt.Header(labelOrient="top", labelAnchor="start", labelFontWeight="normal", labelPadding=2)
    return alt.Row(f"{field}:N", sort=values, title=None, header=header)


def _with_events(marks: Sequence[Any], events: list[ChartRow], time: str) -> list[Any]:
    """Return the layers `marks` between those of the events: areas below them, lines above them."""
    if not events:
        return list(marks)
    kinds = {row["event"] for row in events}
    layers = [mark.transform_filter("!isValid(datum.event)") for mark in marks]
    if DOWN in kinds:
        tips = ["what:N", tip("t", "from (s)"), tip("until", "to (s)")]
        area = alt.Chart().mark_rect(color=ALARM, opacity=SHADE)
        area = area.encode(x=seconds(time), x2="until:Q", tooltip=tips)
        layers.insert(0, area.transform_filter(f"datum.event == '{DOWN}'"))
    for kind, colour in ((CHANGE, CHANGED), (FAULT, ALARM)):
        if kind in kinds:
            line = alt.Chart().mark_rule(color=colour, strokeWidth=1.5)
            line = line.encode(x=seconds(time), tooltip=["what:N", tip("t", "time (s)")])
            layers.append(line.transform_filter(f"datum.event == '{kind}'"))
    return layers


def _window_rules(results: Results) -> list[Any]:
    rule = alt.Chart().mark_rule(strokeDash=[3, 3], color=NEUTRAL)
    return [rule.encode(x=alt.datum(t)) for t in window_edges(results)]


def _end_of_longest(results: Results) -> Any:
    """Return an invisible layer that extends the time axis to the end of the longest run."""
    end = max(result.emulated_seconds for result in results.values())
    scale = alt.Scale(domain=[0, end], nice=False)
    return alt.Chart().mark_rule(opacity=0).encode(x=alt.XDatum(end, scale=scale))


def ruler_note(results: Results) -> str:
    """Return the meaning of the lines and areas of `panels`: sentences after a space, or an empty text."""
    notes = ""
    if any(len(result.steady) > 1 for result in results.values()):
        notes = " Dashed: begin and end of a measurement."
    elif window_edges(results):
        notes = " Dashed: the measurement begins."
    if any(changes(result) for result in results.values()):
        notes += " Violet lines: changes of options, rates or service times."
    if any(result.faults for result in results.values()):
        notes += " Red lines: faults."
    restarts = [restart for result in results.values() for restart in result.restarts]
    if restarts:
        whole = all(restart.tasks is UNSET for restart in restarts)
        notes += " Shaded: the job is down." if whole else " Shaded: the job, or a part of it, is down."
    return notes


def seconds(title: str = TIME) -> alt.X:
    """Return the time axis, for the field `t`."""
    return alt.X("t:Q", title=title, axis=alt.Axis(grid=False, tickCount=6))


LOG_TIME = "datum.value < 1000 ? datum.value + ' ms' : datum.value / 1000 + ' s'"
"""Expression for the labels of a logarithmic axis of milliseconds."""

_ROUND = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)


def round_numbers(values: Sequence[float]) -> list[float]:
    """Return round numbers for the ticks of a log axis, from near the least to near the greatest value."""
    low, high = min(values) / 1.5, max(values) * 1.5
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    return [number for power in powers for part in _ROUND if low <= (number := part * 10.0**power) <= high]


def tip(field: str, title: str) -> alt.Tooltip:
    """Return a number for a tooltip."""
    return alt.Tooltip(f"{field}:Q", title=title)


def word(field: str, title: str) -> alt.Tooltip:
    """Return a text for a tooltip."""
    return alt.Tooltip(f"{field}:N", title=title)


def colours(field: str, names: Sequence[str], palette: Sequence[str], symbol: str = "square") -> alt.Color:
    """Return colours for the values of a field, with a legend above the chart."""
    scale = alt.Scale(domain=list(names), range=list(palette[: len(names)]))
    return alt.Color(f"{field}:N", scale=scale, legend=_legend_above(symbol))


def _legend_above(symbol: str) -> alt.Legend:
    # Symbols of lines are opaque, whatever other marks the chart has.
    opaque: dict[str, Any] = {"symbolOpacity": 1} if symbol == "stroke" else {}
    return alt.Legend(title=None, orient="top", symbolType=symbol, **opaque)


def subtask_colours(names: Sequence[str]) -> alt.Color:
    """Return the colours of subtasks by name; other names are grey."""
    known = dict(zip(SUBTASKS, PALETTE, strict=True))
    return colours("subtask", names, [known.get(name, NEUTRAL) for name in names], "stroke")


def subtask_widths(names: Sequence[str]) -> alt.StrokeWidth:
    """Return line widths for subtasks. Lines that coincide stay visible if the widest is drawn first."""
    step = min(_WIDER, _WIDEST / max(1, len(names) - 1))
    widths = [_NARROWEST + step * place * (name in SUBTASKS) for place, name in enumerate(names)]
    scale = alt.Scale(type="ordinal", domain=list(names), range=widths)
    return alt.StrokeWidth("subtask:O", scale=scale, legend=_legend_above("stroke"))


def distinct(rows: list[ChartRow], field: str) -> list[str]:
    """Return the values of a field in order of appearance. Rows without the field are ignored."""
    return list(dict.fromkeys(row[field] for row in rows if field in row))


def ordered(rows: list[ChartRow], field: str, names: Sequence[str]) -> list[str]:
    """Return the names that are values of a field, in the order of `names`."""
    values = set(distinct(rows, field))
    return [name for name in names if name in values]


def per_window(results: Results, text: Callable[[WindowFigures], str]) -> str:
    """Return a text for each run and window, as "32.0 KiB (off), 5.10 KiB (on)"."""
    texts = {label: text(findings) for label, findings in figures_of_runs(results).items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{value} ({label})" for label, value in texts.items())


def event_rows(results: Results, field: str | None = None, values: Sequence[str] = ()) -> list[ChartRow]:
    """Return the events of jobs as rows ``run, event, t, what``, and ``until`` if a job was down.

    If panels stand for the values of `field`, each event is repeated for every value.
    """
    copies: list[ChartRow] = [{field: value} for value in values] if field and values else [{}]
    rows = []
    for run, result in results.items():
        events: list[ChartRow] = []
        for restart, (since, until) in zip(result.restarts, down_times(result), strict=True):
            part = "" if restart.tasks is UNSET else f"{', '.join(restart.tasks)} "
            events.append({"event": DOWN, "t": since, "until": until, "what": f"{part}down: {restart.cause}"})
        del events[MAX_EVENTS:]
        events += [{"event": FAULT, "t": fault.t, "what": fault.what} for fault in result.faults[:MAX_EVENTS]]
        events += [{"event": CHANGE, "t": each.t, "what": each.text} for each in changes(result)[:MAX_EVENTS]]
        rows += [{"run": run} | event | copy for event in events for copy in copies]
    return rows


def window_edges(results: Results) -> list[float]:
    """Return the start times of windows, and also their ends if a run has several windows, in seconds."""
    windows = [steady for result in results.values() for steady in result.steady]
    edges = {steady.from_s for steady in windows}
    if any(len(result.steady) > 1 for result in results.values()):
        edges |= {steady.to_s for steady in windows}
    ends = {result.emulated_seconds for result in results.values()}
    return sorted(edges - ends - {0.0})


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
}
"""Look of a PNG. A page has its own configurations, for light and for dark colours."""

_PAGE = "currentColor"

_SVG_CONFIG = {
    "background": None,
    "font": FONT,
    "title": {
        "color": _PAGE, "subtitleColor": _PAGE, "anchor": "start", "fontSize": 14, "subtitleFontSize": 11
    },
    "axis": {
        "labelColor": _PAGE, "titleColor": _PAGE, "titleFontWeight": "normal", "domainColor": _PAGE,
        "tickColor": _PAGE, "gridColor": _PAGE, "gridOpacity": 0.15,
    },
    "header": {"labelColor": _PAGE, "titleColor": _PAGE},
    "legend": {"labelColor": _PAGE, "titleColor": _PAGE},
    "text": {"color": _PAGE},
    "view": {"stroke": _PAGE, "strokeOpacity": 0.3},
}  # fmt: skip
"""Look of an SVG: the colours of the page around it."""

_SCALED = "max-width: 100%; height: auto; overflow: visible"

_ID = re.compile(r'(?<= id=")[^"]+(?=")')


def to_png(chart: Chart, *, scale: float = PNG_SCALE) -> bytes:
    """Return a chart, with its title, as a PNG on white."""
    spec = drawable(_titled(chart, note_width=130, anchor="start"))
    return vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=scale, config=_PNG_CONFIG)


class _ShownWithoutNetwork:
    """Notebook display of an altair chart without network access, which altair's own display needs."""

    def _repr_mimebundle_(self, *args: object, **options: object) -> dict[str, object]:
        spec = self.to_dict()  # type: ignore[attr-defined]
        kind = f"application/vnd.vegalite.v{VEGA_LITE.partition('.')[0]}+json"
        return {kind: spec, "text/html": _svg(spec), "text/plain": f"<{type(self).__name__}>"}


def to_altair(chart: Chart) -> Any:
    """Return a chart, with its title, as an altair chart.

    A notebook draws the chart with its own Vega-Lite if the version fits, or else shows an SVG. An exported
    notebook shows the SVG.
    """
    made: Any = alt.Chart.from_dict(_titled(chart))
    kind: Any = type(made)
    shown_alone = type(kind.__name__, (_ShownWithoutNetwork, kind), {})
    # altair's own `__setattr__` would add a key to the specification.
    object.__setattr__(made, "__class__", shown_alone)
    return made


def to_svg(chart: Chart) -> str:
    """Return a chart, with its title, as an SVG element that scales with the page."""
    return _svg(_titled(chart))


def _svg(spec: Spec) -> str:
    svg = vl_convert.vegalite_to_svg(drawable(spec), vl_version=VEGA_LITE, config=_SVG_CONFIG)
    digest = sha256(svg.encode()).hexdigest()[:12]
    for name in dict.fromkeys(_ID.findall(svg)):  # these ids must be unique among all SVGs of a notebook
        unique = f"{digest}-{name}"
        svg = svg.replace(f' id="{name}"', f' id="{unique}"').replace(f"#{name})", f"#{unique})")
        svg = svg.replace(f'href="#{name}"', f'href="#{unique}"')
    return svg.replace("<svg ", f'<svg style="{_SCALED}" ', 1)


def _titled(chart: Chart, note_width: int = 100, **title: str) -> Spec:
    lines = {"text": wrap(chart.title, 100), "subtitle": wrap(chart.note, note_width)}
    return chart.spec | {"title": lines | title}


def drawable(value: Any) -> Any:
    """Return a specification with control characters replaced, because an SVG cannot contain them."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, list):
        return [drawable(each) for each in value]
    return {key: drawable(each) for key, each in value.items()} if isinstance(value, dict) else value
