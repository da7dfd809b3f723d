"""Import of running Flink jobs through Flink's REST API: scenarios, measurements, recordings, diagnoses."""

from ..base.errors import FlinkRestError
from .fit.overrides import Overrides
from .http.access import Access
from .http.answers import Answers, Past
from .http.live_cluster import LiveCluster
from .http.past_cluster import PastCluster, PrometheusServer
from .importing import Imported, import_scenario
from .read.measurements import Measured
from .recording import Recorder, Recording
from .validation import Validation, validate
from .watching import JobWatch

__all__ = [
    "Access",
    "Answers",
    "FlinkRestError",
    "Imported",
    "JobWatch",
    "LiveCluster",
    "Measured",
    "Overrides",
    "Past",
    "PastCluster",
    "PrometheusServer",
    "Recorder",
    "Recording",
    "Validation",
    "import_scenario",
    "validate",
]
