"""The family of rules that is searched: FLIP-183 with other choices at the five places where it has one.

::

    buffers in use of each channel
      -> counting   their sum, or channels with data * the longest
      -> blocked    while a channel is blocked: counted as it is, count frozen, or no step at all
      -> half_life  the count falls from its peak by half in so many seconds, or at once
    target * throughput / count
      -> jump       a size that is too large by so much is corrected at once, or never is
      -> samples    what the moving average is over
    size
      -> tell       by how much it must have changed to be announced

A rule's name says all of it, so that it can stand where the name of a policy can:
``benches.policy_search.rule_policy:longest_frozen_peak30_jump25_mean20_tell25``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

COUNTS = ("sum", "longest")
BLOCKED = ("counted", "frozen", "held")
HALF_LIVES_S = (0, 5, 30)
JUMPS_PERCENT = (0, 10, 25, 50)
SAMPLES = (10, 20)
TELLS_PERCENT = (10, 25)

_NAME = re.compile(
    rf"({'|'.join(COUNTS)})_({'|'.join(BLOCKED)})_peak(\d+)_jump(\d+)_mean(\d+)_tell(\d+)", re.ASCII
)


class Rule(NamedTuple):
    """One of the family; the defaults are FLIP-183."""

    counting: str = "sum"
    blocked: str = "counted"
    half_life_s: int = 0
    """0: the count is that of the moment."""
    jump_percent: int = 0
    """0: sizes never jump."""
    samples: int = 20
    tell_percent: int = 25

    @property
    def name(self) -> str:
        """What `named` reads."""
        rule = f"{self.counting}_{self.blocked}_peak{self.half_life_s}_jump{self.jump_percent}"
        return f"{rule}_mean{self.samples}_tell{self.tell_percent}"


def named(name: str) -> Rule:
    """Return the rule of that name.

    Raises:
        ValueError: no rule has that name.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} names no rule; one is {Rule().name}")
    counting, blocked, *numbers = match.groups()
    return Rule(counting, blocked, *map(int, numbers))


FLINK = Rule()
KNOWN = {
    "flink": FLINK,
    "frozen-while-blocked": Rule(blocked="frozen"),
    "longest-channel": Rule(counting="longest", blocked="frozen"),
    "burst": Rule(blocked="frozen", half_life_s=30, jump_percent=25),
    "longest-when-unblocked": Rule(counting="longest", blocked="held"),
}
"""The policies that there are already, as rules of the family; `per-channel` is none."""


def all_rules() -> Iterator[Rule]:
    """Every rule that is searched, FLIP-183 first."""
    yield FLINK
    for values in itertools.product(COUNTS, BLOCKED, HALF_LIVES_S, JUMPS_PERCENT, SAMPLES, TELLS_PERCENT):
        if (rule := Rule(*values)) != FLINK:
            yield rule
