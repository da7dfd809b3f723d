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
from typing import Any, NamedTuple

from netstack import OPTIONS, Series, VertexSteady, capacity_by_load

from ...base.optional_figures import Values, complete, highest, known, mean, value_at
from ...runs.job_load import SATURATED
from .conditions import HIGH_USAGE, LOW_USAGE, SKEW, any_of, costs_ms, is_busy, is_empty, is_full, share
from .findings import Found, Rule, Words, rule
from .observation import Observation, may_overtake
from .words import limits, unless, when

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


_BUSIEST = "no vertex is back-pressured; {where} is the busiest vertex and works {busy:percent} of its time"
_PROFILE = "Profile {where}, or raise its parallelism: no network option makes it faster."
_SPREAD_KEYS = "Spread the keys, by a salt or by a local aggregation before the exchange."
_COMPARE_FULL = "Compare the machines and the work of the full subtasks with those of the others."
_NO_REMEDY = "Debloating sizes buffers by gate and does not fix skew."
_COSTS = "busy ms per record, by subtask: {costs:span}"
_BOTH_POOLS = "inPoolUsage {vertex.inPoolUsage:span}, outPoolUsage {vertex.outPoolUsage:span}"
_CHANNELS = (
    "{on_all:: data waits on all or most channels|}{on_some:: data waits on some of the channels only|}"
)
_WRITERS_POOLS = "outPoolUsage upstream: {writers:output pools}"
"""Lines of several rules."""


def _busy(view: Observation) -> Iterator[Found]:
    """Find vertices that are busy all the time. The case: whether their writers are back-pressured."""
    for vertex in view.consumers:
        if is_busy(vertex):
            writers = _writers(view, vertex)
            yield Found(
                vertex.name,
                view.holds_up(vertex),
                vertex=vertex,
                writers=writers,
                unknown=view.may_wait(writers),
                some=_only_some(vertex),
            )


def _writers(view: Observation, vertex: VertexSteady) -> list[VertexSteady]:
    return [writer for _, writer in view.inputs(vertex)]


def _only_some(vertex: VertexSteady) -> bool:
    """Whether some subtasks of a vertex are busy while the vertex as a whole still has capacity."""
    busy = mean(vertex.busy_ms_per_s)
    return busy is not None and busy / 1000 < SATURATED


operator_bound = rule(
    "operator-bound",
    "problem",
    says="{where} limits the throughput: {some:some subtasks are|it is} always busy, and upstream tasks "
    "wait.",
    evidence=[
        "busy {vertex.busy_ms_per_s:percent span}, back-pressured "
        "{vertex.backpressured_ms_per_s:percent span}; upstream back-pressured: {writers:pressure}",
        "{vertex:rate and cost}",
    ],
    next=[
        when("some", "Find out first why these subtasks have more to do than the others."),
        unless("some", f"{_PROFILE} Buffers only decide how long data and barriers wait before it."),
    ],
)(_busy)

at_its_limit = Rule(
    _busy,
    Words(
        "near-its-limit",
        "notice",
        case=False,
        says="{where} is nearly at its limit: no task waits for it yet, but a little more input will cause "
        "back-pressure.",
        evidence=["busy {vertex.busy_ms_per_s:percent span}", "{vertex:rate and cost}"],
        next=["Raise the parallelism of {where} before the load grows."],
    ),
    Words(
        "at-its-limit",
        "problem",
        case=None,
        says="{some:Some subtasks of |}{where} {some:are|is} busy all the time; whether {unknown:any of} "
        "waits for it is not reported.",
        evidence=["busy {vertex.busy_ms_per_s:percent span}", "{vertex:rate and cost}"],
        next=[
            "Check whether {unknown:any of} emits less than it could: then {where} is the bottleneck.",
            _PROFILE,
        ],
    ),
)


@rule(
    "input-bound",
    "fine",
    case=False,
    says="No task limits the throughput: the job is as fast as its input.",
    evidence=[_BUSIEST],
)
@rule(
    "source-bound",
    "notice",
    says="The source {where} limits the throughput: tasks that read from it have time left.",
    evidence=[_BUSIEST],
    next=["Raise the parallelism of {where}, or make reading cheaper."],
)
def not_bound(view: Observation) -> Iterator[Found]:
    """Find that no vertex is back-pressured. The case: whether a source is at its limit."""
    shares = [share(complete(vertex.busy_ms_per_s) or ()) for vertex in view.vertices]
    if view.no_back_pressure is not True or not shares or None in shares:
        return
    busy, busiest = max(zip(known(shares), view.vertices, strict=True), key=lambda pair: pair[0])
    if busy < SATURATED or not view.inputs(busiest):
        yield Found(busiest.name, busy >= SATURATED, busy=busy)


