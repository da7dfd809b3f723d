"""What a person runs: scenario files, Spark sources, comparisons, reports, the command line.

pyspark is imported inside functions only, so everything but Spark sources works without it.
"""

from .comparison.compare import Comparison, compare
from .comparison.seeds import run_seeds
from .scenarios.load import load_result, load_scenario
from .scenarios.sources import open_sources
from .shuffle.cutting import Cutter
from .shuffle.gathering import Merger
from .shuffle.pieces import decode_piece, encode_piece
from .shuffle.placement import HashPlacement
from .spark.rows import RowCodec, key_hash
from .spark.source import SparkSource
from .writing import write_whole

__all__ = [
    "Comparison",
    "Cutter",
    "HashPlacement",
    "Merger",
    "RowCodec",
    "SparkSource",
    "compare",
    "decode_piece",
    "encode_piece",
    "key_hash",
    "load_result",
    "load_scenario",
    "open_sources",
    "run_seeds",
    "write_whole",
]
