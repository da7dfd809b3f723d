"""Kit for tests of storms: cases that are written and not drawn."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from netstack import NetworkConfig

from .case import StormCase, StormVertex, Work


def vertex(name: str, work: Work, parallelism: int = 1, task_manager: str = "", **more: Any) -> StormVertex:
    """Return a vertex, in a task manager of its own unless one is named."""
    return StormVertex(
        name=name, work=work, parallelism=parallelism, task_manager=task_manager or name, **more
    )


def case_of(
    *vertices: StormVertex,
    edges: Sequence[tuple[str, str, str]],
    fractions: Sequence[tuple[str, str, Fraction]] = (),
    **config: Any,
) -> StormCase:
    """Return a case of at most a minute with these options."""
    return StormCase(
        seed=1,
        vertices=vertices,
        edges=tuple(edges),
        fractions=tuple(fractions),
        config=NetworkConfig(**config),
        duration_s=60.0,
    )
