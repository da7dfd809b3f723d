"""Creates the subtasks of a job from the scenario: their sources, operators, state and costs.

`JobBuilder` connects them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import cast

import numpy as np

from ..engine.cores import Cores
from ..engine.event_clock import EventClock
from ..engine.randomness import numbers_of, uncertain_factor
from ..errors import ScenarioError
from ..exchange.key_groups import default_max_parallelism
from ..scenarios.changes import ScheduledChange
from ..scenarios.options import OPTIONS, ChangelogStorage, StateBackendType
from ..scenarios.scenario import (
    Edge,
    GeneratorSpec,
    PathSpec,
    Scenario,
    SourceObject,
    SourceSpec,
    Step,
    Vertex,
)
from ..scenarios.user_code import KeyHash, Source, SourceReader
from ..scenarios.watermark_reach import disorder_s, readers_of_watermarks, sources_with_watermarks
from ..state.subtask_state import ChangelogTerms, SubtaskState
from ..state.table_backend import TableSettings, TableStateBackend
from ..state.table_store import TableOptions, TableStores
from ..tasks.course import Course
from ..tasks.key_hash import hash_by
from ..tasks.multiple_input_subtask import GateWork, MultipleInputSubtask
from ..tasks.operator_subtask import OperatorSubtask
from ..tasks.operators import BroadcastSide, Forward, KeyedBroadcastOperator, Operator, OperatorContext
from ..tasks.service_time import Throttle
from ..tasks.source_log import pace_of
from ..tasks.source_subtask import ONE_BY_ONE, Calls, SourceSubtask
from ..tasks.sources import GeneratedSource, opener_of
from ..tasks.state_work import Materializer, TableSchedule
from ..tasks.subtask import Subtask
from ..tasks.subtask_environment import Environment
from ..tasks.synthetic_output import Emission, HeldBack
from ..tasks.watermarks import EventTimeWindows, SourceWatermarks, WatermarkFlow, WindowsOfKeys

__all__ = ["source_of"]

Make = Callable[[int, int], Subtask]
"""Creates a subtask from the number of its vertex and its index."""

EnvironmentOf = Callable[[int, int], Environment]
"""Returns the environment of a subtask, from the number of its vertex and its index."""


class SubtaskMaker:
    """Creates the subtasks of one attempt, which share cores and the clock of event time.

    `environment_of` returns the environment of a subtask; by default all use `environment`. Records of
    sources for which `is_blank` returns True have no bytes. `max_parallelism` holds the maximum parallelism
    of each vertex.
    """

    def __init__(
        self,
        scenario: Scenario,
        environment: Environment,
        is_blank: Callable[[Vertex], bool],
        environment_of: EnvironmentOf | None = None,
    ) -> None:
        self._scenario = scenario
        self._environment = environment
        self._environment_of = environment_of or (lambda number, index: environment)
        self._is_blank = is_blank
        self._tables = table_settings(scenario, environment.tables)
        self.max_parallelism: Mapping[str, int] = {}
        self._cores: dict[str, Cores] = {}
        self._throttles: dict[tuple[str, int, str | None], Throttle] = {}  # by vertex, subtask, edge from
        self._clock = EventClock(lambda: environment.agenda.now)
        self._send_watermarks = sources_with_watermarks(scenario)
        self._read_watermarks = readers_of_watermarks(scenario)

    def change(self, scenario: Scenario, change: ScheduledChange) -> None:
        """Use the settings of `scenario` for subtasks created from now on, and update the costs of running
        subtasks.
        """
        self._scenario = scenario
        if change.vertex is not None:
            vertex = scenario.vertex(change.vertex)
            services = {edge.source: edge.service for edge in scenario.inputs(vertex)}
            for (name, index, source), throttle in self._throttles.items():
                if name == vertex.name:
                    throttle.follow(self._steps(vertex, index, None if source is None else services[source]))

    def set_max_parallelism(self, known: Mapping[str, int]) -> None:
        """Set the number of key groups of each vertex; vertices not in `known` get the default."""
        self.max_parallelism = {
            vertex.name: known.get(vertex.name) or default_max_parallelism(vertex.parallelism)
            for vertex in self._scenario.vertices
        }

    def of(self, vertex: Vertex) -> Make:
        """Return a function that creates the subtasks of a vertex."""
        return self._sources(vertex) if vertex.source is not None else self._operators(vertex)

    def _sources(self, vertex: Vertex) -> Make:
        source = source_of(self._scenario, vertex, blank=self._is_blank(vertex))

        def make(number: int, index: int) -> Subtask:
            reader: SourceReader = source.open(index, vertex.parallelism)
            state = self._state(number, index)
            rate = vertex.rate(index)
            watermarks = None
            if vertex.name in self._send_watermarks and vertex.source is not None:
                interval_s = self._scenario.config.auto_watermark_interval_s
                watermarks = SourceWatermarks(
                    self._clock, interval_s, vertex.source.out_of_orderness_s or 0.0
                )
            return SourceSubtask(
                self._environment_of(number, index),
                vertex=number,
                index=index,
                name=vertex.name,
                state=state,
                reader=reader,
                rate=rate,
                log=self._environment.source_logs.of(number, index),
                pace=pace_of(vertex, rate),
                calls=calls_of(vertex.source),
                watermarks=watermarks,
                open_split=opener_of(source),
            )

        return make

    def _operators(self, vertex: Vertex) -> Make:
        groups_of_keys: dict[bytes, int] = {}
        inputs = self._scenario.inputs(vertex)
        hashed = [edge for edge in inputs if edge.strategy.by_key and not edge.shares]
        key_hash = key_hash_of(self._scenario, hashed[0]) if hashed else None

        def make(number: int, index: int) -> Subtask:
            throttle = self._throttle(vertex, index)
            held_back = self._held_back(vertex, index)
            operator = self._operator(vertex, number, index, vertex.selectivity, held_back)
            state = self._state(number, index, groups_of_keys)
            context = OperatorContext(
                vertex=vertex.name,
                subtask=index,
                keyed=state.keyed,
                operator=state.operator,
                key_hash=key_hash,
                checkpointing=self._scenario.config.checkpoint_interval_s is not None,
            )
            edges = self._scenario.inputs(vertex)
            kind = MultipleInputSubtask if _reads_edges_separately(self._scenario, edges) else OperatorSubtask
            subtask = kind(
                self._environment_of(number, index),
                vertex=number,
                index=index,
                name=vertex.name,
                state=state,
                operator=operator,
                context=context,
                throttle=throttle,
                held_back=held_back,
                emit_every_s=0.0 if vertex.emits_by_event_time else vertex.emit_every_s or 0.0,
                behind_s=vertex.behind_s[index % len(vertex.behind_s)],
                firing=self._firing(vertex, index),
            )
            if vertex.name in self._read_watermarks:
                windows = held_back if isinstance(held_back, EventTimeWindows) else None
                disorders = [disorder_s(self._scenario, edge) for edge in edges]
                subtask.watermarks = WatermarkFlow(self._clock, windows, disorders)
            if state.changelog is not None and self._scenario.config.materializes:
                subtask.on_opening = Materializer(subtask, vertex.parallelism, state.changelog).start
            if isinstance(subtask, MultipleInputSubtask):
                subtask.reads([self._work_of_edge(vertex, number, index, edge, subtask) for edge in edges])
            return subtask

        return make

    def _held_back(self, vertex: Vertex, index: int) -> HeldBack | None:
        """Return what holds back the records of a subtask; None: it emits at once."""
        if vertex.emit_every_s is None:
            return None
        if not vertex.emits_by_event_time:
            return HeldBack()
        if vertex.emit_keys is None:
            return EventTimeWindows(vertex.emit_every_s)
        chance = self._environment.randomness.uniform("keys of windows", vertex.name, index)
        return WindowsOfKeys(vertex.emit_every_s, vertex.emit_keys, chance)

    def _operator(
        self,
        vertex: Vertex,
        number: int,
        index: int,
        selectivity: float,
        held_back: HeldBack | None,
        name: str = "",
    ) -> Operator:
        """Return the operator of the user's function, or one that emits as described in the scenario."""
        if vertex.operator is not None:
            return cast(Operator, vertex.operator(index))
        if selectivity == 1 and vertex.record_bytes is None and held_back is None:
            return Forward()
        chance = None
        if vertex.emission == "random":
            chance = numbers_of(self._scenario.seed, number, index)
        return Emission(selectivity, vertex.record_bytes, chance, held_back, name)

    def _work_of_edge(
        self, vertex: Vertex, number: int, index: int, edge: Edge, subtask: OperatorSubtask
    ) -> GateWork:
        """Return the operator and the throttle for the records of one edge into a subtask."""
        operator, throttle = subtask.operator, subtask.throttle
        if isinstance(operator, KeyedBroadcastOperator) and self._scenario.is_broadcast_side(edge):
            operator = BroadcastSide(operator)
        if edge.selectivity is not None:
            name = f"of {edge.source}"
            operator = self._operator(vertex, number, index, edge.selectivity, subtask.held_back, name)
        if edge.service is not None:
            throttle = self._throttle(vertex, index, edge)
        return GateWork(edge.input, operator, throttle)

    def _throttle(self, vertex: Vertex, index: int, edge: Edge | None = None) -> Throttle:
        """Return the throttle for the service time of a subtask's records, or only of the records of one
        `edge`.
        """
        steps = self._steps(vertex, index, None if edge is None else edge.service)
        owner = vertex.name, index, None if edge is None else edge.source
        self._throttles[owner] = throttle = self._new_throttle(vertex, index, steps, "service", *owner)
        return throttle

    def _firing(self, vertex: Vertex, index: int) -> Throttle | None:
        """Return the throttle for the records of a subtask's firing windows; None: they cost nothing."""
        if not vertex.emit_cost_s:
            return None
        steps = self._steps(vertex, index, ((0.0, vertex.emit_cost_s),))
        return self._new_throttle(vertex, index, steps, "firing", vertex.name, index)

    def _new_throttle(self, vertex: Vertex, index: int, steps: tuple[Step, ...], *owner: object) -> Throttle:
        cores = self.cores_of(vertex.manager_of(index)) if vertex.burns else None
        chance = self._environment.randomness.uniform(*owner)
        course = Course(vertex.course) if vertex.course else None
        return Throttle(
            steps, self._environment.costs, chance, course=course, mode=vertex.service_mode, cores=cores
        )

    def _steps(self, vertex: Vertex, index: int, service: Sequence[Step] | None) -> tuple[Step, ...]:
        factor = uncertain_factor(self._scenario.seed, vertex.service_spread)
        steps = vertex.steps_of(vertex.service if service is None else service, index)
        return tuple((at, cost * factor) for at, cost in steps)

    def cores_of(self, task_manager: str) -> Cores:
        """Return the cores of a task manager; unlimited if no machine is given."""
        if task_manager not in self._cores:
            machines = [each for each in self._scenario.machines if task_manager in each.task_managers]
            shared = machines[0].task_managers if machines else (task_manager,)
            cores = Cores(self._environment.agenda, machines[0].cores if machines else inf)
            self._cores.update(dict.fromkeys(shared, cores))
        return self._cores[task_manager]

    def _state(self, number: int, index: int, keys: dict[bytes, int] | None = None) -> SubtaskState:
        vertex, environment = self._scenario.vertices[number], self._environment_of(number, index)
        agenda, config, changelog, tables = environment.agenda, self._scenario.config, None, self._tables
        if tables is not None:
            tables = tables._replace(first_checkpoint=environment.first_checkpoint)
        if config.changelog_enabled and self._scenario.key_of(vertex) is not None:
            in_files = config.changelog_storage is ChangelogStorage.FILESYSTEM
            changelog = ChangelogTerms(in_files, environment.coordinator.discard_unused)
        state = SubtaskState(
            vertex.name,
            subtask=index,
            parallelism=vertex.parallelism,
            max_parallelism=self.max_parallelism[vertex.name],
            groups_of_keys=keys,
            changelog=changelog,
            tables=tables,
            now=lambda: agenda.now,
        )
        if isinstance(state.keyed, TableStateBackend):
            TableSchedule(environment.scope, environment.costs, state.keyed)
        return state


