"""Builds the subtasks of a scenario and wires them up: pools, partitions, gates, connections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from buffers import (
    UNLIMITED_SIZE,
    GateBuffersSpec,
    NetworkBufferPool,
    PipelinedSubpartition,
    gate_buffers,
    gate_segments,
    partition_buffers,
    partition_segments,
)
from flowcontrol import BufferDebloater

from .connection import ConsumerEnd, ProducerEnd, connect
from .emulated_link import EmulatedLink
from .gate import InputGate
from .input_channel import LocalInputChannel, RemoteInputChannel
from .key_groups import default_max_parallelism
from .operator_subtask import OperatorSubtask
from .operators import Forward
from .partition import ResultPartition
from .scenario import Edge, Scenario, Vertex
from .selectors import ChannelSelector, KeyGroupSelector, RoundRobin
from .source import SourceReader
from .source_subtask import SourceSubtask
from .subtask import Environment, Output, Subtask
from .throttle import Throttle
from .wiring import consumers_of_producers, producers_of_consumers


@dataclass
class TaskManager:
    """One process: its network memory and its connections to other task managers."""

    name: str
    pool: NetworkBufferPool
    connections: dict[str, tuple[ProducerEnd, ConsumerEnd]] = field(default_factory=dict)
    """Connections to consumers, by the consumer's task manager."""


