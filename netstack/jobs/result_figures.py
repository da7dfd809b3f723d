"""Computes the figures of a result from recordings: medians, slopes and series, with rounding.

The definitions are the same as in the measurements of a real Flink, so the numbers can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from ..results.recorder import FiredFault, FloatArray, Recorder
from ..results.result import (
    CheckpointResult,
    CheckpointStatus,
    FaultResult,
    RestartResult,
    Series,
    StartResult,
    Steady,
    VertexCheckpoint,
    VertexSteady,
)
from ..scenarios.scenario import Scenario
from .restarts import Restart, Start

__all__ = ["barrier_figures", "checkpoint_result"]

Optional = list[float | None]

MS_DECIMALS = 2
RATE_DECIMALS = 1
USAGE_DECIMALS = 4
TIME_DECIMALS = 3


class _Metric(NamedTuple):
    """A metric of a subtask: a field of `SubtaskSample`, and the fields of results with its values."""

    sample: str
    steady: str | None = None
    """Field of `VertexSteady`: the rate of a counter, or the median of a gauge."""
    series: str | None = None
    """Field of `Series`."""
    factor: float = 1
    decimals: int = MS_DECIMALS
    is_counter: bool = False
    is_whole: bool = False
    """Whether a series has integers."""


def _counter(sample: str, steady: str, series: str | None = None) -> _Metric:
    return _Metric(sample, steady, series, is_counter=True, is_whole=True)


def _time(name: str) -> _Metric:
    return _Metric(f"{name}_s", f"{name}_ms_per_s", f"{name}_ms", 1000, is_counter=True)


def _queue(sample: str, name: str) -> _Metric:
    return _Metric(sample, name, name, decimals=1, is_whole=True)


def _usage(sample: str, name: str) -> _Metric:
    return _Metric(sample, name, name, decimals=USAGE_DECIMALS)


_METRICS = (
    _counter("records_in", "records_in_per_s", "numRecordsIn"),
    _counter("bytes_in", "bytes_in_per_s"),
    _counter("buffers_in", "buffers_in_per_s"),
    _counter("records_out", "records_out_per_s", "numRecordsOut"),
    _counter("bytes_out", "bytes_out_per_s"),
    _counter("buffers_out", "buffers_out_per_s"),
    _time("busy"),
    _time("backpressured"),
    _time("idle"),
    _Metric("debloated_buffer_size", "debloatedBufferSize", "debloatedBufferSize", decimals=1),
    _Metric(
        "estimated_time_to_consume_ms", "estimatedTimeToConsumeBuffersMs", "estimatedTimeToConsumeBuffersMs"
    ),
    _queue("input_queue_length", "inputQueueLength"),
    _queue("output_queue_length", "outputQueueLength"),
    _queue("input_queue_size", "inputQueueSize"),
    _queue("output_queue_size", "outputQueueSize"),
    _usage("in_pool_usage", "inPoolUsage"),
    _usage("out_pool_usage", "outPoolUsage"),
    _usage("exclusive_buffers_usage", "inputExclusiveBuffersUsage"),
    _usage("floating_buffers_usage", "inputFloatingBuffersUsage"),
    _Metric("watermark_lag_ms", "watermark_lag_ms", "watermark_lag_ms"),
    _Metric("pending_records", None, "pendingRecords", decimals=0),
)
"""All metrics of subtasks."""


def _optional(struct: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields of a struct that are absent if they have no value."""
    return frozenset(field.name for field in msgspec.structs.fields(struct) if field.default is UNSET)


_ABSENT_IN_STEADY, _ABSENT_IN_SERIES = _optional(VertexSteady), _optional(Series)


def result_order(scenario: Scenario) -> list[int]:
    """Return the indices of the vertices in the order of a result: sources first, then as in the scenario."""
    numbers = range(len(scenario.vertices))
    return sorted(numbers, key=lambda number: scenario.vertices[number].source is None)


def checkpoint_results(scenario: Scenario, recorder: Recorder) -> list[CheckpointResult]:
    """Return all recorded checkpoints, with each subtask's part."""
    return [checkpoint_result(scenario, recorder, row) for row in range(len(recorder.checkpoints))]


