import datetime as dt
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffers import RecordBlock
from integration.base.errors import UnsupportedColumnError
from integration.spark.rows import RowCodec, key_hash
from netstack import SourceError, java_hash

UTC = dt.timezone.utc  # noqa: UP017
NAN = float("nan")

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "null": (pa.null(), [None, None, None]),
    "bool": (pa.bool_(), [True, None, False]),
    "int8": (pa.int8(), [-128, None, 127]),
    "int32": (pa.int32(), [-(2**31), None, 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), None, 2**63 - 1]),
    "uint64": (pa.uint64(), [0, None, 2**64 - 1]),
    "half": (pa.float16(), [1.5, None, -2.0]),
    "float": (pa.float32(), [1.5, None, float("inf")]),
    "double": (pa.float64(), [-0.0, None, 5e-324]),
    "string": (pa.string(), ["", None, "Zürich €😀\0"]),
    "large_string": (pa.large_string(), ["", None, "a" * 300]),
    "string_view": (pa.string_view(), ["", None, "longer than twelve bytes"]),
    "binary": (pa.binary(), [b"", None, bytes(range(256))]),
    "fixed": (pa.binary(3), [b"abc", None, b"\0\xff\0"]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), None, Decimal("-99999999.99")]),
    "wide": (pa.decimal128(38, 38), [Decimal("1E-38"), None, Decimal("0E-38")]),
    "date": (pa.date32(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "time": (pa.time64("us"), [dt.time(0, 0, 0, 1), None, dt.time(23, 59, 59, 999999)]),
    "zoned": (
        pa.timestamp("us", "Europe/Paris"),
        [dt.datetime(2020, 7, 1, tzinfo=UTC), None, dt.datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC)],
    ),
    "naive": (pa.timestamp("us"), [dt.datetime(2020, 7, 1), None, dt.datetime(1, 1, 1, 0, 0, 0, 1)]),
    "seconds": (pa.timestamp("s"), [dt.datetime(1969, 12, 31, 23, 59, 59), None, dt.datetime(2038, 1, 19)]),
    "duration": (pa.duration("us"), [dt.timedelta(microseconds=-1), None, dt.timedelta(days=9)]),
    "list": (pa.list_(pa.decimal128(5, 1)), [[Decimal("0.1"), None], None, []]),
    "large_list": (pa.large_list(pa.date32()), [[dt.date(2020, 1, 1)], None, []]),
    "pair": (pa.list_(pa.timestamp("us"), 2), [[dt.datetime(2020, 1, 1), None], None, [None, None]]),
    "struct": (
        pa.struct([("when", pa.date32()), ("of which", pa.struct([("x", pa.list_(pa.string()))]))]),
        [
            {"when": dt.date(2020, 1, 1), "of which": {"x": ["a", None]}},
            None,
            {"when": None, "of which": None},
        ],
    ),
    "map": (pa.map_(pa.string(), pa.decimal128(3, 1)), [[("a", Decimal("1.0")), ("b", None)], None, []]),
    "dates": (
        pa.map_(pa.date32(), pa.list_(pa.struct([("t", pa.timestamp("us", "UTC"))]))),
        [[(dt.date(2020, 1, 1), [{"t": dt.datetime(2020, 1, 1, tzinfo=UTC)}, None])], None, []],
    ),
    "required": (
        pa.struct([pa.field("x", pa.date32(), nullable=False)]),
        [{"x": dt.date(2020, 1, 1)}, None, None],
    ),
}


