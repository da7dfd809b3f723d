"""Main figures of a run for each measured window, such as the start delay and the bytes in flight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import UNSET

from flowcontrol import FailureReason
from netstack import (
    FROM_SOURCE,
    CheckpointStatus,
    Result,
    Scenario,
    Series,
    Steady,
    VertexSteady,
    changed,
)

from ..base.optional_figures import highest, known, lowest, middle, quotient, total
from .checkpoint_times import mean_times, triggered_within

SENT, RECEIVED = "outputQueueSize", "inputQueueSize"
"""Fields of `Series` with the bytes queued at the two ends of exchanges."""

SENT_BUFFERS, RECEIVED_BUFFERS = "outputQueueLength", "inputQueueLength"
"""Fields of `Series` with the number of buffers and events queued at the two ends."""

SLOPE_SAMPLES = 2
"""The throughput at a sample is measured from this many samples before it to as many after it."""


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one run as documents and tables of settings have them; None: not measured.

    Times are in ms, sizes in bytes. Times of checkpoints are means over those that were triggered in the
    window and completed, if not said otherwise. Phases are those of the subtask that acknowledged last.
    """

    throughput_per_s: float | None = None
    """Records per second that all subtasks of the last vertices read."""
    start_delay_ms: float | None = None
    """Start delay of the subtask that acknowledged last; mean (see `checkpoint_times.py`)."""
    start_delay_max_ms: float | None = None
    """Start delay of the slowest subtask of the slowest vertex; median over checkpoints."""
    alignment_ms: float | None = None
    """Time from the first barrier to the last, at the subtask that acknowledged last; mean."""
    state_ms: float | None = None
    """Snapshot time after the alignment, of the subtask that acknowledged last; mean over checkpoints."""
    end_to_end_ms: float | None = None
    """Time from trigger to completion; mean over checkpoints."""
    end_to_end_p95_ms: float | None = None
    """Time from trigger to completion; 95th percentile over checkpoints."""
    end_to_end_max_ms: float | None = None
    """Time from trigger to completion of the slowest checkpoint."""
    worst_phase_ms: float | None = None
    """Mean time from trigger to completion in the phase of the load that has the slowest checkpoints."""
    worst_phase: str | None = None
    """That phase, such as "from 20 s to 40 s"; None: the load has one phase, or no checkpoint completed."""
    pending_ms: float | None = None
    """Age, at the end of the run, of the oldest checkpoint of the window that is still in progress."""
    in_flight_bytes: float | None = None
    """Bytes in all queues, of inputs and outputs; median over samples."""
    record_delay_ms: float | None = None
    """Time from emission by a source to processing by a last vertex, along the slowest path.

    The median over samples; if the load has several phases, the mean, which a short peak changes too.
    """
    record_delay_p95_ms: float | None = None
    persisted_bytes: float | None = None
    """Size of the in-flight data that a checkpoint stored, median; 0 if all checkpoints were aligned."""
    adaptation_ms: float | None = None
    """Time from a step of the load until the drain time has settled; only for points of the probe "step"."""
    debloated_buffer_bytes: float | None = None
    """Size of debloated buffers, median over all subtasks with input; None if debloating is off."""
    debloated_buffer_min_bytes: float | None = None
    """Size of debloated buffers at the subtask with the smallest ones."""
    checkpoints_completed: int = 0
    checkpoints_failed: int = 0
    checkpoints_expired: int = 0
    """Failed checkpoints that took longer than the timeout."""


COUNTS = ("checkpoints_completed", "checkpoints_failed", "checkpoints_expired")
"""Fields of `Measures` that are counts. Over several seeds they are summed."""
FIGURES = tuple(name for name in Measures.__struct_fields__ if name not in (*COUNTS, "worst_phase"))
"""Fields of `Measures` whose values are averaged over seeds."""


class WindowFigures(Measures, frozen=True, kw_only=True):
    """Figures of one window of a run, not rounded; None: not measured.

    Phases add up to `end_to_end_ms` (see `checkpoint_times.py`). Queued bytes and buffer sizes are medians
    over the window's samples. `measure` adds the delays of records.
    """

    from_s: float
    to_s: float
    acknowledgement_ms: float | None = None
    """Time from the end of the snapshot to completion, at the subtask that acknowledged last."""
    sender_bytes: float | None = None
    """Bytes queued in all senders together."""
    receiver_bytes: float | None = None
    sender_buffers: float | None = None
    """Buffers and events queued in all senders together."""
    receiver_buffers: float | None = None
    buffer_bytes: float | None = None
    """Smallest buffer size of all subtasks; the segment size if debloating is off."""
    bytes_per_s: float | None = None
    """Bytes per second that all sinks read together, including the length headers of records."""
    vertices: list[VertexSteady] = []
    """The vertices of the window."""

    @property
    def after_barriers_ms(self) -> float | None:
        """Snapshot and acknowledgement together."""
        if self.state_ms is None or self.acknowledgement_ms is None:
            return None
        return self.state_ms + self.acknowledgement_ms

    @property
    def sender_share(self) -> float | None:
        """Share of the queued bytes that wait at the senders, 0 to 1."""
        if self.sender_bytes is None or self.receiver_bytes is None:
            return None
        return quotient(self.sender_bytes, self.sender_bytes + self.receiver_bytes)

    @property
    def in_flight_s(self) -> float | None:
        """Seconds to consume the queued data at the throughput of the job."""
        return quotient(self.in_flight_bytes, self.bytes_per_s)


