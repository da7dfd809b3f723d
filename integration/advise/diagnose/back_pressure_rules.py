"""Rules on back-pressure, from the time of subtasks and the usage of their buffer pools.

At any time a subtask is busy, back-pressured or idle. Back-pressure spreads upstream, so the bottleneck is
the busy vertex that follows the last back-pressured vertex.

Writers take buffers from the pool of their output (`outPoolUsage`), readers from that of their input
(`inPoolUsage`: exclusive buffers of each channel, and floating ones that the channels of a gate share)::

    writers' output      readers' input      meaning
    full                 full                the readers are slow: the writers wait for them
    full                 empty               the network is slow
    full                 full for some       some readers are slow, and hold up writers that write to all
    empty                full                the readers have begun to lag
    empty                empty               nothing waits

A vertex with both pools full passes back-pressure on. A vertex with only the input full causes it.

A reader grants credit for its free buffers, and a buffer can be used again only after a round trip. So in one
round trip a channel carries at most as many buffers as it has, whatever the bandwidth::

    throughput of a subtask <= (exclusive buffers of its channels + floating ones) x size / round trip
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from netstack import OPTIONS, Series, VertexSteady, capacity_by_load

from ...base.number_text import bytes_per_second, digits, milliseconds, percent, size
from ...base.optional_figures import Values, complete, highest, known, mean, value_at
from .findings import (
    BACK_PRESSURED,
    BUSY,
    HIGH_USAGE,
    HIGHLY_BACK_PRESSURED,
    LOW_USAGE,
    SKEW,
    Exchange,
    Finding,
    Observation,
    any_of,
    costs_ms,
    is_busy,
    is_empty,
    is_full,
    may_overtake,
    share,
    span,
    span_percent,
)

_ALTERNATES_FROM, _ALTERNATES_TO = 0.2, 0.8
"""A subtask can be back-pressured in bursts if its mean back-pressured share of time is in this range."""

_EXTREME = 0.15
"""A sample counts as extreme if its back-pressured share differs from 0 or from 1 by at most this."""

_MOSTLY = 0.7
"""A subtask counts as alternating if at least this share of its samples is extreme."""

_STARVED = 0.1
"""Full readers are idle for less than this share of time. A reader starves if its idle share exceeds theirs
by at least this."""

_MOSTLY_IDLE = 0.2
"""A reader that is idle for at least this share of time counts as waiting for the network."""

_EVEN = 1.1
"""Subtasks get the same number of records if the greatest number is at most this multiple of the mean."""

_WORTHWHILE = 1.15
"""Adaptive partition selection is advised if records per second rise at least by this factor."""

_NEAR = 0.7
"""A limit explains the throughput if the throughput is at least this share of the limit."""


def operator_bound(view: Observation) -> Iterator[Finding]:
    """Find vertices that are busy all the time and whose writers are back-pressured."""
    for vertex in view.consumers:
        if not is_busy(vertex) or not view.holds_up(vertex):
            continue
        waiting = ", ".join(
            f"{writer.name} {span_percent(writer.backpressured_ms_per_s)} ({_back_pressure_level(writer)})"
            for _, writer in view.inputs(vertex)
            if known(writer.backpressured_ms_per_s)
        )
        waiting = waiting or "as Flink reports"
        some = _only_some(vertex)
        yield Finding(
            rule="operator-bound",
            severity="problem",
            where=vertex.name,
            says=f"{vertex.name} limits the throughput: "
            f"{'some subtasks are' if some else 'it is'} always busy, and upstream tasks wait.",
            evidence=[
                f"busy {span_percent(vertex.busy_ms_per_s)}, back-pressured "
                f"{span_percent(vertex.backpressured_ms_per_s)}; upstream back-pressured: {waiting}",
                *_rate_and_cost(vertex),
            ],
            next=["Find out first why these subtasks have more to do than the others."]
            if some
            else [f"{_profile(vertex)} Buffers only decide how long data and barriers wait before it."],
        )


def _profile(vertex: VertexSteady) -> str:
    return f"Profile {vertex.name}, or raise its parallelism: no network option makes it faster."


def _only_some(vertex: VertexSteady) -> bool:
    """Whether some subtasks of a vertex are busy while the vertex as a whole still has capacity."""
    busy = mean(vertex.busy_ms_per_s)
    return busy is not None and busy / 1000 < BUSY


def at_its_limit(view: Observation) -> Iterator[Finding]:
    """Find vertices that are busy all the time, but have no writer that is known to be back-pressured."""
    for vertex in view.consumers:
        held = view.holds_up(vertex)
        if not is_busy(vertex) or held:
            continue
        evidence = [f"busy {span_percent(vertex.busy_ms_per_s)}", *_rate_and_cost(vertex)]
        if held is False:
            yield Finding(
                rule="near-its-limit",
                severity="notice",
                where=vertex.name,
                says=f"{vertex.name} is nearly at its limit: no task waits for it yet, but a little more "
                "input will cause back-pressure.",
                evidence=evidence,
                next=[f"Raise the parallelism of {vertex.name} before the load grows."],
            )
            continue
        some = _only_some(vertex)
        writers = view.may_wait([writer for _, writer in view.inputs(vertex)])
        yield Finding(
            rule="at-its-limit",
            severity="problem",
            where=vertex.name,
            says=f"{'Some subtasks of ' if some else ''}{vertex.name} {'are' if some else 'is'} busy all the "
            f"time; whether {writers} waits for it is not reported.",
            evidence=evidence,
            next=[
                f"Check whether {writers} emits less than it could: then {vertex.name} is the bottleneck.",
                _profile(vertex),
            ],
        )


def not_bound(view: Observation) -> Iterator[Finding]:
    """Find that no vertex is back-pressured: the input or a source limits the job."""
    shares = [share(complete(vertex.busy_ms_per_s) or ()) for vertex in view.vertices]
    if view.no_back_pressure is not True or not shares or None in shares:
        return
    busy, busiest = max(zip(known(shares), view.vertices, strict=True), key=lambda pair: pair[0])
    evidence = [
        f"no vertex is back-pressured; {busiest.name} is the busiest vertex and works {percent(busy)} "
        "of its time"
    ]
    if busy < BUSY:
        says = "No task limits the throughput: the job is as fast as its input."
        yield Finding(rule="input-bound", severity="fine", where=busiest.name, says=says, evidence=evidence)
    elif not view.inputs(busiest):
        yield Finding(
            rule="source-bound",
            severity="notice",
            where=busiest.name,
            says=f"The source {busiest.name} limits the throughput: tasks that read from it have time left.",
            evidence=evidence,
            next=[f"Raise the parallelism of {busiest.name}, or make reading cheaper."],
        )


def alternating(view: Observation) -> Iterator[Finding]:
    """Find subtasks that are wholly back-pressured at some times and not at all at others."""
    by_name = {series.vertex: series for series in view.series}
    for series in known(by_name.get(vertex.name) for vertex in view.vertices):
        for subtask, counter in enumerate(series.backpressured_ms):
            seconds = list(_shares(series, counter, view))
            extreme = [at for at in seconds if at <= _EXTREME or at >= 1 - _EXTREME]
            average = mean(seconds)
            if average is None or not _ALTERNATES_FROM <= average <= _ALTERNATES_TO:
                continue
            if len(extreme) < _MOSTLY * len(seconds):
                continue
            wholly = sum(at >= 1 - _EXTREME for at in seconds) / len(seconds)
            yield Finding(
                rule="alternating",
                severity="notice",
                where=f"{series.vertex}[{subtask}]",
                says=f"{series.vertex}[{subtask}] is back-pressured in bursts: fully in "
                f"{percent(wholly)} of the samples, hardly at all in most of the others, and "
                f"{percent(average)} of its time on average.",
                evidence=[
                    f"in {len(extreme)} of {len(seconds)} samples the back-pressure is below 15 % or "
                    "above 85 %"
                ],
                next=["Look for load that comes in bursts: windows that fire, timers, garbage collection."],
            )
            break  # one subtask stands for the vertex


def _shares(series: Series, counter: Sequence[float], view: Observation) -> Iterator[float]:
    """Yield the back-pressured share of a subtask's time between consecutive samples of the window."""
    pairs = list(zip(series.t, counter, strict=False))
    for (start, was), (end, now) in pairwise(pairs):
        if start >= view.steady.from_s and end <= view.steady.to_s and end > start:
            yield (now - was) / (end - start) / 1000


