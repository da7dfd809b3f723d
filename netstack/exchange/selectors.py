"""Channel selectors, which choose the subpartition of each record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import floor
from typing import NamedTuple

import numpy as np

from buffers import RecordBlock

from ..scenarios.ship_strategies import ShipStrategy
from ..scenarios.user_code import KeyHash
from .key_groups import assign_to_operators
from .partition import LEAST_LOADED, LEFT_OUT

__all__ = ["RoundRobin"]


class RoundRobin:
    """Distributes records round robin. The first record goes to channel `first`: a random channel for
    rebalance, channel 0 for rescale and forward. If `adaptive`, the partition chooses the subpartition by
    load when it writes a record (FLIP-339). With one channel this makes no difference.
    """

    def __init__(self, channels: int, first: int = 0, *, adaptive: bool = False) -> None:
        self._channels = channels
        self._next = first
        self.adaptive = adaptive

    def select(self, block: RecordBlock) -> list[int]:
        """Return one channel for each record of `block`; `LEAST_LOADED` for all if adaptive."""
        channels, first, count = self._channels, self._next, len(block)
        if self.adaptive and channels > 1:
            return [LEAST_LOADED] * count
        self._next = (first + count) % channels
        return _turns(channels, count // channels + 2)[first : first + count]


@lru_cache(maxsize=64)
def _turns(channels: int, rounds: int) -> list[int]:
    """Return the channels in order, repeated `rounds` times.

    Producers share the list and must not change it.
    """
    return list(range(channels)) * rounds


class KeyGroupSelector:
    """Sends all records of a key to the same channel, by Flink's key groups (KeyGroupStreamPartitioner)."""

    def __init__(self, channels: int, max_parallelism: int, key_hash: KeyHash) -> None:
        self._channels = channels
        self._max_parallelism = max_parallelism
        self._key_hash = key_hash

    def select(self, block: RecordBlock) -> list[int]:
        """Return one channel for each record of `block`."""
        hashes = self._key_hash(block)
        chosen: list[int] = assign_to_operators(hashes, self._max_parallelism, self._channels).tolist()
        return chosen


class Fraction:
    """Sends only a fraction of the records, evenly spread, to the channels that another selector chooses."""

    def __init__(self, fraction: float, selector: ChannelSelector) -> None:
        self._fraction = fraction
        self.selector = selector
        self._owed = 0.0

    def select(self, block: RecordBlock) -> list[int]:
        """Return one channel for each record of `block`, or `LEFT_OUT`."""
        if not len(block):
            return []
        owed = [self._owed + self._fraction * number for number in range(1, len(block) + 1)]
        due = [0, *(floor(each + 1e-9) for each in owed)]  # records to send, up to each record
        is_sent = [after > before for before, after in pairwise(due)]
        self._owed = owed[-1] - due[-1]
        if isinstance(self.selector, KeyGroupSelector):
            channels = self.selector.select(block)
            return [channel if sent else LEFT_OUT for channel, sent in zip(channels, is_sent, strict=True)]
        following = iter(self.selector.select(block[: sum(is_sent)]))  # only sent records use up a turn
        return [next(following) if sent else LEFT_OUT for sent in is_sent]


class MeasuredShares:
    """Draws the channel of each record at random with measured frequencies, whatever the record's key.

    `shares` are the relative frequencies of the channels, in any unit; `seed` is this producer's seed.
    """

    def __init__(self, shares: Sequence[float], seed: Sequence[int]) -> None:
        self._until = np.cumsum(shares) / np.sum(shares)
        self._generator = np.random.default_rng(seed)

    def select(self, block: RecordBlock) -> list[int]:
        """Return one channel for each record of `block`."""
        drawn = np.searchsorted(self._until, self._generator.random(len(block)), side="right")
        chosen: list[int] = np.minimum(drawn, len(self._until) - 1).tolist()
        return chosen


class SelectorTerms(NamedTuple):
    """Properties of an exchange on which the selectors of its producers depend."""

    adaptive: bool
    """Whether records go to the least loaded subpartition (FLIP-339)."""
    key_hash: KeyHash | None
    """Hash of the keys of records; None if the strategy is not by key."""
    max_parallelism: int
    """Number of key groups of the consumer."""
    random_channel: Callable[[int], int]
    """Draws one of this number of channels."""


def selector_of(strategy: ShipStrategy, channels: int, terms: SelectorTerms) -> ChannelSelector:
    """Return the channel selector of one producer.

    Raises:
        ValueError: the strategy copies each record to all consumers, or has no selector.
    """
    match strategy:
        case ShipStrategy.HASH:
            assert terms.key_hash is not None
            return KeyGroupSelector(channels, terms.max_parallelism, terms.key_hash)
        case ShipStrategy.REBALANCE:
            return RoundRobin(channels, terms.random_channel(channels), adaptive=terms.adaptive)
        case ShipStrategy.FORWARD | ShipStrategy.RESCALE:
            return RoundRobin(channels, adaptive=terms.adaptive)
        case _:
            raise ValueError(f"no selector chooses one channel for each record of {strategy}")


ChannelSelector = RoundRobin | KeyGroupSelector | Fraction | MeasuredShares
"""Chooses a channel for each record, in the order in which the records are written: `select` returns one
channel for each record of a block, and the caller must write all of them.
"""
