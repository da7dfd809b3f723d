"""Which partitions of a shuffle each of its tasks takes in.

With a slot for every partition each task takes one, which it gives to Spark. With fewer slots than partitions
each takes several that lie side by side, as Flink's operators take ranges of key groups::

    10 partitions, 4 tasks    0 1 2 | 3 4 | 5 6 7 | 8 9

A piece for such a task holds rows of several partitions, in their order. Behind it stands where the rows of
each end: a 4-byte number, least byte first, for every partition of the task, so the last one counts the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_END = np.dtype("<u4")


class Layout(NamedTuple):
    """So many partitions over so many tasks: at least one of each, and no more tasks than partitions."""

    partitions: int
    tasks: int

    @property
    def several(self) -> bool:
        """Whether there are tasks that take more than one partition."""
        return self.partitions > self.tasks

    def partitions_of(self, task: int) -> range:
        """Return the partitions of a task, of which there is at least one."""
        bounds = self.bounds()
        return range(int(bounds[task]), int(bounds[task + 1]))

    def bounds(self) -> NDArray[np.int64]:
        """Return the first partition of each task and, behind them, the number of partitions."""
        tasks = np.arange(self.tasks + 1, dtype=np.int64)
        return -(-tasks * self.partitions // self.tasks)


def with_ends(piece: memoryview, ends: NDArray[np.int64]) -> memoryview:
    """Return a piece with the places behind it at which the rows of its partitions end."""
    return memoryview(b"".join((piece, ends.astype(_END).tobytes())))


def without_ends(data: memoryview, partitions: int) -> tuple[memoryview, list[int]]:
    """Return what `with_ends` was given, for so many partitions.

    Raises:
        ValueError: There are too few bytes, or the ends do not rise.
    """
    length = len(data) - partitions * _END.itemsize
    if length < 0:
        raise ValueError(f"{len(data)} bytes are too few for the ends of {partitions} partitions")
    ends = np.frombuffer(data[length:], _END).astype(np.int64)
    if (np.diff(ends) < 0).any():
        raise ValueError("the rows of a partition end before those of the one before it")
    return data[:length], ends.tolist()
