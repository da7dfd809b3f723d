"""What there is to judge a job by: one view, whether an emulation or a real Flink was watched.

A view is of one window: medians and rates of each vertex (`netstack.Steady`), the checkpoints triggered in
it, how the vertices are connected, and the options they run under.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from netstack import (
    CheckpointResult,
    LinkConditions,
    NetworkConfig,
    Result,
    Scenario,
    Series,
    Steady,
    VertexSteady,
    channel_counts,
)

from ..checkpoint_times import triggered_within
from .finding import BACK_PRESSURED, reaches


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one vertex sends to another; `remote`: over the network, rather than within one task manager."""

    source: str
    target: str
    ship: str = "rebalance"
    remote: bool = True

    @property
    def name(self) -> str:
        """How it is called in a finding."""
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A job in one window, as rules see it."""

    name: str
    steady: Steady
    exchanges: tuple[Exchange, ...]
    config: NetworkConfig
    checkpoints: Sequence[CheckpointResult] = ()
    """Those triggered in the window, completed or not; may be empty where only `steady` knows of them."""
    series: Sequence[Series] = ()
    """Samples of the window and around it; empty where there are none."""
    link: LinkConditions | None = None
    """None: not known."""
    levels: Mapping[str, bool] = field(default_factory=dict)
    """Whether Flink calls a vertex back-pressured, where its own metrics do not tell."""

    @property
    def vertices(self) -> list[VertexSteady]:
        """All vertices, sources first."""
        return self.steady.vertices

    tried: Callable[[Mapping[str, object]], str | None] = lambda changes: None
    """Says what other options would come to, by emulating them; None where that is not done."""

    def is_back_pressured(self, vertex: VertexSteady) -> bool | None:
        """Whether a subtask of a vertex waits for buffers to write to; None: not known."""
        waits = reaches(vertex.backpressured_ms_per_s, 1000 * BACK_PRESSURED)
        return self.levels.get(vertex.name) if waits is None else waits

    def inputs(self, vertex: VertexSteady) -> list[tuple[Exchange, VertexSteady]]:
        """The exchanges that a vertex reads, each with the vertex that writes it."""
        return [pair for pair in self._ends("source") if pair[0].target == vertex.name]

    def outputs(self, vertex: VertexSteady) -> list[tuple[Exchange, VertexSteady]]:
        """The exchanges that a vertex writes, each with the vertex that reads it."""
        return [pair for pair in self._ends("target") if pair[0].source == vertex.name]

    def channels(self, vertex: VertexSteady) -> int:
        """Remote input channels of a subtask of a vertex that has the most."""
        return sum(
            max(channel_counts(exchange.ship, writer.parallelism, vertex.parallelism))
            for exchange, writer in self.inputs(vertex)
            if exchange.remote
        )

    def gates(self, vertex: VertexSteady) -> int:
        """Remote input gates of each subtask of a vertex."""
        return sum(exchange.remote for exchange, _ in self.inputs(vertex))

    def _ends(self, end: str) -> Iterator[tuple[Exchange, VertexSteady]]:
        by_name = {vertex.name: vertex for vertex in self.vertices}
        for exchange in self.exchanges:
            vertex = by_name.get(getattr(exchange, end))
            if vertex is not None:
                yield exchange, vertex


def observations(result: Result) -> list[Observation]:
    """Return the views of a result, one for each of its windows."""
    scenario = result.scenario
    return [
        replace(
            observation_of(scenario, steady, triggered_within(result.checkpoints, steady)),
            series=result.series,
            link=scenario.link,
        )
        for steady in result.steady
    ]


def observation_of(
    scenario: Scenario,
    steady: Steady,
    checkpoints: Sequence[CheckpointResult] = (),
    levels: Mapping[str, bool] | None = None,
) -> Observation:
    """Return the view of a job that was measured, a real Flink's or ours; `scenario` says what it is."""
    managers = {vertex.name: vertex.manager for vertex in scenario.vertices}
    return Observation(
        name=scenario.name,
        steady=steady,
        exchanges=tuple(
            Exchange(edge.source, edge.target, edge.ship, managers[edge.source] != managers[edge.target])
            for edge in scenario.edges
        ),
        config=scenario.config,
        checkpoints=checkpoints,
        levels=levels or {},
    )
