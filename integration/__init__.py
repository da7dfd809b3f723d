"""What a person runs: scenario files, Spark sources, comparisons, reports, the command line.

pyspark is imported inside functions only, so everything but Spark sources works without it.
"""

from .comparison.compare import Comparison, compare
from .comparison.seeds import run_seeds
from .scenarios.load import load_result, load_scenario
from .scenarios.sources import open_sources
from .spark.rows import RowCodec, key_hash
from .spark.source import SparkSource

__all__ = [
    "Comparison",
    "RowCodec",
    "SparkSource",
    "compare",
    "key_hash",
    "load_result",
    "load_scenario",
    "open_sources",
    "run_seeds",
]
