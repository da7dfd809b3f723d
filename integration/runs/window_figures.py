"""Main figures of a run for each measured window, such as the start delay and the bytes in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from netstack import FROM_SOURCE, Result, Scenario, Series, Steady, VertexSteady, changed

from ..base.number_text import milliseconds, per_second, size
from ..base.optional_figures import lowest, middle, quotient, total
from .checkpoint_times import window_times

SENT, RECEIVED = "outputQueueSize", "inputQueueSize"
"""Fields of `Series` with the bytes queued at the two ends of exchanges."""

SENT_BUFFERS, RECEIVED_BUFFERS = "outputQueueLength", "inputQueueLength"
"""Fields of `Series` with the number of buffers and events queued at the two ends."""

SLOPE_SAMPLES = 2
"""The throughput at a sample is measured from this many samples before it to as many after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFigures:
    """Figures of one window of a run; None: not measured.

    Times are means over the checkpoints that were triggered in the window and completed. Phases add up to
    `end_to_end_ms` (see `checkpoint_times.py`). Queued bytes and buffer sizes are medians over the
    window's samples.
    """

    from_s: float
    to_s: float
    checkpoints: int
    """Number of completed checkpoints."""
    start_delay_ms: float | None
    """Time from the trigger to the first barrier, at the subtask that acknowledged last."""
    alignment_ms: float | None
    """Time from the first barrier to the last, at the subtask that acknowledged last."""
    end_to_end_ms: float | None
    """Time from the trigger to completion."""
    in_flight_bytes: float | None
    """Bytes queued in all senders and receivers together."""
    sender_bytes: float | None
    receiver_bytes: float | None
    buffer_bytes: float | None
    """Smallest buffer size of all subtasks; the segment size if debloating is off."""
    records_per_s: float | None
    """Records per second that all sinks read together."""
    bytes_per_s: float | None
    """Bytes per second that all sinks read together, including the length headers of records."""
    persisted_bytes: float | None = None
    """Size of the in-flight data that a checkpoint stored."""
    snapshot_ms: float | None = None
    """Time of sync and async after the alignment, at the subtask that acknowledged last."""
    acknowledgement_ms: float | None = None
    """Time from the end of the snapshot to completion, at the subtask that acknowledged last."""
    sender_buffers: float | None = None
    """Buffers and events queued in all senders together."""
    receiver_buffers: float | None = None

    @property
    def after_barriers_ms(self) -> float | None:
        """Snapshot and acknowledgement together."""
        if self.snapshot_ms is None or self.acknowledgement_ms is None:
            return None
        return self.snapshot_ms + self.acknowledgement_ms

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


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of `WindowFigures`: its name, its meaning, and its format."""

    name: str
    meaning: str
    value: Callable[[WindowFigures], float | None]
    text: Callable[[float | None], str]
    optional: bool = False
    """Whether tables omit the quantity if all its values are 0 or unknown."""


QUANTITIES = (
    Quantity("Start delay", "to the first barrier", lambda f: f.start_delay_ms, milliseconds),
    Quantity("Alignment", "from first to last barrier", lambda f: f.alignment_ms, milliseconds),
    Quantity("Snapshot", "sync and async part", lambda f: f.snapshot_ms, milliseconds),
    Quantity("Acknowledgement", "from there to completion", lambda f: f.acknowledgement_ms, milliseconds),
    Quantity("End to end", "trigger to completion, the sum", lambda f: f.end_to_end_ms, milliseconds),
    Quantity("Bytes in flight", "queued at senders and receivers", lambda f: f.in_flight_bytes, size),
    Quantity("Stored", "of these, with a checkpoint", lambda f: f.persisted_bytes, size, optional=True),
    Quantity("Buffer size", "smallest of all consumers", lambda f: f.buffer_bytes, size),
    Quantity("Throughput", "records, all consumers", lambda f: f.records_per_s, per_second),
)
"""The rows of every table of figures."""


def figures_of(result: Result, window: int = -1) -> WindowFigures:
    """Return the figures of a window of a result, by default of the last one.

    Raises:
        IndexError: The result has no such window.
    """
    steady, times = result.steady[window], window_times(result, window)
    last = last_consumers(result, steady)
    readers = consumers(result, steady)
    smallest = lowest(each for vertex in readers for each in vertex.debloatedBufferSize)
    return WindowFigures(
        from_s=steady.from_s,
        to_s=steady.to_s,
        checkpoints=steady.checkpoints,
        start_delay_ms=times.start_delay_ms if times else None,
        alignment_ms=times.alignment_ms if times else None,
        snapshot_ms=times.snapshot_ms if times else None,
        acknowledgement_ms=times.acknowledgement_ms if times else None,
        end_to_end_ms=times.end_to_end_ms if times else None,
        in_flight_bytes=middle(bytes_in_flight(result, steady)),
        sender_bytes=middle(_within(result, steady, queued(result, SENT))),
        receiver_bytes=middle(_within(result, steady, queued(result, RECEIVED))),
        sender_buffers=middle(_within(result, steady, queued(result, SENT_BUFFERS))),
        receiver_buffers=middle(_within(result, steady, queued(result, RECEIVED_BUFFERS))),
        buffer_bytes=result.scenario.config.segment_bytes if smallest is None and readers else smallest,
        records_per_s=total(rate for vertex in last for rate in vertex.records_in_per_s),
        bytes_per_s=total(rate for vertex in last for rate in vertex.bytes_in_per_s),
        persisted_bytes=steady.persisted_bytes,
    )


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
    record_bytes = quotient(figures.bytes_per_s, figures.records_per_s)
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
