"""Charts of a tuning: the trade-off between throughput and checkpoint time, and times over debloat targets.

A mark is the mean over seeds. Its bars are the 95 % interval. The names of settings stand beside their marks,
and do not overlap. Each name takes the first side of its mark on which it covers no mark and no other name,
and if possible no bar. Names with a meaning, such as the recommended setting, choose first. A name without a
free side only appears in the tooltip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil, floor, log, log10
from typing import Any, Literal, NamedTuple

import altair as alt

from ..number_text import milliseconds
from ..tuning.confidence import Estimate
from ..tuning.recommend import Recommendation, SettingSummary
from ..tuning.settings import NOW
from .chart_style import ALARM, NEUTRAL, PALETTE, PANEL_WIDTH, Chart, Row, colours, tip
from .graph import Box, Point
from .tuning import conditions_of

WIDTH, HEIGHT = 2 * PANEL_WIDTH, 300
"""Width and height of the chart, in pixels."""
PADDING = 50
"""Distance in pixels between the outermost marks and the sides of the chart."""
FONT_SIZE = 11.5

_CHARACTER = 6.6
"""Maximum width of a character of a name, in pixels."""
_MARK = 7.0
"""Half the width of a mark, with room around it."""
_RING = 13.0
_GAP = 6.0
"""Minimum distance between two names side by side, in pixels."""

NARROW = 300
"""Width of the chart on a phone, in pixels. Names are placed separately for this width."""

_STEPS = 24
"""Number of segments of a line that are checked for overlap."""

_SPARE = 0.24
"""Share of the throughput axis that stays free above and below all marks, for names."""
_NARROWEST = 4.0
"""Minimum range of the throughput axis, in percentage points, so that noise looks like noise."""


class Side(NamedTuple):
    """Position of a name, in pixels from the middle of its mark."""

    align: Literal["left", "center", "right"]
    baseline: Literal["top", "middle", "bottom"]
    dx: float
    dy: float


SIDES = {
    "above": Side("center", "bottom", 0, -14),
    "below": Side("center", "top", 0, 14),
    "right above": Side("left", "bottom", 14, -14),
    "left above": Side("right", "bottom", -14, -14),
    "right below": Side("left", "top", 14, 14),
    "left below": Side("right", "top", -14, 14),
    "higher": Side("center", "bottom", 0, -30),
    "lower": Side("center", "top", 0, 30),
    "right": Side("left", "middle", 15, 0),
    "left": Side("right", "middle", -15, 0),
}
"""Sides in the order of trials. Right and left come last, because lines between marks run there."""

NOWHERE = "nowhere"


def placed(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with `side` and `narrow_side` added: the sides of the marks on which names stand.

    `narrow_side` is for a chart that is `NARROW` pixels wide. Each row has `ms`, `share`, `label`, and
    `said`: whether the text of the recommendation names the setting.
    """
    places = zip(rows, name_boxes(rows, WIDTH), name_boxes(rows, NARROW), strict=True)
    return [{**row, "side": wide[0], "narrow_side": narrow[0]} for row, wide, narrow in places]


def name_boxes(rows: Sequence[Row], width: float) -> list[tuple[str, Box | None]]:
    """Return the side of each row's mark on which its name stands, in a chart of a width, and its box.

    Without a free side, the side is `NOWHERE`, and there is no box.
    """
    low, high = log(min(row["ms_least"] for row in rows)), log(max(row["ms_most"] for row in rows))
    bottom, top = share_domain(rows)

    def x(ms: float) -> float:
        along = (log(ms) - low) / (high - low) if high > low else 0.5
        return PADDING + along * (width - 2 * PADDING)

    def y(share: float) -> float:
        return HEIGHT * (1.0 - (share - bottom) / (top - bottom))

    at = [(x(row["ms"]), y(row["share"])) for row in rows]
    taken: list[Box] = []
    bars: list[Box] = []
    for row, point in zip(rows, at, strict=True):
        taken.append(_around(*point, _RING if row["said"] else _MARK))
        bars.append(Box(x(row["ms_least"]), point[1] - 1, x(row["ms_most"]), point[1] + 1))
        bars.append(Box(point[0] - 1, y(row["share_most"]), point[0] + 1, y(row["share_least"])))
    for (row, start), (after, end) in pairwise(zip(rows, at, strict=True)):
        if row.get("curve") == after.get("curve"):
            bars += _line(start, end)

    chart = Box(0, 0, width, HEIGHT)
    places: list[tuple[str, Box | None]] = [(NOWHERE, None)] * len(rows)
    said_first = sorted(range(len(rows)), key=lambda number: not rows[number]["said"])
    for number in said_first:
        if not rows[number]["label"]:
            continue
        free = [
            (side, box)
            for side, box in _boxes(rows[number]["label"], *at[number])
            if _is_inside(box, chart) and not _covers_any(box, taken)
        ]
        if free:
            off_bars = (place for place in free if not _covers_any(place[1], bars))
            side, box = next(off_bars, free[0])
            places[number] = side, box
            taken.append(box)
    return places


