"""Charts of runs: buffers, queues and checkpoints over time, and the phases of a single checkpoint.

For each chart there are two functions: one draws the chart, the other derives its rows from results, reduced
to what fits a chart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from statistics import median
from typing import Any

import altair as alt
from msgspec import UNSET

from netstack import CheckpointResult, CheckpointStatus, CheckpointType, Result

from ...base.number_text import NOTHING, milliseconds, per_second, percent, size
from ...runs.checkpoint_times import (
    ALIGNMENT,
    START_DELAY,
    SubtaskPart,
    checkpoint_times,
    completed_checkpoints,
    last_part,
    phases_in,
    subtask_parts,
    window_times,
)
from ...runs.window_figures import (
    WindowFigures,
    busiest_subtasks,
    bytes_per_s,
    configured_per_s,
    edge_ends,
    emitted_per_s,
    is_debloated,
    queued,
    read_per_s,
)
from .chart_style import (
    ALARM,
    MAX_SUBTASKS,
    NEUTRAL,
    PALETTE,
    SUBTASKS,
    Chart,
    ChartRow,
    Results,
    Spec,
    colours,
    ordered,
    panels,
    per_window,
    ruler_note,
    seconds,
    subtask_colours,
    subtask_widths,
    tip,
    word,
)


def charts(results: Results) -> list[Chart]:
    """Return the charts of one or two runs of a job, without empty ones."""
    makers = (
        checkpoint_history,
        checkpoint_bytes,
        load,
        buffer_size,
        in_flight_time,
        checkpoint_time,
        queue_length,
    )
    return [chart for make in makers if (chart := make(results)) is not None]


MAX_SAMPLES = 240
"""Maximum number of points of a line. With more samples, only every second or third and so on is drawn."""

MAX_VERTICES = 3
"""Maximum number of vertices in a chart. The last ones are drawn, as they show most problems."""

FIXED = "all, fixed"
"""Legend entry for all subtasks of a run without debloating."""

SENDERS, RECEIVERS = "at the senders", "at the receivers"

_KIB = 1 << 10
_MIB = 1 << 20

_LEAST_TOP = 4
"""Minimum upper end of an axis of counts, so that its ticks are whole numbers."""


CONFIGURED, EMITTED, READ = "configured", "emitted by sources", "read by sinks"
"""The lines of the chart of load and throughput."""


_RATE = "rate (records/s)"


def load(results: Results) -> Chart | None:
    """Draw load, throughput and busy time over time; None without samples."""
    rates, busy = rate_rows(results), busy_rows(results)
    kinds = ordered(rates, "line", [CONFIGURED, EMITTED, READ])
    if not kinds:
        return None
    top = 1.05 * max(1.0, *(row["per_s"] or 0.0 for row in rates))
    areas = (
        alt.Chart()
        .mark_area(interpolate="step-after", color=NEUTRAL, opacity=0.25)
        .encode(
            x=seconds(),
            y=alt.Y("height:Q", title=_RATE),
            tooltip=[word("who", "busiest subtask"), tip("t", "time (s)"), word("busy", "busy")],
        )
        .transform_filter("isValid(datum.height)")
    )
    full = " Grey: busy time of the busiest subtask; the full height is 100 %." if busy else ""
    return Chart(
        "load",
        f"Throughput: {per_window(results, lambda window: per_second(window.throughput_per_s))}",
        f"Records read by sinks. Each point is a mean over the samples around it.{full}{ruler_note(results)}",
        panels(
            [areas, _rate_lines(kinds, top)],
            [row | {"height": round(top * row["share"], 3)} for row in busy] + rates,
            results,
            height=200,
        ),
    )


def rate_rows(results: Results) -> list[ChartRow]:
    """Return rows ``run, line, t, per_s, rate``: records per second that are configured, emitted and read.

    The configured rate is None while a source emits as fast as possible.
    """
    rows: list[ChartRow] = []
    for run, result in results.items():
        times = result.series[0].t if result.series else []
        steps = configured_per_s(result) if times else []
        if any(rate is not None for _, rate in steps):
            steps.append((result.emulated_seconds, steps[-1][1]))  # the line reaches the end
        else:
            steps = []
        lines: dict[str, Iterable[tuple[float, float | None]]] = {
            CONFIGURED: steps,
            EMITTED: thinned(times, emitted_per_s(result)),
            READ: thinned(times, read_per_s(result)),
        }
        rows += [
            {"run": run, "line": line, "t": t, "per_s": rate, "rate": per_second(rate)}
            for line, points in lines.items()
            for t, rate in points
        ]
    return rows


def busy_rows(results: Results) -> list[ChartRow]:
    """Return rows ``run, t, who, share, busy``: the busiest subtask and its share of busy time, 0 to 1."""
    return [
        {"run": run, "t": t, "who": who, "share": share, "busy": percent(share)}
        for run, result in results.items()
        if result.series
        for t, (who, share) in thinned(result.series[0].t, busiest_subtasks(result))
    ]


def _rate_lines(kinds: Sequence[str], top: float) -> Any:
    """Return a layer with a line for each kind of rate; lines that coincide have different widths."""
    styles = {CONFIGURED: (PALETTE[1], 7.0), EMITTED: (PALETTE[0], 4.5), READ: (PALETTE[2], 2.0)}
    widths = alt.Scale(type="ordinal", domain=list(kinds), range=[styles[kind][1] for kind in kinds])
    return (
        alt.Chart()
        .mark_line(interpolate="step-after", clip=True)  # wide lines would move the axis
        .encode(
            x=seconds(),
            y=alt.Y(
                "per_s:Q",
                title=_RATE,
                scale=alt.Scale(domain=[0, top], nice=False),
                axis=alt.Axis(labelExpr="format(datum.value, '~s')", tickCount=5),
            ),
            color=colours("line", kinds, [styles[kind][0] for kind in kinds], "stroke"),
            strokeWidth=alt.StrokeWidth("line:O", scale=widths, legend=None),
            tooltip=["line:N", tip("t", "time (s)"), word("rate", "records")],
        )
        .transform_filter("isValid(datum.line)")
    )


def buffer_size(results: Results) -> Chart | None:
    """Draw the size of new buffers over time, a line per subtask; None if debloating is off in all runs."""
    rows = buffer_size_rows(results)
    if not rows or not any(is_debloated(series) for result in results.values() for series in result.series):
        return None
    subtasks = ordered(rows, "subtask", [*SUBTASKS, FIXED])
    whole = max(result.scenario.config.segment_bytes for result in results.values()) / 1024
    size_axis = alt.Y(
        "kib:Q",
        title="buffer size (KiB)",
        scale=alt.Scale(domain=[0, 1.05 * whole], nice=False),
        axis=alt.Axis(values=[whole * part / 8 for part in range(0, 9, 2)]),
    )
    lines = _lines(size_axis, subtasks, ["vertex:N", "subtask:N", tip("t", "time (s)"), tip("kib", "KiB")])
    return Chart(
        "buffer-size",
        f"Size of new buffers: {per_window(results, lambda window: size(window.buffer_bytes))}",
        "Median of the subtask with the smallest buffers. Receivers announce sizes for new buffers."
        + _lines_note(subtasks, results),
        panels([lines], rows, results, row="vertex", height=200),
        in_tuning=True,
    )


def buffer_size_rows(results: Results) -> list[ChartRow]:
    """Return rows ``run, vertex, t, subtask, kib``: sizes of new buffers by subtask, the last one first."""
    rows: list[ChartRow] = []
    for run, result in results.items():
        readers, _ = edge_ends(result)
        read_series = [series for series in result.series if series.vertex in readers]
        for series in read_series[-MAX_VERTICES:]:
            sizes: dict[str, Sequence[float | None]] = {
                FIXED: [result.scenario.config.segment_bytes] * len(series.t)
            }
            if series.debloatedBufferSize is not UNSET:
                sizes = dict(zip(SUBTASKS, series.debloatedBufferSize, strict=False))
            rows += [
                {
                    "run": run,
                    "vertex": series.vertex,
                    "t": t,
                    "subtask": subtask,
                    "kib": round(size / _KIB, 2),
                }
                for subtask, values in reversed(sizes.items())
                for t, size in thinned(series.t, values)
                if size is not None
            ]
    return rows


def in_flight_time(results: Results) -> Chart | None:
    """Draw the time to consume the data queued at senders and at receivers; None without samples."""
    rows = in_flight_rows(results)
    if not rows:
        return None
    areas = (
        alt.Chart()
        .mark_area(interpolate="step-after", opacity=0.85)
        .encode(
            x=seconds(),
            y=alt.Y("s:Q", title="time to consume (s)").stack("zero"),
            color=colours("place", [RECEIVERS, SENDERS], ("#0072b2", "#e69f00")),
            order=alt.Order("place:N", sort="descending"),
            tooltip=[
                "place:N",
                tip("t", "time (s)"),
                word("takes", "time to consume"),
                word("size", "queued"),
            ],
        )
    )
    return Chart(
        "in-flight-time",
        f"Time to consume the records in flight: {per_window(results, _in_flight_time)}",
        f"Queued bytes divided by throughput: the mean time that a record waits.{ruler_note(results)}",
        panels([areas], rows, results, height=200),
        in_tuning=True,
    )


def in_flight_rows(results: Results) -> list[ChartRow]:
    """Return rows ``run, t, place, s, takes, size``: data queued at each end, and the time to consume it."""
    rows: list[ChartRow] = []
    for run, result in results.items():
        if not result.series:
            continue
        times, rates = result.series[0].t, bytes_per_s(result)
        for place, field in ((SENDERS, "outputQueueSize"), (RECEIVERS, "inputQueueSize")):
            sizes = queued(result, field)
            for t, (waiting, rate) in thinned(times, list(zip(sizes, rates, strict=False))):
                if rate is not None:
                    takes_s = waiting / rate
                    values = {
                        "s": round(takes_s, 3),
                        "takes": milliseconds(1000 * takes_s),
                        "size": size(waiting),
                    }
                    rows.append({"run": run, "t": t, "place": place} | values)
    return rows


def _in_flight_time(window: WindowFigures) -> str:
    return milliseconds(None if window.in_flight_s is None else 1000 * window.in_flight_s)


def queue_length(results: Results) -> Chart | None:
    """Draw the queued buffers over time, a line per subtask, senders above receivers; None if empty."""
    rows = queue_length_rows(results)
    if not rows:
        return None
    subtasks = ordered(rows, "subtask", SUBTASKS)
    most = max(_LEAST_TOP, *(row["buffers"] for row in rows))
    count_axis = alt.Y("buffers:Q", title="buffers", scale=alt.Scale(domain=[0, most]))
    tips = ["place:N", "subtask:N", tip("t", "time (s)"), tip("buffers", "buffers")]
    return Chart(
        "queue-length",
        f"Buffers that wait at senders and receivers: {per_window(results, _buffers_that_wait)}",
        "Medians of all subtasks together. Each line is a subtask. Events, such as barriers, count, too."
        + _lines_note(subtasks, results),
        panels([_lines(count_axis, subtasks, tips)], rows, results, row="place", height=130),
        in_tuning=True,
    )


def queue_length_rows(results: Results) -> list[ChartRow]:
    """Return rows ``run, place, t, subtask, buffers``: the queue of each subtask, the last subtask first."""
    rows: list[ChartRow] = []
    for run, result in results.items():
        readers, writers = edge_ends(result)
        for series in result.series[-MAX_VERTICES:]:
            for ends, place, lengths in (
                (readers, "receiving", series.inputQueueLength),
                (writers, "sending", series.outputQueueLength),
            ):
                if series.vertex not in ends:
                    continue
                rows += [
                    {"run": run, "place": f"{series.vertex}, {place}", "t": t}
                    | {"subtask": subtask, "buffers": length}
                    for subtask, queue in reversed(list(zip(SUBTASKS, lengths, strict=False)))
                    for t, length in thinned(series.t, queue)
                ]
    return rows


def _buffers_that_wait(window: WindowFigures) -> str:
    sent, received = window.sender_buffers, window.receiver_buffers
    return NOTHING if sent is None or received is None else f"{sent:,g} + {received:,g}"


def _lines(height: alt.Y, subtasks: Sequence[str], tooltip: Sequence[Any]) -> Any:
    """Return a layer with a line over time for each subtask."""
    return (
        alt.Chart()
        .mark_line(interpolate="step-after")
        .encode(
            x=seconds(),
            y=height,
            color=subtask_colours(subtasks),
            strokeWidth=subtask_widths(subtasks),
            tooltip=tooltip,
        )
    )


def _lines_note(subtasks: Sequence[str], results: Results) -> str:
    coinciding = " Lines of subtasks with equal values overlap." if len(subtasks) > 1 else ""
    return coinciding + ruler_note(results)


def thinned(times: Sequence[float], values: Sequence[Any]) -> Iterator[tuple[float, Any]]:
    """Yield times with their values, of at most `MAX_SAMPLES` samples and some more, evenly spread."""
    step = max(1, ceil(len(times) / MAX_SAMPLES))
    return zip(times[::step], values[::step], strict=False)


MAX_CHECKPOINTS = 120
"""Maximum number of checkpoints of a run in a chart. The last ones are drawn."""

COMPLETED, FAILED = CheckpointStatus.COMPLETED, CheckpointStatus.FAILED

LEAST_BYTES = 1024
"""If no checkpoint of a run stores this many bytes, its stored bytes are not drawn."""

IN_FLIGHT, OTHER_STATE = "data in flight", "other state"

_BAR_SHARE = 0.8

MAX_DETAILED = 32
"""Maximum number of subtasks of a vertex in the details of a checkpoint. The slowest ones are drawn."""

CHOSEN = "chosen"
"""Signal of `checkpoint_history` with the highlighted checkpoint, as "RUN#ID"; empty if none is."""

DETAIL = "checkpoint-detail"
"""Name of the chart of a single checkpoint."""

_PHASES = ("#56b4e9", "#d55e00", "#009e73", "#cc79a7", "#a0a0a0", "#e0e0e0")

_TYPES = ("#bdbdbd", "#6f5fb5", "#8a7a00", "#2a7f62", "#b5483a")

_TRIGGER = "trigger of the checkpoint (s)"

_PHASES_NOTE = "Each bar has the phases of the subtask that acknowledged last: they add up to the duration."

_UNALIGNED_NOTE = (
    " In an unaligned checkpoint, sync and async overlap the alignment. The bar shows only their part after "
    "the alignment. Async does not end before the subtask has sent its own barriers."
)


def checkpoint_history(results: Results) -> Chart | None:
    """Draw every checkpoint with the phases of its time, failed ones too; None without checkpoints."""
    rows = history_rows(results)
    if not rows:
        return None
    types = ordered(rows, "type", tuple(CheckpointType))
    marks = [_phase_bars(phases_in(results.values())), *_without_bar()]
    if len(types) > 1:
        marks.append(_band_of_types(types))
    spec = panels(marks, rows, results, height=150, time=_TRIGGER)
    spec["params"] = [{"name": CHOSEN, "value": ""}]
    kinds = f"All are of the type {types[0]}." if len(types) == 1 else "The band above shows their types."
    ends = {checkpoint.status for result in results.values() for checkpoint in result.checkpoints}
    failed = " Crosses: they failed." if FAILED in ends else ""
    unfinished = " Rings: not complete at the end of the run." if ends - {COMPLETED, FAILED} else ""
    return Chart(
        "checkpoint-history",
        f"A checkpoint takes: {per_window(results, _duration)}",
        f"{_phases_note(types)} {kinds}{failed}{unfinished}{ruler_note(results)}",
        spec,
        of_checkpoints=True,
        in_tuning=True,
    )


def history_rows(results: Results) -> list[ChartRow]:
    """Return rows ``run, id, t, status, type, ...``: every checkpoint with the phases of its time.

    A completed checkpoint has one row for each phase with a duration, with ``until, part, takes, from_s,
    to_s`` and ``total``. Its times are those of the subtask that acknowledged last, which the column ``last``
    names.
    A checkpoint that did not complete has one row, with ``failure``, and ``to_s`` 0.
    """
    rows: list[ChartRow] = []
    for run, result in results.items():
        for checkpoint, until in _with_ends(result, result.checkpoints[-MAX_CHECKPOINTS:]):
            head = _head(run, checkpoint, until) | {
                "status": checkpoint.status,
                "type": checkpoint.checkpoint_type,
            }
            part, times = last_part(checkpoint), checkpoint_times(checkpoint)
            if times is None or part is None:
                rows.append(head | {"failure": outcome(checkpoint), "to_s": 0.0})
                continue
            last = {"last": f"{part.vertex} {part.subtask}", "total": milliseconds(times.end_to_end_ms)}
            lasting = {name: ms for name, ms in times.phases.items() if ms > 0}
            rows += [head | last | bar for bar in _stacked(lasting)]
    return rows


def _phase_bars(phases: Sequence[str]) -> Any:
    """Return a layer with bars of phases. If a checkpoint is chosen, the bars of all others are pale."""
    this = "datum.run + '#' + datum.id"
    condition = alt.condition(f"{CHOSEN} == '' || {CHOSEN} == {this}", alt.value(1.0), alt.value(0.45))
    bars = _of_each_checkpoint(
        cursor="pointer",
        y=alt.Y("from_s:Q", title="time (s)"),
        y2="to_s:Q",
        color=colours("part", phases, _PHASES),
        opacity=condition,
        tooltip=[
            tip("id", "checkpoint"),
            "type:N",
            word("part", "phase"),
            word("takes", "takes"),
            word("total", "all phases"),
            word("last", "acknowledged last"),
        ],
    )
    return bars.transform_filter(f"datum.status == '{COMPLETED}'")


def _without_bar() -> list[Any]:
    """Return a cross for each failed checkpoint, and a ring for each that was still in progress."""
    base = alt.Chart().encode(
        x=seconds(_TRIGGER),
        y=alt.Y("to_s:Q", title="time (s)"),
        tooltip=[tip("id", "checkpoint"), "type:N", word("failure", "outcome")],
    )
    style: dict[str, Any] = {"cursor": "pointer", "opacity": 1, "yOffset": -6}
    cross = base.mark_point(shape="cross", angle=45, size=70, filled=True, color=ALARM, **style)
    ring = base.mark_point(shape="circle", size=45, color=NEUTRAL, **style)
    other = f"isValid(datum.status) && datum.status != '{COMPLETED}' && datum.status != '{FAILED}'"
    return [cross.transform_filter(f"datum.status == '{FAILED}'"), ring.transform_filter(other)]


def _band_of_types(types: Sequence[str]) -> Any:
    """Return a thin band above the bars, coloured by the type of each checkpoint."""
    known: dict[str, str] = dict(zip(CheckpointType, _TYPES, strict=True))
    scale = alt.Scale(domain=types, range=[known[kind] for kind in types])
    legend = alt.Legend(title=None, orient="bottom", labelLimit=0, columns=2)
    return _of_each_checkpoint(
        y=alt.value(-8),
        y2=alt.value(-3),
        fill=alt.Fill("type:N", scale=scale, legend=legend),
        tooltip=[tip("id", "checkpoint"), "type:N"],
    )


def checkpoint_bytes(results: Results) -> Chart | None:
    """Draw the stored bytes of each completed checkpoint; None if they are negligible."""
    rows = stored_rows(results)
    if not rows:
        return None
    bars = _of_each_checkpoint(
        y=alt.Y("from_mib:Q", title="stored (MiB)"),
        y2="to_mib:Q",
        color=colours("part", [IN_FLIGHT, OTHER_STATE], ("#e69f00", "#0072b2")),
        tooltip=[tip("id", "checkpoint"), "type:N", "part:N", "size:N"],
    )
    stored = per_window(results, lambda window: size(window.persisted_bytes))
    return Chart(
        "checkpoint-bytes",
        f"Data in flight that a checkpoint stores: {stored}",
        f"Medians of checkpoints that were completed.{ruler_note(results)}",
        panels([bars], rows, results, height=110, time=_TRIGGER),
        of_checkpoints=True,
    )


def stored_rows(results: Results) -> list[ChartRow]:
    """Return rows ``run, id, t, until, type, part, size, from_mib, to_mib``: stored bytes of checkpoints.

    A run has no rows if all of its checkpoints store less than `LEAST_BYTES`.
    """
    rows = []
    for run, result in results.items():
        completed = completed_checkpoints(result)
        if all(checkpoint.state_bytes < LEAST_BYTES for checkpoint in completed):
            continue
        for checkpoint, until in _with_ends(result, completed[-MAX_CHECKPOINTS:]):
            persisted = checkpoint.persisted_bytes
            ends = (0, persisted, max(persisted, checkpoint.state_bytes))
            for part, (low, high) in zip((IN_FLIGHT, OTHER_STATE), pairwise(ends), strict=True):
                what = {"type": checkpoint.checkpoint_type, "part": part, "size": size(high - low)}
                ends_mib = {"from_mib": round(low / _MIB, 4), "to_mib": round(high / _MIB, 4)}
                rows.append(_head(run, checkpoint, until) | what | ends_mib)
    return rows


def checkpoint_time(results: Results) -> Chart | None:
    """Draw the start delay and alignment of every checkpoint in every subtask; None without checkpoints."""
    rows = part_rows(results)
    if not rows:
        return None
    bars = _of_each_checkpoint(
        y=alt.Y("from_s:Q", title="time (s)"),
        y2="to_s:Q",
        color=colours("part", [START_DELAY, ALIGNMENT], _PHASES),
        tooltip=["subtask:N", tip("id", "checkpoint"), word("part", "phase"), word("takes", "takes")],
    )
    waits = per_window(
        results, lambda window: f"{milliseconds(window.start_delay_ms)} + {milliseconds(window.alignment_ms)}"
    )
    return Chart(
        "checkpoint-time",
        f"Start delay and alignment: {waits}",
        f"Means of the subtask that acknowledged last. Each bar is a checkpoint.{ruler_note(results)}",
        panels([bars], rows, results, row="subtask", height=72, time=_TRIGGER),
    )


def part_rows(results: Results) -> list[ChartRow]:
    """Return rows ``run, subtask, id, t, until, part, takes, from_s, to_s``: the waits of each checkpoint.

    The subtasks are those of the vertex that most often acknowledges last.
    """
    rows = []
    for run, result in results.items():
        times = window_times(result)
        last = result.steady[-1].vertices[-1].name  # without checkpoints
        vertex = last if times is None or times.vertex is None else times.vertex
        for checkpoint, until in _with_ends(result, completed_checkpoints(result)[-MAX_CHECKPOINTS:]):
            for part in subtask_parts(checkpoint):
                if part.vertex != vertex or part.subtask >= MAX_SUBTASKS:
                    continue
                if START_DELAY not in part.phases or ALIGNMENT not in part.phases:
                    continue
                head = _head(run, checkpoint, until) | {"subtask": f"{vertex} {part.subtask}"}
                waits = {name: part.phases[name] for name in (START_DELAY, ALIGNMENT)}
                rows += [head | bar for bar in _stacked(waits)]
    return rows


def checkpoint_detail(results: Results) -> Spec:
    """Return the specification of one checkpoint with a bar per subtask; the page fills in the rows.

    A row has ``subtask, part, from_s, to_s``, and the texts ``takes`` and ``figures``.
    """
    bars = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X("from_s:Q", title="time since the trigger (s)", axis=alt.Axis(tickCount=8)),
            x2="to_s:Q",
            y=alt.Y("subtask:N", sort=None, title=None, axis=alt.Axis(grid=False, labelLimit=220)),
            color=colours("part", phases_in(results.values()), _PHASES),
            tooltip=["subtask:N", word("part", "phase"), word("takes", "takes"), word("figures", "figures")],
        )
        .properties(width=650, height=alt.Step(17))
    )
    spec: Spec = bars.to_dict() | {"data": {"values": []}}
    # Names of subtasks need more room than names of buffers.
    return spec | {"config": {"axisY": {"minExtent": 0, "maxExtent": 240}}}


def checkpoint_details(results: Results) -> list[dict[str, Any]]:
    """Return the data of `checkpoint_detail` for a page, for each run with checkpoints.

    A run has its ``name``, its ``checkpoints``, and the id of the slowest one in ``chosen``. A checkpoint has
    ``id``, ``label``, ``text``, and ``parts``: for each subtask its name, the milliseconds of each phase
    (`phases_in`), its other figures as a text, and the time of each phase as a text, empty for no time.
    """
    shown_runs, phases = [], phases_in(results.values())
    for run, result in results.items():
        checkpoints = result.checkpoints[-MAX_CHECKPOINTS:]
        if checkpoints:
            slowest = max(checkpoints, key=lambda checkpoint: checkpoint.duration_ms or 0.0)
            shown = [_detail(checkpoint, phases) for checkpoint in checkpoints]
            shown_runs.append({"name": run, "chosen": slowest.id, "checkpoints": shown})
    return shown_runs


def _detail(checkpoint: CheckpointResult, phases: Sequence[str]) -> dict[str, Any]:
    parts = list(subtask_parts(checkpoint))
    slowest: dict[str, list[SubtaskPart]] = {}
    for part in sorted(parts, key=lambda part: -part.end_to_end_ms):
        slowest.setdefault(part.vertex, []).append(part)
    shown = [part for part in parts if part in slowest[part.vertex][:MAX_DETAILED]]
    return {
        "id": checkpoint.id,
        "label": f"{checkpoint.id}: at {checkpoint.t:.1f} s, {outcome(checkpoint)}",
        "text": _detail_text(checkpoint, acknowledged=len(parts), shown=len(shown)),
        "parts": [
            [
                f"{part.vertex} {part.subtask}",
                [round(part.phases.get(name, 0.0), 2) for name in phases],
                _figures(part),
                [milliseconds(ms) if (ms := part.phases.get(name)) else "" for name in phases],
            ]
            for part in shown
        ],
    }


def _detail_text(checkpoint: CheckpointResult, *, acknowledged: int, shown: int) -> str:
    """Return a sentence on a checkpoint, with the numbers of subtasks that acknowledged it and are shown."""
    subtasks = sum(len(vertex.end_to_end_ms) for vertex in checkpoint.vertices)
    text = f"{checkpoint.checkpoint_type}, triggered at {checkpoint.t:.1f} s, {outcome(checkpoint)}; "
    all_of = "all" if acknowledged == subtasks else f"{acknowledged} of"
    text += f"{all_of} {subtasks} subtasks acknowledged"
    if shown < acknowledged:
        text += f", the slowest {MAX_DETAILED} of a vertex are shown"
    if checkpoint.state_bytes:
        text += f"; {size(checkpoint.state_bytes)} of state"
    if checkpoint.persisted_bytes:
        text += f", {size(checkpoint.persisted_bytes)} of it data in flight"
    return f"{text}."


def _figures(part: SubtaskPart) -> str:
    kind = {True: "unaligned", False: "aligned", None: "aligned or not"}[part.unaligned]
    text = f"{kind}; sync {milliseconds(part.sync_ms)}, async {milliseconds(part.async_ms)} in all"
    if part.processed_bytes:
        text += f"; {size(part.processed_bytes)} processed during alignment"
    return text + (f"; {size(part.persisted_bytes)} persisted" if part.persisted_bytes else "")


def _of_each_checkpoint(cursor: str | None = None, **channels: Any) -> Any:
    """Return a rectangle for each checkpoint, from its trigger to its field ``until``."""
    mark: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
    return alt.Chart().mark_rect(**mark).encode(x=seconds(_TRIGGER), x2="until:Q", **channels)


def _phases_note(types: Sequence[str]) -> str:
    return _PHASES_NOTE + (_UNALIGNED_NOTE if CheckpointType.UNALIGNED_CHECKPOINT in types else "")


def _duration(window: WindowFigures) -> str:
    return milliseconds(window.end_to_end_ms)


def outcome(checkpoint: CheckpointResult) -> str:
    """Return the outcome of a checkpoint in a few words."""
    if checkpoint.completed:
        return f"complete after {milliseconds(checkpoint.duration_ms)}"
    if checkpoint.failed:
        return f"failed: {checkpoint.failure or 'for no known reason'}"
    return "was still in progress at the end"


def _head(run: str, checkpoint: CheckpointResult, until: float) -> ChartRow:
    """Return the fields that all rows of a checkpoint have."""
    return {"run": run, "id": checkpoint.id, "t": checkpoint.t, "until": until}


def _with_ends(
    result: Result, checkpoints: Sequence[CheckpointResult]
) -> Iterator[tuple[CheckpointResult, float]]:
    """Yield each checkpoint and the right edge of its bar, which ends before the next one or with the run."""
    gaps = [after.t - before.t for before, after in pairwise(checkpoints)] or [1.0]
    usual = median(gaps)
    for checkpoint, gap in zip(checkpoints, [*gaps, usual], strict=False):
        until = checkpoint.t + _BAR_SHARE * min(gap, usual)
        yield checkpoint, round(min(until, max(result.emulated_seconds, checkpoint.t)), 3)


def _stacked(phases: Mapping[str, float]) -> Iterator[ChartRow]:
    """Yield a bar for each phase, each on top of the one before; `phases` are in milliseconds."""
    below = 0.0
    for name, ms in phases.items():
        from_s, to_s = round(below / 1000, 5), round((below + ms) / 1000, 5)
        yield {"part": name, "takes": milliseconds(ms), "from_s": from_s, "to_s": to_s}
        below += ms
