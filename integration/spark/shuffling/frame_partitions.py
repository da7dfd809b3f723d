"""Number of partitions that the tasks of a shuffle would read from a DataFrame, derived from its plan.

Spark runs a barrier stage only if every RDD in it, back to the last exchange, has as many partitions as the
stage has tasks. The number is found without running anything. The search goes from the root of the physical
plan down through nodes that keep partitions, to the node that creates them::

    Project, Filter, ...        keeps partitions
      BroadcastHashJoin         those of its streamed side
        Exchange                as planned, unless adaptive execution may coalesce them
        FileScan, Range, ...    those of its RDD, which is created and not run
        InMemoryTableScan       those of the cached DataFrame, even if its rows are not cached yet

With any other node, such as a union or a coalesce, the number is unknown, and the rows are repartitioned
first. Under adaptive execution the number is certain only after a repartition into a given number that is not
by range. Files can be read in as many partitions as the shuffle has, so that no exchange has to precede it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..data_files import read_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEEPING = frozenset(
    {
        "ArrowEvalPythonExec",
        "BatchEvalPythonExec",
        "CollectMetricsExec",
        "ColumnarToRowExec",
        "ExpandExec",
        "FilterExec",
        "FlatMapGroupsInArrowExec",
        "FlatMapGroupsInPandasExec",
        "GenerateExec",
        "HashAggregateExec",
        "InputAdapter",
        "LocalLimitExec",
        "MapInArrowExec",
        "MapInPandasExec",
        "ObjectHashAggregateExec",
        "ProjectExec",
        "RowToColumnarExec",
        "SampleExec",
        "SortAggregateExec",
        "SortExec",
        "WholeStageCodegenExec",
        "WindowExec",
        "WindowGroupLimitExec",
    }
)
"""Nodes with one child and no other input, whose RDD has one partition for each of the child's partitions."""

_LEAVES = frozenset(
    {
        "BatchScanExec",
        "ExternalRDDScanExec",
        "FileSourceScanExec",
        "LocalTableScanExec",
        "OneRowRelationExec",
        "RDDScanExec",
        "RangeExec",
        "RowDataSourceScanExec",
    }
)
"""Nodes without a child whose RDD can be created without a job."""

_EVEN = ("HashPartitioning", "RoundRobinPartitioning", "SinglePartition$")
"""Partitionings with as many partitions as planned. A partitioning by range may have fewer."""

_SPLIT = "spark.sql.files.maxPartitionBytes"
_AS_SPLIT = {
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.maxPartitionNum": str((1 << 31) - 1),
}
"""Settings with which only `_SPLIT` decides the number of partitions of files."""

_ATTEMPTS = 12
_STEP = 1.05


class StageInput(NamedTuple):
    """The partitions of a DataFrame that a stage would read."""

    partitions: int | None
    """Number of partitions; None: unknown before the query runs, or not readable by a barrier stage."""
    reason: str = ""
    """Reason why the number is None, as the end of the message "... cannot be read directly: ..."."""


class _UnknownError(Exception):
    """Raised if the number is unknown; the message is the reason."""


def inspect_input(frame: DataFrame) -> StageInput:
    """Return the partitions of a DataFrame as far as they are known, without running a Spark job."""
    # A new query, because an old one does not see data that has been cached since.
    plan = frame.select("*")._jdf.queryExecution().executedPlan()
    try:
        return StageInput(_partitions(plan, adaptive=False))
    except _UnknownError as unknown:
        return StageInput(None, str(unknown))


def _partitions(node: Any, *, adaptive: bool) -> int:
    """Return the partitions of a node of the plan; `adaptive`: within a part that Spark may change."""
    name = class_name(node)
    if name == "AdaptiveSparkPlanExec":
        return _partitions(node.initialPlan(), adaptive=True)
    if name in ("MapInArrowExec", "MapInPandasExec") and node.isBarrier():
        raise _UnknownError("it comes from another barrier stage, and two barrier stages cannot be joined")
    if name in _KEEPING:
        return _partitions(node.children().apply(0), adaptive=adaptive)
    if name == "BroadcastHashJoinExec":
        streamed = 0 if node.buildSide().toString() == "BuildRight" else 1
        return _partitions(node.children().apply(streamed), adaptive=adaptive)
    if name == "ShuffleExchangeExec":
        return _of_exchange(node, adaptive=adaptive)
    if name == "InMemoryTableScanExec":
        relation = node.relation()
        builder = relation.cacheBuilder()
        if builder.isCachedColumnBuffersLoaded():
            return _of_rdd(builder.cachedColumnBuffers())
        return _partitions(relation.cachedPlan(), adaptive=adaptive)
    if name in _LEAVES and node.subqueries().isEmpty():
        return _of_rdd(node.execute())
    what = {"UnionExec": "a union", "CoalesceExec": "a coalesce"}.get(name, f"a {name.removesuffix('Exec')}")
    raise _UnknownError(f"there is {what} after its last exchange")


def _of_exchange(node: Any, *, adaptive: bool) -> int:
    partitioning = node.outputPartitioning()
    if class_name(partitioning) not in _EVEN:
        raise _UnknownError("an exchange by range may produce fewer partitions than it was asked for")
    if adaptive and node.shuffleOrigin().toString() != "REPARTITION_BY_NUM":
        raise _UnknownError(
            "adaptive execution may coalesce the partitions of its last exchange while the query runs"
        )
    return int(partitioning.numPartitions())


def _of_rdd(rdd: Any) -> int:
    """Return the number of partitions of a leaf's RDD, if Spark allows the RDD in a barrier stage."""
    count = int(rdd.getNumPartitions())
    if rdd.isBarrier():
        raise _UnknownError("it comes from another barrier stage, and two barrier stages cannot be joined")
    waiting, seen = [rdd], set[int]()
    while waiting:
        current = waiting.pop()
        if current.id() in seen:
            continue
        seen.add(current.id())
        if current.getNumPartitions() != count:
            raise _UnknownError("there is a union or a coalesce of RDDs after its last exchange")
        dependencies = current.dependencies()
        for place in range(dependencies.size()):
            dependency = dependencies.apply(place)
            if class_name(dependency) != "ShuffleDependency":
                waiting.append(dependency.rdd())
    return count


def class_name(instance: Any) -> str:
    """Return the name of a Java object's class, without its package."""
    return str(instance.getClass().getSimpleName())


def read_in_partitions(session: SparkSession, path: str, count: int, format: str | None = None) -> DataFrame:
    """Return the DataFrame of a file or folder, in `count` partitions if possible.

    There are fewer partitions if the files are too small or cannot be split. The DataFrame has its own
    session, with settings for this file. `session` does not change.

    Raises:
        SourceError: `read_files` cannot read the files.
    """
    session = session.newSession()
    frame = read_files(session, path, format)
    size = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    for name, value in _AS_SPLIT.items():
        session.conf.set(name, value)
    split = max(1.0, size / count)
    for _ in range(_ATTEMPTS):
        session.conf.set(_SPLIT, str(-int(-split // 1)))
        partitions = inspect_input(frame).partitions
        if partitions is None or partitions <= count:
            break
        split *= _STEP
    return frame
