"""Builds the subtasks of a scenario and wires them up: pools, partitions, gates, connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from buffers import (
    UNLIMITED_SIZE,
    NetworkBufferPool,
    PipelinedSubpartition,
)

from ..checkpoints.pending_checkpoint import UpstreamTask
from ..exchange.gate import InputGate
from ..exchange.key_groups import default_max_parallelism
from ..exchange.local_channel import LocalInputChannel
from ..exchange.partition import ResultPartition
from ..exchange.producer_end import ProducerEnd
from ..exchange.remote_channel import RemoteInputChannel
from ..exchange.selectors import ChannelSelector, Fraction, KeyGroupSelector, MeasuredShares, RoundRobin
from ..faults.tapped_gate import Tap, TappedGate
from ..scenarios.config import ChangelogStorage
from ..scenarios.contents import contents_of
from ..scenarios.debloat_policies import debloater_of
from ..scenarios.scenario import Edge, Scenario, Vertex
from ..scenarios.user_code import KeyHash, SourceReader
from ..scenarios.wiring import POINTWISE, consumers_of_producers, producers_of_consumers
from ..state.subtask_state import ChangelogTerms, SubtaskState
from ..state.table_backend import TableStateBackend
from ..tasks.environment import Environment, Output, RemoteSubtask
from ..tasks.materializer import Materializer
from ..tasks.multiple_input_subtask import MultipleInputSubtask
from ..tasks.operator_subtask import OperatorSubtask
from ..tasks.operators import OperatorContext
from ..tasks.pace import pace_of
from ..tasks.source_splits import opener_of
from ..tasks.source_subtask import SourceSubtask
from ..tasks.subtask import Subtask
from ..tasks.table_schedule import TableSchedule
from .connections import Connections, EmulatedConnections, Site
from .job_sources import key_hash_of, source_of
from .memory_plan import check_memory, plan_segments
from .table_settings import table_settings
from .vertex_work import VertexWork, calls_of

Watched = Callable[[str, str, int], Mapping[int, Tap]]
"""The taps of the gate that reads from a vertex (the first name) into a subtask of another, by producer."""

ALIGNED_SHIPS = POINTWISE | {"broadcast"}
"""Exchanges whose data no barrier overtakes: it could not be dealt out anew if the parallelism changed."""


@dataclass
class TaskManager:
    """One process: its network memory."""

    name: str
    pool: NetworkBufferPool


class JobBuilder:
    """Turns a scenario into subtasks that are ready to run: all, or those of the task manager of a `site`.

    `watched` gives the taps of a gate. After `build`: `subtasks[v][i]` is subtask i of vertex v, in the
    scenario's order (a vertex that runs elsewhere has none), `gates` are all their gates, `task_managers`
    holds all memory, `connections` what leads to other task managers. Channels are numbered alike whatever
    part of a job is built.
    """

    def __init__(
        self, scenario: Scenario, environment: Environment, watched: Watched, site: Site | None = None
    ) -> None:
        self.subtasks: list[list[Subtask]] = []
        self.task_managers: dict[str, TaskManager] = {}
        self._watched = watched
        self._scenario = scenario
        self._config = scenario.config
        self._environment = environment
        self._site = site
        tables = table_settings(scenario, environment.tables)
        first = environment.first_checkpoint
        self._tables = None if tables is None else tables._replace(first_checkpoint=first)
        self._work = VertexWork(scenario, environment)
        self._contents = contents_of(scenario)
        self._channels = 0
        self._max_parallelism: Mapping[str, int] = {}
        self._subpartitions: dict[int, PipelinedSubpartition] = {}
        self.gates: list[InputGate] = []
        find = self._subpartitions.__getitem__
        self.connections: Connections = (
            EmulatedConnections(environment, scenario.link, find) if site is None else site.connect(find)
        )

    def build(self, max_parallelism: Mapping[str, int] = MappingProxyType({})) -> None:
        """Make everything; channels are opened by `open_channels`.

        `max_parallelism` has the vertices of which it is not what follows from their parallelism.
        """
        scenario = self._scenario
        self._max_parallelism = {
            vertex.name: max_parallelism.get(vertex.name) or default_max_parallelism(vertex.parallelism)
            for vertex in scenario.vertices
        }
        for name, segments in plan_segments(scenario).items():
            if self._site is None or self._site.task_manager == name:
                pool = NetworkBufferPool(segments, self._config.segment_bytes)
                self.task_managers[name] = TaskManager(name, pool)
        for number, vertex in enumerate(scenario.vertices):
            self.subtasks.append([])  # filled one by one: if one fails, the others can be released
            if self._hosts(vertex):
                make = self._sources(vertex) if vertex.source is not None else self._operators(vertex)
                for index in range(vertex.parallelism):
                    self.subtasks[number].append(make(number, index))
        gates: dict[str, list[list[InputGate]]] = {
            vertex.name: [[] for _ in own]
            for vertex, own in zip(scenario.vertices, self.subtasks, strict=True)
        }
        check_memory(scenario, None if self._site is None else self._site.task_manager)
        for edge in scenario.edges:
            self._connect(edge, gates[edge.target])
        for number, vertex in enumerate(scenario.vertices):
            for subtask, own in zip(self.subtasks[number], gates[vertex.name], strict=True):
                if isinstance(subtask, OperatorSubtask):
                    subtask.connect(own)

    def subpartition_of(self, channel_id: int) -> PipelinedSubpartition:
        """The queue that a channel reads, which is built here; raises KeyError if it is not."""
        return self._subpartitions[channel_id]

    def _is_blank(self, part: Vertex | Edge) -> bool:
        """Whether nobody looks at the records that leave a vertex, or at those that an edge carries.

        Between processes they are bytes in any case.
        """
        if self._site is not None:
            return False
        if isinstance(part, Vertex):
            return part.name not in self._contents.vertices
        return self._scenario.edges.index(part) not in self._contents.edges

    def _hosts(self, vertex: Vertex) -> bool:
        """Whether a vertex is built here; with a site, all its subtasks are in one task manager."""
        return self._site is None or self._site.task_manager == vertex.manager_of(0)

    def _subtasks_of(self, vertex: Vertex) -> list[Subtask]:
        return self.subtasks[self._scenario.vertices.index(vertex)]

    def open_channels(self) -> None:
        """Let every channel ask for its subpartition."""
        for gate in self.gates:
            gate.request_partitions()

    def _sources(self, vertex: Vertex) -> Callable[[int, int], Subtask]:
        source = source_of(self._scenario, vertex, blank=self._is_blank(vertex))

        def make(number: int, index: int) -> Subtask:
            reader: SourceReader = source.open(index, vertex.parallelism)
            state = self._state(vertex, index)
            rate = vertex.rate(index)
            return SourceSubtask(
                self._environment,
                number,
                index,
                vertex.name,
                state,
                reader,
                rate,
                pace_of(vertex.source, rate),
                calls_of(vertex.source),
                self._work.watermarks_of(vertex),
                opener_of(source),
            )

        return make

    def _operators(self, vertex: Vertex) -> Callable[[int, int], Subtask]:
        environment, work = self._environment, self._work
        groups_of_keys: dict[bytes, int] = {}
        key_hash = self._hash_into(vertex)

        def make(number: int, index: int) -> Subtask:
            throttle = work.throttle(vertex, vertex.service, index)
            held_back = work.held_back(vertex)
            operator = work.operator(vertex, number, index, vertex.selectivity, held_back)
            state = self._state(vertex, index, groups_of_keys)
            context = OperatorContext(
                vertex.name,
                index,
                state.keyed,
                state.operator,
                key_hash,
                self._config.checkpoint_interval_s is not None,
            )
            edges = self._scenario.inputs(vertex)
            kind = MultipleInputSubtask if _reads_edges_apart(self._scenario, edges) else OperatorSubtask
            subtask = kind(
                environment,
                number,
                index,
                vertex.name,
                state,
                operator,
                context,
                throttle,
                held_back,
                0.0 if vertex.emits_by_event_time else vertex.emit_every_s or 0.0,
                vertex.behind_s[index % len(vertex.behind_s)],
            )
            subtask.watermarks = work.flow_into(vertex, held_back)
            self._materialize(subtask, vertex.parallelism)
            if isinstance(subtask, MultipleInputSubtask):
                subtask.reads([work.of_edge(vertex, number, index, edge, subtask) for edge in edges])
            return subtask

        return make

    def _materialize(self, subtask: Subtask, parallelism: int) -> None:
        """Have the state of a subtask stored as a whole from time to time, if only its changes are else."""
        changelog = subtask.state.changelog
        if changelog is not None and self._config.materializes:
            subtask.on_opening = Materializer(subtask, parallelism, changelog).start

    def _state(self, vertex: Vertex, index: int, keys: dict[bytes, int] | None = None) -> SubtaskState:
        parallelism = vertex.parallelism
        groups = self._max_parallelism[vertex.name]
        changelog = None if self._scenario.key_of(vertex) is None else self._changelog
        agenda = self._environment.agenda
        state = SubtaskState(
            vertex.name, index, parallelism, groups, keys, changelog, self._tables, lambda: agenda.now
        )
        if isinstance(state.keyed, TableStateBackend):
            TableSchedule(agenda, self._environment.costs, state.keyed)
        return state

    @property
    def _changelog(self) -> ChangelogTerms | None:
        """How changes of keyed state are kept; None: they are not."""
        if not self._config.changelog_enabled:
            return None
        in_files = self._config.changelog_storage is ChangelogStorage.FILESYSTEM
        return ChangelogTerms(in_files, self._environment.coordinator.discard_unused)

    def _hash_into(self, vertex: Vertex) -> KeyHash | None:
        """What the exchange into a vertex hashes its records by; None if there is no such exchange."""
        hashed = [edge for edge in self._scenario.inputs(vertex) if edge.ship == "hash" and not edge.shares]
        return key_hash_of(self._scenario, hashed[0]) if hashed else None

    def _connect(self, edge: Edge, gates: list[list[InputGate]]) -> None:
        scenario = self._scenario
        producer, consumer = scenario.vertex(edge.source), scenario.vertex(edge.target)
        reached = consumers_of_producers(edge.ship, producer.parallelism, consumer.parallelism)
        sources_of_consumers = producers_of_consumers(reached, consumer.parallelism)
        exclusive = [
            edge.buffers.gate(self._config, len(sources)).exclusive_per_channel
            for sources in sources_of_consumers
        ]
        key_hash = key_hash_of(scenario, edge) if edge.ship == "hash" and not edge.shares else None
        partitions = [
            self._partition(
                producer, index, edge, targets, [exclusive[target] for target in targets], key_hash
            )
            for index, targets in enumerate(reached if self._hosts(producer) else ())
        ]
        awaiting = [end for end in self.connections.producers if end.awaits_partitions]
        for index, sources in enumerate(sources_of_consumers):
            numbers = list(range(self._channels, self._channels + len(sources)))
            self._channels += len(sources)
            if partitions:
                self._offer(partitions, sources, numbers, awaiting)
            if gates:
                gates[index].append(self._gate(edge, index, sources, numbers))

    def _offer(
        self,
        partitions: list[ResultPartition],
        sources: list[tuple[int, int]],
        numbers: list[int],
        awaiting: list[ProducerEnd],
    ) -> None:
        """Let each subpartition be found by the number of the channel that reads it, also by who waits."""
        for channel_id, (source, subpartition) in zip(numbers, sources, strict=True):
            self._subpartitions[channel_id] = partitions[source].subpartitions[subpartition]
            for end in awaiting:
                end.partition_added(channel_id)

    def _partition(
        self,
        vertex: Vertex,
        index: int,
        edge: Edge,
        consumers: list[int],
        exclusive: list[int],
        key_hash: KeyHash | None,
    ) -> ResultPartition:
        config = self._config
        subtask = self._subtasks_of(vertex)[index]
        subpartitions = self._queues(exclusive, subtask.consumer_acknowledged)
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
        partition = ResultPartition(
            pool,
            subpartitions,
            flush_always=config.buffer_timeout_s == 0,
            supports_unaligned=edge.ship not in ALIGNED_SHIPS,
            grows=not self._scenario.preset.startswith("flink-1"),
            blank=self._is_blank(edge),
        )
        subtask.outputs.append(Output(partition, self._selector(edge, index, count, key_hash)))
        subtask.readers.append((edge.target, consumers))
        return partition

    def _queues(
        self, exclusive: list[int], on_acknowledged: Callable[[], None]
    ) -> list[PipelinedSubpartition]:
        """The subpartitions for consumers that have so many exclusive buffers each."""
        config = self._config
        starting_size = config.starting_segment_bytes if config.debloat_enabled else UNLIMITED_SIZE
        queues = []
        for number, credit in enumerate(exclusive):
            queue = PipelinedSubpartition(number, starting_size=starting_size, receiver_exclusive=credit)
            queue.on_acknowledged = on_acknowledged
            queues.append(queue)
        return queues

    def _selector(
        self, edge: Edge, producer: int, channels: int, key_hash: KeyHash | None
    ) -> ChannelSelector | None:
        if edge.ship == "broadcast":
            return None
        selector = self._selector_of_all(edge, producer, channels, key_hash)
        return selector if edge.fraction == 1 else Fraction(edge.fraction, selector)

    def _selector_of_all(
        self, edge: Edge, producer: int, channels: int, key_hash: KeyHash | None
    ) -> ChannelSelector:
        if edge.shares:
            seed = [self._scenario.seed, self._scenario.edges.index(edge), producer]
            return MeasuredShares(edge.shares, seed)
        if key_hash is not None:
            return KeyGroupSelector(channels, self._max_parallelism[edge.target], key_hash)
        first = self._environment.randomness.integer(channels) if edge.ship == "rebalance" else 0
        return RoundRobin(channels, first)

    def _gate(self, edge: Edge, index: int, sources: list[tuple[int, int]], numbers: list[int]) -> InputGate:
        """The gate of the edge's consumer `index`, whose channels have these `numbers`.

        `sources` has (producer, subpartition) of each channel.
        """
        producer, consumer = self._scenario.vertex(edge.source), self._scenario.vertex(edge.target)
        memory, manager = self._memory_of(consumer, index), consumer.manager_of(index)
        spec = edge.buffers.gate(self._config, len(sources))
        floating = memory.create_pool(spec.total_floating, spec.required_floating, spec.total_floating)
        subtask = self._subtasks_of(consumer)[index]
        assert isinstance(subtask, OperatorSubtask)
        taps = self._watched(edge.source, consumer.name, index)
        kind = TappedGate if taps else InputGate
        gate = kind(edge.source, floating, debloater_of(self._config), subtask.data_arrived)
        gate.watermarks = subtask.watermarks is not None
        each = spec.exclusive_per_channel
        remote = [source for source, _ in sources if producer.manager_of(source) != manager]
        memory.reserve_unpooled(each * len(remote))
        for number, (source, subpartition) in enumerate(sources):
            subtask.upstream.append(self._upstream(producer, source))
            channel_id = numbers[number]
            channel: RemoteInputChannel | LocalInputChannel
            if producer.manager_of(source) == manager:
                channel = LocalInputChannel(gate, number, channel_id, self._subpartitions[channel_id])
            else:
                end = self.connections.reading(manager, producer.manager_of(source))
                channel = RemoteInputChannel(gate, number, channel_id, end, (), floating, reserved=each)
            gate.add_channel(channel, subpartition)
            if isinstance(gate, TappedGate) and source in taps:
                gate.watch(channel, taps[source])
        self.gates.append(gate)
        return gate

    def _upstream(self, vertex: Vertex, index: int) -> UpstreamTask:
        return self._subtasks_of(vertex)[index] if self._hosts(vertex) else RemoteSubtask(vertex.name, index)

    def _memory_of(self, vertex: Vertex, index: int) -> NetworkBufferPool:
        return self.task_managers[vertex.manager_of(index)].pool


def _reads_edges_apart(scenario: Scenario, edges: Sequence[Edge]) -> bool:
    """Whether a vertex has several inputs, or treats the records of its edges differently."""
    if any(map(scenario.is_broadcast_side, edges)):
        return True
    return len({(edge.input, edge.selectivity, edge.service) for edge in edges}) > 1
