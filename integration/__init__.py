"""Parts of netstack that users run. A folder answers a question:

- `base`: errors, files, numbers as text, signals, optional dependencies.
- `storage`: checkpoints, savepoints, sink output and keyed state on disk.
- `spark`: sources, shuffles and whole jobs on Spark.
- `runs`: how a job is emulated, the figures of its runs, and comparisons of them.
- `flink`: a running Flink job as a scenario: `http`, `read`, `fit`.
- `advise`: `diagnose`, `sweeps`, `tune`, `forecast`, `size`, `lint`.
- `show`: `terminal`, `charts`, `page`, `notebook`. Only this folder prints.
- `lab`: a page on which a user watches a job and changes it.
- `cli`: the commands, one module for each.

`tuning` has the public names of tuning. pyspark is imported inside functions only, so only Spark sources need
it. Public names are imported when first used, so that a command can handle Ctrl-C as soon as it starts.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in typing, whose import would take longer than all imports here
if TYPE_CHECKING:
    from .base.reading import load_result, load_scenario
    from .base.writing import write_whole
    from .flink.importing import Imported, import_scenario
    from .runs.reference_comparison import Comparison, compare
    from .runs.seeds import open_sources, run_seeds
    from .spark.rows import RowCodec, key_hash
    from .spark.sources import SparkSource

__all__ = [
    "Comparison",
    "Imported",
    "RowCodec",
    "SparkSource",
    "compare",
    "import_scenario",
    "key_hash",
    "load_result",
    "load_scenario",
    "open_sources",
    "run_seeds",
    "write_whole",
]

_MODULES = {
    "Comparison": ".runs.reference_comparison",
    "Imported": ".flink.importing",
    "RowCodec": ".spark.rows",
    "SparkSource": ".spark.sources",
    "compare": ".runs.reference_comparison",
    "import_scenario": ".flink.importing",
    "key_hash": ".spark.rows",
    "load_result": ".base.reading",
    "load_scenario": ".base.reading",
    "open_sources": ".runs.seeds",
    "run_seeds": ".runs.seeds",
    "write_whole": ".base.writing",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value
