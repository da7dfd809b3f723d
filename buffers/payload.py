"""Contents of buffers: bytes, or three numbers in place of bytes that no operator reads.

An emulation moves buffers whose contents, mostly, no operator reads: what counts is how many bytes a buffer
has, and where its records begin. If all records are of one length, three numbers say all of it::

    records      |0009.........|0009.........|0009.........|      stride 13: 4 bytes of length, 9 of payload
    a buffer              |....|0009.........|0009...|             BlankBytes(phase=8, size=25, stride=13)

Every payload byte is 0, so the bytes are as definite as any, and a caller can have them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

_pack_length = struct.Struct(">i").pack
_HEADER_BYTES = 4


class BlankBytes:
    """`size` bytes out of a row of encoded records that are `stride` bytes long each, header included.

    They begin `phase` bytes behind the beginning of a record. Invariant: ``0 <= phase < stride``.
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
        """The bytes of a slice of step 1."""
        start, stop, _ = part.indices(self.size)
        return BlankBytes((self.phase + start) % self.stride, max(0, stop - start), self.stride)

    def __bytes__(self) -> bytes:
        """The bytes themselves."""
        record = _pack_length(self.stride - _HEADER_BYTES).ljust(self.stride, b"\0")
        count = (self.phase + self.size) // self.stride + 1
        return (record * count)[self.phase : self.phase + self.size]

    def followed_by(self, other: BlankBytes) -> bool:
        """Whether `other` goes on where these end."""
        return self.stride == other.stride and (self.phase + self.size) % self.stride == other.phase


Payload = memoryview | BlankBytes
"""Content of a buffer: a view of its memory, or blank bytes. Both can be cut and turned into bytes."""

Content = bytes | BlankBytes
"""A copy of a payload, which outlives its buffer."""


def content_of(payload: Payload) -> Content:
    """Return a copy of a payload, which outlives its buffer."""
    return payload if isinstance(payload, BlankBytes) else bytes(payload)


class Pieces:
    """Bytes in pieces, of which blank ones stay as they are; `len` is how many bytes there are.

    Blank neighbours, the second of which goes on the first, are one: mostly a channel has a single piece.
    """

    __slots__ = ("_pieces", "_size")

    def __init__(self, pieces: Iterable[Content] = ()) -> None:
        self._pieces: list[Content] = []
        self._size = 0
        self.extend(pieces)

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        """The bytes themselves."""
        return b"".join([bytes(piece) for piece in self._pieces])

    @property
    def blank(self) -> bool:
        """Whether some of them are not there as bytes."""
        return any(isinstance(piece, BlankBytes) for piece in self._pieces)

    @property
    def description(self) -> bytes:
        """Description of the bytes; the same only for the same bytes."""
        return b"".join(
            [
                b"%d blank in %d from %d;" % (piece.size, piece.stride, piece.phase)
                if isinstance(piece, BlankBytes)
                else b"%d bytes:%b" % (len(piece), piece)
                for piece in self._pieces
            ]
        )

    def extend(self, pieces: Iterable[Content]) -> None:
        """Put other pieces behind these."""
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