def _back_pressure_level(vertex: VertexSteady) -> str:
    """Return Flink's name for a vertex's back-pressure level."""
    pressed = share(vertex.backpressured_ms_per_s) or 0.0
    if pressed < BACK_PRESSURED:
        return "OK"
    return "HIGH" if pressed >= HIGHLY_BACK_PRESSURED else "LOW"


def _rate_and_cost(vertex: VertexSteady) -> Iterator[str]:
    """Yield the record rate of a vertex and its cost per record, if known."""
    rates, costs = complete(vertex.records_in_per_s), costs_ms(vertex)
    if rates is not None:
        yield f"reads {digits(sum(rates))} records/s" + (f", at {span(costs)} ms per record" if costs else "")


def skewed_records(view: Observation) -> Iterator[Finding]:
    """Find vertices with one subtask that gets more records than the others."""
    for vertex in view.consumers:
        uneven = _unevenness(vertex.records_in_per_s)
        ways = [exchange.strategy for exchange, _ in view.inputs(vertex)]
        by_load = view.config.adaptive_partitioner_enabled and any(way.in_turns for way in ways)
        if uneven is None or uneven < SKEW or by_load:
            continue
        most = vertex.records_in_per_s.index(highest(vertex.records_in_per_s))
        action = "Spread the keys, by a salt or by a local aggregation before the exchange."
        if not any(way.by_key for way in ways):
            action = "Check which upstream subtasks emit more, and the partitioner if you wrote it."
        yield Finding(
            rule="skewed-records",
            severity="notice",
            where=vertex.name,
            says=f"{vertex.name}[{most}] gets {uneven:.1f} times as many records as the mean.",
            evidence=[f"records/s by subtask: {span(vertex.records_in_per_s, ',.0f')}"],
            next=[action],
        )


