"""Uses of Spark: as a source of records, to shuffle rows, and to run jobs in its tasks.

Names of this package are imported when they are first used: their modules may themselves import this package,
and a worker needs only a few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..base.errors import ShuffleError, ShuffleFailedError, ShuffleWarning
    from .failure_causes import failure_cause
    from .job_on_spark import run_on_spark
    from .session import spark_session
    from .shuffling.api import shuffle, shuffled_by
    from .shuffling.reports import shuffle_statistics
    from .state_frame import read_state

__all__ = [
    "ShuffleError",
    "ShuffleFailedError",
    "ShuffleWarning",
    "failure_cause",
    "read_state",
    "run_on_spark",
    "shuffle",
    "shuffle_statistics",
    "shuffled_by",
    "spark_session",
]

_MODULES = {
    "..base.errors": ("ShuffleError", "ShuffleFailedError", "ShuffleWarning"),
    ".failure_causes": ("failure_cause",),
    ".job_on_spark": ("run_on_spark",),
    ".session": ("spark_session",),
    ".shuffling.api": ("shuffle", "shuffled_by"),
    ".shuffling.reports": ("shuffle_statistics",),
    ".state_frame": ("read_state",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module, __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
