"""What there is to judge a job by: one view, whether an emulation or a real Flink was watched.

A view is of one window: medians and rates of each vertex (`netstack.Steady`), the checkpoints triggered in
it, how the vertices are connected, and the options they run under.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from netstack import (
    CheckpointResult,
    EdgeBuffers,
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
from .finding import BACK_PRESSURED, any_of, is_accounted_for, negation, reaches

AS_OPTIONS_SAY = EdgeBuffers()


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one vertex sends to another; `remote`: over the network, rather than within one task manager."""

    source: str
    target: str
    ship: str = "rebalance"
    remote: bool = True
    buffers: EdgeBuffers = AS_OPTIONS_SAY

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
    scenario: Scenario | None = None
    """What was run, with its load over time; None: there is no more of it than what is here."""
    tried: Callable[[Mapping[str, object]], str | None] = lambda changes: None
    """Says what other options would come to, by emulating them; None where that is not done."""

    @property
    def vertices(self) -> list[VertexSteady]:
        """All vertices, sources first."""
        return self.steady.vertices

    @property
    def consumers(self) -> list[VertexSteady]:
        """The vertices that read from others."""
        return [vertex for vertex in self.vertices if self.inputs(vertex)]

    @property
    def target_ms(self) -> float:
        """What debloating aims at."""
        return 1000 * self.config.debloat_target_s

    def inputs(self, vertex: VertexSteady) -> list[tuple[Exchange, VertexSteady]]:
        """The exchanges that a vertex reads, each with the vertex that writes it."""
        return [
            (exchange, writer)
            for exchange in self.exchanges
            for writer in self.vertices
            if (exchange.source, exchange.target) == (writer.name, vertex.name)
        ]

    def outputs(self, vertex: VertexSteady) -> list[tuple[Exchange, VertexSteady]]:
        """The exchanges that a vertex writes, each with the vertex that reads it."""
        return [
            (exchange, reader)
            for exchange in self.exchanges
            for reader in self.vertices
            if (exchange.source, exchange.target) == (vertex.name, reader.name)
        ]

    def is_back_pressured(self, vertex: VertexSteady) -> bool | None:
        """Whether a subtask of a vertex waits for buffers to write to; None: not known.

        That it does not is believed only of an account that says where the time goes instead: a source of the
        old kind (SourceFunction) tells of no busy time, and of 0 ms idle and back-pressured.
        """
        waits = reaches(vertex.backpressured_ms_per_s, 1000 * BACK_PRESSURED)
        said = self.levels.get(vertex.name)
        if waits is None:
            return said
        return waits or (False if is_accounted_for(vertex) else said or None)

    def may_wait(self, vertices: Sequence[VertexSteady]) -> str:
        """Those vertices of which nobody knows whether they are back-pressured, as "a or b"."""
        names = [vertex.name for vertex in vertices if self.is_back_pressured(vertex) is None]
        return " or ".join(names) if len(names) <= 3 else f"one of {len(names)} vertices"

    @property
    def nobody_waits(self) -> bool | None:
        """Whether no vertex is back-pressured; None: not known."""
        return negation(any_of(self.is_back_pressured(vertex) for vertex in self.vertices))

    def holds_up(self, vertex: VertexSteady) -> bool | None:
        """Whether one of those who write to a vertex is back-pressured; None: not known."""
        return any_of(self.is_back_pressured(writer) for _, writer in self.inputs(vertex))

    def channels_by_gate(self, vertex: VertexSteady) -> list[int]:
        """Input channels of each gate, in the subtask that has the most."""
        return [
            max(channel_counts(exchange.ship, writer.parallelism, vertex.parallelism))
            for exchange, writer in self.inputs(vertex)
        ]

    def credit_buffers(self, vertex: VertexSteady) -> tuple[int, int]:
        """Exclusive and floating buffers of the subtask that has the most."""
        gates = [
            (exchange.buffers, max(channel_counts(exchange.ship, writer.parallelism, vertex.parallelism)))
            for exchange, writer in self.inputs(vertex)
            if exchange.remote
        ]
        exclusive = sum(channels * buffers.per_channel(self.config) for buffers, channels in gates)
        return exclusive, sum(buffers.per_gate(self.config) for buffers, _ in gates)


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
    """Return the view of one window of a job, emulated or a real Flink's; `scenario` says what the job is."""
    return Observation(
        name=scenario.name,
        steady=steady,
        exchanges=tuple(
            Exchange(edge.source, edge.target, edge.ship, scenario.has_remote_channels(edge), edge.buffers)
            for edge in scenario.edges
        ),
        config=scenario.config,
        checkpoints=checkpoints,
        levels=levels or {},
        scenario=scenario,
    )
