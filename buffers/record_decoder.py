"""Finds the records in a stream of buffers.

Where a record begins is known only once all lengths before it were read. Three ways, cheapest first:

1. all records of a buffer are as long as the first: one strided comparison of all headers;
2. all are shorter than 256 bytes: follow the last byte of the headers, then check the other three at once;
3. anything else: follow the lengths one by one.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from .errors import CorruptRecord
from .records import HEADER_BYTES, RecordBlock
from .segment import Bytes

DEFAULT_MAX_RECORD_BYTES = 256 * 1024 * 1024
"""A longer record is taken for a corrupt length."""

_read_length = struct.Struct(">I").unpack_from
_SHORT = 256


class RecordDecoder:
    """Turns the bytes of one channel, in any portions, into blocks of records.

    Keeps the begun record between calls. Invariant: bytes fed = bytes of all blocks + `pending_bytes`;
    after an error, the decoder is as it was before the call.
    """

    __slots__ = ("_decoded", "_max_record_bytes", "_needed", "_parts", "pending_bytes")

    def __init__(self, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES) -> None:
        self._max_record_bytes = max_record_bytes
        self._parts: list[bytes] = []
        self._needed = HEADER_BYTES
        self._decoded = 0
        self.pending_bytes = 0

    def feed(self, data: Bytes | memoryview | bytes) -> RecordBlock:
        """Take the next bytes, 1-D and contiguous; returns copies of all records that are now complete.

        Raises:
            CorruptRecord: if a length is negative or over the limit.
        """
        size = self.pending_bytes + len(data)
        if size < self._needed:
            self._parts.append(bytes(data))
            self.pending_bytes = size
            return _NOTHING
        stream = b"".join((*self._parts, data.data if isinstance(data, np.ndarray) else data))
        block, needed = self._decode(stream, size)
        rest = stream[block.nbytes :]
        self._parts = [rest] if rest else []
        self._needed = needed
        self._decoded += block.nbytes
        self.pending_bytes = len(rest)
        return block

    def _decode(self, stream: bytes, size: int) -> tuple[RecordBlock, int]:
        """The whole records of `stream`, and how many bytes the one behind them needs to be complete."""
        stride = self._length(stream, 0) + HEADER_BYTES
        count = size // stride
        if count and _uniform(stream, count, stride):
            end = count * stride
            block = RecordBlock(np.frombuffer(stream, np.uint8, end), count, stride)
        elif count:
            offsets = self._offsets(stream, size, short=stride < _SHORT)
            count = len(offsets) - 1
            end = int(offsets[-1])
            block = RecordBlock(np.frombuffer(stream, np.uint8, end), count, 0, offsets)
        else:
            end, block = 0, _NOTHING
        if size - end < HEADER_BYTES:
            return block, HEADER_BYTES
        return block, self._length(stream, end) + HEADER_BYTES

    def _length(self, stream: bytes, start: int) -> int:
        length: int = _read_length(stream, start)[0]
        if length > self._max_record_bytes:
            self._refuse(length, start)
        return length

    def _refuse(self, length: int, start: int) -> None:
        signed = length - 2**32 if length >= 2**31 else length
        raise CorruptRecord(signed, self._decoded + start, self._max_record_bytes)

    def _offsets(self, stream: bytes, size: int, *, short: bool) -> npt.NDArray[np.int64]:
        """Where each whole record starts, and where the last of them ends."""
        bounds = _follow_short(stream, size) if short else _follow(stream, size, [0])
        offsets = np.array(bounds, dtype=np.int64)
        lengths = np.diff(offsets) - HEADER_BYTES
        wrong = np.flatnonzero(lengths > self._max_record_bytes)
        if len(wrong):
            self._refuse(int(lengths[wrong[0]]), bounds[wrong[0]])
        # The last record may go on beyond what has arrived.
        return offsets if bounds[-1] <= size else offsets[:-1]


def _uniform(stream: bytes, count: int, stride: int) -> bool:
    """Whether the first `count` records are all `stride` bytes long."""
    headers: npt.NDArray[np.int32] = np.ndarray((count,), np.int32, stream, 0, (stride,))
    return headers.tobytes() == stream[:HEADER_BYTES] * count


def _follow(stream: bytes, size: int, bounds: list[int]) -> list[int]:
    """Extend `bounds` from its last start to the first one whose header is not complete."""
    read = _read_length
    append = bounds.append
    position = bounds[-1]
    last = size - HEADER_BYTES
    while position <= last:
        position += read(stream, position)[0] + HEADER_BYTES
        append(position)
    return bounds


def _follow_short(stream: bytes, size: int) -> list[int]:
    """As `_follow` from 0, but quick as long as lengths fit into the last byte of their headers."""
    bounds: list[int] = []
    append = bounds.append
    position = HEADER_BYTES - 1
    while position < size:
        append(position)
        position += stream[position] + HEADER_BYTES
    append(position)
    starts = np.array(bounds, dtype=np.int64) - (HEADER_BYTES - 1)
    headers: npt.NDArray[np.int32] = np.ndarray((size - 3,), ">i4", stream, 0, (1,))
    wrong = np.flatnonzero(headers[starts[:-1]] != np.diff(starts) - HEADER_BYTES)
    known = starts[: int(wrong[0]) + 1] if len(wrong) else starts
    return known.tolist() if not len(wrong) else _follow(stream, size, known.tolist())


_NOTHING = RecordBlock.from_payloads(())
