"""A job from a few numbers: sources that write as fast as they can, and one vertex that reads so much."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from netstack import (
    DEFAULT_PRESET,
    PRESETS,
    SHIPS,
    Edge,
    GeneratorSpec,
    NetworkConfig,
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

from ...errors import UsageError
from .flow import LENGTH_BYTES
from .job_size import JobSize

T = TypeVar("T")

_RECORDS = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:records?)?\s*/\s*s(?:ec(?:ond)?)?\s*")
_PARALLELISM = re.compile(r"\s*([0-9]{1,9})\s*(?::\s*([0-9]{1,9})\s*)?")
_MOST_RECORDS_PER_S = 1e15
_SHOWN = 40
_REACHED = 0.99
"""Share of a throughput from which it counts as reached."""

_THROUGHPUT_HINT = 'a rate such as "10 MB/s" or "5000 records/s"'


class Numbers(NamedTuple):
    """What a person gives on the command line, as texts; None: not given."""

    throughput: str
    """Rate of all subtasks of the consumer together."""
    parallelism: str = "1"
    """Of both ends, or "4:8", of the producer and of the consumer."""
    record_bytes: int = 1000
    ship: str = "rebalance"
    round_trip: str | None = None
    preset: str = DEFAULT_PRESET
    options: Sequence[str] = ()
    """OPTION=VALUE each."""


def scenario_of_numbers(numbers: Numbers) -> Scenario:
    """Return the job that the numbers describe: its consumer's service takes up just that throughput.

    Raises:
        UsageError: a number makes no sense; a line for each.
    """
    problems: list[str] = []
    producers, consumers = _read(_ends, numbers.parallelism, "--parallelism", (1, 1), problems)
    wire = max(0, numbers.record_bytes) + LENGTH_BYTES  # a wrong size is refused below
    per_s = _read(lambda text: records_per_s(text, wire), numbers.throughput, "--throughput", 1.0, problems)
    config = read_option_texts(numbers.options, PRESETS[numbers.preset], problems)
    if numbers.ship not in SHIPS:
        problems.append(f"--ship: {numbers.ship!r} is unknown; {did_you_mean(numbers.ship, SHIPS)}")
    if problems:
        raise UsageError([f"netstack size: {problem}" for problem in problems])
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
        config=config,
    )
    scenario = with_round_trip(_with_service(bare, consumers / per_s, wire), numbers.round_trip)
    wrong = [f"netstack size: {key}: {message}" for key, message in scenario_problems(scenario)]
    if wrong:
        raise UsageError(wrong)
    return scenario


def with_round_trip(scenario: Scenario, round_trip: str | None) -> Scenario:
    """Return the scenario with links of that round-trip time; None: as they are.

    Raises:
        UsageError: it is no time.
    """
    if round_trip is None:
        return scenario
    try:
        latency = parse_duration(round_trip) / 2
    except QuantityError as error:
        raise UsageError([f"netstack size: --round-trip: {error.wrong}; it must be {error.right}"]) from None
    return replace(scenario, link=replace(scenario.link, latency_s=latency))


def read_option_texts(texts: Sequence[str], base: NetworkConfig, problems: list[str]) -> NetworkConfig:
    """Return settings with options that are given as OPTION=VALUE; mistakes are added to `problems`."""
    values: dict[str, object] = {}
    for text in texts:
        assigned = split_assignment(text)
        if assigned and assigned[0]:
            values[assigned[0]] = assigned[1]
        else:
            problems.append(f"--set: {text!r} is no option; it must be OPTION=VALUE")
    return read_options(Section(values, "--set ", problems), base)


def records_per_s(text: str, wire_bytes: int) -> float:
    """Return the records/s of a text such as "10 MB/s" or "5000 records/s"; 1 MB is 10^6 bytes.

    Raises:
        QuantityError: it is no such rate, or 0.
    """
    match = _RECORDS.fullmatch(text)
    try:
        rate = parse_rate(text) / wire_bytes if match is None else float(match[1])
    except QuantityError as error:
        raise QuantityError(error.wrong, _THROUGHPUT_HINT) from None
    if not rate:
        raise QuantityError(f"{text!r} is not above 0", _THROUGHPUT_HINT)
    if rate > _MOST_RECORDS_PER_S:
        raise QuantityError(f"{text[:_SHOWN]!r} is more than any machine takes", _THROUGHPUT_HINT)
    return rate


def unreached(numbers: Numbers, size: JobSize) -> str | None:
    """Return a line for a throughput that the consumer does not reach at the least cost of a record."""
    consumer = size.consumers[-1]
    asked = records_per_s(numbers.throughput, numbers.record_bytes + LENGTH_BYTES)
    most = consumer.records_per_s * consumer.parallelism
    if most >= asked * _REACHED:
        return None
    most_each = f"{consumer.parallelism} x {consumer.records_per_s:,.0f} records/s"
    return (
        f"--throughput {numbers.throughput}: {most_each} is the most that the consumer takes here, and what "
        "the figures are of; give more --parallelism, or larger --record-bytes"
    )


def _with_service(scenario: Scenario, record_s: float, wire: int) -> Scenario:
    """Let a record cost so much with all that the machine adds to it, as far as it can be that little."""
    costs = scenario.costs
    added = costs.consumer_record_s + wire / scenario.config.segment_bytes * costs.consumer_buffer_s
    source, consumer = scenario.vertices
    consumer = replace(consumer, service=((0.0, max(0.0, record_s - added)),))
    return replace(scenario, vertices=(source, consumer))


def _read(read: Callable[[str], T], text: str, option: str, default: T, problems: list[str]) -> T:
    try:
        return read(text)
    except QuantityError as error:
        problems.append(f"{option}: {error.wrong}; it must be {error.right}")
        return default


def _ends(text: str) -> tuple[int, int]:
    match = _PARALLELISM.fullmatch(text)
    if match is None or int(match[1]) < 1 or int(match[2] or match[1]) < 1:
        raise QuantityError(
            f"{text[:_SHOWN]!r} is no parallelism", 'a number such as "4", or "4:8" for both ends'
        )
    return int(match[1]), int(match[2] or match[1])
