"""What decides where a DataFrame's rows go: its key columns, or a column that Spark computes for the purpose.

A key that is a column of the DataFrame is read where it is. What has to be computed first, an expression or a
target by a rule of Spark's own, Spark computes as one more column, which the workers use and drop::

    id, name                       shuffle(df, "id")
    id, name, helper: struct       shuffle(df, col("id") % 10)
    id, name, helper: int          shuffle(df, "id", partitioner="spark"); ship="range"

Ranges are Spark's own, as in its RangePartitioner: a bound is the greatest key of the partition before it::

    partition 0        partition 1        partition 2
    ... <= bound 0  <  ... <= bound 1  <  ...

Null comes first and NaN last. Spark itself computes the partition of each row, by halving: for 200 partitions
it compares a key 8 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import ShuffleError
from ..spark_errors import spark_errors
from .placement import Kind, PlacementSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

HELPER = "__netstack_helper"
"""Name of the column that Spark computes."""

ROW = "__netstack_row"
"""Name of the column of rows that have none of their own."""

_BY_BYTES = "UTF8_BINARY"
"""Spark's collation by which texts are equal if their bytes are."""

Bound = Any
"""A value of the key; a tuple of them if the key has several columns."""

_Row = tuple[Any, ...]


class Columns(NamedTuple):
    """What the tasks of a shuffle read, and how they place it."""

    frame: DataFrame
    """The DataFrame, with one more column if one has to be computed."""
    placement: PlacementSpec


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


def range_target(frame: DataFrame, keys: Sequence[Column], bounds: Sequence[Bound]) -> Column:
    """Return an expression for the partition of a row of `frame`, from 0 to the number of bounds.

    Raises:
        ShuffleError: The bounds do not rise, or one is no value of the key's type. No job is run to find out.
    """
    kinds = [field.dataType for field in frame.select(*keys).schema]
    rows = [_as_row(bound, len(keys), place) for place, bound in enumerate(bounds)]
    limits = [_as_one_column(_limit(frame, place, row, kinds)) for place, row in enumerate(rows)]
    _require_rise(frame, rows, limits)
    return _tree(_as_one_column(keys), limits, 0, len(limits))


def _as_row(bound: Bound, width: int, place: int) -> _Row:
    row = (bound,) if width == 1 and not isinstance(bound, tuple) else bound
    if not isinstance(row, tuple) or len(row) != width:
        values = "1 value" if width == 1 else f"a tuple of {width} values"
        raise ShuffleError(f"bounds[{place}] is {bound!r}; it must be {values}, as there are keys")
    if None in row:
        raise ShuffleError(f"bounds[{place}] is {_shown(row)}; null is no bound, it comes before all of them")
    return row


def _limit(frame: DataFrame, place: int, row: _Row, kinds: list[DataType]) -> list[Column]:
    """Return a bound as values of the key's types; it must lose nothing when it becomes that."""
    wanted = ", ".join(kind.simpleString() for kind in kinds)
    problem = f"bounds[{place}] is {_shown(row)}, which is no {wanted}"
    with spark_errors(problem):
        try:
            given = [_literal(value) for value in row]
        except (OverflowError, ValueError):  # a moment too far away for Python
            raise ShuffleError(problem) from None
        limit = [value.cast(kind) for value, kind in zip(given, kinds, strict=True)]
        same = [cast.eqNullSafe(value) for cast, value in zip(limit, given, strict=True)]
        fits = all(_evaluate(frame, same))
    if not fits:
        raise ShuffleError(problem)
    return limit


def _literal(value: Any) -> Column:
    """Return a value as Spark's, days and moments by their numbers.

    ``lit`` takes those through Java's old calendar, which fails before the year 1000 and is days off to 1582.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql.types import DateType, TimestampType

    if isinstance(value, datetime):
        return sf.timestamp_micros(sf.lit(TimestampType().toInternal(value)))
    if isinstance(value, date):
        return sf.date_from_unix_date(sf.lit(DateType().toInternal(value)))
    return sf.lit(value)


def _require_rise(frame: DataFrame, rows: list[_Row], limits: list[Column]) -> None:
    if len(rows) < 2:
        return
    rises = _evaluate(frame, [low < high for low, high in pairwise(limits)])
    if not all(rises):
        place = rises.index(False)
        lower, upper = _shown(rows[place]), _shown(rows[place + 1])
        raise ShuffleError(
            f"bounds[{place + 1}] is {upper}, which is not above {lower} by Spark's ordering; they must rise"
        )


def _as_one_column(columns: Sequence[Column]) -> Column:
    """Make a struct of several columns, which Spark compares field by field."""
    from pyspark.sql import functions as sf

    return columns[0] if len(columns) == 1 else sf.struct(*columns)


def _tree(key: Column, limits: list[Column], first: int, last: int) -> Column:
    """The partition of a key that is known to be in `first` to `last`."""
    from pyspark.sql import functions as sf

    if first == last:
        return sf.lit(first)
    middle = (first + last) // 2
    above, below = _tree(key, limits, middle + 1, last), _tree(key, limits, first, middle)
    return sf.when(key > limits[middle], above).otherwise(below)  # null is not above anything


def _evaluate(frame: DataFrame, columns: list[Column]) -> list[Any]:
    """Have Spark compute constants; over a row that stands in the query it does so while planning."""
    (row,) = frame.sparkSession.sql("values (1)").select(*columns).collect()
    return list(row)


def _shown(row: _Row) -> str:
    return repr(row[0] if len(row) == 1 else row)
