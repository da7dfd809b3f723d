"""Channel state: the data that an unaligned barrier has overtaken, as it is stored and found again.

The data of one channel of a job lies in two places: in the queue of the input channel and in that of the
subpartition that feeds it. Each subtask stores what lies with it, all channels in one file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import NamedTuple

from buffers import Pieces

from ..state.snapshots import StateHandle, StateKind, StoredFile


class ChannelPlace(NamedTuple):
    """One channel of a subtask: number of the gate (or the output), and of the channel within it."""

    kind: StateKind
    exchange: int
    channel: int


def channel_handles(
    data: Mapping[ChannelPlace, Pieces], write: Callable[[Pieces], StoredFile], inline_up_to: int
) -> list[StateHandle]:
    """Store the data of channels: in one file, or in the handles if it is at most `inline_up_to` bytes.

    Raises:
        StorageError: if it cannot be written.
    """
    joined = Pieces(chain.from_iterable(data.values()))
    file = write(joined) if len(joined) > inline_up_to else None
    handles, offset = [], 0
    for place, piece in data.items():
        handles.append(
            StateHandle(
                kind=place.kind,
                exchange=place.exchange,
                channel=place.channel,
                size=len(piece),
                inline=bytes(piece) if file is None else None,
                file=file,
                offset=0 if file is None else offset,
            )
        )
        offset += len(piece)
    return handles
