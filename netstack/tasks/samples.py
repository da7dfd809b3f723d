"""What a subtask shows of itself at one moment: counters and gauges, from its outputs and its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from ..exchange.gate import InputGate
from ..exchange.partition import ResultPartition
from ..results.statistics import SubtaskSample
from .time_account import TimeAccount


def output_sample(partitions: Sequence[ResultPartition], times: TimeAccount, now: float) -> SubtaskSample:
    """What every subtask has; `times` is settled up to `now`."""
    size = sum(partition.pool.size for partition in partitions)
    return SubtaskSample(
        records_out=sum(partition.records_out for partition in partitions),
        bytes_out=sum(partition.bytes_out for partition in partitions),
        buffers_out=sum(partition.buffers_out for partition in partitions),
        busy_s=now - times.opened_at - times.idle - times.backpressured,
        backpressured_s=times.backpressured,
        idle_s=times.idle,
        output_queue_length=sum(partition.queue_length for partition in partitions),
        output_queue_size=sum(partition.queued_bytes for partition in partitions),
        out_pool_usage=sum(partition.pool.used for partition in partitions) / size if size else 0.0,
    )


def with_inputs(sample: SubtaskSample, gates: Sequence[InputGate]) -> SubtaskSample:
    """Return a sample of a subtask with the gauges of its input gates added."""
    exclusive, floating = [gate.exclusive_usage for gate in gates], [gate.floating_usage for gate in gates]
    debloaters = [gate.debloater for gate in gates if gate.debloater is not None]
    return sample._replace(
        debloated_buffer_size=min([d.last_announced for d in debloaters], default=nan),
        estimated_time_to_consume_ms=max([d.estimated_time_s * 1000 for d in debloaters], default=nan),
        input_queue_length=sum(gate.queue_length for gate in gates),
        input_queue_size=sum(gate.queued_bytes for gate in gates),
        in_pool_usage=_usage([*exclusive, *floating]),
        exclusive_buffers_usage=_usage(exclusive),
        floating_buffers_usage=_usage(floating),
    )


def _usage(pools: Sequence[tuple[int, int]]) -> float:
    """Used by all buffers; 0 where there are none, as in Flink's gauges."""
    total = sum(total for _, total in pools)
    return sum(used for used, _ in pools) / total if total else 0.0
