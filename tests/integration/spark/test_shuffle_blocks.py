"""Rows for tasks of several partitions, from the cut to the partitions, without Spark in between."""

from collections import defaultdict
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from integration.base.errors import PieceError
from integration.spark.shuffling.blocks import BLOCK_BYTES, BLOCK_SCHEMA, PartitionBlocks, read_blocks
from integration.spark.shuffling.pieces import (
    PIECE_BYTES,
    Compression,
    Cutter,
    Layout,
    decode_piece,
    encode_piece,
    with_ends,
    without_ends,
)
from integration.spark.shuffling.placement import (
    ALL,
    Placement,
    broadcast_placement,
    column_placement,
    hash_placement,
    rebalance_placement,
)
from tests.integration.spark.arrow_batches import batches, rows_of, schema_of

LAYOUTS = st.integers(1, 40).flatmap(lambda tasks: st.builds(Layout, st.integers(tasks, 300), st.just(tasks)))
COMPRESSIONS = st.sampled_from([None, "lz4", "zstd"])

Arrived = dict[int, list[pa.RecordBatch]]


def in_partitions(
    given: list[pa.RecordBatch],
    placement: Placement,
    layout: Layout,
    *,
    max_bytes: int = 1 << 20,
    compression: Compression | None = None,
    to_all: bool = False,
    sizes: tuple[int, int] = (1 << 20, 1 << 19),
) -> Arrived:
    """The rows of each partition after the whole way that one task's rows take."""
    gather, piece = sizes
    cutter = Cutter(
        schema_of(given),
        placement,
        gather_bytes=gather,
        piece_bytes=piece,
        tasks=layout.tasks,
        compression=compression,
    )
    takers = [
        PartitionBlocks(
            cutter.schema,
            layout.partitions_of(task),
            max_bytes,
            to_all=to_all,
            compression=compression,
        )
        for task in range(layout.tasks)
    ]
    rows: list[pa.RecordBatch] = []
    for pieces in [*(pieces for batch in given for pieces in cutter.add(batch)), cutter.flush()]:
        for task, data in pieces:
            for taker in takers if task == ALL else [takers[task]]:
                rows += taker.add(data)
    for taker in takers:
        rows += taker.flush()
    assert sum(taker.rows for taker in takers) == len(rows_of(given)) * (layout.partitions if to_all else 1)
    return read_by_partition(rows, cutter.schema)


def read_by_partition(rows: list[pa.RecordBatch], schema: pa.Schema) -> Arrived:
    """What Spark's exchange does, and the tasks behind it."""
    blocks = defaultdict(list)
    for batch in rows:
        assert batch.schema.equals(BLOCK_SCHEMA)
        for place, partition in enumerate(batch.column(0).to_pylist()):
            blocks[partition].append(batch.slice(place, 1))
    return {partition: list(read_blocks(iter(part), schema)) for partition, part in blocks.items()}


@given(LAYOUTS)
def test_each_partition_has_one_task_and_tasks_have_even_shares(layout: Layout) -> None:
    shares = [layout.partitions_of(task) for task in range(layout.tasks)]
    assert [partition for share in shares for partition in share] == list(range(layout.partitions))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.binary(max_size=20), st.lists(st.integers(0, (1 << 32) - 1), min_size=1).map(sorted))
def test_ends_come_back(piece: bytes, ends: list[int]) -> None:
    data = with_ends(memoryview(piece), np.array(ends, np.int64))
    message, read = without_ends(data, len(ends))
    assert (bytes(message), read) == (piece, ends)