def checkpoint_result(
    scenario: Scenario, recorder: Recorder, row: int, decimals: int = MS_DECIMALS
) -> CheckpointResult:
    """Return a recorded checkpoint by its row; `decimals` are those of times in ms."""
    head = recorder.checkpoints[row]
    vertices = [
        _vertex_checkpoint(scenario.vertices[number].name, recorder.parts_of(number), row, decimals)
        for number in result_order(scenario)
    ]
    processed = [count or 0 for vertex in vertices for count in vertex.alignment_processed_bytes]
    persisted = [count or 0 for vertex in vertices for count in vertex.alignment_persisted_bytes]
    stored = head.checkpointed_bytes
    return CheckpointResult(
        id=head.checkpoint_id,
        t=rounded(head.triggered_at, TIME_DECIMALS),
        status=head.status,
        checkpoint_type=head.checkpoint_type,
        savepoint=UNSET if head.savepoint is None else head.savepoint,
        failure=head.failure,
        duration_ms=None if head.duration_s is None else rounded(head.duration_s * 1e3, decimals),
        state_bytes=head.state_bytes,
        checkpointed_bytes=UNSET if stored is None or stored == head.state_bytes else stored,
        processed_bytes=sum(processed),
        persisted_bytes=sum(persisted),
        vertices=vertices,
    )


def steady_results(scenario: Scenario, recorder: Recorder) -> list[Steady]:
    """Return one summary for each of the scenario's windows."""
    return [steady_result(scenario, recorder, start, end) for start, end in scenario.windows]


def series_results(scenario: Scenario, recorder: Recorder) -> list[Series]:
    """Return the samples of each vertex over time."""
    return [
        _series(scenario.vertices[number].name, recorder.times, recorder.samples_of(number))
        for number in result_order(scenario)
    ]


def restart_results(restarts: Sequence[Restart]) -> list[RestartResult]:
    """Return the failures of a job and the restarts after them."""
    return [
        RestartResult(
            failed_at=rounded(restart.failed_at, TIME_DECIMALS),
            cause=restart.cause,
            restarted_at=_moment(restart.restarted_at),
            running_at=_moment(restart.running_at),
            tasks=restart.tasks or UNSET,
            checkpoint_id=restart.checkpoint_id,
            restored_bytes=restart.restored_bytes,
            persisted_bytes=restart.persisted_bytes,
            unusable_checkpoint_id=(
                UNSET if restart.unusable_checkpoint_id is None else restart.unusable_checkpoint_id
            ),
        )
        for restart in restarts
    ]


def start_result(start: Start) -> StartResult:
    """Return the figures of the checkpoint that a run started from."""
    metadata = start.initial.metadata
    return StartResult(
        checkpoint_id=metadata.checkpoint_id,
        path=start.initial.path,
        restored_bytes=metadata.size,
        persisted_bytes=metadata.persisted_bytes,
        running_at=_moment(start.running_at),
    )


def fault_results(faults: Sequence[FiredFault]) -> list[FaultResult]:
    """Return the faults that have fired, in their order."""
    return [
        FaultResult(t=rounded(fault.time, TIME_DECIMALS), kind=fault.kind, what=fault.what)
        for fault in faults
    ]


def _moment(seconds: float | None) -> float | None:
    return None if seconds is None else rounded(seconds, TIME_DECIMALS)


def rounded(value: float, decimals: int) -> float:
    """Return a number rounded to `decimals`, never minus zero."""
    return round(float(value), decimals) + 0.0


def median_of(values: FloatArray, decimals: int) -> float | None:
    """Return the rounded median of the values that are not NaN, or None."""
    known = values[~np.isnan(values)]
    return rounded(np.median(known), decimals) if known.size else None


