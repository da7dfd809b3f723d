"""Windows of a measurement, summed up in the layout of `tests/data/flink-reference`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np

from .sampling import JobVertex

_RATES = {
    "records_in_per_s": "numRecordsIn",
    "bytes_in_per_s": "numBytesIn",
    "records_out_per_s": "numRecordsOut",
    "bytes_out_per_s": "numBytesOut",
    "buffers_out_per_s": "numBuffersOut",
    "busy_ms_per_s": "accumulateBusyTimeMs",
    "backpressured_ms_per_s": "accumulateBackPressuredTimeMs",
    "idle_ms_per_s": "accumulateIdleTimeMs",
}
_GAUGES = (
    "debloatedBufferSize", "estimatedTimeToConsumeBuffersMs", "inputQueueLength", "inputQueueSize",
    "inPoolUsage", "inputExclusiveBuffersUsage", "inputFloatingBuffersUsage", "outPoolUsage",
    "outputQueueLength", "outputQueueSize",
)  # fmt: skip
_LEAST_SAMPLES = 5
"""A slope of fewer is not worth telling."""

Checkpoint = Mapping[str, Any]
Series = Mapping[str, Sequence[Sequence[float | None]]]


def steady(
    window: tuple[float, float],
    vertices: Sequence[JobVertex],
    times: Sequence[float],
    series: Sequence[Series],
    checkpoints: Iterable[Checkpoint],
) -> dict[str, Any]:
    """Return medians over the checkpoints triggered in a window, and rates and gauges of its samples."""
    begin, end = window
    inside = [each for each in checkpoints if begin <= each["t"] < end]
    durations = [each["duration_ms"] for each in inside]
    samples = [place for place, at in enumerate(times) if begin <= at < end]
    return {
        "from_s": begin,
        "to_s": end,
        "checkpoints": len(inside),
        "end_to_end_ms": _middle(durations),
        "end_to_end_ms_min": min(durations, default=None),
        "end_to_end_ms_max": max(durations, default=None),
        "persisted_bytes": _middle(each["persisted_bytes"] for each in inside),
        "processed_bytes": _middle(each["processed_bytes"] for each in inside),
        "vertices": [
            {"name": vertex.name, "parallelism": vertex.parallelism}
            | _barriers([each["vertices"][place] for each in inside])
            | _metrics(series[place], times, samples)
            for place, vertex in enumerate(vertices)
        ],
    }


def _barriers(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The delays of one vertex, over its subtasks and the checkpoints."""
    figures: dict[str, Any] = {}
    for key in ("alignment_ms", "start_delay_ms"):
        of_checkpoints = [part[key] for part in parts if part[key]]
        figures[key] = _middle(value for values in of_checkpoints for value in values)
        figures[f"{key}_max_subtask"] = _middle(max(values) for values in of_checkpoints)
    unaligned = [bool(value) for part in parts for value in part["unaligned"]]
    figures["unaligned_share"] = fmean(unaligned) if unaligned else None
    return figures


def _metrics(series: Series, times: Sequence[float], samples: Sequence[int]) -> dict[str, Any]:
    def inside(subtask: Sequence[float | None]) -> list[tuple[float, float]]:
        within = [place for place in samples if place < len(subtask)]
        return [(times[place], value) for place in within if (value := subtask[place]) is not None]

    figures: dict[str, Any] = {
        field: [_slope(inside(subtask)) for subtask in series.get(metric, ())]
        for field, metric in _RATES.items()
    }
    for gauge in _GAUGES:
        if gauge in series:
            figures[gauge] = [_middle(value for _, value in inside(subtask)) for subtask in series[gauge]]
    return figures


def _slope(points: Sequence[tuple[float, float]]) -> float | None:
    """How fast a counter grows, by least squares."""
    if len(points) < _LEAST_SAMPLES:
        return None
    at, values = np.array(points, dtype=np.float64).T
    return round(float(np.polyfit(at - at[0], values - values[0], 1)[0]), 1)


def _middle(values: Iterable[float]) -> float | None:
    known = list(values)
    return median(known) if known else None
