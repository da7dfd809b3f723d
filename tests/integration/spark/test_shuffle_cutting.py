from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integration.base.errors import TargetError
from integration.spark.shuffling.pieces import (
    PIECE_BYTES,
    Cutter,
    Pieces,
    decode_piece,
)
from integration.spark.shuffling.placement import (
    ALL,
    broadcast_placement,
    column_placement,
    hash_placement,
    rebalance_placement,
)
from netstack import SourceError
from tests.integration.spark.arrow_batches import batches, no_columns, rows_of, schema_of

HEADER_BYTES = 1024
"""More than the header of any piece here, and the padding of its buffers."""


def numbers(rows: int, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"x": np.arange(first, first + rows)})


def cuts(cutter: Cutter, given: Iterable[pa.RecordBatch]) -> list[Pieces]:
    made = [pieces for batch in given for pieces in cutter.add(batch)]
    return [*made, cutter.flush()]


def arrived(cutter: Cutter, made: list[Pieces]) -> dict[int, list[pa.RecordBatch]]:
    """The batches that each target receives, in order."""
    received = defaultdict(list)
    for target, piece in (one for pieces in made for one in pieces):
        received[target].append(decode_piece(piece, cutter.schema))
    return received


def counted(received: dict[int, list[pa.RecordBatch]]) -> int:
    return sum(batch.num_rows for batches in received.values() for batch in batches)


SIZES = st.tuples(st.integers(1, 2000), st.integers(1, 1000))
"""Bytes gathered, and bytes of a piece."""


@settings(max_examples=80)
@given(batches(), st.sampled_from([1, 2, 5, 300]), SIZES)
def test_every_row_arrives_once_where_its_key_belongs_and_in_order(
    given: list[pa.RecordBatch], count: int, sizes: tuple[int, int]
) -> None:
    schema = schema_of(given)
    keys = schema.names[:1]
    if not keys:
        return
    cutter = Cutter(schema, hash_placement(schema, keys, count), gather_bytes=sizes[0], piece_bytes=sizes[1])
    received = arrived(cutter, cuts(cutter, given))
    rows = rows_of(given)
    for target, parts in received.items():
        got = rows_of(parts)
        assert all(part.schema.equals(schema, check_metadata=True) for part in parts)
        assert all(part.num_rows for part in parts)
        assert [row["row"] for row in got] == sorted(row["row"] for row in got)
        assert got == [rows[row["row"]] for row in got]
        placed = [hash_placement(schema, keys, count).place(part) for part in parts]
        assert all(np.all(targets == target) for targets in placed)
    assert counted(received) == len(rows)


@given(batches(), st.sampled_from([1, 3, 300]), st.integers(0, 2), SIZES)
def test_rebalanced_rows_are_dealt_out_in_turns_however_they_are_cut(
    given: list[pa.RecordBatch], count: int, first: int, sizes: tuple[int, int]
) -> None:
    cutter = Cutter(
        schema_of(given), rebalance_placement(count, first), gather_bytes=sizes[0], piece_bytes=sizes[1]
    )
    received = arrived(cutter, cuts(cutter, given))
    rows = rows_of(given)
    for target in range(count):
        assert rows_of(received[target]) == rows[(target - first) % count :: count]
    assert counted(received) == len(rows)


@given(batches(), SIZES)
def test_broadcast_rows_are_encoded_once(given: list[pa.RecordBatch], sizes: tuple[int, int]) -> None:
    cutter = Cutter(schema_of(given), broadcast_placement(3), gather_bytes=sizes[0], piece_bytes=sizes[1])
    received = arrived(cutter, cuts(cutter, given))
    assert set(received) <= {ALL}
    assert rows_of(received[ALL]) == rows_of(given)
    assert counted(received) == len(rows_of(given))


@given(batches(), st.data(), SIZES)
def test_a_column_of_targets_is_obeyed_and_dropped(
    given: list[pa.RecordBatch], data: st.DataObject, sizes: tuple[int, int]
) -> None:
    schema = schema_of(given).append(pa.field("to", pa.int32()))
    marked, expected = [], defaultdict(list)
    for batch in given:
        to = data.draw(st.lists(st.integers(0, 4), min_size=batch.num_rows, max_size=batch.num_rows))
        marked.append(pa.RecordBatch.from_arrays([*batch.columns, pa.array(to, pa.int32())], schema=schema))
        for target, row in zip(to, batch.to_pylist(), strict=True):
            expected[target].append(row)
    cutter = Cutter(schema, column_placement(schema, "to", 5), gather_bytes=sizes[0], piece_bytes=sizes[1])
    assert cutter.schema.equals(schema_of(given), check_metadata=True)
    received = arrived(cutter, cuts(cutter, marked))
    assert {target: rows_of(parts) for target, parts in received.items()} == expected
    assert counted(received) == sum(map(len, expected.values()))


def test_a_row_without_a_target_stops_the_cutter() -> None:
    batch = pa.record_batch({"to": pa.array([0, 5], pa.int32())})
    cutter = Cutter(batch.schema, column_placement(batch.schema, "to", 5))
    assert list(cutter.add(batch)) == []
    with pytest.raises(TargetError, match=r"the target partition 5 must be from 0 to 4"):
        cutter.flush()


def test_small_batches_do_not_mean_small_pieces() -> None:
    given = [numbers(100, first) for first in range(0, 20_000, 100)]
    cutter = Cutter(given[0].schema, rebalance_placement(200))
    made = cuts(cutter, given)
    assert [len(pieces) for pieces in made] == [200]
    assert [batch.num_rows for batch in arrived(cutter, made)[7]] == [100]