def _reads_edges_separately(scenario: Scenario, edges: Sequence[Edge]) -> bool:
    """Whether a vertex has several inputs, or an edge has its own selectivity or service time."""
    if any(map(scenario.is_broadcast_side, edges)):
        return True
    said = any(edge.selectivity is not None or edge.service is not None for edge in edges)
    return said or len({edge.input for edge in edges}) > 1


def calls_of(source: SourceSpec | None) -> Calls:
    """Return the settings for calling a source."""
    if not isinstance(source, GeneratorSpec):
        return ONE_BY_ONE
    return Calls(source.batch, source.legacy, source.cost_s, source.catch_up_s)


def table_settings(scenario: Scenario, stores: TableStores | None) -> TableSettings | None:
    """Return the settings of keyed state in tables; None if the vertex has no keyed state or keeps it in
    memory.

    Raises:
        ScenarioError: if the state needs `stores`, but none are given.
    """
    config = scenario.config
    if config.state_backend is not StateBackendType.ROCKSDB or not scenario.keeps_keyed_state:
        return None
    if stores is None:
        opening = "opened with integration.storage.table_stores"
        needs = f"the rocksdb backend needs table stores; pass `tables`, {opening}"
        raise ScenarioError([f"flink.{OPTIONS['state_backend'].name}: {needs}"])
    options = TableOptions(
        write_buffer_bytes=config.rocksdb_write_buffer_bytes,
        target_file_bytes=config.rocksdb_target_file_bytes,
        level_base_bytes=config.rocksdb_level_base_bytes,
        block_bytes=config.rocksdb_block_bytes,
    )
    return TableSettings(stores, options, config.incremental_checkpoints)


