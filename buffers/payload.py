"""Contents of buffers: bytes, or blank bytes that are described by three numbers.

In an emulation, operators do not read the contents of most buffers. Only the number of bytes and the starts
of records matter. If all records have the same length, three numbers describe the bytes::

    records      |0009.........|0009.........|0009.........|      stride 13: 4 bytes of length, 9 of payload
    a buffer              |....|0009.........|0009...|             BlankBytes(phase=8, size=25, stride=13)

Every payload byte is 0, so the actual bytes can be created when a caller needs them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

__all__ = ["HEADER_BYTES", "BlankBytes", "Content", "Payload", "Pieces", "content_of"]

HEADER_BYTES: Final = 4
"""Bytes of a record's header, the length."""

_pack_length = struct.Struct(">i").pack


class BlankBytes:
    """Part of a sequence of blank records: `size` bytes. Each record has `stride` bytes, header included.

    The first byte is at offset `phase` of its record. Invariant: ``0 <= phase < stride``.
    """

    __slots__ = ("phase", "size", "stride")

    def __init__(self, phase: int, size: int, stride: int) -> None:
        self.phase = phase
        self.size = size
        self.stride = stride

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"BlankBytes(phase={self.phase}, size={self.size}, stride={self.stride})"

    def __getitem__(self, part: slice) -> BlankBytes:
        """Return the bytes of a slice of step 1."""
        start, stop, _ = part.indices(self.size)
        return BlankBytes((self.phase + start) % self.stride, max(0, stop - start), self.stride)

    def __bytes__(self) -> bytes:
        """Return the actual bytes."""
        record = _pack_length(self.stride - HEADER_BYTES).ljust(self.stride, b"\0")
        count = (self.phase + self.size) // self.stride + 1
        return (record * count)[self.phase : self.phase + self.size]

    def followed_by(self, other: BlankBytes) -> bool:
        """Whether `other` continues the sequence of records exactly where these bytes end."""
        return self.stride == other.stride and (self.phase + self.size) % self.stride == other.phase


Payload = memoryview | BlankBytes
"""Content of a buffer: a view of its memory, or blank bytes. Both can be sliced and converted to bytes."""

Content = bytes | BlankBytes
"""A copy of a payload that stays valid after its buffer is released."""


def content_of(payload: Payload) -> Content:
    """Return a copy of a payload that stays valid after its buffer is released."""
    return payload if isinstance(payload, BlankBytes) else bytes(payload)


class Pieces:
    """A sequence of bytes, stored in pieces.

    Blank pieces are kept as `BlankBytes`; `len` is the total number of bytes. Adjacent blank pieces are
    merged if the second continues the first, so the data of most channels is a single piece.
    """

    __slots__ = ("_pieces", "_size")

    def __init__(self, pieces: Iterable[Content] = ()) -> None:
        self._pieces: list[Content] = []
        self._size = 0
        self.extend(pieces)

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        """Return the actual bytes."""
        return b"".join([bytes(piece) for piece in self._pieces])

    @property
    def blank(self) -> bool:
        """Whether any piece is blank."""
        return any(isinstance(piece, BlankBytes) for piece in self._pieces)

    @property
    def description(self) -> bytes:
        """Short form of the content: equal for two objects only if their bytes are equal."""
        return b"".join(
            [
                b"%d blank in %d from %d;" % (piece.size, piece.stride, piece.phase)
                if isinstance(piece, BlankBytes)
                else b"%d bytes:%b" % (len(piece), piece)
                for piece in self._pieces
            ]
        )

    def extend(self, pieces: Iterable[Content]) -> None:
        """Append other pieces."""
        own = self._pieces
        for piece in pieces:
            if not len(piece):
                continue
            last = own[-1] if own else None
            if isinstance(piece, BlankBytes) and isinstance(last, BlankBytes) and last.followed_by(piece):
                own[-1] = BlankBytes(last.phase, last.size + piece.size, last.stride)
            else:
                own.append(piece)
            self._size += len(piece)

    def __iter__(self) -> Iterator[Content]:
        return iter(self._pieces)
