"""The DataFrame that `shuffle` returns, on which every action of Spark works at the first try.

If each partition has its own slot, the tasks of a shuffle form a barrier stage. Spark runs such a stage with
all of its partitions or not at all. So it refuses an action that reads only some of them (``show``), or that
puts other partitions into the stage (``union``). Before these actions, and before the DataFrame gets a second
reader (a cache, a view), the rows go through an exchange of Spark that keeps their partitions::

    shuffled.count()   barrier stage
    shuffled.show()    barrier stage  ->  repartitionById(n, spark_partition_id())  ->  first partition

The class is made from Spark's own, whose methods it wraps. DataFrames that methods return have the class too,
so a chain of calls keeps this behaviour. Nothing in Spark's classes changes. Methods also turn the failure of
a job into a `ShuffleFailedError`, which begins with the cause.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...base.errors import ShuffleError, ShuffleFailedError
from ..failure_causes import failure_cause, is_failure_of_job
from .frame_partitions import class_name
from .placement import HELPER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EXCHANGED = frozenset(
    {
        "checkpoint",
        "coalesce",
        "createGlobalTempView",
        "createOrReplaceGlobalTempView",
        "createOrReplaceTempView",
        "createTempView",
        "crossJoin",
        "first",
        "head",
        "isEmpty",
        "limit",
        "localCheckpoint",
        "offset",
        "pandas_api",
        "registerTempTable",
        "show",
        "tail",
        "take",
        "toJSON",
        "toLocalIterator",
        "union",
        "unionAll",
        "unionByName",
    }
)
"""Methods that Spark refuses on a barrier stage, or that give its rows to other queries."""

_KEPT = frozenset({"cache", "persist"})
"""Methods that return the DataFrame itself. It keeps the exchange from then on."""

_BARRIERS = ("MapInArrowExec", "MapInPandasExec")


def as_shuffled(frame: DataFrame, partitions: int) -> DataFrame:
    """Return a DataFrame whose methods work although its last stage has `partitions` tasks with a barrier."""
    base: Any = type(frame)
    shuffled = _class_from(base)(frame._jdf, frame.sparkSession)
    shuffled._netstack_partitions = partitions
    return shuffled  # type: ignore[no-any-return]


def as_plain(frame: DataFrame) -> DataFrame:
    """Return a DataFrame of Spark's own class."""
    if not _is_shuffled(frame):
        return frame
    plain: DataFrame = type(frame).__bases__[0](frame._jdf, frame.sparkSession)
    return plain


def _is_shuffled(value: object) -> bool:
    return hasattr(type(value), "_netstack_partitions")


@functools.cache
def _class_from(base: type) -> Any:
    """Return the subclass of Spark's class of DataFrames."""
    members: dict[str, Any] = {"__module__": __name__, "__doc__": base.__doc__, "_netstack_partitions": 0}
    for name, function in inspect.getmembers(base, inspect.isfunction):
        if not name.startswith("_"):
            members[name] = _wrapped(name, function)
    for name in ("__repr__", "_repr_html_"):
        members[name] = _shown(getattr(base, name))
    members["rdd"] = property(lambda self: as_plain(_exchanged(self)).rdd)
    members["write"] = property(_writer)
    return type("ShuffledDataFrame", (base,), members)


def _shown(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that shows a DataFrame in a notebook, with rows if the session is set so."""

    @functools.wraps(function)
    def call(self: Any) -> Any:
        has_rows = self.sparkSession._jconf.isReplEagerEvalEnabled()
        return function(_exchanged(self) if has_rows else self)

    return call


def _writer(frame: Any) -> Any:
    base: Any = type(as_plain(frame).write)
    return _writer_class(base)(frame)


@functools.cache
def _writer_class(base: type) -> Any:
    """Return a subclass of Spark's writer whose methods raise a `ShuffleFailedError`."""

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            with _causes(self._df.sparkSession):
                return function(self, *arguments, **options)

        return call

    functions = inspect.getmembers(base, inspect.isfunction)
    return type(base.__name__, (base,), {n: wrapped(f) for n, f in functions if not n.startswith("_")})


def _wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of Spark's class, with the exchange if it needs one."""

    @functools.wraps(function)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        frame = self
        if name in _EXCHANGED:
            frame, *arguments = map(_exchanged, (self, *arguments))  # type: ignore[assignment]
        elif name in _KEPT:
            self._jdf = _exchanged(self)._jdf
        with _causes(self.sparkSession):
            result = function(frame, *arguments, **options)
        return _shuffled_too(result, self._netstack_partitions)

    return call


def _shuffled_too(result: Any, partitions: int) -> Any:
    """Return the result of a method, whose DataFrames become shuffled ones."""
    from pyspark.sql import DataFrame

    if isinstance(result, list):
        return [_shuffled_too(each, partitions) if isinstance(each, DataFrame) else each for each in result]
    if isinstance(result, DataFrame) and not _is_shuffled(result):
        return as_shuffled(result, partitions)
    return result


def _exchanged(frame: Any) -> Any:
    """Return a shuffled DataFrame whose last stage is no barrier stage, with the same partitions.

    Any other value is returned unchanged.

    Raises:
        ShuffleError: This PySpark cannot send rows to a partition by its number.
    """
    from pyspark.sql import functions as sf

    if not _is_shuffled(frame) or not _is_open(frame._jdf.queryExecution().executedPlan()):
        return frame
    plain, partitions = as_plain(frame), frame._netstack_partitions
    if not hasattr(plain, "repartitionById"):
        raise ShuffleError("this action after a shuffle requires PySpark 4.1; call repartition(n) before it")
    numbered = plain.select("*", sf.spark_partition_id().alias(HELPER))
    return as_shuffled(numbered.repartitionById(partitions, HELPER).drop(HELPER), partitions)


def _is_open(node: Any) -> bool:
    """Return whether the last stage of a physical plan is a barrier stage."""
    name = class_name(node)
    if name == "AdaptiveSparkPlanExec":
        return _is_open(node.initialPlan())
    if name == "InMemoryTableScanExec":
        return _is_open(node.relation().cachedPlan())
    if name in _BARRIERS and node.isBarrier():
        return True
    children = node.children()
    return not name.endswith("ExchangeExec") and any(
        _is_open(children.apply(place)) for place in range(children.size())
    )


@contextmanager
def _causes(session: SparkSession) -> Iterator[None]:
    """Turn the failure of a job in the block into a `ShuffleFailedError` that begins with the cause."""
    try:
        yield
    except Exception as error:
        if not is_failure_of_job(error):
            raise
        raise ShuffleFailedError(f"{failure_cause(error, session)}\n\n{error}") from error
