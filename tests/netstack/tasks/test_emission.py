"""Records that an operator emits more or less often than it reads them, or of another size."""

from __future__ import annotations

import numpy as np
import pytest

from buffers import HEADER_BYTES, RecordBlock
from netstack.tasks.emission import repeated, resized

BLANK = RecordBlock.blank(3, HEADER_BYTES + 10)
BLOCKS = {
    "of one size": [b"abcd", b"efgh", b"ijkl"],
    "of different sizes": [b"a", b"bcd", b"efghijkl"],
    "one": [b"abcd"],
    "none": [],
}


def payloads(block: RecordBlock) -> list[bytes]:
    return [bytes(payload) for payload in block.payloads()]


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("size", [2, 6])
def test_resized_records_are_cut_or_filled_with_dots(name: str, size: int) -> None:
    block = RecordBlock.from_payloads(BLOCKS[name])
    assert payloads(resized(block, size)) == [payload[:size].ljust(size, b".") for payload in BLOCKS[name]]


@pytest.mark.parametrize("name", BLOCKS)
def test_repeated_records_keep_their_order(name: str) -> None:
    counts = np.array([2, 0, 3][: len(BLOCKS[name])], dtype=np.int64)
    expected = [payload for payload, count in zip(BLOCKS[name], counts, strict=True) for _ in range(count)]
    assert payloads(repeated(RecordBlock.from_payloads(BLOCKS[name]), counts)) == expected


def test_blank_records_stay_blank() -> None:
    twelve = resized(BLANK, 12)
    thrice = repeated(BLANK, np.array([1, 0, 2], dtype=np.int64))
    assert (len(twelve), twelve.stride, twelve.is_blank) == (3, HEADER_BYTES + 12, True)
    assert (len(thrice), thrice.stride, thrice.is_blank) == (3, HEADER_BYTES + 10, True)
    assert len(repeated(BLANK, np.zeros(3, dtype=np.int64))) == 0
