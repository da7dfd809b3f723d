"""The pictures of checkpoints: their history, what they stored, and what they waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from ..analysis.checkpoint_times import (
    ALIGNMENT,
    COMPLETED,
    FAILED,
    PLAIN_TYPE,
    SAVEPOINT,
    START_DELAY,
    SYNC_SAVEPOINT,
    of_status,
    phases_in,
)
from ..analysis.window_figures import WindowFigures
from ..analysis.wording import milliseconds, size
from . import checkpoint_rows
from .chart_data import Results, Row
from .panels import (
    ALARM,
    MOST_COLUMNS,
    NEUTRAL,
    Chart,
    Spec,
    colours,
    each,
    panels,
    present,
    ruler_note,
    seconds,
    tip,
)

UNALIGNED_TYPE = "UNALIGNED_CHECKPOINT"
TYPES = (PLAIN_TYPE, UNALIGNED_TYPE, "AT_LEAST_ONCE_CHECKPOINT", SAVEPOINT, SYNC_SAVEPOINT)
"""What a checkpoint can turn out to be, by Flink's names."""

CHOSEN = "chosen"
"""The signal of `checkpoint_history` that says which checkpoint stands out: "RUN#ID"; empty: none."""

DETAIL = "checkpoint-detail"
"""The name of the picture of a single checkpoint."""

_PARTS = ("#56b4e9", "#d55e00")
_PHASES = ("#56b4e9", "#d55e00", "#009e73", "#cc79a7", "#a0a0a0", "#e0e0e0")
_STORED = ("#e69f00", "#0072b2")
_TYPES = ("#bdbdbd", "#6f5fb5", "#8a7a00", "#2a7f62", "#b5483a")
_TRIGGER = "trigger of the checkpoint (s)"
_STRIP_PX = (-8, -3)
_PHASES_NOTE = "Each bar has the phases of the subtask that acknowledged last: they add up to the duration."
_UNALIGNED_NOTE = (
    " Where barriers overtake data, sync and async run beside the alignment, and the bar has what comes "
    "after it. Async also lasts until a subtask's own barriers have left, or have overtaken after a timeout."
)


def checkpoint_history(results: Results) -> Chart | None:
    """Every checkpoint with the phases of its time, failed ones too; None if there are none."""
    rows = checkpoint_rows.history(results)
    if not rows:
        return None
    types = present(rows, "type", TYPES)
    marks = [_bars(_seconds_high("time (s)"), "phase", phases_in(results.values())), *_without_bar()]
    if len(types) > 1:
        marks.append(_type_strip(types))
    spec = panels(marks, rows, results, height=_height(results, 150, 90), time=_TRIGGER)
    spec["params"] = [{"name": CHOSEN, "value": ""}]
    few = len(results) <= MOST_COLUMNS
    return Chart(
        "checkpoint-history",
        f"A checkpoint takes: {each(results, _duration)}" if few else "Every checkpoint of each run",
        f"{_phases_note(types)}{_types_note(types)}{_other_ends_note(results)}{ruler_note(results)}",
        spec,
    )


def checkpoint_bytes(results: Results) -> Chart | None:
    """What each completed checkpoint stored: data in flight and other state; None if next to nothing."""
    rows = checkpoint_rows.stored(results)
    if not rows:
        return None
    bars = _of_each_checkpoint(
        y=alt.Y("from_mib:Q", title="stored (MiB)"),
        y2="to_mib:Q",
        color=colours("part", [checkpoint_rows.IN_FLIGHT, checkpoint_rows.OTHER_STATE], _STORED),
        tooltip=[tip("id", "checkpoint"), "type:N", "part:N", "size:N"],
    )
    return Chart(
        "checkpoint-bytes",
        f"Data in flight that a checkpoint stores: {each(results, _persisted)}",
        f"Medians of checkpoints that were completed.{ruler_note(results)}",
        panels([bars], rows, results, height=_height(results, 110, 70), time=_TRIGGER),
    )


def checkpoint_time(results: Results) -> Chart | None:
    """Start delay and alignment of every checkpoint in every subtask, stacked; None without checkpoints."""
    rows = checkpoint_rows.checkpoint_parts(results)
    if not rows:
        return None
    bars = _of_each_checkpoint(
        y=alt.Y("from_s:Q", title="time (s)"),
        y2="to_s:Q",
        color=colours("part", [START_DELAY, ALIGNMENT], _PARTS),
        tooltip=["subtask:N", tip("id", "checkpoint"), "part:N", tip("s", "seconds")],
    )
    return Chart(
        "checkpoint-time",
        f"Start delay and alignment: {each(results, _waits)}",
        f"Means of the subtask that acknowledged last. Each bar is a checkpoint.{ruler_note(results)}",
        panels([bars], rows, results, row="subtask", height=72, time=_TRIGGER),
    )


def checkpoint_phases(results: Results) -> Chart | None:
    """The phases of the mean checkpoint, a bar for each run; None without checkpoints."""
    rows = checkpoint_rows.typical(results)
    if not rows:
        return None
    names, phases = present(rows, "run", list(results)), phases_in(results.values())
    types = [each.checkpoint_type for result in results.values() for each in of_status(result, COMPLETED)]
    return Chart(
        "checkpoint-phases",
        f"A checkpoint takes: {each(results, _duration)}",
        f"Of each run the mean of its last window's checkpoints. {_phases_note(types)}",
        _horizontal("run", names, rows, phases),
    )