@settings(max_examples=50, deadline=None)
@given(
    batches(),
    st.sampled_from([Layout(2, 1), Layout(5, 2), Layout(300, 4), Layout(7, 6)]),
    COMPRESSIONS,
    st.tuples(st.integers(1, 2000), st.integers(1, 1000), st.sampled_from([1, 1 << 20])),
)
def test_every_row_comes_to_the_partition_of_its_key_once_and_in_order(
    given: list[pa.RecordBatch],
    layout: Layout,
    compression: Compression | None,
    sizes: tuple[int, int, int],
) -> None:
    schema = schema_of(given)
    if not schema.names:
        return
    placement = hash_placement(schema, schema.names[:1], layout.partitions)
    gather, piece, held = sizes
    arrived = in_partitions(
        given, placement, layout, max_bytes=held, compression=compression, sizes=(gather, piece)
    )
    rows = rows_of(given)
    for partition, parts in arrived.items():
        got = rows_of(parts)
        assert all(part.schema.equals(schema, check_metadata=True) for part in parts)
        assert got == sorted((rows[row["row"]] for row in got), key=lambda row: row["row"])
        assert all(np.all(placement.place(part) == partition) for part in parts)
    assert sum(len(rows_of(parts)) for parts in arrived.values()) == len(rows)


SEVERAL_EACH = st.integers(1, 5).flatmap(
    lambda tasks: st.builds(Layout, st.integers(tasks + 1, 12), st.just(tasks))
)
"""Layouts with tasks that take several partitions; pieces of the others have no ends."""


@settings(max_examples=50, deadline=None)
@given(batches(), SEVERAL_EACH, st.integers(1, 1500), st.randoms(use_true_random=False))
def test_every_row_comes_to_the_partition_that_was_drawn_for_it(
    given: list[pa.RecordBatch], layout: Layout, piece_bytes: int, random: Random
) -> None:
    assume(given)
    schema = schema_of(given).append(pa.field("to", pa.int32()))
    marked, expected = [], defaultdict(list)
    for batch in given:
        to = random.choices(range(layout.partitions), k=batch.num_rows)
        marked.append(pa.RecordBatch.from_arrays([*batch.columns, pa.array(to, pa.int32())], schema=schema))
        for partition, row in zip(to, batch.to_pylist(), strict=True):
            expected[partition].append(row)
    placement = column_placement(schema, "to", layout.partitions)
    arrived = in_partitions(marked, placement, layout, sizes=(1 << 20, piece_bytes))
    assert {partition: rows_of(parts) for partition, parts in arrived.items() if parts} == expected


def test_rows_of_a_task_that_fill_several_pieces_keep_their_partitions() -> None:
    rows, partitions = 20_000, 4
    to = np.random.default_rng(1).integers(0, partitions, rows, dtype=np.int32)
    batch = pa.record_batch(
        {"x": np.arange(rows), "text": [f"{number:0150}" for number in range(rows)], "to": to}
    )
    placement = column_placement(batch.schema, "to", partitions)
    arrived = in_partitions([batch], placement, Layout(partitions, 2), sizes=(8 << 20, PIECE_BYTES))
    for partition in range(partitions):
        got = [x for part in arrived[partition] for x in part.column(0).to_pylist()]
        assert got == np.flatnonzero(to == partition).tolist()


NUMBERS = [pa.record_batch({"x": range(first, first + 50)}) for first in range(0, 200, 50)]


def test_rows_dealt_out_in_turns_and_by_a_column_and_to_all() -> None:
    layout = Layout(7, 3)
    turns = in_partitions(NUMBERS, rebalance_placement(7), layout)
    expected = {partition: [{"x": x} for x in range(partition, 200, 7)] for partition in range(7)}
    assert {partition: rows_of(parts) for partition, parts in turns.items()} == expected
    with_targets = [
        batch.append_column("to", pa.array([x % 7 for x in batch.column(0).to_pylist()], pa.int32()))
        for batch in NUMBERS
    ]
    column = column_placement(with_targets[0].schema, "to", 7)
    by_column = in_partitions(with_targets, column, layout)
    assert {partition: rows_of(parts) for partition, parts in by_column.items()} == expected
    everywhere = in_partitions(NUMBERS, broadcast_placement(7), layout, to_all=True)
    assert {partition: rows_of(parts) for partition, parts in everywhere.items()} == dict.fromkeys(
        range(7), rows_of(NUMBERS)
    )


