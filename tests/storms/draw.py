"""Draws the case of a storm from its seed: a pure function.

First the job (`draw_job`), then settings, faults and the run that continues it. The number of records is
reduced until a rough estimate says that the job takes at most `LONGEST_S` if nothing fails. So a job that
does not end in time has a reason that the checks can name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from benches.studied_policies import STUDIED
from buffers import gate_buffers, partition_buffers
from flowcontrol import SavepointFormat
from integration.extras import is_installed
from netstack import (
    DEFAULT_PRESET,
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
    ShipStrategy,
    StateBackendType,
    SubtaskName,
    consumers_of_producers,
)

from .case import KEYED, SUMS, Continuation, Neighbour, ReadTrouble, StormCase, StormVertex, Work
from .draw_job import (
    at_once,
    draw_job,
    draw_link,
    has_regions,
    paths_meet,
    set_apart,
    weighted,
    with_emissions,
    with_failover,
    with_shares,
    with_watermarks,
)

_CONTINUED = 0.35
"""Share of the cases in which a second job continues the first one."""

_CONTINUED_NOTED = 0.7
"""The same share, for jobs whose state with a time-to-live or operator state is known at that time."""

_NEXT_PARALLELISMS = (1, 2, 3, 4, 6)

LONGEST_S = 5.0
"""How long a job may take, by a rough estimate, if nothing goes wrong; in emulated seconds."""

DURATION_S = 25 * LONGEST_S
"""Duration of a job that has to end by itself, some restarts included."""

ON_DISK = 0.04
"""Share of the cases whose checkpoints are files of a directory."""

LONGEST_KEY = 9000
"""Bytes of a record that is the key of an entry of a map."""

HOPELESS_S = 2 * LONGEST_S
"""Duration of a job that something may keep from ending for good."""


def draw_case(seed: int) -> StormCase:
    """Return the case of a seed, which is 0 or more."""
    chance = random.Random(seed)
    apart = random.Random(f"{seed} apart")
    vertices, edges = set_apart(apart, draw_job(chance), lambda: draw_job(apart))
    emits = random.Random(f"{seed} emits")
    vertices = with_emissions(emits, vertices)
    vertices, edges, fractions = with_shares(random.Random(f"{seed} shares"), vertices, edges)
    config, patient = draw_config(chance)
    config = with_watermarks(emits, with_failover(apart, config), vertices)
    case = StormCase(
        seed=seed,
        vertices=vertices,
        edges=edges,
        fractions=fractions,
        config=config,
        link=draw_link(chance),
        duration_s=DURATION_S,
        manual_checkpoints_s=_manual(chance),
        patient=patient,
    )
    case = with_state_stored(chance, case)
    case = _settled(chance, _bounded(_storable(case)))
    longest_s = estimate_s(case)
    case = replace(
        case,
        faults=draw_faults(chance, case, longest_s),
        trouble=draw_read_trouble(chance) if case.takes_checkpoints else (),
        preset=chance.choice((DEFAULT_PRESET, "flink-1.20", "flink-2.2")),
        on_disk=chance.random() < ON_DISK,
        neighbours=() if has_regions(case) else draw_neighbours(chance, case, longest_s),
        continuation=draw_continuation(random.Random(f"{seed} goes on"), case),
    )
    config = _adaptive(random.Random(f"{seed} adaptive"), case.config)
    case = replace(case, config=_with_recovery(random.Random(f"{seed} recovery"), config))
    return replace(case, duration_s=HOPELESS_S) if lasts_for_good(case.faults) else case


def _adaptive(chance: random.Random, config: NetworkConfig) -> NetworkConfig:
    """The settings, with adaptive partition selection in some."""
    enabled, most = chance.random() < 0.3, max(2, chance.randint(1, 5))
    return replace(config, adaptive_partitioner_enabled=enabled, adaptive_partitioner_max_traverse_size=most)


def _with_recovery(chance: random.Random, config: NetworkConfig) -> NetworkConfig:
    """The settings, with in-flight data restored at the consumers in some, and checkpoints meanwhile."""
    drawn = chance.random()
    return replace(config, recover_output_on_downstream=drawn < 0.4, checkpoints_during_recovery=drawn < 0.25)


def _manual(chance: random.Random) -> tuple[float, ...]:
    if chance.random() > 0.25:
        return ()
    return tuple(sorted(chance.uniform(0.0, 0.8) for _ in range(chance.randint(1, 3))))


def _bounded(case: StormCase) -> StormCase:
    """The case with so few records, and so little work on each, that it does not take too long."""
    while (longest := estimate_s(case)) > LONGEST_S:
        share = max(0.3, min(0.9, LONGEST_S / longest))
        case = replace(case, vertices=tuple(_lighter(vertex, share) for vertex in case.vertices))
    return case


def _lighter(vertex: StormVertex, share: float) -> StormVertex:
    """A vertex with that share of records; if there are few, with smaller ones and less work."""
    if vertex.work is not Work.SOURCE:
        return replace(vertex, service_s=vertex.service_s * share**0.5)
    least, greatest = vertex.record_bytes
    return replace(
        vertex,
        records=tuple(max(1, int(number * share**0.5)) for number in vertex.records),
        record_bytes=(least, max(least, int(greatest * share**0.5))),
    )


def _storable(case: StormCase) -> StormCase:
    """The case with records that can be keys of maps, where there are such."""
    if not any(vertex.work in (Work.GATHER_IN_MAP, Work.REMEMBER) for vertex in case.vertices):
        return case
    return replace(
        case,
        vertices=tuple(
            replace(each, record_bytes=(each.record_bytes[0], min(LONGEST_KEY, each.record_bytes[1])))
            for each in case.vertices
        ),
    )


def _settled(chance: random.Random, case: StormCase) -> StormCase:
    """The case with what depends on the job: little memory for some, and times that have to suffice."""
    case = replace(case, costs=draw_costs(chance, case))
    if chance.random() < 0.15:
        case = replace(case, config=with_scarce_memory(chance, case))
    if not case.patient:
        timeout = idle_checkpoint_s(case) * chance.uniform(1.5, 4.0)
        case = replace(case, config=replace(case.config, checkpoint_timeout_s=timeout))
    if case.config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
        case = _comparable(case)
    return _flowing(case)


def _flowing(case: StormCase) -> StormCase:
    """A case that does not come to a standstill as a real job would.

    Where paths meet again, a barrier that overtakes on one may have to wait on an exchange that stays
    aligned for the one on the other; and its task cannot send that in the middle of a record that finds no
    buffers, since nobody reads behind the waiting barrier. So there, records fit into one buffer, and nothing
    is held back to be emitted all at once.
    """
    if not (paths_meet(case) and case.config.takes_unaligned_checkpoints):
        return case
    least = max(256, case.config.min_segment_bytes)
    return replace(
        case,
        vertices=tuple(
            replace(at_once(vertex), record_bytes=(8, min(60, vertex.record_bytes[1])))
            for vertex in case.vertices
        ),
        config=replace(
            case.config,
            min_segment_bytes=least,
            starting_segment_bytes=max(least, case.config.starting_segment_bytes),
        ),
    )


def _comparable(case: StormCase) -> StormCase:
    """A case whose output still tells something if records are processed twice.

    Of a sum then only its bound is known, so nothing may be made of it but output.
    """
    others = {source for source, target, _ in case.edges if case.vertex(target).work is not Work.SINK}
    return replace(
        case,
        vertices=tuple(
            replace(vertex, work=Work.PASS) if vertex.work in SUMS and vertex.name in others else vertex
            for vertex in case.vertices
        ),
    )


def draw_continuation(chance: random.Random, case: StormCase) -> Continuation | None:
    """Return how a case goes on, if it does: not where memory was counted out for the parallelism it has."""
    scarce = case.config.network_memory_max_bytes != NetworkConfig().network_memory_max_bytes
    is_noted = any(vertex.work in (Work.REMEMBER, Work.COUNT) for vertex in case.vertices)
    if scarce or chance.random() > (_CONTINUED_NOTED if is_noted else _CONTINUED):
        return None
    numbers = {vertex.name: chance.choice(_NEXT_PARALLELISMS) for vertex in case.vertices}
    kept = {vertex.name: vertex.parallelism for vertex in case.vertices if _is_fixed(case, vertex)}
    pairs = [(source, target) for source, target, ship in case.edges if ship == ShipStrategy.FORWARD]
    for source, target in pairs:
        numbers[target] = numbers[source]
    if any((numbers | kept)[source] != (numbers | kept)[target] for source, target in pairs):
        kept |= {name: case.vertex(name).parallelism for pair in pairs for name in pair}
    numbers |= kept
    stopped_at_s = estimate_s(case) * chance.uniform(0.01, 0.5)
    savepoint = chance.choice((None, None, None, *SavepointFormat))
    killed = savepoint is None and chance.random() < 0.5
    back = 0 if savepoint is not None or chance.random() < 0.7 else chance.randint(1, 3)
    return Continuation(
        stopped_at_s=stopped_at_s,
        parallelism=tuple(numbers.values()),
        savepoint=savepoint,
        killed=killed,
        back=back,
    )


def _is_fixed(case: StormCase, vertex: StormVertex) -> bool:
    """Whether the output would be another one, or a key of several subtasks, at another parallelism."""
    ships = {ship for _, ship in case.inputs(vertex)}
    return ShipStrategy.BROADCAST in ships or (vertex.work in KEYED and ships != {ShipStrategy.HASH})


GENEROUS_S = 12.0
"""A time within which a checkpoint is complete unless a fault is in its way; in emulated seconds."""

ENDLESS = 1_000_000
"""More failures than a job can have."""

TABLES = 0.03
"""Share of the jobs with keyed state that keep it in RocksDB, where that is installed."""

_TABLE_BYTES = 4 << 10
"""About what the files of a subtask's tables take beside what is in them."""