def batch_of(columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.RecordBatch:
    arrays = [pa.array(values, kind) for kind, values in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def codec_of(kind: pa.DataType, key: str | None = None) -> RowCodec:
    return RowCodec(pa.schema([("column", kind)]), key)


def hashes_of(kind: pa.DataType, values: list[Any]) -> list[int]:
    batch = batch_of({"other": (pa.null(), [None] * len(values)), "column": (kind, values)})
    hashes: list[int] = key_hash(RowCodec(batch.schema, "column").encode(batch)).tolist()
    return hashes


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_survives(name: str) -> None:
    batch = batch_of({name: COLUMNS[name]})
    codec = RowCodec(batch.schema)
    for part in (batch, batch.slice(1), batch.slice(1, 1), batch.slice(batch.num_rows)):
        decoded = codec.decode(codec.encode(part))
        decoded.validate(full=True)
        assert decoded.equals(part)


def test_all_types_survive_together() -> None:
    batch = batch_of(COLUMNS)
    codec = RowCodec(batch.schema, ["string", "date"])
    block = codec.encode(batch)
    assert len(block) == 3
    assert codec.decode(block).equals(batch)
    assert codec.decode(RecordBlock.concat([block[2:], block[:1]])).to_pylist() == [
        batch.to_pylist()[2],
        batch.to_pylist()[0],
    ]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_nan_is_not_null(kind: pa.DataType) -> None:
    batch = batch_of({"column": (kind, [NAN, None, 1.0])})
    codec = RowCodec(batch.schema)
    (first,), second, third = codec.rows(codec.encode(batch))
    assert first != first
    assert (second, third) == ((None,), (1.0,))


def test_rows_are_tuples_of_python_values() -> None:
    batch = batch_of({name: COLUMNS[name] for name in ("date", "decimal", "map")})
    codec = RowCodec(batch.schema)
    rows = codec.rows(codec.encode(batch))
    assert rows[0] == (dt.date(1, 1, 1), Decimal("1.50"), [("a", Decimal("1.0")), ("b", None)])
    assert rows[1] == (None, None, None)


def test_the_encoding_is_the_documented_one() -> None:
    batch = batch_of(
        {
            "key": (pa.string(), ["hello"]),
            "day": (pa.date32(), [dt.date(1970, 1, 11)]),
            "price": (pa.decimal128(5, 2), [Decimal("1.50")]),
            "map": (pa.map_(pa.string(), pa.int8()), [[("a", 1)]]),
            "struct": (pa.struct([("x", pa.float64())]), [{"x": None}]),
        }
    )
    (payload,) = RowCodec(batch.schema, "key").encode(batch).payloads()
    assert bytes(payload[:4]) == (99162322).to_bytes(4, "big")
    assert msgspec.msgpack.decode(payload[4:]) == ["hello", 10, "1.50", [["a", 1]], {"x": None}]


def test_without_a_key_the_hash_is_zero() -> None:
    batch = batch_of({"column": (pa.int32(), [1, 2])})
    assert key_hash(RowCodec(batch.schema).encode(batch)).tolist() == [0, 0]
    assert RowCodec(batch.schema).key == ()


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.null(), [None, None], [0, 0]),
        (pa.bool_(), [True, False, None], [1231, 1237, 0]),
        (pa.int8(), [-1, None], [-1, 0]),
        (pa.int32(), [-1, 7], [-1, 7]),
        (pa.int64(), [-1, 2**32, None], [0, 1, 0]),
        (pa.uint16(), [65535], [65535]),
        (pa.uint64(), [2**64 - 1], [0]),
        (pa.float32(), [1.0, NAN, None], [1065353216, 2143289344, 0]),
        (pa.float64(), [1.0, NAN, None], [1072693248, 2146959360, 0]),
        (pa.string(), ["hello", None, ""], [99162322, 0, 0]),
        (pa.string_view(), ["hello", None, ""], [99162322, 0, 0]),
        (pa.large_string(), ["😀"], [1772899]),
        (pa.binary(), [b"\x01\x02", None, b""], [994, 0, 1]),
        (pa.binary(2), [b"\x01\x02", None], [994, 0]),
        (pa.decimal128(10, 2), [Decimal("123.45"), None, Decimal("-123.45")], [382697, 0, -382693]),
        (pa.decimal256(50, 2), [Decimal("123.45"), None], [382697, 0]),
        (pa.date32(), [dt.date(1970, 1, 11), None, dt.date(1969, 12, 31)], [10, 0, -1]),
        (pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 1), None], [1_000_000, 0]),
        (pa.timestamp("s", "UTC"), [dt.datetime(1970, 1, 1, 0, 0, 1)], [1_000_000]),
        (pa.timestamp("ms"), [dt.datetime(1970, 1, 1, 0, 0, 1)], [1_000_000]),
        (pa.timestamp("ns"), [dt.datetime(1970, 1, 1, 0, 0, 1)], [1_000_000]),
    ],
    ids=str,
)
def test_hash_codes_by_type(kind: pa.DataType, values: list[Any], expected: list[int]) -> None:
    assert hashes_of(kind, values) == expected
    assert hashes_of(kind, [*values[1:], *values]) == [*expected[1:], *expected]


def test_hash_codes_of_a_slice() -> None:
    batch = batch_of(
        {"s": (pa.string(), ["a", None, "€", "b"]), "d": (pa.decimal128(3, 1), [Decimal(1)] * 4)}
    )
    for key, expected in (("s", [0, 8364]), ("d", [311, 311])):
        assert key_hash(RowCodec(batch.schema, key).encode(batch.slice(1, 2))).tolist() == expected


def test_several_keys_combine_in_the_order_given() -> None:
    batch = batch_of({"a": (pa.int32(), [3]), "b": (pa.string(), ["A"])})

    def hashed(*key: str) -> int:
        return int(key_hash(RowCodec(batch.schema, key).encode(batch))[0])

    assert hashed("a", "b") == 31 * (31 * 1 + 3) + 65
    assert hashed("b", "a") == 31 * (31 * 1 + 65) + 3
    assert hashed("b") == 65


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (pa.month_day_nano_interval(), "type month_day_nano_interval cannot be sent in a record"),
        (
            pa.list_(pa.month_day_nano_interval()),
            "type month_day_nano_interval cannot be sent in a record",
        ),
        (pa.dictionary(pa.int8(), pa.string()), "type dictionary<.*> cannot be sent in a record"),
        (pa.struct([("a", pa.int8()), ("a", pa.int8())]), "type struct<.*> has two fields of the same name"),
    ],
)
def test_types_that_cannot_be_carried(kind: pa.DataType, problem: str) -> None:
    with pytest.raises(UnsupportedColumnError, match=f"^column 'column': {problem}$") as raised:
        codec_of(kind)
    assert raised.value.column == "column"


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int8()), pa.struct([]), pa.duration("us"), pa.time32("s")], ids=str
)
def test_types_that_cannot_be_a_key(kind: pa.DataType) -> None:
    codec_of(kind)
    with pytest.raises(UnsupportedColumnError, match=r"^column 'column': type .* cannot be a key$"):
        codec_of(kind, "column")


