"""Parts of netstack that users run: scenario files, Spark sources, comparisons, reports, commands.

pyspark is imported inside functions only, so only Spark sources need it. Public names are imported when first
used, so that a command can handle Ctrl-C as soon as it starts.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in typing, whose import would take longer than all imports here
if TYPE_CHECKING:
    from .comparison.with_flink import Comparison, compare
    from .files.reading import load_result, load_scenario
    from .files.writing import write_whole
    from .flink.importing import Imported, import_scenario
    from .seed_runs import open_sources, run_seeds
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
    "Comparison": ".comparison.with_flink",
    "Imported": ".flink.importing",
    "RowCodec": ".spark.rows",
    "SparkSource": ".spark.sources",
    "compare": ".comparison.with_flink",
    "import_scenario": ".flink.importing",
    "key_hash": ".spark.rows",
    "load_result": ".files.reading",
    "load_scenario": ".files.reading",
    "open_sources": ".seed_runs",
    "run_seeds": ".seed_runs",
    "write_whole": ".files.writing",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value
