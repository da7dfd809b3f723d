"""A shuffle of a DataFrame's rows through the network layer, as one barrier stage.

::

    df  ->  repartition(n), unless it has n partitions that a barrier stage can read
        ->  one more column, if Spark has to compute where rows go
        ->  mapInArrow(task, barrier=True): n tasks, each reads a partition and yields one

With fewer slots than partitions, n is the number of tasks, and Spark brings their output to the partitions::

        ->  mapInArrow(task, barrier=True): each of n tasks yields blocks of several partitions
        ->  repartitionById(num_partitions, partition): in Spark's own files
        ->  mapInArrow(read_blocks): num_partitions tasks, as many at once as there are slots
"""

from __future__ import annotations

import inspect
import itertools
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from buffers import partition_buffers
from netstack import (
    DEFAULT_PRESET,
    OPTIONS,
    PRESETS,
    ConnectionLimits,
    NetworkConfig,
    QuantityError,
    Section,
    SourceError,
    TransportConfig,
    format_size,
    fresh_secret,
    option_problems,
    parse_flink_size,
    policy_problems,
    read_options,
)

from ...base.errors import ShuffleError, ShuffleWarning, UnsupportedColumnError
from ...base.extras import require
from ...base.number_text import counted
from ..driver import allows_barriers, count_slots, is_local, no_executor
from ..failure_causes import is_from_spark, one_line, spark_errors
from ..python_workers import worker_function
from ..rows import arrow_schema, plain_schema
from .blocks import BLOCK_COLUMNS, read_blocks
from .frame import as_plain, as_shuffled
from .frame_partitions import StageInput, inspect_input
from .pieces import Compression, Cutter, Layout
from .placement import (
    Bound,
    Placed,
    PlacementSpec,
    by_key_groups,
    by_range,
    by_spark_hash,
    key_columns,
    with_a_column,
)
from .reports import NAME, reports_of
from .retries import watch_retries
from .task import StageSpec, import_only, stage_function

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

Config = Mapping[str, object] | NetworkConfig | TransportConfig | None
"""Options of Flink by name, such as ``{"heartbeat.timeout": "10 s"}``, or settings made of them."""

EFFECTIVE = frozenset(
    {
        "buffer_timeout_enabled",
        "buffer_timeout_interval_s",
        "debloat_enabled",
        "debloat_period_s",
        "debloat_samples",
        "debloat_target_s",
        "debloat_threshold_percent",
        "exclusive_buffers_per_channel",
        "floating_buffers_per_gate",
        "heartbeat_timeout_s",
        "max_buffers_per_channel",
        "max_overdraft_buffers_per_gate",
        "max_required_buffers_per_gate",
        "min_segment_bytes",
        "network_memory_max_bytes",
        "network_memory_min_bytes",
        "segment_bytes",
        "starting_segment_bytes",
    }
)
"""Fields of `NetworkConfig` that a shuffle applies. The other fields concern jobs and their checkpoints."""

VERY_LARGE_SEGMENT_BYTES, LARGE_SEGMENT_BYTES = 512 << 10, 128 << 10
"""Sizes of segments if there are few tasks. Larger segments make a shuffle faster, because a buffer costs the
same at any size, and latency does not matter.

A task has some six segments for each other task. So with more tasks, or less memory, segments are smaller.
"""

_VERY_FEW_TASKS, _FEW_TASKS = 8, 32
_SEGMENTS_PER_TASK = 8
"""Number of very large segments per task that must fit into the network memory."""

DEFAULT_MAX_MEMORY, LEAST_MAX_MEMORY = 128 << 20, 1 << 20
"""Default and minimum of `max_memory`: bytes of rows that a task with several partitions may hold."""

Ship = Literal["hash", "rebalance", "broadcast", "range"]
Partitioner = Literal["flink", "spark"]

MAX_PARTITIONS = 1 << 15
"""Maximum number of key groups in Flink (its upper bound of the maximum parallelism)."""

NO_SLOT = "Spark has no slot for a task; lower spark.task.cpus to at most the cores of the master"

_serials = itertools.count()

_lock = threading.Lock()
_ready: weakref.WeakKeyDictionary[SparkContext, set[str]] = weakref.WeakKeyDictionary()
"""Pythons of workers that can run our tasks, by Spark context."""

_DYNAMIC = "spark.dynamicAllocation.enabled"


