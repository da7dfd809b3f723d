"""What a job does, in the same few figures whether Flink has measured it or the lab runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from netstack import CheckpointResult, Scenario, Steady, VertexSteady

from ..known_values import complete, highest, lowest
from .flink_messages import FlinkCheckpoint, JobFigures, VertexFigures

_Values = Sequence[float | None]


def job_figures(scenario: Scenario, steady: Steady, over_s: float | None) -> JobFigures:
    """Return what a window comes to; vertices by their names, in the order of the scenario."""
    by_name = {vertex.name: vertex for vertex in steady.vertices}
    return JobFigures(
        vertices=[_vertex(scenario, by_name[vertex.name]) for vertex in scenario.vertices],
        over_s=over_s,
        checkpoints=steady.checkpoints,
        end_to_end_s=_seconds(steady.end_to_end_ms),
        end_to_end_least_s=_seconds(steady.end_to_end_ms_min),
        end_to_end_most_s=_seconds(steady.end_to_end_ms_max),
        in_flight_bytes=steady.persisted_bytes,
    )


def _vertex(scenario: Scenario, shown: VertexSteady) -> VertexFigures:
    """One vertex; of what it has not, such as the inputs of a source, there are no figures."""
    reads = any(edge.target == shown.name for edge in scenario.edges)
    writes = any(edge.source == shown.name for edge in scenario.edges)
    records = shown.records_in_per_s if reads else shown.records_out_per_s
    busy, backpressured, idle = (
        _of_all(fmean, values)
        for values in (shown.busy_ms_per_s, shown.backpressured_ms_per_s, shown.idle_ms_per_s)
    )
    return VertexFigures(
        busy=_share(busy),
        backpressured=_share(backpressured),
        idle=_share(idle),
        records_per_s=_of_all(sum, records),
        in_pool=_of_all(fmean, shown.inPoolUsage) if reads else None,
        out_pool=_of_all(fmean, shown.outPoolUsage) if writes else None,
        input_queue=_of_all(fmean, shown.inputQueueLength) if reads else None,
        output_queue=_of_all(fmean, shown.outputQueueLength) if writes else None,
        buffer_bytes=lowest(shown.debloatedBufferSize) if reads else None,
        time_to_consume_s=_seconds(highest(shown.estimatedTimeToConsumeBuffersMs)) if reads else None,
        start_delay_s=_seconds(shown.start_delay_ms_mean_subtask),
        alignment_s=_seconds(shown.alignment_ms_max_subtask) if reads else None,
    )


def checkpoint_of(checkpoint: CheckpointResult) -> FlinkCheckpoint:
    """Return a checkpoint as the page lists it."""
    return FlinkCheckpoint(
        id=checkpoint.id,
        t=checkpoint.t,
        kind=checkpoint.checkpoint_type,
        end_to_end_s=_seconds(checkpoint.duration_ms),
        start_delay_s=_longest(vertex.start_delay_ms for vertex in checkpoint.vertices),
        alignment_s=_longest(vertex.alignment_ms for vertex in checkpoint.vertices),
        in_flight_bytes=checkpoint.persisted_bytes,
    )


def _of_all(combined: Callable[[list[float]], float], values: _Values) -> float | None:
    """A figure over all subtasks; None if one of them does not tell: part of a sum would look like all."""
    told = complete(values)
    return None if told is None else combined(told)


def _longest(of_vertices: Iterable[_Values]) -> float | None:
    return _seconds(highest(time for times in of_vertices for time in times))


def _seconds(time_ms: float | None) -> float | None:
    return None if time_ms is None else time_ms / 1e3


def _share(ms_per_s: float | None) -> float | None:
    return None if ms_per_s is None else ms_per_s / 1e3
