import sys
from pathlib import Path

import pytest

from buffers import MemorySlab

GIB = 1024**3


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_committed_only_when_it_is_first_written() -> None:
    before = resident_bytes()
    slab = MemorySlab(4 * GIB // 32768, 32768)
    segment = slab.segment(slab.segments // 2)
    segment.memory[100] = 7
    assert resident_bytes() - before < 1024 * 1024
    assert segment.array[100] == 7


def test_segments_are_separate_parts_of_the_slab() -> None:
    slab = MemorySlab(3, 16)
    for index in range(3):
        slab.segment(index).memory[:] = bytes([index + 1]) * 16
    assert bytes(slab.memory) == b"\1" * 16 + b"\2" * 16 + b"\3" * 16


def test_both_views_of_a_segment_show_the_same_bytes_and_are_made_once() -> None:
    segment = MemorySlab(2, 8).segment(1)
    segment.memory[2] = 5
    segment.array[3] = 6
    assert bytes(segment.memory) == bytes(segment.array) == b"\0\0\5\6\0\0\0\0"
    assert segment.memory is segment.memory
    assert segment.array is segment.array


def test_a_segment_knows_its_place_and_has_no_other_attributes() -> None:
    segment = MemorySlab(2, 8).segment(1)
    assert (segment.index, segment.size) == (1, 8)
    assert repr(segment) == "MemorySegment(1, size=8)"
    with pytest.raises(AttributeError, match="no attribute 'bytes'"):
        _ = segment.bytes  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        segment.other = 1  # type: ignore[attr-defined]


def test_an_empty_slab_has_no_segments() -> None:
    slab = MemorySlab(0, 8)
    assert len(slab.memory) == 0
    with pytest.raises(IndexError, match="segment 0 does not exist in a slab of 0 segments"):
        slab.segment(0)


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_the_slab_is_an_error(index: int) -> None:
    with pytest.raises(IndexError):
        MemorySlab(2, 8).segment(index)


@pytest.mark.parametrize(("segments", "size"), [(-1, 8), (1, 0), (1, -8)])
def test_impossible_sizes_are_an_error(segments: int, size: int) -> None:
    with pytest.raises(ValueError, match="cannot make"):
        MemorySlab(segments, size)