def skewed_cost(view: Observation) -> Iterator[Finding]:
    """Find busy vertices with one subtask that needs more time per record than the others."""
    for vertex in view.consumers:
        costs = costs_ms(vertex)
        dearer = _unevenness(costs or ())
        if costs is None or dearer is None or dearer < SKEW or not is_busy(vertex):
            continue
        dearest = _slowest_subtask(vertex)
        yield Finding(
            rule="skewed-cost",
            severity="notice",
            where=vertex.name,
            says=f"A record takes {dearer:.1f} times as long in {vertex.name}[{dearest}] as on average over "
            "all subtasks.",
            evidence=[f"busy ms per record, by subtask: {span(costs)}"],
            next=["Compare the machines, the state and the keys of the subtasks."],
        )


def unequal_writers(view: Observation) -> Iterator[Finding]:
    """Find readers with some writers that fill their channels and others that hardly use them."""
    avoided = (
        " Unaligned checkpoints or an aligned timeout avoid them."
        if may_overtake(view.exchanges, view.vertices)
        else ""
    )
    for vertex in view.consumers:
        usage = complete(used for _, writer in view.inputs(vertex) for used in writer.outPoolUsage) or []
        full = [used for used in usage if is_full([used])]
        if not full or min(usage) >= max(full) / 2:
            continue
        yield Finding(
            rule="unequal-writers",
            severity="notice",
            where=vertex.name,
            says=f"{len(full)} of the {len(usage)} subtasks that write to it have full output buffers, "
            "and the others do not: barriers come early on some channels and late on others.",
            evidence=[out_pools_upstream(view, vertex)],
            next=[
                f"Expect long alignments.{avoided}",
                "Do not rely on debloating: it gives all channels of a gate the same buffer size.",
            ],
        )


