"""What a person runs: scenario files, Spark sources, comparisons, reports, the command line.

pyspark is imported inside functions only, so everything but Spark sources works without it.
"""

from .compare import Comparison, compare
from .load import load_result, load_scenario
from .rows import RowCodec, key_hash
from .seeds import run_seeds
from .sources import open_sources
from .spark import SparkSource

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
