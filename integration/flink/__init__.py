"""Import of running Flink jobs through Flink's REST API: scenarios, measurements, recordings, diagnoses."""

from ..errors import FlinkRestError
from .client import Access, Answers, LiveCluster
from .importing import Imported, import_scenario
from .job_watch import JobWatch, Validation, validate
from .measured import Measured
from .options import Overrides
from .recording import Recorder, Recording

__all__ = [
    "Access",
    "Answers",
    "FlinkRestError",
    "Imported",
    "JobWatch",
    "LiveCluster",
    "Measured",
    "Overrides",
    "Recorder",
    "Recording",
    "Validation",
    "import_scenario",
    "validate",
]
