"""Rules for settings: Flink's options, debloating policies, costs, and the network between machines."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from operator import index

from flowcontrol import POLICIES, DebloatPolicy, DebloatSettings

from ..errors import PolicyError
from .costs import CostModel, LinkConditions
from .options import OPTIONS, CheckpointStorageType, NetworkConfig, RestartStrategy
from .tables import did_you_mean, without_unit
from .unit_texts import format_size, time_text

__all__ = ["option_problems", "policy_problems"]

Problem = tuple[str, str]
"""A mistake: its key in a scenario file, and a message that says what would be correct."""

_SMALLEST_PAGE = 1024
_LARGEST_PAGE = 1 << 30
"""Largest power of two in Java's int, the type in which Flink counts the bytes of a segment."""
_SMALLEST_PAGE_OF_FLINK = 4096
_LEAST_INTERVAL_S = 0.010
_LEAST_BACKOFF_S = 0.001
_RESTARTS, _TYPE = OPTIONS["restart_strategy"].name.split(".")
_POLICY_KEY = "policy"
_DIRECTORY = "file:///data/checkpoints"


def option_key(field: str) -> str:
    """Return the key of a field's option in scenario files."""
    return f"flink.{OPTIONS[field].name}"


def option_problems(config: NetworkConfig) -> Iterator[Problem]:
    """Yield the mistakes in Flink's options."""
    yield from _about_values(config)
    yield from _about_checkpoints(config)
    yield from _about_restarts(config)


def _about_values(config: NetworkConfig) -> Iterator[Problem]:
    page = config.segment_bytes
    is_page = _SMALLEST_PAGE <= page <= _LARGEST_PAGE and not page & (page - 1)
    if not is_page:
        bounds = f"{format_size(_SMALLEST_PAGE)} to {format_size(_LARGEST_PAGE)}"
        yield option_key("segment_bytes"), f"is {format_size(page)}; it must be a power of two from {bounds}"
    for field in ("min_segment_bytes", "starting_segment_bytes"):
        size = getattr(config, field)
        if is_page and not 0 < size <= page:
            text = f"is {format_size(size)}; it must be from 1 b to {format_size(page)}, the segment size"
            yield option_key(field), text
    for field in ("debloat_period_s", "debloat_target_s", "checkpoint_timeout_s", "heartbeat_timeout_s"):
        if getattr(config, field) <= 0:
            yield option_key(field), f"is {time_text(getattr(config, field))}; it must be more than 0"
    if (most := config.adaptive_partitioner_max_traverse_size) < 2:  # checked even if it is off
        text = f"is {most}; it must be 2 or more, because Flink 2.3 fails the job otherwise"
        yield option_key("adaptive_partitioner_max_traverse_size"), text


def policy_class(name: str) -> type[DebloatPolicy]:
    """Return the policy class for `name`: a registered policy, or the class at "package.module:Class".

    The working directory is the last place in which the module is searched.

    Raises:
        PolicyError: if there is no policy with this name, or the imported object is not a policy.
    """
    if ":" not in name:
        if name not in POLICIES:
            raise PolicyError(f"{name!r} is unknown")
        return POLICIES[name]
    module, _, attribute = name.partition(":")
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())
    try:
        policy = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # importing a module may fail with any error
        raise PolicyError(f"{name!r} cannot be imported: {_in_a_line(error)}") from None
    if not (isinstance(policy, type) and issubclass(policy, DebloatPolicy)):
        raise PolicyError(f"{name!r} is not a class derived from flowcontrol.DebloatPolicy")
    return policy


def debloater_of(config: NetworkConfig, size_in_force: int | None = None) -> DebloatPolicy | None:
    """Return the debloating policy of one gate; None if debloating is off.

    The policy begins with the current buffer size `size_in_force` in bytes; None: with the configured
    starting size.

    Raises:
        PolicyError: see `policy_of`.
    """
    if not config.debloat_enabled:
        return None
    if size_in_force is not None:
        config = replace(config, starting_segment_bytes=size_in_force)
    return policy_of(config)


