"""The policies that are known by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..debloat_policy import DebloatPolicy
from .burst import BurstPolicy
from .flink import FlinkPolicy
from .frozen import FrozenWhileBlockedPolicy
from .longest import LongestChannelPolicy
from .per_channel import PerChannelPolicy
from .unblocked import LongestWhenUnblockedPolicy

_policies: dict[str, type[DebloatPolicy]] = {
    "flink": FlinkPolicy,
    "frozen-while-blocked": FrozenWhileBlockedPolicy,
    "longest-channel": LongestChannelPolicy,
    "per-channel": PerChannelPolicy,
    "burst": BurstPolicy,
    "longest-when-unblocked": LongestWhenUnblockedPolicy,
}

POLICIES: Mapping[str, type[DebloatPolicy]] = MappingProxyType(_policies)
"""Every policy that is known, by its name; "flink" is the default."""


def register_policy(name: str, policy: type[DebloatPolicy]) -> None:
    """Make a policy known by `name` in this process.

    Raises:
        ValueError: if the name is taken by another one, or has a ":", which stands for an import path.
        TypeError: if `policy` is no class derived from `DebloatPolicy`.
    """
    if not (isinstance(policy, type) and issubclass(policy, DebloatPolicy)):
        raise TypeError(f"{policy!r} is no class derived from DebloatPolicy")
    if not name or ":" in name:
        raise ValueError(f"{name!r} is no name for a policy; it must have a letter at least, and no ':'")
    if _policies.setdefault(name, policy) is not policy:
        raise ValueError(f"{name!r} is the name of another policy, {_policies[name].__qualname__}")
