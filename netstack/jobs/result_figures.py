"""Computes the figures of a result from recordings: medians, slopes and series, with rounding.

The definitions are the same as in the measurements of a real Flink, so the numbers can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType
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

__all__ = ["barrier_figures"]

Optional = list[float | None]

MS_DECIMALS = 2
RATE_DECIMALS = 1
USAGE_DECIMALS = 4
TIME_DECIMALS = 3

_RATES = {
    "records_in_per_s": ("records_in", 1),
    "bytes_in_per_s": ("bytes_in", 1),
    "buffers_in_per_s": ("buffers_in", 1),
    "records_out_per_s": ("records_out", 1),
    "bytes_out_per_s": ("bytes_out", 1),
    "buffers_out_per_s": ("buffers_out", 1),
    "busy_ms_per_s": ("busy_s", 1000),
    "backpressured_ms_per_s": ("backpressured_s", 1000),
    "idle_ms_per_s": ("idle_s", 1000),
}
"""Counter, and factor to multiply it by, for each field of a result."""

_GAUGES = {
    "debloatedBufferSize": ("debloated_buffer_size", 1),
    "estimatedTimeToConsumeBuffersMs": ("estimated_time_to_consume_ms", MS_DECIMALS),
    "inputQueueLength": ("input_queue_length", 1),
    "outputQueueLength": ("output_queue_length", 1),
    "inputQueueSize": ("input_queue_size", 1),
    "outputQueueSize": ("output_queue_size", 1),
    "inPoolUsage": ("in_pool_usage", USAGE_DECIMALS),
    "outPoolUsage": ("out_pool_usage", USAGE_DECIMALS),
    "inputExclusiveBuffersUsage": ("exclusive_buffers_usage", USAGE_DECIMALS),
    "inputFloatingBuffersUsage": ("floating_buffers_usage", USAGE_DECIMALS),
}
"""Gauge, and number of decimals, for each field of a result."""


def result_order(scenario: Scenario) -> list[int]:
    """Return the indices of the vertices in the order of a result: sources first, then as in the scenario."""
    numbers = range(len(scenario.vertices))
    return sorted(numbers, key=lambda number: scenario.vertices[number].source is None)


def checkpoint_results(scenario: Scenario, recorder: Recorder) -> list[CheckpointResult]:
    """Return all recorded checkpoints, with each subtask's part."""
    order = result_order(scenario)
    parts = {number: recorder.parts_of(number) for number in order}
    results = []
    for row, head in enumerate(recorder.checkpoints):
        vertices = [
            _vertex_checkpoint(scenario.vertices[number].name, parts[number], row) for number in order
        ]
        processed = [count or 0 for vertex in vertices for count in vertex.alignment_processed_bytes]
        persisted = [count or 0 for vertex in vertices for count in vertex.alignment_persisted_bytes]
        stored = head.checkpointed_bytes
        results.append(
            CheckpointResult(
                id=head.checkpoint_id,
                t=rounded(head.triggered_at, TIME_DECIMALS),
                status=head.status,
                checkpoint_type=head.checkpoint_type,
                savepoint=UNSET if head.savepoint is None else head.savepoint,
                failure=head.failure,
                duration_ms=None if head.duration_s is None else rounded(head.duration_s * 1e3, MS_DECIMALS),
                state_bytes=head.state_bytes,
                checkpointed_bytes=UNSET if stored is None or stored == head.state_bytes else stored,
                processed_bytes=sum(processed),
                persisted_bytes=sum(persisted),
                vertices=vertices,
            )
        )
    return results


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


