"""A job from a few numbers: a source that writes as fast as it can, and a consumer of a given throughput.

Invalid parameters raise a `UsageError`. Each of its lines begins with the name of a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from buffers import HEADER_BYTES
from netstack import (
    DEFAULT_PRESET,
    PRESETS,
    SHIPS,
    Edge,
    GeneratorSpec,
    QuantityError,
    Scenario,
    Section,
    Vertex,
    did_you_mean,
    parse_duration,
    parse_rate,
    read_options,
    scenario_problems,
    split_assignment,
)

from ...base.errors import UsageError

T = TypeVar("T")

_RECORDS = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:records?)?\s*/\s*s(?:ec(?:ond)?)?\s*")
_PARALLELISM = re.compile(r"\s*([0-9]{1,9})\s*(?::\s*([0-9]{1,9})\s*)?")
_MOST_RECORDS_PER_S = 1e15
_SHOWN = 40

_THROUGHPUT_HINT = 'a rate such as "10 MB/s" or "5000 records/s"'


class Numbers(NamedTuple):
    """A job of a producer and a consumer."""

    throughput: str
    """Rate of all subtasks of the consumer together, such as "10 MB/s" or "5000 records/s"."""
    parallelism: str = "1"
    """Number of subtasks of each vertex, as in "4", or of producer and consumer, as in "4:8"."""
    record_bytes: int = 1000
    ship: str = "rebalance"
    round_trip: str | None = None
    """Round-trip time between task managers, such as "1 ms"; None: the link's default."""
    preset: str = DEFAULT_PRESET
    options: Sequence[str] = ()
    """Flink options, each as OPTION=VALUE."""


def scenario_of_numbers(numbers: Numbers) -> Scenario:
    """Return the job that the numbers describe; the cost of a record is derived from the throughput.

    Raises:
        UsageError: a number is invalid.
    """
    problems: list[str] = []
    producers, consumers = _read(_ends, numbers.parallelism, "parallelism", (1, 1), problems)
    wire = max(0, numbers.record_bytes) + HEADER_BYTES  # a wrong size is rejected below
    per_s = _read(lambda text: records_per_s(text, wire), numbers.throughput, "throughput", 1.0, problems)
    if numbers.ship not in SHIPS:
        problems.append(f"ship: {numbers.ship!r} is unknown; {did_you_mean(numbers.ship, SHIPS)}")
        numbers = numbers._replace(ship=SHIPS[0])
    source = GeneratorSpec(record_bytes=numbers.record_bytes)
    bare = Scenario(
        name=f"{producers}x{consumers}_{numbers.ship}",
        duration_s=1.0,
        vertices=(
            Vertex(name="source", parallelism=producers, source=source),
            Vertex(name="consumer", parallelism=consumers),
        ),
        edges=(Edge(source="source", target="consumer", ship=numbers.ship),),
        preset=numbers.preset,
        config=PRESETS[numbers.preset],
    )
    # The time of a record includes the machine's own cost. Only the rest is service time.
    costs = bare.costs
    of_machine = costs.consumer_record_s + wire / bare.config.segment_bytes * costs.consumer_buffer_s
    source_vertex, consumer = bare.vertices
    consumer = replace(consumer, service=((0.0, max(0.0, consumers / per_s - of_machine)),))
    scenario = replace(bare, vertices=(source_vertex, consumer))
    return with_settings(scenario, numbers.options, numbers.round_trip, problems)


def with_settings(
    scenario: Scenario, options: Sequence[str], round_trip: str | None, problems: Sequence[str] = ()
) -> Scenario:
    """Return the scenario with these Flink options, each as OPTION=VALUE, and this round-trip time of links.

    Raises:
        UsageError: an option is invalid, alone or in this scenario. The message lists `problems` first.
    """
    problems, values = list(problems), dict[str, object]()
    for text in options:
        assigned = split_assignment(text)
        if assigned and assigned[0]:
            values[assigned[0]] = assigned[1]
        else:
            problems.append(f"options.{text}: has no value; write it as OPTION=VALUE")
    config = read_options(Section(values, "options.", problems), scenario.config)
    link = scenario.link
    if round_trip is not None:
        trip_s = _read(parse_duration, round_trip, "round_trip", 0.0, problems)
        link = replace(link, latency_s=trip_s / 2)
    scenario = replace(scenario, config=config, link=link)
    problems += [f"{key}: {message}" for key, message in scenario_problems(scenario)]
    if problems:
        raise UsageError(problems)
    return scenario


def records_per_s(text: str, wire_bytes: int) -> float:
    """Return the records/s of a text such as "10 MB/s" or "5000 records/s"; 1 MB is 10^6 bytes.

    Raises:
        QuantityError: the text is not a rate, or the rate is 0.
    """
    match = _RECORDS.fullmatch(text)
    try:
        rate = parse_rate(text) / wire_bytes if match is None else float(match[1])
    except QuantityError as error:
        raise QuantityError(error.wrong, _THROUGHPUT_HINT) from None
    if not rate:
        raise QuantityError(f"{text!r} is not more than 0", _THROUGHPUT_HINT)
    if rate > _MOST_RECORDS_PER_S:
        raise QuantityError(f"{text[:_SHOWN]!r} is more than any machine can process", _THROUGHPUT_HINT)
    return rate


def _read(read: Callable[[str], T], text: str, name: str, default: T, problems: list[str]) -> T:
    try:
        return read(text)
    except QuantityError as error:
        problems.append(f"{name}: {error.wrong}; it must be {error.right}")
        return default


def _ends(text: str) -> tuple[int, int]:
    match = _PARALLELISM.fullmatch(text)
    if match is None or int(match[1]) < 1 or int(match[2] or match[1]) < 1:
        raise QuantityError(
            f"{text[:_SHOWN]!r} is not a parallelism",
            'a number such as "4", or "4:8" for 4 sources and 8 consumers',
        )
    return int(match[1]), int(match[2] or match[1])