def figures_of(result: Result, window: int = -1) -> WindowFigures:
    """Return the figures of a window of a result, by default of the last one.

    Raises:
        IndexError: The result has no such window.
    """
    steady = result.steady[window]
    triggered = triggered_within(result.checkpoints, steady)
    completed = [checkpoint for checkpoint in triggered if checkpoint.completed]
    failed = [checkpoint for checkpoint in triggered if checkpoint.failed]
    pending = [checkpoint.t for checkpoint in triggered if checkpoint.status == CheckpointStatus.IN_PROGRESS]
    durations, times = known(checkpoint.duration_ms for checkpoint in completed), mean_times(completed)
    last, readers = last_consumers(result, steady), consumers(result, steady)
    sizes = known(size for vertex in steady.vertices for size in vertex.debloatedBufferSize)
    smallest = lowest(size for vertex in readers for size in vertex.debloatedBufferSize)
    return WindowFigures(
        from_s=steady.from_s,
        to_s=steady.to_s,
        vertices=steady.vertices,
        throughput_per_s=total(rate for vertex in last for rate in vertex.records_in_per_s),
        bytes_per_s=total(rate for vertex in last for rate in vertex.bytes_in_per_s),
        start_delay_ms=times.start_delay_ms if times else None,
        start_delay_max_ms=highest(vertex.start_delay_ms_max_subtask for vertex in readers),
        alignment_ms=times.alignment_ms if times else None,
        state_ms=times.snapshot_ms if times else None,
        acknowledgement_ms=times.acknowledgement_ms if times else None,
        end_to_end_ms=times.end_to_end_ms if times else None,
        end_to_end_p95_ms=percentile(durations, 95),
        end_to_end_max_ms=highest(durations),
        pending_ms=(result.emulated_seconds - min(pending)) * 1e3 if pending else None,
        in_flight_bytes=middle(bytes_in_flight(result, steady)),
        sender_bytes=middle(_within(result, steady, queued(result, SENT))),
        receiver_bytes=middle(_within(result, steady, queued(result, RECEIVED))),
        sender_buffers=middle(_within(result, steady, queued(result, SENT_BUFFERS))),
        receiver_buffers=middle(_within(result, steady, queued(result, RECEIVED_BUFFERS))),
        persisted_bytes=steady.persisted_bytes,
        buffer_bytes=result.scenario.config.segment_bytes if smallest is None and readers else smallest,
        debloated_buffer_bytes=middle(sizes),
        debloated_buffer_min_bytes=lowest(sizes),
        checkpoints_completed=len(completed),
        checkpoints_failed=len(failed),
        checkpoints_expired=sum(checkpoint.failure == FailureReason.EXPIRED for checkpoint in failed),
    )


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return a percentile of values; None if there are none."""
    return float(np.percentile(values, percent)) if len(values) else None


def figures_of_runs(results: Mapping[str, Result]) -> dict[str, WindowFigures]:
    """Return the figures of each window of each run. A key names the run, the window, or both if needed."""
    return {
        _label(run, steady, len(results), len(result.steady)): figures_of(result, window)
        for run, result in results.items()
        for window, steady in enumerate(result.steady)
    }


def edge_ends(result: Result) -> tuple[set[str], set[str]]:
    """Return two sets of vertex names: those that read from others, and those that others read from."""
    edges = result.scenario.edges
    return {edge.target for edge in edges}, {edge.source for edge in edges}


def consumers(result: Result, steady: Steady) -> list[VertexSteady]:
    """Return the vertices that read from others."""
    readers, _ = edge_ends(result)
    return [vertex for vertex in steady.vertices if vertex.name in readers]


def last_consumers(result: Result, steady: Steady) -> list[VertexSteady]:
    """Return the sinks: the vertices that read from others and have no readers."""
    _, writers = edge_ends(result)
    return [vertex for vertex in consumers(result, steady) if vertex.name not in writers]


def is_debloated(series: Series) -> bool:
    """Whether debloating sets the size of the buffers that this vertex reads."""
    sizes = series.debloatedBufferSize
    return sizes is not UNSET and any(each is not None for subtask in sizes for each in subtask)


def queued(result: Result, field: str) -> list[int]:
    """Return the data queued in all senders or all receivers, for each sample; empty if a queue is unknown.

    `field` is `SENT` or `RECEIVED` for bytes, and `SENT_BUFFERS` or `RECEIVED_BUFFERS` for the number of
    buffers and events.
    """
    readers, writers = edge_ends(result)
    ends = readers if field in (RECEIVED, RECEIVED_BUFFERS) else writers
    queues = [getattr(series, field) for series in result.series if series.vertex in ends]
    if not all(queues):
        return []
    return [sum(sample) for sample in zip(*(subtask for queue in queues for subtask in queue), strict=True)]


def bytes_in_flight(result: Result, steady: Steady) -> list[int]:
    """Return the bytes queued in senders and receivers, for each sample of a window; empty if unknown."""
    both = zip(queued(result, SENT), queued(result, RECEIVED), strict=False)
    return _within(result, steady, [sent + received for sent, received in both])


def bytes_per_s(result: Result) -> list[float | None]:
    """Return the bytes per second that all sinks read, at each sample; None: the sinks read nothing."""
    figures = figures_of(result)
    record_bytes = quotient(figures.bytes_per_s, figures.throughput_per_s)
    if record_bytes is None:
        return []
    return [rate * record_bytes or None for rate in read_per_s(result)]


def read_per_s(result: Result) -> list[float]:
    """Return the records per second that all sinks read, at each sample; empty if a sink is unknown."""
    readers, writers = edge_ends(result)
    return _records_per_s(
        [each.numRecordsIn for each in result.series if each.vertex in readers - writers], result
    )


def emitted_per_s(result: Result) -> list[float]:
    """Return the records per second that all sources emit, at each sample; empty if a source is unknown."""
    sources = {vertex.name for vertex in result.scenario.vertices if vertex.source is not None}
    return _records_per_s([each.numRecordsOut for each in result.series if each.vertex in sources], result)


def configured_per_s(result: Result) -> list[tuple[float, float | None]]:
    """Return the records per second that the scenario sets for all sources, each from a time in seconds on.

    The first time is 0. None: a source emits as fast as possible, or its number of subtasks is not known.
    """
    scenario = result.scenario
    steps = [(0.0, _configured(scenario))]
    for change in sorted(scenario.changes, key=lambda change: change.at_s):
        if change.at_s < result.emulated_seconds:
            scenario = changed(scenario, change)
            if change.rates:
                steps.append((change.at_s, _configured(scenario)))
    return steps


def busiest_subtasks(result: Result) -> list[tuple[str, float]]:
    """Return the busiest subtask and the share of time that it is busy, 0 to 1, at each sample.

    A subtask is named as ``map 0``. The list is empty if no vertex reports its busy time.
    """
    shares = [
        [(f"{series.vertex} {index}", ms / 1000) for ms in _slopes(series.t, times)]
        for series in result.series
        for index, times in enumerate(series.busy_ms)
        if len(times) > 1
    ]
    return [max(sample, key=lambda each: each[1]) for sample in zip(*shares, strict=True)]


def _label(run: str, steady: Steady, runs: int, windows: int) -> str:
    if windows == 1:
        return run
    window = f"{steady.from_s:g} to {steady.to_s:g} s"
    return window if runs == 1 else f"{run}, {window}"


def _records_per_s(counts: list[list[list[int]]], result: Result) -> list[float]:
    """Return the slope of the sum of counters by vertex and subtask; empty with fewer than two samples."""
    if not all(counts):
        return []
    records = [sum(sample) for sample in zip(*(subtask for each in counts for subtask in each), strict=True)]
    return list(_slopes(result.series[0].t, records)) if len(records) > 1 else []


def _configured(scenario: Scenario) -> float | None:
    sources = [vertex for vertex in scenario.vertices if vertex.source is not None]
    rates = [vertex.rate(subtask) for vertex in sources for subtask in range(vertex.parallelism)]
    known = all(rates) and all(vertex.parallelism != FROM_SOURCE for vertex in sources)
    return sum(rates) if known and rates else None


def _slopes(times: Sequence[float], counts: Sequence[float]) -> Iterator[float]:
    """Yield the increase per second around each sample, measured over `SLOPE_SAMPLES` on both sides."""
    for index in range(len(counts)):
        low, high = max(0, index - SLOPE_SAMPLES), min(len(counts) - 1, index + SLOPE_SAMPLES)
        yield (counts[high] - counts[low]) / (times[high] - times[low]) if high > low else 0.0


def _within(result: Result, steady: Steady, samples: list[int]) -> list[int]:
    """Return the samples of a window."""
    times = result.series[0].t if result.series else []
    return [sample for t, sample in zip(times, samples, strict=False) if steady.from_s <= t <= steady.to_s]