def checkpoint_detail(results: Results) -> Spec:
    """The specification of all subtasks' phases in one checkpoint of some runs; a page puts its rows in.

    A row has ``subtask, part, ms, from_s, to_s`` and ``figures``, a text.
    """
    return _horizontal("subtask", None, [], phases_in(results.values()), extra=["figures:N"])


def _horizontal(
    field: str,
    names: list[str] | None,
    rows: list[Row],
    phases: Sequence[str],
    extra: list[str] | None = None,
) -> Spec:
    bars = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X("from_s:Q", title="time since the trigger (s)", axis=alt.Axis(tickCount=8)),
            x2="to_s:Q",
            y=alt.Y(f"{field}:N", sort=names, title=None, axis=alt.Axis(grid=False, labelLimit=220)),
            color=_phase_colours(phases),
            tooltip=[f"{field}:N", "part:N", tip("ms", "ms"), *(extra or ["last:N"])],
        )
        .properties(width=650, height=alt.Step(24 if names else 17))
    )
    spec: Spec = bars.to_dict() | {"data": {"values": rows}}
    # The names of subtasks need more room than those of buffers do.
    return spec | {"config": {"axisY": {"minExtent": 0, "maxExtent": 240}}}


def _bars(height: alt.Y, title: str, phases: Sequence[str]) -> Any:
    """Bars of phases; all but the chosen one are pale, if one is chosen."""
    this = "datum.run + '#' + datum.id"
    condition = alt.condition(f"{CHOSEN} == '' || {CHOSEN} == {this}", alt.value(1.0), alt.value(0.45))
    bars = _of_each_checkpoint(
        cursor="pointer",
        y=height,
        y2="to_s:Q",
        color=_phase_colours(phases),
        opacity=condition,
        tooltip=[
            tip("id", "checkpoint"),
            "type:N",
            alt.Tooltip("part:N", title=title),
            tip("ms", "ms"),
            tip("total", "in all, ms"),
            alt.Tooltip("last:N", title="acknowledged last"),
        ],
    )
    return bars.transform_filter(f"datum.status == '{COMPLETED}'")


def _without_bar() -> list[Any]:
    """A cross for each checkpoint that failed, and a ring for one that was going on at the end."""
    base = alt.Chart().encode(
        x=seconds(_TRIGGER),
        y=_seconds_high("time (s)", "to_s"),
        tooltip=[tip("id", "checkpoint"), "type:N", alt.Tooltip("failure:N", title="outcome")],
    )
    cross = base.mark_point(
        shape="cross", cursor="pointer", angle=45, size=70, filled=True, color=ALARM, opacity=1, yOffset=-6
    )
    ring = base.mark_point(shape="circle", cursor="pointer", size=45, color=NEUTRAL, opacity=1, yOffset=-6)
    other = f"isValid(datum.status) && datum.status != '{COMPLETED}' && datum.status != '{FAILED}'"
    return [
        cross.transform_filter(f"datum.status == '{FAILED}'"),
        ring.transform_filter(other),
    ]


def _type_strip(types: list[str]) -> Any:
    """A thin band above the bars, in the colour of each checkpoint's type."""
    known = dict(zip(TYPES, _TYPES, strict=True))
    scale = alt.Scale(domain=types, range=[known[kind] for kind in types])
    legend = alt.Legend(title=None, orient="bottom", labelLimit=0, columns=2)
    top, bottom = _STRIP_PX
    return _of_each_checkpoint(
        y=alt.value(top),
        y2=alt.value(bottom),
        fill=alt.Fill("type:N", scale=scale, legend=legend),
        tooltip=[tip("id", "checkpoint"), "type:N"],
    )


def _of_each_checkpoint(cursor: str | None = None, **channels: Any) -> Any:
    """A rectangle for each checkpoint, from its trigger to the next one's; `channels` say the rest."""
    mark: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
    return alt.Chart().mark_rect(**mark).encode(x=seconds(_TRIGGER), x2="until:Q", **channels)


def _height(results: Results, few: int, several: int) -> int:
    return few if len(results) <= MOST_COLUMNS else several


def _seconds_high(title: str, field: str = "from_s") -> alt.Y:
    return alt.Y(f"{field}:Q", title=title)


def _phase_colours(phases: Sequence[str]) -> alt.Color:
    return colours("part", phases, _PHASES)


def _types_note(types: list[str]) -> str:
    return f" All are of the type {types[0]}." if len(types) == 1 else " The band above: their types."


def _other_ends_note(results: Results) -> str:
    ends = {checkpoint.status for result in results.values() for checkpoint in result.checkpoints}
    note = " Crosses: they failed." if FAILED in ends else ""
    return note + (" Rings: they were going on at the end." if ends - {COMPLETED, FAILED} else "")


def _phases_note(types: Sequence[str]) -> str:
    return _PHASES_NOTE + (_UNALIGNED_NOTE if UNALIGNED_TYPE in types else "")


def _duration(findings: WindowFigures) -> str:
    return milliseconds(findings.end_to_end_ms)


def _persisted(findings: WindowFigures) -> str:
    return size(findings.persisted_bytes)


def _waits(findings: WindowFigures) -> str:
    return f"{milliseconds(findings.start_delay_ms)} + {milliseconds(findings.alignment_ms)}"
