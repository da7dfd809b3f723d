"""Draws the case of a storm from its seed: the job, its settings, and what disturbs it.

Disturbances come in gusts: several at nearly the same moment, so that they meet. A gust may cut a link twice
and kill a task manager meanwhile, or change the debloating policy while barriers are under way. Load is
limited so that an undisturbed job ends after a few seconds, and all disturbances end. A job that does not end
has a defect.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from benches.studied_policies import STUDIED
from flowcontrol import SavepointFormat
from integration.base.extras import is_installed
from netstack import (
    MESSAGES,
    PRESETS,
    AtTime,
    ChangelogStorage,
    ChannelItem,
    CheckpointMode,
    CollectionSource,
    CostModel,
    CutLink,
    DelayMessages,
    DropMessages,
    Edge,
    FailoverStrategy,
    FailUpload,
    Fault,
    FillStorage,
    KillSubtask,
    KillTaskManager,
    LinkConditions,
    Moment,
    NetworkConfig,
    OnAcknowledgement,
    OnChannel,
    Outage,
    RestartStrategy,
    Scenario,
    ScheduledChange,
    SourceObject,
    StateBackendType,
    SubtaskName,
    Vertex,
    check_scenario,
    standstills,
)

from .case import COUNTS_EACH, KEYED, Continuation, StormCase, Work
from .operators import draw_records, key_hash

DURATION_S = 200.0
"""Duration of a job that does not end by itself; it would be a defect."""

GENEROUS_S = 15.0
"""Timeout of a checkpoint that expires only if a message was lost."""

MANY = 1_000_000
"""More failures than a job can have."""

_T = TypeVar("_T")
_WORKS = [work for work in Work if work not in (Work.SOURCE, Work.SINK)]
_POLICIES = sorted((*STUDIED, "per-channel"), key=STUDIED.index)
"""Names of the debloating policies; the one that counts polled buffers twice as often as each other."""

_CHANGE_KINDS = ("policy", "policy", "debloating", "barriers", "times", "selection", "service", "rate")


def draw_case(seed: int) -> StormCase:
    """Return the case of a seed, which is a pure function of it."""
    chance = random.Random(f"storm {seed}")
    mode = _weighted(chance, (("at least once", 14), ("aligned", 26), ("unaligned", 34), ("timeout", 26)))
    config = _draw_config(chance, mode)
    slow_storage = chance.random() < 0.35
    if slow_storage:
        config = _with_slow_materialisation(chance, config)
    for _ in range(9):
        vertices, edges, works, records = _draw_job(chance, mode, slow_storage=slow_storage)
        parallelism = {vertex.name: vertex.parallelism for vertex in vertices}
        if not any(standstills(edges, parallelism, parallelism)):
            break
    else:  # unaligned checkpoints could deadlock the job, as in Flink
        config = replace(config, unaligned_enabled=False, aligned_checkpoint_timeout_s=0.0)
    scenario = Scenario(
        name=f"storm {seed}",
        seed=seed,
        duration_s=DURATION_S,
        vertices=vertices,
        edges=edges,
        preset=chance.choice(list(PRESETS)),
        config=config,
        link=_draw_link(chance, config),
        costs=_draw_costs(chance, sum(map(len, _flat(records))), slow_storage=slow_storage),
    )
    scenario = _with_scarce_memory(chance, scenario) if chance.random() < 0.15 else scenario
    scenario = _with_gusts(chance, scenario)
    scenario = _with_outage(random.Random(f"outage of storm {seed}"), scenario)
    check_scenario(scenario)
    return StormCase(seed, scenario, works, records, _draw_continuation(chance, scenario, works))


def _weighted(chance: random.Random, choices: Sequence[tuple[_T, float]]) -> _T:
    return chance.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]


def _flat(records: Mapping[str, Sequence[Sequence[bytes]]]) -> Iterator[bytes]:
    return (record for parts in records.values() for part in parts for record in part)


# The job

Job = tuple[tuple[Vertex, ...], tuple[Edge, ...], dict[str, Work], dict[str, list[list[bytes]]]]
"""Vertices, edges, the work of each vertex, and the records of each source."""


def _draw_job(chance: random.Random, mode: str, *, slow_storage: bool) -> Job:
    """Return a job: one pipeline, rows of subtasks that restart independently, or two pipelines.

    `slow_storage`: the job has much keyed state, which grows for a second or two.
    """
    regions = _weighted(chance, (("one", 7), ("rows", 0 if slow_storage else 2), ("two", 2)))
    vertices, edges, works, records = _draw_pipeline(
        chance, mode, "", in_rows=regions == "rows", slow_storage=slow_storage
    )
    if regions == "two":
        more = _draw_pipeline(chance, mode, "other ", in_rows=False, slow_storage=False)
        return (*vertices, *more[0]), (*edges, *more[1]), works | more[2], records | more[3]
    return vertices, edges, works, records


def _draw_pipeline(
    chance: random.Random, mode: str, prefix: str, *, in_rows: bool, slow_storage: bool
) -> Job:
    works = [each for each in _WORKS if mode != "at least once" or each not in COUNTS_EACH]
    works = [each for each in works if not in_rows or each not in KEYED]
    layers = [[(f"{prefix}source{number}", Work.SOURCE) for number in range(_weighted(chance, _FEW))]]
    if len(layers[0]) == 1 and chance.random() < 0.3:
        layers.append([(f"{prefix}branch{number}", chance.choice(works)) for number in range(2)])
    for number in range(chance.randint(0, 2)):
        layers.append([(f"{prefix}step{number}", chance.choice(works))])
    if slow_storage:
        layers[1:1] = [[(f"{prefix}state", chance.choice((Work.GATHER, Work.GATHER_IN_MAP)))]]
    layers.append([(f"{prefix}sink", Work.SINK)])
    managers, rows = _managers(chance), chance.randint(2, 4)
    records: dict[str, list[list[bytes]]] = {}
    made: dict[str, tuple[Vertex, float]] = {}  # each vertex, and the number of records that it emits
    edges: list[Edge] = []
    by_event_time = chance.random() < 0.4
    is_fast = not slow_storage and chance.random() < 0.4
    for place, layer in enumerate(layers):
        for name, work in layer:
            parallelism = rows if in_rows else _weighted(chance, ((1, 3), (2, 5), (3, 3), (4, 2)))
            vertex = Vertex(name=name, parallelism=parallelism, task_manager=next(managers))
            if work is Work.SOURCE:
                records[name] = parts = _draw_parts(chance, name, parallelism)
                vertex = replace(vertex, source=_source(chance, parts, is_fast, by_event_time))
                made[name] = vertex, sum(map(len, parts))
                continue
            read = 0.0
            for producer, emitted in (made[each] for each, _ in layers[place - 1]):
                ship = _ship(chance, producer, vertex, work, in_rows)
                edges.append(Edge(source=producer.name, target=name, ship=ship, key_hash=key_hash))
                read += emitted * (parallelism if ship == "broadcast" else 1)
            emits = read * (2 if work in (Work.COPY, Work.COUNT, Work.EMIT) else 1)
            made[name] = _working(chance, vertex, work, read, by_event_time), emits
    vertices = tuple(vertex for vertex, _ in made.values())
    if not any(vertex.emits_by_event_time for vertex in vertices):
        vertices = tuple(
            replace(vertex, source=replace(vertex.source, out_of_orderness_s=None))
            if isinstance(vertex.source, SourceObject)
            else vertex
            for vertex in vertices
        )
    return vertices, tuple(edges), {name: work for layer in layers for name, work in layer}, records


_FEW = ((1, 6), (2, 3), (3, 1))


def _managers(chance: random.Random) -> Iterator[str | tuple[str, ...]]:
    """Yield the task managers of one vertex after the other."""
    how, number = _weighted(chance, (("own", 5), ("any", 3), ("shared", 3))), 0
    while True:
        number += 1
        first = chance.randint(1, 3)
        if how == "shared":
            yield tuple(f"tm{1 + (first + each) % 3}" for each in range(chance.randint(1, 3)))
        else:
            yield f"tm{number if how == 'own' else first}"


def _draw_parts(chance: random.Random, name: str, parallelism: int) -> list[list[bytes]]:
    largest = _weighted(chance, ((12, 8), (60, 30), (800, 30), (9_000, 28), (40_000, 6)))
    most = min(round(12 * 12 ** chance.random()), max(6, 600_000 // (largest * parallelism)))
    counts = [max(1, round(most * chance.choice((1, 1, 1, 0.3, 0.05)))) for _ in range(parallelism)]
    return [draw_records(chance, name, subtask, count, largest) for subtask, count in enumerate(counts)]


def _source(
    chance: random.Random, parts: Sequence[Sequence[bytes]], is_fast: bool, by_event_time: bool
) -> SourceObject:
    longest = max(map(len, parts))
    return SourceObject(
        source=CollectionSource(parts, key_hash),
        rates=(0.0,) if is_fast else (longest / chance.uniform(0.6, 2.5),),
        out_of_orderness_s=chance.choice((0.0, 0.05)) if by_event_time else None,
    )


def _ship(chance: random.Random, producer: Vertex, consumer: Vertex, work: Work, in_rows: bool) -> str:
    if work in KEYED:
        return "hash"
    equal = producer.parallelism == consumer.parallelism
    if in_rows:
        return chance.choice(("forward", "rescale"))
    if chance.random() < 0.2:
        return "broadcast"
    return chance.choice(("rescale", "rebalance", "hash", "forward" if equal else "hash"))


def _working(chance: random.Random, vertex: Vertex, work: Work, read: float, by_event_time: bool) -> Vertex:
    """Return a vertex with the cost of its records, at most about a second for all of them."""
    service_s = chance.choice((0.0, 2e-5, chance.uniform(0.1, 1.0) / read, chance.uniform(0.1, 1.0) / read))
    vertex = replace(
        vertex,
        service=((0.0, service_s),) if service_s else (),
        service_skew=(1.0, chance.choice((0.0, 0.2, 1.0, 2.0))),
        service_mode=chance.choice(("throttle", "exact")),
    )
    if work is not Work.EMIT:
        return vertex
    holds = chance.random() < 0.6
    return replace(
        vertex,
        selectivity=2.0,
        emit_every_s=0.005 * 60 ** chance.random() if holds else None,
        emit_by="event_time" if holds and by_event_time else "processing_time",
    )


# Settings


def _draw_config(chance: random.Random, mode: str) -> NetworkConfig:
    segment = _weighted(chance, ((1024, 24), (2048, 12), (4096, 10), (32 << 10, 2)))
    timeout = chance.random() < 0.85
    unaligned = mode in ("unaligned", "timeout")
    config = NetworkConfig(
        segment_bytes=segment,
        min_segment_bytes=chance.choice((256, segment)),
        starting_segment_bytes=chance.choice((256, 1024, segment)),
        # A finished buffer may wait for the next one, and must not keep the only floating buffer.
        exclusive_buffers_per_channel=chance.randint(0 if timeout else 1, 3),
        floating_buffers_per_gate=chance.randint(1, 8),
        max_buffers_per_channel=chance.choice((2, 2, 3, 10)),
        max_overdraft_buffers_per_gate=chance.choice((0, 0, 1, 5)),
        max_required_buffers_per_gate=chance.randint(1, 8) if timeout and chance.random() < 0.1 else None,
        buffer_timeout_enabled=timeout,
        buffer_timeout_interval_s=chance.choice((0.0, 0.01, 0.01, 0.1)),
        debloat_enabled=chance.random() < 0.6,
        debloat_period_s=chance.choice((0.02, 0.1)),
        debloat_target_s=chance.choice((0.005, 0.05, 0.3)),
        debloat_samples=chance.choice((1, 3, 20)),
        debloat_threshold_percent=chance.choice((0, 25, 50)),
        debloat_policy=chance.choice(_POLICIES),
        adaptive_partitioner_enabled=chance.random() < 0.25,
        adaptive_partitioner_max_traverse_size=chance.randint(2, 4),
        auto_watermark_interval_s=chance.choice((0.005, 0.05)),
        checkpoint_mode=CheckpointMode(
            CheckpointMode.AT_LEAST_ONCE if mode == "at least once" else CheckpointMode.EXACTLY_ONCE
        ),
        checkpoint_interval_s=0.012 * 15 ** chance.random(),
        checkpoint_timeout_s=GENEROUS_S,
        checkpoint_min_pause_s=chance.choice((0.0, 0.0, 0.005, 0.05)),
        max_concurrent_checkpoints=1 if unaligned else chance.choice((1, 2, 5)),
        tolerable_failed_checkpoints=chance.choice((0, 1, 3, MANY, MANY)),
        unaligned_enabled=unaligned,
        aligned_checkpoint_timeout_s=chance.choice((0.001, 0.01, 0.05, 0.3)) if mode == "timeout" else 0.0,
        checkpoints_after_tasks_finish=chance.random() < 0.95,
        retained_checkpoints=chance.choice((1, 1, 2, 4)),
        state_memory_threshold_bytes=chance.choice((0, 100, 20 << 10)),
        heartbeat_timeout_s=chance.choice((0.1, 0.3, 1.0)),
        failover_strategy=_weighted(chance, ((FailoverStrategy.REGION, 5), (FailoverStrategy.FULL, 1))),
    )
    recovered = chance.random()
    config = replace(
        config,
        recover_output_on_downstream=recovered < 0.4,
        checkpoints_during_recovery=recovered < 0.25,
    )
    return _with_restarts(chance, _with_state(chance, config))


def _with_restarts(chance: random.Random, config: NetworkConfig) -> NetworkConfig:
    strategies = (
        (RestartStrategy.EXPONENTIAL_DELAY, 16),
        (RestartStrategy.FIXED_DELAY, 2),
        (RestartStrategy.FAILURE_RATE, 1),
        (RestartStrategy.NONE, 1),
    )
    delay, often = chance.choice((0.0, 0.01, 0.2)), chance.randint(1, 3)
    return replace(
        config,
        restart_strategy=_weighted(chance, strategies),
        restart_attempts=often,
        restart_delay_s=delay,
        restart_initial_backoff_s=max(delay, 0.001),
        restart_max_backoff_s=0.5,
        restart_max_failures_per_interval=often,
        restart_failure_rate_interval_s=1.0,
        restart_failure_rate_delay_s=delay,
    )


def _with_state(chance: random.Random, config: NetworkConfig) -> NetworkConfig:
    tables = chance.random() < 0.03 and is_installed("rocksdb")
    return replace(
        config,
        state_backend=StateBackendType.ROCKSDB if tables else StateBackendType.HASHMAP,
        incremental_checkpoints=chance.random() < 0.7,
        rocksdb_write_buffer_bytes=chance.choice((1 << 10, 64 << 20)),
        changelog_enabled=chance.random() < 0.6,
        changelog_storage=_weighted(chance, ((ChangelogStorage.FILESYSTEM, 3), (ChangelogStorage.MEMORY, 1))),
        materialize_enabled=chance.random() < 0.9,
        materialize_interval_s=0.005 * 40 ** chance.random(),
        materialize_max_failures=MANY,
    )


def _with_slow_materialisation(chance: random.Random, config: NetworkConfig) -> NetworkConfig:
    """Return settings with which several checkpoints complete during one materialisation."""
    return replace(
        config,
        checkpoint_interval_s=0.012 * 2 ** chance.random(),
        checkpoint_min_pause_s=0.0,
        changelog_enabled=True,
        changelog_storage=ChangelogStorage.FILESYSTEM,
        materialize_enabled=True,
        materialize_interval_s=0.02 * 5 ** chance.random(),
    )


def _draw_link(chance: random.Random, config: NetworkConfig) -> LinkConditions:
    latency_s = chance.choice((0.0, 0.0, 0.0002, 0.002))
    if config.exclusive_buffers_per_channel > 1 and config.min_segment_bytes >= 1024:
        latency_s = chance.choice((latency_s, 0.01))
    bandwidth = None if chance.random() < 0.7 else chance.choice((2e6, 2e7))
    return LinkConditions(latency_s=latency_s, bandwidth_bytes_per_s=bandwidth)


def _draw_costs(chance: random.Random, record_bytes: int, *, slow_storage: bool) -> CostModel:
    """Return the costs of the machine, often with a storage that takes long for all state."""
    if not slow_storage and chance.random() < 0.6:
        return CostModel()
    rate = record_bytes / chance.uniform(0.1, 1.0)
    return CostModel(
        upload_rate_bytes_per_s=rate,
        download_rate_bytes_per_s=2 * rate,
        state_file_s=chance.choice((0.001, 0.005, 0.02)),
        materialize_start_s=chance.choice((0.001, 0.02)),
    )


def _with_scarce_memory(chance: random.Random, scenario: Scenario) -> Scenario:
    """Return a scenario whose task managers have little more memory than the job needs to start.

    Overdraft buffers would come from the guaranteed buffers of others, so there are none.
    """
    config = replace(scenario.config, max_overdraft_buffers_per_gate=0)
    needed = dict.fromkeys(scenario.task_managers, 0)
    for edge in scenario.edges:
        producer, consumer = scenario.vertex(edge.source), scenario.vertex(edge.target)
        least, _ = edge.buffers.pool(config, consumer.parallelism)
        gate = edge.buffers.gate(config, producer.parallelism)
        for subtask in range(producer.parallelism):
            needed[producer.manager_of(subtask)] += least
        for subtask in range(consumer.parallelism):
            exclusive = gate.exclusive_per_channel * producer.parallelism
            needed[consumer.manager_of(subtask)] += exclusive + gate.required_floating
    segments = max(needed.values()) + chance.randint(0, 12)
    return replace(scenario, config=replace(config, network_memory_max_bytes=segments * config.segment_bytes))


# Disturbances

Gust = tuple[list[Fault], list[ScheduledChange]]


def _with_gusts(chance: random.Random, scenario: Scenario) -> Scenario:
    """Return the scenario with its disturbances."""
    faults: list[Fault] = []
    changes: list[ScheduledChange] = []
    if chance.random() < 0.3:  # checkpoints have little time at first, and most are aborted
        scenario = replace(
            scenario,
            config=replace(
                scenario.config,
                checkpoint_timeout_s=chance.uniform(0.015, 0.15),
                tolerable_failed_checkpoints=MANY,
            ),
        )
        enough = ScheduledChange(
            at_s=chance.uniform(0.3, 1.2), settings=(("checkpoint_timeout_s", GENEROUS_S),)
        )
        changes.append(enough)
    for _ in range(_weighted(chance, ((0, 1), (1, 4), (2, 4), (3, 2)))):
        at_s = 1.5 * chance.random()
        for _ in range(chance.randint(1, 4)):
            draw = chance.choice((_kills, _kills, _cuts, _cuts, _messages, _storage, _change, _change))
            more = draw(chance, scenario, at_s + chance.choice((0.0, 1e-4, 1e-3, 0.01, 0.05)))
            faults += more[0]
            changes += more[1]
    return replace(scenario, faults=tuple(faults), changes=tuple(changes))


def _with_outage(chance: random.Random, scenario: Scenario) -> Scenario:
    """Return the scenario, in some cases with an outage of the whole job."""
    if chance.random() > 0.15:
        return scenario
    when: Moment = AtTime(1.5 * chance.random()) if chance.random() < 0.6 else _counted(chance, scenario)
    outage = Outage(when=when, for_s=0.02 * 40 ** chance.random())
    return replace(scenario, faults=(*scenario.faults, outage))


def _kills(chance: random.Random, scenario: Scenario, at_s: float) -> Gust:
    """Kill a subtask or a task manager, perhaps another one during the recovery."""
    when: Moment = AtTime(at_s)
    if chance.random() < 0.4:
        when = _counted(chance, scenario)
    kills = [_kill(chance, scenario, when)]
    if chance.random() < 0.4:
        recovering_s = scenario.config.restart_delay_s + chance.choice((0.0, 0.07, 0.09, 0.1, 0.15))
        kills.append(_kill(chance, scenario, AtTime(at_s + recovering_s + chance.random() * 0.01)))
    return kills, []


def _kill(chance: random.Random, scenario: Scenario, when: Moment) -> Fault:
    if chance.random() < 0.5:
        return KillTaskManager(when=when, task_manager=chance.choice(scenario.task_managers))
    return KillSubtask(when=when, subtask=_subtask(chance, scenario))


def _counted(chance: random.Random, scenario: Scenario) -> Moment:
    """Return the moment of an acknowledgement, of a barrier or of a buffer of a channel."""
    if chance.random() < 0.4:
        return OnAcknowledgement(number=chance.randint(1, 7), subtask=_subtask(chance, scenario))
    edge = chance.choice(scenario.edges)
    producer = chance.randrange(scenario.vertex(edge.source).parallelism)
    consumer = chance.choice(scenario.consumers_reached(edge)[producer])
    item = chance.choice(list(ChannelItem))
    return OnChannel(
        item=item,
        number=chance.randint(1, 6),
        source=SubtaskName(edge.source, producer),
        target=SubtaskName(edge.target, consumer),
    )


def _subtask(chance: random.Random, scenario: Scenario) -> SubtaskName:
    vertex = chance.choice(scenario.vertices)
    return SubtaskName(vertex.name, chance.randrange(vertex.parallelism))


def _cuts(chance: random.Random, scenario: Scenario, at_s: float) -> Gust:
    """Cut a link, perhaps a second time before the first cut ends: it may last longer or shorter."""
    links = links_of(scenario)
    if not links:
        return [], []
    one, other = chance.choice(links)
    first_s = 0.02 * 60 ** chance.random()
    cuts: list[Fault] = [
        CutLink(when=AtTime(at_s), from_task_manager=one, to_task_manager=other, for_s=first_s)
    ]
    if chance.random() < 0.6:
        later_s = at_s + first_s * chance.random()
        cut = CutLink(
            when=AtTime(later_s),
            from_task_manager=one,
            to_task_manager=other,
            for_s=first_s * chance.uniform(0.05, 1.2),
        )
        cuts.append(cut)
    if chance.random() < 0.4:
        cuts.append(_kill(chance, scenario, AtTime(at_s + first_s * chance.random())))
    return cuts, []


def links_of(scenario: Scenario) -> list[tuple[str, str]]:
    """Return the links that carry records, each as a pair of task managers, the producer's first."""
    ends = {pair for edge in scenario.edges for pair in scenario.channel_ends(edge)}
    return sorted(pair for pair in ends if pair[0] != pair[1])