_POLICIES = ("flink", *STUDIED)
"""By name, with Flink's twice as often as each other."""

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


_KILLS = ((0, 30), (1, 48), (2, 18), (3, 3), (5, 1))
_OTHERS = ((0, 40), (1, 38), (2, 16), (3, 3), (5, 1))


Draw = Callable[[random.Random, StormCase, Moment], Fault]


def lasts_for_good(faults: Sequence[Fault]) -> bool:
    """Whether one of the faults, once it has fired, is never over."""
    return any(isinstance(fault, CutLink | FillStorage) and fault.for_s is None for fault in faults)


def draw_faults(chance: random.Random, case: StormCase, longest_s: float) -> tuple[Fault, ...]:
    """None to ten faults, most of them early in a job of at most `longest_s` seconds.

    Some kill a subtask while the job recovers from what was killed before.
    """
    kinds = _kills(chance) + _others(chance, case)
    chance.shuffle(kinds)
    faults = [draw(chance, case, _moment(chance, case, longest_s)) for draw in kinds]
    for fault in list(faults):
        if isinstance(fault, KillSubtask) and isinstance(fault.when, AtTime) and chance.random() < 0.25:
            delay_s = max(0.001, case.config.restart_delay_s)
            recovering = AtTime(fault.when.time_s + delay_s + chance.choice((0.0, 1e-5, 1e-3, 1e-2)))
            faults.append(_kill(chance, case, recovering))
    return tuple(faults)


