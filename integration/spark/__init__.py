"""What Spark reads, as a source of records; the shuffle of its rows; and sweeps of emulations over it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..errors import ShuffleError, ShuffleWarning
    from ..tuning.advise import Advice, advise
    from ..tuning.axes import DEFAULT_TARGETS, Axis, AxisValue, read_axes
    from ..tuning.constraints import Constraints
    from ..tuning.measures import Measures, measure
    from ..tuning.point_rows import PointRow
    from ..tuning.points import Grid, Point, Probe, probes_of
    from ..tuning.recommend import Recommendation, recommend
    from ..tuning.sweep import run_points, sweep
    from .causes import failure_cause
    from .distributed.spark_run import run_on_spark
    from .shuffling.api import shuffle
    from .shuffling.task_reports import shuffle_statistics
    from .state_frame import read_state

from .session import spark_session

__all__ = [
    "DEFAULT_TARGETS",
    "Advice",
    "Axis",
    "AxisValue",
    "Constraints",
    "Grid",
    "Measures",
    "Point",
    "PointRow",
    "Probe",
    "Recommendation",
    "ShuffleError",
    "ShuffleWarning",
    "advise",
    "failure_cause",
    "measure",
    "probes_of",
    "read_axes",
    "read_state",
    "recommend",
    "run_on_spark",
    "run_points",
    "shuffle",
    "shuffle_statistics",
    "spark_session",
    "sweep",
]

_HOMES = {
    "DEFAULT_TARGETS": "tuning.axes",
    "Advice": "tuning.advise",
    "Axis": "tuning.axes",
    "AxisValue": "tuning.axes",
    "Constraints": "tuning.constraints",
    "Grid": "tuning.points",
    "Measures": "tuning.measures",
    "Point": "tuning.points",
    "PointRow": "tuning.point_rows",
    "Probe": "tuning.points",
    "Recommendation": "tuning.recommend",
    "ShuffleError": "errors",
    "ShuffleWarning": "errors",
    "advise": "tuning.advise",
    "failure_cause": "spark.causes",
    "measure": "tuning.measures",
    "probes_of": "tuning.points",
    "read_axes": "tuning.axes",
    "read_state": "spark.state_frame",
    "recommend": "tuning.recommend",
    "run_on_spark": "spark.distributed.spark_run",
    "run_points": "tuning.sweep",
    "shuffle": "spark.shuffling.api",
    "shuffle_statistics": "spark.shuffling.task_reports",
    "sweep": "tuning.sweep",
}
"""The module of each name; imported when the name is first used, since what has it builds on this package."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"..{_HOMES[name]}", __name__), name)