def _vertex_checkpoint(name: str, parts: dict[str, FloatArray], row: int) -> VertexCheckpoint:
    def milliseconds(field: str) -> Optional:
        return _each(parts[field][row] * 1e3, MS_DECIMALS)

    def whole(field: str) -> list[int | None]:
        return [None if np.isnan(value) else int(value) for value in parts[field][row]]

    return VertexCheckpoint(
        name=name,
        end_to_end_ms=milliseconds("end_to_end_s"),
        start_delay_ms=milliseconds("start_delay_s"),
        alignment_ms=milliseconds("alignment_s"),
        sync_ms=milliseconds("sync_s"),
        async_ms=milliseconds("async_s"),
        alignment_processed_bytes=whole("alignment_processed_bytes"),
        alignment_persisted_bytes=whole("alignment_persisted_bytes"),
        unaligned=[None if value is None else bool(value) for value in whole("unaligned")],
    )


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
    rates: dict[str, Any] = {
        field: _slopes(samples[counter] * factor, recorder.times, inside)
        for field, (counter, factor) in _RATES.items()
    }
    gauges: dict[str, Any] = {
        field: [median_of(row[inside], decimals) for row in samples[gauge]]
        for field, (gauge, decimals) in _GAUGES.items()
    }
    lags = [median_of(row[inside], MS_DECIMALS) for row in samples["watermark_lag_ms"]]
    return VertexSteady(
        name=vertex.name,
        parallelism=vertex.parallelism,
        **barrier_figures(parts["start_delay_s"] * 1e3, parts["alignment_s"] * 1e3),
        unaligned_share=rounded(unaligned.mean(), USAGE_DECIMALS) if unaligned.size else None,
        watermark_lag_ms=UNSET if all(lag is None for lag in lags) else lags,
        **rates,
        **gauges,
    )


def barrier_figures(start_delays_ms: FloatArray, alignments_ms: FloatArray) -> dict[str, Any]:
    """Return the fields of `VertexSteady` for the start delays and alignments of a vertex.

    In both tables, rows are checkpoints and columns are subtasks. NaN marks a subtask that took no part in
    the checkpoint.
    """
    return {
        "start_delay_ms": median_of(start_delays_ms, MS_DECIMALS),
        "start_delay_ms_max_subtask": _median_over_checkpoints(start_delays_ms, np.max),
        "start_delay_ms_mean_subtask": _median_over_checkpoints(start_delays_ms, np.mean),
        "alignment_ms": median_of(alignments_ms, MS_DECIMALS),
        "alignment_ms_max_subtask": _median_over_checkpoints(alignments_ms, np.max),
    }


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
    def whole(field: str) -> list[list[int]]:
        if np.isnan(samples[field]).any():
            return []
        return [[int(value) for value in row] for row in samples[field]]

    def decimal(field: str, decimals: int, factor: float = 1.0) -> list[list[float]]:
        return [[rounded(value, decimals) for value in row * factor] for row in samples[field]]

    def gauge(field: str, decimals: int) -> list[Optional] | UnsetType:
        if np.isnan(samples[field]).all():
            return UNSET
        return [_each(row, decimals) for row in samples[field]]

    return Series(
        vertex=name,
        t=[rounded(time, TIME_DECIMALS) for time in times],
        numRecordsIn=whole("records_in"),
        numRecordsOut=whole("records_out"),
        debloatedBufferSize=gauge("debloated_buffer_size", 0),
        estimatedTimeToConsumeBuffersMs=gauge("estimated_time_to_consume_ms", MS_DECIMALS),
        inputQueueLength=whole("input_queue_length"),
        outputQueueLength=whole("output_queue_length"),
        inputQueueSize=whole("input_queue_size"),
        outputQueueSize=whole("output_queue_size"),
        inPoolUsage=decimal("in_pool_usage", USAGE_DECIMALS),
        outPoolUsage=decimal("out_pool_usage", USAGE_DECIMALS),
        backpressured_ms=decimal("backpressured_s", MS_DECIMALS, 1e3),
        busy_ms=decimal("busy_s", MS_DECIMALS, 1e3),
        idle_ms=decimal("idle_s", MS_DECIMALS, 1e3),
        inputExclusiveBuffersUsage=gauge("exclusive_buffers_usage", USAGE_DECIMALS),
        inputFloatingBuffersUsage=gauge("floating_buffers_usage", USAGE_DECIMALS),
        watermark_lag_ms=gauge("watermark_lag_ms", MS_DECIMALS),
        pendingRecords=gauge("pending_records", 0),
    )
