"""The picture of benchmarks: the scores of a case over its parameters, with their intervals, way by way."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import altair as alt

from ..analysis.wording import with_micro_sign
from ..benchmarks.bench_results import BenchmarkRun, PointResult
from .charts import to_png
from .panels import Chart

_WAYS = {"emulated": "#0072b2", "process": "#e69f00", "tcp": "#009e73"}
_WIDTH = 640
_ROW = 26


def pictures(run: BenchmarkRun) -> dict[str, bytes]:
    """Return a PNG for each case of a run, by the name of its file."""
    return {f"{chart.name}.png": to_png(chart) for chart in charts_of(run)}


def charts_of(run: BenchmarkRun) -> Iterator[Chart]:
    """Yield a picture for each case of a run."""
    for case, results in groupby(run.results, key=lambda result: result.case):
        yield case_chart(case, list(results))


def case_chart(case: str, results: list[PointResult]) -> Chart:
    """Return the picture of a case: a line for each parameter, and in it a point and a bar for each way."""
    rows = list(map(_row, results))
    unit, mode = with_micro_sign(results[0].unit), results[0].mode
    quantity, better = ("throughput", "more") if mode == "thrpt" else ("time", "less")
    ways = [way for way in _WAYS if any(result.way == way for result in results)]
    places = list(dict.fromkeys(map(_place, results)))
    y = alt.Y("place:N", title=None, sort=places)
    offset = alt.YOffset("way:N", sort=ways)
    scale = alt.Scale(domain=ways, range=[_WAYS[way] for way in ways])
    colour = alt.Color("way:N", title=None, scale=scale)
    base = alt.Chart().encode(y=y, yOffset=offset, color=colour)
    bars = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=f"{quantity} ({unit})", scale=alt.Scale(zero=True)), x2="high:Q"
    )
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="mean:Q", tooltip=["place:N", "way:N", alt.Tooltip("mean:Q", format=",.4r")]
    )
    layers = alt.layer(bars, points, data=alt.InlineData(values=rows))
    height = max(120, 3 * _ROW * len(places))
    spec = layers.properties(width=_WIDTH, height=height).to_dict()
    note = "Points are means over all repetitions, bars their intervals at 99.9 %."
    return Chart(case, f"{case}: {unit}, {better} is better", note, spec)


def _row(result: PointResult) -> dict[str, object]:
    interval = result.interval
    return {
        "place": _place(result),
        "way": result.way,
        "mean": interval.mean,
        "low": max(0.0, interval.low) if interval.known else interval.mean,
        "high": interval.high if interval.known else interval.mean,
    }


def _place(result: PointResult) -> str:
    """What stands beside the points of a parameter."""
    transport = "" if result.transport in ("", "netstack") else result.transport
    return " ".join(filter(None, (result.parameter, transport))) or result.case
