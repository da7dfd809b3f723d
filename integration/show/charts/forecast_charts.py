"""Charts of a forecast: checkpoints, throughput and record delay over the load, and restart drills over time.

A setting has the same colour in all charts. Over the load, a filled mark is a load that the job keeps up
with. A ring is a load that it cannot take: records queue up, so the run at the limit stands for this load.
The charts of drills have a panel for each setting, one below the other, on a common time axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any

import altair as alt
import numpy as np

from flowcontrol import FailureReason
from netstack import CheckpointResult, Result, format_duration

from ...advise.forecast.forecast import Forecast
from ...advise.forecast.load_figures import Curve, LoadFigures
from ...advise.sweeps.restart_drill import RestartDrill, backlog, outage_times
from ...advise.tune.settings import NOW
from ...base.number_text import milliseconds, per_second
from ...runs.job_load import rates_of
from ..terminal.forecast import duration_text
from ..terminal.sentences import down_times
from .chart_style import (
    ALARM,
    LOG_TIME,
    NEUTRAL,
    PALETTE,
    PANEL_GAP,
    PANEL_WIDTH,
    SHADE,
    Chart,
    ChartRow,
    Spec,
    colours,
    round_numbers,
    seconds,
    tip,
)
from .run_charts import outcome, thinned

Drills = Mapping[str, Result]
"""Results of restart drills with their series, by the name of the setting."""

WIDTH, HEIGHT = 2 * PANEL_WIDTH, 300
"""Width and height of a chart over the load, in pixels."""

FLAT_HEIGHT = 200
"""Height of a chart over the load with fewer lines, in pixels."""

PANEL_HEIGHT = 120
"""Height of a setting's panel in a chart of restart drills, in pixels."""

MOST_BARS = 400
"""Maximum number of completed checkpoints of a drill in a chart. With more, every second or third is drawn.

At most as many failed ones are drawn, the first ones.
"""

SETTING_COLOURS = (PALETTE[1], "#3f86d8")
"""Colours of the present and of the recommended setting, also of text, on white and on black."""

MIDDLE, USUAL, WORST = "mean", "95 %", "worst"
TIMES = {MIDDLE: "checkpoint_ms", USUAL: "checkpoint_p95_ms", WORST: "checkpoint_max_ms"}
"""Checkpoint times of a line each, with their fields of `LoadFigures`."""

KEPT_UP, TOO_MUCH = "the job keeps up", "more than it can take"
"""Kinds of loads, by the shape of their mark."""

EXPIRED_MARK, FAILED_MARK = "expired", "failed"
"""Kinds of checkpoints that did not complete, by the shape of their mark."""

_LOG_RATIO = 10.0
"""An axis of times is logarithmic if the longest is at least this multiple of the shortest."""

_LOAD = "load, as a multiple of today's"
_SINCE = "time since the end of the outage (s)"

_DASHES = ([1, 0], [7, 3], [2, 3])

_LABEL_TOP, _LABEL_ROW = 4, 15
"""Distance of the first label from the top of a chart, and the height of a label, in pixels."""


def forecast_charts(forecast: Forecast) -> list[Chart]:
    """Return the charts over the load, without empty ones."""
    made = (checkpoints_by_load(forecast), throughput_by_load(forecast), delay_by_load(forecast))
    return [chart for chart in made if chart is not None]


def checkpoints_by_load(forecast: Forecast) -> Chart | None:
    """Draw checkpoint times over the load, for both settings; None without checkpoints."""
    rows = list(_time_rows(forecast))
    if not rows:
        return None
    y, scale_note = _time_axis([row["ms"] for row in rows], "checkpoint", forecast, HEIGHT)
    base = alt.Chart().encode(x=_load_axis(forecast), y=y, color=_setting_colours(forecast))
    dashes = alt.StrokeDash(
        "time:N",
        scale=alt.Scale(domain=list(TIMES), range=list(_DASHES)),
        legend=alt.Legend(title=None, orient="top", symbolType="stroke", symbolSize=400),
    )
    lines = base.mark_line(strokeWidth=1.8).encode(strokeDash=dashes)
    return Chart(
        "load-checkpoints",
        f"Checkpoints over the load: {_at_the_limit(forecast)}",
        f"Mean, 95th percentile and slowest of the checkpoints in each run.{scale_note} {_loads_note(rows)}",
        _over_load([lines, *_marks(base, f"datum.time == '{MIDDLE}'")], rows, forecast, HEIGHT),
    )


