"""Which producer sends to which consumer: the shape of an exchange."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

POINTWISE = frozenset({"forward", "rescale"})
"""Exchanges in which a producer reaches only its own group of consumers."""

ALIGNED_SHIPS = POINTWISE | {"broadcast"}
"""Exchanges whose data no barrier overtakes: it could not be dealt out anew if the parallelism changed."""


class Exchange(Protocol):
    """Vertices by name, and how records are dealt out between them."""

    @property
    def source(self) -> str:
        """The vertex that writes."""
        ...

    @property
    def target(self) -> str:
        """The vertex that reads."""
        ...

    @property
    def ship(self) -> str:
        """The way, by its name in a scenario."""
        ...


def aligned_readers(exchanges: Iterable[Exchange]) -> set[str]:
    """The vertices into which no barrier overtakes: one such exchange keeps all others into it aligned.

    As in Flink's StreamGraphGenerator.
    """
    return {each.target for each in exchanges if each.ship in ALIGNED_SHIPS}


def consumers_of_producers(ship: str, producers: int, consumers: int) -> list[list[int]]:
    """The consumers that each producer has a subpartition for, in the order of the subpartitions.

    All-to-all exchanges reach every consumer. Pointwise ones deal the larger side out evenly over the
    smaller, in order (Flink's pointwise distribution pattern).
    """
    if ship not in POINTWISE:
        return [list(range(consumers)) for _ in range(producers)]
    reached: list[list[int]] = [[] for _ in range(producers)]
    for consumer in range(consumers):
        if producers >= consumers:
            first, end = consumer * producers // consumers, (consumer + 1) * producers // consumers
        else:
            first = consumer * producers // consumers
            end = first + 1
        for producer in range(first, end):
            reached[producer].append(consumer)
    return reached


def producers_of_consumers(reached: list[list[int]], consumers: int) -> list[list[tuple[int, int]]]:
    """For each consumer the (producer, subpartition) pairs of its channels, in the order of the producers."""
    channels: list[list[tuple[int, int]]] = [[] for _ in range(consumers)]
    for producer, own in enumerate(reached):
        for subpartition, consumer in enumerate(own):
            channels[consumer].append((producer, subpartition))
    return channels


def channel_counts(ship: str, producers: int, consumers: int) -> dict[int, int]:
    """Return how many consumers of an exchange have how many channels, by the number of channels.

    With the two sides swapped, how many producers have how many subpartitions. It is counted, not listed: an
    exchange of many thousand subtasks costs no more than one of two.
    """
    if ship not in POINTWISE:
        return {producers: consumers}
    if producers <= consumers:
        return {1: consumers}
    each, rest = divmod(producers, consumers)
    return {each: consumers - rest, each + 1: rest} if rest else {each: consumers}
