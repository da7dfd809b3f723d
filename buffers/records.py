"""Encoding of records and watermarks.

A record is a 4-byte big-endian length followed by that many bytes. Records lie back to back, independently of
buffer boundaries, and may span any number of buffers::

    buffers   |0003abc0005def|gh0002|xy...
    records   [0003abc][0005defgh][0002xy]

A `RecordBlock` is a sequence of complete records that is processed together; a `RecordDecoder` creates blocks
from arriving buffers. The encoding is that of Flink's SpanningRecordSerializer.

Flink sends stream elements: a 4-byte length, a 1-byte tag that distinguishes records from watermarks, and the
element. A watermark is an 8-byte timestamp. In this project a record has no tag. Only a watermark has the
sign bit of its length set. It takes 13 bytes, as in Flink::

    record      | length          | payload ...               |
    watermark   | sign bit and 9  | tag | timestamp, 64 bits  |
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .payload import HEADER_BYTES, BlankBytes, Content, Payload
from .segment import Bytes

__all__ = [
    "WATERMARK_BYTES",
    "RecordBlock",
    "encode_behind",
    "encode_watermark",
    "split_at_watermarks",
    "watermark_at",
    "watermark_places",
]

Offsets = npt.NDArray[np.int64]
"""Positions in a block, in bytes."""

_pack_length = struct.Struct(">i").pack
_LONG_RECORD = 256  # mean bytes per record from which copying one by one beats a mask over all bytes


class RecordBlock:
    """An immutable sequence of encoded records that lie back to back.

    `memory`: begins with the records; other bytes may follow. `nbytes`: bytes of all records. `stride`: the
    length of each record in bytes if all records are known to have the same length, otherwise (and for an
    empty block) 0. All lengths, sizes and positions include the headers. A `blank` block has no memory until
    a caller reads its bytes.
    """

    __slots__ = ("_bounds", "_count", "_data", "_memory", "_offsets", "nbytes", "stride")

    def __init__(
        self,
        memory: memoryview | bytes | None,
        nbytes: int,
        count: int,
        stride: int,
        offsets: Offsets | None = None,
    ) -> None:
        """`memory` begins with the records and never changes; `offsets` is optional if `stride` is given."""
        self.nbytes = nbytes
        self.stride = stride
        self._count = count
        self._memory = None if memory is None else memoryview(memory)
        self._offsets = offsets
        self._bounds: list[int] | None = None
        self._data: Bytes | None = None

    @classmethod
    def blank(cls, count: int, stride: int) -> RecordBlock:
        """Return a block of `count` records of `stride` bytes each, header included; all payload bytes are 0.

        Raises:
            ValueError: if `stride` is shorter than the header.
        """
        if stride < HEADER_BYTES:
            raise ValueError(
                f"a record must have at least {HEADER_BYTES} bytes, its header, but the stride is {stride}"
            )
        return cls(None, count * stride, count, stride if count else 0)

    @property
    def is_blank(self) -> bool:
        """Whether the block has records whose bytes do not exist yet, because no caller has read them."""
        return self._memory is None and self._count > 0

    @property
    def memory(self) -> memoryview:
        """The memory: the records back to back, possibly followed by other bytes."""
        if self._memory is None:
            self._memory = memoryview(bytes(BlankBytes(0, self.nbytes, max(self.stride, HEADER_BYTES))))
        return self._memory

    @classmethod
    def _over(cls, data: Bytes, count: int, stride: int, offsets: Offsets | None = None) -> RecordBlock:
        return cls(data.data.toreadonly(), len(data), count, stride, offsets)

    @classmethod
    def from_payloads(cls, payloads: Sequence[bytes | memoryview]) -> RecordBlock:
        """Encode one record for each of `payloads`."""
        lengths = list(map(len, payloads))
        headers = {length: _pack_length(length) for length in set(lengths)}
        parts: list[bytes | memoryview] = [b""] * (2 * len(lengths))
        parts[0::2] = map(headers.__getitem__, lengths)
        parts[1::2] = payloads
        encoded = b"".join(parts)
        if len(headers) == 1:
            return cls(encoded, len(encoded), len(lengths), lengths[0] + HEADER_BYTES)
        return cls(encoded, len(encoded), len(lengths), 0, _offsets_of(np.array(lengths, dtype=np.int64)))

    @classmethod
    def from_matrix(cls, payloads: Bytes) -> RecordBlock:
        """Encode one record for each row of a 2-D uint8 array.

        Raises:
            ValueError: if the array has another shape or type.
        """
        if payloads.ndim != 2 or payloads.dtype != np.uint8:
            raise ValueError(f"payloads must be a 2-D uint8 array, not {payloads.ndim}-D {payloads.dtype}")
        count, length = payloads.shape
        stride = length + HEADER_BYTES
        data = np.empty(count * stride, dtype=np.uint8)
        if count:
            _column(data, count, stride, 0, ">i4")[:] = length
        if count and length:
            # Each row is one opaque item, which numpy copies as a whole.
            rows = np.ascontiguousarray(payloads).view(f"V{length}").reshape(count)
            _column(data, count, stride, HEADER_BYTES, f"V{length}")[:] = rows
        return cls._over(data, count, stride if count else 0)

    @classmethod
    def from_lengths(
        cls, payloads: bytes | memoryview | Bytes, lengths: Sequence[int] | Offsets
    ) -> RecordBlock:
        """Encode records whose payloads are concatenated in `payloads`, with their `lengths` in bytes.

        Raises:
            ValueError: if the lengths are negative or do not add up to the size of `payloads`.
        """
        joined: Bytes = np.frombuffer(payloads, dtype=np.uint8)
        sizes = np.asarray(lengths, dtype=np.int64)
        count = len(sizes)
        if count == 0 and len(joined) == 0:
            return cls.from_payloads(())
        if count == 0 or sizes.min() < 0 or int(sizes.sum()) != len(joined):
            raise ValueError(f"{count} lengths do not add up to the {len(joined)} bytes of payload")
        if sizes.min() == sizes.max():
            return cls.from_matrix(joined.reshape(count, -1))
        if len(joined) >= _LONG_RECORD * count:
            bounds = _offsets_of(sizes, header=0).tolist()
            return cls.from_payloads([joined.data[start:end] for start, end in pairwise(bounds)])
        offsets = _offsets_of(sizes)
        data = np.empty(int(offsets[-1]), dtype=np.uint8)
        is_payload = np.ones(len(data), dtype=np.bool_)
        starts = offsets[:-1]
        _anywhere(is_payload, "i4")[starts] = 0
        data[is_payload] = joined
        _anywhere(data, "V4")[starts] = sizes.astype(">i4").view("V4")
        return cls._over(data, count, 0, offsets)

    @classmethod
    def concat(cls, blocks: Sequence[RecordBlock]) -> RecordBlock:
        """Return one block with all records of `blocks`."""
        filled = [block for block in blocks if block._count]
        if len(filled) == 1:
            return filled[0]
        if not filled:
            return cls.from_payloads(())
        if all(block._memory is None and block.stride == filled[0].stride for block in filled):
            return cls.blank(sum([block._count for block in filled]), filled[0].stride)
        data = np.concatenate([block.data for block in filled])
        count = sum([block._count for block in filled])
        stride = filled[0].stride
        if stride and all(block.stride == stride for block in filled):
            return cls._over(data, count, stride)
        sizes = np.concatenate([block.sizes() for block in filled])
        return cls._over(data, count, 0, _offsets_of(sizes, header=0))

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"RecordBlock({self._count} records, {self.nbytes} bytes)"

    @property
    def data(self) -> Bytes:
        """The encoded records: uint8, 1-D, contiguous, read-only."""
        if self._data is None:
            self._data = np.frombuffer(self.memory[: self.nbytes], dtype=np.uint8)
        return self._data

    @property
    def content(self) -> Content:
        """A copy of the encoded records; `BlankBytes` for a blank block."""
        return BlankBytes(0, self.nbytes, self.stride) if self.is_blank else self.data.tobytes()

    @property
    def offsets(self) -> Offsets:
        """Start of each record, followed by the end of the block."""
        if self._offsets is None:
            self._offsets = np.arange(self._count + 1, dtype=np.int64) * self.stride
        return self._offsets

    @property
    def starts(self) -> Offsets:
        """Start of each record, at its header."""
        return self.offsets[:-1]

    @property
    def ends(self) -> Offsets:
        """End of each record."""
        return self.offsets[1:]

    def sizes(self) -> Offsets:
        """Return the bytes of each record, header included."""
        if self.stride:
            return np.full(self._count, self.stride, dtype=np.int64)
        return np.diff(self.offsets)

    def _range(self, index: int) -> tuple[int, int]:
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError(f"record {index} does not exist in a block of {self._count} records")
        stride = self.stride
        if stride:
            start = index * stride
            return start, start + stride
        bounds = self._bounds
        if bounds is None:
            self._bounds = bounds = self.offsets.tolist()
        return bounds[index], bounds[index + 1]

    def encoded(self, index: int) -> memoryview:
        """Return record `index` with its header."""
        start, end = self._range(index)
        return self.memory[start:end]

    def unread(self, index: int) -> Payload:
        """Return a substitute for record `index`, header included, for callers that do not read the payload.

        If `stride` is set, the substitute is a blank record of the same size, otherwise the record itself.
        """
        return BlankBytes(0, self.stride, self.stride) if self.stride else self.encoded(index)

    def payload(self, index: int) -> memoryview:
        """Return record `index` without its header."""
        start, end = self._range(index)
        return self.memory[start + HEADER_BYTES : end]

    def payloads(self) -> Iterator[memoryview]:
        """Return all records without their headers."""
        memory = self.memory
        return (memory[start + HEADER_BYTES : end] for start, end in pairwise(self.offsets.tolist()))

    def size(self, index: int) -> int:
        """Return the bytes of record `index`, header included."""
        start, end = self._range(index)
        return end - start

    def span(self, start: int, stop: int) -> int:
        """Return the bytes of records ``start..stop-1``, headers included; ``0 <= start <= stop <= len``."""
        if self.stride or start == stop:
            return (stop - start) * self.stride
        return self._range(stop - 1)[1] - self._range(start)[0]

    def __getitem__(self, part: slice) -> RecordBlock:
        """Return the records of a slice of step 1, over the same memory."""
        start, stop, step = part.indices(self._count)
        if step != 1:
            raise ValueError(f"a block can only be sliced with step 1, got {step}; use take")
        stop = max(start, stop)
        if self._memory is None and self.stride:
            return RecordBlock.blank(stop - start, self.stride)
        if self.stride:
            nbytes = (stop - start) * self.stride
            memory = self.memory[start * self.stride :]
            return RecordBlock(memory, nbytes, stop - start, self.stride if nbytes else 0)
        if stop - start == 1:  # without the cost of arrays
            first, end = self._range(start)
            return RecordBlock(self.memory[first:end], end - first, 1, end - first)
        offsets = self.offsets[start : stop + 1]
        first, end = int(offsets[0]), int(offsets[-1])
        return RecordBlock(self.memory[first:], end - first, stop - start, 0, offsets - first)

    def take(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> RecordBlock:
        """Return a block with copies of the records `indices`, in this order."""
        chosen = np.asarray(indices, dtype=np.int64)
        count = len(chosen)
        if count == 0:
            return RecordBlock.from_payloads(())
        if self._memory is None:
            return RecordBlock.blank(count, self.stride)
        if self.stride:
            rows = self.data.reshape(-1, self.stride)[chosen]
            return RecordBlock._over(rows.reshape(-1), count, self.stride)
        sizes = self.sizes()[chosen]
        offsets = _offsets_of(sizes, header=0)
        shift = np.repeat(self.starts[chosen] - offsets[:-1], sizes)
        return RecordBlock._over(self.data[np.arange(len(shift)) + shift], count, 0, offsets)

    def resized(self, payload_bytes: int, filler: int) -> RecordBlock:
        """Return copies of the records with payloads of `payload_bytes` bytes, cut off or padded with
        `filler`.
        """
        count = self._count
        if not count:
            return self
        if self._memory is None:
            return RecordBlock.blank(count, payload_bytes + HEADER_BYTES)
        if self.stride and count > 1:
            rows = self.data.reshape(count, self.stride)[:, HEADER_BYTES:]
            kept = min(rows.shape[1], payload_bytes)
            sized = np.full((count, payload_bytes), filler, dtype=np.uint8)
            sized[:, :kept] = rows[:, :kept]
            return RecordBlock.from_matrix(sized)
        filling = bytes([filler])
        return RecordBlock.from_payloads(
            [bytes(payload[:payload_bytes]).ljust(payload_bytes, filling) for payload in self.payloads()]
        )


def _offsets_of(lengths: Offsets, header: int = HEADER_BYTES) -> Offsets:
    """Return the starts of records with these payload lengths, and the end of the last record."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths + header, out=offsets[1:])
    return offsets


