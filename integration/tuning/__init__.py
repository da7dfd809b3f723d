"""Sweeps: many emulations of a job over Spark, and the settings that their results recommend.

Names of this package are imported when they are first used, since the workers of a sweep need only a few.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .advice import Advice, advise
    from .axes import Axis, AxisValue, option_axes
    from .choice import Constraints
    from .measures import Measures, measure
    from .point_rows import PointRow
    from .points import Grid, Point, Probe
    from .recommend import Recommendation
    from .settings import Question
    from .sweeps import run_points, sweep

__all__ = [
    "Advice",
    "Axis",
    "AxisValue",
    "Constraints",
    "Grid",
    "Measures",
    "Point",
    "PointRow",
    "Probe",
    "Question",
    "Recommendation",
    "advise",
    "measure",
    "option_axes",
    "run_points",
    "sweep",
]

_MODULES = {
    ".advice": ("Advice", "advise"),
    ".axes": ("Axis", "AxisValue", "option_axes"),
    ".choice": ("Constraints",),
    ".measures": ("Measures", "measure"),
    ".point_rows": ("PointRow",),
    ".points": ("Grid", "Point", "Probe"),
    ".recommend": ("Recommendation",),
    ".settings": ("Question",),
    ".sweeps": ("run_points", "sweep"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module, __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