def _messages(chance: random.Random, scenario: Scenario, at_s: float) -> Gust:
    """Delay or drop one kind of messages between coordinator and tasks."""
    when: Moment = AtTime(at_s) if chance.random() < 0.6 else _counted(chance, scenario)
    name = _subtask(chance, scenario)
    vertex, subtask = chance.choice(((None, None), (name.vertex, None), (name.vertex, name.subtask)))
    kind, for_s = chance.choice(MESSAGES), 0.02 * 20 ** chance.random()
    if chance.random() < 0.5:
        return [DropMessages(when=when, messages=kind, for_s=for_s, vertex=vertex, subtask=subtask)], []
    delay_s = 0.005 * 60 ** chance.random()
    fault = DelayMessages(
        when=when, messages=kind, delay_s=delay_s, for_s=for_s, vertex=vertex, subtask=subtask
    )
    return [fault], []


def _storage(chance: random.Random, scenario: Scenario, at_s: float) -> Gust:
    """Let uploads fail, or fill the storage."""
    fault = chance.choice((FailUpload, FillStorage))
    return [fault(when=AtTime(at_s), for_s=0.02 * 30 ** chance.random())], []


def _change(chance: random.Random, scenario: Scenario, at_s: float) -> Gust:
    """Change settings of the running job, the cost of records, or the rate of a source."""
    config, kind = scenario.config, chance.choice(_CHANGE_KINDS)
    settings: dict[str, Any] = {}
    match kind:
        case "policy" | "debloating":
            settings["debloat_enabled"] = kind == "policy" or chance.random() < 0.5
            settings["debloat_policy"] = chance.choice(_POLICIES)
            settings["debloat_target_s"] = chance.choice((0.005, 0.05, 0.3))
            if not settings["debloat_enabled"]:
                settings = {"debloat_enabled": False}
        case "barriers" if config.unaligned_enabled:
            settings["unaligned_enabled"] = chance.random() < 0.7
            settings["aligned_checkpoint_timeout_s"] = chance.choice((0.0, 0.001, 0.05))
        case "times":
            settings["checkpoint_interval_s"] = 0.012 * 15 ** chance.random()
            settings["checkpoint_min_pause_s"] = chance.choice((0.0, 0.02))
        case "selection":
            settings["adaptive_partitioner_enabled"] = chance.random() < 0.5
        case "service":
            steps = [vertex for vertex in scenario.vertices if vertex.service]
            if steps:
                vertex = chance.choice(steps)
                cost = vertex.service[0][1] * chance.choice((0.1, 3.0))
                return [], [ScheduledChange(at_s=at_s, vertex=vertex.name, service_s=cost)]
        case "rate":
            source = chance.choice([vertex for vertex in scenario.vertices if vertex.source is not None])
            if source.rate(0):
                rates = (source.rate(0) * chance.choice((0.5, 10.0)),)
                return [], [ScheduledChange(at_s=at_s, vertex=source.name, rates=rates)]
    return [], [ScheduledChange(at_s=at_s, settings=tuple(settings.items()))] if settings else []


# A second run


def _draw_continuation(
    chance: random.Random, scenario: Scenario, works: Mapping[str, Work]
) -> Continuation | None:
    """Return how another run continues the job; None for most cases, and if memory is scarce."""
    if chance.random() > 0.3 or scenario.config.network_memory_max_bytes is not None:
        return None
    keep = {edge.target for edge in scenario.edges if edge.ship == "broadcast"}
    keep |= {name for edge in scenario.edges if edge.ship == "forward" for name in (edge.source, edge.target)}
    numbers = tuple(
        vertex.parallelism if vertex.name in keep else chance.choice((1, 2, 3, 4, 6))
        for vertex in scenario.vertices
    )
    parallelism = {vertex.name: number for vertex, number in zip(scenario.vertices, numbers, strict=True)}
    if scenario.config.unaligned_enabled and any(standstills(scenario.edges, parallelism, parallelism)):
        return None
    savepoint = chance.choice((None, None, *SavepointFormat))
    return Continuation(0.05 + 1.5 * chance.random(), numbers, savepoint)
