"""What the charts draw: the rows of each picture, out of results and thinned to what a picture can show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from msgspec import UNSET

from netstack import RestartResult, Result, Series

from ..analysis.window_figures import bytes_per_s, edge_ends, is_debloated, queued
from .incidents import down_times

Row = dict[str, Any]
"""One mark of a picture."""

Results = Mapping[str, Result]
"""Results by the name of the run."""

MAX_SUBTASKS = 8
"""Subtasks of a vertex that are drawn; the first ones of more."""

MAX_SAMPLES = 240
"""Points of a line; of more samples, every second, third, and so on."""

MAX_EVENTS = 100
"""Faults of a run that are drawn, and failures; the first ones of more."""

MAX_VERTICES = 3
"""Vertices that are drawn; the last ones of more, where what is wrong with a job shows."""

FIXED = "all, fixed"
"""Stands in a legend for the subtasks of a run without debloating."""

SENDERS, RECEIVERS = "at the senders", "at the receivers"

DOWN, FAULT = "down", "fault"
"""Values of the field ``event``: a job that does not run, and something that the scenario lets go wrong."""

_KIB = 1024


def subtask_name(index: int) -> str:
    """Return what a legend calls a subtask."""
    return f"subtask {index}"


def buffer_sizes(results: Results) -> list[Row]:
    """Rows ``run, vertex, t, subtask, kib``: the size of new buffers into each subtask, the last first."""
    return [
        {"run": run, "vertex": series.vertex, "t": t, "subtask": subtask, "kib": round(size / _KIB, 2)}
        for run, result in results.items()
        for series in _consumers(result)
        for subtask, sizes in reversed(list(_sizes(result, series)))
        for t, size in _thinned(series.t, sizes)
        if size is not None
    ]


def in_flight(results: Results) -> list[Row]:
    """Rows ``run, t, place, s, mib``: what waits at each end, as bytes and as time to consume."""
    return [
        {"run": run, "t": t, "place": place, "s": round(size / rate, 3), "mib": round(size / _KIB**2, 3)}
        for run, result in results.items()
        for place, field in ((SENDERS, "outputQueueSize"), (RECEIVERS, "inputQueueSize"))
        for t, (size, rate) in _thinned(
            _times(result), list(zip(queued(result, field), bytes_per_s(result), strict=False))
        )
        if rate is not None
    ]


def queue_lengths(results: Results) -> list[Row]:
    """Rows ``run, place, t, subtask, buffers``: what is queued in each subtask, the last first."""
    return [
        {"run": run, "place": place, "t": t, "subtask": subtask_name(subtask), "buffers": length}
        for run, result in results.items()
        for place, series, lengths in _queues(result)
        for subtask, queue in reversed(list(enumerate(lengths[:MAX_SUBTASKS])))
        for t, length in _thinned(series.t, queue)
    ]


def events(results: Results, field: str | None = None, values: Sequence[str] = ()) -> list[Row]:
    """Rows ``run, event, t, what``, and ``until`` of a job that was down: what happened to the jobs.

    Each is there once for every value of a field that the panels of a picture stand for, if there is one.
    """
    copies: list[Row] = [{field: value} for value in values] if field and values else [{}]
    return [
        {"run": run} | event | copy
        for run, result in results.items()
        for event in [*_down(result), *_faults(result)]
        for copy in copies
    ]


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


def _down(result: Result) -> list[Row]:
    both = zip(result.restarts, down_times(result), strict=True)
    return [
        {"event": DOWN, "t": since, "until": until, "what": f"{_who(restart)}down: {restart.cause}"}
        for restart, (since, until) in both
    ][:MAX_EVENTS]


def _who(restart: RestartResult) -> str:
    """What was down, where that was not all of the job."""
    return "" if restart.tasks is UNSET else f"{', '.join(restart.tasks)} "


def _faults(result: Result) -> list[Row]:
    return [{"event": FAULT, "t": fault.t, "what": fault.what} for fault in result.faults[:MAX_EVENTS]]


def _times(result: Result) -> list[float]:
    return result.series[0].t if result.series else []


def _consumers(result: Result) -> list[Series]:
    readers, _ = edge_ends(result)
    return [series for series in result.series if series.vertex in readers][-MAX_VERTICES:]


def _sizes(result: Result, series: Series) -> Iterator[tuple[str, Sequence[float | None]]]:
    sizes = series.debloatedBufferSize
    if sizes is UNSET:
        yield FIXED, [result.scenario.config.segment_bytes] * len(series.t)
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


def _thinned(times: Sequence[float], values: Sequence[Any]) -> Iterator[tuple[float, Any]]:
    step = max(1, ceil(len(times) / MAX_SAMPLES))
    return zip(times[::step], values[::step], strict=False)