def shuffle(
    df: DataFrame,
    *keys: str | Column | Sequence[str | Column],
    num_partitions: int | None = None,
    ship: Ship = "hash",
    config: Config = None,
    partitioner: Partitioner = "flink",
    bounds: Sequence[Bound] | None = None,
    max_memory: int | str | None = None,
    compression: Compression | None = None,
) -> DataFrame:
    """Return a DataFrame with the same rows in other partitions; lazy, like any transformation.

    The tasks of one barrier stage, which all run at the same time, send the rows directly to each other over
    TCP, in bounded memory, without a sort and without files. Schema and nullability do not change.

    If Spark has fewer slots than there are partitions, there is a task for each slot. Each task receives
    several partitions, holds their rows up to `max_memory`, and passes them to Spark as blocks. The blocks
    stay in Spark's own shuffle files until the tasks of the partitions read them.

    Args:
        df: A DataFrame of a classic session (not of Spark Connect) that is not streaming; for a streaming
            one, see ``foreachBatch``.
        keys: Columns for `ship` "hash" and "range", each a name or a `Column`, or one list of them, as for
            ``df.repartition``.
        num_partitions: Number of partitions, up to 32,768. By default the number of partitions of `df`, if it
            is known without running anything and Spark has that many slots; else
            ``spark.sql.shuffle.partitions``, or the number of slots if that is less. For "range" it is one
            more than there are bounds.
        ship: How rows are distributed. "hash": rows of equal keys go to one partition; "rebalance": round
            robin; "broadcast": each row to every partition; "range": by the ranges that `bounds` separate.
        config: Options of Flink's network layer by name, or a `NetworkConfig`, or a `TransportConfig`. For
            example, with ``{"heartbeat.timeout": "10 s"}`` a peer counts as failed if it is silent for 10 s.
        partitioner: For "hash". "flink": rows go where Flink's key groups put them (0.0 and -0.0 are
            different keys); "spark": exactly where ``df.repartition(num_partitions, *keys)`` puts them.
        bounds: For "range": the greatest key of each partition but the last, in ascending order; tuples for
            several keys.
        max_memory: Maximum bytes of rows that a task with several partitions holds: a number, or a text in
            Flink's syntax such as "256 mb"; 128 MiB by default. Its process takes some 300 MiB more: Python
            with its libraries, network memory, and rows that are being sorted.
        compression: "lz4" or "zstd" sends columns compressed, by Arrow's rules; see docs/SHUFFLE.md.

    Raises:
        ShuffleError: The shuffle cannot be run: no slot, dynamic allocation, a Python of the workers that
            lacks a library, no such column, a type that cannot be a key, an invalid option, bounds that do
            not rise. No rows have been read.

    Warns:
        ShuffleWarning: The input has another number of partitions, or cannot be read by a barrier stage, and
            so goes through Spark's ``repartition`` first; or an option changes nothing.

    Some actions, such as ``show`` and ``take``, add an exchange of Spark after the shuffle; docs/SHUFFLE.md
    lists them. If an action fails, it raises a `ShuffleFailedError`, which begins with the cause.
    """
    require("pandas", "a shuffle inside Spark")
    _check_frame(df)
    df = as_plain(df)
    columns = _listed(keys)
    check_arguments(columns, ship, partitioner, bounds, num_partitions)
    check_movement(max_memory, compression)
    session = df.sparkSession
    if not allows_barriers(session):
        raise ShuffleError(
            f"a shuffle is a barrier stage, which Spark does not run while {_DYNAMIC} is true; start "
            f"the application with {_DYNAMIC}=false and a fixed number of executors"
        )
    rows = df if df.columns else with_a_column(df)
    schema = rows.schema
    source = inspect_input(rows)
    layout = _layout(session, source, _count_of(bounds, num_partitions))
    settings = transport_config(config, layout.tasks)
    _require_workers(session, layout.tasks)
    if max_memory is not None and not layout.several:
        warnings.warn(
            f"max_memory has no effect: each of the {counted(layout.partitions, 'partition')} has a "
            "task of its own, which stores no rows",
            ShuffleWarning,
            stacklevel=2,
        )
    fits = source.partitions == layout.tasks
    if not fits:
        rows = rows.repartition(layout.tasks)
    placed, placement = _placed(rows, columns, ship, partitioner, bounds, layout.partitions)
    frame = _with_unique_names(placed)
    spec = StageSpec(
        name=f"{NAME}{next(_serials)}",
        layout=layout,
        schema=_arrow_schema(frame, placed.columns, placement, layout.partitions),
        placement=placement,
        config=settings,
        secret=fresh_secret(),
        early_bytes=early_bytes(settings),
        max_memory_bytes=max_memory_bytes(max_memory),
        compression=compression,
        loopback=is_local(session),
    )
    shuffled = _with_stage(frame, spec, schema)
    watch_retries(session, NAME)
    if not fits and source.partitions != 0:
        _warn_of_repartition(source, layout.tasks)
    return as_shuffled(shuffled if df.columns else shuffled.select(), layout.partitions)


