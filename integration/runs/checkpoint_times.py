"""Phases of a checkpoint, defined once for all commands.

A checkpoint ends with its last acknowledgement. So its phases are those of the subtask that acknowledged
last: they add up to the duration of the checkpoint. The longest phases over all subtasks would not::

    trigger |-- start delay --|-- alignment --|- sync -|-- async --|- acknowledgement -| complete

Each phase is as Flink defines it. A start delay counts from the trigger. So the start delay of a downstream
subtask includes the start delay, alignment and transfer of its barrier upstream. No time counts twice,
because all phases are those of one subtask. Sync and async together are the snapshot.

Figures over several checkpoints are means, because means of phases add up to the mean duration, and medians
do not. Checkpoints of all kinds have equal weight in a mean. `netstack.Steady` has medians, to match the
measurements of a real Flink.

In an unaligned checkpoint, a subtask takes its snapshot at the first barrier (or after the aligned timeout).
It stores the snapshot while further barriers arrive. So sync and async overlap the alignment. In `Phases`,
sync and async count only from the end of the alignment, so that phases do not overlap. `SubtaskPart.sync_ms`
and `async_ms` are the whole times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from msgspec import UNSET

from netstack import (
    CheckpointResult,
    CheckpointType,
    Result,
    Scenario,
    Steady,
    VertexCheckpoint,
)

from ..base.optional_figures import known, value_at

START_DELAY, ALIGNMENT, SYNC, ASYNC = "start delay", "alignment", "sync", "async"
ACKNOWLEDGEMENT = "acknowledgement"
PHASES = (START_DELAY, ALIGNMENT, SYNC, ASYNC, ACKNOWLEDGEMENT)
"""All phases, in order."""

UNREPORTED = "not reported"
"""Name of the part of a duration that lies in no measured phase."""

_SAME_MS = 1.0
"""Durations that differ by at most this many ms count as equal; Flink reports whole milliseconds."""

_ALIGNED_UNLESS_REPORTED = frozenset(CheckpointType) - {CheckpointType.UNALIGNED_CHECKPOINT}

Phases = Mapping[str, float]
"""Milliseconds by phase, in order. An unmeasured phase is absent, and its time counts as `UNREPORTED`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTimes:
    """Duration and phases of a checkpoint, in ms; None: a phase was not measured."""

    end_to_end_ms: float
    """Duration from the trigger to completion."""
    phases: Phases
    """Phases that add up to `end_to_end_ms`; none is negative."""
    vertex: str | None
    """Vertex that acknowledged last; for a mean, the vertex that most often did; None: unknown."""

    @property
    def start_delay_ms(self) -> float | None:
        """Time from the trigger to the first barrier."""
        return self.phases.get(START_DELAY)

    @property
    def alignment_ms(self) -> float | None:
        """Time from the first barrier to the last."""
        return self.phases.get(ALIGNMENT)

    @property
    def snapshot_ms(self) -> float | None:
        """Time of sync and async after the alignment."""
        sync, asynchronous = self.phases.get(SYNC), self.phases.get(ASYNC)
        return None if sync is None or asynchronous is None else sync + asynchronous

    @property
    def acknowledgement_ms(self) -> float | None:
        """Time from the end of the snapshot to completion."""
        return self.phases.get(ACKNOWLEDGEMENT)


class SubtaskPart(NamedTuple):
    """Times (ms) and sizes (bytes) of a subtask in an acknowledged checkpoint; None: not measured."""

    vertex: str
    subtask: int
    phases: Phases
    """Phases that add up to `end_to_end_ms`."""
    end_to_end_ms: float
    """Time from the trigger to the arrival of the acknowledgement."""
    sync_ms: float | None
    async_ms: float | None
    processed_bytes: int | None
    """Bytes read during alignment."""
    persisted_bytes: int | None
    """Size of the stored in-flight data."""
    unaligned: bool | None


def window_times(result: Result, window: int = -1) -> CheckpointTimes | None:
    """Return the mean times of the completed checkpoints triggered in a window; None: there are none.

    Raises:
        IndexError: The result has no such window.
    """
    return mean_times(completed_within(result.checkpoints, result.steady[window]))


def triggered_within(checkpoints: Iterable[CheckpointResult], steady: Steady) -> list[CheckpointResult]:
    """Return the checkpoints, not savepoints, that were triggered in a window, completed or not."""
    within = (checkpoint for checkpoint in checkpoints if steady.from_s <= checkpoint.t <= steady.to_s)
    return [checkpoint for checkpoint in within if checkpoint.savepoint is UNSET]


