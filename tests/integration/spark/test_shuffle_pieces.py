from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integration.base.errors import PieceError, UnsupportedColumnError
from integration.spark.rows import plain_schema
from integration.spark.shuffling.pieces import Merger, as_plain, decode_piece, encode_piece, joined, split
from netstack import SourceError
from tests.integration.spark.arrow_batches import batches, no_columns, rows_of, schema_of


def numbers(rows: int, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"x": np.arange(first, first + rows)})


def merged(merger: Merger, pieces: list[memoryview]) -> list[pa.RecordBatch]:
    return [batch for piece in pieces for batch in merger.add(piece)] + list(merger.flush())


@settings(max_examples=100)
@given(batches(), st.integers(0, 9), st.integers(0, 20))
def test_what_is_encoded_is_decoded(given: list[pa.RecordBatch], start: int, length: int) -> None:
    for whole in given:
        for batch in (whole, whole.slice(start, length)):
            decoded = decode_piece(encode_piece(batch), batch.schema)
            decoded.validate(full=True)
            assert decoded.num_rows == batch.num_rows
            assert decoded.equals(batch)
            assert decoded.schema.equals(whole.schema, check_metadata=True)


def test_nan_and_the_sign_of_zero_survive() -> None:
    batch = pa.record_batch({"x": np.array([0x7FF8000000000001, 1 << 63], np.uint64).view(np.float64)})
    decoded = decode_piece(encode_piece(batch), batch.schema).column(0).to_numpy()
    assert decoded.view(np.uint64).tolist() == [0x7FF8000000000001, 1 << 63]


def test_fields_inside_others_keep_whether_they_may_be_null() -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    kind = pa.map_(pa.string(), pa.field("value", inner, nullable=False))
    schema = pa.schema([pa.field("m", kind, nullable=False)])
    batch = pa.record_batch([pa.array([[("a", {"x": 1})], []], kind)], schema=schema)
    decoded = joined([decode_piece(encode_piece(batch), schema)] * 2)
    assert decoded.schema.equals(schema, check_metadata=True)
    assert decoded.to_pylist() == batch.to_pylist() * 2


def test_a_piece_holds_its_rows_only() -> None:
    texts = [f"{row:0100}" if row % 3 else None for row in range(9000)]
    batch = pa.record_batch({"x": np.arange(9000), "s": texts, "l": [[text] for text in texts]})
    some = batch.slice(4099, 30)
    assert len(encode_piece(some)) < 30 * 300
    assert decode_piece(encode_piece(some), batch.schema).equals(some)


def test_decoding_copies_nothing() -> None:
    piece = bytes(encode_piece(numbers(1000)))
    begin = pa.py_buffer(piece).address
    for data in (piece, memoryview(piece)):
        values = decode_piece(data, numbers(0).schema).column(0).buffers()[1]
        assert begin < values.address < begin + len(piece)


def test_a_piece_may_lie_at_an_odd_address() -> None:
    batch = pa.record_batch(
        {"x": [1, None, 3], "d": [Decimal("1.5"), None, Decimal(2)], "s": ["a", "b", None]}
    )
    data = memoryview(b"x" + encode_piece(batch))[1:]
    assert joined([decode_piece(data, batch.schema)] * 2).to_pylist() == batch.to_pylist() * 2


@given(batches(max_count=1), st.integers(1, 300), st.none() | st.integers(1, 10))
def test_splits_are_within_the_limits_and_lose_nothing(
    given: list[pa.RecordBatch], max_bytes: int, max_rows: int | None
) -> None:
    for batch in given:
        parts = list(split(batch, max_bytes, max_rows))
        assert rows_of(parts) == batch.to_pylist()
        assert sum(part.num_rows for part in parts) == batch.num_rows
        assert all(part.nbytes <= max_bytes or part.num_rows <= 1 for part in parts)
        assert max_rows is None or all(part.num_rows <= max_rows for part in parts)


def test_splits_are_even() -> None:
    assert [part.num_rows for part in split(numbers(1000), 2500)] == [250] * 4
    assert [part.num_rows for part in split(numbers(10), 80)] == [10]
    assert [part.num_rows for part in split(numbers(10), 1 << 20, 3)] == [2, 3, 2, 3]
    assert [part.num_rows for part in split(no_columns(10), 1, 4)] == [3, 3, 4]


def test_a_huge_row_is_split_off() -> None:
    texts = ["a"] * 500 + ["b" * 1_000_000] + ["c"] * 500
    parts = list(split(pa.record_batch({"s": texts}), 10_000))
    assert [text["s"] for text in rows_of(parts)] == texts
    assert [part.num_rows for part in parts if part.nbytes > 10_000] == [1]
    assert len(parts) < 50