def _unevenness(values: Values) -> float | None:
    """Return the ratio of the greatest value to the mean; None for a single value, or if one is unknown."""
    all_values = complete(values) or []
    average = mean(all_values)
    return max(all_values) / average if average and len(all_values) > 1 else None


def _slowest_subtask(vertex: VertexSteady) -> int:
    """Return the subtask with the highest cost per record; all figures must be known."""
    pairs = zip(known(vertex.busy_ms_per_s), known(vertex.records_in_per_s), strict=True)
    costs = [busy / rate if rate else 0.0 for busy, rate in pairs]
    return costs.index(max(costs))


def some_readers_full(view: Observation) -> Iterator[Finding]:
    """Find exchanges with some readers full and busy, and others empty and idle."""
    for writer in filter(view.is_back_pressured, view.vertices):
        for exchange, reader in view.outputs(writer):
            full, starved = _full_and_starved(reader)
            if not full or exchange.strategy.pointwise:
                continue
            compare = "Compare the machines and the work of the full subtasks with those of the others."
            spread = "Spread the keys, by a salt or by a local aggregation before the exchange."
            steps = [spread, compare] if exchange.strategy.by_key else [compare]
            usages = ", ".join("?" if used is None else f"{used:.2f}" for used in reader.inPoolUsage)
            yield Finding(
                rule="some-readers-full",
                severity="problem",
                where=exchange.name,
                says=f"{subtasks_text(reader, full)} cannot keep up, so "
                f"{subtasks_text(reader, starved)} {'waits' if len(starved) == 1 else 'wait'}, too: "
                "a writer stops writing to all channels when one of them is full.",
                evidence=[
                    f"inPoolUsage of {reader.name}, by subtask: {usages}",
                    f"idle {span_percent(reader.idle_ms_per_s)}, busy {span_percent(reader.busy_ms_per_s)}",
                    f"outPoolUsage of {writer.name}: {span(writer.outPoolUsage)}; one of its "
                    f"subpartitions may hold {exchange.buffers.quota(view.config)} buffers",
                ],
                next=[f"{steps[0]} Debloating sizes buffers by gate and does not fix skew.", *steps[1:]],
            )


def slow_reader_in_turns(view: Observation) -> Iterator[Finding]:
    """Find exchanges that send all subtasks the same number of records although some could read far more.

    Adaptive partition selection lets each subtask read at its own speed (FLIP-339, Flink 2.3).
    """
    field = "adaptive_partitioner_enabled"
    for reader in view.consumers:
        inputs, costs = view.inputs(reader), costs_ms(reader)
        in_turns = all(exchange.strategy.in_turns for exchange, _ in inputs)
        if view.config.adaptive_partitioner_enabled or not in_turns or not is_busy(reader):
            continue
        if not costs or len(costs) < reader.parallelism or not all(costs):
            continue
        if (_unevenness(reader.records_in_per_s) or SKEW) > _EVEN:
            continue
        now, slowest = sum(known(reader.records_in_per_s)), _slowest_subtask(reader)
        rates = [1000 / cost for cost in costs]
        for exchange, writer in inputs:
            possible = capacity_by_load(exchange.ship, writer.parallelism, rates)
            if not view.is_back_pressured(writer) or possible < _WORTHWHILE * now:
                continue
            yield Finding(
                rule="slow-reader-in-turns",
                severity="problem",
                where=exchange.name,
                says="The exchange sends the same number of records to each subtask, so all subtasks are "
                f"as slow as {reader.name}[{slowest}].",
                evidence=[
                    f"together they read {digits(now)} records/s, and could read {digits(possible)}",
                    f"busy ms per record, by subtask: {span(costs)}",
                ],
                next=[
                    f"Set {OPTIONS[field].name}: true, from Flink 2.3 on{view.tried_text({field: True})}. "
                    "It changes the order in which records are processed; state by key is not affected."
                ],
            )