class JobBuilder:
    """Turns a scenario into subtasks that are ready to run.

    After `build`: `subtasks[v][i]` is subtask i of vertex v, in the scenario's order, and
    `task_managers` holds all memory and connections.
    """

    def __init__(self, scenario: Scenario, environment: Environment) -> None:
        self.subtasks: list[list[Subtask]] = []
        self.task_managers: dict[str, TaskManager] = {}
        self._scenario = scenario
        self._config = scenario.config
        self._environment = environment
        self._subpartitions: list[PipelinedSubpartition] = []
        self._requests: list[tuple[RemoteInputChannel | LocalInputChannel, int]] = []

    def build(self) -> None:
        """Make everything; channels are opened by `open_channels`."""
        scenario = self._scenario
        for name, segments in plan_segments(scenario).items():
            self.task_managers[name] = TaskManager(
                name, NetworkBufferPool(segments, self._config.segment_bytes)
            )
        for number, vertex in enumerate(scenario.vertices):
            make = self._sources(vertex) if vertex.source is not None else self._operators(vertex)
            self.subtasks.append([])  # filled one by one: if one fails, the others can be released
            for index in range(vertex.parallelism):
                self.subtasks[number].append(make(number, index))
        gates: dict[str, list[list[InputGate]]] = {
            vertex.name: [[] for _ in range(vertex.parallelism)] for vertex in scenario.vertices
        }
        for edge in scenario.edges:
            self._connect(edge, gates[edge.target])
        for number, vertex in enumerate(scenario.vertices):
            for subtask, own in zip(self.subtasks[number], gates[vertex.name], strict=True):
                if isinstance(subtask, OperatorSubtask):
                    subtask.connect(own)

    def open_channels(self) -> None:
        """Let every channel ask for its subpartition."""
        for channel, subpartition in self._requests:
            channel.request(subpartition)

    def _sources(self, vertex: Vertex) -> Callable[[int, int], Subtask]:
        source = self._scenario.source_of(vertex)

        def make(number: int, index: int) -> Subtask:
            reader: SourceReader = source.open(index, vertex.parallelism)
            return SourceSubtask(self._environment, number, index, reader, vertex.rate(index))

        return make

    def _operators(self, vertex: Vertex) -> Callable[[int, int], Subtask]:
        environment = self._environment

        def make(number: int, index: int) -> Subtask:
            throttle = Throttle(
                vertex.service_steps(index),
                environment.costs,
                environment.randomness,
                exact=vertex.exact_service,
            )
            operator = Forward() if vertex.operator is None else vertex.operator(index)
            return OperatorSubtask(environment, number, index, operator, throttle)

        return make

    def _connect(self, edge: Edge, gates: list[list[InputGate]]) -> None:
        scenario = self._scenario
        producer, consumer = scenario.vertex(edge.source), scenario.vertex(edge.target)
        reached = consumers_of_producers(edge.ship, producer.parallelism, consumer.parallelism)
        channels = producers_of_consumers(reached, consumer.parallelism)
        exclusive = [self._gate_spec(len(own)).exclusive_per_channel for own in channels]
        partitions = [
            self._partition(producer, index, edge, [exclusive[target] for target in own])
            for index, own in enumerate(reached)
        ]
        for index, own in enumerate(channels):
            gates[index].append(self._gate(edge, producer, consumer, index, own, partitions))

    def _partition(self, vertex: Vertex, index: int, edge: Edge, exclusive: list[int]) -> ResultPartition:
        config = self._config
        subtask = self.subtasks[self._scenario.vertices.index(vertex)][index]
        starting_size = config.starting_segment_bytes if config.debloat_enabled else UNLIMITED_SIZE
        subpartitions = [
            PipelinedSubpartition(number, starting_size=starting_size, receiver_exclusive=credit)
            for number, credit in enumerate(exclusive)
        ]
        count = len(subpartitions)
        minimum, maximum = partition_buffers(
            count, config.exclusive_buffers_per_channel, config.floating_buffers_per_gate
        )
        pool = self._memory_of(vertex).create_pool(
            maximum,
            minimum,
            maximum,
            subpartitions=count,
            max_buffers_per_channel=config.max_buffers_per_channel,
            max_overdraft=config.max_overdraft_buffers_per_gate,
            on_available=subtask.output_available,
        )
        partition = ResultPartition(pool, subpartitions, flush_always=config.buffer_timeout_s == 0)
        subtask.outputs.append(Output(partition, self._selector(edge, vertex, count)))
        return partition

    def _selector(self, edge: Edge, producer: Vertex, channels: int) -> ChannelSelector | None:
        if edge.ship == "broadcast":
            return None
        if edge.ship == "hash":
            return KeyGroupSelector(
                channels, default_max_parallelism(channels), self._scenario.key_hash(edge)
            )
        first = self._environment.randomness.integer(channels) if edge.ship == "rebalance" else 0
        return RoundRobin(channels, first)

    def _gate_spec(self, channels: int) -> GateBuffersSpec:
        config = self._config
        return gate_buffers(
            channels,
            config.exclusive_buffers_per_channel,
            config.floating_buffers_per_gate,
            config.max_required_buffers_per_gate,
        )

    def _gate(
        self,
        edge: Edge,
        producer: Vertex,
        consumer: Vertex,
        index: int,
        own: list[tuple[int, int]],
        partitions: list[ResultPartition],
    ) -> InputGate:
        """A gate of subtask `index` of `consumer`; `own` has (producer, subpartition) of each channel."""
        memory = self._memory_of(consumer)
        spec = self._gate_spec(len(own))
        floating = memory.create_pool(spec.total_floating, spec.required_floating, spec.total_floating)
        subtask = self.subtasks[self._scenario.vertices.index(consumer)][index]
        assert isinstance(subtask, OperatorSubtask)
        gate = InputGate(edge.source, floating, self._debloater(), subtask.data_arrived)
        each = spec.exclusive_per_channel
        local = producer.manager == consumer.manager
        segments = [] if local else memory.request_unpooled(each * len(own))
        producers = self.subtasks[self._scenario.vertices.index(producer)]
        for number, (source, subpartition) in enumerate(own):
            subtask.upstream.append(producers[source])
            queue = partitions[source].subpartitions[subpartition]
            queue.on_acknowledged = producers[source].consumer_acknowledged
            identity = len(self._subpartitions)
            self._subpartitions.append(queue)
            channel: RemoteInputChannel | LocalInputChannel
            if local:
                channel = LocalInputChannel(gate, number, identity, queue)
            else:
                end = self._connection(producer.manager, consumer.manager)
                exclusive = segments[number * each : (number + 1) * each]
                channel = RemoteInputChannel(gate, number, identity, end, exclusive, floating)
            gate.channels.append(channel)
            self._requests.append((channel, subpartition))
        return gate

    def _debloater(self) -> BufferDebloater | None:
        config = self._config
        if not config.debloat_enabled:
            return None
        return BufferDebloater(
            config.debloat_target_s,
            config.segment_bytes,
            config.min_segment_bytes,
            config.starting_segment_bytes,
            config.debloat_threshold_percent,
            config.debloat_samples,
        )

    def _connection(self, producer: str, consumer: str) -> ConsumerEnd:
        connections = self.task_managers[producer].connections
        if consumer not in connections:
            environment = self._environment
            link = EmulatedLink(
                environment.agenda, environment.costs, self._scenario.link, environment.randomness
            )
            connections[consumer] = connect(
                environment.agenda,
                link,
                environment.costs,
                environment.randomness,
                self._subpartitions.__getitem__,
            )
        return connections[consumer][1]

    def _memory_of(self, vertex: Vertex) -> NetworkBufferPool:
        return self.task_managers[vertex.manager].pool


def plan_segments(scenario: Scenario) -> dict[str, int]:
    """Segments of each task manager's network memory.

    The configured size, if there is one; else exactly what its pools can use at most, so that
    redistribution does not bind.
    """
    config = scenario.config
    limit = config.network_memory_max_bytes
    if limit is not None:
        return {vertex.manager: limit // config.segment_bytes for vertex in scenario.vertices}
    needed = {vertex.manager: 0 for vertex in scenario.vertices}
    each, floating = config.exclusive_buffers_per_channel, config.floating_buffers_per_gate
    overdraft = config.max_overdraft_buffers_per_gate
    for edge in scenario.edges:
        producer, consumer = scenario.vertex(edge.source), scenario.vertex(edge.target)
        reached = consumers_of_producers(edge.ship, producer.parallelism, consumer.parallelism)
        for own in reached:
            needed[producer.manager] += partition_segments(len(own), each, floating, overdraft)
        for channels in producers_of_consumers(reached, consumer.parallelism):
            spec = gate_buffers(len(channels), each, floating, config.max_required_buffers_per_gate)
            remote = 0 if producer.manager == consumer.manager else len(channels)
            needed[consumer.manager] += gate_segments(spec, remote)
    return needed
