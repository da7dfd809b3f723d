from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.base.errors import TargetError, UnsupportedColumnError
from integration.spark.rows import key_hashes
from integration.spark.shuffling.placement import (
    ALL,
    Placement,
    broadcast_placement,
    column_placement,
    hash_placement,
    rebalance_placement,
)
from netstack import SourceError, assign_to_operators, default_max_parallelism
from tests.integration.spark.arrow_batches import KEYS, arrays, no_columns

COUNTS = st.sampled_from([2, 3, 7, 128, 200, 256, 257, 1000])


def batch_of(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def targets_of(placement: Placement, batch: pa.RecordBatch) -> list[int]:
    targets = placement.place(batch)
    assert not isinstance(targets, int)
    assert len(targets) == batch.num_rows
    return targets.tolist()


def row_by_row(columns: list[pa.Array], count: int) -> list[int]:
    """Where the network layer sends each row, asked one row at a time."""
    most = default_max_parallelism(count)
    rows = [[column.slice(row, 1) for column in columns] for row in range(len(columns[0]))]
    return [int(assign_to_operators(key_hashes(row), most, count)[0]) for row in rows]


@pytest.mark.parametrize("name", KEYS)
@given(st.data(), COUNTS)
def test_a_row_goes_where_its_key_group_is(name: str, data: st.DataObject, count: int) -> None:
    kind, values = KEYS[name]
    key = data.draw(arrays(kind, st.none() | values, data.draw(st.integers(0, 20))))
    batch = batch_of(other=pa.nulls(len(key)), key=key)
    placement = hash_placement(batch.schema, ["key"], count)
    targets = targets_of(placement, batch)
    assert targets == row_by_row([key], count)
    assert all(0 <= target < count for target in targets)
    assert targets_of(placement, batch.slice(1)) == targets[1:]


@given(st.data(), COUNTS)
def test_several_keys_combine_in_the_order_given(data: st.DataObject, count: int) -> None:
    rows = data.draw(st.integers(0, 20))
    first, second = (data.draw(arrays(*KEYS[name], rows)) for name in ("string", "int64"))
    batch = batch_of(b=second, a=first)
    targets = targets_of(hash_placement(batch.schema, ["a", "b"], count), batch)
    assert targets == row_by_row([first, second], count)


def test_known_key_groups() -> None:
    batch = batch_of(key=["A", "B", "hello", "flink", None])
    groups = [104, 17, 35, 98, 94]  # of 128, the number for up to 85 targets
    assert targets_of(hash_placement(batch.schema, ["key"], 64), batch) == [group // 2 for group in groups]


@given(st.lists(st.sampled_from(["a", "b", "é", None]), min_size=1), COUNTS)
def test_equal_keys_meet_whatever_batch_they_are_in(keys: list[str | None], count: int) -> None:
    schema = pa.schema([("key", pa.string())])
    once = {key: hash_placement(schema, ["key"], count) for key in keys}
    placement = hash_placement(schema, ["key"], count)
    for start in range(0, len(keys), 3):
        part = keys[start : start + 3]
        for key, target in zip(
            part, targets_of(placement, batch_of(key=pa.array(part, pa.string()))), strict=True
        ):
            assert [target] == targets_of(once[key], batch_of(key=pa.array([key], pa.string())))


def test_a_batch_longer_than_what_is_hashed_at_once() -> None:
    keys = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 100_001)
    batch = batch_of(key=keys)
    expected = assign_to_operators(key_hashes([batch.column(0)]), 512, 300)
    assert targets_of(hash_placement(batch.schema, ["key"], 300), batch) == expected.tolist()


@pytest.mark.parametrize(
    ("count", "dtype"), [(2, np.uint8), (256, np.uint8), (257, np.uint16), (1000, np.uint16)]
)
def test_targets_are_as_narrow_as_they_can_be(count: int, dtype: type) -> None:
    batch = batch_of(key=[1, 2, 3], target=pa.array([0, 1, 1], pa.int32()))
    for placement in (
        hash_placement(batch.schema, ["key"], count),
        rebalance_placement(count),
        column_placement(batch.schema, "target", count),
    ):
        assert placement.place(batch).dtype == dtype


def test_one_target_takes_no_thought() -> None:
    batch = batch_of(key=[1, 2, 3], target=pa.array([0, 0, 0], pa.int32()))
    assert hash_placement(batch.schema, ["key"], 1).place(batch) == 0
    assert rebalance_placement(1).place(batch) == 0
    assert column_placement(batch.schema, "target", 1).place(batch) == 0


def test_a_key_in_a_dictionary_is_hashed_by_its_value() -> None:
    plain = batch_of(key=["a", "b", "a"])
    coded = batch_of(key=plain.column(0).dictionary_encode())
    placement = hash_placement(coded.schema, ["key"], 128)
    assert targets_of(placement, plain) == row_by_row([plain.column(0)], 128)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (["list"], r"column 'list': type list<.*> cannot be a key"),
        (["int", "struct"], r"column 'struct': type struct<.*> cannot be a key"),
        (["time"], r"column 'time': type duration\[us\] cannot be a key"),
        (
            ["absent"],
            "there is no key column 'absent'; the columns are: list, struct, time, int, twice, twice",
        ),
        (["twice"], "the key column 'twice' exists 2 times"),
        ([], "a shuffle by hash requires a key column"),
    ],
)
def test_columns_that_cannot_be_a_key(keys: list[str], problem: str) -> None:
    schema = pa.schema(
        [
            ("list", pa.list_(pa.int64())),
            ("struct", pa.struct([("x", pa.int64())])),
            ("time", pa.duration("us")),
            ("int", pa.int64()),
            ("twice", pa.int64()),
            ("twice", pa.int64()),
        ]
    )
    with pytest.raises(SourceError, match=problem):
        hash_placement(schema, keys, 4)


