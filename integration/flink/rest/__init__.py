"""Running Flink jobs, read through Flink's REST API: as scenarios, and as what they show now."""

from .client import FlinkRestError
from .importing import Imported, import_scenario
from .job_options import Overrides
from .measured import Measured
from .validation import Validation, validate

__all__ = ["FlinkRestError", "Imported", "Measured", "Overrides", "Validation", "import_scenario", "validate"]
