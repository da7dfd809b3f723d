"""What a person runs: scenario files, Spark sources, comparisons, reports, the command line.

pyspark is imported inside functions only, so everything but Spark sources works without it. And what is named
here is imported when it is used: a command that has just been started hears Ctrl-C from its first moment on.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in typing, whose import takes longer than all that is imported here
if TYPE_CHECKING:
    from .analysis.comparison import Comparison, compare
    from .benchmarks.bench_case import Effort, Point
    from .benchmarks.bench_errors import BenchmarkError
    from .benchmarks.bench_results import PointResult
    from .benchmarks.bench_transport import BenchTransport, Shape
    from .benchmarks.catalogue_of_cases import chosen_points
    from .benchmarks.forks import run_point
    from .files.reading import load_result, load_scenario
    from .files.writing import write_whole
    from .flink.rest.importing import Imported, import_scenario
    from .runs.scenario_runs import open_sources, run_seeds
    from .spark.rows import RowCodec, key_hash
    from .spark.shuffling.pieces import Cutter, Merger, decode_piece, encode_piece
    from .spark.shuffling.placement import HashPlacement
    from .spark.spark_source import SparkSource

__all__ = [
    "BenchTransport",
    "BenchmarkError",
    "Comparison",
    "Cutter",
    "Effort",
    "HashPlacement",
    "Imported",
    "Merger",
    "Point",
    "PointResult",
    "RowCodec",
    "Shape",
    "SparkSource",
    "chosen_points",
    "compare",
    "decode_piece",
    "encode_piece",
    "import_scenario",
    "key_hash",
    "load_result",
    "load_scenario",
    "open_sources",
    "run_point",
    "run_seeds",
    "write_whole",
]

_MODULES = {
    "BenchTransport": ".benchmarks.bench_transport",
    "BenchmarkError": ".benchmarks.bench_errors",
    "Comparison": ".analysis.comparison",
    "Cutter": ".spark.shuffling.pieces",
    "Effort": ".benchmarks.bench_case",
    "HashPlacement": ".spark.shuffling.placement",
    "Imported": ".flink.rest.importing",
    "Merger": ".spark.shuffling.pieces",
    "Point": ".benchmarks.bench_case",
    "PointResult": ".benchmarks.bench_results",
    "RowCodec": ".spark.rows",
    "Shape": ".benchmarks.bench_transport",
    "SparkSource": ".spark.spark_source",
    "chosen_points": ".benchmarks.catalogue_of_cases",
    "compare": ".analysis.comparison",
    "decode_piece": ".spark.shuffling.pieces",
    "encode_piece": ".spark.shuffling.pieces",
    "import_scenario": ".flink.rest.importing",
    "key_hash": ".spark.rows",
    "load_result": ".files.reading",
    "load_scenario": ".files.reading",
    "open_sources": ".runs.scenario_runs",
    "run_point": ".benchmarks.forks",
    "run_seeds": ".runs.scenario_runs",
    "write_whole": ".files.writing",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value
