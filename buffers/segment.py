"""Network memory: one contiguous slab, divided into equal segments.

The slab is an anonymous mapping, so the kernel commits each page when it is first written. Huge pages are
disabled, because one written byte would commit 2 MiB. Segments are handles to parts of the slab::

    MemorySlab  |..... 0 .....|..... 1 .....|..... 2 .....|  segment_size bytes each
                               ^ MemorySegment(slab, 1): `memory` and `array` view these bytes
"""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress

import numpy as np
import numpy.typing as npt

__all__ = ["Bytes", "MemorySegment", "MemorySlab"]

Bytes = npt.NDArray[np.uint8]
"""A numpy array of bytes."""

# MAP_NORESERVE of Linux, which the mmap module defines from Python 3.13 on. Without it the kernel may refuse
# a slab larger than the machine's memory although most of it will never be written.
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0


class MemorySlab:
    """Memory for `segments` segments of `segment_size` bytes each, all 0 and not committed until written.

    Raises:
        ValueError: if `segments` is negative, or `segment_size` is less than 1.
    """

    __slots__ = ("array", "memory", "segment_size", "segments")

    def __init__(self, segments: int, segment_size: int) -> None:
        if segments < 0 or segment_size < 1:
            raise ValueError(f"cannot make {segments} segments of {segment_size} bytes")
        self.segments = segments
        self.segment_size = segment_size
        size = segments * segment_size
        self.memory = memoryview(_anonymous_mapping(size) if size else bytearray())
        self.array: Bytes = np.frombuffer(self.memory, dtype=np.uint8)

    def segment(self, index: int) -> MemorySegment:
        """Return a handle for segment `index`.

        Raises:
            IndexError: if there is no such segment.
        """
        if not 0 <= index < self.segments:
            raise IndexError(f"segment {index} does not exist in a slab of {self.segments} segments")
        return MemorySegment(self, index)


class MemorySegment:
    """One segment of a slab: `size` bytes that one owner at a time may use.

    `memory` (a memoryview) and `array` (numpy, uint8) view the bytes. Both views are created on first use and
    then kept, so that an unused segment costs only its handle.
    """

    __slots__ = ("_array", "_memory", "_slab", "index", "size")

    def __init__(self, slab: MemorySlab, index: int) -> None:
        self._slab = slab
        self._memory: memoryview | None = None
        self._array: Bytes | None = None
        self.index = index
        self.size = slab.segment_size

    def __repr__(self) -> str:
        return f"MemorySegment({self.index}, size={self.size})"

    @property
    def memory(self) -> memoryview:
        """View of the bytes, readable and writable."""
        view = self._memory
        if view is None:
            start = self.index * self.size
            self._memory = view = self._slab.memory[start : start + self.size]
        return view

    @property
    def array(self) -> Bytes:
        """The bytes as a numpy array."""
        view = self._array
        if view is None:
            start = self.index * self.size
            self._array = view = self._slab.array[start : start + self.size]
        return view


def _anonymous_mapping(size: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages need not disable them
            mapping.madvise(mmap.MADV_NOHUGEPAGE)
    return mapping
