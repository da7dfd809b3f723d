"""Channel selectors: which subpartition a record goes to."""

from __future__ import annotations

from typing import Protocol

from buffers import RecordBlock

from ..scenarios.user_code import KeyHash
from .key_groups import assign_to_operators


class ChannelSelector(Protocol):
    """Chooses a channel for each record, in the order in which they will be written."""

    def select(self, block: RecordBlock) -> list[int]:
        """One channel for each record of `block`; all of them have to be written."""
        ...


class RoundRobin:
    """Deals records out in turns: rebalance (any first channel), rescale and forward (the first)."""

    def __init__(self, channels: int, first: int = 0) -> None:
        self._channels = channels
        self._next = first

    def select(self, block: RecordBlock) -> list[int]:
        """One channel for each record of `block`."""
        channels, first, count = self._channels, self._next, len(block)
        self._next = (first + count) % channels
        turns = list(range(channels)) * (count // channels + 2)
        return turns[first : first + count]


class KeyGroupSelector:
    """Sends records of one key to one channel, by Flink's key groups (KeyGroupStreamPartitioner)."""

    def __init__(self, channels: int, max_parallelism: int, key_hash: KeyHash) -> None:
        self._channels = channels
        self._max_parallelism = max_parallelism
        self._key_hash = key_hash

    def select(self, block: RecordBlock) -> list[int]:
        """One channel for each record of `block`."""
        hashes = self._key_hash(block)
        chosen: list[int] = assign_to_operators(hashes, self._max_parallelism, self._channels).tolist()
        return chosen
