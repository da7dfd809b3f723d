"""What the subtasks of a vertex do with records, and what it costs them, made from the scenario."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import cast

from ..engine.cores import Cores
from ..engine.event_clock import EventClock
from ..engine.randomness import numbers_of, uncertain_factor
from ..scenarios.event_time import disorder_s, readers_of_watermarks, sources_with_watermarks
from ..scenarios.scenario import Edge, GeneratorSpec, Scenario, SourceSpec, Step, Vertex
from ..tasks.emission import Emission, EventTimeWindows, HeldBack
from ..tasks.environment import Environment
from ..tasks.multiple_input_subtask import GateWork
from ..tasks.operator_subtask import OperatorSubtask
from ..tasks.operators import BroadcastSide, Forward, KeyedBroadcastOperator, Operator
from ..tasks.source_subtask import ONE_BY_ONE, Calls
from ..tasks.throttle import Throttle
from ..tasks.watermarks import SourceWatermarks, WatermarkFlow


class VertexWork:
    """Makes what the subtasks of one attempt work with; they share cores and the clock of event time."""

    def __init__(self, scenario: Scenario, environment: Environment) -> None:
        self._scenario = scenario
        self._environment = environment
        self._cores: dict[str, Cores] = {}
        self._throttles: dict[tuple[str, int, str | None], Throttle] = {}  # by vertex, subtask, edge from
        self._clock = EventClock(environment.agenda)
        self._send_watermarks = sources_with_watermarks(scenario)
        self._read_watermarks = readers_of_watermarks(scenario)

    def operator(
        self,
        vertex: Vertex,
        number: int,
        index: int,
        selectivity: float,
        held_back: HeldBack | None,
        name: str = "",
    ) -> Operator:
        """What a subtask does with records: the user's function, or what the scenario says it emits."""
        if vertex.operator is not None:
            return cast(Operator, vertex.operator(index))
        if selectivity == 1 and vertex.record_bytes is None and held_back is None:
            return Forward()
        chance = None
        if vertex.emission == "random":
            chance = numbers_of(self._scenario.seed, number, index)
        return Emission(selectivity, vertex.record_bytes, chance, held_back, name)

    def of_edge(
        self, vertex: Vertex, number: int, index: int, edge: Edge, subtask: OperatorSubtask
    ) -> GateWork:
        """What a subtask does with the records of one edge into it."""
        operator, throttle = subtask.operator, subtask.throttle
        if isinstance(operator, KeyedBroadcastOperator) and self._scenario.is_broadcast_side(edge):
            operator = BroadcastSide(operator)
        if edge.selectivity is not None:
            name = f"of {edge.source}"
            operator = self.operator(vertex, number, index, edge.selectivity, subtask.held_back, name)
        if edge.service is not None:
            throttle = self.throttle(vertex, index, edge)
        return GateWork(edge.input, operator, throttle)

    def throttle(self, vertex: Vertex, index: int, edge: Edge | None = None) -> Throttle:
        """What spends the service time of a subtask's records; with an `edge`, of those that come over it."""
        costs, randomness = self._environment.costs, self._environment.randomness
        cores = self._cores_of(vertex.manager_of(index)) if vertex.burns else None
        steps = self._steps(vertex, index, None if edge is None else edge.service)
        throttle = Throttle(steps, costs, randomness, mode=vertex.service_mode, cores=cores)
        self._throttles[vertex.name, index, None if edge is None else edge.source] = throttle
        return throttle

    def _steps(self, vertex: Vertex, index: int, service: Sequence[Step] | None) -> tuple[Step, ...]:
        factor = uncertain_factor(self._scenario.seed, vertex.service_spread)
        steps = vertex.steps_of(vertex.service if service is None else service, index)
        return tuple((at, cost * factor) for at, cost in steps)

    def change(self, scenario: Scenario, vertex: Vertex) -> None:
        """Let records cost what `scenario` says now of a vertex."""
        self._scenario = scenario
        services = {edge.source: edge.service for edge in scenario.inputs(vertex)}
        for (name, index, source), throttle in self._throttles.items():
            if name == vertex.name:
                throttle.follow(self._steps(vertex, index, None if source is None else services[source]))

    def _cores_of(self, task_manager: str) -> Cores:
        """The cores that a task manager works on; without a machine, as many as it needs."""
        if task_manager not in self._cores:
            machines = [each for each in self._scenario.machines if task_manager in each.task_managers]
            shared = machines[0].task_managers if machines else (task_manager,)
            cores = Cores(self._environment.agenda, machines[0].cores if machines else inf)
            self._cores.update(dict.fromkeys(shared, cores))
        return self._cores[task_manager]

    def held_back(self, vertex: Vertex) -> HeldBack | None:
        """Where a subtask keeps what it emits later; None: it emits at once."""
        if vertex.emit_every_s is None:
            return None
        if not vertex.emits_by_event_time:
            return HeldBack()
        return EventTimeWindows(vertex.emit_every_s)

    def flow_into(self, vertex: Vertex, held_back: HeldBack | None) -> WatermarkFlow | None:
        """What follows the watermarks that a subtask reads; None where none come."""
        if vertex.name not in self._read_watermarks:
            return None
        windows = held_back if isinstance(held_back, EventTimeWindows) else None
        edges = self._scenario.inputs(vertex)
        return WatermarkFlow(self._clock, windows, [disorder_s(self._scenario, edge) for edge in edges])

    def watermarks_of(self, vertex: Vertex) -> SourceWatermarks | None:
        """The watermarks that a subtask of a source sends; None where nobody waits for any."""
        if vertex.name not in self._send_watermarks or vertex.source is None:
            return None
        interval_s = self._scenario.config.auto_watermark_interval_s
        return SourceWatermarks(self._clock, interval_s, vertex.source.out_of_orderness_s or 0.0)


def calls_of(source: SourceSpec | None) -> Calls:
    """Return how a source is called."""
    if not isinstance(source, GeneratorSpec):
        return ONE_BY_ONE
    return Calls(source.batch, source.legacy, source.cost_s, source.catch_up_s)