def throughput_by_load(forecast: Forecast) -> Chart | None:
    """Draw the throughput and the records that arrive over the load; None if it was not measured."""
    rows = [
        _point_row(curve, point, forecast) | {"rate": point.throughput_per_s}
        for curve in forecast.curves
        for point in curve.points
        if point.throughput_per_s is not None
    ]
    today = next((row["rate"] for row in rows if row["load"] == 1.0 and row["kind"] == KEPT_UP), None)
    if not rows:
        return None
    most = max(row["rate"] for row in rows)
    y = alt.Y(
        "rate:Q",
        title="throughput (records/s)",
        axis=_count_axis(),
        scale=alt.Scale(domain=[0, 1.05 * most * _room(forecast, FLAT_HEIGHT)], nice=False),
    )
    base = alt.Chart().encode(x=_load_axis(forecast), y=y, color=_setting_colours(forecast))
    layers = [base.mark_line(strokeWidth=1.8), *_marks(base)]
    note = ""
    if today is not None:
        last = min(max(row["load"] for row in rows), 1.05 * most / today)
        ends = [{"load": load, "rate": today * load} for load in (0.0, last)]
        arriving = alt.Chart(alt.InlineData(values=ends)).mark_line(
            color=NEUTRAL, strokeDash=[4, 4], clip=True
        )
        layers.insert(0, arriving.encode(x=_load_axis(forecast), y=y))
        note = " Dashed: the throughput of a job that takes all records that arrive."
    limits = [_with_setting(forecast, curve, per_second(curve.points[-1].throughput_per_s)) for curve in
              forecast.curves]  # fmt: skip
    return Chart(
        "load-throughput",
        f"Throughput at most: {', '.join(limits)}",
        f"Records that the last vertices read.{note} {_loads_note(rows)}",
        _over_load(layers, rows, forecast, FLAT_HEIGHT),
    )


def delay_by_load(forecast: Forecast) -> Chart | None:
    """Draw the record delay over the loads that the job keeps up with; None if it was not measured."""
    rows = [
        _point_row(curve, point, forecast) | {"ms": point.record_delay_ms}
        for curve in forecast.curves
        for point in curve.points
        if point.record_delay_ms is not None and point.keeps_up
    ]
    if not rows:
        return None
    y, scale_note = _time_axis([row["ms"] for row in rows], "record delay", forecast, FLAT_HEIGHT)
    base = alt.Chart().encode(x=_load_axis(forecast), y=y, color=_setting_colours(forecast))
    return Chart(
        "load-delay",
        "Record delay over the load, as long as the job keeps up",
        f"Time from the emission of a record to its processing.{scale_note} Above the limit the delay has no "
        "value: the backlog of the sources grows, and so does the time that a record waits in it.",
        _over_load([base.mark_line(strokeWidth=1.8), *_marks(base)], rows, forecast, FLAT_HEIGHT),
    )


def _over_load(layers: Sequence[Any], rows: list[ChartRow], forecast: Forecast, height: int) -> Spec:
    """Return the specification of a chart over the load, with the rules of today and of the limits."""
    layered = alt.layer(*_rule_layers(forecast), *layers, data=alt.InlineData(values=rows))
    spec: Spec = layered.properties(width=WIDTH, height=height).to_dict()
    return spec


def _load_axis(forecast: Forecast) -> alt.X:
    most = max(point.load for curve in forecast.curves for point in curve.points)
    scale = alt.Scale(domain=[0, most], nice=False)
    return alt.X("load:Q", title=_LOAD, scale=scale, axis=alt.Axis(grid=False, tickCount=8))


