"""What a vertex of a scenario emits for what it reads, where no function of the user's says so.

As many records as its selectivity says, of the size that is given, at once or held back for a time::

    selectivity 0.5   read  a b c d e f   emitted  b d f
    selectivity 2     read  a b c         emitted  a a b b c c
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buffers import HEADER_BYTES, RecordBlock, RecordDecoder

from ..state.snapshots import OWED
from .operators import NOTHING, Operator, OperatorContext

FILLER = 0x2E
"""Every byte of an emitted record beyond what was read."""

_FILLING = bytes([FILLER])

_ROUNDING = 1e-9
"""What a record that is owed may fall short of a whole one, as sums of selectivities are not exact."""


class HeldBack:
    """Records that wait to be emitted all at once: those of a window, whatever input they come from."""

    def __init__(self) -> None:
        self._blocks: list[RecordBlock] = []

    def add(self, block: RecordBlock) -> None:
        """Keep the records of a block."""
        if len(block):
            self._blocks.append(block)

    def take(self) -> RecordBlock:
        """All records that were kept since the last time."""
        blocks, self._blocks = self._blocks, []
        return RecordBlock.concat(blocks)

    @property
    def encoded(self) -> list[Any]:
        """What is kept now, as state."""
        self._blocks = [RecordBlock.concat(self._blocks)] if self._blocks else []
        return [block.data.tobytes() for block in self._blocks]

    def restore(self, encoded: list[Any]) -> None:
        """Keep what was state."""
        for data in encoded:
            self.add(RecordDecoder().feed(memoryview(data)))


class Emission(Operator):
    """Emits `selectivity` records for each that it reads, of `record_bytes` bytes if that is given.

    A record keeps what it can of the one it comes from, its key first. Where the selectivity is no whole
    number, one record more comes in regular turns, or with `chance`, numbers between 0 and 1, at random. With
    `held_back`, what would be emitted goes there. `name` tells this from others of the same subtask.
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
        """Go on with what was owed."""
        self._context = context
        self._owed = sum(context.operator.get(self._state_name))  # of several where there are fewer now

    def process(self, block: RecordBlock) -> RecordBlock:
        """What comes of each record now."""
        if self._selectivity == 1:
            emitted = block
        elif len(block) == 1:
            emitted = self._of_one(block)
        else:
            emitted = repeated(block, self._counts(len(block)))
        if self._record_bytes is not None:
            emitted = resized(emitted, self._record_bytes)
        if self._held_back is None:
            return emitted
        self._held_back.add(emitted)
        return NOTHING

    def _of_one(self, block: RecordBlock) -> RecordBlock:
        """As `repeated` for a block of one record, without the cost of arrays."""
        if self._chance is not None:
            count = floor(self._selectivity + next(self._chance))
        else:
            owed = self._owed + self._selectivity
            count = floor(owed + _ROUNDING)
            self._owed = max(0.0, owed - count)
        if not count:
            return NOTHING
        if count == 1 and self._held_back is None:
            return block  # of what is held back a copy, as this keeps all of the buffer that it came in
        if block.is_blank:
            return RecordBlock.blank(count, block.stride)
        return RecordBlock.from_payloads([bytes(block.payload(0))] * count)

    def _counts(self, records: int) -> NDArray[np.int64]:
        """How many records each of the next ones gives."""
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
        """What is still held back."""
        return NOTHING if self._held_back is None else self._held_back.take()

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Note what is owed."""
        self._context.operator.put(self._state_name, [self._owed] if self._owed else [])


def repeated(block: RecordBlock, counts: NDArray[np.int64]) -> RecordBlock:
    """Return each record of a block as often as `counts` says."""
    if not counts.any():
        return NOTHING
    if block.is_blank:
        return RecordBlock.blank(int(counts.sum()), block.stride)
    if block.stride:
        rows = block.data.reshape(len(block), block.stride)[:, HEADER_BYTES:]
        return RecordBlock.from_matrix(np.repeat(rows, counts, axis=0))
    payloads = list(block.payloads())
    return RecordBlock.from_payloads([payloads[place] for place in np.repeat(np.arange(len(block)), counts)])


def resized(block: RecordBlock, record_bytes: int) -> RecordBlock:
    """Return the records with payloads of that many bytes: cut off, or filled up."""
    if not len(block):
        return block
    if block.is_blank:
        return RecordBlock.blank(len(block), record_bytes + HEADER_BYTES)
    if len(block) == 1:  # without the cost of arrays
        return RecordBlock.from_payloads([_of_size(block.payload(0), record_bytes)])
    if block.stride:
        rows = block.data.reshape(len(block), block.stride)[:, HEADER_BYTES:]
        kept = min(rows.shape[1], record_bytes)
        sized = np.full((len(block), record_bytes), FILLER, dtype=np.uint8)
        sized[:, :kept] = rows[:, :kept]
        return RecordBlock.from_matrix(sized)
    return RecordBlock.from_payloads([_of_size(payload, record_bytes) for payload in block.payloads()])


def _of_size(payload: memoryview, record_bytes: int) -> bytes:
    return bytes(payload[:record_bytes]).ljust(record_bytes, _FILLING)
