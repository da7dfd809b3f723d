"""What of a job its checkpoints depend on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

Exchange = tuple[str, str, str]
"""Producer and consumer of an exchange, and how it deals records out."""


class JobShape(NamedTuple):
    """What the state of a job depends on: its name, its vertices with their parallelism, its exchanges.

    `unread` are those exchanges whose records nobody looks at, so that their bytes need not be kept.
    `max_parallelism` has the vertices whose number of key groups is that of the checkpoint that the job goes
    on from, and not the one that follows from their parallelism.
    """

    name: str
    parallelism: Mapping[str, int]
    exchanges: tuple[Exchange, ...] = ()
    unread: tuple[Exchange, ...] = ()
    max_parallelism: Mapping[str, int] = MappingProxyType({})