def _time_axis(values: Sequence[float], what: str, forecast: Forecast, height: int) -> tuple[alt.Y, str]:
    """Return an axis for the field `ms`, with room for the labels of rules, and a note on its scale."""
    least, most = max(min(values), 1e-3), max(values)
    room = _room(forecast, height)
    if most < _LOG_RATIO * least:
        scale = alt.Scale(domain=[0, room * most], nice=False)
        return alt.Y("ms:Q", title=f"{what} (ms)", scale=scale, axis=alt.Axis(tickCount=5)), ""
    low = least / 1.3
    scale = alt.Scale(type="log", domain=[low, low * (1.15 * most / low) ** room], nice=False)
    ticks = [each for each in round_numbers([least, most]) if each <= 1.5 * most]
    axis = alt.Axis(labelExpr=LOG_TIME, labelOverlap=True, values=ticks, minExtent=56, maxExtent=56)
    title = f"{what} (logarithmic)"
    return alt.Y("ms:Q", title=title, scale=scale, axis=axis), " The axis of times is logarithmic."


def _room(forecast: Forecast, height: int) -> float:
    """Return the height of a chart, relative to its height without the labels of rules."""
    return 1 / (1 - (2 * _LABEL_TOP + _LABEL_ROW * len(_rules(forecast))) / height)


def _setting_colours(forecast: Forecast) -> alt.Color:
    return colours("setting", [curve.setting for curve in forecast.curves], SETTING_COLOURS, "stroke")


def _marks(base: Any, only: str = "true") -> list[Any]:
    """Return a filled mark for each load that the job keeps up with, and a ring for each other load."""
    tips = [
        "setting:N",
        tip("load", "load"),
        alt.Tooltip("kind:N", title="at this load"),
        alt.Tooltip("figures:N", title="figures"),
    ]
    dot = base.mark_point(size=55, opacity=1, filled=True).encode(tooltip=tips)
    ring = base.mark_point(size=55, opacity=1, filled=False, strokeWidth=1.8).encode(tooltip=tips)
    return [
        dot.transform_filter(f"{only} && datum.kind == '{KEPT_UP}'"),
        ring.transform_filter(f"{only} && datum.kind == '{TOO_MUCH}'"),
    ]


def _rules(forecast: Forecast) -> list[ChartRow]:
    """Return the vertical rules: today's load, and the limit of each setting that has one."""
    rules: list[ChartRow] = [{"load": 1.0, "text": "today", "colour": NEUTRAL}]
    for curve, colour in zip(forecast.curves, SETTING_COLOURS, strict=False):
        if curve.headroom.is_bounded:
            text = _with_setting(forecast, curve, f"limit {curve.headroom.limit:.3g}")
            rules.append({"load": curve.headroom.limit, "text": text, "colour": colour})
    return rules


def _rule_layers(forecast: Forecast) -> list[Any]:
    """Return each rule with its label at its top, like a flag.

    The further a flag is in the direction of the labels, the lower it is. So no label crosses a rule, however
    close two limits are.
    """
    most = max(point.load for curve in forecast.curves for point in curve.points)
    rules = sorted(_rules(forecast), key=lambda rule: float(rule["load"]))
    is_left = rules[-1]["load"] > 0.7 * most
    layers = []
    for row, rule in enumerate(reversed(rules) if is_left else rules):
        top = _LABEL_TOP + _LABEL_ROW * row
        data = alt.Chart(alt.InlineData(values=[rule])).encode(x=_load_axis(forecast))
        line = data.mark_rule(color=rule["colour"], strokeDash=[3, 3], strokeWidth=1.5)
        side = -1 if is_left and rule["load"] > 1 else 1  # there may be no room left of today's load
        label = data.mark_text(
            color=rule["colour"],
            align="right" if side < 0 else "left",
            dx=5 * side,
            baseline="top",
            fontSize=12,
        )
        layers += [
            line.encode(y=alt.value(top), y2=alt.value("height")),
            label.encode(y=alt.value(top), text="text:N"),
        ]
    return layers


def _with_setting(forecast: Forecast, curve: Curve, text: str) -> str:
    return text if len(forecast.curves) == 1 else f"{text} ({curve.setting})"


def _point_row(curve: Curve, point: LoadFigures, forecast: Forecast) -> ChartRow:
    return {
        "setting": curve.setting,
        "load": point.load,
        "kind": KEPT_UP if point.keeps_up else TOO_MUCH,
        "figures": f"checkpoints {milliseconds(point.checkpoint_ms)}, throughput "
        f"{per_second(point.throughput_per_s)}, {point.busiest} busy for {point.busiest.busy_share:.0%}",
    }


