"""Uses of Spark: as a source of records, to shuffle rows, and to run jobs and sweeps in its tasks.

Names of this package are imported when they are first used: their modules may themselves import this package,
and a worker needs only a few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..errors import ShuffleError, ShuffleWarning
    from ..tuning.advise import Advice, Question, advise
    from ..tuning.axes import Axis, AxisValue, read_axes
    from ..tuning.choice import Constraints
    from ..tuning.measures import Measures, measure
    from ..tuning.point_rows import PointRow
    from ..tuning.points import Grid, Point, Probe
    from ..tuning.recommend import Recommendation
    from ..tuning.sweep import run_points, sweep
    from .failure_causes import failure_cause
    from .job_on_spark import run_on_spark
    from .session import spark_session
    from .shuffling.api import shuffle
    from .shuffling.reports import shuffle_statistics
    from .state_frame import read_state

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
    "ShuffleError",
    "ShuffleWarning",
    "advise",
    "failure_cause",
    "measure",
    "read_axes",
    "read_state",
    "run_on_spark",
    "run_points",
    "shuffle",
    "shuffle_statistics",
    "spark_session",
    "sweep",
]

_MODULES = {
    "..errors": ("ShuffleError", "ShuffleWarning"),
    "..tuning.advise": ("Advice", "Question", "advise"),
    "..tuning.axes": ("Axis", "AxisValue", "read_axes"),
    "..tuning.choice": ("Constraints",),
    "..tuning.measures": ("Measures", "measure"),
    "..tuning.point_rows": ("PointRow",),
    "..tuning.points": ("Grid", "Point", "Probe"),
    "..tuning.recommend": ("Recommendation",),
    "..tuning.sweep": ("run_points", "sweep"),
    ".failure_causes": ("failure_cause",),
    ".job_on_spark": ("run_on_spark",),
    ".session": ("spark_session",),
    ".shuffling.api": ("shuffle",),
    ".shuffling.reports": ("shuffle_statistics",),
    ".state_frame": ("read_state",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module, __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
