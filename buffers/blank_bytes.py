"""Bytes that nobody looks at, as numbers in place of memory.

An emulation moves buffers whose payloads, mostly, no operator reads: what counts is how many bytes a buffer
has, and where its records begin. Where all records are of one length, three numbers say all of it::

    records      |0009.........|0009.........|0009.........|      stride 13: 4 bytes of length, 9 of payload
    a buffer              |....|0009.........|0009...|             BlankBytes(phase=8, size=25, stride=13)

Every payload byte is 0, so the bytes are as definite as any: whoever asks for them gets them.
"""

from __future__ import annotations

import struct

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

    def behind(self, count: int) -> BlankBytes:
        """What is left without the first `count` bytes, of which there are at most `size`."""
        stride = self.stride
        return BlankBytes((self.phase + count) % stride, self.size - count, stride)

    def __bytes__(self) -> bytes:
        """The bytes themselves."""
        record = _pack_length(self.stride - _HEADER_BYTES).ljust(self.stride, b"\0")
        count = (self.phase + self.size) // self.stride + 1
        return (record * count)[self.phase : self.phase + self.size]
