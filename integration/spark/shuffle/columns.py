"""What decides where a DataFrame's rows go: its key columns, or a column that Spark computes for the purpose.

A key that is a column of the DataFrame is read where it is. What has to be computed first, an expression or a
target by a rule of Spark's own, Spark computes as one more column, which the workers use and drop::

    id, name                       shuffle(df, "id")
    id, name, helper: struct       shuffle(df, col("id") % 10)
    id, name, helper: int          shuffle(df, "id", partitioner="spark"); ship="range"
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from .bounds import Bound, range_target
from .errors import ShuffleError, spark_errors
from .targets import Kind, PlacementSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

HELPER = "__netstack_helper"
"""Name of the column that Spark computes."""

ROW = "__netstack_row"
"""Name of the column of rows that have none of their own."""

_BY_BYTES = "UTF8_BINARY"


class Columns(NamedTuple):
    """What the tasks of a shuffle read, and how they place it."""

    frame: DataFrame
    """The DataFrame, with one more column if one has to be computed."""
    placement: PlacementSpec


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the columns as Spark will hand them to the workers, without asking it to hand out any.

    Raises:
        ShuffleError: Spark cannot turn a column into Arrow.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    session = frame.sparkSession.conf
    options: dict[str, Any] = {
        "error_on_duplicated_field_names_in_struct": True,
        "timezone": session.get("spark.sql.session.timeZone"),
        "prefers_large_types": session.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true",
    }
    # Not all versions know all. What a batch has otherwise, the workers cast.
    options = {name: options[name] for name in options.keys() & signature(to_arrow_schema).parameters.keys()}
    fields = []
    for field in frame.schema:
        with spark_errors(f"column {field.name!r} cannot be sent"):
            fields += to_arrow_schema(StructType([field]), **options)
    return pa.schema(fields)


def with_a_column(frame: DataFrame) -> DataFrame:
    """Return a DataFrame that has no columns with one, since Arrow's batches lose rows that have none."""
    from pyspark.sql import functions as sf

    return frame.select(sf.lit(True).alias(ROW))


def key_columns(frame: DataFrame, keys: Sequence[str | Column]) -> list[Column]:
    """Return keys as columns of `frame`.

    Raises:
        ShuffleError: One of them is not there, or is no column.
    """
    from pyspark.sql import Column
    from pyspark.sql import functions as sf

    for key in keys:
        if not isinstance(key, str | Column):
            raise ShuffleError(f"key {key!r} is neither the name of a column nor a Column")
    columns = [sf.col(key) if isinstance(key, str) else key for key in keys]
    with spark_errors("there is no such key"):
        frame.select(*columns)
    return columns


def by_key_groups(frame: DataFrame, keys: list[Column]) -> Columns:
    """Place rows by Flink's key groups.

    Raises:
        ShuffleError: A key has a collation, by which texts of different bytes are equal.
    """
    from pyspark.sql import functions as sf

    _refuse_collations(frame, keys)
    places = _places(frame, keys)
    if None not in places:
        return Columns(frame, PlacementSpec("hash", tuple(place for place in places if place is not None)))
    named = [key.alias(f"key {place}") for place, key in enumerate(keys)]
    return _with_helper(frame, sf.struct(*named), "computed keys")


def by_spark_hash(frame: DataFrame, keys: list[Column], count: int) -> Columns:
    """Place rows as Spark's own ``repartition(count, *keys)`` does (HashPartitioning: Murmur3, seed 42).

    Raises:
        ShuffleError: Spark does not hash a key, or it has a collation.
    """
    from pyspark.sql import functions as sf

    _refuse_collations(frame, keys)
    return _with_helper(frame, sf.pmod(sf.hash(*keys), sf.lit(count)), "computed target")


def by_range(frame: DataFrame, keys: list[Column], bounds: Sequence[Bound]) -> Columns:
    """Place rows by the ranges between bounds.

    Raises:
        ShuffleError: The bounds do not rise, or are no values of the keys.
    """
    return _with_helper(frame, range_target(frame, keys, bounds), "computed target")


def _with_helper(frame: DataFrame, helper: Column, kind: Kind) -> Columns:
    with spark_errors("such a key cannot be used"):
        extended = frame.select("*", helper.alias(HELPER))
    return Columns(extended, PlacementSpec(kind, (len(frame.columns),)))


def _places(frame: DataFrame, keys: list[Column]) -> list[int | None]:
    """The index of each key among the columns of the DataFrame; None if it is not simply one of them."""
    places = {identity: place for place, identity in enumerate(_identities(frame))}
    return [places.get(identity) for identity in _identities(frame.select(*keys))]


def _identities(frame: DataFrame) -> list[int]:
    """The numbers by which Spark knows the columns, whatever their names."""
    output = frame._jdf.queryExecution().analyzed().output()
    return [output.apply(place).exprId().id() for place in range(output.size())]


def _refuse_collations(frame: DataFrame, keys: list[Column]) -> None:
    for field in frame.select(*keys).schema:
        collation = _collation(field.dataType)
        if collation is not None:
            raise ShuffleError(
                f"key {field.name!r} has the collation {collation}, by which texts of different hashes are"
                f" equal; take an expression such as lower({field.name}), or ship='range'"
            )


def _collation(kind: DataType) -> str | None:
    """A collation other than that by bytes, anywhere in a type."""
    from pyspark.sql.types import ArrayType, StringType, StructType

    if isinstance(kind, StringType):
        collation = str(getattr(kind, "collation", _BY_BYTES))
        return None if collation == _BY_BYTES else collation
    parts: list[DataType] = []
    if isinstance(kind, ArrayType):
        parts = [kind.elementType]
    elif isinstance(kind, StructType):
        parts = [field.dataType for field in kind]
    return next(filter(None, map(_collation, parts)), None)