def test_key_columns_that_are_not_there() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.int8()), ("b", pa.int8())])
    with pytest.raises(SourceError, match=r"^there is no key column 'c'; the columns are: a, b, b$"):
        RowCodec(schema, ["a", "c"])
    with pytest.raises(SourceError, match=r"^there is no key column 'c'; the columns are: none$"):
        RowCodec(pa.schema([]), "c")
    with pytest.raises(SourceError, match=r"^the key column 'b' exists 2 times$"):
        RowCodec(schema, "b")


def test_columns_of_the_same_name_are_carried() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array(["x"])], names=["a", "a"])
    codec = RowCodec(batch.schema)
    assert codec.decode(codec.encode(batch)).equals(batch)


def test_no_columns() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    codec = RowCodec(batch.schema)
    assert codec.rows(codec.encode(batch)) == [(), ()]


def test_text_that_is_not_utf8() -> None:
    broken = pa.array([b"fine", b"\xff"]).view(pa.string())
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), broken], names=["a", "b"])
    for key in (None, "b"):
        with pytest.raises(SourceError, match=r"^column 'b' holds text that is not UTF-8$"):
            RowCodec(batch.schema, key).encode(batch)


def test_a_batch_of_other_columns() -> None:
    with pytest.raises(SourceError, match="expected columns of types"):
        codec_of(pa.int32()).encode(batch_of({"column": (pa.int64(), [1])}))


@pytest.mark.parametrize(
    "payload", [b"\0\0\0\0\x91\xa1x", b"\0\0\0\0\x92\x01\x01", b"\0\0\0\0", b"\0\0\0\0\xc1"]
)
def test_records_that_are_no_rows(payload: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        codec_of(pa.int32()).decode(RecordBlock.from_payloads([payload]))


def test_text_in_a_record_that_is_not_utf8_is_no_row() -> None:
    with pytest.raises(msgspec.DecodeError, match="'utf-8' codec can't decode"):
        codec_of(pa.string()).decode(RecordBlock.from_payloads([b"\0\0\0\0\x91\xa1\xff"]))


LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(allow_nan=False, width=32)),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.decimal128(20, 5), st.decimals(-(10**14), 10**14, places=5)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
]


def columns_of(depth: int) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    """Types with a strategy for their values, nulls among them."""
    leaves = st.sampled_from(LEAVES).map(lambda leaf: (leaf[0], st.none() | leaf[1]))
    if depth == 0:
        return leaves
    inner = columns_of(depth - 1)

    def structs(
        parts: list[tuple[pa.DataType, st.SearchStrategy[Any]]],
    ) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        kind = pa.struct([(f"f{index}", part[0]) for index, part in enumerate(parts)])
        return kind, st.none() | st.fixed_dictionaries(
            {f"f{index}": part[1] for index, part in enumerate(parts)}
        )

    return st.one_of(
        leaves,
        inner.map(lambda part: (pa.list_(part[0]), st.none() | st.lists(part[1], max_size=3))),
        st.lists(inner, min_size=1, max_size=3).map(structs),
        inner.map(
            lambda part: (
                pa.map_(pa.string(), part[0]),
                st.none() | st.lists(st.tuples(st.sampled_from("abc"), part[1]), max_size=3),
            )
        ),
    )


@given(st.data())
def test_any_batch_survives(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(columns_of(2), min_size=1, max_size=4))
    rows = data.draw(st.integers(0, 5))
    arrays = [pa.array(data.draw(st.lists(v, min_size=rows, max_size=rows)), kind) for kind, v in kinds]
    batch = pa.RecordBatch.from_arrays(arrays, names=[f"c{index}" for index in range(len(kinds))])
    part = batch.slice(data.draw(st.integers(0, rows)))
    codec = RowCodec(batch.schema)
    assert codec.decode(codec.encode(part)).equals(part)


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))), st.data())
def test_hash_of_any_text(values: list[str | None], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values)))
    batch = batch_of({"column": (pa.string(), values)}).slice(start)
    expected = [0 if value is None else java_hash.hash_strings([value])[0] for value in values[start:]]
    hashes = key_hash(RowCodec(batch.schema, "column").encode(batch))
    assert hashes.dtype == np.int32
    assert hashes.tolist() == expected