COLUMNS: dict[str, Any] = {
    "long": [1, None, 3] * 5,
    "text": ["a", None, "xyz" * 3] * 5,
    "flag": [True, None, False] * 5,
    "texts": [["a", "b"], None, []] * 5,
    "struct": [{"x": 1, "y": "t"}, None, {"x": None, "y": None}] * 5,
    "null": pa.nulls(15),
    "map": pa.array([[("a", 1)], None, []] * 5, pa.map_(pa.string(), pa.int64())),
}
SAMPLE = pa.record_batch(COLUMNS)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_piece_cut_short_is_an_error(name: str) -> None:
    batch = SAMPLE.select([name])
    piece = bytes(encode_piece(batch))
    # The last buffer of a column of nulls is empty, and others end with padding.
    for size in range(len(piece) - 64 if name != "null" else 64):
        with pytest.raises(
            PieceError, match=f"{size} bytes cannot be read as rows of the expected columns: "
        ):
            decode_piece(piece[:size], batch.schema)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8,
        b"\xff" * 64,
        b"no piece at all, but text that is long enough",
        b"\xff\xff\xff\xff\x10\0\0\0" + b"\xaa" * 64,
        SAMPLE.schema.serialize().to_pybytes(),
    ],
    ids=["nothing", "zeros", "ones", "text", "no table", "a schema"],
)
def test_what_is_no_piece_is_an_error(data: bytes) -> None:
    with pytest.raises(PieceError):
        decode_piece(data, SAMPLE.schema)


def test_a_piece_of_other_columns_is_an_error() -> None:
    with pytest.raises(PieceError):
        decode_piece(encode_piece(numbers(3)), SAMPLE.schema)
    with pytest.raises(PieceError):
        decode_piece(encode_piece(numbers(3)), pa.schema([("x", pa.string())]))


def test_nothing_is_kept_of_what_lies_in_no_row() -> None:
    batch = pa.record_batch({"x": [["a", "b"], ["c"], ["d", "e"]] * 5})
    without_rows = bytes(encode_piece(batch)).replace((15).to_bytes(8, "little"), bytes(8))
    decoded = decode_piece(without_rows, batch.schema)
    assert decoded.num_rows == 0
    assert len(decoded.column(0).values) == 0


@settings(max_examples=300)
@given(st.data())
def test_damage_is_an_error_or_makes_rows_that_can_be_handled(data: st.DataObject) -> None:
    batch = SAMPLE.select(
        data.draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3, unique=True))
    )
    piece = bytearray(encode_piece(batch.slice(data.draw(st.integers(0, 3)), data.draw(st.integers(0, 12)))))
    for position in data.draw(st.lists(st.integers(0, len(piece) - 1), min_size=1, max_size=4)):
        piece[position] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_piece(bytes(piece), batch.schema)
    except PieceError:
        return
    if decoded.num_rows < 1000:  # columns of nulls can be of any length
        encode_piece(joined([decoded, batch, decoded]))


def test_dictionaries_and_views_travel_as_their_values() -> None:
    coded = pa.array(["a", None, "b"]).dictionary_encode()
    schema = pa.schema(
        [
            pa.field("d", coded.type, nullable=False, metadata={"k": "v"}),
            pa.field("l", pa.list_(coded.type)),
            pa.field("s", pa.struct([("x", pa.map_(pa.string(), pa.dictionary(pa.int8(), pa.int64())))])),
            pa.field("v", pa.string_view()),
            pa.field("w", pa.large_list(pa.binary_view())),
            pa.field("f", pa.list_(pa.string_view(), 1)),
        ],
        metadata={"m": "n"},
    )
    plain = plain_schema(schema)
    assert plain.types == [
        pa.string(),
        pa.list_(pa.string()),
        pa.struct([("x", pa.map_(pa.string(), pa.int64()))]),
        pa.string(),
        pa.large_list(pa.binary()),
        pa.list_(pa.string(), 1),
    ]
    assert (plain.metadata, plain.field("d").metadata) == ({b"m": b"n"}, {b"k": b"v"})
    batch = pa.record_batch({"d": coded, "v": pa.array(["x", None, "y"], pa.string_view())})
    made = as_plain(batch, plain_schema(batch.schema))
    assert decode_piece(encode_piece(made), made.schema).to_pylist() == batch.to_pylist()


@pytest.mark.parametrize(
    "kind",
    [
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.list_view(pa.int64()),
        pa.list_(pa.dense_union([pa.field("a", pa.int64())])),
    ],
    ids=str,
)
def test_columns_that_cannot_travel(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedColumnError, match=r"column 'c': type .* cannot be sent in a shuffle"):
        plain_schema(pa.schema([("c", kind)]))


