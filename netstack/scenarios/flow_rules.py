"""Which flows of records make sense: what vertices emit, how edges deal it out, when sources emit it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from buffers import DEFAULT_MAX_RECORD_BYTES

from .config_rules import Problem, did_you_mean, time_text
from .edge_buffers import buffer_problems
from .scenario import (
    CATCH_UP_S,
    EMISSIONS,
    EMITS_BY,
    FROM_SOURCE,
    KEY_BYTES,
    Edge,
    GeneratorSpec,
    Keys,
    Scenario,
    Step,
    Vertex,
)

MAX_KEYS = 10_000_000
"""Most keys that a generator tells apart: how often each of them comes is kept in memory."""

MOST_RECORDS_PER_S = 1e9
"""Of a subtask of a source: more than any computer counts."""

_ROUNDING = 1e-9
_OUTPUT_FIELDS = {
    "selectivity": 1.0,
    "emission": EMISSIONS[0],
    "record_bytes": None,
    "emit_every_s": None,
    "emit_by": EMITS_BY[0],
}
"""The fields that say what a vertex emits, and their values where nothing is said."""


def output_problems(vertex: Vertex) -> Iterator[Problem]:
    """Yield what is wrong with what a vertex emits, and where it runs, by the vertex's keys."""
    placed = vertex.task_manager
    if placed is not None and not (placed and all(placed)):
        yield "task_manager", "has no name; name one task manager or several, or leave it out"
    given = [field for field, usual in _OUTPUT_FIELDS.items() if getattr(vertex, field) != usual]
    for field in given:
        if vertex.source is not None:
            yield _key(field), "is given on a source, which emits what its source table says; drop it"
        elif vertex.operator is not None:
            yield _key(field), "is given, and a user's function says what is emitted; drop one of the two"
    yield from _about_selectivity(vertex.selectivity)
    if vertex.emission not in EMISSIONS:
        yield "emission", f"{vertex.emission!r} is unknown; {did_you_mean(vertex.emission, EMISSIONS)}"
    if vertex.record_bytes is not None:
        yield from record_bytes_problems(vertex.record_bytes)
    if vertex.emit_every_s is not None and not 0 < vertex.emit_every_s < math.inf:
        yield "emit_every", f"is {time_text(vertex.emit_every_s)}; it must be more than 0 s"


def _key(field: str) -> str:
    return field.removesuffix("_s")


def record_bytes_problems(record_bytes: int) -> Iterator[Problem]:
    """Yield why records cannot have that many bytes."""
    if not KEY_BYTES <= record_bytes <= DEFAULT_MAX_RECORD_BYTES:
        text = f"is {record_bytes}; it must be {KEY_BYTES} (the key) to {DEFAULT_MAX_RECORD_BYTES}"
        yield "record_bytes", text


def _about_selectivity(selectivity: float) -> Iterator[Problem]:
    if not 0 <= selectivity < math.inf:
        yield "selectivity", f"is {selectivity:g}; it must be 0 (nothing comes out) or more"


def rate_problems(rates: Sequence[float]) -> Iterator[str]:
    """Yield what is wrong with the rates of a source, from its beginning or from a change on."""
    if any(not 0 <= rate <= MOST_RECORDS_PER_S for rate in rates):
        most = f"{MOST_RECORDS_PER_S:g} records per second at most"
        yield f"is {list(rates)}; a rate is 0 (as fast as possible) or more, {most}"


def generator_problems(source: GeneratorSpec) -> Iterator[Problem]:
    """Yield what is wrong with generated records, by the keys of the source."""
    yield from record_bytes_problems(source.record_bytes)
    if source.keys is not None:
        yield from _about_keys(source.keys)
    if source.burst_s is not None and source.wave_s is not None:
        yield "wave", "is given, and so is burst; the records come in waves or all at once, so drop one"
    for key, period in (("burst", source.burst_s), ("wave", source.wave_s)):
        if period is None:
            continue
        if not 0 < period < math.inf:
            yield key, f"is {time_text(period)}; it must be more than 0 s"
        if any(rate == 0 for rate in source.rates):
            yield key, "needs a rate, and a rate is 0 (as fast as possible); give one above 0"
    if source.batch < 1:
        yield "batch", f"is {source.batch}; a call gives 1 record or more"
    if not 0 <= source.catch_up_s < math.inf:
        yield "catch_up", f"is {time_text(source.catch_up_s)}; it must be 0 s or more"
    if source.catch_up_s != CATCH_UP_S and (source.burst_s or source.wave_s or not any(source.rates)):
        yield "catch_up", "is of an even pace; give the source a rate, and no burst and no wave, or drop it"
    if source.cost_s is not None and not 0 <= source.cost_s < math.inf:
        yield "cost", f"is {time_text(source.cost_s)}; it must be 0 s or more"


