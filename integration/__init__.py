"""What a person runs: scenario files, Spark sources, comparisons, reports, the command line.

pyspark is imported inside functions only, so everything but Spark sources works without it. And what is named
here is imported when it is used: a command that has just been started hears Ctrl-C from its first moment on.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in typing, whose import takes longer than all that is imported here
if TYPE_CHECKING:
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

_MODULES = {
    "Comparison": ".comparison.compare",
    "Cutter": ".shuffle.cutting",
    "HashPlacement": ".shuffle.placement",
    "Merger": ".shuffle.gathering",
    "RowCodec": ".spark.rows",
    "SparkSource": ".spark.source",
    "compare": ".comparison.compare",
    "decode_piece": ".shuffle.pieces",
    "encode_piece": ".shuffle.pieces",
    "key_hash": ".spark.rows",
    "load_result": ".scenarios.load",
    "load_scenario": ".scenarios.load",
    "open_sources": ".scenarios.sources",
    "run_seeds": ".comparison.seeds",
    "write_whole": ".writing",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value
