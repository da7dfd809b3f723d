"""Which debloating policy a setting names: one that is registered, or one to import."""

from __future__ import annotations

import importlib

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
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module may fail in any way
        raise PolicyError(f"{name!r} cannot be imported, {type(error).__name__}: {error}") from None
    if not (isinstance(found, type) and issubclass(found, DebloatPolicy)):
        raise PolicyError(f"{name!r} is no class derived from flowcontrol.DebloatPolicy")
    return found


def debloater_of(config: NetworkConfig) -> DebloatPolicy | None:
    """What sizes the buffers of one gate; None where debloating is off.

    Raises:
        PolicyError: there is no policy of the configured name.
    """
    if not config.debloat_enabled:
        return None
    return policy_class(config.debloat_policy)(
        DebloatSettings(
            target_s=config.debloat_target_s,
            period_s=config.debloat_period_s,
            max_size=config.segment_bytes,
            min_size=config.min_segment_bytes,
            starting_size=config.starting_segment_bytes,
            threshold_percent=config.debloat_threshold_percent,
            samples=config.debloat_samples,
        )
    )
