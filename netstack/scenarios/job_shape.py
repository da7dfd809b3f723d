"""What of a job its checkpoints depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Exchange = tuple[str, str, str]
"""Producer and consumer of an exchange, and how it deals records out."""


class JobShape(NamedTuple):
    """What the state of a job depends on: its name, its vertices with their parallelism, its exchanges.

    `unread` are those exchanges whose records nobody looks at, so that their bytes need not be kept.
    """

    name: str
    parallelism: Mapping[str, int]
    exchanges: tuple[Exchange, ...] = ()
    unread: tuple[Exchange, ...] = ()
