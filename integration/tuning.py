"""Public names for tuning: sweeps over a job's options, the settings that they recommend, and forecasts."""

from .advise.forecast.forecast import Forecast, forecast
from .advise.sweeps.axes import Axis, AxisValue, option_axes
from .advise.sweeps.point_rows import PointRow
from .advise.sweeps.points import Grid, Point, Probe
from .advise.sweeps.sweep import run_points, sweep
from .advise.tune.advice import Advice, advise
from .advise.tune.choice import Constraints
from .advise.tune.recommend import Recommendation
from .advise.tune.settings import Question
from .runs.measures import measure
from .runs.window_figures import Measures

__all__ = [
    "Advice",
    "Axis",
    "AxisValue",
    "Constraints",
    "Forecast",
    "Grid",
    "Measures",
    "Point",
    "PointRow",
    "Probe",
    "Question",
    "Recommendation",
    "advise",
    "forecast",
    "measure",
    "option_axes",
    "run_points",
    "sweep",
]
