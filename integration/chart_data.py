"""What the charts draw: the rows of each picture, out of results and thinned to what a picture can show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from statistics import median
from typing import Any

from msgspec import UNSET

from netstack import CheckpointResult, Result, Series

from .findings import bytes_per_s, edge_ends, is_debloated, queued_bytes, segment_bytes

Row = dict[str, Any]
"""One mark of a picture."""

Results = Mapping[str, Result]
"""Results by the name of the run."""

MAX_SUBTASKS = 8
"""Subtasks of a vertex that are drawn; the first ones of more."""

MAX_SAMPLES = 240
"""Points of a line; of more samples, every second, third, and so on."""

MAX_CHECKPOINTS = 120
"""Checkpoints of a run that are drawn; the last ones of more."""

MAX_VERTICES = 3
"""Vertices that are drawn; the last ones of more, where what is wrong with a job shows."""

FIXED = "all, fixed"
"""Stands in a legend for the subtasks of a run without debloating."""

START_DELAY, ALIGNMENT = "start delay", "alignment"
SENDERS, RECEIVERS = "at the senders", "at the receivers"

_KIB = 1024
_BAR_SHARE = 0.8


def subtask_name(index: int) -> str:
    """Return what a legend calls a subtask."""
    return f"subtask {index}"


def buffer_sizes(results: Results) -> list[Row]:
    """Rows ``run, vertex, t, subtask, kib``: the size of new buffers into each subtask, in KiB."""
    return [
        {"run": run, "vertex": series.vertex, "t": t, "subtask": subtask, "kib": round(size / _KIB, 2)}
        for run, result in results.items()
        for series in _consumers(result)
        for subtask, sizes in _sizes(result, series)
        for t, size in _thinned(series.t, sizes)
        if size is not None
    ]


def in_flight(results: Results) -> list[Row]:
    """Rows ``run, t, place, s, mib``: what waits at each end, as bytes and as time to consume."""
    return [
        {"run": run, "t": t, "place": place, "s": round(queued / rate, 3), "mib": round(queued / _KIB**2, 3)}
        for run, result in results.items()
        for place, field in ((SENDERS, "outputQueueSize"), (RECEIVERS, "inputQueueSize"))
        for t, (queued, rate) in _thinned(
            _times(result), list(zip(queued_bytes(result, field), bytes_per_s(result), strict=False))
        )
        if rate is not None
    ]


def checkpoint_parts(results: Results) -> list[Row]:
    """Rows ``run, subtask, id, t, until, part, s, from_s, to_s``: how each checkpoint's time was spent.

    A bar goes from `t` to `until` across and from `from_s` to `to_s` in height. The subtasks are those of the
    vertex that barriers reach last.
    """
    return [
        {"run": run, "subtask": f"{vertex} {subtask}", "id": checkpoint.id, "t": checkpoint.t} | part
        for run, result in results.items()
        for vertex in (slowest_vertex(result),)
        for checkpoint, until in _with_ends(_completed(result))
        for subtask, delay, alignment in _parts(checkpoint, vertex)
        for part in _stacked(until, delay, alignment)
    ]


def queue_lengths(results: Results) -> list[Row]:
    """Rows ``run, place, t, subtask, buffers``: buffers and events queued in each subtask."""
    return [
        {"run": run, "place": place, "t": t, "subtask": subtask_name(subtask), "buffers": length}
        for run, result in results.items()
        for place, series, lengths in _queues(result)
        for subtask, queue in enumerate(lengths[:MAX_SUBTASKS])
        for t, length in _thinned(series.t, queue)
    ]


def slowest_vertex(result: Result) -> str:
    """Return the name of the vertex whose barriers come last, or of the last vertex if none came."""
    vertices = result.steady[-1].vertices
    waits = [
        (vertex.start_delay_ms_max_subtask or 0) + (vertex.alignment_ms_max_subtask or 0)
        for vertex in vertices
    ]
    return vertices[-1].name if not any(waits) else vertices[waits.index(max(waits))].name


def any_debloated(results: Results) -> bool:
    """Whether buffers change their size in any run."""
    return any(is_debloated(series) for result in results.values() for series in result.series)


def window_edges(results: Results) -> list[float]:
    """Return the seconds at which measuring begins, or begins and ends where that is done several times."""
    windows = [steady for result in results.values() for steady in result.steady]
    edges = {steady.from_s for steady in windows}
    if any(len(result.steady) > 1 for result in results.values()):
        edges |= {steady.to_s for steady in windows}
    ends = {result.emulated_seconds for result in results.values()}
    return sorted(edges - ends - {0.0})


def _times(result: Result) -> list[float]:
    return result.series[0].t if result.series else []


def _consumers(result: Result) -> list[Series]:
    readers, _ = edge_ends(result)
    return [series for series in result.series if series.vertex in readers][-MAX_VERTICES:]


def _sizes(result: Result, series: Series) -> Iterator[tuple[str, Sequence[float | None]]]:
    sizes = series.debloatedBufferSize
    if sizes is UNSET:
        yield FIXED, [segment_bytes(result)] * len(series.t)
        return
    for subtask, values in enumerate(sizes[:MAX_SUBTASKS]):
        yield subtask_name(subtask), values


def _queues(result: Result) -> Iterator[tuple[str, Series, list[list[int]]]]:
    readers, writers = edge_ends(result)
    for series in result.series[-MAX_VERTICES:]:
        if series.vertex in readers:
            yield f"{series.vertex}, receiving", series, series.inputQueueLength
        if series.vertex in writers:
            yield f"{series.vertex}, sending", series, series.outputQueueLength


def _completed(result: Result) -> list[CheckpointResult]:
    return [checkpoint for checkpoint in result.checkpoints if checkpoint.status == "COMPLETED"][
        -MAX_CHECKPOINTS:
    ]


def _with_ends(checkpoints: Sequence[CheckpointResult]) -> Iterator[tuple[CheckpointResult, float]]:
    """Each checkpoint with the right edge of its bar, before the next one's left edge."""
    gaps = [after.t - before.t for before, after in pairwise(checkpoints)] or [1.0]
    usual = median(gaps)
    for checkpoint, gap in zip(checkpoints, [*gaps, usual], strict=False):
        yield checkpoint, round(checkpoint.t + _BAR_SHARE * min(gap, usual), 3)


def _parts(checkpoint: CheckpointResult, vertex: str) -> Iterator[tuple[int, float, float]]:
    """The start delay and the alignment of each subtask, in milliseconds."""
    for part in checkpoint.vertices:
        if part.name == vertex:
            both = zip(part.start_delay_ms, part.alignment_ms, strict=True)
            for subtask, (delay, alignment) in enumerate(both):
                if delay is not None and subtask < MAX_SUBTASKS:
                    yield subtask, delay, alignment or 0.0


def _stacked(until: float, delay_ms: float, alignment_ms: float) -> Iterator[Row]:
    delay, alignment = round(delay_ms / 1000, 3), round(alignment_ms / 1000, 3)
    total = round(delay + alignment, 3)
    yield {"until": until, "part": START_DELAY, "s": delay, "from_s": 0.0, "to_s": delay}
    yield {"until": until, "part": ALIGNMENT, "s": alignment, "from_s": delay, "to_s": total}


def _thinned(times: Sequence[float], values: Sequence[Any]) -> Iterator[tuple[float, Any]]:
    step = max(1, ceil(len(times) / MAX_SAMPLES))
    return zip(times[::step], values[::step], strict=False)