def source_of(scenario: Scenario, vertex: Vertex, *, blank: bool = False) -> Source:
    """Return the source of a source vertex; generated records have no bytes if `blank`.

    Raises:
        ScenarioError: if the vertex is not a source, or its path has not been opened.
    """
    spec = vertex.source
    if isinstance(spec, SourceObject):
        return spec.source
    if isinstance(spec, GeneratorSpec):
        seed, spread = _source_seed(scenario, vertex), spec.record_spread
        return GeneratedSource(spec.record_bytes, seed, spec.keys, spread=spread, blank=blank)
    what = (
        "has no source that can be read"
        if spec is None
        else f"reads {spec.path!r}, which has not been opened"
    )
    raise ScenarioError([f"vertex {vertex.name!r} {what}; use integration.open_sources(scenario)"])


def key_hash_of(scenario: Scenario, edge: Edge) -> KeyHash:
    """Return the hash of a record's key for an edge.

    This is the edge's own hash, or the hash of the upstream source. If neither is given, or a user function
    has created new records, the hash is computed from the key that the downstream operator declares.

    Raises:
        ScenarioError: if a path has not been opened.
    """
    if edge.key_hash is not None:
        return edge.key_hash
    before = scenario.vertices_before(edge.source)
    key_of = scenario.key_of(scenario.vertex(edge.target))
    if key_of is not None and not _have_keys(before):
        return hash_by(key_of)
    return source_of(scenario, next(vertex for vertex in before if vertex.source is not None)).key_hash