def test_a_task_says_that_it_is_there_if_no_row_comes() -> None:
    (row,) = PartitionBlocks(NUMBERS[0].schema, range(4, 6), 1000).flush()
    assert row.to_pylist() == [{"partition": 4, "block": None}]
    assert list(read_blocks(iter([row]), NUMBERS[0].schema)) == []


def test_no_more_is_held_than_the_limit_and_a_piece() -> None:
    limit, schema = 40_000, NUMBERS[0].schema
    cutter = Cutter(schema, rebalance_placement(20), tasks=1, piece_bytes=3000)
    blocks = PartitionBlocks(schema, range(20), limit)
    rows = []
    for first in range(0, 60_000, 1000):
        for pieces in [*cutter.add(pa.record_batch({"x": range(first, first + 1000)})), cutter.flush()]:
            for _, piece in pieces:
                rows += blocks.add(piece)
    assert limit <= blocks.peak_bytes <= limit + 4000
    given_early = sum(len(rows_of(parts)) for parts in read_by_partition(rows, schema).values())
    assert given_early * 8 > 60_000 * 8 - limit
    rows += blocks.flush()
    assert sum(len(rows_of(parts)) for parts in read_by_partition(rows, schema).values()) == 60_000


def test_blocks_and_their_batches_have_a_decent_size() -> None:
    text = pa.record_batch({"text": ["x" * 1000] * 1000})
    cutter = Cutter(text.schema, rebalance_placement(3), tasks=1)
    blocks = PartitionBlocks(text.schema, range(3), 1 << 30)
    for _ in range(20):
        assert [list(blocks.add(piece)) for _, piece in [*cutter.add(text), cutter.flush()][-1]]
    given_away = list(blocks.flush())
    sizes = [len(block) for batch in given_away for block in batch.column(1).to_pylist()]
    assert BLOCK_BYTES / 2 < max(sizes) < BLOCK_BYTES * 1.1
    assert len(sizes) == 6
    assert max(batch.nbytes for batch in given_away) < BLOCK_BYTES * 1.1


def test_what_was_given_away_is_held_no_more() -> None:
    schema = NUMBERS[0].schema
    cutter = Cutter(schema, rebalance_placement(5), tasks=1)
    blocks = PartitionBlocks(schema, range(5), 1 << 20)
    before = pa.total_allocated_bytes()
    for first in range(0, 1_000_000, 100_000):
        for pieces in [*cutter.add(pa.record_batch({"x": range(first, first + 100_000)})), cutter.flush()]:
            for _, piece in pieces:
                list(blocks.add(piece))
    list(blocks.flush())
    del piece, pieces
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize(
    "damage",
    [
        lambda piece: piece[:3],
        lambda piece: piece[:-4],
        lambda piece: piece[20:],
        lambda piece: with_ends(piece[:-12], np.array([50, 20, 67])),
        lambda piece: with_ends(piece[:-12], np.array([20, 50, 66])),
    ],
)
def test_what_is_no_piece_for_these_partitions_is_an_error(damage) -> None:
    cutter = Cutter(NUMBERS[0].schema, rebalance_placement(6), tasks=2)
    (pieces,) = [*cutter.add(pa.record_batch({"x": range(134)})), cutter.flush()]
    piece = pieces[0][1]
    list(PartitionBlocks(NUMBERS[0].schema, range(3), 1 << 20).add(piece))
    with pytest.raises(PieceError):
        list(PartitionBlocks(NUMBERS[0].schema, range(3), 1 << 20).add(damage(piece)))


@given(batches(), COMPRESSIONS)
def test_a_compressed_piece_comes_back(given: list[pa.RecordBatch], compression: Compression | None) -> None:
    for batch in given:
        piece = encode_piece(batch, compression)
        back = decode_piece(piece, batch.schema)
        assert rows_of([back]) == rows_of([batch])
        assert back.schema.equals(batch.schema, check_metadata=True)


def test_compression_makes_rows_that_repeat_smaller() -> None:
    batch = pa.record_batch({"x": [7] * 10_000})
    plain, lz4, zstd = (len(encode_piece(batch, kind)) for kind in (None, "lz4", "zstd"))
    assert max(lz4, zstd) < plain / 10
