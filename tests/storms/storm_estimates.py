"""How long the job of a storm may take: roughly, and rather too long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from netstack import ShipStrategy, StateBackendType

from .case import KEYED, StormCase, StormVertex, Work

_HOP_S = 0.0005
"""Time from a full buffer to the credit for the next, loopback and wake-ups included."""

_COMMIT_S = 0.1
"""Time for what follows the last record: events, snapshots, acknowledgements."""

_TABLE_S = 6e-4
"""Time for what an operator does with tables for a record."""

_CHANGES, _CHANGE_BYTES = 6, 50
"""Changes of state for a record, at most, and the bytes of one in a changelog besides those of the record."""


class _Emitted(NamedTuple):
    """What a vertex emits: records, the bytes of one, and the share of the subtask that has most of them."""

    records: float
    record_bytes: float
    greatest_share: float


def estimate_s(case: StormCase) -> float:
    """Seconds until the last record has been processed, if nothing goes wrong, as if nothing overlapped."""
    emitted: dict[str, _Emitted] = {}
    total = _COMMIT_S
    for vertex in case.vertices:
        if vertex.work is Work.SOURCE:
            rate = min(vertex.rates)
            total += max(vertex.records) / rate if rate else 0.0
            greatest = max(vertex.records[: vertex.parallelism]) / max(1, vertex.all_records)
            emitted[vertex.name] = _Emitted(vertex.all_records, vertex.record_bytes[1] / 3 + 24, greatest)
            continue
        records, most, size, greatest = 0.0, 0.0, 0.0, 0.0
        for producer, ship in case.inputs(vertex):
            number, record_size, one_has = emitted[producer.name]
            share = _greatest_share(producer, vertex, ship, one_has)
            size, greatest = max(size, record_size), max(greatest, share)
            copies = vertex.parallelism if ShipStrategy.of(ship).copies else 1
            records += number * copies
            most += number * share
            if producer.managers != vertex.managers or len(vertex.managers) > 1:
                total += _round_trips_s(case, number * share, record_size)
                total += number * copies * (record_size + 20) / (case.link.bandwidth_bytes_per_s or 2e9)
        total += most * (slowest_s(case, vertex) + 1e-5)
        number = records * max(1.0, vertex.copies * float(vertex.most_for_one))
        emitted[vertex.name] = _Emitted(number, size, greatest)
    return total


def has_time_for_checkpoints(case: StormCase, parallelism: Mapping[str, int]) -> bool:
    """Whether no checkpoint need expire at this parallelism of each vertex, if nothing goes wrong.

    A case is drawn for the parallelism that it has. Where a job goes on with fewer subtasks, one of them may
    have so many records before a barrier that they take longer than the timeout. And a change of state is
    longer in a changelog than in state, so a slow storage may not take all changes in time.
    """
    timeout = case.config.checkpoint_timeout_s
    if _changes_s(case) > timeout:
        return False
    if all(vertex.parallelism == parallelism[vertex.name] for vertex in case.vertices):
        return True
    vertices = tuple(
        vertex if vertex.work is Work.SOURCE else replace(vertex, parallelism=parallelism[vertex.name])
        for vertex in case.vertices
    )
    return estimate_s(replace(case, vertices=vertices)) < timeout


def _changes_s(case: StormCase) -> float:
    """The most seconds that it takes to upload all changes of state, where a changelog has them."""
    if not case.config.changelog_enabled or not any(vertex.work in KEYED for vertex in case.vertices):
        return 0.0
    sources = [vertex for vertex in case.vertices if vertex.work is Work.SOURCE]
    records = float(sum(vertex.all_records for vertex in sources))
    for vertex in case.vertices:
        records *= max(1.0, vertex.copies * float(vertex.most_for_one))
    size = _CHANGES * (_CHANGE_BYTES + max(max(vertex.record_bytes) for vertex in sources))
    return records * size / case.costs.upload_rate_bytes_per_s


def slowest_s(case: StormCase, vertex: StormVertex) -> float:
    """The most that a record of a vertex may cost, in seconds."""
    times = max([1.0, *(factor for _, factor in vertex.service_steps)])
    inputs = len(case.inputs(vertex)) if vertex.apart else 1
    tables = case.config.state_backend is StateBackendType.ROCKSDB and vertex.work in KEYED
    return vertex.service_s * max(vertex.service_skew) * times * inputs + (_TABLE_S if tables else 0.0)


def _greatest_share(producer: StormVertex, consumer: StormVertex, ship: str, one_has: float) -> float:
    """The share of a producer's records that one subtask of the consumer may have to process.

    `one_has`: that of the producer's subtask that has most.
    """
    strategy = ShipStrategy.of(ship)
    if strategy.by_key or strategy.copies:
        return 1.0
    if not strategy.pointwise:
        return 1.0 / consumer.parallelism
    read_by_one = -(-producer.parallelism // consumer.parallelism)
    return min(1.0, read_by_one * one_has / max(1, consumer.parallelism // producer.parallelism))


def _round_trips_s(case: StormCase, records: float, size: float) -> float:
    """Seconds that records need on one channel for want of credit."""
    config = case.config
    capacity = config.min_segment_bytes if config.debloat_enabled else config.segment_bytes
    flushed_each = config.buffer_timeout_s == 0
    buffers = records * (max(1.0, size / capacity) if flushed_each else size / capacity) + 1
    credits = max(1, config.exclusive_buffers_per_channel)
    return buffers * (2 * case.link.latency_s + _HOP_S) / credits


def idle_checkpoint_s(case: StormCase) -> float:
    """Seconds that a checkpoint takes at most while no records are in its way."""
    sources = sum(vertex.parallelism for vertex in case.vertices if vertex.work is Work.SOURCE)
    costs = case.costs
    hops = len(case.vertices)
    triggers = costs.trigger_s[1] + costs.trigger_per_source_s * sources
    passing = hops * (costs.sync_s[1] * 2 + case.link.latency_s + 0.005)
    return triggers + passing + costs.ack_unaligned_s[1] + costs.ack_s[1] + 0.02
