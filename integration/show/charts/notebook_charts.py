"""Charts of notebooks only: ratios of a comparison, and the time of tasks by activity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import altair as alt

from netstack import VertexSteady

from ...base.number_text import counted, is_or_are
from ...runs.reference_comparison import Comparison
from .chart_style import ALARM, MAX_SUBTASKS, NEUTRAL, PALETTE, Chart, ChartRow, tip

_WIDTH = 420
_ROW_HEIGHT = 18

_TIMES = {"busy": "busy_ms_per_s", "back-pressured": "backpressured_ms_per_s", "idle": "idle_ms_per_s"}
_TIME_COLOURS = (PALETTE[0], PALETTE[4], NEUTRAL)

_INSIDE, _OUTSIDE = "inside", "outside"


def ratios(comparison: Comparison) -> Chart | None:
    """Draw the ratio of each number to the other side's number; None without ratios."""
    rows: list[ChartRow] = [
        {
            "what": ", ".join(filter(None, (row.quantity, row.vertex, row.window))),
            "ratio": row.ratio,
            "verdict": _INSIDE if row.ok else _OUTSIDE,
        }
        for row in comparison.rows
        if row.ratio is not None
    ]
    if not rows:
        return None
    names = [row["what"] for row in rows]
    marks = alt.Chart().mark_point(filled=True, size=70).encode(
        x=alt.X("ratio:Q", title=f"ours / {comparison.other_side}", scale=alt.Scale(zero=False)),
        y=alt.Y("what:N", sort=names, title=None, axis=alt.Axis(labelLimit=320)),
        color=alt.Color(
            "verdict:N",
            title="tolerance",
            scale=alt.Scale(domain=[_INSIDE, _OUTSIDE], range=[PALETTE[0], ALARM]),
        ),
        tooltip=["what:N", tip("ratio", "ratio"), "verdict:N"],
    )  # fmt: skip
    even = alt.Chart().mark_rule(strokeDash=[4, 4], color=NEUTRAL).encode(x=alt.datum(1))
    inside = sum(row.ok for row in comparison.rows)
    numbers = f"{inside} of {counted(len(comparison.rows), 'number')}"
    layered = alt.layer(even, marks, data=alt.InlineData(values=rows))
    return Chart(
        "ratios",
        f"{numbers} {is_or_are(inside)} inside the tolerance",
        f"Medians; 1 is equal to {comparison.other_side}. Numbers without a ratio are in the table only.",
        layered.properties(width=_WIDTH, height=_ROW_HEIGHT * len(set(names))).to_dict(),
    )


def task_time(vertices: Iterable[VertexSteady]) -> Chart | None:
    """Draw the shares of time that each subtask is busy, back-pressured and idle; None if not reported."""
    rows: list[ChartRow] = [
        {"task": f"{vertex.name} {subtask}", "time": name, "share": share / 1000}
        for vertex in vertices
        for name, field in _TIMES.items()
        for subtask, share in enumerate(getattr(vertex, field)[:MAX_SUBTASKS])
        if share is not None
    ]
    if not rows:
        return None
    names: Sequence[str] = list(dict.fromkeys(row["task"] for row in rows))
    sums = [sum(row["share"] for row in rows if row["task"] == name) for name in names]
    whole = alt.Scale(domain=[0, max(1.0, *sums)], nice=False)  # medians may add up to more than 1
    bars = alt.Chart(alt.InlineData(values=rows)).mark_bar().encode(
        x=alt.X("share:Q", title="share of the time", axis=alt.Axis(format="%"), scale=whole),
        y=alt.Y("task:N", sort=names, title="subtask"),
        color=alt.Color("time:N", title=None, scale=alt.Scale(domain=list(_TIMES), range=_TIME_COLOURS)),
        tooltip=["task:N", "time:N", tip("share", "share")],
    )  # fmt: skip
    return Chart(
        "task-time",
        "Where subtasks spend their time",
        f"Medians of Flink's metrics. At most the first {MAX_SUBTASKS} subtasks of a vertex are shown.",
        bars.properties(width=_WIDTH, height=_ROW_HEIGHT * len(names)).to_dict(),
    )
