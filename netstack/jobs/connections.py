"""How the task managers of a job are connected: what the builder of a job asks for, in emulated time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from buffers import PipelinedSubpartition

from ..exchange.connection import ConsumerEnd, ProducerEnd, connect
from ..exchange.emulated_link import EmulatedLink
from ..scenarios.config import LinkConditions
from ..tasks.environment import Environment

Find = Callable[[int], PipelinedSubpartition]
"""Gives the subpartition that the channel of that number reads; a LookupError if there is none here."""


class Connections(Protocol):
    """The connections of the task managers that this process hosts."""

    def reading(self, consumer: str, producer: str) -> ConsumerEnd:
        """The end at which task manager `consumer` reads from `producer`."""
        ...

    @property
    def producers(self) -> Iterable[ProducerEnd]:
        """All ends that send buffers."""
        ...

    @property
    def consumers(self) -> Iterable[ConsumerEnd]:
        """All ends that receive buffers."""
        ...

    @property
    def links(self) -> Mapping[tuple[str, str], EmulatedLink]:
        """The links that can be cut, by the producer's and the consumer's task manager."""
        ...


class Site(NamedTuple):
    """The one task manager that is built in this process, and what connects it to the others."""

    task_manager: str
    connect: Callable[[Find], Connections]


class EmulatedConnections:
    """Connections between task managers that are all in this process."""

    def __init__(self, environment: Environment, conditions: LinkConditions, find: Find) -> None:
        self.links: dict[tuple[str, str], EmulatedLink] = {}
        self.producers: list[ProducerEnd] = []
        self.consumers: list[ConsumerEnd] = []
        self._environment = environment
        self._conditions = conditions
        self._find = find
        self._reading: dict[tuple[str, str], ConsumerEnd] = {}

    def reading(self, consumer: str, producer: str) -> ConsumerEnd:
        """The end at which task manager `consumer` reads from `producer`."""
        pair = producer, consumer
        if pair not in self._reading:
            self._reading[pair] = self._connect(pair)
        return self._reading[pair]

    def _connect(self, pair: tuple[str, str]) -> ConsumerEnd:
        agenda, costs, randomness = (
            self._environment.agenda,
            self._environment.costs,
            self._environment.randomness,
        )
        link = self.links[pair] = EmulatedLink(agenda, costs, self._conditions, randomness)
        producer, consumer = connect(
            agenda, link, costs, randomness, self._find, link.to_producer.blocked_until
        )
        self.producers.append(producer)
        self.consumers.append(consumer)
        return consumer
