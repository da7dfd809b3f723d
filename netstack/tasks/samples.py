"""What a subtask shows of itself at one moment: counters and gauges, from its outputs and its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from ..exchange.gate import InputGate
from ..exchange.partition import ResultPartition
from ..results.statistics import SubtaskSample
from .time_account import TimeAccount


def output_sample(partitions: Sequence[ResultPartition], times: TimeAccount, now: float) -> SubtaskSample:
    """What every subtask has."""
    busy, idle, backpressured = times.until(now)
    size = sum(partition.pool.size for partition in partitions)
    queued = [partition.queued for partition in partitions]
    return SubtaskSample(
        records_out=sum(partition.records_out for partition in partitions),
        bytes_out=sum(partition.bytes_out for partition in partitions),
        buffers_out=sum(each.buffers_out for each in queued),
        busy_s=busy,
        backpressured_s=backpressured,
        idle_s=idle,
        output_queue_length=sum(each.length for each in queued),
        output_queue_size=sum(each.size for each in queued),
        out_pool_usage=sum(partition.pool.used for partition in partitions) / size if size else 0.0,
    )


def with_inputs(sample: SubtaskSample, gates: Sequence[InputGate]) -> SubtaskSample:
    """Return a sample of a subtask with the gauges of its input gates added."""
    figures = [gate.figures for gate in gates]
    exclusive, floating = [each.exclusive for each in figures], [each.floating for each in figures]
    debloaters = [gate.debloater for gate in gates if gate.debloater is not None]
    return sample._replace(
        debloated_buffer_size=min([d.last_announced for d in debloaters], default=nan),
        estimated_time_to_consume_ms=max([d.estimated_time_s * 1000 for d in debloaters], default=nan),
        input_queue_length=sum(each.queue_length for each in figures),
        input_queue_size=sum(each.queued_bytes for each in figures),
        in_pool_usage=_usage([*exclusive, *floating]),
        exclusive_buffers_usage=_usage(exclusive),
        floating_buffers_usage=_usage(floating),
    )


def _usage(pools: Sequence[tuple[int, int]]) -> float:
    """Used by all buffers; 0 where there are none, as in Flink's gauges."""
    total = sum(total for _, total in pools)
    return sum(used for used, _ in pools) / total if total else 0.0