def _time_rows(forecast: Forecast) -> Iterator[ChartRow]:
    for curve in forecast.curves:
        for point in curve.points:
            for name, field in TIMES.items():
                ms = getattr(point, field)
                if ms is not None:
                    yield _point_row(curve, point, forecast) | {"time": name, "ms": ms}


def _at_the_limit(forecast: Forecast) -> str:
    """Return the checkpoint times at the limit of each setting, or at the highest load, as text."""
    where = "at the limit" if forecast.now.headroom.is_bounded else "at the highest load"
    texts = [
        _with_setting(forecast, curve, milliseconds(curve.points[-1].checkpoint_ms))
        for curve in forecast.curves
    ]
    return f"{', '.join(texts)} {where}"


def _loads_note(rows: Sequence[ChartRow]) -> str:
    if any(row["kind"] == TOO_MUCH for row in rows):
        return "Filled: the job keeps up. Rings: more than it can take; the run at the limit stands for them."
    return "The job keeps up with all of these loads."


def drill_charts(forecast: Forecast, drills: Drills) -> list[Chart]:
    """Return the charts of restart drills over time, without empty ones.

    Args:
        forecast: The forecast with the figures of these drills.
        drills: Their results with series, by the name of the setting.
    """
    figures = {each.setting: each for each in forecast.restarts if each.setting in drills}
    if not figures:
        return []
    made = (
        backlog_over_time(figures, drills),
        reading_over_time(figures, drills),
        checkpoints_over_time(figures, drills),
    )
    return [chart for chart in made if chart is not None]


_Figures = Mapping[str, RestartDrill]


def backlog_over_time(figures: _Figures, drills: Drills) -> Chart | None:
    """Draw the records that have arrived and that the sources have not read; None without samples."""
    rows = [
        {"setting": setting, "t": _rounded(t - _over(drills[setting])), "records": records}
        for setting in figures
        for t, records in thinned(*(values.tolist() for values in backlog(drills[setting])))
        if not np.isnan(records)
    ]
    if not rows:
        return None
    area = alt.Chart().mark_area(opacity=0.75).encode(
        x=seconds(_SINCE),
        y=alt.Y("records:Q", title="backlog (records)", axis=_count_axis()),
        color=_panel_colours(figures),
        tooltip=["setting:N", tip("t", "time (s)"), tip("records", "records")],
    )  # fmt: skip
    return Chart(
        "restart-backlog",
        f"After an outage of {format_duration(_down_s(figures))}: {_caught_up(figures)}",
        f"Records that have arrived and that the sources have not read. {_EVENTS_NOTE}",
        _panels([area], rows, figures, drills),
    )


def reading_over_time(figures: _Figures, drills: Drills) -> Chart | None:
    """Draw the rate at which the sources read, beside the rate of arrival; None without samples."""
    rows: list[ChartRow] = []
    for setting in figures:
        rows += [
            {"setting": setting, "t": _rounded(t - _over(drills[setting])), "rate": rate}
            for t, rate in reading_rates(drills[setting])
        ]
    if not rows:
        return None
    arriving = _arriving(drills[next(iter(figures))])
    y = alt.Y(
        "rate:Q",
        title="read (records/s)",
        axis=_count_axis(),
        scale=alt.Scale(zero=True),
    )
    line = alt.Chart().mark_line(interpolate="step-after", strokeWidth=1.5).encode(
        x=seconds(_SINCE),
        y=y,
        color=_panel_colours(figures),
        tooltip=["setting:N", tip("t", "time (s)"), tip("rate", "records/s")],
    )  # fmt: skip
    rule = alt.Chart().mark_rule(color=NEUTRAL, strokeDash=[4, 4]).encode(y=alt.datum(arriving))
    return Chart(
        "restart-reading",
        f"After the outage the sources read as fast as the job can, while {per_second(arriving)} arrive",
        f"Records per second that all sources read. Dashed: the rate of arrival. {_EVENTS_NOTE}",
        _panels([rule, line], rows, figures, drills),
    )