def _column(data: Bytes, count: int, stride: int, offset: int, dtype: str) -> npt.NDArray[Any]:
    """Return a view of the item at `offset` of each of `count` records of `stride` bytes."""
    return np.ndarray((count,), dtype, data, offset, (stride,))


def _anywhere(data: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Return a view of `data` in which item i is the 4 bytes from byte i on."""
    return np.ndarray((len(data) - 3,), dtype, data, 0, (1,))


WATERMARK_LENGTH = 0x80000009
"""Length field of a watermark: its 9 bytes, with the sign bit set."""

WATERMARK_BYTES = 13
"""Size of a watermark in a buffer."""

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
    """Return the indices of the watermarks among the elements of a block, ascending."""
    if not len(block) or block.stride not in (0, WATERMARK_BYTES):
        return []
    places: list[int] = np.flatnonzero(block.data[block.starts] & _SIGN).tolist()
    return places


def watermark_at(block: RecordBlock, place: int) -> int:
    """Return the timestamp of the watermark at an index of a block, in milliseconds."""
    timestamp: int = _LAYOUT.unpack(block.encoded(place))[2]
    return timestamp


def split_at_watermarks(block: RecordBlock) -> list[tuple[RecordBlock, int | None]]:
    """Return pairs: records, and the timestamp of the watermark after them; None in the last pair."""
    parts: list[tuple[RecordBlock, int | None]] = []
    start = 0
    for place in watermark_places(block):
        parts.append((block[start:place], watermark_at(block, place)))
        start = place + 1
    parts.append((block[start:] if start else block, None))
    return parts


def encode_behind(parts: Sequence[tuple[RecordBlock, int | None]]) -> bytes:
    """Encode the result of `split_at_watermarks`, except the records of the first pair."""
    encoded: list[bytes] = []
    for number, (records, watermark) in enumerate(parts):
        if number:
            encoded.append(records.data.tobytes())
        if watermark is not None:
            encoded.append(encode_watermark(watermark))
    return b"".join(encoded)
