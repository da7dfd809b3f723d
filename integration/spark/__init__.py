"""What Spark reads, as a source of records; and the shuffle of its rows through the network layer."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..shuffle.api import shuffle
    from ..shuffle.errors import ShuffleError, ShuffleWarning
    from ..shuffle.report import shuffle_statistics

from .session import spark_session

__all__ = ["ShuffleError", "ShuffleWarning", "shuffle", "shuffle_statistics", "spark_session"]

_HOMES = {
    "ShuffleError": "errors",
    "ShuffleWarning": "errors",
    "shuffle": "api",
    "shuffle_statistics": "report",
}
"""The module of each name; imported when the name is first used, since the shuffle builds on this package."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"..shuffle.{_HOMES[name]}", __name__), name)
