"""Placement: the target of each row, chosen by the driver for a DataFrame and computed by the tasks.

| placement | target of a row                                                                      |
|-----------|--------------------------------------------------------------------------------------|
| hash      | the target of its key's key group, as everywhere in this project and in Flink        |
| rebalance | the next one in turn, row by row, over all batches                                   |
| broadcast | all of them                                                                          |
| column    | the number in an int32 column, which is computed elsewhere and is not sent           |

A key that is a column of the DataFrame is read directly. If the key is an expression, or if one of Spark's
own rules gives the target, Spark first computes this value as an additional column. The workers use the
column and drop it::

    id, name                       shuffle(df, "id")
    id, name, helper: struct       shuffle(df, col("id") % 10)
    id, name, helper: int          shuffle(df, "id", partitioner="spark"); ship="range"

Ranges are those of Spark's RangePartitioner: a bound is the greatest key of the partition before it::

    partition 0        partition 1        partition 2
    ... <= bound 0  <  ... <= bound 1  <  ...

Null comes first and NaN last. Spark itself computes the partition of each row by binary search: for 200
partitions it compares a key 8 times.

A placement returns targets in the smallest unsigned type that holds them, because the next step is a sort,
and NumPy sorts one and two bytes by radix. A single target for all rows of a batch is a plain int, and needs
no sort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from netstack import SourceError, assign_to_operators, default_max_parallelism

from ...base.errors import ShuffleError, TargetError, UnsupportedColumnError
from ..failure_causes import spark_errors
from ..rows import column_index, key_hashes, key_index, plain_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

ALL = -1
"""Target of rows that go to every target."""

Targets = NDArray[np.unsignedinteger[Any]]
"""Targets of rows, one each."""

_ROWS_AT_ONCE = 1 << 15
"""Number of rows that are hashed at once.

Hashing reads the bytes of rows some thirty times, so they should fit the cache.
"""

Kind = Literal["hash", "computed keys", "computed target", "rebalance", "broadcast"]
"""Name of a placement. "computed" is a placement by a column that Spark computes."""

HELPER = "__netstack_helper"
"""Name of the column that Spark computes."""

ROW = "__netstack_row"
"""Name of the column that is added to rows without columns."""

_BY_BYTES = "UTF8_BINARY"
"""Spark's default collation, in which texts are equal if their bytes are."""

Bound = Any
"""A value of the key; if the key has several columns, a tuple of their values."""

_Row = tuple[Any, ...]


# In the tasks: the target of each row of a batch.


@dataclass(frozen=True, slots=True)
class Placement:
    """Choice of the target of each row, in the order of arrival."""

    count: int
    """Number of targets, at least 1."""
    place: Callable[[pa.RecordBatch], Targets | int]
    """Returns the target of each row of a batch, or one int for all its rows."""
    dropped: int | None = None
    """Index of a column that is not sent; None: all columns are sent."""


def hash_placement(schema: pa.Schema, keys: Sequence[str], count: int) -> Placement:
    """Send rows of equal keys to one target, by Flink's key groups (KeyGroupStreamPartitioner).

    The hash codes of several key columns are combined in the order of `keys`.

    Raises:
        SourceError: There is no such key column, or more than one, or no key.
        UnsupportedColumnError: A column cannot be a key.
        ValueError: Flink has no key groups for so many targets.
    """
    if not keys:
        raise SourceError("a shuffle by hash requires a key column")
    plain = plain_schema(schema)
    indices = [key_index(plain, name) for name in keys]
    groups = default_max_parallelism(count)
    assign_to_operators(np.zeros(0, dtype=np.int32), groups, count)  # checks the counts

    def place(batch: pa.RecordBatch) -> Targets | int:
        if count == 1:
            return 0
        columns = [batch.column(index) for index in indices]
        targets = np.empty(batch.num_rows, dtype=_dtype(count))
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            hashes = key_hashes([column.slice(start, _ROWS_AT_ONCE) for column in columns])
            targets[start : start + _ROWS_AT_ONCE] = assign_to_operators(hashes, groups, count)
        return targets

    return Placement(count, place)


def computed_key_placement(schema: pa.Schema, struct: int, count: int) -> Placement:
    """Send rows to the target of their key group. The key is the fields of a struct, which is dropped.

    Raises:
        UnsupportedColumnError: A field cannot be a key.
    """
    kind = schema.field(struct).type
    keys = pa.schema([kind.field(index) for index in range(kind.num_fields)])
    by_key = hash_placement(keys, keys.names, count)

    def place(batch: pa.RecordBatch) -> Targets | int:
        fields = batch.column(struct).flatten()
        return by_key.place(pa.RecordBatch.from_arrays(fields, schema=keys))

    return Placement(count, place, dropped=struct)


