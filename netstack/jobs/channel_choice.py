"""Which channels the records of a producer go to: the selector that the scenario asks for."""

from __future__ import annotations

from ..engine.randomness import Randomness
from ..exchange.selectors import ChannelSelector, Fraction, KeyGroupSelector, MeasuredShares, RoundRobin
from ..scenarios.scenario import Edge, Scenario
from ..scenarios.topology import ShipStrategy
from ..scenarios.user_code import KeyHash


def selector_of(
    scenario: Scenario,
    edge: Edge,
    producer: int,
    channels: int,
    key_hash: KeyHash | None,
    max_parallelism: int,
    randomness: Randomness,
) -> ChannelSelector | None:
    """Return what deals out the records of subtask `producer` to so many channels; None: all get each.

    `key_hash` is that of an exchange by key, into a vertex of that `max_parallelism`.
    """
    if edge.strategy.copies:
        return None
    selector: ChannelSelector
    if edge.shares:
        selector = MeasuredShares(edge.shares, [scenario.seed, scenario.edges.index(edge), producer])
    elif key_hash is not None:
        selector = KeyGroupSelector(channels, max_parallelism, key_hash)
    else:
        selector = RoundRobin(
            channels, randomness.integer(channels) if edge.strategy is ShipStrategy.REBALANCE else 0
        )
    return selector if edge.fraction == 1 else Fraction(edge.fraction, selector)
