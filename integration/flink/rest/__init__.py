"""Running Flink jobs, read through Flink's REST API: as scenarios, and as what they show now."""

from ...errors import FlinkRestError
from .access import Access
from .answers import Answers
from .importing import Imported, import_scenario
from .job_options import Overrides
from .live_cluster import LiveCluster
from .measured import Measured
from .recording import Recorder, Recording
from .validation import Validation, validate

__all__ = [
    "Access",
    "Answers",
    "FlinkRestError",
    "Imported",
    "LiveCluster",
    "Measured",
    "Overrides",
    "Recorder",
    "Recording",
    "Validation",
    "import_scenario",
    "validate",
]