def shuffled_by(
    *keys: str | Column | Sequence[str | Column], **options: Any
) -> Callable[[DataFrame], DataFrame]:
    """Return a function for ``df.transform`` that shuffles a DataFrame.

    ``df.transform(shuffled_by("k", num_partitions=8))`` is ``shuffle(df, "k", num_partitions=8)``.

    Args:
        keys: See `shuffle`.
        options: Further arguments of `shuffle`, by name.

    Raises:
        TypeError: `shuffle` has no such argument.
    """
    inspect.signature(shuffle).bind(None, *keys, **options)
    return lambda df: shuffle(df, *keys, **options)


def _listed(keys: Sequence[str | Column | Sequence[str | Column]]) -> list[Any]:
    """Return the keys without the list or tuple that may contain them all."""
    if len(keys) == 1 and isinstance(keys[0], list | tuple):
        return list(keys[0])
    return list(keys)


def _check_frame(df: DataFrame) -> None:
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise ShuffleError(
            "df is of Spark Connect, which gives no access to the SparkContext that a shuffle needs for slots"
            " and counts of tasks; use a classic session (SparkSession.builder.master(...)), or repartition"
        )
    if not hasattr(df, "_jdf"):
        raise ShuffleError(f"df is a {type(df).__name__}, not a DataFrame of Spark SQL")
    if df.isStreaming:
        raise ShuffleError(
            "df is streaming; shuffle the DataFrame of each batch, in writeStream.foreachBatch, which "
            "docs/examples/shuffle_stream.py shows"
        )


def check_arguments(
    keys: Sequence[object],
    ship: str,
    partitioner: str,
    bounds: Sequence[object] | None,
    num_partitions: int | None,
) -> None:
    """Check that arguments of `shuffle` fit together, as far as that is possible without Spark.

    Raises:
        ShuffleError: The arguments conflict.
    """
    for name, value, known in (("ship", ship, Ship), ("partitioner", partitioner, Partitioner)):
        if value not in get_args(known):
            raise ShuffleError(f"{name} is {value!r}, which is not one of {', '.join(get_args(known))}")
    if bool(keys) != (ship in ("hash", "range")):
        raise ShuffleError(
            f"ship={ship!r} takes no key; remove it" if keys else f"ship={ship!r} needs a key; name a column"
        )
    if partitioner != "flink" and ship != "hash":
        raise ShuffleError(
            f"partitioner={partitioner!r} distributes rows by key; it has no effect with ship={ship!r}"
        )
    if (bounds is None) == (ship == "range"):
        raise ShuffleError(
            "ship='range' needs bounds, such as those of df.approxQuantile"
            if bounds is None
            else f"bounds are for ship='range', not for ship={ship!r}"
        )
    if num_partitions is not None:
        _check_number(num_partitions)
    _count_of(bounds, num_partitions)


def _check_number(num_partitions: int) -> None:
    is_whole = isinstance(num_partitions, int) and not isinstance(num_partitions, bool)
    if not is_whole or num_partitions < 1:
        raise ShuffleError(f"num_partitions is {num_partitions!r}; it must be a whole number from 1")
    if num_partitions > MAX_PARTITIONS:
        raise ShuffleError(
            f"num_partitions is {num_partitions}; it must be at most {MAX_PARTITIONS}, Flink's "
            "maximum number of key groups"
        )


def check_movement(max_memory: int | str | None, compression: object) -> None:
    """Check the arguments of `shuffle` for memory and compression, with the Arrow that is installed.

    Raises:
        ShuffleError: An argument is invalid, or this Arrow does not support it.
    """
    max_memory_bytes(max_memory)
    if compression is None:
        return
    if compression not in get_args(Compression):
        known = ", ".join(get_args(Compression))
        raise ShuffleError(f"compression is {compression!r}, which is not one of {known}")
    if not pa.Codec.is_available(compression):
        raise ShuffleError(f"compression is {compression!r}, which this PyArrow was built without")


def require_slots(session: SparkSession, wanted: int) -> int:
    """Return how many tasks run at once, up to `wanted`.

    Raises:
        ShuffleError: No task can run; the message names Spark's setting.
    """
    slots = count_slots(session, wanted)
    if slots == 0:
        if not is_local(session):
            raise ShuffleError(no_executor(session))
        raise ShuffleError(NO_SLOT)
    return min(slots, wanted)