def reading_rates(result: Result) -> list[tuple[float, float | None]]:
    """Return times in seconds, and the records per second that all sources read from then to the next time.

    The rate is None while the job is down.
    """
    sources = {vertex.name for vertex in result.scenario.vertices if vertex.source is not None}
    series = [each for each in result.series if each.vertex in sources]
    if not series:
        return []
    read = np.sum([subtask for each in series for subtask in each.numRecordsOut], axis=0)
    samples = list(thinned(series[0].t, read.tolist()))
    down = down_times(result)
    rates: list[tuple[float, float | None]] = []
    for (t, before), (later, after) in pairwise(samples):
        is_down = after < before or any(since < later and t < until for since, until in down)
        rates.append((t, None if is_down else round((after - before) / (later - t), 1)))
    return rates


def checkpoints_over_time(figures: _Figures, drills: Drills) -> Chart | None:
    """Draw each checkpoint at its trigger with its duration, and a mark for each that failed."""
    rows = [row for setting in figures for row in _checkpoint_rows(setting, drills[setting])]
    if not rows:
        return None
    longest = max(row["s"] for row in rows)
    # Room for the label of the moment of having caught up; without a completed checkpoint, for the crosses.
    scale = alt.Scale(domain=[0, 1.25 * longest or 1.0], nice=False)
    y = alt.Y("s:Q", title="duration (s)", scale=scale, axis=alt.Axis(tickCount=4))
    tips = [tip("id", "checkpoint"), tip("t", "trigger (s)"), alt.Tooltip("outcome:N", title="outcome")]
    base = alt.Chart().encode(x=seconds(_SINCE), y=y, tooltip=tips)
    bars = base.mark_rule(strokeWidth=2).encode(y2=alt.datum(0), color=_panel_colours(figures))
    kinds = [kind for kind in (EXPIRED_MARK, FAILED_MARK) if any(row.get("kind") == kind for row in rows)]
    layers = [bars.transform_filter("datum.kind == 'completed'")]
    shapes = {EXPIRED_MARK: "cross", FAILED_MARK: "triangle-down"}
    for kind in kinds:
        mark = base.mark_point(
            shape=shapes[kind], angle=45 if kind == EXPIRED_MARK else 0, size=75, filled=True, color=ALARM,
            opacity=1, yOffset=-6,
        )  # fmt: skip
        layers.append(mark.transform_filter(f"datum.kind == '{kind}'"))
    signs = {EXPIRED_MARK: " Red crosses: they expired.", FAILED_MARK: " Red triangles: they failed."}
    took = [
        f"{milliseconds(each.checkpoint_ms)}{'' if len(figures) == 1 else f' ({setting})'}"
        for setting, each in figures.items()
    ]
    return Chart(
        "restart-checkpoints",
        f"Checkpoints during the catch-up take {', '.join(took)}",
        "A line for each checkpoint, at its trigger, as high as its duration."
        f"{''.join(signs[kind] for kind in kinds)} {_thinned_note(drills)}{_EVENTS_NOTE}",
        _panels(layers, rows, figures, drills),
    )


_EVENTS_NOTE = "Shaded: the job is down. Green: it has caught up."


def _thinned_note(drills: Drills) -> str:
    step = max(_bar_step(drill.checkpoints) for drill in drills.values())
    return "" if step == 1 else f"At most one of {step} completed checkpoints is drawn. "


def _bar_step(checkpoints: Sequence[CheckpointResult]) -> int:
    return max(1, ceil(sum(each.completed for each in checkpoints) / MOST_BARS))


def _checkpoint_rows(setting: str, result: Result) -> Iterator[ChartRow]:
    over, step = _over(result), _bar_step(result.checkpoints)
    completed = [each for each in result.checkpoints if each.completed]
    failed = [each for each in result.checkpoints if each.failed]
    for each in [*completed[::step], *failed[:MOST_BARS]]:
        kind = "completed"
        if each.failed:
            kind = EXPIRED_MARK if each.failure == FailureReason.EXPIRED else FAILED_MARK
        yield {
            "setting": setting,
            "id": each.id,
            "t": _rounded(each.t - over),
            "kind": kind,
            "s": round((each.duration_ms or 0.0) / 1e3, 4),
            "outcome": outcome(each),
        }