def completed_within(checkpoints: Iterable[CheckpointResult], steady: Steady) -> list[CheckpointResult]:
    """Return the checkpoints that were triggered in a window and completed."""
    return [each for each in triggered_within(checkpoints, steady) if each.completed]


def mean_times(checkpoints: Iterable[CheckpointResult], vertex: str | None = None) -> CheckpointTimes | None:
    """Return the mean times of the completed checkpoints.

    Return None if no checkpoint completed, or the vertex took part in none. With `vertex`, times end with the
    last acknowledgement of that vertex. A phase has a mean only if it was measured in each checkpoint.
    """
    all_times = known(checkpoint_times(checkpoint, vertex) for checkpoint in checkpoints)
    if not all_times:
        return None
    whole = fmean(times.end_to_end_ms for times in all_times)
    phases = {
        phase: fmean(times.phases[phase] for times in all_times)
        for phase in PHASES
        if all(phase in times.phases for times in all_times)
    }
    last = Counter(known(times.vertex for times in all_times)).most_common(1)
    return CheckpointTimes(
        end_to_end_ms=whole, phases=_with_rest(phases, whole), vertex=last[0][0] if last else None
    )


def checkpoint_times(checkpoint: CheckpointResult, vertex: str | None = None) -> CheckpointTimes | None:
    """Return the times of a completed checkpoint, or of one vertex within it; None if there are none."""
    part = last_part(checkpoint, vertex)
    if not checkpoint.completed or checkpoint.duration_ms is None or (vertex and part is None):
        return None
    if part is None:
        return _until_last_barrier(checkpoint, checkpoint.duration_ms)
    if vertex is not None:
        return CheckpointTimes(end_to_end_ms=part.end_to_end_ms, phases=part.phases, vertex=vertex)
    whole = max(checkpoint.duration_ms, part.end_to_end_ms)
    # If the acknowledgement times of some subtasks are unknown, the last one is uncertain.
    ends = [vertex.end_to_end_ms for vertex in checkpoint.vertices]
    if whole - part.end_to_end_ms > _SAME_MS and not all(times and None not in times for times in ends):
        return CheckpointTimes(end_to_end_ms=whole, phases=_with_rest({}, whole), vertex=None)
    phases = dict(part.phases)
    last = ACKNOWLEDGEMENT if ACKNOWLEDGEMENT in phases else UNREPORTED
    phases[last] += whole - part.end_to_end_ms  # the coordinator's time after the last acknowledgement
    return CheckpointTimes(end_to_end_ms=whole, phases=phases, vertex=part.vertex)


def _until_last_barrier(checkpoint: CheckpointResult, whole: float) -> CheckpointTimes:
    """Return the times of a checkpoint whose acknowledgements are not reported, as those of Prometheus.

    The phases until the last barrier are those of the subtask at which it arrived.
    """
    last_ms, phases, name = -1.0, dict[str, float](), None
    for vertex in checkpoint.vertices:
        for subtask in range(len(vertex.start_delay_ms)):
            start, alignment = (
                _reported(vertex.start_delay_ms, subtask),
                _reported(vertex.alignment_ms, subtask),
            )
            if start is not None and start + (alignment or 0.0) > last_ms:
                last_ms, name = start + (alignment or 0.0), vertex.name
                phases = {START_DELAY: min(start, whole)}
                if alignment is not None:
                    phases[ALIGNMENT] = min(alignment, whole - phases[START_DELAY])
    return CheckpointTimes(end_to_end_ms=whole, phases=_with_rest(phases, whole), vertex=name)


def subtask_parts(checkpoint: CheckpointResult) -> Iterator[SubtaskPart]:
    """Yield the parts of all subtasks that acknowledged, in the order of the result."""
    for vertex in checkpoint.vertices:
        for subtask in range(len(vertex.end_to_end_ms)):
            part = _part(checkpoint, vertex, subtask)
            if part is not None:
                yield part


def last_part(checkpoint: CheckpointResult, vertex: str | None = None) -> SubtaskPart | None:
    """Return the part of the subtask that acknowledged last, of all or of one vertex; None if none did."""
    parts = (part for part in subtask_parts(checkpoint) if vertex in (None, part.vertex))
    return max(parts, key=lambda part: part.end_to_end_ms, default=None)


