"""Ship strategies: the distribution of records, and the channels between producers and consumers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol

__all__ = [
    "ShipStrategy",
    "capacity_by_load",
    "channel_counts",
    "consumers_of_producers",
    "producers_of_consumers",
]


class ShipStrategy(StrEnum):
    """Distribution of an exchange's records to its consumers (Flink's ShipStrategyType)."""

    FORWARD = "forward"
    RESCALE = "rescale"
    REBALANCE = "rebalance"
    HASH = "hash"
    BROADCAST = "broadcast"

    @classmethod
    def of(cls, name: str) -> ShipStrategy:
        """Return the strategy with this name; an unknown name counts as rebalance until rules report it."""
        return cls(name) if name in _BY_NAME else cls.REBALANCE

    @property
    def pointwise(self) -> bool:
        """Whether a producer reaches only its own group of consumers."""
        return self in (ShipStrategy.FORWARD, ShipStrategy.RESCALE)

    @property
    def in_turns(self) -> bool:
        """Whether records go to consumers round robin, or with adaptive partition selection by load."""
        return self in (ShipStrategy.REBALANCE, ShipStrategy.RESCALE)

    @property
    def by_key(self) -> bool:
        """Whether the key of a record determines its consumer."""
        return self is ShipStrategy.HASH

    @property
    def copies(self) -> bool:
        """Whether each record goes to all consumers."""
        return self is ShipStrategy.BROADCAST

    @property
    def can_be_overtaken(self) -> bool:
        """Whether barriers may overtake data: only if rescaling can redistribute this data."""
        return not (self.pointwise or self.copies)


_BY_NAME = frozenset(ship.value for ship in ShipStrategy)


class NamedExchange(Protocol):
    """An exchange between vertices by name, with its ship strategy."""

    @property
    def source(self) -> str:
        """Name of the vertex that writes."""

    @property
    def target(self) -> str:
        """Name of the vertex that reads."""

    @property
    def ship(self) -> str:
        """Name of the ship strategy."""


def aligned_readers(exchanges: Iterable[NamedExchange]) -> set[str]:
    """Return the vertices at which barriers overtake no data.

    As in Flink's StreamGraphGenerator, all inputs of a vertex are aligned if barriers cannot overtake data on
    one of them.
    """
    return {each.target for each in exchanges if not ShipStrategy.of(each.ship).can_be_overtaken}


def producers_read(ship: str, producers: int, consumers: int, consumer: int) -> range:
    """Return the producers that a consumer reads.

    All-to-all exchanges connect it with every producer. Pointwise exchanges distribute the larger side evenly
    over the smaller one, in order (Flink's pointwise distribution pattern).
    """
    if not ShipStrategy.of(ship).pointwise:
        return range(producers)
    first = consumer * producers // consumers
    return range(first, max(first + 1, (consumer + 1) * producers // consumers))


def subpartition_counts(ship: str, producers: int, consumers: int) -> list[int]:
    """Return the number of subpartitions of each producer."""
    if not ShipStrategy.of(ship).pointwise:
        return [consumers] * producers
    return [len(reached) for reached in consumers_of_producers(ship, producers, consumers)]


def consumers_of_producers(ship: str, producers: int, consumers: int) -> list[list[int]]:
    """Return the consumer of each subpartition, for each producer (`producers_read`)."""
    if not ShipStrategy.of(ship).pointwise:
        return [list(range(consumers)) for _ in range(producers)]
    reached: list[list[int]] = [[] for _ in range(producers)]
    for consumer in range(consumers):
        for producer in producers_read(ship, producers, consumers, consumer):
            reached[producer].append(consumer)
    return reached


def producers_of_consumers(reached: list[list[int]], consumers: int) -> list[list[tuple[int, int]]]:
    """Return the (producer, subpartition) pair of each channel, for each consumer, in order of producers."""
    channels: list[list[tuple[int, int]]] = [[] for _ in range(consumers)]
    for producer, own in enumerate(reached):
        for subpartition, consumer in enumerate(own):
            channels[consumer].append((producer, subpartition))
    return channels


def channel_counts(ship: str, producers: int, consumers: int) -> dict[int, int]:
    """Return a histogram of an exchange: how many consumers have how many channels, by number of channels.

    With `producers` and `consumers` swapped, it counts producers by their number of subpartitions. The
    function does not list channels, so its cost does not depend on the number of subtasks.
    """
    if not ShipStrategy.of(ship).pointwise:
        return {producers: consumers}
    if producers <= consumers:
        return {1: consumers}
    each, rest = divmod(producers, consumers)
    return {each: consumers - rest, each + 1: rest} if rest else {each: consumers}


def capacity_by_load(ship: str, producers: int, rates: Sequence[float]) -> float:
    """Return the records/s that all consumers read together if producers choose them by load (FLIP-339).

    `rates` holds the records/s that each consumer can read. All producers emit at the same rate, so the
    producer with the slowest consumers limits all producers.
    """
    reached = consumers_of_producers(ship, producers, len(rates))
    readers = [len(channels) for channels in producers_of_consumers(reached, len(rates))]
    return producers * min(sum(rates[consumer] / readers[consumer] for consumer in own) for own in reached)