def draw_read_trouble(chance: random.Random) -> tuple[ReadTrouble, ...]:
    """None, or a few files that cannot be read when a job comes back."""
    if chance.random() > 0.06:
        return ()
    numbers = chance.sample(range(1, 30), chance.randint(1, 3))
    return tuple(ReadTrouble(number=number, damaged=chance.random() < 0.5) for number in sorted(numbers))


def draw_neighbours(chance: random.Random, case: StormCase, longest_s: float) -> tuple[Neighbour, ...]:
    """None, or pools of other jobs that come to the task managers of this one, and go again."""
    if chance.random() > 0.3:
        return ()
    managers = sorted({manager for vertex in case.vertices for manager in vertex.managers})
    return tuple(
        Neighbour(
            task_manager=chance.choice(managers),
            comes_at_s=chance.random() ** 2 * longest_s,
            stays_s=0.01 * 30 ** chance.random(),
            segments=chance.randint(1, 12),
        )
        for _ in range(chance.randint(1, 4))
    )


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
    return KillTaskManager(when=when, task_manager=chance.choice(chance.choice(case.vertices).managers))


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
    producer = first if ShipStrategy.of(ship).pointwise else chance.randrange(producers)
    return SubtaskName(source, producer), SubtaskName(target, consumer)


def _subtask(chance: random.Random, case: StormCase) -> SubtaskName:
    vertex = chance.choice(case.vertices)
    return SubtaskName(vertex.name, chance.randrange(vertex.parallelism))


def _links(case: StormCase) -> list[tuple[str, str]]:
    """The pairs of task managers that records go between."""
    pairs = set[tuple[str, str]]()
    for source, target, ship in case.edges:
        producer, consumer = case.vertex(source), case.vertex(target)
        reached = consumers_of_producers(ship, producer.parallelism, consumer.parallelism)
        for subtask, consumers in enumerate(reached):
            pairs.update((producer.manager_of(subtask), consumer.manager_of(each)) for each in consumers)
    return sorted(pair for pair in pairs if pair[0] != pair[1])


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
