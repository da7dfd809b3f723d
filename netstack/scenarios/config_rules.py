"""Which values of the settings make sense: options of Flink, costs, and the network between machines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from flowcontrol import POLICIES

from .config import (
    OPTIONS,
    CheckpointStorageType,
    CostModel,
    LinkConditions,
    NetworkConfig,
    RestartStrategy,
)
from .debloat_policies import PolicyError, policy_class, policy_of
from .quantities import format_duration, format_size

Problem = tuple[str, str]
"""Where a mistake is, in the words of a scenario file; and what is wrong and would be right."""

_SMALLEST_PAGE = 1024
_LARGEST_PAGE = 1 << 30
"""The largest power of two of Java's int, by which Flink counts the bytes of a segment."""
_SMALLEST_PAGE_OF_FLINK = 4096
_LEAST_INTERVAL_S = 0.010
_LEAST_BACKOFF_S = 0.001
_RESTARTS, _TYPE = OPTIONS["restart_strategy"].name.split(".")
_POLICY_KEY = "policy"
_DIRECTORY = "file:///data/checkpoints"


def option_key(field: str) -> str:
    """Return where the option of a field is."""
    return f"flink.{OPTIONS[field].name}"


def option_problems(config: NetworkConfig) -> Iterator[Problem]:
    """Yield what Flink would not accept of its options."""
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
            text = f"is {format_size(size)}; it must be from 1 b to the segment size, {format_size(page)}"
            yield option_key(field), text
    for field in ("debloat_period_s", "debloat_target_s", "checkpoint_timeout_s", "heartbeat_timeout_s"):
        if getattr(config, field) <= 0:
            yield option_key(field), f"is {time_text(getattr(config, field))}; it must be more than 0"


def policy_problems(config: NetworkConfig) -> Iterator[Problem]:
    """Yield why there is no such policy, or why it cannot be made; one that is code is imported, and runs."""
    try:
        if config.debloat_enabled and not any(True for _ in option_problems(config)):
            policy_of(config)  # each gate makes one; what goes wrong with that is to be known before
        else:
            policy_class(config.debloat_policy)
    except PolicyError as error:
        name = config.debloat_policy
        hint = "" if ":" in name or name in POLICIES else f"; {did_you_mean(name, POLICIES)}"
        yield _POLICY_KEY, f"{error}{hint}"


def _about_checkpoints(config: NetworkConfig) -> Iterator[Problem]:
    interval = config.checkpoint_interval_s
    if interval is not None and interval < _LEAST_INTERVAL_S:
        yield option_key("checkpoint_interval_s"), f"is {time_text(interval)}; Flink wants at least 10 ms"
    if config.takes_unaligned_checkpoints and config.max_concurrent_checkpoints > 1:
        text = f"is {config.max_concurrent_checkpoints}; it must be 1 with unaligned checkpoints"
        yield option_key("max_concurrent_checkpoints"), text
    if config.stores_checkpoints_in_files and config.checkpoint_dir is None:
        text = f"is missing, and the storage is filesystem; give one such as {_DIRECTORY!r}"
        yield option_key("checkpoint_dir"), text


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
    """Yield the given options of restart strategies that are not the one of the job."""
    for field in sorted(config.given & OPTIONS.keys()):
        family, _, rest = OPTIONS[field].name.partition(".")
        owner = rest.partition(".")[0]
        if family == _RESTARTS and owner != _TYPE and owner != strategy:
            yield option_key(field), f"changes nothing without {_RESTARTS}.{_TYPE} = {owner!r}"


def setting_notices(config: NetworkConfig) -> Iterator[Problem]:
    """Yield what is no mistake and still not what the given options seem to say."""
    if config.debloat_policy != NetworkConfig().debloat_policy and not config.debloat_enabled:
        yield _POLICY_KEY, f"changes nothing without {OPTIONS['debloat_enabled'].name} = true"
    if config.segment_bytes < _SMALLEST_PAGE_OF_FLINK:
        text = f"works here, but a real Flink wants at least {format_size(_SMALLEST_PAGE_OF_FLINK)}"
        yield option_key("segment_bytes"), text
    if config.max_buffers_per_channel == 1:
        text = "lets no job run, here as in Flink: the one buffer of a channel is the one being written"
        yield option_key("max_buffers_per_channel"), text
    if config.unaligned_enabled and not config.takes_unaligned_checkpoints:
        text = f"is switched off, as in Flink: the mode is {config.checkpoint_mode}"
        yield option_key("unaligned_enabled"), text
    if config.checkpoint_dir is not None and config.checkpoint_storage is CheckpointStorageType.JOBMANAGER:
        yield (
            option_key("checkpoint_dir"),
            "is not used: the storage is jobmanager, which keeps nothing in files",
        )


_RATES = tuple(
    field.removesuffix("_bytes_per_s")
    for field in CostModel.__dataclass_fields__
    if field.endswith("_rate_bytes_per_s")
)
"""Costs that nothing can go on with at 0."""


def cost_problems(costs: CostModel) -> Iterator[Problem]:
    """Yield costs below 0 and ranges that fall."""
    for field in costs.__dataclass_fields__:
        value = getattr(costs, field)
        low, high = value if isinstance(value, tuple) else (value, value)
        key = f"costs.{field.removesuffix('_bytes_per_s').removesuffix('_s')}"
        if not 0 <= low <= high < math.inf:
            yield key, f"is {value}; it must be 0 or more, and a range must not fall"
    for name in _RATES:
        if getattr(costs, f"{name}_bytes_per_s") == 0:
            yield f"costs.{name}", "is 0; it must be more"


def link_problems(link: LinkConditions) -> Iterator[Problem]:
    """Yield a latency or a bandwidth that no network has."""
    latency, bandwidth = link.latency_s, link.bandwidth_bytes_per_s
    if not 0 <= latency < math.inf:
        yield "link.latency", f"is {time_text(latency)}; it must be 0 or more"
    if bandwidth is not None and bandwidth <= 0:
        yield "link.bandwidth", f"is {bandwidth} B/s; it must be more than 0"


def time_text(seconds: float) -> str:
    """Return seconds as text, infinite ones too."""
    return format_duration(seconds) if math.isfinite(seconds) else str(seconds)


def did_you_mean(wrong: object, known: Iterable[str]) -> str:
    """Return what was meant, or all that is known: the end of a message about a name that nobody knows."""
    choices = list(known)
    close = get_close_matches(str(wrong), choices, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(choices)}"
