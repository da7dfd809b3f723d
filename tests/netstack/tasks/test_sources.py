import numpy as np
import pytest

from buffers import RecordBlock
from netstack import (
    CollectionSource,
    GeneratedSource,
    Source,
    SourceReader,
    java_hash,
    leading_bytes,
    payload_hash,
    skip,
    text_hash,
)


def payloads_of(reader: SourceReader, records: int, at_once: int = 20) -> list[bytes]:
    payloads: list[bytes] = []
    while len(payloads) < records:
        block = reader.read(min(at_once, records - len(payloads)))
        if block is None:
            break
        assert 1 <= len(block) <= at_once
        payloads += [bytes(payload) for payload in block.payloads()]
    return payloads


def test_both_are_sources() -> None:
    sources: list[Source] = [GeneratedSource(8, 1), CollectionSource([[b"a"]])]
    assert [source.parallelism_hint for source in sources] == [None, 1]


@pytest.mark.parametrize("record_bytes", [8, 9, 100, 1013])
def test_generated_records_have_the_length_asked_for(record_bytes: int) -> None:
    block = GeneratedSource(record_bytes, 1).open(0, 4).read(20)
    assert len(block) == 20
    assert block.stride == record_bytes + 4
    assert {len(payload) for payload in block.payloads()} == {record_bytes}


def test_lengths_of_records_have_the_mean_and_the_spread_asked_for() -> None:
    lengths = [len(each) for each in payloads_of(GeneratedSource(30_000, 1, spread=0.8).open(0, 4), 4000)]
    assert np.mean(lengths) == pytest.approx(30_000, rel=0.05)
    assert np.std(lengths) / np.mean(lengths) == pytest.approx(0.8, rel=0.1)
    assert min(len(each) for each in payloads_of(GeneratedSource(8, 1, spread=3).open(0, 4), 500)) == 8


@pytest.mark.parametrize("record_bytes", [0, 7, -1])
def test_generated_records_have_room_for_the_key(record_bytes: int) -> None:
    with pytest.raises(ValueError, match=f"record_bytes is {record_bytes}, less than the 8 of the key"):
        GeneratedSource(record_bytes, 1)


def test_generated_records_depend_on_seed_and_subtask_only() -> None:
    first = payloads_of(GeneratedSource(32, 1).open(0, 4), 2000)
    assert payloads_of(GeneratedSource(32, 1).open(0, 2), 2000, at_once=7) == first
    assert payloads_of(GeneratedSource(32, 2).open(0, 4), 2000) != first
    assert payloads_of(GeneratedSource(32, 1).open(1, 4), 2000) != first


def test_generated_keys_are_uniform_over_64_bits() -> None:
    payloads = payloads_of(GeneratedSource(8, 3).open(0, 1), 4096, at_once=512)
    keys = np.frombuffer(b"".join(payloads), dtype=">u8")
    assert len(set(keys.tolist())) == 4096
    quarters = np.bincount((keys >> np.uint64(62)).astype(np.int64), minlength=4)
    low_quarters = np.bincount((keys & np.uint64(3)).astype(np.int64), minlength=4)
    assert quarters.min() > 900
    assert low_quarters.min() > 900


def test_earlier_blocks_stay_as_they_were() -> None:
    reader = GeneratedSource(16, 1).open(0, 1)
    first = reader.read(20)
    before = bytes(first.data)
    payloads_of(reader, 3000)
    assert bytes(first.data) == before


def test_generated_key_hash_is_that_of_a_long() -> None:
    source = GeneratedSource(20, 5)
    block = source.open(0, 1).read(100)
    keys = np.array([int.from_bytes(payload[:8], "big", signed=True) for payload in block.payloads()])
    assert source.key_hash(block).tolist() == java_hash.hash_longs(keys).tolist()


def test_collection_is_read_once_and_in_order() -> None:
    source = CollectionSource([[b"a", b"bb"], [], [b"c"], [b"d"]])
    assert source.parallelism_hint == 4
    assert [payloads_of(source.open(subtask, 4), 10) for subtask in range(4)] == [
        [b"a", b"bb"],
        [],
        [b"c"],
        [b"d"],
    ]
    assert [payloads_of(source.open(subtask, 2), 10, 1) for subtask in range(2)] == [
        [b"a", b"bb", b"c"],
        [b"d"],
    ]
    assert payloads_of(source.open(5, 6), 10) == []


