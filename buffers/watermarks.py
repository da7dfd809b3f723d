"""Watermarks among the records of a stream: their bytes, and where they stand in a block.

Flink sends everything as stream elements: a 4-byte length, a byte that tells records from watermarks, and
what it is; of a watermark that is an 8-byte timestamp. Here a record has no such byte, so a watermark is told
by the sign bit of its length, which no record has. It takes the 13 bytes that it takes in Flink::

    record      | length | payload ...               |
    watermark   | 1 . 9  | tag | timestamp, 64 bits  |
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from .records import RecordBlock

WATERMARK_LENGTH = 0x80000009
"""The length of a watermark as it is sent: its 9 bytes, with the sign bit set."""

WATERMARK_BYTES = 13
"""What a watermark takes in a buffer."""

_TAG = 2
_SIGN = 0x80
_LAYOUT = struct.Struct(">IBq")


def encode_watermark(timestamp: int) -> bytes:
    """Return the bytes of a watermark; its timestamp is in milliseconds.

    Raises:
        struct.error: if the timestamp does not fit into 64 bits.
    """
    return _LAYOUT.pack(WATERMARK_LENGTH, _TAG, timestamp)


def watermark_places(block: RecordBlock) -> list[int]:
    """Return which elements of a block are watermarks, by their place, ascending."""
    if not len(block) or block.stride not in (0, WATERMARK_BYTES):
        return []
    places: list[int] = np.flatnonzero(block.data[block.starts] & _SIGN).tolist()
    return places


def watermark_at(block: RecordBlock, place: int) -> int:
    """Return the timestamp of the watermark at a place of a block, in milliseconds."""
    timestamp: int = _LAYOUT.unpack(block.encoded(place))[2]
    return timestamp


def split_at_watermarks(block: RecordBlock) -> list[tuple[RecordBlock, int | None]]:
    """Return the records in front of each watermark with its timestamp, then those behind the last one."""
    parts: list[tuple[RecordBlock, int | None]] = []
    start = 0
    for place in watermark_places(block):
        parts.append((block[start:place], watermark_at(block, place)))
        start = place + 1
    parts.append((block[start:] if start else block, None))
    return parts


def encode_behind(parts: Sequence[tuple[RecordBlock, int | None]]) -> bytes:
    """Return the bytes of all that stands behind the records of the first part."""
    encoded: list[bytes] = []
    for number, (records, watermark) in enumerate(parts):
        if number:
            encoded.append(records.data.tobytes())
        if watermark is not None:
            encoded.append(encode_watermark(watermark))
    return b"".join(encoded)
