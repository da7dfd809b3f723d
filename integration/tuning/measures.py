"""What one run costs and brings: the figures by which targets are compared.

A job has one figure of each kind. Where its vertices differ it is that of the worst one, since a checkpoint
waits for the last barrier and a record for the slowest way. All figures are of the last window of `steady`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec
import numpy as np

from netstack import CheckpointResult, Result, Steady, VertexSteady

from ..analysis.checkpoint_times import completed_within, mean_times
from .delays import adaptation_ms, bytes_in_flight, record_delays_ms, sinks

EXPIRED = "CHECKPOINT_EXPIRED"
"""Flink's CheckpointFailureReason of a checkpoint that took longer than its timeout."""


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run; times in ms, sizes in bytes. None: there was nothing to measure it by."""

    throughput_per_s: float | None = None
    """Records per second into the last vertices, over all their subtasks."""
    start_delay_ms: float | None = None
    """At the subtask that acknowledged last; mean over checkpoints (`analysis.checkpoint_times`)."""
    start_delay_max_ms: float | None = None
    """Median over checkpoints of the slowest subtask's; of the vertex where it is longest."""
    alignment_ms: float | None = None
    """Likewise."""
    state_ms: float | None = None
    """Likewise: of the snapshot, what outlasts the alignment."""
    end_to_end_ms: float | None = None
    """Likewise, from trigger to completion: the three above, and the acknowledgement."""
    end_to_end_p95_ms: float | None = None
    """95th percentile of the same."""
    pending_ms: float | None = None
    """Age, at the end of the run, of the oldest checkpoint of the window that has not ended."""
    in_flight_bytes: float | None = None
    """In all queues, of inputs and outputs; median over samples."""
    record_delay_ms: float | None = None
    """From emission by a source to processing by a last vertex, on the slowest way; median over samples."""
    record_delay_p95_ms: float | None = None
    persisted_bytes: float | None = None
    """In-flight data that a checkpoint stored, median; 0 where all were aligned."""
    adaptation_ms: float | None = None
    """From a step of the load until the time to drain the queues has settled; only of a probe with a step."""
    debloated_buffer_bytes: float | None = None
    """Median over all subtasks with input; None where debloating is off."""
    debloated_buffer_min_bytes: float | None = None
    """Of the subtask where it is smallest."""
    checkpoints_completed: int = 0
    checkpoints_failed: int = 0
    checkpoints_expired: int = 0
    """Those of the failed ones that took longer than the timeout."""


def measure(result: Result, *, step_at_s: float | None = None) -> Measures:
    """Return the figures of a run's last window.

    `step_at_s`: when the load stepped, in seconds since opening; None: it did not. The result has to have its
    series, else there is no record delay, no bytes in flight and no adaptation time.
    """
    if not result.steady:
        return Measures()
    window = result.steady[-1]
    triggered = [head for head in result.checkpoints if window.from_s <= head.t <= window.to_s]
    completed = completed_within(result.checkpoints, window)
    failed = [head for head in triggered if head.status == "FAILED"]
    durations = known(head.duration_ms for head in completed)
    times, delays = mean_times(completed), record_delays_ms(result)
    sizes = known(size for vertex in window.vertices for size in vertex.debloatedBufferSize)
    return Measures(
        throughput_per_s=_throughput(result, window),
        start_delay_ms=_rounded(times.start_delay_ms if times else None),
        start_delay_max_ms=_worst(vertex.start_delay_ms_max_subtask for vertex in _consumers(result, window)),
        alignment_ms=_rounded(times.alignment_ms if times else None),
        state_ms=_rounded(times.snapshot_ms if times else None),
        end_to_end_ms=_rounded(times.end_to_end_ms if times else None),
        end_to_end_p95_ms=_percentile(durations, 95),
        pending_ms=_pending_ms(result, triggered),
        in_flight_bytes=_median(bytes_in_flight(result)),
        record_delay_ms=_median(delays),
        record_delay_p95_ms=_percentile(delays, 95),
        persisted_bytes=window.persisted_bytes,
        adaptation_ms=None if step_at_s is None else adaptation_ms(result, step_at_s),
        debloated_buffer_bytes=_median(sizes),
        debloated_buffer_min_bytes=min(sizes, default=None),
        checkpoints_completed=len(completed),
        checkpoints_failed=len(failed),
        checkpoints_expired=sum(head.failure == EXPIRED for head in failed),
    )


def known(values: Iterable[float | None]) -> list[float]:
    """Return the values that are there."""
    return [value for value in values if value is not None]


def _consumers(result: Result, window: Steady) -> list[VertexSteady]:
    targets = {edge["to"] for edge in result.scenario["edges"]}
    return [vertex for vertex in window.vertices if vertex.name in targets]


def _throughput(result: Result, window: Steady) -> float | None:
    last = sinks(result)
    rates = known(
        rate for vertex in window.vertices if vertex.name in last for rate in vertex.records_in_per_s
    )
    return round(sum(rates), 1) if rates else None


def _pending_ms(result: Result, triggered: Sequence[CheckpointResult]) -> float | None:
    ages = [result.emulated_seconds - head.t for head in triggered if head.status == "IN_PROGRESS"]
    return round(max(ages) * 1e3, 2) if ages else None


def _worst(values: Iterable[float | None]) -> float | None:
    return max(known(values), default=None)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _median(values: Sequence[float]) -> float | None:
    return round(float(median(values)), 2) if len(values) else None


def _percentile(values: Sequence[float], percent: float) -> float | None:
    return round(float(np.percentile(values, percent)), 2) if len(values) else None
