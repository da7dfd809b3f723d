"""Draws the settings of a storm: buffers, checkpoints, state, restarts, and the costs of its machine."""

from __future__ import annotations

import random
from dataclasses import replace

from buffers import gate_buffers, partition_buffers
from integration.extras import is_installed
from netstack import (
    ChangelogStorage,
    CheckpointMode,
    CostModel,
    NetworkConfig,
    RestartStrategy,
    StateBackendType,
)

from .case import KEYED, StormCase
from .storm_jobs import weighted

GENEROUS_S = 12.0
"""A time within which a checkpoint is complete unless a fault is in its way; in emulated seconds."""

ENDLESS = 1_000_000
"""More failures than a job can have."""

TABLES = 0.03
"""Share of the jobs with keyed state that keep it in RocksDB, where that is installed."""

_TABLE_BYTES = 4 << 10
"""About what the files of a subtask's tables take beside what is in them."""

_POLICIES = (
    "flink",
    "flink",
    "frozen-while-blocked",
    "longest-channel",
    "per-channel",
    "burst",
    "longest-when-unblocked",
)
"""By name, as users may register more in a process, and the draw depends on nothing but the seed."""

_STRATEGIES = (
    (None, 50),
    (RestartStrategy.EXPONENTIAL_DELAY, 10),
    (RestartStrategy.FAILURE_RATE, 10),
    (RestartStrategy.FIXED_DELAY, 20),
    (RestartStrategy.NONE, 10),
)
_MODES = (("none", 10), ("at least once", 14), ("aligned", 24), ("unaligned", 28), ("timeout", 24))
_SEGMENTS = ((1024, 24), (2048, 12), (4096, 10), (16 << 10, 2), (64 << 10, 1))


def draw_config(chance: random.Random) -> tuple[NetworkConfig, bool]:
    """The settings of a case, and whether its checkpoints have time enough."""
    segment = weighted(chance, _SEGMENTS)
    config = NetworkConfig(
        segment_bytes=segment,
        min_segment_bytes=chance.choice((64, 256, segment)),
        starting_segment_bytes=chance.choice((256, 1024, segment)),
        exclusive_buffers_per_channel=chance.randint(0, 3),
        floating_buffers_per_gate=chance.randint(1, 8),
        max_buffers_per_channel=chance.choice((2, 2, 3, 10)),
        max_overdraft_buffers_per_gate=chance.choice((0, 0, 1, 5)),
        max_required_buffers_per_gate=None if chance.random() < 0.9 else chance.randint(1, 8),
        buffer_timeout_enabled=chance.random() < 0.85,
        buffer_timeout_interval_s=weighted(chance, ((0.0, 2), (0.01, 2), (0.1, 6))),
        debloat_enabled=chance.random() < 0.4,
        debloat_period_s=chance.choice((0.02, 0.1, 0.2)),
        debloat_target_s=chance.choice((0.005, 0.05, 0.3)),
        debloat_samples=chance.choice((1, 3, 20)),
        debloat_threshold_percent=chance.choice((0, 25, 50)),
        debloat_policy=chance.choice(_POLICIES),
    )
    if not config.buffer_timeout_enabled:
        # A finished buffer may then wait for the next one, and must not keep the only floating buffer.
        least = max(1, config.exclusive_buffers_per_channel)
        config = replace(config, exclusive_buffers_per_channel=least, max_required_buffers_per_gate=None)
    config = _with_restarts(chance, config)
    return _with_checkpoints(chance, config)


def _with_restarts(chance: random.Random, config: NetworkConfig) -> NetworkConfig:
    strategy = weighted(chance, _STRATEGIES)
    often, delay = chance.randint(1, 3), chance.choice((0.0, 0.01, 0.2))
    limited = chance.random() < 0.15
    return replace(
        config,
        restart_strategy=strategy,
        restart_attempts=often,
        restart_delay_s=delay,
        restart_initial_backoff_s=max(delay, 0.001),
        restart_max_backoff_s=0.5,
        restart_attempts_before_reset=often if limited else None,
        # With a limit the count of failures is that of the run.
        restart_reset_backoff_threshold_s=1000.0 if limited else 1.0,
        restart_max_failures_per_interval=often,
        restart_failure_rate_interval_s=1.0,
        restart_failure_rate_delay_s=delay,
        heartbeat_timeout_s=chance.choice((0.1, 0.5, 2.0)),
    )