def rebalance_placement(count: int, first: int = 0) -> Placement:
    """Send rows to the targets in turns, beginning with target `first` (RebalancePartitioner)."""
    next_target = first % count

    def place(batch: pa.RecordBatch) -> Targets | int:
        nonlocal next_target
        begin, end = next_target, next_target + batch.num_rows
        next_target = end % count
        if count == 1:
            return 0
        return (np.arange(begin, end, dtype=np.uint32) % np.uint32(count)).astype(_dtype(count))

    return Placement(count, place)


def broadcast_placement(count: int) -> Placement:
    """Send every row to every target (BroadcastPartitioner)."""
    return Placement(count, lambda batch: ALL)


def column_placement(schema: pa.Schema, name: str, count: int) -> Placement:
    """Send each row to the target in an int32 column, which is dropped.

    `place` raises a TargetError if a row has a null target, or one outside 0 .. count - 1.

    Raises:
        SourceError: There is no such column, or more than one.
        UnsupportedColumnError: Its type is not int32.
    """
    index = column_index(schema, name, "column of targets")
    kind = schema.field(index).type
    if not types.is_int32(kind):
        raise UnsupportedColumnError(name, kind, "cannot hold target partitions, which must be int32")

    def place(batch: pa.RecordBatch) -> Targets | int:
        column = batch.column(index)
        if column.null_count:
            raise TargetError(f"column {name!r}: a row has null as its target partition")
        values = column.to_numpy()
        wrong = values.view(np.uint32) >= count  # a negative number is at least 2^31 here
        if wrong.any():
            value = values[wrong.argmax()]
            raise TargetError(f"column {name!r}: the target partition {value} must be from 0 to {count - 1}")
        return 0 if count == 1 else values.astype(_dtype(count))

    return Placement(count, place, dropped=index)


class PlacementSpec(NamedTuple):
    """Description of a placement that the driver sends to the workers."""

    kind: Kind
    places: tuple[int, ...] = ()
    """Indices of the columns that the placement reads: the keys, or a computed column."""

    @property
    def dropped(self) -> int | None:
        """Index of the computed column, which is not sent; None for other placements."""
        return self.places[0] if self.kind in ("computed keys", "computed target") else None

    def build(self, schema: pa.Schema, count: int, index: int) -> Placement:
        """Return the placement of task `index` over `count` partitions, for batches of this schema.

        Raises:
            SourceError: A column cannot be a key.
        """
        names = [schema.field(place).name for place in self.places]
        if self.kind == "hash":
            return hash_placement(schema, names, count)
        if self.kind == "computed keys":
            return computed_key_placement(schema, self.places[0], count)
        if self.kind == "computed target":
            return column_placement(schema, names[0], count)
        if self.kind == "rebalance":
            return rebalance_placement(count, index)
        return broadcast_placement(count)


def _dtype(count: int) -> np.dtype[np.unsignedinteger[Any]]:
    return np.min_scalar_type(count - 1)


# In the driver: the columns that decide.


Placed = tuple["DataFrame", PlacementSpec]
"""Input of the tasks of a shuffle, with a computed column if there is one, and its placement."""


def with_a_column(frame: DataFrame) -> DataFrame:
    """Add a column to a DataFrame without columns, because Arrow's batches lose rows without columns."""
    from pyspark.sql import functions as sf

    return frame.select(sf.lit(True).alias(ROW))


def key_columns(frame: DataFrame, keys: Sequence[str | Column]) -> list[Column]:
    """Return keys as columns of `frame`.

    Raises:
        ShuffleError: One of them does not exist, or is not a column.
    """
    from pyspark.sql import Column
    from pyspark.sql import functions as sf

    for key in keys:
        if not isinstance(key, str | Column):
            hint = f"; the number of partitions is num_partitions={key}" if isinstance(key, int) else ""
            raise ShuffleError(f"key {key!r} is neither the name of a column nor a Column{hint}")
    columns = [sf.col(key) if isinstance(key, str) else key for key in keys]
    with spark_errors("there is no such key column"):
        frame.select(*columns)
    return columns


def by_key_groups(frame: DataFrame, keys: list[Column]) -> Placed:
    """Place rows by Flink's key groups.

    Raises:
        ShuffleError: A key has a collation in which texts of different bytes can be equal.
    """
    from pyspark.sql import functions as sf

    _refuse_collations(frame, keys)
    indices = {identity: index for index, identity in enumerate(_identities(frame))}
    places = [indices.get(identity) for identity in _identities(frame.select(*keys))]
    if None not in places:
        return frame, PlacementSpec("hash", tuple(place for place in places if place is not None))
    named = [key.alias(f"key {place}") for place, key in enumerate(keys)]
    return _with_helper(frame, sf.struct(*named), "computed keys")


