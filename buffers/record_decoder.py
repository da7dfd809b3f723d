"""Finds the records in a stream of buffers.

The start of a record is known only after the lengths of all earlier records have been read. There are three
methods, fastest first:

1. all records of a buffer have the same length: one strided comparison of all headers;
2. all records are shorter than 256 bytes: follow the last byte of each header, then check the other bytes at
once;
3. otherwise: follow the lengths one by one.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from .errors import CorruptRecord
from .payload import HEADER_BYTES, BlankBytes, Content
from .records import WATERMARK_BYTES, WATERMARK_LENGTH, Offsets, RecordBlock
from .segment import Bytes

__all__ = ["DEFAULT_MAX_RECORD_BYTES", "RecordDecoder"]

DEFAULT_MAX_RECORD_BYTES = 256 * 1024 * 1024
"""Maximum length of a record in bytes. A larger length is treated as corrupt."""

_LONG_BYTES = 64 * 1024
"""Minimum length in bytes of an incomplete record that is collected in one array. The parts of a shorter
record are joined when it is complete.
"""

_SLACK_BYTES = 64 * 1024  # space in this array for the bytes that follow the record

_INT32 = np.dtype(np.int32)
_SHORT = 256
_read_length = struct.Struct(">I").unpack_from


class RecordDecoder:
    """Decodes the bytes of one channel, in portions of any size, into blocks of records.

    An incomplete record is kept between calls. Invariant: bytes fed = bytes of all blocks + `pending_bytes`.
    An error leaves the decoder unchanged. With `watermarks`, the blocks contain watermarks too.
    """

    __slots__ = (
        "_blank_stride",
        "_decoded",
        "_long",
        "_max_record_bytes",
        "_needed",
        "_parts",
        "_short",
        "_watermarks",
        "pending_bytes",
    )

    def __init__(self, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES, *, watermarks: bool = False) -> None:
        self._max_record_bytes = max_record_bytes
        self._watermarks = watermarks
        self._parts: list[bytes] = []
        self._long: memoryview | None = None  # begins with the pending bytes of a long record
        self._needed = HEADER_BYTES
        self._blank_stride = 0  # length of the incomplete record if it is blank, else 0
        self._decoded = 0
        self._short = True
        self.pending_bytes = 0

    @property
    def pending(self) -> Content:
        """The `pending_bytes` bytes of the incomplete record."""
        if self._blank_stride:
            return BlankBytes(0, self.pending_bytes, self._blank_stride)
        return b"".join(self._parts) if self._long is None else bytes(self._long[: self.pending_bytes])

    def feed(self, data: Bytes | memoryview | bytes | BlankBytes) -> RecordBlock:
        """Decode the next bytes, 1-D and contiguous; returns copies of all records that are now complete.

        Blank bytes yield a blank block.

        Raises:
            CorruptRecord: if a length is negative or over the limit.
        """
        if isinstance(data, BlankBytes):
            partial_stride = self._blank_stride or (0 if self.pending_bytes else data.stride)
            if partial_stride == data.stride and self.pending_bytes == data.phase:
                return self._feed_blank(data)
            data = bytes(data)
        if self._blank_stride:
            self._write_out()
        size = self.pending_bytes + len(data)
        if size < self._needed:
            if len(data):
                self._keep(data, size)
            return _NOTHING
        stream = self._stream(data.data if isinstance(data, np.ndarray) else data, size)
        block, needed = self._decode(stream, size)
        end = block.nbytes
        self._parts = [bytes(stream[end:])] if end < size else []
        self._long = None
        self._needed = needed
        self._decoded += end
        self.pending_bytes = size - end
        return block

    def _feed_blank(self, data: BlankBytes) -> RecordBlock:
        stride = data.stride
        if stride - HEADER_BYTES > self._max_record_bytes:
            self._refuse(stride - HEADER_BYTES, 0)
        size = self.pending_bytes + data.size
        count = size // stride
        self._decoded += count * stride
        self.pending_bytes = size - count * stride
        self._blank_stride = stride if self.pending_bytes else 0
        return RecordBlock.blank(count, stride) if count else _NOTHING

    def _write_out(self) -> None:
        """Convert the incomplete record to bytes, because other data follows it."""
        self._parts = [bytes(self.pending)]
        self._needed = HEADER_BYTES if self.pending_bytes < HEADER_BYTES else self._blank_stride
        self._blank_stride = 0

    def _keep(self, data: Bytes | memoryview | bytes, size: int) -> None:
        """Add bytes to the incomplete record, which then has `size` bytes and is still incomplete."""
        if self._needed < _LONG_BYTES:
            self._parts.append(bytes(data))
        else:
            if self._long is None:
                self._long = np.empty(self._needed + _SLACK_BYTES, dtype=np.uint8).data
                self._long[: self.pending_bytes] = b"".join(self._parts)
            self._long[self.pending_bytes : size] = data.data if isinstance(data, np.ndarray) else data
        self.pending_bytes = size

    def _stream(self, data: memoryview | bytes, size: int) -> memoryview | bytes:
        """Return the incomplete record followed by the bytes that complete it."""
        partial = self._long
        if partial is None:
            return b"".join((*self._parts, data))
        if size > len(partial):
            return b"".join((partial[: self.pending_bytes], data))
        partial[self.pending_bytes : size] = data
        return partial[:size].toreadonly()

    def _decode(self, stream: memoryview | bytes, size: int) -> tuple[RecordBlock, int]:
        """Return the complete records of `stream`, and the result of `_needed_at` for the next record."""
        stride = self._length(stream, 0) + HEADER_BYTES
        count = size // stride
        if _uniform(stream, count, stride):
            end = count * stride
            needed = self._needed_at(stream, end, size)
            if end + needed > size:  # else shorter records follow
                return (RecordBlock(stream, end, count, stride) if count else _NOTHING), needed
        offsets = self._offsets(stream, size)
        count = len(offsets) - 1
        end = int(offsets[-1])
        block = RecordBlock(stream, end, count, end if count == 1 else 0, offsets)
        return block, self._needed_at(stream, end, size)

    def _needed_at(self, stream: memoryview | bytes, start: int, size: int) -> int:
        """Return the size of the record at `start`; if its header is incomplete, the size of the header."""
        return HEADER_BYTES if size - start < HEADER_BYTES else self._length(stream, start) + HEADER_BYTES

    def _length(self, stream: memoryview | bytes, start: int) -> int:
        length: int = _read_length(stream, start)[0]
        if length > self._max_record_bytes:
            if length == WATERMARK_LENGTH and self._watermarks:
                return WATERMARK_BYTES - HEADER_BYTES
            self._refuse(length, start)
        return length

    def _refuse(self, length: int, start: int) -> None:
        signed = length - 2**32 if length >= 2**31 else length
        raise CorruptRecord(signed, self._decoded + start, self._max_record_bytes)

    def _offsets(self, stream: memoryview | bytes, size: int) -> Offsets:
        """Return the start of each complete record, and the end of the last one."""
        offsets = np.zeros(1, dtype=np.int64)
        if self._short and self._length(stream, 0) < _SHORT:
            offsets = _follow_short(stream, size)
        self._short = bool(offsets[-1] > size - HEADER_BYTES)
        if not self._short:
            follow = _follow_with_watermarks if self._watermarks else _follow
            rest = follow(stream, size, int(offsets[-1]))
            offsets = np.concatenate((offsets, np.fromiter(rest, np.int64, len(rest))))
        lengths = np.diff(offsets) - HEADER_BYTES
        if lengths.max() > self._max_record_bytes:
            first = int(np.argmax(lengths > self._max_record_bytes))
            self._refuse(int(lengths[first]), int(offsets[first]))
        # The last record may extend beyond the bytes that have arrived.
        return offsets if offsets[-1] <= size else offsets[:-1]


def _uniform(stream: memoryview | bytes, count: int, stride: int) -> bool:
    """Whether the first `count` records are all `stride` bytes long."""
    headers: npt.NDArray[np.int32] = np.ndarray((count,), _INT32, stream, 0, (stride,))
    return headers.tobytes() == bytes(stream[:HEADER_BYTES]) * count


def _follow(stream: memoryview | bytes, size: int, position: int) -> list[int]:
    """Return the ends of all records from `position` on whose headers are complete."""
    ends: list[int] = []
    append = ends.append
    read = _read_length
    last = size - HEADER_BYTES
    while position <= last:
        position += read(stream, position)[0] + HEADER_BYTES
        append(position)
    return ends


def _follow_with_watermarks(stream: memoryview | bytes, size: int, position: int) -> list[int]:
    """Variant of `_follow` for data that may contain watermarks."""
    ends: list[int] = []
    read = _read_length
    while position <= size - HEADER_BYTES:
        length = read(stream, position)[0]
        position += WATERMARK_BYTES if length == WATERMARK_LENGTH else length + HEADER_BYTES
        ends.append(position)
    return ends


def _follow_short(stream: memoryview | bytes, size: int) -> Offsets:
    """Return 0 and the ends of all records before the first record whose length is 256 or more."""
    ends: list[int] = []
    append = ends.append
    position = HEADER_BYTES - 1
    while position < size:
        append(position)
        position += stream[position] + HEADER_BYTES
    append(position)
    offsets = np.fromiter(ends, np.int64, len(ends)) - (HEADER_BYTES - 1)
    headers: npt.NDArray[np.uint32] = np.ndarray((size - 3,), "<u4", stream, 0, (1,))
    long = headers[offsets[:-1]] & 0x00FFFFFF
    return offsets[: int(np.argmax(long > 0)) + 1] if long.any() else offsets


_NOTHING = RecordBlock.from_payloads(())