@rule(
    "alternating",
    "notice",
    says="{where} is back-pressured in bursts: fully in {wholly:percent} of the samples, hardly at all "
    "in most of the others, and {average:percent} of its time on average.",
    evidence=["in {extreme} of {samples} samples the back-pressure is below 15 % or above 85 %"],
    next=["Look for load that comes in bursts: windows that fire, timers, garbage collection."],
)
def alternating(view: Observation) -> Iterator[Found]:
    """Find subtasks that are wholly back-pressured at some times and not at all at others."""
    by_name = {series.vertex: series for series in view.series}
    for series in known(by_name.get(vertex.name) for vertex in view.vertices):
        for subtask, counter in enumerate(series.backpressured_ms):
            samples = list(_shares(series, counter, view))
            extreme = [at for at in samples if at <= _EXTREME or at >= 1 - _EXTREME]
            average = mean(samples)
            if average is None or not _ALTERNATES_FROM <= average <= _ALTERNATES_TO:
                continue
            if len(extreme) < _MOSTLY * len(samples):
                continue
            wholly = sum(at >= 1 - _EXTREME for at in samples) / len(samples)
            yield Found(
                f"{series.vertex}[{subtask}]",
                wholly=wholly,
                average=average,
                extreme=len(extreme),
                samples=len(samples),
            )
            break  # one subtask stands for the vertex


def _shares(series: Series, counter: Sequence[float], view: Observation) -> Iterator[float]:
    """Yield the back-pressured share of a subtask's time between consecutive samples of the window."""
    pairs = list(zip(series.t, counter, strict=False))
    for (start, was), (end, now) in pairwise(pairs):
        if start >= view.steady.from_s and end <= view.steady.to_s and end > start:
            yield (now - was) / (end - start) / 1000


@rule(
    "skewed-records",
    "notice",
    says="{where}[{most}] gets {uneven:.1f} times as many records as the mean.",
    evidence=["records/s by subtask: {vertex.records_in_per_s:whole span}"],
    next=[
        when("by_key", _SPREAD_KEYS),
        unless("by_key", "Check which upstream subtasks emit more, and the partitioner if you wrote it."),
    ],
)
def skewed_records(view: Observation) -> Iterator[Found]:
    """Find vertices with one subtask that gets more records than the others."""
    for vertex in view.consumers:
        uneven = _unevenness(vertex.records_in_per_s)
        ways = [exchange.strategy for exchange, _ in view.inputs(vertex)]
        by_load = view.config.adaptive_partitioner_enabled and any(way.in_turns for way in ways)
        if uneven is None or uneven < SKEW or by_load:
            continue
        most = vertex.records_in_per_s.index(highest(vertex.records_in_per_s))
        by_key = any(way.by_key for way in ways)
        yield Found(vertex.name, vertex=vertex, most=most, uneven=uneven, by_key=by_key)


@rule(
    "skewed-cost",
    "notice",
    says="A record takes {dearer:.1f} times as long in {where}[{dearest}] as on average over all subtasks.",
    evidence=[_COSTS],
    next=["Compare the machines, the state and the keys of the subtasks."],
)
def skewed_cost(view: Observation) -> Iterator[Found]:
    """Find busy vertices with one subtask that needs more time per record than the others."""
    for vertex in view.consumers:
        costs = costs_ms(vertex)
        dearer = _unevenness(costs or ())
        if costs is None or dearer is None or dearer < SKEW or not is_busy(vertex):
            continue
        yield Found(vertex.name, costs=costs, dearer=dearer, dearest=_slowest_subtask(vertex))


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


