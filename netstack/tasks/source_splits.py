"""What a source subtask reads where others had begun: their inputs, each from where it was left.

The input of a source is cut into as many parts as it had subtasks when the job began. A part is read to its
end as what it is, by whatever subtask, so a source that is given more subtasks than it has parts has some
without work, which end at once::

    3 subtasks, at   0 of 3: 17    1 of 3: 20    2 of 3: 4
    then 2           subtask 0: [0 of 3, 2 of 3]     subtask 1: [1 of 3]

(Flink: the splits of a source, redistributed as ``SourceOperator`` does with its list state.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from buffers import RecordBlock

from ..scenarios.user_code import Source, SourceReader
from .source import skip

OpenSplit = Callable[[int, int], SourceReader]
"""Opens a part of a source's input: its number, and of how many."""


class Split(NamedTuple):
    """Part `part` of `of`, of which so many records have been emitted."""

    part: int
    of: int
    position: int


class SplitReader:
    """Reads splits in turns, a block each; a `SourceReader` without `seek`.

    Raises:
        SourceError: One cannot be opened, or not be read from where it was left.
        ValueError: A position is negative.
    """

    def __init__(self, splits: Sequence[Split], open_split: OpenSplit) -> None:
        self._splits = list(splits)
        self._readers: list[SourceReader] = []
        try:
            for split in splits:
                self._readers.append(open_split(split.part, split.of))
                skip(self._readers[-1], split.position)
        except BaseException:
            self.close()
            raise
        self._left = list(range(len(splits)))  # those that have not ended, the next one first
        self._latest = 0

    def read(self, max_records: int) -> RecordBlock | None:
        """Return the next records of the split whose turn it is, or None at the end of all."""
        while self._left:
            place = self._left.pop(0)
            block = self._readers[place].read(max_records)
            if block is not None:
                self._left.append(place)
                self._latest = place
                split = self._splits[place]
                self._splits[place] = split._replace(position=split.position + len(block))
                return block
        return None

    def splits(self, unsent: int) -> list[Split]:
        """Where each split is left if so many records of the latest block have not been emitted."""
        splits = list(self._splits)
        split = splits[self._latest]
        splits[self._latest] = split._replace(position=split.position - unsent)
        return splits

    def close(self) -> None:
        """Close all readers."""
        for reader in self._readers:
            reader.close()


def opener_of(source: Source) -> OpenSplit:
    """Return what opens a part of a source that was cut at another parallelism than it has now.

    It is `open`, unless the source has a method `open_split`: that raises a SourceError where what `open`
    gives depends on more than its two numbers.
    """
    return cast(OpenSplit, getattr(source, "open_split", source.open))
