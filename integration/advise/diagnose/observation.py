"""Observation of a job in one window of an emulation or of a real Flink, as input of the rules.

It has medians and rates of each vertex (`netstack.Steady`), the checkpoints triggered in the window, the
exchanges between the vertices, and the options of the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import NamedTuple, TypeVar

from netstack import (
    CheckpointResult,
    Edge,
    EdgeBuffers,
    LinkConditions,
    NetworkConfig,
    Result,
    Scenario,
    Series,
    ShipStrategy,
    Steady,
    Vertex,
    VertexSteady,
    channel_counts,
    standstills,
)

from ...base.optional_figures import complete, quotient
from ...runs.checkpoint_times import triggered_within
from .conditions import BACK_PRESSURED, any_of, is_accounted_for, negation, reaches
from .trial import Tried

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange from one vertex to another; `remote` ones use the network."""

    source: str
    target: str
    ship: str = "rebalance"
    remote: bool = True
    buffers: EdgeBuffers = field(default_factory=EdgeBuffers)

    @property
    def strategy(self) -> ShipStrategy:
        """The ship strategy of the exchange."""
        return ShipStrategy.of(self.ship)

    @property
    def name(self) -> str:
        """Name of the exchange in findings."""
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A job in one window, as input of the rules."""

    name: str
    steady: Steady
    exchanges: tuple[Exchange, ...]
    config: NetworkConfig
    checkpoints: Sequence[CheckpointResult] = ()
    """Checkpoints triggered in the window, completed or not. Empty if only `steady` has their figures."""
    series: Sequence[Series] = ()
    """Samples in and around the window, or none."""
    link: LinkConditions | None = None
    """Configuration of the link; None: unknown."""
    levels: Mapping[str, bool] = field(default_factory=dict)
    """Whether Flink reports a vertex as back-pressured, for vertices whose own metrics are missing."""
    scenario: Scenario | None = None
    """The scenario, with its load over time, if there is one."""
    changes: Sequence[str] = ()
    """Sentences on the costs, rates and queues that changed while the figures were measured."""
    tried: Tried = lambda changes: None
    """Function that emulates the job with other options."""

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
        """Target of debloating, in ms."""
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
        """Whether a subtask of a vertex waits for buffers to write to; None: unknown.

        The answer is False only if the metrics account for the whole time. It is None for a legacy source
        (SourceFunction), which reports no busy time, and 0 ms for idle and back-pressured time.
        """
        waits = reaches(vertex.backpressured_ms_per_s, 1000 * BACK_PRESSURED)
        level = self.levels.get(vertex.name)
        if waits is None:
            return level
        return waits or (False if is_accounted_for(vertex) else level or None)

    def may_wait(self, vertices: Sequence[VertexSteady]) -> list[str]:
        """Return the names of the vertices for which it is unknown whether they are back-pressured."""
        return [vertex.name for vertex in vertices if self.is_back_pressured(vertex) is None]

    @property
    def no_back_pressure(self) -> bool | None:
        """Whether no vertex is back-pressured; None: unknown."""
        return negation(any_of(self.is_back_pressured(vertex) for vertex in self.vertices))

    def holds_up(self, vertex: VertexSteady) -> bool | None:
        """Whether a writer of a vertex is back-pressured; None: unknown."""
        return any_of(self.is_back_pressured(writer) for _, writer in self.inputs(vertex))

    def channels_by_gate(self, vertex: VertexSteady) -> list[int]:
        """Input channels of each gate, in the subtask that has the most."""
        return [
            max(channel_counts(exchange.ship, writer.parallelism, vertex.parallelism))
            for exchange, writer in self.inputs(vertex)
        ]

    def credit_buffers(self, vertex: VertexSteady) -> tuple[int, int]:
        """Exclusive and floating buffers of the subtask with the most of them."""
        exclusive = floating = 0
        for (exchange, _), channels in zip(self.inputs(vertex), self.channels_by_gate(vertex), strict=True):
            if exchange.remote:
                exclusive += channels * exchange.buffers.per_channel(self.config)
                floating += exchange.buffers.per_gate(self.config)
        return exclusive, floating


def observations(result: Result) -> list[Observation]:
    """Return an observation for each window of a result."""
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
    """Return the observation of one window of a job, either emulated or in a real Flink."""
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


class DataWaiting(NamedTuple):
    """Data queued at senders and receivers.

    If these are medians, `bytes` may differ from `sender_bytes` + `receiver_bytes`.
    """

    sender_bytes: float
    receiver_bytes: float
    bytes: float

    @property
    def sender_share(self) -> float | None:
        """Share of the data that waits at the senders, 0 to 1. None: both ends are empty most of the time."""
        return quotient(self.sender_bytes, self.sender_bytes + self.receiver_bytes)


def bytes_waiting(view: Observation, vertex: VertexSteady, readers: Sequence[int]) -> DataWaiting | None:
    """Return the data queued for some subtasks of a vertex, or for all if `readers` is empty; None: unknown.

    Each sample is summed over subtasks, and the value is the median over the window's samples. Without
    samples, as for a real Flink, it is the sum of the subtasks' medians.
    """
    writers = [writer for _, writer in view.inputs(vertex)]
    sampled = _sampled(view, [writer.name for writer in writers], vertex.name, readers)
    if sampled is not None:
        return sampled
    senders = complete(held for writer in writers for held in writer.outputQueueSize)
    receivers = complete(of_subtasks(vertex.inputQueueSize, readers))
    if senders is None or receivers is None:
        return None
    return DataWaiting(sum(senders), sum(receivers), sum(senders) + sum(receivers))


def _sampled(
    view: Observation, writers: Sequence[str], reader: str, readers: Sequence[int]
) -> DataWaiting | None:
    by_name = {series.vertex: series for series in view.series}
    if not writers or not {*writers, reader} <= by_name.keys():
        return None
    held = [by_name[writer].outputQueueSize for writer in writers]
    received = by_name[reader].inputQueueSize
    if not all(held) or not received:
        return None
    times = by_name[reader].t
    inside = [place for place, t in enumerate(times) if view.steady.from_s <= t <= view.steady.to_s]
    sent = [sum(queue[at] for subtasks in held for queue in subtasks) for at in inside]
    got = [sum(queue[at] for queue in of_subtasks(received, readers)) for at in inside]
    if not inside:
        return None
    both = [at_senders + at_receivers for at_senders, at_receivers in zip(sent, got, strict=True)]
    return DataWaiting(median(sent), median(got), median(both))


def of_subtasks(values: Sequence[_T], subtasks: Sequence[int]) -> list[_T]:
    """Return the values of some subtasks, or of all if `subtasks` is empty."""
    return [value for subtask, value in enumerate(values) if not subtasks or subtask in subtasks]


def may_overtake(
    exchanges: Sequence[Edge] | Sequence[Exchange], vertices: Sequence[Vertex] | Sequence[VertexSteady]
) -> bool:
    """Whether unaligned checkpoints can be recommended. They cannot if they may deadlock the job."""
    return not any(way.at_once for way in standstills(exchanges, parallelisms(vertices)))


def parallelisms(vertices: Sequence[Vertex] | Sequence[VertexSteady]) -> dict[str, int]:
    """Return the parallelism of each vertex, by name."""
    return {vertex.name: vertex.parallelism for vertex in vertices}