def _require_workers(session: SparkSession, tasks: int) -> None:
    """Check that the Python of the workers has our packages and libraries, by a job of `tasks` empty tasks.

    The job runs once for each Spark context and Python.

    Raises:
        ShuffleError: A worker cannot run our tasks; the message names the setting.
    """
    context = session.sparkContext
    with _lock:
        if context.pythonExec in _ready.setdefault(context, set()):
            return
    check = worker_function(import_only, on_one_machine=is_local(session))
    try:
        context.parallelize(range(tasks), tasks).mapPartitions(check).count()
    except Exception as error:
        if not is_from_spark(error):
            raise
        raise ShuffleError(one_line(error).removeprefix("RuntimeError: ")) from None
    with _lock:
        _ready[context].add(context.pythonExec)


def _count_of(bounds: Sequence[object] | None, num_partitions: int | None) -> int | None:
    if bounds is None:
        return num_partitions
    count = len(bounds) + 1
    if num_partitions not in (None, count):
        raise ShuffleError(
            f"{len(bounds)} bounds make {count} partitions, but num_partitions is {num_partitions}"
        )
    return count


def _layout(session: SparkSession, source: StageInput, count: int | None) -> Layout:
    """Return the numbers of partitions and tasks; `count` is the number of partitions, if it is given.

    Raises:
        ShuffleError: No task can run.
    """
    if count is None:
        slots = max(1, count_slots(session))
        count = min(slots, int(session.conf.get("spark.sql.shuffle.partitions") or slots))
        if source.partitions and source.partitions <= slots:
            count = source.partitions
    tasks = require_slots(session, count)
    if tasks < count and source.partitions:
        tasks = min(tasks, source.partitions)
    return Layout(count, tasks)


def _placed(
    df: DataFrame,
    keys: Sequence[str | Column],
    ship: Ship,
    partitioner: Partitioner,
    bounds: Sequence[Bound] | None,
    count: int,
) -> Placed:
    columns = key_columns(df, keys)
    if ship == "rebalance" or ship == "broadcast":
        return df, PlacementSpec(ship)
    if bounds is not None:
        return by_range(df, columns, bounds)
    return by_spark_hash(df, columns, count) if partitioner == "spark" else by_key_groups(df, columns)


def _with_unique_names(frame: DataFrame) -> DataFrame:
    """Rename all columns by position if a name is repeated or contains dots, because Spark cannot find such a
    column by its name.
    """
    names = [name.lower() for name in frame.columns]
    if len(set(names)) == len(names) and not any(mark in name for name in names for mark in ".`"):
        return frame
    return frame.toDF(*(f"column {place}" for place in range(len(names))))


def _arrow_schema(frame: DataFrame, names: Sequence[str], placement: PlacementSpec, count: int) -> pa.Schema:
    """Return the columns that the workers receive, after a check. `names` are the user's column names."""
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
    why = f"cannot be read directly: {source.reason}"
    if source.partitions is not None:
        why = f"has {counted(source.partitions, 'partition')} instead of the {count} that are wanted"
    warnings.warn(
        f"the input of the shuffle {why}. So its rows first go through Spark's repartition({count}), "
        f"which is another shuffle, with sorting and files. To avoid it, give the input {count} "
        "partitions where it is read or last repartitioned",
        ShuffleWarning,
        stacklevel=3,
    )


def _with_stage(frame: DataFrame, spec: StageSpec, schema: StructType) -> DataFrame:
    """Add the stage, and with several partitions a task the exchange and the decoding of its blocks."""
    from pyspark.sql import functions as sf

    task = stage_function(spec, reports_of(frame.sparkSession.sparkContext))
    with spark_errors("the rows cannot be sent"):
        if not spec.layout.several:
            return frame.mapInArrow(task, schema, barrier=True)
        blocks = frame.mapInArrow(task, BLOCK_COLUMNS, barrier=True)
        if not hasattr(blocks, "repartitionById"):
            raise ShuffleError(
                f"{spec.layout.partitions} partitions in {counted(spec.layout.tasks, 'slot')} require "
                "PySpark 4.1 or newer, which can send blocks to a partition by its number"
            )
        dropped = spec.placement.dropped
        sent = plain_schema(spec.schema if dropped is None else spec.schema.remove(dropped))
        read = worker_function(read_blocks, sent, on_one_machine=spec.loopback)
        read.__name__ = "netstack_read_blocks"
        blocks = blocks.repartitionById(spec.layout.partitions, sf.col("partition"))
        return blocks.mapInArrow(read, schema)


# Settings of the network layer.


