"""Ranges: which partition a key belongs to, given the bounds between partitions, by Spark's own ordering.

As in Spark's RangePartitioner, a bound is the greatest key of the partition before it::

    partition 0        partition 1        partition 2
    ... <= bound 0  <  ... <= bound 1  <  ...

Null comes first and NaN last. Spark itself computes the partition of each row, by halving: for 200 partitions
it compares a key 8 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .errors import ShuffleError, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

Bound = Any
"""A value of the key; a tuple of them if the key has several columns."""

_Row = tuple[Any, ...]


def range_target(frame: DataFrame, keys: Sequence[Column], bounds: Sequence[Bound]) -> Column:
    """Return an expression for the partition of a row of `frame`, from 0 to the number of bounds.

    Raises:
        ShuffleError: The bounds do not rise, or one is no value of the key's type. No job is run to find out.
    """
    kinds = [field.dataType for field in frame.select(*keys).schema]
    rows = [_as_row(bound, len(keys), place) for place, bound in enumerate(bounds)]
    limits = [_limit(frame, place, row, kinds) for place, row in enumerate(rows)]
    singles = [_one(limit) for limit in limits]
    _require_rise(frame, rows, singles)
    return _tree(_one(keys), singles, 0, len(singles))


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


def _one(columns: Sequence[Column]) -> Column:
    """Several columns are compared as a struct, field by field."""
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