@rule(
    "unequal-writers",
    "notice",
    says="{full} of the {subtasks} subtasks that write to it have full output buffers, and the others do "
    "not: barriers come early on some channels and late on others.",
    evidence=[_WRITERS_POOLS],
    next=[
        "Expect long alignments.{overtakes: Unaligned checkpoints or an aligned timeout avoid them.|}",
        "Do not rely on debloating: it gives all channels of a gate the same buffer size.",
    ],
)
def unequal_writers(view: Observation) -> Iterator[Found]:
    """Find readers with some writers that fill their channels and others that hardly use them."""
    for vertex in view.consumers:
        writers = _writers(view, vertex)
        usage = complete(used for writer in writers for used in writer.outPoolUsage) or []
        full = [used for used in usage if is_full([used])]
        if not full or min(usage) >= max(full) / 2:
            continue
        yield Found(
            vertex.name,
            writers=writers,
            full=len(full),
            subtasks=len(usage),
            overtakes=may_overtake(view.exchanges, view.vertices),
        )


@rule(
    "network-bound",
    "problem",
    says="The network limits the throughput of {where}: writers are full, and readers wait"
    "{explained:.|, or its round trip is too long for the buffers.}",
    evidence=[
        "outPoolUsage of {writer.name}: {writer.outPoolUsage:span}, back-pressured "
        "{writer.backpressured_ms_per_s:percent span} of the time",
        "inPoolUsage of {reader.name}: {reader.inPoolUsage:span}, idle {reader.idle_ms_per_s:percent span}",
        limits,
    ],
    next=[
        "Check the bandwidth and latency between the task managers, and what else uses the network.",
        "If the round trip is the limit, give channels more buffers or raise the parallelism. "
        "`netstack size` computes how many buffers a link needs.",
    ],
)
def network_bound(view: Observation) -> Iterator[Found]:
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
                found = list(_limits(view, reader))
                explained = any(limit.used >= _NEAR for limit in found)
                yield Found(exchange.name, writer=writer, reader=reader, limits=found, explained=explained)


class Limit(NamedTuple):
    """A limit that credit or bandwidth sets for an exchange."""

    used: float
    """Share of the limit that is in use."""
    bytes_per_s: float
    credit: tuple[int, float, float] | None = None
    """For credit: a subtask's buffers, the bytes of each, and the round trip in ms; None: bandwidth."""


def _limits(view: Observation, reader: VertexSteady) -> Iterator[Limit]:
    """Yield the limits that credit and bandwidth set."""
    rates, link = complete(reader.bytes_in_per_s), view.link
    if link is None or rates is None:
        return
    config, buffers = view.config, sum(view.credit_buffers(reader))
    buffer_bytes = mean(reader.debloatedBufferSize) if config.debloat_enabled else config.segment_bytes
    if link.latency_s > 0 and buffers and buffer_bytes is not None:
        limit = buffers * buffer_bytes / (2 * link.latency_s)
        yield Limit(max(rates) / limit, limit, (buffers, buffer_bytes, 2000 * link.latency_s))
    if link.bandwidth_bytes_per_s is not None:
        yield Limit(sum(rates) / link.bandwidth_bytes_per_s, link.bandwidth_bytes_per_s)


@rule(
    "slow-reader-in-turns",
    "problem",
    says="The exchange sends the same number of records to each subtask, so all subtasks are as slow as "
    "{reader.name}[{slowest}].",
    evidence=["together they read {now:digits} records/s, and could read {possible:digits}", _COSTS],
    next=[
        "Set {option}: true, from Flink 2.3 on{outcome:in brackets}. It changes the order in which "
        "records are processed; state by key is not affected."
    ],
)
def slow_reader_in_turns(view: Observation) -> Iterator[Found]:
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
            yield Found(
                exchange.name,
                reader=reader,
                slowest=slowest,
                now=now,
                possible=possible,
                costs=costs,
                option=OPTIONS[field].name,
                outcome=view.tried({field: True}),
            )


@rule(
    "some-readers-full",
    "problem",
    says="{full:subtasks} cannot keep up, so {starved:subtasks} {one_starves:waits|wait}, too: a writer "
    "stops writing to all channels when one of them is full.",
    evidence=[
        "inPoolUsage of {reader.name}, by subtask: {reader.inPoolUsage:each}",
        "idle {reader.idle_ms_per_s:percent span}, busy {reader.busy_ms_per_s:percent span}",
        "outPoolUsage of {writer.name}: {writer.outPoolUsage:span}; one of its subpartitions may hold "
        "{quota} buffers",
    ],
    next=[
        when("by_key", f"{_SPREAD_KEYS} {_NO_REMEDY}"),
        when("by_key", _COMPARE_FULL),
        unless("by_key", f"{_COMPARE_FULL} {_NO_REMEDY}"),
    ],
)
def some_readers_full(view: Observation) -> Iterator[Found]:
    """Find exchanges with some readers full and busy, and others empty and idle."""
    for writer in filter(view.is_back_pressured, view.vertices):
        for exchange, reader in view.outputs(writer):
            full, starved = _full_and_starved(reader)
            if full and not exchange.strategy.pointwise:
                yield Found(
                    exchange.name,
                    writer=writer,
                    reader=reader,
                    full=(reader, full),
                    starved=(reader, starved),
                    one_starves=len(starved) == 1,
                    by_key=exchange.strategy.by_key,
                    quota=exchange.buffers.quota(view.config),
                )


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