def test_a_batch_of_the_same_columns_may_name_their_parts_differently() -> None:
    announced = pa.schema([pa.field("l", pa.list_(pa.field("element", pa.int64(), nullable=False)))])
    batch = pa.record_batch({"l": pa.array([[1, 2], None], pa.list_(pa.int64()))})
    assert as_plain(batch, announced).schema.equals(announced)
    same = as_plain(batch, batch.schema)
    assert same is batch


def test_a_batch_of_other_columns_is_refused() -> None:
    with pytest.raises(SourceError, match="a batch does not have the expected columns"):
        as_plain(numbers(1), pa.schema([("y", pa.int64())]))


@given(batches(max_count=8), st.integers(1, 30), st.integers(1, 3000))
def test_merging_keeps_all_rows_in_order(given: list[pa.RecordBatch], max_rows: int, max_bytes: int) -> None:
    schema = schema_of(given)
    pieces = [encode_piece(batch) for batch in given]
    made = merged(Merger(schema, max_rows=max_rows, max_bytes=max_bytes), pieces)
    assert rows_of(made) == rows_of(given)
    assert sum(batch.num_rows for batch in made) == sum(batch.num_rows for batch in given)
    assert all(batch.schema.equals(schema, check_metadata=True) for batch in made)
    assert all(batch.num_rows for batch in made)
    largest = max((batch.num_rows for batch in given), default=0)
    assert all(batch.num_rows <= max(max_rows, largest) for batch in made)


def test_small_pieces_become_batches_of_the_size_wanted() -> None:
    pieces = [encode_piece(numbers(10, first)) for first in range(0, 1000, 10)]
    by_rows = merged(Merger(numbers(0).schema, max_rows=320), pieces)
    assert [batch.num_rows for batch in by_rows] == [320] * 3 + [40]
    by_bytes = merged(Merger(numbers(0).schema, max_bytes=32 * len(pieces[0])), pieces)
    assert [batch.num_rows for batch in by_bytes] == [320] * 3 + [40]


def test_a_large_piece_is_handed_on_as_it_is_and_in_its_turn() -> None:
    small, large = encode_piece(numbers(3)), encode_piece(numbers(500, 3))
    first, second, third = merged(Merger(numbers(0).schema, max_rows=1000), [small, large, small])
    assert [first.num_rows, second.num_rows, third.num_rows] == [3, 500, 3]
    begin = pa.py_buffer(large).address
    assert begin < second.column(0).buffers()[1].address < begin + len(large)


def test_a_merger_goes_on_after_a_flush() -> None:
    merger = Merger(numbers(0).schema)
    assert list(merger.add(encode_piece(numbers(0)))) == []
    assert list(merger.flush()) == []
    assert list(merger.add(encode_piece(numbers(2)))) == []
    assert [batch.num_rows for batch in merger.flush()] == [2]
    assert list(merger.flush()) == []
    with pytest.raises(PieceError):
        list(merger.add(b"broken"))


WILD: dict[str, pa.Array] = {
    name: pa.Array.from_buffers(
        kind, 3, [None, pa.py_buffer(np.array([0, 1 << 30, 2, 3], width)), *more], children=inner
    )
    for name, kind, width, more, inner in (
        ("text", pa.string(), np.int32, [pa.py_buffer(b"abc")], None),
        ("large binary", pa.large_binary(), np.int64, [pa.py_buffer(b"abc")], None),
        ("list", pa.list_(pa.int8()), np.int32, [], [pa.array([1, 2, 3], pa.int8())]),
        ("large list", pa.large_list(pa.int8()), np.int64, [], [pa.array([1, 2, 3], pa.int8())]),
    )
}
"""Columns whose second value ends far behind them: the first and the last offset are right."""

_KEYS = pa.array(["a", "b", "c"])
WILD |= {
    "list of texts": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), WILD["text"]),
    "struct": pa.StructArray.from_arrays([WILD["text"]], ["a"]),
    "map": pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), _KEYS, WILD["text"]),
    "pairs": pa.FixedSizeListArray.from_arrays(pa.concat_arrays([_KEYS, _KEYS]), 2),
}


@pytest.mark.parametrize("name", [name for name in WILD if name != "pairs"])
def test_a_value_that_ends_elsewhere_is_no_piece(name: str) -> None:
    batch = pa.record_batch({"x": WILD[name]})
    with pytest.raises(PieceError, match="ends before it begins"):
        decode_piece(encode_piece(batch), batch.schema)


def test_parts_of_columns_are_pieces() -> None:
    for column in (WILD["pairs"], pa.array([["a"], None, ["b", "c"]]), pa.array(["x", None, "y"])):
        batch = pa.record_batch({"x": column})
        for start in range(3):
            part = batch.slice(start)
            assert decode_piece(encode_piece(part), batch.schema).equals(part)