def _line(start: Point, end: Point) -> list[Box]:
    """Return the line between two marks, as small boxes."""
    parts = [step / _STEPS for step in range(_STEPS + 1)]
    return [
        _around(start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]), 2.0)
        for part in parts
    ]


def _is_inside(box: Box, chart: Box) -> bool:
    return (
        box.left >= chart.left
        and box.right <= chart.right
        and box.top >= chart.top
        and box.bottom <= chart.bottom
    )


def _covers_any(box: Box, others: Sequence[Box]) -> bool:
    return any(box.covers(other) for other in others)


def share_domain(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the ends of the throughput axis, in %."""
    most = max(100.0, *(row["share_most"] for row in rows))
    least = min(most - _NARROWEST, *(row["share_least"] for row in rows))
    spare = _SPARE * (most - least)
    return least - spare, most + spare


def _around(x: float, y: float, reach: float) -> Box:
    return Box(x - reach, y - reach, x + reach, y + reach)


def _boxes(label: str, x: float, y: float) -> Iterator[tuple[str, Box]]:
    width, height = _CHARACTER * len(label) + _GAP, FONT_SIZE + 2
    for name, side in SIDES.items():
        start = {"left": _GAP / 2, "center": width / 2, "right": width - _GAP / 2}[side.align]
        left = x + side.dx - start
        top = y + side.dy - {"top": 0.0, "middle": height / 2, "bottom": height}[side.baseline]
        yield name, Box(left, top, left + width, top + height)


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

NARROWER = 600
"""If the chart has fewer pixels of width than this, it is drawn for a phone."""

MOST_CURVES = 8
"""Maximum number of conditions with a curve. The first ones are drawn."""

_WITH_UNIT = "datum.value < 1000 ? datum.value + ' ms' : datum.value / 1000 + ' s'"
"""Expression for the labels of an axis of milliseconds."""

_ROUND = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)


def tuning_charts(recommendations: Sequence[Recommendation]) -> list[Chart]:
    """Return the charts of a sweep, without empty ones."""
    alone = recommendations[:1] if len(recommendations) == 1 else []
    made = [trade_off(recommendations), *map(times_by_target, alone)]
    return [chart for chart in made if chart is not None]


def trade_off(recommendations: Sequence[Recommendation]) -> Chart | None:
    """Draw throughput over checkpoint time, a mark for each setting; None without measurements of both."""
    rows = [
        row
        for recommendation in recommendations[:MOST_CURVES]
        for row in _trade_off_rows(recommendation, alone=len(recommendations) == 1)
    ]
    if not rows:
        return None
    curves = list(dict.fromkeys(row["curve"] for row in rows))
    times = _round([row["ms"] for row in rows])
    share_scale = alt.Scale(domain=list(share_domain(rows)), nice=False, zero=False)
    share_axis = alt.Axis(tickMinStep=1, format="d", minExtent=42, maxExtent=42)
    base = alt.Chart().encode(
        x=_time_axis("ms", "checkpoint, end to end", times),
        y=alt.Y("share:Q", title="throughput (% of now)", scale=share_scale, axis=share_axis),
    )
    colour = {"color": colours("curve", curves, PALETTE, "stroke")} if len(curves) > 1 else {}
    rule = base.mark_rule(opacity=0.45, color=PALETTE[0]).encode(**colour)
    ranges = [
        rule.encode(x="ms_least:Q", x2="ms_most:Q"),
        rule.encode(y="share_least:Q", y2="share_most:Q"),
    ]
    line = (
        base.mark_line(strokeWidth=1.5, opacity=0.6, color=PALETTE[0])
        .encode(order="place:Q", **colour)
        .transform_filter("datum.is_target")
    )
    tips = [tip("ms", "end to end (ms)"), tip("share", "throughput (%)")]
    dots = base.mark_point(filled=True, size=70, opacity=1, color=PALETTE[0]).encode(
        tooltip=["curve:N", "setting:N", *tips, "said:N"], **colour
    )
    return Chart(
        "trade-off",
        f"Throughput against checkpoint time: {_said_of(recommendations)}",
        "Each mark is a setting: the mean over seeds, with bars for 95 % intervals. The line joins the "
        "debloat targets. Throughput is relative to the present one, with the same seed. Checkpoints are "
        "faster further left, the job is faster further up. Outlines mark the present and the recommended "
        "setting.",
        _spec([*ranges, line, dots, *_outlines(rows), *_names(base)], placed(rows)),
    )


def times_by_target(recommendation: Recommendation) -> Chart | None:
    """Draw checkpoint and record times over the target; None without targets."""
    rows = list(_time_rows(recommendation))
    if not rows:
        return None
    names = [name for name in TIMES if any(row["time"] == name for row in rows)]
    targets = sorted({row["target_ms"] for row in rows})
    ticks = _round([row["ms"] for row in rows] + targets)
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


def _spec(layers: Sequence[Any], rows: list[Row]) -> dict[str, Any]:
    layered = alt.layer(*layers, data=alt.InlineData(values=rows)).properties(width=WIDTH, height=HEIGHT)
    spec: dict[str, Any] = layered.to_dict()
    return spec


def _trade_off_rows(recommendation: Recommendation, *, alone: bool) -> Iterator[Row]:
    """Yield a row for each setting. If there are several curves, only marked settings have names."""
    for place, setting in enumerate(_by_target(recommendation)):
        time, share = setting.figures.get("end_to_end_ms"), setting.throughput_share
        if time is None or share is None:
            continue
        name = recommendation.present if setting.name == NOW else setting.name
        meanings = _meanings(recommendation, setting.name)
        said = ", ".join(meanings)
        label = name if said or alone else ""
        if said and alone:
            label = f"{name}: {said}"
        yield {
            "curve": conditions_of(recommendation) or recommendation.scenario,
            "place": place,
            "is_target": setting.target_ms is not None,
            "setting": name,
            "said": said,
            "meanings": meanings,
            "label": label,
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


def _time_rows(recommendation: Recommendation) -> Iterator[Row]:
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


def _outlines(rows: Sequence[Row]) -> list[Any]:
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


def _names(base: Any) -> list[Any]:
    """Return the names of settings, each on a free side of its mark."""
    colour = alt.condition(f"indexof(datum.meanings, '{CHOSEN}') >= 0", alt.value(ALARM), alt.value(NEUTRAL))
    field = f"(width < {NARROWER} ? datum.narrow_side : datum.side)"
    return [
        base.mark_text(align=side.align, baseline=side.baseline, dx=side.dx, dy=side.dy, fontSize=FONT_SIZE)
        .encode(text="label:N", color=colour)
        .transform_filter(f"{field} === '{name}'")
        for name, side in SIDES.items()
    ]


def _time_axis(field: str, title: str, values: Sequence[float]) -> alt.X:
    axis = alt.Axis(grid=False, labelExpr=_WITH_UNIT, labelOverlap=True, values=list(values))
    scale = alt.Scale(type="log", nice=False, padding=PADDING)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=axis)


def _value_axis(field: str, values: Sequence[float]) -> alt.Y:
    scale = alt.Scale(type="log", nice=False, padding=12)
    axis = alt.Axis(
        labelExpr=_WITH_UNIT,
        labelOverlap=True,
        values=list(values),
        minExtent=56,  # as wide as "700 ms", so that the title stands beside it
        maxExtent=56,
    )
    return alt.Y(f"{field}:Q", title="time", scale=scale, axis=axis)


def _round(values: Sequence[float]) -> list[float]:
    """Return round numbers for the ticks of a log axis, from near the least to near the greatest value."""
    low, high = min(values) / 1.5, max(values) * 1.5
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    return [number for power in powers for part in _ROUND if low <= (number := part * 10.0**power) <= high]


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