def _with_checkpoints(chance: random.Random, config: NetworkConfig) -> tuple[NetworkConfig, bool]:
    mode = weighted(chance, _MODES)
    unaligned = mode in ("unaligned", "timeout")
    at_least_once = mode == "at least once"
    patient = chance.random() < 0.75
    tolerable = chance.choice((0, 0, 1, 3)) if patient else ENDLESS
    config = replace(
        config,
        checkpoint_mode=CheckpointMode.AT_LEAST_ONCE if at_least_once else CheckpointMode.EXACTLY_ONCE,
        checkpoint_interval_s=None if mode == "none" else 0.012 * 15 ** chance.random(),
        checkpoint_timeout_s=GENEROUS_S,
        checkpoint_min_pause_s=0.0 if chance.random() < 0.6 else chance.choice((0.005, 0.02, 0.1)),
        max_concurrent_checkpoints=1 if unaligned else chance.choice((1, 1, 2, 5)),
        tolerable_failed_checkpoints=tolerable,
        unaligned_enabled=unaligned,
        aligned_checkpoint_timeout_s=chance.choice((0.001, 0.01, 0.05, 0.3)) if mode == "timeout" else 0.0,
        checkpoints_after_tasks_finish=chance.random() < 0.96,
        retained_checkpoints=chance.choice((1, 1, 2, 3, 4, 5)),
        state_memory_threshold_bytes=chance.choice((0, 100, 20 << 10)),
    )
    return config, patient


def with_state_stored(chance: random.Random, case: StormCase) -> StormCase:
    """The case with a way to keep and store keyed state: in memory or tables, whole or as its changes."""
    tables = chance.random() < TABLES and is_installed("rocksdb")
    keyed = sum(vertex.parallelism for vertex in case.vertices if vertex.work in KEYED)
    config = replace(
        case.config,
        changelog_enabled=chance.random() < 0.4,
        changelog_storage=chance.choice(list(ChangelogStorage)),
        materialize_enabled=chance.random() < 0.9,
        materialize_interval_s=0.02 * 20 ** chance.random(),
        materialize_max_failures=ENDLESS,
        incremental_checkpoints=chance.random() < 0.7,
        rocksdb_write_buffer_bytes=chance.choice((1 << 10, 16 << 10, 64 << 20)),
        rocksdb_target_file_bytes=chance.choice((2 << 10, 64 << 20)),
        rocksdb_level_base_bytes=chance.choice((4 << 10, 256 << 20)),
    )
    if tables and 0 < keyed <= 4:
        config = replace(config, state_backend=StateBackendType.ROCKSDB)
    return replace(case, config=config)


def draw_costs(chance: random.Random, case: StormCase) -> CostModel:
    """The costs of the machine: state moves within a second, for some in hardly less."""
    if not case.patient or chance.random() < 0.8:
        return CostModel()
    state = 3 * sum(vertex.all_records * max(vertex.record_bytes) for vertex in case.vertices)
    if case.config.state_backend is StateBackendType.ROCKSDB:
        state += _TABLE_BYTES * sum(each.parallelism for each in case.vertices if each.work in KEYED)
    rate = state / chance.uniform(0.05, 1.0)
    return CostModel(upload_rate_bytes_per_s=rate, download_rate_bytes_per_s=rate)


def with_scarce_memory(chance: random.Random, case: StormCase) -> NetworkConfig:
    """The settings with a network memory that is hardly more than what the job needs to begin.

    Without overdraft, which would be taken from what others are guaranteed: a job may stand still then.
    """
    config = case.config
    each, floating = config.exclusive_buffers_per_channel, config.floating_buffers_per_gate
    needed = {manager: 0 for vertex in case.vertices for manager in vertex.managers}
    for source, target, _ in case.edges:
        producer, consumer = case.vertex(source), case.vertex(target)
        least, _ = partition_buffers(consumer.parallelism, each, floating)
        for subtask in range(producer.parallelism):
            needed[producer.manager_of(subtask)] += least
        spec = gate_buffers(producer.parallelism, each, floating, config.max_required_buffers_per_gate)
        exclusive = spec.exclusive_per_channel * producer.parallelism
        for subtask in range(consumer.parallelism):
            needed[consumer.manager_of(subtask)] += exclusive + spec.required_floating
    segments = max(needed.values()) + chance.randint(0, 12)
    return replace(
        config,
        network_memory_max_bytes=segments * config.segment_bytes,
        max_overdraft_buffers_per_gate=0,
    )
