"""The pictures of a sweep over debloat targets: what each target costs and brings.

A mark is the mean over seeds, its bars are the 95 % interval. Pictures over time are those of any report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, floor, log10
from typing import Any, NamedTuple

import altair as alt

from netstack import parse_flink_duration

from ..analysis.wording import milliseconds
from ..tuning.estimates import Estimate
from ..tuning.recommend import Recommendation
from ..tuning.summaries import OFF, TargetSummary
from .chart_data import Row
from .panels import ALARM, NEUTRAL, PALETTE, Chart, colours, tip
from .trade_off_labels import FONT_SIZE, HEIGHT, PADDING, SIDES, WIDTH, placed, share_domain
from .tuning_text import conditions_of

CHECKPOINT, FIRST_BARRIER, RECORD = "end to end", "start delay", "record delay"
TIMES = {CHECKPOINT: "end_to_end_ms", FIRST_BARRIER: "start_delay_ms", RECORD: "record_delay_ms"}
"""The times that are drawn over the target, with their fields of `TargetSummary`."""

CHOSEN, NOW, KNEE = "recommended", "now", "knee"
"""What is said of a setting in a picture."""

WITHOUT = "no debloating"
"""What the setting is called that has no target."""


class Outline(NamedTuple):
    """What surrounds a mark; its size is an area, as Vega has it."""

    shape: str
    colour: str
    size: float


OUTLINES = {
    CHOSEN: Outline("circle", ALARM, 330),
    NOW: Outline("square", NEUTRAL, 330),
    WITHOUT: Outline("diamond", NEUTRAL, 620),
    KNEE: Outline("triangle-up", NEUTRAL, 520),
}
"""How what is said of a setting is shown, in the order of the legend."""

NARROWER = 600
"""Pixels below which the trade-off is drawn for a phone."""

MOST_CURVES = 8
"""Conditions whose curves are drawn; the first ones of more."""

_WITH_UNIT = "datum.value < 1000 ? datum.value + ' ms' : datum.value / 1000 + ' s'"
"""How an axis of milliseconds is labelled."""

_ROUND = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)


def tuning_charts(recommendations: Sequence[Recommendation]) -> list[Chart]:
    """Return the pictures of a sweep; those without anything to show are left out."""
    pictures = [
        trade_off(recommendations),
        *(
            times_by_target(recommendation)
            for recommendation in recommendations[:1]
            if len(recommendations) == 1
        ),
    ]
    return [chart for chart in pictures if chart is not None]


def trade_off(recommendations: Sequence[Recommendation]) -> Chart | None:
    """Throughput over checkpoint time, a mark for each target; None where nothing was measured of both."""
    rows = [
        row
        for recommendation in recommendations[:MOST_CURVES]
        for row in _trade_off_rows(recommendation, len(recommendations) == 1)
    ]
    if not rows:
        return None
    curves = list(dict.fromkeys(row["curve"] for row in rows))
    times = _round([row["ms"] for row in rows])
    base = alt.Chart().encode(x=_time_axis("ms", "checkpoint, end to end", times), y=_share_axis(rows))
    colour = {"color": colours("curve", curves, PALETTE, "stroke")} if len(curves) > 1 else {}
    line = base.mark_line(strokeWidth=1.5, opacity=0.6, color=PALETTE[0]).encode(order="place:Q", **colour)
    tips = [tip("ms", "end to end (ms)"), tip("share", "throughput (%)")]
    dots = base.mark_point(filled=True, size=70, opacity=1, color=PALETTE[0]).encode(
        tooltip=["curve:N", "target:N", *tips, "said:N"], **colour
    )
    return Chart(
        "trade-off",
        f"Throughput against checkpoint time: {_said_of(recommendations)}",
        "A mark is a target, the mean over seeds; bars are 95 % intervals. Throughput is compared with that "
        "now, at the same seed. Further left is a faster checkpoint, further up a faster job. Outlines tell "
        "what is set now and what is recommended.",
        _spec([*_ranges(base, colour), line, dots, *_outlines(rows), *_names(base)], placed(rows)),
    )


def times_by_target(recommendation: Recommendation) -> Chart | None:
    """The times that a target brings over the target itself; None where there is no target."""
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
        base.mark_point(filled=True, size=45, opacity=1).encode(tooltip=["time:N", "target:N", *tips]),
        *_chosen_rule(recommendation),
    ]
    return Chart(
        "times-by-target",
        _reached(recommendation),
        "Means over seeds, bars are 95 % intervals. Dashed: as long as the target. Red: the recommended one.",
        _spec(layers, rows),
    )


def _spec(layers: Sequence[Any], rows: list[Row]) -> dict[str, Any]:
    layered = alt.layer(*layers, data=alt.InlineData(values=rows)).properties(width=WIDTH, height=HEIGHT)
    spec: dict[str, Any] = layered.to_dict()
    return spec


def _trade_off_rows(recommendation: Recommendation, alone: bool) -> Iterator[Row]:
    """A row for each target; with other curves beside it only those of which something is said have names."""
    for place, summary in enumerate(_with_baseline(recommendation)):
        time, share = summary.end_to_end_ms, summary.throughput_share
        if time is None or share is None:
            continue
        meanings = _said(recommendation, summary.target)
        yield {
            "curve": conditions_of(recommendation) or recommendation.scenario,
            "place": place,
            "target": _name(summary.target),
            "said": (said := ", ".join(meanings)),
            "meanings": [*meanings, *([WITHOUT] if summary.target == OFF else [])],
            "label": _label(summary.target, said, alone),
            **_ends("ms", time),
            **_ends("share", share, 100.0),
        }


def _label(target: str, said: str, alone: bool) -> str:
    if alone:
        return f"{_name(target)}: {said}" if said else _name(target)
    return _name(target) if said else ""


def _time_rows(recommendation: Recommendation) -> Iterator[Row]:
    for summary in recommendation.targets:
        for name, field in TIMES.items():
            value: Estimate | None = getattr(summary, field)
            if value is None:
                continue
            yield {
                "time": name,
                "target": summary.target,
                "target_ms": 1e3 * parse_flink_duration(summary.target),
                "ms": value.mean,
                "least": value.least,
                "most": value.greatest,
            }


def _ends(name: str, value: Estimate, scale: float = 1.0) -> Row:
    return {
        name: scale * value.mean,
        f"{name}_least": scale * value.least,
        f"{name}_most": scale * value.greatest,
    }


def _with_baseline(recommendation: Recommendation) -> Iterable[TargetSummary]:
    return [
        *recommendation.targets,
        *([recommendation.baseline] if recommendation.baseline is not None else []),
    ]


def _ranges(base: Any, colour: dict[str, Any]) -> list[Any]:
    rule = base.mark_rule(opacity=0.45, color=PALETTE[0]).encode(**colour)
    return [
        rule.encode(x="ms_least:Q", x2="ms_most:Q"),
        rule.encode(y="share_least:Q", y2="share_most:Q"),
    ]


def _outlines(rows: Sequence[Row]) -> list[Any]:
    """An outline around each mark of which something is said, one for each thing said, with a legend."""
    said = [
        {"ms": row["ms"], "share": row["share"], "meaning": meaning}
        for row in rows
        for meaning in row["meanings"]
    ]
    meanings = [meaning for meaning in OUTLINES if any(row["meaning"] == meaning for row in said)]
    if not said:
        return []
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
            stroke=alt.Stroke("meaning:N", scale=strokes, legend=legend),
            size=alt.Size("meaning:N", scale=sizes, legend=legend),
        )
    ]


def _names(base: Any) -> list[Any]:
    """The names of settings, each on the side of its mark where it has room."""
    colour = alt.condition(f"indexof(datum.meanings, '{CHOSEN}') >= 0", alt.value(ALARM), alt.value(NEUTRAL))
    field = f"(width < {NARROWER} ? datum.narrow_side : datum.side)"
    return [
        base.mark_text(align=side.align, baseline=side.baseline, dx=side.dx, dy=side.dy, fontSize=FONT_SIZE)
        .encode(text="label:N", color=colour)
        .transform_filter(f"{field} === '{name}'")
        for name, side in SIDES.items()
    ]


def _chosen_rule(recommendation: Recommendation) -> list[Any]:
    if recommendation.chosen is None:
        return []
    at = 1e3 * parse_flink_duration(recommendation.chosen)
    return [alt.Chart().mark_rule(color=ALARM, strokeWidth=1.5).encode(x=alt.datum(at))]


def _time_axis(field: str, title: str, values: Sequence[float]) -> alt.X:
    axis = alt.Axis(grid=False, labelExpr=_WITH_UNIT, labelOverlap=True, values=list(values))
    scale = alt.Scale(type="log", nice=False, padding=PADDING)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=axis)


def _value_axis(field: str, values: Sequence[float]) -> alt.Y:
    scale = alt.Scale(type="log", nice=False, padding=12)
    axis = alt.Axis(labelExpr=_WITH_UNIT, labelOverlap=True, values=list(values))
    return alt.Y(f"{field}:Q", title="time", scale=scale, axis=axis)


def _share_axis(rows: Sequence[Row]) -> alt.Y:
    scale = alt.Scale(domain=list(share_domain(rows)), nice=False, zero=False)
    axis = alt.Axis(tickMinStep=1, format="d", minExtent=42, maxExtent=42)
    return alt.Y("share:Q", title="throughput (% of now)", scale=scale, axis=axis)


def _round(values: Sequence[float]) -> list[float]:
    """Round numbers, times a power of ten, from the least to the greatest value, or near them."""
    low, high = min(values) / 1.5, max(values) * 1.5
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    return [number for power in powers for part in _ROUND if low <= (number := part * 10.0**power) <= high]


def _name(target: str) -> str:
    return WITHOUT if target == OFF else target


def _said(recommendation: Recommendation, target: str) -> list[str]:
    chosen = {"set": recommendation.chosen, "turn off": OFF}.get(recommendation.verdict)
    each = ((CHOSEN, chosen), (NOW, recommendation.current), (KNEE, recommendation.knee))
    return [said for said, which in each if which == target]


def _said_of(recommendations: Sequence[Recommendation]) -> str:
    """What is recommended for each curve."""
    texts = []
    for recommendation in recommendations[:MOST_CURVES]:
        said = {
            "set": f"recommended is {recommendation.chosen}",
            "turn off": "recommended is no debloating",
            "keep": "nothing is shown to be better than now",
        }
        text = said.get(recommendation.verdict, "nothing keeps to the constraints")
        texts.append(f"{text} ({conditions_of(recommendation)})" if len(recommendations) > 1 else text)
    return "; ".join(texts)


def _reached(recommendation: Recommendation) -> str:
    """What the shortest and the longest target come to."""
    measured = [summary for summary in recommendation.targets if summary.end_to_end_ms is not None]
    ends = measured[:1] + measured[1:][-1:]
    if not ends:
        return "What a target brings: no checkpoint was completed"
    texts = [f"{_end_to_end(summary)} with a target of {summary.target}" for summary in ends]
    return f"A checkpoint takes {', '.join(texts)}"


def _end_to_end(summary: TargetSummary) -> str:
    return milliseconds(None if summary.end_to_end_ms is None else summary.end_to_end_ms.mean)