def test_the_end_of_a_collection_is_final() -> None:
    reader = CollectionSource([[b"a", b"b"]]).open(0, 1)
    assert len(reader.read(1) or ()) == 1
    reader.close()
    assert reader.read(1) is None
    assert reader.read(1) is None


def test_collection_of_nothing() -> None:
    source = CollectionSource([])
    assert source.parallelism_hint == 1
    assert source.open(0, 1).read(1) is None


def test_collection_hashes_what_it_is_told_to() -> None:
    block = RecordBlock.from_payloads([b"hello", b"", "é".encode()])
    assert CollectionSource([]).key_hash(block).tolist() == payload_hash(block).tolist()
    assert CollectionSource([], key_hash=text_hash).key_hash(block).tolist() == [99162322, 0, 233]
    assert payload_hash(block[1:2]).tolist() == [1]
    assert text_hash(RecordBlock.from_payloads([])).tolist() == []


@pytest.mark.parametrize("payloads", [[b"abcdef", b"ghijkl"], [b"abcd", b"efghi"], []])
def test_leading_bytes(payloads: list[bytes]) -> None:
    leading = leading_bytes(RecordBlock.from_payloads(payloads), 3)
    assert [bytes(row) for row in leading] == [payload[:3] for payload in payloads]


@pytest.mark.parametrize("payloads", [[b"ab", b"cd"], [b"abcd", b"ef"]])
def test_leading_bytes_that_are_not_there(payloads: list[bytes]) -> None:
    with pytest.raises(ValueError, match="a record of 2 bytes is too short for a key of 3 bytes"):
        leading_bytes(RecordBlock.from_payloads(payloads), 3)


# 512 records to a block, and as few as fit: 259 of 1008 bytes, 29 of 8996, 1 of 300000
@pytest.mark.parametrize("spread", [0.0, 0.5])
@pytest.mark.parametrize("record_bytes", [8, 1004, 8992, 300_000])
def test_reading_on_from_a_seek_is_having_read_up_to_there(record_bytes: int, spread: float) -> None:
    source = GeneratedSource(record_bytes, 7, spread=spread)
    whole = payloads_of(source.open(2, 4), 600)
    reader = source.open(2, 4)
    for position in (0, 1, 29, 259, 511, 512, 513, 595, 258, 0):
        reader.seek(position)
        assert payloads_of(reader, 5) == whole[position : position + 5]


def test_a_seek_may_go_very_far() -> None:
    far, near = GeneratedSource(8, 7).open(0, 1), GeneratedSource(8, 7).open(0, 1)
    far.seek(10**15)
    near.seek(10**15 - 600)
    assert payloads_of(near, 605)[600:] == payloads_of(far, 5)


def test_seeking_in_a_collection() -> None:
    reader = CollectionSource([[b"a", b"b"], [b"c"]]).open(0, 1)
    for position, expected in ((2, [b"c"]), (0, [b"a", b"b", b"c"]), (3, []), (99, []), (1, [b"b", b"c"])):
        reader.seek(position)
        assert payloads_of(reader, 10) == expected


class Unseekable:
    """A reader of the numbers below ``end`` that can only go on; it hands out three at a time."""

    def __init__(self, end: int) -> None:
        self.next = 0
        self.end = end

    def read(self, max_records: int) -> RecordBlock | None:
        stop = min(self.next + min(max_records, 3), self.end)
        numbers, self.next = range(self.next, stop), stop
        return RecordBlock.from_payloads([b"%d" % number for number in numbers]) if numbers else None

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("position", "left"), [(0, 9), (1, 8), (3, 6), (8, 1), (9, 0), (20, 0)])
def test_a_reader_without_seek_is_read_and_dropped(position: int, left: int) -> None:
    reader = Unseekable(9)
    skip(reader, position)
    assert reader.end - reader.next == left


def test_skipping_seeks_where_that_is_possible() -> None:
    reader = GeneratedSource(8, 7).open(0, 1)
    skip(reader, 10**15)
    far = GeneratedSource(8, 7).open(0, 1)
    far.seek(10**15)
    assert payloads_of(reader, 5) == payloads_of(far, 5)


def test_negative_positions() -> None:
    message = "position is -1, but it must be 0 or more"
    for reader in (GeneratedSource(8, 7).open(0, 1), CollectionSource([]).open(0, 1)):
        with pytest.raises(ValueError, match=message):
            reader.seek(-1)
    with pytest.raises(ValueError, match=message):
        skip(Unseekable(3), -1)
