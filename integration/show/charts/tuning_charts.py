"""Charts of a tuning: the trade-off between throughput and checkpoint time, and times over debloat targets.

A mark is the mean over seeds. Its bars are the 95 % interval. The legend has the settings with their marks:
debloat targets are circles, and every other setting has a shape of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import altair as alt

from ...advise.sweeps.confidence import Estimate
from ...advise.tune.recommend import Recommendation, SettingSummary
from ...advise.tune.settings import NOW
from ...base.number_text import milliseconds
from ..terminal.tuning import conditions_of
from .chart_style import (
    ALARM,
    LOG_TIME,
    NEUTRAL,
    PALETTE,
    PANEL_WIDTH,
    Chart,
    ChartRow,
    colours,
    round_numbers,
    tip,
)

WIDTH, HEIGHT = 2 * PANEL_WIDTH, 300
"""Width and height of the chart, in pixels."""
PADDING = 50
"""Distance in pixels between the outermost marks and the sides of the chart."""

_SPARE = 0.15
"""Share of the range of all marks that stays free above and below them."""
_NARROWEST = 4.0
"""Minimum range of the throughput axis, in percentage points, so that noise looks like noise."""

TARGET_COLOURS = ("#e6a800", "#f07f3c", "#e0567a", "#b44fb0", "#7f5fd0", "#3f86d8", "#1fa0b5")
"""Colours of debloat targets, the shortest target first, on white and on black."""
OTHER_SHAPES = (
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-left",
    "triangle-right",
)
"""Shapes of settings without a debloat target."""


def share_domain(rows: Sequence[ChartRow]) -> tuple[float, float]:
    """Return the ends of the throughput axis, in %. All marks are inside; an interval may reach further."""
    least, most = (end(row["share"] for row in rows) for end in (min, max))
    spare = max(_SPARE * (most - least), (_NARROWEST - (most - least)) / 2)
    return least - spare, most + spare


CHECKPOINT, FIRST_BARRIER, RECORD = "end to end", "start delay", "record delay"
TIMES = {CHECKPOINT: "end_to_end_ms", FIRST_BARRIER: "start_delay_ms", RECORD: "record_delay_ms"}
"""Times drawn over the target, with their fields of `Measures`."""

CHOSEN, PRESENT, OTHER = "recommended", "now", "alternative"
"""Kinds of marked settings in a chart."""


class Outline(NamedTuple):
    """The outline around a mark; its size is an area, as in Vega."""

    shape: str
    colour: str
    size: float


OUTLINES = {
    CHOSEN: Outline("circle", ALARM, 330),
    PRESENT: Outline("square", NEUTRAL, 330),
    OTHER: Outline("diamond", NEUTRAL, 620),
}
"""Outlines by meaning, in the order of the legend."""

MOST_CURVES = 8
"""Maximum number of conditions with a curve. The first ones are drawn."""


def tuning_charts(recommendations: Sequence[Recommendation]) -> list[Chart]:
    """Return the charts of a sweep, without empty ones."""
    alone = recommendations[:1] if len(recommendations) == 1 else []
    made = [trade_off(recommendations), *map(times_by_target, alone)]
    return [chart for chart in made if chart is not None]


def trade_off(recommendations: Sequence[Recommendation]) -> Chart | None:
    """Draw throughput over checkpoint time, a mark for each setting; None without measurements of both."""
    rows = [
        row for recommendation in recommendations[:MOST_CURVES] for row in _trade_off_rows(recommendation)
    ]
    if not rows:
        return None
    curves = list(dict.fromkeys(row["curve"] for row in rows))
    times = round_numbers([row["ms"] for row in rows])
    share_scale = alt.Scale(domain=list(share_domain(rows)), nice=False, zero=False)
    share_axis = alt.Axis(tickMinStep=1, format="d", minExtent=42, maxExtent=42)
    base = alt.Chart().encode(
        x=_time_axis("ms", "checkpoint, end to end", times),
        y=alt.Y("share:Q", title="throughput (% of now)", scale=share_scale, axis=share_axis),
    )
    curve_colour = {"color": colours("curve", curves, PALETTE, "stroke")} if len(curves) > 1 else {}
    rule = base.mark_rule(opacity=0.45, color=NEUTRAL, clip=True).encode(**curve_colour)
    ranges = [
        rule.encode(x="ms_least:Q", x2="ms_most:Q"),
        rule.encode(y="share_least:Q", y2="share_most:Q"),
    ]
    line = (
        base.mark_line(strokeWidth=1.5, opacity=0.6, color=NEUTRAL)
        .encode(order="place:Q", **curve_colour)
        .transform_filter("datum.is_target")
    )
    tips = [tip("ms", "end to end (ms)"), tip("share", "throughput (%)")]
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(
        tooltip=["curve:N", "setting:N", *tips, "said:N"], **(curve_colour or _looks(rows))
    )
    bottom, top = share_domain(rows)
    is_cut = any(row["share_least"] < bottom or row["share_most"] > top for row in rows)
    return Chart(
        "trade-off",
        f"Throughput against checkpoint time: {_said_of(recommendations)}",
        "Each mark is a setting: the mean over seeds, with bars for 95 % intervals. The line joins the "
        "debloat targets. Throughput is relative to the present one, with the same seed. Checkpoints are "
        "faster further left, the job is faster further up. Outlines mark the present and the recommended "
        f"setting.{' Bars that end at the edge go on beyond it.' if is_cut else ''}",
        _spec(
            [*ranges, line, dots, *_outlines(rows)],
            rows,
            # Settings and outlines both have shapes. A legend is only one if all of its scales are separate.
            ["shape", "stroke", "size", *([] if curve_colour else ["color"])],
        ),
    )


def _looks(rows: Sequence[ChartRow]) -> dict[str, Any]:
    """Return a colour and a shape for each setting, with a legend below the chart."""
    names = [row["setting"] for row in rows]
    targets, others = cycle(TARGET_COLOURS), cycle(zip(PALETTE, OTHER_SHAPES, strict=False))
    looks = [(next(targets), "circle") if row["is_target"] else next(others) for row in rows]
    columns = alt.ExprRef("width < 600 ? 2 : 5")
    legend = alt.Legend(title=None, orient="bottom", columns=columns, symbolOpacity=1, labelLimit=0)
    colour_scale, shape_scale = (
        alt.Scale(domain=names, range=list(each)) for each in zip(*looks, strict=True)
    )
    return {
        "color": alt.Color("setting:N", scale=colour_scale, legend=legend),
        "shape": alt.Shape("setting:N", scale=shape_scale, legend=legend),
    }


def times_by_target(recommendation: Recommendation) -> Chart | None:
    """Draw checkpoint and record times over the target; None without targets."""
    rows = list(_time_rows(recommendation))
    if not rows:
        return None
    names = [name for name in TIMES if any(row["time"] == name for row in rows)]
    targets = sorted({row["target_ms"] for row in rows})
    ticks = round_numbers([row["ms"] for row in rows] + targets)
    x, y = _time_axis("target_ms", "target", targets), _value_axis("ms", ticks)
    base = alt.Chart().encode(x=x, y=y, color=colours("time", names, PALETTE, "stroke"))
    ends = alt.InlineData(values=[{"target_ms": end, "ms": end} for end in (targets[0], targets[-1])])
    tips = [tip("ms", "mean (ms)"), tip("least", "least (ms)"), tip("most", "most (ms)")]
    layers = [
        alt.Chart(ends).mark_line(color=NEUTRAL, strokeDash=[4, 4]).encode(x=x, y=y),
        base.mark_rule(opacity=0.5).encode(y=_value_axis("least", ticks), y2="most:Q"),
        base.mark_line(strokeWidth=1.8),
        base.mark_point(filled=True, size=45, opacity=1).encode(tooltip=["time:N", "setting:N", *tips]),
    ]
    if (chosen := recommendation.advised.target_ms) is not None:
        layers.append(alt.Chart().mark_rule(color=ALARM, strokeWidth=1.5).encode(x=alt.datum(chosen)))
    return Chart(
        "times-by-target",
        _reached(recommendation),
        "Means over seeds; bars are 95 % intervals. Dashed: time equal to the target. Red: recommended.",
        _spec(layers, rows),
    )


def _spec(layers: Sequence[Any], rows: list[ChartRow], own_channels: Sequence[str] = ()) -> dict[str, Any]:
    """Return a specification. Each layer has its own scales and legends for `own_channels`."""
    layered = alt.layer(*layers, data=alt.InlineData(values=rows)).properties(width=WIDTH, height=HEIGHT)
    own: dict[str, Any] = dict.fromkeys(own_channels, "independent")
    if own:
        layered = layered.resolve_scale(**own)
    spec: dict[str, Any] = layered.to_dict()
    return spec


def _trade_off_rows(recommendation: Recommendation) -> Iterator[ChartRow]:
    """Yield a row for each setting."""
    for place, setting in enumerate(_by_target(recommendation)):
        time, share = setting.figures.get("end_to_end_ms"), setting.throughput_share
        if time is None or share is None:
            continue
        name = recommendation.present if setting.name == NOW else setting.name
        meanings = _meanings(recommendation, setting.name)
        yield {
            "curve": conditions_of(recommendation) or recommendation.scenario,
            "place": place,
            "is_target": setting.target_ms is not None,
            "setting": name,
            "said": ", ".join(meanings),
            "meanings": meanings,
            "ms": time.mean,
            "ms_least": _drawn_least(time),
            "ms_most": time.greatest,
            "share": 100.0 * share.mean,
            "share_least": 100.0 * share.least,
            "share_most": 100.0 * share.greatest,
        }


def _by_target(recommendation: Recommendation) -> list[SettingSummary]:
    """Return the settings with a debloat target, the shortest target first, and then the others."""
    return sorted(recommendation.settings, key=lambda each: each.target_ms or float("inf"))


def _time_rows(recommendation: Recommendation) -> Iterator[ChartRow]:
    for setting in _by_target(recommendation):
        for name, field in TIMES.items():
            value = setting.figures.get(field)
            if value is None or setting.target_ms is None:
                continue
            yield {
                "time": name,
                "setting": setting.name,
                "target_ms": setting.target_ms,
                "ms": value.mean,
                "least": _drawn_least(value),
                "most": value.greatest,
            }


def _drawn_least(time: Estimate) -> float:
    """Return the lower end of an interval, at least a tenth of the mean: a logarithmic axis has no zero."""
    return max(time.least, 0.1 * time.mean)


def _outlines(rows: Sequence[ChartRow]) -> list[Any]:
    """Return an outline around marks for each kind of marked setting, with a legend."""
    said = [
        {"ms": row["ms"], "share": row["share"], "meaning": meaning}
        for row in rows
        for meaning in row["meanings"]
    ]
    if not said:
        return []
    meanings = [meaning for meaning in OUTLINES if any(row["meaning"] == meaning for row in said)]
    legend = alt.Legend(title=None, orient="top", symbolStrokeWidth=2, symbolFillColor="transparent")
    shapes, strokes, sizes = (
        alt.Scale(domain=meanings, range=[getattr(OUTLINES[meaning], part) for meaning in meanings])
        for part in ("shape", "colour", "size")
    )
    outline = alt.Chart(alt.InlineData(values=said)).mark_point(filled=False, strokeWidth=2, opacity=1)
    return [
        outline.encode(
            x=alt.X("ms:Q"),
            y=alt.Y("share:Q"),
            shape=alt.Shape("meaning:N", scale=shapes, legend=legend),
            stroke=alt.Stroke("meaning:O", scale=strokes, legend=legend),
            size=alt.Size("meaning:O", scale=sizes, legend=legend),
        )
    ]


def _time_axis(field: str, title: str, values: Sequence[float]) -> alt.X:
    axis = alt.Axis(grid=False, labelExpr=LOG_TIME, labelOverlap=True, values=list(values))
    scale = alt.Scale(type="log", nice=False, padding=PADDING)
    return alt.X(f"{field}:Q", title=f"{title} (logarithmic)", scale=scale, axis=axis)


def _value_axis(field: str, values: Sequence[float]) -> alt.Y:
    scale = alt.Scale(type="log", nice=False, padding=12)
    axis = alt.Axis(
        labelExpr=LOG_TIME,
        labelOverlap=True,
        values=list(values),
        minExtent=56,  # as wide as "700 ms", so that the title stands beside it
        maxExtent=56,
    )
    return alt.Y(f"{field}:Q", title="time (logarithmic)", scale=scale, axis=axis)


def _meanings(recommendation: Recommendation, name: str) -> list[str]:
    """Return the keys of `OUTLINES` that apply to a setting."""
    meanings = []
    if name == recommendation.chosen and recommendation.verdict == "set":
        meanings.append(CHOSEN)
    if name == NOW:
        meanings.append(PRESENT)
    if any(name == other.name for other in recommendation.alternatives):
        meanings.append(OTHER)
    return meanings


def _said_of(recommendations: Sequence[Recommendation]) -> str:
    """Return the recommendation for each curve, as text."""
    texts = []
    for recommendation in recommendations[:MOST_CURVES]:
        said = {
            "set": f"recommended is {recommendation.chosen}",
            "keep": "no setting is clearly better than now",
        }
        text = said.get(recommendation.verdict, "no setting keeps to the limits")
        texts.append(f"{text} ({conditions_of(recommendation)})" if len(recommendations) > 1 else text)
    return "; ".join(texts)


def _reached(recommendation: Recommendation) -> str:
    """Return the checkpoint times of the shortest and the longest target, as text."""
    texts = [
        f"{milliseconds(each.mean('end_to_end_ms'))} with a target of {milliseconds(each.target_ms)}"
        for each in _by_target(recommendation)
        if each.target_ms is not None and "end_to_end_ms" in each.figures
    ]
    if not texts:
        return "Times by target: no checkpoint was completed"
    shortest_and_longest = texts if len(texts) == 1 else [texts[0], texts[-1]]
    return f"A checkpoint takes {', '.join(shortest_and_longest)}"
