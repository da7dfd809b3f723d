"""Makes the subtasks of a job; what connects them comes after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ..exchange.key_groups import default_max_parallelism
from ..scenarios.changes import ScheduledChange
from ..scenarios.config import ChangelogStorage
from ..scenarios.scenario import Edge, Scenario, Vertex
from ..scenarios.user_code import KeyHash, SourceReader
from ..state.subtask_state import ChangelogTerms, SubtaskState
from ..state.table_backend import TableStateBackend
from ..tasks.environment import Environment
from ..tasks.multiple_input_subtask import MultipleInputSubtask
from ..tasks.operator_subtask import OperatorSubtask
from ..tasks.operators import OperatorContext
from ..tasks.source import opener_of
from ..tasks.source_subtask import SourceSubtask, pace_of
from ..tasks.state_upkeep import Materializer, TableSchedule
from ..tasks.subtask import Subtask
from .job_sources import key_hash_of, source_of
from .table_settings import table_settings
from .vertex_work import VertexWork, calls_of

Make = Callable[[int, int], Subtask]
"""Makes a subtask, by the number of its vertex and its index."""

EnvironmentOf = Callable[[int, int], Environment]
"""What a subtask is given, by the number of its vertex and its index."""


class SubtaskMaker:
    """Makes the subtasks of a scenario, which get what `environment_of` says, by default all `environment`.

    `is_blank` says of which sources nobody looks at the records. `max_parallelism` is that of each vertex.
    """

    def __init__(
        self,
        scenario: Scenario,
        environment: Environment,
        is_blank: Callable[[Vertex], bool],
        environment_of: EnvironmentOf | None = None,
    ) -> None:
        self._scenario = scenario
        self._config = scenario.config
        self._environment = environment
        self._environment_of = environment_of or (lambda number, index: environment)
        self._is_blank = is_blank
        self._tables = table_settings(scenario, environment.tables)
        self.first_checkpoint(environment.first_checkpoint)
        self._work = VertexWork(scenario, environment)
        self.max_parallelism: Mapping[str, int] = {}

    def first_checkpoint(self, checkpoint_id: int) -> None:
        """Let the next subtasks take part in checkpoints from that id on."""
        if self._tables is not None:
            self._tables = self._tables._replace(first_checkpoint=checkpoint_id)

    def change(self, scenario: Scenario, change: ScheduledChange) -> None:
        """Make subtasks as `scenario` says now, and let records of those that run cost what it says."""
        self._scenario, self._config = scenario, scenario.config
        if change.vertex is not None:
            self._work.change(scenario, scenario.vertex(change.vertex))

    def set_max_parallelism(self, known: Mapping[str, int] = MappingProxyType({})) -> None:
        """Say how many key groups vertices have; those not `known` have what follows from their subtasks."""
        self.max_parallelism = {
            vertex.name: known.get(vertex.name) or default_max_parallelism(vertex.parallelism)
            for vertex in self._scenario.vertices
        }

    def of(self, vertex: Vertex) -> Make:
        """Return what makes the subtasks of a vertex, which share what one attempt shares."""
        return self._sources(vertex) if vertex.source is not None else self._operators(vertex)

    def _sources(self, vertex: Vertex) -> Make:
        source = source_of(self._scenario, vertex, blank=self._is_blank(vertex))

        def make(number: int, index: int) -> Subtask:
            reader: SourceReader = source.open(index, vertex.parallelism)
            state = self._state(number, index)
            rate = vertex.rate(index)
            return SourceSubtask(
                self._environment_of(number, index),
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

    def _operators(self, vertex: Vertex) -> Make:
        work = self._work
        groups_of_keys: dict[bytes, int] = {}
        key_hash = self._hash_into(vertex)

        def make(number: int, index: int) -> Subtask:
            throttle = work.throttle(vertex, index)
            held_back = work.held_back(vertex)
            operator = work.operator(vertex, number, index, vertex.selectivity, held_back)
            state = self._state(number, index, groups_of_keys)
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
                self._environment_of(number, index),
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

    def _state(self, number: int, index: int, keys: dict[bytes, int] | None = None) -> SubtaskState:
        vertex = self._scenario.vertices[number]
        parallelism = vertex.parallelism
        groups = self.max_parallelism[vertex.name]
        changelog = None if self._scenario.key_of(vertex) is None else self._changelog
        agenda = self._environment.agenda
        state = SubtaskState(
            vertex.name, index, parallelism, groups, keys, changelog, self._tables, lambda: agenda.now
        )
        if isinstance(state.keyed, TableStateBackend):
            scope = self._environment_of(number, index).scope
            TableSchedule(scope, self._environment.costs, state.keyed)
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
        hashed = [edge for edge in self._scenario.inputs(vertex) if edge.strategy.by_key and not edge.shares]
        return key_hash_of(self._scenario, hashed[0]) if hashed else None


def _reads_edges_apart(scenario: Scenario, edges: Sequence[Edge]) -> bool:
    """Whether a vertex has several inputs, or an edge says what becomes of its records."""
    if any(map(scenario.is_broadcast_side, edges)):
        return True
    said = any(edge.selectivity is not None or edge.service is not None for edge in edges)
    return said or len({edge.input for edge in edges}) > 1
