"""Which debloating policy a setting names: one that is registered, or one to import."""

from __future__ import annotations

import importlib
from dataclasses import replace

from flowcontrol import POLICIES, DebloatPolicy, DebloatSettings

from .config import NetworkConfig


class PolicyError(ValueError):
    """A name stands for no policy; the message says why."""


def policy_class(name: str) -> type[DebloatPolicy]:
    """Return the policy that `name` stands for: a registered one, or that of "package.module:Class".

    Raises:
        PolicyError: there is none of that name, or what was imported is no policy.
    """
    if ":" not in name:
        if name not in POLICIES:
            raise PolicyError(f"{name!r} is unknown")
        return POLICIES[name]
    module, _, attribute = name.partition(":")
    try:
        policy = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # a module may fail in any way
        raise PolicyError(f"{name!r} cannot be imported, {_in_a_line(error)}") from None
    if not (isinstance(policy, type) and issubclass(policy, DebloatPolicy)):
        raise PolicyError(f"{name!r} is no class derived from flowcontrol.DebloatPolicy")
    return policy


def debloater_of(config: NetworkConfig, size_in_force: int | None = None) -> DebloatPolicy | None:
    """What sizes the buffers of one gate; None where debloating is off.

    It begins with the bytes that buffers have already, if they have, else with the starting size.

    Raises:
        PolicyError: as `policy_of`.
    """
    if not config.debloat_enabled:
        return None
    if size_in_force is not None:
        config = replace(config, starting_segment_bytes=size_in_force)
    return policy_of(config)


def policy_of(config: NetworkConfig) -> DebloatPolicy:
    """Make an object of the configured policy.

    Raises:
        PolicyError: there is no policy of that name, or it does not take these options.
    """
    name = config.debloat_policy
    policy = policy_class(name)
    settings = DebloatSettings(
        target_s=config.debloat_target_s,
        period_s=config.debloat_period_s,
        max_size=config.segment_bytes,
        min_size=config.min_segment_bytes,
        starting_size=config.starting_segment_bytes,
        threshold_percent=config.debloat_threshold_percent,
        samples=config.debloat_samples,
    )
    try:
        made = policy(settings)
        _ = made.settings, made.last_announced, made.estimated_time_s
    except Exception as error:  # of a user's own policy anything
        raise PolicyError(f"{name!r} cannot be made with these options, {_in_a_line(error)}") from error
    return made


def _in_a_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
