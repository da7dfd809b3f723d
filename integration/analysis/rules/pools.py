"""Rules over pool usages: on which side data wait, in whose buffers, or for the network between.

Writers take buffers from the pool of their output (`outPoolUsage`), readers from that of their input
(`inPoolUsage`: exclusive buffers of each channel, and floating ones that the channels of a gate share)::

    out of the writers   in of the readers   reading
    full                 full                the readers are slow: the writers wait for them
    full                 empty               the network is slow
    full                 full for some       some readers are slow, and hold up those who write to all
    empty                full                the readers have begun to lag
    empty                empty               nothing waits

A vertex of which both pools are full hands back-pressure on, one of which only the input is full makes it.

Credit is what a reader has free buffers for, and it comes back a round trip later, so a channel cannot carry
more than its buffers in a round trip, whatever the bandwidth::

    throughput of a subtask <= (exclusive buffers of its channels + floating ones) x size / round trip
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from netstack import ShipStrategy, VertexSteady

from ..known_values import complete, highest, known, mean
from ..wording import bytes_per_second, milliseconds, percent, size
from .finding import HIGH_USAGE, LOW_USAGE, Finding, any_of, is_empty, is_full, span, span_percent
from .observation import Exchange, Observation

_STARVED = 0.1
"""Share of its time from which a reader is said to wait for data; beside a full one, more by that."""


_MOSTLY_IDLE = 0.2
"""Share of its time that a reader is idle, on average, when it waits for the network."""

_NEAR = 0.7
"""Share of a limit from which throughput is explained by it."""


def some_readers_full(view: Observation) -> Iterator[Finding]:
    """One reader full and busy, others empty and idle, while the writers wait: one channel stops them all."""
    for writer in view.vertices:
        for exchange, reader in view.outputs(writer):
            full, empty = _unequal(reader)
            if view.is_back_pressured(writer) and full and not ShipStrategy.of(exchange.ship).pointwise:
                yield Finding(
                    rule="some-readers-full",
                    severity="problem",
                    where=exchange.name,
                    says=f"{subtasks_text(reader, full)} cannot keep up, and {subtasks_text(reader, empty)} "
                    f"{'waits' if len(empty) == 1 else 'wait'} with it: a writer stops for all channels when "
                    "one of them is full.",
                    evidence=[
                        f"inPoolUsage of {reader.name}, by subtask: "
                        + ", ".join("?" if u is None else f"{u:.2f}" for u in reader.inPoolUsage),
                        f"idle {span_percent(reader.idle_ms_per_s)}, busy "
                        f"{span_percent(reader.busy_ms_per_s)}",
                        f"outPoolUsage of {writer.name}: {span(writer.outPoolUsage)}; one subpartition may "
                        f"hold {exchange.buffers.quota(view.config)} buffers",
                    ],
                    next=[
                        "find out what is special about the full subtasks: their keys, or their machine",
                        "spread their keys (a salt, or a local aggregation before the exchange); debloating "
                        "sizes buffers by gate and does not mend skew",
                    ],
                )


def input_full(view: Observation) -> Iterator[Finding]:
    """Readers full: they make back-pressure, hand it on, or are about to."""
    for vertex in view.consumers:
        if not is_full(vertex.inPoolUsage):
            continue
        evidence = [_both_pools(vertex), out_pools_upstream(view, vertex)]
        output_full = is_full(vertex.outPoolUsage) if view.outputs(vertex) else False
        held = view.holds_up(vertex)
        if output_full:
            yield Finding(
                rule="both-pools-full",
                severity="notice",
                where=vertex.name,
                says="Input and output are full: it hands on back-pressure that comes from further down.",
                evidence=evidence,
                next=["look further down, for the first vertex of which the output is not full"],
            )
        elif output_full is None or held is None:
            continue
        elif held:
            yield Finding(
                rule="input-full-output-free",
                severity="notice",
                where=vertex.name,
                says="Input full, output free, writers full: the back-pressure comes from here.",
                evidence=[*evidence, *_whose(view, vertex)],
            )
        else:
            yield Finding(
                rule="input-filling",
                severity="notice",
                where=vertex.name,
                says="Input full, writers not yet: it lags, and may soon hold up what is before it.",
                evidence=evidence,
                next=["watch it; if it lasts, treat it as a bottleneck"],
            )


def output_full_input_free(view: Observation) -> Iterator[Finding]:
    """A vertex in the middle that waits for its output while little waits for it."""
    for vertex in view.consumers:
        if not is_empty(vertex.inPoolUsage) or not view.is_back_pressured(vertex):
            continue
        if any_of(is_full(reader.inPoolUsage) for _, reader in view.outputs(vertex)):
            yield Finding(
                rule="output-full-input-free",
                severity="notice",
                where=vertex.name,
                says="Output full, input free: back-pressure has not reached what is before it, or has "
                "left it again, or this vertex makes much more than it reads.",
                evidence=[_both_pools(vertex)],
                next=["compare two moments: a lasting state points at an operator that multiplies records"],
            )


def out_pools_upstream(view: Observation, vertex: VertexSteady) -> str:
    """Return how full the pools of those are that write to a vertex."""
    usages = (f"{writer.name} {span(writer.outPoolUsage)}" for _, writer in view.inputs(vertex))
    return f"outPoolUsage upstream: {', '.join(usages)}"


def _both_pools(vertex: VertexSteady) -> str:
    return f"inPoolUsage {span(vertex.inPoolUsage)}, outPoolUsage {span(vertex.outPoolUsage)}"


def _whose(view: Observation, vertex: VertexSteady) -> list[str]:
    """Which buffers are used, and so on how many channels data waits."""
    floating, exclusive = _usages(view, vertex)
    if floating is None or exclusive is None:
        return []
    shares = f"floating buffers used {percent(floating)}, exclusive ones {percent(exclusive)}"
    if _measured(vertex) is None:
        shares = f"at least {percent(floating)} of the floating and {percent(exclusive)} of the exclusive "
        shares += "buffers are used"
    if min(floating, exclusive) >= HIGH_USAGE:
        return [f"{shares}: data waits on all channels, or most"]
    if floating >= HIGH_USAGE or _some_writers_full(view, vertex):
        return [f"{shares}: data waits on some of the channels only"]
    return [shares]


def _some_writers_full(view: Observation, vertex: VertexSteady) -> bool:
    usages = known(used for _, writer in view.inputs(vertex) for used in writer.outPoolUsage)
    return any(used >= HIGH_USAGE for used in usages) and any(used < LOW_USAGE for used in usages)


def _usages(view: Observation, vertex: VertexSteady) -> tuple[float | None, float | None]:
    """Usage of floating and exclusive buffers in the fullest subtask; measured, else the least possible."""
    measured = _measured(vertex)
    if measured is not None:
        return measured
    usage = highest(vertex.inPoolUsage)
    exclusive, floating = view.credit_buffers(vertex)
    if usage is None or not exclusive or not floating:
        return None, None
    used = usage * (exclusive + floating)
    return max(0.0, used - exclusive) / floating, max(0.0, used - floating) / exclusive


def _measured(vertex: VertexSteady) -> tuple[float, float] | None:
    """Usage of floating and exclusive buffers in the fullest subtask, where it was measured in all."""
    floating = complete(vertex.inputFloatingBuffersUsage)
    exclusive = complete(vertex.inputExclusiveBuffersUsage)
    return None if floating is None or exclusive is None else (max(floating), max(exclusive))


def _subtasks(usage: Sequence[float | None], least: float, below: float) -> list[int]:
    return [index for index, used in enumerate(usage) if used is not None and least <= used < below]


def full_readers(vertex: VertexSteady) -> list[int]:
    """Return the subtasks that are full and have no time left, where others starve beside them; else none."""
    return _unequal(vertex)[0]


def _unequal(vertex: VertexSteady) -> tuple[list[int], list[int]]:
    """The subtasks that are full and hardly idle, and those that are empty and wait for data beside them.

    None of either where the one kind is not there. Pools alone say nothing: subtasks that do the same work
    are found full by turns. So the full ones are known to have no time left, and the others to have more of
    it by `_STARVED`; one that is never idle may be empty, too.
    """
    idle = [None if time is None else time / 1000 for time in vertex.idle_ms_per_s]
    full = [
        subtask
        for subtask in _subtasks(vertex.inPoolUsage, HIGH_USAGE, 2.0)
        if (time := _at(idle, subtask)) is not None and time < _STARVED
    ]
    least = min(known(_at(idle, subtask) for subtask in full), default=0.0) + _STARVED
    empty = [
        subtask
        for subtask in _subtasks(vertex.inPoolUsage, -1.0, LOW_USAGE)
        if (time := _at(idle, subtask)) is not None and time >= least
    ]
    return (full, empty) if full and empty else ([], [])


def _at(values: Sequence[float | None], subtask: int) -> float | None:
    return values[subtask] if subtask < len(values) else None


def subtasks_text(vertex: VertexSteady, subtasks: Sequence[int]) -> str:
    """Return the names of some subtasks, or how many they are."""
    if len(subtasks) > 3:
        return f"{len(subtasks)} subtasks of {vertex.name}"
    return ", ".join(f"{vertex.name}[{index}]" for index in subtasks)


def network_bound(view: Observation) -> Iterator[Finding]:
    """Writers full, readers empty and idle: what is between them is slow."""
    for writer in view.vertices:
        readers = [(exchange, reader) for exchange, reader in view.outputs(writer) if exchange.remote]
        if not view.is_back_pressured(writer) or not is_full(writer.outPoolUsage):
            continue
        if any_of(is_full(reader.inPoolUsage) for _, reader in readers) is not False:
            continue
        for exchange, reader in readers:
            idle = mean(reader.idle_ms_per_s)
            if is_empty(reader.inPoolUsage) and idle is not None and idle / 1000 >= _MOSTLY_IDLE:
                yield _network(view, exchange, writer, reader)


def _network(view: Observation, exchange: Exchange, writer: VertexSteady, reader: VertexSteady) -> Finding:
    evidence = [
        f"outPoolUsage of {writer.name}: {span(writer.outPoolUsage)}, back-pressured "
        f"{span_percent(writer.backpressured_ms_per_s)} of the time",
        f"inPoolUsage of {reader.name}: {span(reader.inPoolUsage)}, idle "
        f"{span_percent(reader.idle_ms_per_s)}",
    ]
    limits = list(_limits(view, reader))
    near = [text for text, nearness in limits if nearness >= _NEAR]
    what = [text for text, _ in limits]
    unknown = "the round trip is not known: compare throughput with buffers x size / round trip"
    if view.link is not None:
        unknown = "what credit and bandwidth would allow cannot be told, or limits nothing"
    return Finding(
        rule="network-bound",
        severity="problem",
        where=exchange.name,
        says="The writers are full and the readers wait: the network between them is the limit"
        + (", not an operator." if near else ", or its round trip is long for the credit there is."),
        evidence=[*evidence, *(what or [unknown])],
        next=[
            "look at bandwidth and latency between the task managers, and at who else uses them",
            "where the round trip is the limit, give channels more buffers, or raise the parallelism: "
            "`netstack size` says how many a link needs",
        ],
    )


def _limits(view: Observation, reader: VertexSteady) -> Iterator[tuple[str, float]]:
    """What credit and bandwidth allow, in words, and how near the measured rate comes to it."""
    rates, link = complete(reader.bytes_in_per_s), view.link
    if link is None or rates is None:
        return
    config, buffers = view.config, sum(view.credit_buffers(reader))
    buffer_bytes = mean(reader.debloatedBufferSize) if config.debloat_enabled else config.segment_bytes
    if link.latency_s > 0 and buffers and buffer_bytes is not None:
        limit = buffers * buffer_bytes / (2 * link.latency_s)
        nearness = max(rates) / limit
        yield (
            f"{buffers} buffers of {size(buffer_bytes)} in a round trip of "
            f"{milliseconds(2000 * link.latency_s)} make {bytes_per_second(limit)} a subtask at most; "
            f"it reads {percent(nearness)} of that",
            nearness,
        )
    if link.bandwidth_bytes_per_s is not None:
        nearness = sum(rates) / link.bandwidth_bytes_per_s
        yield (
            f"{percent(nearness)} of a bandwidth of {bytes_per_second(link.bandwidth_bytes_per_s)} is used",
            nearness,
        )