@pytest.mark.parametrize("count", [0, 40_000])
def test_numbers_of_targets_that_key_groups_cannot_have(count: int) -> None:
    with pytest.raises(ValueError, match="must be from 1 to "):
        hash_placement(pa.schema([("key", pa.int64())]), ["key"], count)


def raw_text(values: list[bytes]) -> pa.Array:
    """Text as Spark hands it over, which need not be UTF-8."""
    return pa.array(values, pa.binary()).view(pa.string())


def test_the_target_of_a_key_that_is_not_utf8_does_not_depend_on_its_neighbours() -> None:
    keys = [b"\xc3", b"\xa9", b"\xc3", b"\xc3", b"a", b"\xe2\x82", b"\xac"]
    batch = batch_of(key=raw_text(keys))
    placement = hash_placement(batch.schema, ["key"], 4)
    alone = [targets_of(placement, batch_of(key=raw_text([key])))[0] for key in keys]
    assert targets_of(placement, batch) == alone


@given(COUNTS, st.integers(0, 1000), st.lists(st.integers(0, 30), max_size=6))
def test_rows_are_dealt_out_in_turns_over_all_batches(count: int, first: int, sizes: list[int]) -> None:
    placement = rebalance_placement(count, first)
    dealt = [target for rows in sizes for target in targets_of(placement, no_columns(rows))]
    assert dealt == [(first + row) % count for row in range(sum(sizes))]


def test_broadcast_is_to_all() -> None:
    assert broadcast_placement(3).place(no_columns(2)) == ALL
    assert broadcast_placement(3).count == 3


def test_targets_from_a_column() -> None:
    batch = batch_of(key=[1, 2, 3, 4], to=pa.array([2, 0, 1, 2], pa.int32()))
    placement = column_placement(batch.schema, "to", 3)
    assert targets_of(placement, batch) == [2, 0, 1, 2]
    assert targets_of(placement, batch.slice(1, 2)) == [0, 1]
    assert placement.dropped == 1


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        ([0, None, 1], "column 'to': a row has null as its target partition"),
        ([0, 3, 1], "column 'to': the target partition 3 must be from 0 to 2"),
        ([0, 1, -1, 7], "column 'to': the target partition -1 must be from 0 to 2"),
        ([-(2**31)], "column 'to': the target partition -2147483648 must be from 0 to 2"),
    ],
)
def test_targets_that_do_not_exist(targets: list[int | None], problem: str) -> None:
    batch = batch_of(to=pa.array(targets, pa.int32()))
    with pytest.raises(TargetError, match=problem):
        column_placement(batch.schema, "to", 3).place(batch)


def test_a_column_that_cannot_hold_targets() -> None:
    schema = pa.schema([("to", pa.int64())])
    with pytest.raises(
        UnsupportedColumnError,
        match="column 'to': type int64 cannot hold target partitions, which must be int32",
    ):
        column_placement(schema, "to", 3)
    with pytest.raises(SourceError, match="there is no column of targets 'from'; the columns are: to"):
        column_placement(schema, "from", 3)
