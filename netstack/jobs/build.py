"""Builds the subtasks of a scenario and connects them: pools, partitions, gates, connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Protocol

from buffers import (
    UNLIMITED_SIZE,
    GateBuffersSpec,
    InsufficientBuffers,
    NetworkBufferPool,
    PipelinedSubpartition,
    gate_segments,
)

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.pending_checkpoint import UpstreamTask
from ..engine.cores import Cores
from ..exchange.connection import ConsumerEnd, Notifier, ProducerEnd, WritingNotifier
from ..exchange.emulated_link import EmulatedLink
from ..exchange.gate import InputGate
from ..exchange.local_channel import LocalInputChannel
from ..exchange.partition import ResultPartition
from ..exchange.remote_channel import RemoteInputChannel
from ..exchange.selectors import (
    ChannelSelector,
    Fraction,
    MeasuredShares,
    RoundRobin,
    SelectorTerms,
    selector_of,
)
from ..scenarios.changes import ScheduledChange
from ..scenarios.config_rules import debloater_of
from ..scenarios.costs import LinkConditions
from ..scenarios.record_contents import contents_of
from ..scenarios.scenario import Edge, Scenario, Vertex
from ..scenarios.ship_strategies import (
    aligned_readers,
    producers_of_consumers,
    producers_read,
    subpartition_counts,
)
from ..scenarios.user_code import KeyHash
from ..scenarios.value_kinds import Subsystem
from ..tasks.operator_subtask import OperatorSubtask
from ..tasks.source_log import pace_of
from ..tasks.source_subtask import SourceSubtask
from ..tasks.subtask import Subtask
from ..tasks.subtask_environment import Environment, Output, RemoteSubtask
from .subtask_maker import EnvironmentOf, SubtaskMaker, calls_of, key_hash_of

__all__ = ["gates_of", "partitions_of", "plan_segments", "required_segments"]

Find = Callable[[int], PipelinedSubpartition]
"""Returns the subpartition of the channel with this number; raises LookupError if this process has none."""


class Connections(Protocol):
    """The connections of the task managers that this process hosts."""

    def reading(self, consumer: str, producer: str) -> ConsumerEnd:
        """Return the end at which task manager `consumer` reads from `producer`."""

    @property
    def producers(self) -> Iterable[ProducerEnd]:
        """All ends that send buffers."""

    @property
    def consumers(self) -> Iterable[ConsumerEnd]:
        """All ends that receive buffers."""

    @property
    def links(self) -> Mapping[tuple[str, str], EmulatedLink]:
        """The links that can be cut, by the task managers of producer and consumer."""


class Site(NamedTuple):
    """The task manager that this process builds, and a function that connects it to other task managers."""

    task_manager: str
    connect: Callable[[Find], Connections]


class EmulatedConnections:
    """Connections between task managers that all run in this process.

    `cores_of` returns the cores of a task manager, if tasks share them with the network; otherwise None.
    """

    def __init__(
        self,
        environment: Environment,
        conditions: LinkConditions,
        find: Find,
        cores_of: Callable[[str], Cores] | None = None,
    ) -> None:
        self.links: dict[tuple[str, str], EmulatedLink] = {}
        self.producers: list[ProducerEnd] = []
        self.consumers: list[ConsumerEnd] = []
        self._environment = environment
        self._conditions = conditions
        self._find = find
        self._cores_of = cores_of
        self._reading: dict[tuple[str, str], ConsumerEnd] = {}

    def reading(self, consumer: str, producer: str) -> ConsumerEnd:
        """Return the end at which task manager `consumer` reads from `producer`."""
        pair, given = (producer, consumer), self._environment
        if pair not in self._reading:
            agenda, costs, randomness = given.agenda, given.costs, given.randomness
            cores_of = self._cores_of
            cores = None if cores_of is None else (cores_of(producer), cores_of(consumer))
            link = self.links[pair] = EmulatedLink(agenda, costs, self._conditions, randomness, pair, cores)
            notify = Notifier(agenda, costs, randomness.jitter("producer notifier", *pair))
            self.producers.append(ProducerEnd(link.producing, notify, self._find))
            jitter = randomness.jitter("consumer notifier", *pair)
            writing = WritingNotifier(agenda, costs, jitter, link.to_producer)
            self._reading[pair] = receiving = ConsumerEnd(
                link.consuming, writing, max_backoff_s=given.config.request_backoff_max_s
            )
            self.consumers.append(receiving)
        return self._reading[pair]


def plan_segments(scenario: Scenario) -> dict[str, int]:
    """Return the number of segments of each task manager's network memory.

    This is the configured size, if any. Otherwise it is the maximum that its pools can use, so that memory is
    never short.
    """
    limit = scenario.config.network_memory_max_bytes
    if limit is not None:
        return dict.fromkeys(scenario.task_managers, limit // scenario.config.segment_bytes)
    needed = dict.fromkeys(scenario.task_managers, 0)
    for manager, _, most in _pool_sizes(scenario):
        needed[manager] += most
    return needed


def required_segments(scenario: Scenario) -> dict[str, int]:
    """Return the number of segments that each task manager needs to start its subtasks: the minima of all its
    pools.
    """
    needed = dict.fromkeys(scenario.task_managers, 0)
    for manager, least, _ in _pool_sizes(scenario):
        needed[manager] += least
    return needed


def check_memory(scenario: Scenario, task_manager: str | None) -> None:
    """Check that the network memory suffices for the tasks of a task manager; None: of all task managers.

    Raises:
        InsufficientBuffers: if it does not suffice. The message names the first such task manager, and the
            needed and configured sizes.
    """
    if scenario.config.network_memory_max_bytes is None:
        return
    segments = plan_segments(scenario)
    for name, required in required_segments(scenario).items():
        if required > segments[name] and task_manager in (None, name):
            total = segments[name]
            raise InsufficientBuffers(required, total, total, scenario.config.segment_bytes, name)


def _pool_sizes(scenario: Scenario) -> Iterator[tuple[str, int, int]]:
    """Yield the task manager, and the minimum and maximum number of segments, of each partition and gate."""
    config = scenario.config
    for edge in scenario.edges:
        for manager, subpartitions in partitions_of(scenario, edge):
            least, _ = edge.buffers.pool(config, subpartitions)
            yield manager, least, edge.buffers.pool_segments(config, subpartitions)
        for manager, spec, remote in gates_of(scenario, edge):
            least = remote * spec.exclusive_per_channel + spec.required_floating
            yield manager, least, gate_segments(spec, remote)


def partitions_of(scenario: Scenario, edge: Edge) -> Iterator[tuple[str, int]]:
    """Yield the task manager and the number of subpartitions of each partition of an edge."""
    producer, consumers = scenario.vertex(edge.source), scenario.vertex(edge.target).parallelism
    counts = subpartition_counts(edge.ship, producer.parallelism, consumers)
    for index, count in enumerate(counts):
        yield producer.manager_of(index), count


def gates_of(scenario: Scenario, edge: Edge) -> Iterator[tuple[str, GateBuffersSpec, int]]:
    """Yield the task manager, the buffers, and the number of remote channels of each gate of an edge.

    The cost grows with the number of subtasks, not with the number of channels.
    """
    producer, consumer = scenario.vertex(edge.source), scenario.vertex(edge.target)
    managers = [producer.manager_of(source) for source in range(producer.parallelism)]
    everywhere = Counter(managers)
    for index in range(consumer.parallelism):
        read = producers_read(edge.ship, producer.parallelism, consumer.parallelism, index)
        manager = consumer.manager_of(index)
        is_all = len(read) == producer.parallelism
        near = everywhere[manager] if is_all else sum(managers[source] == manager for source in read)
        yield manager, edge.buffers.gate(scenario.config, len(read)), len(read) - near


class JobBuilder:
    """Turns a scenario into subtasks that are ready to run: all subtasks, or those of a `site`'s task
    manager.

    After `build`: `subtasks[v][i]` is subtask i of vertex v, in the scenario's order (a vertex that runs in
    another process has an empty list). `gates` holds the gates of all these subtasks, `pools` the network
    memory of each task manager; `connections` lead to other task managers. Channel numbers are the same in
    all processes, whichever part of the job they build. `remove` drops cancelled subtasks and `rebuild`
    creates them again; memory and connections stay. `environment_of` returns the environment of a subtask, if
    subtasks have different ones.
    """

    def __init__(
        self,
        scenario: Scenario,
        environment: Environment,
        site: Site | None = None,
        environment_of: EnvironmentOf | None = None,
    ) -> None:
        self.subtasks: list[list[Subtask]] = []
        self.pools: dict[str, NetworkBufferPool] = {}
        self._scenario = scenario
        self._randomness = environment.randomness
        self._site = site
        self._rebuilding = False
        self._aligned = aligned_readers(scenario.edges)
        self._contents = contents_of(scenario)
        self._maker = SubtaskMaker(scenario, environment, self._is_blank, environment_of)
        self._channels = 0
        self._subpartitions: dict[int, PipelinedSubpartition] = {}
        self.gates: list[InputGate] = []
        find = self._subpartitions.__getitem__
        shares_cores = bool(scenario.machines) and any(vertex.burns for vertex in scenario.vertices)
        cores_of = self._maker.cores_of if shares_cores else None
        self.connections: Connections = (
            EmulatedConnections(environment, scenario.link, find, cores_of)
            if site is None
            else site.connect(find)
        )

    def build(self, max_parallelism: Mapping[str, int] = MappingProxyType({})) -> None:
        """Create all objects; `open_channels` opens the channels.

        `max_parallelism` holds the vertices whose maximum parallelism is not the default.
        """
        scenario = self._scenario
        self._maker.set_max_parallelism(max_parallelism)
        for name, segments in plan_segments(scenario).items():
            if self._site is None or self._site.task_manager == name:
                self.pools[name] = NetworkBufferPool(segments, self._scenario.config.segment_bytes)
        for number, vertex in enumerate(scenario.vertices):
            self.subtasks.append([])  # filled one by one: if one fails, the others can be released
            if self._hosts(vertex):
                make = self._maker.of(vertex)
                for index in range(vertex.parallelism):
                    self.subtasks[number].append(make(number, index))
        check_memory(scenario, None if self._site is None else self._site.task_manager)
        self._wire([(n, index) for n, own in enumerate(self.subtasks) for index in range(len(own))])

    def rebuild(self, tasks: Collection[TaskKey]) -> None:
        """Create some subtasks again, after `remove`.

        These subtasks are connected only with each other. Memory that other tasks still hold is owed to the
        new subtasks (`NetworkBufferPool.owed`).
        """
        self._rebuilding = True
        for number, vertex in enumerate(self._scenario.vertices):
            indices = [index for of, index in tasks if of == number]
            if indices:
                make = self._maker.of(vertex)
                for index in indices:
                    self.subtasks[number][index] = make(number, index)
        self._wire(tasks)

    def change(self, scenario: Scenario, change: ScheduledChange) -> None:
        """Give present and future tasks the settings of `scenario`, which contains `change`."""
        self._scenario = scenario
        self._maker.change(scenario, change)
        if change.concerns(Subsystem.DEBLOATING):
            for gate in self.gates:
                gate.change_debloater(debloater_of(scenario.config, gate.size_in_force))
        if change.concerns(Subsystem.PARTITION_SELECTION):
            for own in self.subtasks:
                for subtask in own:
                    subtask.adapt(scenario.config.adaptive_partitioner_enabled)
        if change.vertex is not None and change.rates:
            vertex = scenario.vertex(change.vertex)
            for subtask in self.subtasks[scenario.vertices.index(vertex)]:
                if isinstance(subtask, SourceSubtask):
                    rate = vertex.rate(subtask.index)
                    subtask.post(partial(subtask.change_rate, rate, pace_of(vertex, rate)))

    def remove(self, tasks: Collection[TaskKey]) -> None:
        """Drop the gates and subpartitions of cancelled subtasks."""
        gone = self._gates_of(tasks)
        for gate in gone:
            for channel in gate.channels:
                del self._subpartitions[channel.channel_id]
        self.gates = [gate for gate in self.gates if gate not in gone]

    def _wire(self, tasks: Collection[TaskKey]) -> None:
        """Connect newly created subtasks."""
        gates: dict[TaskKey, list[InputGate]] = {key: [] for key in tasks}
        vertices = {self._scenario.vertices[number].name for number, _ in tasks}
        for edge in self._scenario.edges:
            if not self._rebuilding or {edge.source, edge.target} <= vertices:
                self._connect(edge, gates)
        for (number, index), own in gates.items():
            subtask = self.subtasks[number][index]
            if isinstance(subtask, OperatorSubtask):
                subtask.connect(own)

    def subpartition_of(self, channel_id: int) -> PipelinedSubpartition | None:
        """Return the subpartition that a channel reads; None if it was removed or is in another process."""
        return self._subpartitions.get(channel_id)

    def _is_blank(self, part: Vertex | Edge) -> bool:
        """Whether no task reads the content of the records of a vertex or an edge.

        Between processes, records always have bytes.
        """
        if self._site is not None:
            return False
        if isinstance(part, Vertex):
            return part.name not in self._contents.vertices
        return self._scenario.edges.index(part) not in self._contents.edges

    def _hosts(self, vertex: Vertex) -> bool:
        """Whether this process builds a vertex.

        With a site, all subtasks of a vertex are in one task manager.
        """
        return self._site is None or self._site.task_manager == vertex.manager_of(0)

    def _subtasks_of(self, vertex: Vertex) -> list[Subtask]:
        return self.subtasks[self._scenario.vertices.index(vertex)]

    def open_channels(self, tasks: Collection[TaskKey]) -> None:
        """Request the subpartitions of all channels of these subtasks."""
        gates = self._gates_of(tasks)
        for gate in self.gates:
            if gate in gates:
                gate.request_partitions()

    def _gates_of(self, tasks: Collection[TaskKey]) -> set[InputGate]:
        return {
            gate
            for number, index in tasks
            if index < len(self.subtasks[number])
            if isinstance(subtask := self.subtasks[number][index], OperatorSubtask)
            for gate in subtask.gates
        }

    def _connect(self, edge: Edge, gates: Mapping[TaskKey, list[InputGate]]) -> None:
        """Create the channels of an edge for the subtasks in `gates`, and add the new gates to `gates`."""
        scenario = self._scenario
        producer, consumer = scenario.vertex(edge.source), scenario.vertex(edge.target)
        source, target = scenario.vertices.index(producer), scenario.vertices.index(consumer)
        reached = scenario.consumers_reached(edge)
        sources_of_consumers = producers_of_consumers(reached, consumer.parallelism)
        exclusive = [
            edge.buffers.gate(self._scenario.config, len(sources)).exclusive_per_channel
            for sources in sources_of_consumers
        ]
        key_hash = key_hash_of(scenario, edge) if edge.strategy.by_key and not edge.shares else None
        partitions = {
            index: self._partition(
                producer, index, edge, targets, [exclusive[target] for target in targets], key_hash
            )
            for index, targets in enumerate(reached)
            if (source, index) in gates
        }
        tasks: Iterable[UpstreamTask] = self._subtasks_of(producer)
        if not self._hosts(producer):
            tasks = (RemoteSubtask(producer.name, each) for each in range(producer.parallelism))
        upstream = [(task, producer.manager_of(each)) for each, task in enumerate(tasks)]
        awaiting = [end for end in self.connections.producers if end.awaits_partitions]
        for index, sources in enumerate(sources_of_consumers):
            if self._rebuilding and (target, index) not in gates:
                continue
            numbers = list(range(self._channels, self._channels + len(sources)))
            self._channels += len(sources)
            if partitions:
                for channel_id, (source_index, subpartition) in zip(numbers, sources, strict=True):
                    self._subpartitions[channel_id] = partitions[source_index].subpartitions[subpartition]
                    for end in awaiting:
                        end.partition_added(channel_id)
            if (target, index) in gates:
                gates[target, index].append(self._gate(edge, index, sources, numbers, upstream))

    def _partition(
        self,
        vertex: Vertex,
        index: int,
        edge: Edge,
        consumers: list[int],
        exclusive: list[int],
        key_hash: KeyHash | None,
    ) -> ResultPartition:
        config = self._scenario.config
        subtask = self._subtasks_of(vertex)[index]
        starting_size = config.starting_segment_bytes if config.debloat_enabled else UNLIMITED_SIZE
        subpartitions = []
        for number, credit in enumerate(exclusive):
            queue = PipelinedSubpartition(
                number,
                starting_size=starting_size,
                receiver_exclusive=credit,
                passes_priority=self._scenario.barriers_pass_blocked,
            )
            queue.on_acknowledged = subtask.consumer_acknowledged
            subpartitions.append(queue)
        count = len(subpartitions)
        minimum, maximum = edge.buffers.pool(config, count)
        pool = self._memory_of(vertex, index).create_pool(
            maximum,
            minimum,
            maximum,
            subpartitions=count,
            max_buffers_per_channel=edge.buffers.quota(config),
            max_overdraft=0 if calls_of(vertex.source).legacy else config.max_overdraft_buffers_per_gate,
            on_available=subtask.output_available,
        )
        selector = self._selector(edge, index, count, key_hash)
        partition = ResultPartition(
            pool,
            subpartitions,
            flush_always=config.buffer_timeout_s == 0,
            supports_unaligned=edge.target not in self._aligned,
            grows=self._scenario.flink_version.major > 1,
            blank=self._is_blank(edge),
            in_turns=isinstance(selector, RoundRobin),
            max_traverse=config.adaptive_partitioner_max_traverse_size,
        )
        subtask.outputs.append(Output(partition, selector))
        subtask.readers.append((edge.target, consumers))
        return partition

    def _selector(
        self, edge: Edge, producer: int, channels: int, key_hash: KeyHash | None
    ) -> ChannelSelector | None:
        """Return the channel selector for the records of subtask `producer`; None if each record goes to all
        channels.
        """
        if edge.strategy.copies:
            return None
        selector: ChannelSelector
        if edge.shares:
            seeds = [self._scenario.seed, self._scenario.edges.index(edge), producer]
            selector = MeasuredShares(edge.shares, seeds)
        else:
            terms = SelectorTerms(
                self._scenario.config.adaptive_partitioner_enabled,
                key_hash,
                self._maker.max_parallelism[edge.target],
                lambda below: self._randomness.integer(
                    below, "first channel", edge.source, edge.target, producer
                ),
            )
            selector = selector_of(edge.strategy, channels, terms)
        return selector if edge.fraction == 1 else Fraction(edge.fraction, selector)

    def _gate(
        self,
        edge: Edge,
        index: int,
        sources: list[tuple[int, int]],
        numbers: list[int],
        upstream: list[tuple[UpstreamTask, str]],
    ) -> InputGate:
        """Create the gate of the edge's consumer `index`, whose channels have these `numbers`.

        `sources` holds (producer, subpartition) of each channel, `upstream` the edge's producers and their
        task managers.
        """
        consumer = self._scenario.vertex(edge.target)
        memory, manager = self._memory_of(consumer, index), consumer.manager_of(index)
        spec = edge.buffers.gate(self._scenario.config, len(sources))
        floating = memory.create_pool(spec.total_floating, spec.required_floating, spec.total_floating)
        subtask = self._subtasks_of(consumer)[index]
        assert isinstance(subtask, OperatorSubtask)
        gate = InputGate(edge.source, floating, debloater_of(self._scenario.config), subtask.data_arrived)
        gate.watermarks = subtask.watermarks is not None
        each = spec.exclusive_per_channel
        managers = [upstream[source][1] for source, _ in sources]
        memory.reserve_unpooled(each * (len(managers) - managers.count(manager)), owed=self._rebuilding)
        remote = [name for name in dict.fromkeys(managers) if name != manager]
        ends = {name: self.connections.reading(manager, name) for name in remote}
        subtask.upstream += [upstream[source][0] for source, _ in sources]
        for number, (_, subpartition) in enumerate(sources):  # every line of this loop runs a million times
            channel_id, name = numbers[number], managers[number]
            channel: RemoteInputChannel | LocalInputChannel
            if name == manager:
                channel = LocalInputChannel(gate, number, channel_id, self._subpartitions[channel_id])
            else:
                channel = RemoteInputChannel(
                    gate, number, channel_id, ends[name], (), floating, reserved=each
                )
            gate.add_channel(channel, subpartition)
        self.gates.append(gate)
        return gate

    def _memory_of(self, vertex: Vertex, index: int) -> NetworkBufferPool:
        return self.pools[vertex.manager_of(index)]