def _milliseconds(parts: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the times of parts in ms, by field of `VertexCheckpoint`: `sync_s` becomes `sync_ms`."""
    return {f"{field[:-2]}_ms": values * 1e3 for field, values in parts.items() if field.endswith("_s")}


def _vertex_checkpoint(name: str, parts: dict[str, FloatArray], row: int, decimals: int) -> VertexCheckpoint:
    part = {field: values[row] for field, values in parts.items()}
    fields: dict[str, Any] = {field: _each(values, decimals) for field, values in _milliseconds(part).items()}
    for field, values in part.items():
        if not field.endswith("_s"):
            kind = bool if field == "unaligned" else int
            fields[field] = [None if np.isnan(value) else kind(value) for value in values]
    return VertexCheckpoint(name=name, **fields)


def steady_result(scenario: Scenario, recorder: Recorder, start: float, end: float) -> Steady:
    """Return the summary of the time from `start` to `end`, or to the current time if that is earlier. All
    times are in seconds of the run.
    """
    heads = recorder.checkpoints
    chosen = [
        row
        for row, head in enumerate(heads)
        if head.status is CheckpointStatus.COMPLETED
        and head.savepoint is None
        and start <= head.triggered_at <= end
    ]
    durations = np.array([heads[row].duration_s for row in chosen], dtype=np.float64) * 1e3
    parts = [
        {name: table[chosen] for name, table in recorder.parts_of(number).items()}
        for number in range(len(scenario.vertices))
    ]
    inside = np.flatnonzero((recorder.times >= start) & (recorder.times <= end))
    return Steady(
        from_s=start,
        to_s=end,
        checkpoints=len(chosen),
        end_to_end_ms=median_of(durations, MS_DECIMALS),
        end_to_end_ms_min=rounded(durations.min(), MS_DECIMALS) if chosen else None,
        end_to_end_ms_max=rounded(durations.max(), MS_DECIMALS) if chosen else None,
        processed_bytes=_sum_median(parts, "alignment_processed_bytes"),
        persisted_bytes=_sum_median(parts, "alignment_persisted_bytes"),
        vertices=[
            _vertex_steady(scenario, number, parts[number], recorder, inside)
            for number in result_order(scenario)
        ],
    )


def _vertex_steady(
    scenario: Scenario,
    number: int,
    parts: dict[str, FloatArray],
    recorder: Recorder,
    inside: NDArray[np.intp],
) -> VertexSteady:
    vertex = scenario.vertices[number]
    samples = recorder.samples_of(number)
    unaligned = parts["unaligned"][~np.isnan(parts["unaligned"])]
    fields: dict[str, Any] = {}
    for metric in _METRICS:
        if metric.steady is not None:
            values = samples[metric.sample] * metric.factor
            if metric.is_counter:
                fields[metric.steady] = _slopes(values, recorder.times, inside)
            else:
                medians = [median_of(row[inside], metric.decimals) for row in values]
                is_absent = metric.steady in _ABSENT_IN_STEADY and all(each is None for each in medians)
                fields[metric.steady] = UNSET if is_absent else medians
    return VertexSteady(
        name=vertex.name,
        parallelism=vertex.parallelism,
        unaligned_share=rounded(unaligned.mean(), USAGE_DECIMALS) if unaligned.size else None,
        **barrier_figures(_milliseconds(parts)),
        **fields,
    )


def barrier_figures(times_ms: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return the fields of `VertexSteady` for times of a vertex, by field of `VertexCheckpoint`.

    In each table, rows are checkpoints and columns are subtasks. NaN marks a subtask that took no part in the
    checkpoint.
    """
    figures: dict[str, Any] = {}
    for name, table in times_ms.items():
        for field, over_subtasks in (
            (name, None),
            (f"{name}_max_subtask", np.max),
            (f"{name}_mean_subtask", np.mean),
        ):
            if field in VertexSteady.__struct_fields__:
                figures[field] = (
                    median_of(table, MS_DECIMALS)
                    if over_subtasks is None
                    else _median_over_checkpoints(table, over_subtasks)
                )
    return figures


def _sum_median(parts: list[dict[str, FloatArray]], field: str) -> float | None:
    """Return the median over checkpoints of the sum over all subtasks of all vertices."""
    return median_of(sum(np.nansum(tables[field], axis=1) for tables in parts), 1)


def _median_over_checkpoints(
    figures: FloatArray, over_subtasks: Callable[[FloatArray], float]
) -> float | None:
    """Return the median over checkpoints of one figure, computed for each checkpoint from the subtasks that
    took part.
    """
    known = [row[~np.isnan(row)] for row in figures]
    return median_of(np.array([over_subtasks(row) for row in known if row.size]), MS_DECIMALS)


def _slopes(counters: FloatArray, times: FloatArray, inside: NDArray[np.intp]) -> Optional:
    """Return the increase per second of each subtask's counter between the window's first and last sample."""
    if len(inside) < 2:
        return [None] * len(counters)
    first, last = inside[0], inside[-1]
    return _each((counters[:, last] - counters[:, first]) / (times[last] - times[first]), RATE_DECIMALS)


def _each(values: FloatArray, decimals: int) -> Optional:
    return [None if np.isnan(value) else rounded(value, decimals) for value in values]


def _series(name: str, times: FloatArray, samples: dict[str, FloatArray]) -> Series:
    fields: dict[str, Any] = {}
    for metric in _METRICS:
        if metric.series is not None:
            rows = samples[metric.sample] * metric.factor
            if metric.is_whole:
                unknown = bool(np.isnan(rows).any())
                fields[metric.series] = [] if unknown else [[int(value) for value in row] for row in rows]
            elif metric.series in _ABSENT_IN_SERIES and np.isnan(rows).all():
                fields[metric.series] = UNSET
            else:
                fields[metric.series] = [_each(row, metric.decimals) for row in rows]
    return Series(vertex=name, t=[rounded(time, TIME_DECIMALS) for time in times], **fields)
