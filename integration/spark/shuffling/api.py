"""A shuffle of a DataFrame's rows through the network layer, as one barrier stage of Spark's.

::

    df  ->  repartition(n), unless it has n partitions that a barrier stage can read
        ->  one more column, if Spark has to compute where rows go
        ->  mapInArrow(task, barrier=True): n tasks, each reads a partition and gives one

With fewer slots than partitions, n is the number of tasks, and Spark brings what they give to partitions::

        ->  mapInArrow(task, barrier=True): each of n tasks gives blocks of several partitions
        ->  repartitionById(num_partitions, partition): in Spark's own files
        ->  mapInArrow(read_blocks): num_partitions tasks, as many at once as there are slots
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import pyarrow as pa

from netstack import SourceError, TransportConfig, fresh_secret

from ...errors import ShuffleError, ShuffleWarning, UnsupportedColumnError
from ...extras import require
from ...wording import counted
from ..arrow_types import arrow_schema, plain_schema
from ..masters import allows_barriers, count_slots, is_local, no_executor
from ..spark_errors import one_line, spark_errors
from ..workers import worker_function
from .blocks import BLOCK_COLUMNS, read_blocks
from .columns import (
    Bound,
    Columns,
    by_key_groups,
    by_range,
    by_spark_hash,
    key_columns,
    with_a_column,
)
from .layout import Layout
from .partitions import StageInput, inspect_input
from .pieces import Compression, Cutter
from .placement import PlacementSpec
from .settings import Config, early_bytes, max_memory_bytes, transport_config
from .task import StageSpec, stage_function
from .task_reports import NAME, reports_of, shuffle_statistics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["shuffle", "shuffle_statistics"]

Ship = Literal["hash", "rebalance", "broadcast", "range"]
Partitioner = Literal["flink", "spark"]

MAX_PARTITIONS = 1 << 15
"""The most key groups that Flink has (its upper bound of the maximum parallelism)."""

NO_SLOT = "Spark has no slot for a task; spark.task.cpus must be at most the cores of the master"

_serials = itertools.count()

_DYNAMIC = "spark.dynamicAllocation.enabled"


def shuffle(
    df: DataFrame,
    *keys: str | Column,
    num_partitions: int | None = None,
    ship: Ship = "hash",
    config: Config = None,
    partitioner: Partitioner = "flink",
    bounds: Sequence[Bound] | None = None,
    max_memory: int | str | None = None,
    compression: Compression | None = None,
) -> DataFrame:
    """Return a DataFrame with the same rows in other partitions; lazy, like any transformation.

    The tasks of one barrier stage, which all run at the same time, send the rows straight to each other over
    TCP, in bounded memory, without a sort and without files. Schema and nullability stay as they are.

    If Spark has fewer slots than there are partitions, there is a task for each slot. Each takes several
    partitions, holds their rows up to `max_memory`, and gives them to Spark as blocks, which lie in Spark's
    own shuffle files until the tasks of the partitions read them.

    Args:
        df: A DataFrame of a classic session (not of Spark Connect) that is not streaming; for one that is,
            see ``foreachBatch``.
        keys: Columns, by name or as a `Column`, for `ship` "hash" and "range".
        num_partitions: Number of partitions, up to 32,768. By default as many as `df` has, if that is known
            without running anything and Spark has the slots; else ``spark.sql.shuffle.partitions``, or the
            number of slots if that is less. For "range" it is one more than there are bounds.
        ship: How rows are dealt out. "hash": rows of equal keys go to one partition; "rebalance": in turns;
            "broadcast": each row to every partition; "range": by the ranges that `bounds` separate.
        config: Options of Flink's network layer by name, such as ``{"heartbeat.timeout": "10 s"}``, after
            which a peer that gives no sign of life is given up; or a `NetworkConfig`, or a `TransportConfig`.
        partitioner: For "hash". "flink": rows go where Flink's key groups put them, to which 0.0 and -0.0 are
            two keys; "spark": exactly where ``df.repartition(num_partitions, *keys)`` puts them.
        bounds: For "range": the greatest key of each partition but the last, rising; tuples for several keys.
        max_memory: Most bytes of rows that a task holds for its partitions if it has several, as a number or
            a text in Flink's syntax such as "256 mb"; 128 MiB by default. Its process takes some 300 MiB
            more: Python with its libraries, network memory, and rows that are being sorted.
        compression: "lz4" or "zstd" sends columns compressed, by Arrow's rules; see docs/PERFORMANCE.md.

    Raises:
        ShuffleError: It cannot be run as asked: no slot, dynamic allocation, no such column, a type that
            cannot be a key, an option that makes no sense, bounds that do not rise. No job has been run.

    Warns:
        ShuffleWarning: The input has another number of partitions, or cannot be read by a barrier stage, and
            so goes through Spark's ``repartition`` first; or an option changes nothing.

    Spark refuses some actions on what a barrier stage gives, ``show`` and ``take`` for two; docs/SHUFFLE.md
    has them.
    """
    require("pandas", "a shuffle inside Spark")
    _check_frame(df)
    check_arguments(keys, ship, partitioner, bounds, num_partitions)
    check_movement(max_memory, compression)
    _require_barriers(df.sparkSession)
    rows = df if df.columns else with_a_column(df)
    source = inspect_input(rows)
    layout = _layout(df, source, _count_of(bounds, num_partitions))
    settings = transport_config(config, layout.tasks)
    held = _held_bytes(max_memory, layout)
    fits = source.partitions == layout.tasks
    if not fits:
        rows = rows.repartition(layout.tasks)
    columns = _placed(rows, keys, ship, partitioner, bounds, layout.partitions)
    exchange = Exchange(layout, settings, held, compression)
    shuffled = _with_stage(columns, df.schema if df.columns else rows.schema, exchange)
    if not fits and source.partitions != 0:
        _warn_of_repartition(source, layout.tasks)
    return shuffled if df.columns else shuffled.select()


class Exchange(NamedTuple):
    """How rows are moved, wherever they go."""

    layout: Layout
    config: TransportConfig
    max_memory_bytes: int
    compression: Compression | None


def _check_frame(df: DataFrame) -> None:
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise ShuffleError(
            "a shuffle cannot be run through Spark Connect, only in the process of Spark's driver"
        )
    if not hasattr(df, "_jdf"):
        raise ShuffleError(f"df is a {type(df).__name__}, not a DataFrame of Spark SQL")
    if df.isStreaming:
        raise ShuffleError(
            "df is streaming; shuffle the DataFrame of each batch, in writeStream.foreachBatch"
        )


def check_arguments(
    keys: Sequence[object],
    ship: str,
    partitioner: str,
    bounds: Sequence[object] | None,
    num_partitions: int | None,
) -> None:
    """Check how arguments of `shuffle` go together, as far as that can be told without Spark.

    Raises:
        ShuffleError: They do not.
    """
    for name, value, known in (("ship", ship, Ship), ("partitioner", partitioner, Partitioner)):
        if value not in get_args(known):
            raise ShuffleError(f"{name} is {value!r}, which is none of {', '.join(get_args(known))}")
    if bool(keys) != (ship in ("hash", "range")):
        raise ShuffleError(
            f"ship={ship!r} takes no key" if keys else f"ship={ship!r} needs a key; name a column"
        )
    if partitioner != "flink" and ship != "hash":
        raise ShuffleError(
            f"partitioner={partitioner!r} is about keys; it changes nothing with ship={ship!r}"
        )
    if (bounds is None) == (ship == "range"):
        raise ShuffleError(
            "ship='range' needs bounds, such as those of df.approxQuantile"
            if bounds is None
            else f"bounds are for ship='range', not for ship={ship!r}"
        )
    if num_partitions is not None and (
        not isinstance(num_partitions, int) or isinstance(num_partitions, bool) or num_partitions < 1
    ):
        raise ShuffleError(f"num_partitions is {num_partitions!r}; it must be a whole number from 1")
    if num_partitions is not None and num_partitions > MAX_PARTITIONS:
        raise ShuffleError(
            f"num_partitions is {num_partitions}; it must be at most {MAX_PARTITIONS}, as Flink has no more"
            " key groups"
        )
    _count_of(bounds, num_partitions)


def check_movement(max_memory: int | str | None, compression: object) -> None:
    """Check that rows can be held and compressed so, by the Arrow that is installed here.

    Raises:
        ShuffleError: They cannot.
    """
    max_memory_bytes(max_memory)
    if compression is None:
        return
    if compression not in get_args(Compression):
        known = ", ".join(get_args(Compression))
        raise ShuffleError(f"compression is {compression!r}, which is none of {known}")
    if not pa.Codec.is_available(compression):
        raise ShuffleError(f"compression is {compression!r}, which this PyArrow was built without")


def require_slots(session: SparkSession, wanted: int) -> int:
    """Return how many tasks run at once, up to `wanted`.

    Raises:
        ShuffleError: None does; names what of Spark's decides.
    """
    slots = count_slots(session, wanted)
    if slots == 0:
        if not is_local(session):
            raise ShuffleError(no_executor(session))
        raise ShuffleError(NO_SLOT)
    return min(slots, wanted)


def _require_barriers(session: SparkSession) -> None:
    if not allows_barriers(session):
        raise ShuffleError(
            f"a shuffle is a barrier stage, and Spark runs none while {_DYNAMIC} is true; start the"
            f" application with {_DYNAMIC}=false and a fixed number of executors"
        )


def _count_of(bounds: Sequence[object] | None, num_partitions: int | None) -> int | None:
    if bounds is None:
        return num_partitions
    count = len(bounds) + 1
    if num_partitions not in (None, count):
        raise ShuffleError(
            f"{len(bounds)} bounds make {count} partitions, but num_partitions is {num_partitions}"
        )
    return count


def _layout(df: DataFrame, source: StageInput, count: int | None) -> Layout:
    """As many tasks as there are partitions or slots, or as the input has partitions if those are fewer."""
    count = count or _default_count(df, source)
    tasks = require_slots(df.sparkSession, count)
    if tasks < count and source.partitions:
        tasks = min(tasks, source.partitions)
    return Layout(count, tasks)


def _held_bytes(max_memory: int | str | None, layout: Layout) -> int:
    if max_memory is not None and not layout.several:
        warnings.warn(
            f"max_memory changes nothing: {counted(layout.partitions, 'partition')} have a task each, which"
            " holds no rows",
            ShuffleWarning,
            stacklevel=3,
        )
    return max_memory_bytes(max_memory)


def _default_count(df: DataFrame, source: StageInput) -> int:
    slots = max(1, count_slots(df.sparkSession))
    if source.partitions and source.partitions <= slots:
        return source.partitions
    return min(slots, int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or slots))


def _placed(
    df: DataFrame,
    keys: Sequence[str | Column],
    ship: Ship,
    partitioner: Partitioner,
    bounds: Sequence[Bound] | None,
    count: int,
) -> Columns:
    columns = key_columns(df, keys)
    if ship == "rebalance" or ship == "broadcast":
        return Columns(df, PlacementSpec(ship))
    if bounds is not None:
        return by_range(df, columns, bounds)
    return by_spark_hash(df, columns, count) if partitioner == "spark" else by_key_groups(df, columns)


def _named_apart(frame: DataFrame) -> DataFrame:
    """Name columns by their places if Spark could not find one by its name: it repeats, or has dots."""
    names = [name.lower() for name in frame.columns]
    if len(set(names)) == len(names) and not any(mark in name for name in names for mark in ".`"):
        return frame
    return frame.toDF(*(f"column {place}" for place in range(len(names))))


def _arrow_schema(frame: DataFrame, names: Sequence[str], placement: PlacementSpec, count: int) -> pa.Schema:
    """The columns as the workers get them, tried with the placement; `names` are the user's."""
    try:
        schema = arrow_schema(frame)
    except UnsupportedColumnError as error:
        reason = one_line(error.__cause__ or error)
        raise ShuffleError(f"column {error.column!r} cannot be sent: {reason}") from None
    try:
        Cutter(schema, placement.build(schema, count, 0))
    except SourceError as error:
        problem = str(error)
        for ours, theirs in zip(frame.columns, names, strict=True):
            problem = problem.replace(repr(ours), repr(theirs))
        raise ShuffleError(problem) from None
    return schema


