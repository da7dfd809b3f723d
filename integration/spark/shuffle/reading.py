"""Files, read in as many partitions as they are shuffled into, so that no exchange has to come before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..files import read_files
from .plan import inspect_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPLIT = "spark.sql.files.maxPartitionBytes"
_AS_SPLIT = {
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.maxPartitionNum": str((1 << 31) - 1),
}
"""With these nothing but `_SPLIT` decides how files are cut and packed into partitions."""

_ATTEMPTS = 12
_STEP = 1.05


def read_in_partitions(session: SparkSession, path: str, count: int, format: str | None = None) -> DataFrame:
    """Return the DataFrame of a file or folder, in `count` partitions if Spark can be made to cut it so.

    It cannot where files are too small or cannot be cut. The session is set for this file from now on.

    Raises:
        SourceError: as `read_files`.
    """
    frame = read_files(session, path, format)
    size = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    for name, value in _AS_SPLIT.items():
        session.conf.set(name, value)
    split = max(1.0, size / count)
    for _ in range(_ATTEMPTS):
        session.conf.set(_SPLIT, str(-int(-split // 1)))
        found = inspect_input(frame).partitions
        if found is None or found <= count:
            break
        split *= _STEP
    return frame
