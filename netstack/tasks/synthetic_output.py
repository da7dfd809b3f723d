"""Output of a vertex without a user function.

The selectivity is the number of records emitted for each record read. Emitted records have the configured
size. They are emitted at once, or held back for a time::

    selectivity 0.5   read  a b c d e f   emitted  b d f
    selectivity 2     read  a b c         emitted  a a b b c c
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock, RecordDecoder

from ..state.handles import OWED
from .operators import NOTHING, Operator, OperatorContext
from .sources import FILLER

_ROUNDING = 1e-9
"""Tolerance for rounding errors in sums of selectivities."""


class HeldBack:
    """Records from all inputs that are held back and then emitted together, such as those of a window."""

    def __init__(self) -> None:
        self._blocks: list[RecordBlock] = []

    def add(self, block: RecordBlock) -> None:
        """Add the records of a block."""
        if len(block):
            self._blocks.append(block)

    def take(self) -> RecordBlock:
        """Remove and return all records added since the last call."""
        blocks, self._blocks = self._blocks, []
        return RecordBlock.concat(blocks)

    @property
    def encoded(self) -> list[Any]:
        """The held-back records, in the form in which they are stored as state."""
        self._blocks = [RecordBlock.concat(self._blocks)] if self._blocks else []
        return [block.data.tobytes() for block in self._blocks]

    def restore(self, encoded: list[Any]) -> None:
        """Add records from restored state."""
        for data in encoded:
            self.add(RecordDecoder().feed(memoryview(data)))


class Emission(Operator):
    """Emits `selectivity` records for each record read, of `record_bytes` bytes if given.

    An emitted record is a copy of the record read, cut or padded; the key is kept. If the selectivity is not
    an integer, additional records are emitted at regular intervals, or at random with `chance`, a stream of
    numbers between 0 and 1. With `held_back`, records are added to it instead of being emitted. `name` must
    be unique within the subtask, since the state is stored under it.
    """

    def __init__(
        self,
        selectivity: float,
        record_bytes: int | None = None,
        chance: Iterator[float] | None = None,
        held_back: HeldBack | None = None,
        name: str = "",
    ) -> None:
        self._state_name = f"{OWED} {name}".rstrip()
        self.one_to_one = selectivity == 1 and held_back is None
        self.emits_later = held_back is not None
        self._selectivity = selectivity
        self._record_bytes = record_bytes
        self._chance = chance
        self._held_back = held_back
        self._owed = 0.0
        self._context: OperatorContext

    def open(self, context: OperatorContext) -> None:
        """Restore the fraction of an output record that is still owed."""
        self._context = context
        self._owed = sum(context.operator.get(self._state_name))  # of several former subtasks

    def process(self, block: RecordBlock) -> RecordBlock:
        """Return the records that are emitted now for a block."""
        if self._selectivity == 1:
            emitted = block
        elif len(block) == 1:
            emitted = self._of_one(block)
        else:
            emitted = block.take(np.repeat(np.arange(len(block)), self._counts(len(block))))
        if self._record_bytes is not None:
            emitted = emitted.resized(self._record_bytes, FILLER)
        if self._held_back is None:
            return emitted
        self._held_back.add(emitted)
        return NOTHING

    def _of_one(self, block: RecordBlock) -> RecordBlock:
        """Return the output for a block of one record, without the cost of arrays."""
        if self._chance is not None:
            count = floor(self._selectivity + next(self._chance))
        else:
            owed = self._owed + self._selectivity
            count = floor(owed + _ROUNDING)
            self._owed = max(0.0, owed - count)
        if count == 1 and self._held_back is None:
            return block  # not for held-back records: the block would keep its whole buffer in memory
        return block.take([0] * count)

    def _counts(self, records: int) -> NDArray[np.int64]:
        """Return the number of output records for each of the next input records."""
        if self._chance is not None:
            drawn = np.array([next(self._chance) for _ in range(records)])
            counts: NDArray[np.int64] = np.floor(self._selectivity + drawn).astype(np.int64)
            return counts
        owed = self._owed + self._selectivity * np.arange(1, records + 1)
        whole = np.floor(owed + _ROUNDING).astype(np.int64)
        self._owed = max(0.0, float(owed[-1] - whole[-1])) if records else self._owed
        differences: NDArray[np.int64] = np.diff(whole, prepend=0)
        return differences

    def finish(self) -> RecordBlock:
        """Return the records that are still held back."""
        return NOTHING if self._held_back is None else self._held_back.take()

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Store the fraction of an output record that is still owed."""
        self._context.operator.put(self._state_name, [self._owed] if self._owed else [])
