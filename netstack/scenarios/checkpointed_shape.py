"""The properties of a job that its checkpoints depend on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from .record_contents import contents_of

if TYPE_CHECKING:
    from .scenario import Scenario


Exchange = tuple[str, str, str]
"""Producer, consumer and ship strategy of an exchange."""


class JobShape(NamedTuple):
    """The properties of a job that its checkpoints depend on: name, parallelism of the vertices, exchanges.

    `unread`: exchanges with records whose content no task reads; only lengths are kept.
    `max_parallelism`: the number of key groups of vertices for which it is not the default, but that of the
    restored checkpoint.
    """

    name: str
    parallelism: Mapping[str, int]
    exchanges: tuple[Exchange, ...] = ()
    unread: tuple[Exchange, ...] = ()
    max_parallelism: Mapping[str, int] = MappingProxyType({})


def shape_of(scenario: Scenario) -> JobShape:
    """Return the properties of a job that its checkpoints depend on."""
    exchanges = tuple((edge.source, edge.target, edge.ship) for edge in scenario.edges)
    read = contents_of(scenario).edges
    return JobShape(
        scenario.name,
        {vertex.name: vertex.parallelism for vertex in scenario.vertices},
        exchanges,
        tuple(exchange for number, exchange in enumerate(exchanges) if number not in read),
    )
