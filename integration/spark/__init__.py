"""What Spark reads, as a source of records; the shuffle of its rows; and sweeps of emulations over it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..shuffle.api import shuffle
    from ..shuffle.errors import ShuffleError, ShuffleWarning
    from ..shuffle.report import shuffle_statistics
    from ..tuning.axes import Axis, read_axes
    from ..tuning.points import Grid, Point
    from ..tuning.probes import probes_of
    from ..tuning.rows import PointRow
    from ..tuning.sweep import run_points, sweep

from .session import spark_session

__all__ = [
    "Axis",
    "Grid",
    "Point",
    "PointRow",
    "ShuffleError",
    "ShuffleWarning",
    "probes_of",
    "read_axes",
    "run_points",
    "shuffle",
    "shuffle_statistics",
    "spark_session",
    "sweep",
]

_HOMES = {
    "Axis": "tuning.axes",
    "Grid": "tuning.points",
    "Point": "tuning.points",
    "PointRow": "tuning.rows",
    "ShuffleError": "shuffle.errors",
    "ShuffleWarning": "shuffle.errors",
    "probes_of": "tuning.probes",
    "read_axes": "tuning.axes",
    "run_points": "tuning.sweep",
    "shuffle": "shuffle.api",
    "shuffle_statistics": "shuffle.report",
    "sweep": "tuning.sweep",
}
"""The module of each name; imported when the name is first used, since what has it builds on this package."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"..{_HOMES[name]}", __name__), name)
