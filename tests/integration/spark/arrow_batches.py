"""Hypothesis strategies for Arrow data: every type that Spark hands over, nulls, slices of longer arrays."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

UTC = dt.timezone.utc  # noqa: UP017
FIRST_DAY, LAST_DAY = dt.date(1, 1, 1), dt.date(9999, 12, 31)
FIRST, LAST = dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    """All decimals of a precision and scale."""
    largest = 10**precision - 1
    return st.integers(-largest, largest).map(lambda unscaled: Decimal(unscaled).scaleb(-scale))


KEYS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "null": (pa.null(), st.none()),
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "int16": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "decimal": (pa.decimal128(10, 2), decimals(10, 2)),
    "wide decimal": (pa.decimal128(38, 18), st.just(Decimal("-12345678901234567890.5"))),
    "string": (pa.string(), st.text(max_size=6)),
    "large string": (pa.large_string(), st.text(max_size=6)),
    "binary": (pa.binary(), st.binary(max_size=6)),
    "fixed binary": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "date": (pa.date32(), st.dates(FIRST_DAY, LAST_DAY)),
    "time stamp": (pa.timestamp("us"), st.datetimes(FIRST, LAST)),
    "zoned": (pa.timestamp("us", "Europe/Paris"), st.datetimes(FIRST, LAST, timezones=st.just(UTC))),
}
"""Types that can be a key: the Arrow type, and its values."""

OTHERS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "time": (pa.time64("ns"), st.integers(0, 86_399_999_999_999)),
    "interval": (pa.duration("us"), st.timedeltas(dt.timedelta(-9), dt.timedelta(9))),
    "months": (pa.month_day_nano_interval(), st.just(pa.MonthDayNano([1, -2, 3]))),
}
"""The other types that hold no others."""

PLAIN = KEYS | OTHERS


@st.composite
def kinds(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    """A type, nested up to a depth, and its values, nulls among them."""
    nested = draw(st.sampled_from(["plain", "plain", "list", "large list", "fixed", "struct", "map"]))
    if depth == 0 or nested == "plain":
        kind, values = draw(st.sampled_from(list(PLAIN.values())))
        return kind, st.none() | values
    inner, values = draw(kinds(depth - 1))
    if nested == "map":
        key, keys = draw(st.sampled_from([KEYS["string"], KEYS["int64"]]))
        pairs = st.lists(st.tuples(keys, values), max_size=2, unique_by=lambda pair: pair[0])
        return pa.map_(key, inner), st.none() | pairs
    if nested == "struct":
        return pa.struct([("x", inner), ("y", pa.int8())]), st.none() | st.fixed_dictionaries(
            {"x": values, "y": st.none() | st.integers(-1, 1)}
        )
    if nested == "fixed":
        return pa.list_(inner, 2), st.none() | st.lists(values, min_size=2, max_size=2)
    lists = st.none() | st.lists(values, max_size=3)
    return (pa.large_list if nested == "large list" else pa.list_)(inner), lists


@st.composite
def arrays(draw: st.DrawFn, kind: pa.DataType, values: st.SearchStrategy[Any], rows: int) -> pa.Array:
    """An array of a number of values, which may be part of a longer one."""
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 2))
    size = before + rows + after
    return pa.array(draw(st.lists(values, min_size=size, max_size=size)), kind).slice(before, rows)


@st.composite
def batches(draw: st.DrawFn, max_rows: int = 20, max_count: int = 4) -> list[pa.RecordBatch]:
    """Some batches of one schema, with metadata; the first column, if there is any, counts all rows."""
    columns = draw(st.lists(kinds(), max_size=3))
    if not columns and draw(st.booleans()):
        return [no_columns(rows) for rows in draw(st.lists(st.integers(0, max_rows), max_size=max_count))]
    fields = [pa.field("row", pa.int64(), nullable=False, metadata={"is": "a number"})]
    fields += [pa.field(f"c{index}", kind) for index, (kind, _) in enumerate(columns)]
    schema = pa.schema(fields, metadata={"of": "the table"})
    made, first = [], 0
    for rows in draw(st.lists(st.integers(0, max_rows), min_size=1, max_size=max_count)):
        numbers = pa.array(range(first, first + rows), pa.int64())
        others = [draw(arrays(kind, values, rows)) for kind, values in columns]
        made.append(pa.RecordBatch.from_arrays([numbers, *others], schema=schema))
        first += rows
    return made


def no_columns(rows: int) -> pa.RecordBatch:
    """A batch of rows without columns, as of ``df.select()``."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def schema_of(batches: list[pa.RecordBatch]) -> pa.Schema:
    """The schema of some batches; of none, that without columns."""
    return batches[0].schema if batches else pa.schema([])


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """All rows of some batches, in order, as Python values."""
    return [row for batch in batches for row in batch.to_pylist()]
