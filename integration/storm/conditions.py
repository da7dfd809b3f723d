"""Draws the conditions of a storm: its settings, the costs of its machine, and its faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from buffers import gate_buffers, partition_buffers
from netstack import (
    MESSAGES,
    AtTime,
    ChangelogStorage,
    ChannelItem,
    CheckpointMode,
    CostModel,
    CutLink,
    DelayMessages,
    DropMessages,
    FailUpload,
    Fault,
    FillStorage,
    KillSubtask,
    KillTaskManager,
    Moment,
    NetworkConfig,
    OnAcknowledgement,
    OnChannel,
    RestartStrategy,
    SubtaskName,
)

from .case import StormCase

GENEROUS_S = 12.0
"""A time within which a checkpoint is complete unless a fault is in its way; in emulated seconds."""

ENDLESS = 1_000_000
"""More failures than a job can have."""

_T = TypeVar("_T")
_STRATEGIES = (
    (None, 60),
    (RestartStrategy.FAILURE_RATE, 10),
    (RestartStrategy.FIXED_DELAY, 20),
    (RestartStrategy.NONE, 10),
)
_MODES = (("none", 10), ("at least once", 14), ("aligned", 24), ("unaligned", 28), ("timeout", 24))

_KILLS = ((0, 3), (1, 5), (2, 2))
_OTHERS = ((0, 4), (1, 4), (2, 2))

Draw = Callable[[random.Random, StormCase, Moment], Fault]

_POINTWISE = frozenset({"forward", "rescale"})


def weighted(chance: random.Random, choices: Sequence[tuple[_T, int]]) -> _T:
    """One of the choices, each as likely as its weight says."""
    return chance.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]


def draw_config(chance: random.Random) -> tuple[NetworkConfig, bool]:
    """The settings of a case, and whether its checkpoints have time enough."""
    segment = chance.choice((1024, 1024, 2048, 4096))
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
        debloat_enabled=chance.random() < 0.3,
        debloat_period_s=chance.choice((0.02, 0.1, 0.2)),
        debloat_target_s=chance.choice((0.005, 0.05, 0.3)),
        debloat_samples=chance.choice((1, 3, 20)),
        debloat_threshold_percent=chance.choice((0, 25, 50)),
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
    return replace(
        config,
        restart_strategy=strategy,
        restart_attempts=often,
        restart_delay_s=delay,
        restart_initial_backoff_s=max(delay, 0.001),
        restart_max_backoff_s=0.5,
        restart_reset_backoff_threshold_s=1.0,
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
        checkpoint_min_pause_s=0.0 if chance.random() < 0.7 else chance.choice((0.005, 0.1)),
        max_concurrent_checkpoints=1 if unaligned else chance.choice((1, 1, 2, 5)),
        tolerable_failed_checkpoints=tolerable,
        unaligned_enabled=unaligned,
        aligned_checkpoint_timeout_s=chance.choice((0.001, 0.01, 0.05, 0.3)) if mode == "timeout" else 0.0,
        checkpoints_after_tasks_finish=chance.random() < 0.96,
        retained_checkpoints=chance.choice((1, 1, 2, 5)),
        state_memory_threshold_bytes=chance.choice((0, 100, 20 << 10)),
    )
    return config, patient


def with_state_stored(chance: random.Random, config: NetworkConfig) -> NetworkConfig:
    """The settings with a way to store keyed state: as a whole each time, or as its changes."""
    return replace(
        config,
        changelog_enabled=chance.random() < 0.4,
        changelog_storage=chance.choice(list(ChangelogStorage)),
        materialize_enabled=chance.random() < 0.9,
        materialize_interval_s=0.02 * 20 ** chance.random(),
        materialize_max_failures=ENDLESS,
    )


def draw_costs(chance: random.Random, case: StormCase) -> CostModel:
    """The costs of the machine: state moves within a second, for some in hardly less."""
    if not case.patient or chance.random() < 0.8:
        return CostModel()
    state = 3 * sum(vertex.all_records * vertex.record_bytes[1] for vertex in case.vertices)
    rate = state / chance.uniform(0.05, 1.0)
    return CostModel(upload_rate_bytes_per_s=rate, download_rate_bytes_per_s=rate)


def with_scarce_memory(chance: random.Random, case: StormCase) -> NetworkConfig:
    """The settings with a network memory that is hardly more than what the job needs to begin.

    Without overdraft, which would be taken from what others are guaranteed: a job may stand still then.
    """
    config = case.config
    each, floating = config.exclusive_buffers_per_channel, config.floating_buffers_per_gate
    needed = {vertex.task_manager: 0 for vertex in case.vertices}
    for source, target, _ in case.edges:
        producer, consumer = case.vertex(source), case.vertex(target)
        least, _ = partition_buffers(consumer.parallelism, each, floating)
        needed[producer.task_manager] += producer.parallelism * least
        spec = gate_buffers(producer.parallelism, each, floating, config.max_required_buffers_per_gate)
        exclusive = spec.exclusive_per_channel * producer.parallelism
        needed[consumer.task_manager] += consumer.parallelism * (exclusive + spec.required_floating)
    segments = max(needed.values()) + chance.randint(0, 12)
    return replace(
        config,
        network_memory_max_bytes=segments * config.segment_bytes,
        max_overdraft_buffers_per_gate=0,
    )


def lasts_for_good(faults: Sequence[Fault]) -> bool:
    """Whether one of the faults, once it has fired, is never over."""
    return any(isinstance(fault, CutLink | FillStorage) and fault.for_s is None for fault in faults)


def draw_faults(chance: random.Random, case: StormCase, longest_s: float) -> tuple[Fault, ...]:
    """None to four faults, most of them early in a job of at most `longest_s` seconds."""
    kinds = _kills(chance) + _others(chance, case)
    chance.shuffle(kinds)
    return tuple(draw(chance, case, _moment(chance, case, longest_s)) for draw in kinds)


def _kills(chance: random.Random) -> list[Draw]:
    """What fails the job at once."""
    return [weighted(chance, ((_kill, 4), (_kill_manager, 1))) for _ in range(weighted(chance, _KILLS))]


def _others(chance: random.Random, case: StormCase) -> list[Draw]:
    """What is over after a while, or what the job may survive."""
    kinds = [_cut] if _links(case) else []
    kinds += [_delay, _drop, _storage] if case.takes_checkpoints else []
    return [chance.choice(kinds) for _ in range(weighted(chance, _OTHERS))] if kinds else []


def _kill(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    return KillSubtask(when=when, subtask=_subtask(chance, case))


def _kill_manager(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    return KillTaskManager(when=when, task_manager=chance.choice(case.vertices).task_manager)


def _cut(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    source, target = chance.choice(_links(case))
    lasts = None if chance.random() < 0.15 else 0.01 * 200 ** chance.random()
    return CutLink(when=when, from_task_manager=source, to_task_manager=target, for_s=lasts)


def _delay(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    vertex, subtask = _concerned(chance, case)
    return DelayMessages(
        when=when,
        messages=chance.choice(MESSAGES),
        delay_s=0.01 * 100 ** chance.random(),
        for_s=0.05 * 20 ** chance.random(),
        vertex=vertex,
        subtask=subtask,
    )


def _drop(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    vertex, subtask = _concerned(chance, case)
    return DropMessages(
        when=when,
        messages=chance.choice(MESSAGES),
        for_s=0.01 * 50 ** chance.random(),
        vertex=vertex,
        subtask=subtask,
    )


def _concerned(chance: random.Random, case: StormCase) -> tuple[str | None, int | None]:
    """Whose messages a fault concerns: those of all, of a vertex, or of a subtask."""
    if chance.random() < 0.4:
        return None, None
    subtask = _subtask(chance, case)
    return subtask.vertex, chance.choice((None, subtask.subtask))


def _storage(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    lasts = 0.02 * 50 ** chance.random()
    if chance.random() < 0.5:
        return FailUpload(when=when, for_s=lasts)
    return FillStorage(when=when, for_s=None if chance.random() < 0.1 else lasts)


def _moment(chance: random.Random, case: StormCase, longest_s: float) -> Moment:
    kind = chance.random()
    if kind < 0.35 or (kind > 0.5 and not case.takes_checkpoints):
        return AtTime(chance.random() ** 2 * (longest_s + 0.2))
    if kind > 0.7:
        return OnAcknowledgement(number=chance.randint(1, 7), subtask=_subtask(chance, case))
    item = ChannelItem.BUFFER if kind < 0.5 else ChannelItem.BARRIER
    source, target = _channel(chance, case)
    number = chance.randint(1, 8 if item is ChannelItem.BUFFER else 6)
    return OnChannel(item=item, number=number, source=source, target=target)


def _channel(chance: random.Random, case: StormCase) -> tuple[SubtaskName, SubtaskName]:
    """Two subtasks that a channel connects."""
    source, target, ship = chance.choice(case.edges)
    producers, consumers = case.vertex(source).parallelism, case.vertex(target).parallelism
    consumer = chance.randrange(consumers)
    # The first of those that a pointwise exchange connects.
    first = consumer * producers // consumers
    producer = first if ship in _POINTWISE else chance.randrange(producers)
    return SubtaskName(source, producer), SubtaskName(target, consumer)


def _subtask(chance: random.Random, case: StormCase) -> SubtaskName:
    vertex = chance.choice(case.vertices)
    return SubtaskName(vertex.name, chance.randrange(vertex.parallelism))


def _links(case: StormCase) -> list[tuple[str, str]]:
    """The pairs of task managers that records go between."""
    pairs = {
        (case.vertex(source).task_manager, case.vertex(target).task_manager)
        for source, target, _ in case.edges
    }
    return sorted(pair for pair in pairs if pair[0] != pair[1])