def by_spark_hash(frame: DataFrame, keys: list[Column], count: int) -> Placed:
    """Place rows as Spark's own ``repartition(count, *keys)`` does (HashPartitioning: Murmur3, seed 42).

    Raises:
        ShuffleError: Spark cannot hash a key, or a key has a collation.
    """
    from pyspark.sql import functions as sf

    _refuse_collations(frame, keys)
    return _with_helper(frame, sf.pmod(sf.hash(*keys), sf.lit(count)), "computed target")


def by_range(frame: DataFrame, keys: list[Column], bounds: Sequence[Bound]) -> Placed:
    """Place rows by the ranges between bounds.

    Raises:
        ShuffleError: The bounds do not rise, or are not values of the keys' types.
    """
    kinds = [field.dataType for field in frame.select(*keys).schema]
    rows = [_as_row(bound, len(keys), place) for place, bound in enumerate(bounds)]
    limits = [_as_one_column(_limit(frame, place, row, kinds)) for place, row in enumerate(rows)]
    _require_rise(frame, rows, limits)
    return _with_helper(frame, _tree(_as_one_column(keys), limits, 0, len(limits)), "computed target")


def _with_helper(frame: DataFrame, helper: Column, kind: Kind) -> Placed:
    with spark_errors("this key cannot be used"):
        extended = frame.select("*", helper.alias(HELPER))
    return extended, PlacementSpec(kind, (len(frame.columns),))


def _identities(frame: DataFrame) -> list[int]:
    """Return Spark's identifiers of the columns, which do not depend on their names."""
    output = frame._jdf.queryExecution().analyzed().output()
    return [output.apply(place).exprId().id() for place in range(output.size())]


def _refuse_collations(frame: DataFrame, keys: list[Column]) -> None:
    for field in frame.select(*keys).schema:
        collation = _collation(field.dataType)
        if collation is not None:
            raise ShuffleError(
                f"key {field.name!r} has the collation {collation}, in which equal texts can have different "
                f"hashes; use an expression such as lower({field.name}), or ship='range'"
            )


def _collation(kind: DataType) -> str | None:
    """Return a collation that does not compare bytes, if a type contains one; else None."""
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


def _as_row(bound: Bound, width: int, place: int) -> _Row:
    row = (bound,) if width == 1 and not isinstance(bound, tuple) else bound
    if not isinstance(row, tuple) or len(row) != width:
        values = "1 value" if width == 1 else f"a tuple of {width} values"
        raise ShuffleError(f"bounds[{place}] is {bound!r}; it must be {values}, one for each key column")
    if None in row:
        raise ShuffleError(
            f"bounds[{place}] is {_shown(row)}; null cannot be a bound, since it sorts before all values"
        )
    return row


def _limit(frame: DataFrame, place: int, row: _Row, kinds: list[DataType]) -> list[Column]:
    """Return a bound as values of the key's types. The cast must be exact."""
    wanted = ", ".join(kind.simpleString() for kind in kinds)
    problem = f"bounds[{place}] is {_shown(row)}, which is not a value of type {wanted}"
    with spark_errors(problem):
        try:
            given = [_literal(value) for value in row]
        except (OverflowError, ValueError):  # outside of Python's range of times
            raise ShuffleError(problem) from None
        limit = [value.cast(kind) for value, kind in zip(given, kinds, strict=True)]
        same = [cast.eqNullSafe(value) for cast, value in zip(limit, given, strict=True)]
        fits = all(_evaluate(frame, same))
    if not fits:
        raise ShuffleError(problem)
    return limit


def _literal(value: Any) -> Column:
    """Return a value as a column; dates and timestamps are converted from their numbers.

    ``lit`` would convert them by Java's old calendar, which fails before the year 1000 and is days off until
    1582.
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
            f"bounds[{place + 1}] is {upper}, which is not above the previous bound, {lower}, in "
            "Spark's ordering; bounds must rise"
        )


def _as_one_column(columns: Sequence[Column]) -> Column:
    """Return a struct of several columns, which Spark compares field by field."""
    from pyspark.sql import functions as sf

    return columns[0] if len(columns) == 1 else sf.struct(*columns)


def _tree(key: Column, limits: list[Column], first: int, last: int) -> Column:
    """Return the partition of a key between `first` and `last`, by binary search."""
    from pyspark.sql import functions as sf

    if first == last:
        return sf.lit(first)
    middle = (first + last) // 2
    above, below = _tree(key, limits, middle + 1, last), _tree(key, limits, first, middle)
    return sf.when(key > limits[middle], above).otherwise(below)  # null is not greater than anything


def _evaluate(frame: DataFrame, columns: list[Column]) -> list[Any]:
    """Evaluate constant expressions with Spark.

    The query selects from one literal row, so Spark computes them during planning and runs no job.
    """
    (row,) = frame.sparkSession.sql("values (1)").select(*columns).collect()
    return list(row)


def _shown(row: _Row) -> str:
    return repr(row[0] if len(row) == 1 else row)
