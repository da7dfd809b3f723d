"""Observations of a job, findings about it, and the conditions that several rules check.

An observation covers one window of an emulation or of a real Flink: medians and rates of each vertex
(`netstack.Steady`), the checkpoints triggered in it, how the vertices are connected, and the
options of the job. Each condition has one limit for all rules, and is None where a figure is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal, NamedTuple, TypeVar

import msgspec

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

from ...base.optional_figures import Values, complete, highest, known, quotient
from ...runs.checkpoint_times import triggered_within

_T = TypeVar("_T")

Severity = Literal["problem", "notice", "fine"]

HIGH_USAGE = 0.75
"""A pool counts as full from this used share on. It is below 1, because checkpoints drain pools."""

LOW_USAGE = 0.5
"""A pool counts as empty if less than this share of it is used."""

BACK_PRESSURED = 0.1
"""A subtask counts as back-pressured if it waits for output buffers for at least this share of the time.

Flink's web UI shows OK below it.
"""

HIGHLY_BACK_PRESSURED = 0.5
"""Minimum back-pressured share of time for which Flink's web UI shows HIGH."""

BUSY = 0.9
"""A subtask that is busy for at least this share of the time has no capacity left."""

SKEW = 1.3
"""Subtasks count as unequal if the greatest value is at least this multiple of the mean."""

MISSED = 1.1
"""The target is missed if consuming the queued data takes at least this multiple of the target."""

AT_MINIMUM = 1.05
"""A buffer counts as minimal up to this multiple of the minimum size.

The tolerance is needed because a mean or median size can lie slightly above the minimum.
"""

NO_PAUSE = 0.9
"""A checkpoint that takes at least this share of the interval leaves hardly a pause before the next."""

MOST_CHANNELS = 200
"""If a gate has more channels, Flink's documentation expects debloating to fail with its default options."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The finding of a rule: its place, its meaning, the figures behind it, and what to do next."""

    rule: str
    severity: Severity
    where: str
    """A vertex, an exchange as "a -> b", or "checkpoints"."""
    says: str
    evidence: list[str]
    next: list[str] = []
    weight: float | msgspec.UnsetType = msgspec.UNSET
    """Size of the problem, for comparing the findings of one rule. Only rules of `tune` set it, since only
    `tune` compares runs."""


def reaches(values: Values, limit: float) -> bool | None:
    """Whether any subtask reaches the limit. None: no known value reaches it, and some are unknown."""
    listed = list(values)
    if any(value >= limit for value in known(listed)):
        return True
    return False if complete(listed) is not None else None


def is_full(usage: Values) -> bool | None:
    """Whether the pool of any subtask is full; None: unknown."""
    return reaches(usage, HIGH_USAGE)


def is_empty(usage: Values) -> bool | None:
    """Whether the pools of all subtasks are empty; None: unknown."""
    return negation(reaches(usage, LOW_USAGE))


def is_busy(vertex: VertexSteady) -> bool | None:
    """Whether a subtask of a vertex has no time left; None: unknown."""
    return reaches(vertex.busy_ms_per_s, 1000 * BUSY)


def is_accounted_for(vertex: VertexSteady) -> bool:
    """Whether the metrics account for the whole time of every subtask, up to a negligible share."""
    parts = zip(vertex.busy_ms_per_s, vertex.idle_ms_per_s, vertex.backpressured_ms_per_s, strict=False)
    return all(
        busy is not None or sum(known((idle, waiting))) > 1000 * (1 - BACK_PRESSURED)
        for busy, idle, waiting in parts
    )


def negation(condition: bool | None) -> bool | None:
    """Return the opposite of a condition. The opposite of None is None."""
    return None if condition is None else not condition


def any_of(conditions: Iterable[bool | None]) -> bool | None:
    """Whether any condition holds. None: no known condition holds, and some are unknown."""
    answers = list(conditions)
    return True if True in answers else None if None in answers else False


def share(ms_per_s: Values) -> float | None:
    """Return the greatest of some times in ms per second, as a share from 0 to 1. None: all are unknown."""
    most = highest(ms_per_s)
    return None if most is None else most / 1000


def costs_ms(vertex: VertexSteady) -> list[float] | None:
    """Return the busy time per record, in ms, of each subtask that reads records.

    None: a figure is unknown.
    """
    busy, rates = complete(vertex.busy_ms_per_s), complete(vertex.records_in_per_s)
    if busy is None or rates is None:
        return None
    return [time / rate for time, rate in zip(busy, rates, strict=True) if rate]


def at_minimum(buffer_bytes: float, config: NetworkConfig) -> bool:
    """Whether buffers are as small as debloating may make them."""
    return buffer_bytes <= AT_MINIMUM * config.min_segment_bytes


def share_of_interval(checkpoint_ms: float, interval_s: float) -> float:
    """Return a checkpoint's duration as a share of its interval.

    Above 1, the next checkpoint starts as soon as this one ends.
    """
    return checkpoint_ms / 1000 / interval_s


def record_bytes(vertex: VertexSteady) -> float | None:
    """Return the mean size of the records that a vertex reads. None: the rate of a subtask is unknown."""
    records, taken = complete(vertex.records_in_per_s), complete(vertex.bytes_in_per_s)
    if records is None or taken is None or not sum(records) or not sum(taken):
        return None
    return sum(taken) / sum(records)


def span(values: Values, form: str = ".2f", scale: float = 1.0) -> str:
    """Return the range of the known values as text: "min-max", or one number if both look the same."""
    listed = list(values)
    ordered = sorted(known(listed))
    if not ordered:
        return "unknown"
    low, high = f"{ordered[0] * scale:{form}}", f"{ordered[-1] * scale:{form}}"
    text = low if low == high else f"{low}-{high}"
    return text if len(ordered) == len(listed) else f"{text} in {len(ordered)} of {len(listed)} subtasks"


def span_percent(ms_per_s: Values) -> str:
    """Return times in ms per second as percentages, "99 %", or "24-100 %" over several subtasks."""
    capped = [None if time is None else min(time, 1000.0) for time in ms_per_s]
    low, _, rest = span(capped, ".0f", 0.1).partition(" in ")
    return low if low == "unknown" else f"{low} %" + (f" in {rest}" if rest else "")


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
    tried: Callable[[Mapping[str, object]], str | None] = lambda changes: None
    """Function that emulates the job with other options and describes the outcome, or returns None: not
    emulated."""

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

    def tried_text(self, changes: Mapping[str, object], what: str = "") -> str:
        """Return the outcome of other options as text in brackets, after `what`; empty: not emulated."""
        outcome = self.tried(changes)
        return "" if outcome is None else f" ({what}{outcome})"

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

    def may_wait(self, vertices: Sequence[VertexSteady]) -> str:
        """Return the vertices for which it is unknown whether they are back-pressured, as "a or b"."""
        names = [vertex.name for vertex in vertices if self.is_back_pressured(vertex) is None]
        return " or ".join(names) if len(names) <= 3 else f"one of {len(names)} vertices"

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