def input_full(view: Observation) -> Iterator[Finding]:
    """Find readers with a full input: they cause back-pressure, pass it on, or will soon cause it."""
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
                says="Its input and output are full: it passes on back-pressure from downstream.",
                evidence=evidence,
                next=["Look downstream for the first vertex whose output is not full."],
            )
        elif output_full is None or held is None:
            continue
        elif held:
            yield Finding(
                rule="input-full-output-free",
                severity="notice",
                where=vertex.name,
                says="Its input buffers and the output buffers of the vertices before it are full, but its "
                "own output buffers are free: this vertex causes the back-pressure.",
                evidence=[*evidence, *_kinds_of_buffers(view, vertex)],
            )
        else:
            yield Finding(
                rule="input-filling",
                severity="notice",
                where=vertex.name,
                says="Its input is full, but its writers are not: it lags and may soon hold up upstream "
                "tasks.",
                evidence=evidence,
                next=["Watch it. If this lasts, treat it as a bottleneck."],
            )


def output_full_input_free(view: Observation) -> Iterator[Finding]:
    """Find vertices that wait for their output while their input is empty."""
    for vertex in view.consumers:
        if not is_empty(vertex.inPoolUsage) or not view.is_back_pressured(vertex):
            continue
        if any_of(is_full(reader.inPoolUsage) for _, reader in view.outputs(vertex)):
            yield Finding(
                rule="output-full-input-free",
                severity="notice",
                where=vertex.name,
                says="Its output is full, but its input is free: either back-pressure has not yet "
                "reached upstream tasks or has just ended, or this vertex emits much more than it "
                "reads.",
                evidence=[_both_pools(vertex)],
                next=["Diagnose it again later: if this lasts, the operator multiplies records."],
            )


def out_pools_upstream(view: Observation, vertex: VertexSteady) -> str:
    """Return the output pool usages of a vertex's writers, as text."""
    usages = (f"{writer.name} {span(writer.outPoolUsage)}" for _, writer in view.inputs(vertex))
    return f"outPoolUsage upstream: {', '.join(usages)}"


def _both_pools(vertex: VertexSteady) -> str:
    return f"inPoolUsage {span(vertex.inPoolUsage)}, outPoolUsage {span(vertex.outPoolUsage)}"


def _kinds_of_buffers(view: Observation, vertex: VertexSteady) -> list[str]:
    """Return as text the usage of both kinds of buffers, and whether data waits on all or some channels."""
    measured = _measured_usages(vertex)
    usages = measured or _least_usages(view, vertex)
    if usages is None:
        return []
    floating, exclusive = usages
    shares = (
        f"{percent(floating)} of the floating buffers and {percent(exclusive)} of the exclusive buffers "
        "are used"
    )
    if measured is None:
        shares = f"at least {percent(floating)} of the floating and {percent(exclusive)} of the exclusive "
        shares += "buffers are used"
    if min(floating, exclusive) >= HIGH_USAGE:
        return [f"{shares}: data waits on all or most channels"]
    written = known(used for _, writer in view.inputs(vertex) for used in writer.outPoolUsage)
    some_writers_full = max(written, default=0.0) >= HIGH_USAGE and min(written) < LOW_USAGE
    if floating >= HIGH_USAGE or some_writers_full:
        return [f"{shares}: data waits on some of the channels only"]
    return [shares]