def policy_of(config: NetworkConfig) -> DebloatPolicy:
    """Create an object of the configured policy.

    Raises:
        PolicyError: if there is no policy with this name, or it rejects these options.
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
        _ = made.settings, index(made.last_announced), float(made.estimated_time_s)
    except Exception as error:  # a user's policy may fail with any error
        raise PolicyError(f"{name!r} cannot be created with these options: {_in_a_line(error)}") from error
    return made


def _in_a_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def policy_problems(config: NetworkConfig) -> Iterator[Problem]:
    """Yield an error if the policy does not exist or cannot be created.

    The check imports the module of a user's policy.
    """
    try:
        if config.debloat_enabled and not any(True for _ in option_problems(config)):
            policy_of(config)  # each gate creates one; find errors before the run
        else:
            policy_class(config.debloat_policy)
    except PolicyError as error:
        name = config.debloat_policy
        hint = "" if ":" in name or name in POLICIES else f"; {did_you_mean(name, POLICIES)}"
        yield _POLICY_KEY, f"{error}{hint}"


def _about_checkpoints(config: NetworkConfig) -> Iterator[Problem]:
    interval = config.checkpoint_interval_s
    if interval is not None and interval < _LEAST_INTERVAL_S:
        yield option_key("checkpoint_interval_s"), f"is {time_text(interval)}; Flink requires at least 10 ms"
    if config.takes_unaligned_checkpoints and config.max_concurrent_checkpoints > 1:
        text = f"is {config.max_concurrent_checkpoints}; with unaligned checkpoints it must be 1"
        yield option_key("max_concurrent_checkpoints"), text
    if config.checkpoints_during_recovery and not config.recover_output_on_downstream:
        text = f"is true, which needs {OPTIONS['recover_output_on_downstream'].name} = true"
        yield option_key("checkpoints_during_recovery"), text
    if config.stores_checkpoints_in_files and config.checkpoint_dir is None:
        text = "is missing, but the checkpoint storage is filesystem; give a directory such as"
        yield option_key("checkpoint_dir"), f"{text} {_DIRECTORY!r}"


def _about_restarts(config: NetworkConfig) -> Iterator[Problem]:
    for field in ("restart_initial_backoff_s", "restart_reset_backoff_threshold_s"):
        if getattr(config, field) < _LEAST_BACKOFF_S:
            yield option_key(field), f"is {time_text(getattr(config, field))}; it must be 1 ms or more"
    initial, most = config.restart_initial_backoff_s, config.restart_max_backoff_s
    if most < initial:
        text = f"is {time_text(most)}; it must not be less than the initial backoff, {time_text(initial)}"
        yield option_key("restart_max_backoff_s"), text
    if config.restart_backoff_multiplier <= 1:
        text = f"is {config.restart_backoff_multiplier:g}; it must be more than 1"
        yield option_key("restart_backoff_multiplier"), text
    if not 0 <= config.restart_jitter_factor <= 1:
        text = f"is {config.restart_jitter_factor:g}; it must be from 0 to 1"
        yield option_key("restart_jitter_factor"), text
    if config.restart_failure_rate_interval_s <= 0:
        text = f"is {time_text(config.restart_failure_rate_interval_s)}; it must be more than 0"
        yield option_key("restart_failure_rate_interval_s"), text


def restart_notices(config: NetworkConfig, strategy: RestartStrategy) -> Iterator[Problem]:
    """Yield a notice for each given restart option that does not belong to the job's restart strategy."""
    for field in sorted(config.given & OPTIONS.keys()):
        family, _, rest = OPTIONS[field].name.partition(".")
        owner = rest.partition(".")[0]
        if family == _RESTARTS and owner != _TYPE and owner != strategy:
            yield option_key(field), f"has no effect unless {_RESTARTS}.{_TYPE} is {owner!r}"


def setting_notices(config: NetworkConfig) -> Iterator[Problem]:
    """Yield notices for valid options that do not have the effect that they suggest."""
    if config.debloat_policy != NetworkConfig().debloat_policy and not config.debloat_enabled:
        yield _POLICY_KEY, f"has no effect unless {OPTIONS['debloat_enabled'].name} is true"
    if config.segment_bytes < _SMALLEST_PAGE_OF_FLINK:
        text = f"works in netstack, but a real Flink requires at least {format_size(_SMALLEST_PAGE_OF_FLINK)}"
        yield option_key("segment_bytes"), text
    if config.max_buffers_per_channel == 1:
        text = (
            "is 1, so no record is ever sent, in netstack as in Flink: a channel's only buffer is the "
            "one being filled; give 2 or more"
        )
        yield option_key("max_buffers_per_channel"), text
    if config.unaligned_enabled and not config.takes_unaligned_checkpoints:
        text = f"has no effect, as in Flink: the checkpointing mode is {config.checkpoint_mode}"
        yield option_key("unaligned_enabled"), f"{text}, which has no unaligned checkpoints"
    if config.checkpoint_dir is not None and config.checkpoint_storage is CheckpointStorageType.JOBMANAGER:
        text = "has no effect: the checkpoint storage is jobmanager, which writes no files"
        yield option_key("checkpoint_dir"), text


_RATES = tuple(field for field in CostModel.__dataclass_fields__ if field.endswith("_rate_bytes_per_s"))
"""Costs that must not be 0, because work would never finish."""


def cost_problems(costs: CostModel) -> Iterator[Problem]:
    """Yield costs below 0, and ranges whose minimum exceeds the maximum."""
    for field in costs.__dataclass_fields__:
        value = getattr(costs, field)
        low, high = value if isinstance(value, tuple) else (value, value)
        if not 0 <= low <= high < math.inf:
            text = f"is {value}; it must be 0 or more, and a range must begin with its smaller value"
            yield f"costs.{without_unit(field)}", text
    for field in _RATES:
        if getattr(costs, field) == 0:
            yield f"costs.{without_unit(field)}", "is 0; it must be more than 0"


def link_problems(link: LinkConditions) -> Iterator[Problem]:
    """Yield an error for an impossible latency or bandwidth."""
    latency, bandwidth = link.latency_s, link.bandwidth_bytes_per_s
    if not 0 <= latency < math.inf:
        yield "link.latency", f"is {time_text(latency)}; it must be 0 or more"
    if bandwidth is not None and bandwidth <= 0:
        yield "link.bandwidth", f"is {bandwidth} B/s; it must be more than 0"