def key_hashes_of(scenario: Scenario) -> dict[int, KeyHash]:
    """Return the key hash of each edge that distributes records by key, by the edge's number.

    Raises:
        ScenarioError: if a path has not been opened.
    """
    edges = enumerate(scenario.edges)
    return {
        number: key_hash_of(scenario, edge)
        for number, edge in edges
        if edge.strategy.by_key and not edge.shares
    }


def _have_keys(vertices: Sequence[Vertex]) -> bool:
    """Whether records of these vertices keep the keys of their sources, and all sources have one type."""
    sources = [vertex.source for vertex in vertices if vertex.source is not None]
    return (
        len({type(source) for source in sources}) == 1
        and all(map(_gives_keys, sources))
        and all(vertex.operator is None for vertex in vertices)
    )


def _gives_keys(spec: SourceSpec) -> bool:
    """Whether the keys of a source's records are declared."""
    if isinstance(spec, SourceObject):
        named = spec.spec is None or bool(spec.spec.key)
        return named and bool(getattr(spec.source, "gives_keys", True))
    return bool(spec.key) if isinstance(spec, PathSpec) else True


def _source_seed(scenario: Scenario, vertex: Vertex) -> int:
    """Return a seed for the vertex, derived from the scenario's seed."""
    mixed = np.random.SeedSequence([scenario.seed, scenario.vertices.index(vertex)])
    return int(mixed.generate_state(1, np.uint64)[0])