def _least_usages(view: Observation, vertex: VertexSteady) -> tuple[float, float] | None:
    """Return lower bounds for the usage of floating and exclusive buffers in the fullest subtask."""
    usage = highest(vertex.inPoolUsage)
    exclusive, floating = view.credit_buffers(vertex)
    if usage is None or not exclusive or not floating:
        return None
    used = usage * (exclusive + floating)
    return max(0.0, used - exclusive) / floating, max(0.0, used - floating) / exclusive


def _measured_usages(vertex: VertexSteady) -> tuple[float, float] | None:
    """Return the measured usage of floating and exclusive buffers, of the fullest subtask; None: unknown."""
    floating = complete(vertex.inputFloatingBuffersUsage)
    exclusive = complete(vertex.inputExclusiveBuffersUsage)
    return None if floating is None or exclusive is None else (max(floating), max(exclusive))


def full_readers(vertex: VertexSteady) -> list[int]:
    """Return the subtasks that are full and busy while others starve; none if no subtask starves."""
    return _full_and_starved(vertex)[0]


def _full_and_starved(vertex: VertexSteady) -> tuple[list[int], list[int]]:
    """Return the subtasks that are full and busy, and those that are empty and wait for data.

    If one list would be empty, both are. Pools alone do not show skew, because subtasks with equal work are
    full at different times. So a full subtask must also be hardly idle, and the idle share of an empty one
    must exceed that of the full ones by `_STARVED`.
    """
    pools = [
        (subtask, used, idle_ms / 1000)
        for subtask, used in enumerate(vertex.inPoolUsage)
        if used is not None and (idle_ms := value_at(vertex.idle_ms_per_s, subtask)) is not None
    ]
    full = {subtask: idle for subtask, used, idle in pools if used >= HIGH_USAGE and idle < _STARVED}
    least = min(full.values(), default=0.0) + _STARVED
    empty = [subtask for subtask, used, idle in pools if used < LOW_USAGE and idle >= least]
    return (list(full), empty) if full and empty else ([], [])


def subtasks_text(vertex: VertexSteady, subtasks: Sequence[int]) -> str:
    """Return the names of some subtasks, or their number if there are many."""
    if len(subtasks) > 3:
        return f"{len(subtasks)} subtasks of {vertex.name}"
    return ", ".join(f"{vertex.name}[{index}]" for index in subtasks)


def network_bound(view: Observation) -> Iterator[Finding]:
    """Find remote exchanges with full writers and with empty, idle readers."""
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
    explained = any(nearness >= _NEAR for _, nearness in limits)
    unknown = "the round trip time is not reported, so this limit is unknown: buffers x size / round trip"
    if view.link is not None:
        unknown = "either this link has no limit by credit and bandwidth, or its limits are unknown"
    return Finding(
        rule="network-bound",
        severity="problem",
        where=exchange.name,
        says=f"The network limits the throughput of {exchange.name}: writers are full, and readers wait"
        + ("." if explained else ", or its round trip is too long for the buffers."),
        evidence=[*evidence, *([text for text, _ in limits] or [unknown])],
        next=[
            "Check the bandwidth and latency between the task managers, and what else uses the network.",
            "If the round trip is the limit, give channels more buffers or raise the parallelism. "
            "`netstack size` computes how many buffers a link needs.",
        ],
    )


def _limits(view: Observation, reader: VertexSteady) -> Iterator[tuple[str, float]]:
    """Yield the limits that credit and bandwidth set, as text, each with the share of it that is in use."""
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
            f"{milliseconds(2000 * link.latency_s)} allow a subtask at most {bytes_per_second(limit)}; "
            f"it reads {percent(nearness)} of that",
            nearness,
        )
    if link.bandwidth_bytes_per_s is not None:
        nearness = sum(rates) / link.bandwidth_bytes_per_s
        yield (
            f"{percent(nearness)} of the bandwidth of {bytes_per_second(link.bandwidth_bytes_per_s)} is used",
            nearness,
        )