def _panels(marks: Sequence[Any], rows: list[ChartRow], figures: _Figures, drills: Drills) -> Spec:
    """Return panels of settings, one below the other, with outages and the moments of having caught up."""
    settings = list(figures)
    events = [event for setting in settings for event in _events(figures[setting], drills[setting])]
    begin = min(-_over(drills[setting]) for setting in settings)
    end = max(drills[setting].emulated_seconds - _over(drills[setting]) for setting in settings)
    x = seconds(_SINCE)
    down = alt.Chart().mark_rect(color=ALARM, opacity=SHADE).encode(
        x=x, x2="until:Q", tooltip=["what:N", tip("t", "from (s)"), tip("until", "to (s)")]
    )  # fmt: skip
    caught_up = alt.Chart().mark_rule(color=_CAUGHT_UP, strokeWidth=1.8).encode(x=x, tooltip=["what:N"])
    label = alt.Chart().mark_text(
        color=_CAUGHT_UP, align="right", dx=-5, baseline="top", fontSize=12
    ).encode(x=x, y=alt.value(4), text="what:N")  # fmt: skip
    scale = alt.Scale(domain=[begin, end], nice=False)
    whole = alt.Chart().mark_rule(opacity=0).encode(x=alt.XDatum(end, scale=scale))
    layers = [
        down.transform_filter(f"datum.event == '{_DOWN}'"),
        *(mark.transform_filter("!isValid(datum.event)") for mark in marks),
        *(mark.transform_filter(f"datum.event == '{_OVER}'") for mark in (caught_up, label)),
        whole,
    ]
    layered = alt.layer(*layers).properties(width=WIDTH, height=PANEL_HEIGHT)
    header = alt.Header(labelOrient="top", labelAnchor="start", labelPadding=2)
    facet = alt.Row("setting:N", sort=settings, title=None, header=header)
    spec: Spec = layered.facet(row=facet, data={"values": rows + events}, spacing=PANEL_GAP).to_dict()
    return spec


_DOWN, _OVER = "down", "caught up"
_CAUGHT_UP = PALETTE[2]


def _events(drill: RestartDrill, result: Result) -> Iterator[ChartRow]:
    over = _over(result)
    for restart, (since, until) in zip(result.restarts, down_times(result), strict=True):
        yield {
            "setting": drill.setting,
            "event": _DOWN,
            "t": _rounded(since - over),
            "until": _rounded(until - over),
            "what": f"down: {restart.cause}",
        }
    if drill.caught_up_s is not None and drill.caught_up_s <= drill.emulated_s:
        what = f"caught up after {duration_text(drill.caught_up_s)}"
        yield {"setting": drill.setting, "event": _OVER, "t": drill.caught_up_s, "what": what}


def _over(result: Result) -> float:
    """Return the end of the outage, in emulated seconds."""
    return outage_times(result.scenario)[1]


def _arriving(result: Result) -> float:
    vertices = result.scenario.vertices
    return sum(sum(rates_of(vertex)) for vertex in vertices if vertex.source is not None)


def _down_s(figures: _Figures) -> float:
    return next(iter(figures.values())).down_s


def _caught_up(figures: _Figures) -> str:
    texts = []
    for setting, each in figures.items():
        suffix = "" if len(figures) == 1 else f" ({setting})"
        if each.caught_up_s is None:
            texts.append(f"not caught up within the run{suffix}")
        else:
            about = "about " if each.emulated_s < each.caught_up_s else ""
            texts.append(f"caught up after {about}{duration_text(each.caught_up_s)}{suffix}")
    return ", ".join(texts)


def _panel_colours(figures: _Figures) -> alt.Color:
    """Return the colour of each setting without a legend, because each panel names its setting."""
    palette = [SETTING_COLOURS[setting != NOW] for setting in figures]
    return alt.Color("setting:N", scale=alt.Scale(domain=list(figures), range=palette), legend=None)


def _count_axis() -> alt.Axis:
    return alt.Axis(labelExpr="format(datum.value, '~s')", tickCount=4)


def _rounded(seconds_: float) -> float:
    return round(seconds_, 3)