def _warn_of_repartition(source: StageInput, count: int) -> None:
    why = f"cannot be read as it is: {source.reason}"
    if source.partitions is not None:
        why = f"has {counted(source.partitions, 'partition')} where {count} are wanted"
    warnings.warn(
        f"the input of the shuffle {why}. So its rows go through Spark's repartition({count}) first, which"
        f" is a whole shuffle more, sorted and through files. To avoid it, give the input {count} partitions"
        " where it is read or last exchanged",
        ShuffleWarning,
        stacklevel=3,
    )


def _stage_spec(
    session: SparkSession, schema: pa.Schema, placement: PlacementSpec, exchange: Exchange
) -> StageSpec:
    return StageSpec(
        name=f"{NAME}{next(_serials)}",
        layout=exchange.layout,
        schema=schema,
        placement=placement,
        config=exchange.config,
        secret=fresh_secret(),
        early_bytes=early_bytes(exchange.config),
        max_memory_bytes=exchange.max_memory_bytes,
        compression=exchange.compression,
        loopback=is_local(session),
    )


def _with_stage(columns: Columns, schema: StructType, exchange: Exchange) -> DataFrame:
    frame = _named_apart(columns.frame)
    count = exchange.layout.partitions
    sent = _arrow_schema(frame, columns.frame.columns, columns.placement, count)
    spec = _stage_spec(frame.sparkSession, sent, columns.placement, exchange)
    task = stage_function(spec, reports_of(frame.sparkSession.sparkContext))
    with spark_errors("the rows cannot be sent"):
        if not exchange.layout.several:
            return frame.mapInArrow(task, schema, barrier=True)
        return _in_partitions(frame.mapInArrow(task, BLOCK_COLUMNS, barrier=True), schema, spec)


def _in_partitions(blocks: DataFrame, schema: StructType, spec: StageSpec) -> DataFrame:
    """Bring blocks to their partitions, and make rows of them there."""
    from pyspark.sql import functions as sf

    if not hasattr(blocks, "repartitionById"):
        raise ShuffleError(
            f"{spec.layout.partitions} partitions in {counted(spec.layout.tasks, 'slot')} need PySpark 4.1 or"
            " newer, which brings blocks to a partition by its number"
        )
    dropped = spec.placement.dropped
    sent = plain_schema(spec.schema if dropped is None else spec.schema.remove(dropped))
    read = worker_function(read_blocks, sent, on_one_machine=spec.loopback)
    read.__name__ = "netstack_read_blocks"
    return blocks.repartitionById(spec.layout.partitions, sf.col("partition")).mapInArrow(read, schema)