def phases_in(results: Iterable[Result]) -> tuple[str, ...]:
    """Return `PHASES`, followed by `UNREPORTED` if a subtask has time that lies in no measured phase."""
    unreported = any(
        UNREPORTED in part.phases
        for result in results
        for checkpoint in result.checkpoints
        for part in subtask_parts(checkpoint)
    )
    return (*PHASES, UNREPORTED) if unreported else PHASES


def completed_checkpoints(result: Result) -> list[CheckpointResult]:
    """Return the completed checkpoints of a result."""
    return [checkpoint for checkpoint in result.checkpoints if checkpoint.completed]


def _part(checkpoint: CheckpointResult, vertex: VertexCheckpoint, subtask: int) -> SubtaskPart | None:
    end_to_end, flag = _reported(vertex.end_to_end_ms, subtask), _reported(vertex.unaligned, subtask)
    if end_to_end is None:
        return None
    may_be_unaligned = checkpoint.checkpoint_type not in _ALIGNED_UNLESS_REPORTED
    unaligned = None if flag is None and may_be_unaligned else bool(flag)
    sync, asynchronous = _reported(vertex.sync_ms, subtask), _reported(vertex.async_ms, subtask)
    processed = _reported(vertex.alignment_processed_bytes, subtask)
    persisted = _reported(vertex.alignment_persisted_bytes, subtask)
    return SubtaskPart(
        vertex=vertex.name,
        subtask=subtask,
        phases=_phases(vertex, subtask, end_to_end, unaligned),
        end_to_end_ms=end_to_end,
        sync_ms=sync,
        async_ms=asynchronous,
        processed_bytes=None if processed is None else int(processed),
        persisted_bytes=None if persisted is None else int(persisted),
        unaligned=unaligned,
    )


def _phases(vertex: VertexCheckpoint, subtask: int, whole: float, unaligned: bool | None) -> Phases:
    """Return the measured phases, each cut to the time that the earlier phases leave of `whole`."""
    alignment = _reported(vertex.alignment_ms, subtask)
    sync, asynchronous = _reported(vertex.sync_ms, subtask), _reported(vertex.async_ms, subtask)
    if unaligned is None:
        sync = asynchronous = None  # it is unknown whether they overlapped the alignment
    elif unaligned:
        sync, asynchronous = _after(alignment, sync, asynchronous)
    measured = (_reported(vertex.start_delay_ms, subtask), alignment, sync, asynchronous)
    phases, left = {}, whole
    for name, time in zip(PHASES, measured, strict=False):
        if time is not None:
            phases[name] = min(time, left)
            left -= phases[name]
    return _with_rest(phases, whole)


def _with_rest(phases: Phases, whole: float) -> Phases:
    """Add the rest of the duration: the acknowledgement, or `UNREPORTED` if an earlier phase is unknown."""
    before = PHASES[:-1]
    measured = {name: phases[name] for name in before if name in phases}
    rest = max(0.0, whole - sum(measured.values()))
    return measured | {ACKNOWLEDGEMENT if len(measured) == len(before) else UNREPORTED: rest}


def _after(
    beside_ms: float | None, sync_ms: float | None, async_ms: float | None
) -> tuple[float | None, float | None]:
    """Return the times of sync and async that remain after an alignment of `beside_ms`; None: unknown."""
    if beside_ms is None or sync_ms is None:
        return None, None
    late_async = None if async_ms is None else max(0.0, async_ms - max(0.0, beside_ms - sync_ms))
    return max(0.0, sync_ms - beside_ms), late_async


def _reported(values: Sequence[float | None], subtask: int) -> float | None:
    """Return the value of a subtask; Flink reports missing values as negative numbers."""
    value = value_at(values, subtask)
    return None if value is None or value < 0 else float(value)


def barrier_delay_ms(scenario: Scenario, checkpoint: CheckpointResult) -> float | None:
    """Return the time that barriers take from vertex to vertex, summed; None: a vertex did not report.

    For one vertex, the time begins when all vertices before it have sent their barriers. It ends when the
    last of these barriers arrives.
    """
    arrivals = {}
    for part in checkpoint.vertices:
        subtasks = zip(part.start_delay_ms, part.alignment_ms, strict=True)
        # A subtask that had ended has no start delay, and a source no alignment.
        times = [start + (alignment or 0.0) for start, alignment in subtasks if start is not None]
        arrivals[part.name] = max(times, default=None)
    total = 0.0
    for vertex in scenario.vertices:
        before = [arrivals.get(edge.source) for edge in scenario.inputs(vertex)]
        here, sent = arrivals.get(vertex.name), known(before)
        if here is None or len(sent) < len(before):
            return None
        total += here - max(sent) if sent else 0.0
    return total