def transport_config(config: Config, count: int) -> TransportConfig:
    """Return the settings of each of the `count` processes of a shuffle.

    Flink's defaults apply, except for the size of segments. Instead of 32 KiB a segment has 512 KiB for up to
    8 tasks, and 128 KiB for up to 32 tasks, or if ``taskmanager.memory.network.max`` has no room for larger
    segments. The size of a `NetworkConfig`, or one set by ``taskmanager.memory.segment-size``, is kept.

    A silent peer counts as failed after ``heartbeat.timeout`` (50 s), unless a `TransportConfig` sets
    something else. A `ShuffleWarning` names options that change nothing in a shuffle.

    Raises:
        ShuffleError: An option is unknown or its value invalid, or the memory is not enough; one line for
            each mistake.
    """
    if isinstance(config, TransportConfig):
        settings = config
    else:
        network = config if isinstance(config, NetworkConfig) else _parsed(config, count)
        limits = ConnectionLimits(keep_alive_s=network.heartbeat_timeout_s)
        settings = TransportConfig(network=network, limits=limits)
    problems = [*option_problems(settings.network), *policy_problems(settings.network)]
    _refuse([f"config.{key.removeprefix('flink.')}: {text}" for key, text in problems])
    _require_memory(settings, count)
    _warn_of_idle(settings.network)
    return settings


def max_memory_bytes(value: int | str | None) -> int:
    """Return in bytes a ``max_memory`` that is a number, a size with a unit, or None (128 MiB).

    Raises:
        ShuffleError: The value is none of these, or less than `LEAST_MAX_MEMORY`.
    """
    if value is None:
        return DEFAULT_MAX_MEMORY
    try:
        size = parse_flink_size(value, needs_unit=isinstance(value, str))
    except QuantityError as error:
        raise ShuffleError(f"max_memory: {error}") from None
    if size < LEAST_MAX_MEMORY:
        raise ShuffleError(f"max_memory is {value!r}; it must be at least {format_size(LEAST_MAX_MEMORY)}")
    return size


def early_bytes(config: TransportConfig) -> int:
    """Return the maximum bytes that a task may hold before it is connected to its peers.

    The maximum is ``taskmanager.memory.network.min`` (64 MiB), or ``.max`` if that is less.
    """
    least, most = config.network.network_memory_min_bytes, config.network.network_memory_max_bytes
    return least if most is None else min(least, most)


def _parsed(config: object, count: int) -> NetworkConfig:
    base = PRESETS[DEFAULT_PRESET]
    if count <= _FEW_TASKS:
        base = replace(base, segment_bytes=LARGE_SEGMENT_BYTES)
    if config is None:
        return _with_very_large_segments(base, count)
    if not isinstance(config, Mapping):
        raise ShuffleError(
            f"config is a {type(config).__name__}; it must be a mapping of Flink's options to their values,"
            " a NetworkConfig or a TransportConfig"
        )
    strange = [name for name in config if not isinstance(name, str)]
    if strange:
        raise ShuffleError(f"config: {strange[0]!r} is not the name of an option; names must be text")
    problems: list[str] = []
    network = read_options(Section(config, "config.", problems), base)
    _refuse(problems)
    return network if "segment_bytes" in network.given else _with_very_large_segments(network, count)


def _with_very_large_segments(network: NetworkConfig, count: int) -> NetworkConfig:
    """Return the options with very large segments if there are very few tasks and enough memory."""
    most = network.network_memory_max_bytes
    wanted = VERY_LARGE_SEGMENT_BYTES * _SEGMENTS_PER_TASK * count
    if count > _VERY_FEW_TASKS or (most is not None and most < wanted):
        return network
    return replace(network, segment_bytes=VERY_LARGE_SEGMENT_BYTES)


def _refuse(problems: list[str]) -> None:
    if problems:
        raise ShuffleError("\n".join(problems))


def _require_memory(config: TransportConfig, count: int) -> None:
    network, gate = config.network, config.gate(count)
    least_of_partition, _ = partition_buffers(
        count, network.exclusive_buffers_per_channel, network.floating_buffers_per_gate
    )
    least = least_of_partition + (count - 1) * gate.exclusive_per_channel + gate.required_floating
    if config.segments(count) < least:
        name = OPTIONS["network_memory_max_bytes"].name
        needed = format_size(least * network.segment_bytes)
        raise ShuffleError(
            f"config.{name}: is too little for {count} partitions; it must be at least {needed}"
        )


def _warn_of_idle(network: NetworkConfig) -> None:
    idle = sorted(OPTIONS[field].name for field in network.given - EFFECTIVE)
    if idle:
        warnings.warn(f"config.{', '.join(idle)}: has no effect in a shuffle", ShuffleWarning, stacklevel=4)