@rule(
    "both-pools-full",
    "notice",
    case="passes it on",
    says="Its input and output are full: it passes on back-pressure from downstream.",
    evidence=[_BOTH_POOLS, _WRITERS_POOLS],
    next=["Look downstream for the first vertex whose output is not full."],
)
@rule(
    "input-full-output-free",
    "notice",
    case="causes it",
    says="Its input buffers and the output buffers of the vertices before it are full, but its own "
    "output buffers are free: this vertex causes the back-pressure.",
    evidence=[
        _BOTH_POOLS,
        _WRITERS_POOLS,
        when(
            "measured",
            "{floating:percent} of the floating buffers and {exclusive:percent} of the exclusive buffers are "
            f"used{_CHANNELS}",
        ),
        when(
            "estimated",
            "at least {floating:percent} of the floating and {exclusive:percent} of the exclusive buffers "
            f"are used{_CHANNELS}",
        ),
    ],
)
@rule(
    "input-filling",
    "notice",
    case="lags",
    says="Its input is full, but its writers are not: it lags and may soon hold up upstream tasks.",
    evidence=[_BOTH_POOLS, _WRITERS_POOLS],
    next=["Watch it. If this lasts, treat it as a bottleneck."],
)
def input_full(view: Observation) -> Iterator[Found]:
    """Find readers with a full input: they cause back-pressure, pass it on, or will soon cause it."""
    for vertex in view.consumers:
        if not is_full(vertex.inPoolUsage):
            continue
        output_full = is_full(vertex.outPoolUsage) if view.outputs(vertex) else False
        held = view.holds_up(vertex)
        if output_full is None or (held is None and not output_full):
            continue
        case = "passes it on" if output_full else "causes it" if held else "lags"
        use = _buffer_use(view, vertex)
        yield Found(vertex.name, case, vertex=vertex, writers=_writers(view, vertex), **use)


def _buffer_use(view: Observation, vertex: VertexSteady) -> dict[str, Any]:
    """Return the usage of both kinds of buffers in the fullest subtask, and on which channels data waits."""
    measured = _measured_usages(vertex)
    usages = measured or _least_usages(view, vertex)
    if usages is None:
        return {"measured": False, "estimated": False}
    floating, exclusive = usages
    written = known(used for writer in _writers(view, vertex) for used in writer.outPoolUsage)
    some_writers_full = max(written, default=0.0) >= HIGH_USAGE and min(written) < LOW_USAGE
    on_all = min(usages) >= HIGH_USAGE
    on_some = not on_all and (floating >= HIGH_USAGE or some_writers_full)
    return {
        "measured": measured is not None,
        "estimated": measured is None,
        "floating": floating,
        "exclusive": exclusive,
        "on_all": on_all,
        "on_some": on_some,
    }


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


@rule(
    "output-full-input-free",
    "notice",
    says="Its output is full, but its input is free: either back-pressure has not yet reached upstream "
    "tasks or has just ended, or this vertex emits much more than it reads.",
    evidence=[_BOTH_POOLS],
    next=["Diagnose it again later: if this lasts, the operator multiplies records."],
)
def output_full_input_free(view: Observation) -> Iterator[Found]:
    """Find vertices that wait for their output while their input is empty."""
    for vertex in view.consumers:
        if not is_empty(vertex.inPoolUsage) or not view.is_back_pressured(vertex):
            continue
        if any_of(is_full(reader.inPoolUsage) for _, reader in view.outputs(vertex)):
            yield Found(vertex.name, vertex=vertex)


RULES = (
    operator_bound,
    at_its_limit,
    not_bound,
    alternating,
    skewed_records,
    skewed_cost,
    unequal_writers,
    network_bound,
    slow_reader_in_turns,
    some_readers_full,
    input_full,
    output_full_input_free,
)
"""Rules on back-pressure, in the order of their findings."""