def test_targets_without_rows_have_no_pieces() -> None:
    cutter = Cutter(numbers(0).schema, hash_placement(numbers(0).schema, ["x"], 1000))
    (made,) = cuts(cutter, [numbers(3)])
    assert len(made) == len({target for target, _ in made}) == 3


def test_pieces_for_one_target_stay_together() -> None:
    cutter = Cutter(numbers(0).schema, rebalance_placement(2), piece_bytes=2048)
    (made,) = cuts(cutter, [numbers(1000)])
    assert [target for target, _ in made] == [0, 0, 1, 1]


def test_no_more_is_gathered_than_the_limit() -> None:
    given = [numbers(100, first) for first in range(0, 1000, 100)]
    cutter = Cutter(given[0].schema, rebalance_placement(2), gather_bytes=2500)
    made = [list(cutter.add(batch)) for batch in given]
    assert [len(lists) for lists in made] == [0, 0, 0, 1, 0, 0, 1, 0, 0, 1]
    rows = [counted(arrived(cutter, lists)) for lists in made]
    assert rows == [0, 0, 0, 300, 0, 0, 300, 0, 0, 300]
    assert counted(arrived(cutter, [cutter.flush()])) == 100


def test_a_batch_over_the_limit_is_cut_in_parts() -> None:
    cutter = Cutter(numbers(0).schema, rebalance_placement(2), gather_bytes=2500)
    made = cuts(cutter, [numbers(10), numbers(1000, 10), numbers(10, 1010)])
    sizes = [counted(arrived(cutter, [pieces])) for pieces in made]
    assert sum(sizes) == 1020
    assert max(sizes) * 8 <= 2500
    received = arrived(cutter, made)
    assert [row["x"] for row in rows_of(received[1])] == list(range(1, 1020, 2))


def test_rows_of_hardly_any_bytes_are_limited_too() -> None:
    flags = pa.record_batch({"flag": np.zeros(300_000, dtype=bool), "none": pa.nulls(300_000)})
    for batch in (flags, no_columns(300_000)):
        cutter = Cutter(batch.schema, rebalance_placement(4))
        made = cuts(cutter, [batch])
        assert [counted(arrived(cutter, [pieces])) for pieces in made] == [100_000] * 3


def test_more_is_gathered_for_more_targets() -> None:
    flags = pa.record_batch({"flag": np.zeros(300_000, dtype=bool)})
    made = cuts(Cutter(flags.schema, rebalance_placement(200)), [flags])
    assert [counted(arrived(Cutter(flags.schema, rebalance_placement(200)), [each])) for each in made] == [
        150_000
    ] * 2


def test_long_runs_are_cut_into_pieces_of_the_size_wanted() -> None:
    texts = pa.array([f"{row:0100}" for row in range(10_000)])
    batch = pa.record_batch({"x": pa.array(range(10_000)), "s": texts})
    for count in (1, 2, 3):
        cutter = Cutter(batch.schema, rebalance_placement(count))
        (made,) = cuts(cutter, [batch])
        assert all(len(piece) <= PIECE_BYTES + HEADER_BYTES for _, piece in made)
        assert len(made) <= 2 * (batch.nbytes // PIECE_BYTES + count)
        assert counted(arrived(cutter, [made])) == 10_000


@pytest.mark.parametrize("place", [0, 3000, 9999])
def test_one_huge_row_is_a_piece_of_its_own(place: int) -> None:
    texts: list[Any] = ["a"] * 10_000
    texts[place] = "b" * 3_000_000
    batch = pa.record_batch({"s": texts})
    cutter = Cutter(batch.schema, rebalance_placement(2), gather_bytes=4 << 20)
    (made,) = cuts(cutter, [batch])
    large = [
        decode_piece(piece, batch.schema) for _, piece in made if len(piece) > PIECE_BYTES + HEADER_BYTES
    ]
    assert [part.num_rows for part in large] == [1]
    assert len(made) < 40
    received = arrived(cutter, [made])
    assert [row["s"] for row in rows_of(received[place % 2])] == texts[place % 2 :: 2]


def test_a_row_larger_than_what_is_gathered_passes() -> None:
    texts = ["a", "b" * 5000, "c" * 5000, "d"]
    batch = pa.record_batch({"s": texts})
    cutter = Cutter(batch.schema, rebalance_placement(2), gather_bytes=1000)
    received = arrived(cutter, cuts(cutter, [batch]))
    assert [[row["s"] for row in rows_of(received[target])] for target in (0, 1)] == [texts[::2], texts[1::2]]


def test_dictionaries_arrive_as_their_values() -> None:
    batch = pa.record_batch({"d": pa.array(["a", "b", None, "a"]).dictionary_encode()})
    cutter = Cutter(batch.schema, hash_placement(batch.schema, ["d"], 2))
    assert cutter.schema.types == [pa.string()]
    received = arrived(cutter, cuts(cutter, [batch, batch.slice(1)]))
    assert sorted(str(row["d"]) for parts in received.values() for row in rows_of(parts)) == [
        *["None"] * 2,
        *["a"] * 3,
        *["b"] * 2,
    ]


def test_a_batch_of_other_columns_is_refused() -> None:
    cutter = Cutter(numbers(0).schema, rebalance_placement(2))
    with pytest.raises(SourceError, match="a batch does not have the expected columns"):
        list(cutter.add(pa.record_batch({"y": [1]})))
    assert cutter.flush() == []
