"""Reading spooled files; no Spark is needed for that."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from buffers import RecordBlock
from integration.spark.rows import RowCodec
from integration.spark.sources import SparkReader
from netstack import SourceError

SCHEMA = pa.schema([("number", pa.int64()), ("filler", pa.string())])


def spooled(path: Path, batches: Sequence[Sequence[int]], filler: str = "") -> Path:
    with pa.ipc.new_file(path, SCHEMA) as file:
        for numbers in batches:
            file.write_batch(pa.record_batch([list(numbers), [filler] * len(numbers)], schema=SCHEMA))
    return path


def numbers_of(reader: SparkReader, records: int, at_once: int) -> list[int]:
    codec, numbers = RowCodec(SCHEMA), list[int]()
    while len(numbers) < records and (block := reader.read(at_once)) is not None:
        assert 1 <= len(block) <= at_once
        numbers += [row[0] for row in codec.rows(block)]
    return numbers


@pytest.mark.parametrize("at_once", [1, 7, 512, 100_000])
def test_files_are_read_one_after_the_other(tmp_path: Path, at_once: int) -> None:
    files = [
        spooled(tmp_path / "a", [range(600), range(600, 601)]),
        spooled(tmp_path / "b", []),
        spooled(tmp_path / "c", [range(601, 700), [], range(700, 1300)]),
    ]
    reader = SparkReader(files, RowCodec(SCHEMA), repeat=False)
    assert numbers_of(reader, 10_000, at_once) == list(range(1300))
    assert reader.read(1) is None
    reader.close()
    reader.close()


def test_reading_again_from_the_start(tmp_path: Path) -> None:
    files = [spooled(tmp_path / "a", [range(3)]), spooled(tmp_path / "b", [range(3, 5)])]
    reader = SparkReader(files, RowCodec(SCHEMA), repeat=True)
    assert numbers_of(reader, 12, 1) == [number % 5 for number in range(12)]
    reader.close()
    assert reader.read(1) is None


def test_a_tiny_input_is_read_once_and_repeated_from_memory(tmp_path: Path) -> None:
    file = spooled(tmp_path / "a", [[7, 8]])
    reader = SparkReader([file], RowCodec(SCHEMA), repeat=True)
    assert numbers_of(reader, 3, 2) == [7, 8, 7, 8]
    file.unlink()
    assert numbers_of(reader, 2000, 20)[:2000] == [7, 8] * 1000


@pytest.mark.parametrize("files", [[], [[]], [[], []]], ids=["no file", "one empty", "two empty"])
def test_repeating_nothing_ends(tmp_path: Path, files: list[list[int]]) -> None:
    paths = [spooled(tmp_path / str(number), [rows]) for number, rows in enumerate(files)]
    assert SparkReader(paths, RowCodec(SCHEMA), repeat=True).read(1) is None


LAYOUTS = {
    "nothing": [],
    "empty batches": [[[], []], []],
    "one row": [[[1]]],
    "one slice behind empty files": [[], [[]], [range(7)]],
    "just one full slice": [[range(512)]],
    "two slices": [[range(513)]],
    "many": [[range(600), [], range(600, 601)], [], [range(601, 700), range(700, 1300)]],
}


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_reading_on_from_a_seek_is_having_read_up_to_there(
    tmp_path: Path, layout: list[list[Sequence[int]]], repeat: bool
) -> None:
    files = [spooled(tmp_path / str(number), batches) for number, batches in enumerate(layout)]
    reader = SparkReader(files, RowCodec(SCHEMA), repeat)
    whole = numbers_of(SparkReader(files, RowCodec(SCHEMA), repeat), 4200, 100)
    for position in (0, 1, 6, 7, 511, 512, 513, 600, 601, 699, 700, 1299, 1300, 1301, 2612, 5):
        reader.seek(position)
        for start in (position, position + 700):  # on into the next time round
            assert numbers_of(reader, 700, 700)[:700] == whole[start : start + 700]
            reader.seek(position + 700)
    reader.close()


def test_seeking_in_what_was_repeated_from_memory(tmp_path: Path) -> None:
    reader = SparkReader([spooled(tmp_path / "a", [[7, 8, 9]])], RowCodec(SCHEMA), repeat=True)
    numbers_of(reader, 2000, 20)
    reader.seek(10**12 + 1)
    assert numbers_of(reader, 4, 1) == [9, 7, 8, 9]


def test_a_seek_encodes_only_what_it_reads(tmp_path: Path) -> None:
    file = spooled(tmp_path / "a", [range(10_000)])
    encoded: list[int] = []

    class Counting(RowCodec):
        def encode(self, batch: pa.RecordBatch) -> RecordBlock:
            encoded.append(batch.num_rows)
            return super().encode(batch)

    reader = SparkReader([file], Counting(SCHEMA), repeat=False)
    reader.seek(9000)
    assert numbers_of(reader, 3, 3) == [9000, 9001, 9002]
    assert encoded == [512]


def test_seeks_that_fail(tmp_path: Path) -> None:
    damaged = tmp_path / "a"
    damaged.write_bytes(b"not an Arrow file")
    reader = SparkReader([damaged], RowCodec(SCHEMA), repeat=False)
    with pytest.raises(ValueError, match="position is -1, but the first record is at 0"):
        reader.seek(-1)
    with pytest.raises(SourceError, match="Not an Arrow file"):
        reader.seek(1)


def test_memory_is_bounded(tmp_path: Path) -> None:
    file = spooled(tmp_path / "a", [range(10_000)] * 10, filler="x" * 200)
    assert file.stat().st_size > 20_000_000
    reader = SparkReader([file], RowCodec(SCHEMA), repeat=True)
    before, peak, records = pa.total_allocated_bytes(), 0, 0
    while records < 120_000:
        block = reader.read(512)
        assert block is not None
        records += len(block)
        peak = max(peak, block.nbytes, pa.total_allocated_bytes() - before)
    reader.close()
    assert peak < 1_000_000


def test_a_damaged_file(tmp_path: Path) -> None:
    damaged = tmp_path / "a"
    damaged.write_bytes(b"not an Arrow file")
    reader = SparkReader([damaged], RowCodec(SCHEMA), repeat=False)
    with pytest.raises(SourceError, match="Not an Arrow file") as raised:
        reader.read(1)
    assert "\n" not in str(raised.value)


def test_a_spool_is_deleted_when_the_interpreter_ends(tmp_path: Path) -> None:
    script = """
from integration.spark.sources import Spool

spool = Spool()
print(spool.directory)
raise KeyboardInterrupt
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(Path(__file__).parents[3]), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert Path(done.stdout.strip()).parent == tmp_path
    assert list(tmp_path.iterdir()) == []