def _about_keys(keys: Keys) -> Iterator[Problem]:
    if not 1 <= keys.number <= MAX_KEYS:
        yield "keys.number", f"is {keys.number}; it must be from 1 to {MAX_KEYS}, or leave keys out"
    if not 0 <= keys.zipf < math.inf:
        yield "keys.zipf", f"is {keys.zipf:g}; it must be 0 (all keys alike) or more"
    shares, total = keys.most_frequent, sum(keys.most_frequent)
    key = "keys.most_frequent"
    if len(shares) > max(1, keys.number):
        yield key, f"has {len(shares)} shares for {keys.number} keys; give one for each key at most"
    elif any(not 0 <= share <= 1 for share in shares):
        yield key, f"is {list(shares)}; a share is from 0 to 1"
    elif total > 1 + _ROUNDING:
        yield key, f"has shares of {total:g} together; they must be 1 at most"
    elif shares and total == 0 and len(shares) == keys.number:
        yield key, "leaves no key for any record; give one of them a share above 0"


def edge_problems(scenario: Scenario, edge: Edge) -> Iterator[Problem]:
    """Yield what is wrong with the share of records that an edge takes and where, by the edge's keys."""
    targets = [vertex for vertex in scenario.vertices if vertex.name == edge.target]
    if edge.shares:
        yield from _about_shares(edge, targets[0].parallelism if targets else FROM_SOURCE)
    yield from _about_fraction(scenario, edge)
    if edge.input < 0:
        yield "input", f"is {edge.input}; the first input is 0"
    if edge.selectivity is not None:
        yield from _about_selectivity(edge.selectivity)
    for message in service_problems(edge.service or ()):
        yield "service", message
    yield from _about_buffers(scenario, edge)
    for key, value in (("selectivity", edge.selectivity), ("service", edge.service)):
        if value is not None and any(target.operator is not None for target in targets):
            yield (
                key,
                f"is given, and {edge.target} runs a user's function; drop it, or give it to the vertex",
            )


def _about_buffers(scenario: Scenario, edge: Edge) -> Iterator[Problem]:
    parallelism = {vertex.name: vertex.parallelism for vertex in scenario.vertices}
    producers, consumers = parallelism.get(edge.source, 0), parallelism.get(edge.target, 0)
    for key, message in buffer_problems(edge.buffers, edge.ship, producers, consumers):
        yield f"buffers.{key}", message


def _about_shares(edge: Edge, consumers: int) -> Iterator[Problem]:
    shares = edge.shares
    if edge.ship != "hash":
        yield "shares", f"is given with {edge.ship}; only hash deals records out by shares"
    if consumers != FROM_SOURCE and len(shares) != consumers:
        text = f"has {len(shares)} for the {consumers} subtasks of {edge.target}; give one for each"
        yield "shares", text
    if any(not 0 <= share < math.inf for share in shares) or sum(shares) <= 0:
        yield "shares", f"is {list(shares)}; give 0 or more for each subtask, and one of them more"


def _about_fraction(scenario: Scenario, edge: Edge) -> Iterator[Problem]:
    if not 0 < edge.fraction <= 1:
        yield "fraction", f"is {edge.fraction:g}; it must be more than 0, and 1 (all records) at most"
    elif edge.fraction < 1:
        if edge.ship == "broadcast":
            yield "fraction", "is given with broadcast, which leaves no record out; drop it"
        if sum(each.source == edge.source for each in scenario.edges) == 1:
            text = f"is given on the only edge out of {edge.source}; give that vertex a selectivity instead"
            yield "fraction", text


def service_problems(service: Sequence[Step]) -> Iterator[str]:
    """Yield what is wrong with the cost of a record over time."""
    times = [at for at, _ in service]
    if any(not 0 <= cost < math.inf for _, cost in service):
        yield "has a cost below 0; a cost is 0 or more"
    if times and (times[0] != 0 or any(later <= at for at, later in pairwise(times))):
        shown = ", ".join(time_text(at) for at in times)
        yield f"has steps at {shown}; the first is at 0 s, and each later than the one before"
