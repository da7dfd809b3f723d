"""Which values of the settings make sense: options of Flink, costs, and the network between machines."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .config import OPTIONS, CostModel, LinkConditions, NetworkConfig
from .quantities import format_duration, format_size

Problem = tuple[str, str]
"""Where a mistake is, in the words of a scenario file; and what is wrong and would be right."""

_SMALLEST_PAGE = 4096
_LEAST_INTERVAL_S = 0.010


def option_key(field: str) -> str:
    """Return where the option of a field is."""
    return f"flink.{OPTIONS[field].name}"


def option_problems(config: NetworkConfig) -> Iterator[Problem]:
    """Yield what Flink would not accept of its options."""
    page = config.segment_bytes
    if page < _SMALLEST_PAGE or page & (page - 1):
        text = f"is {format_size(page)}; Flink wants a power of two from {format_size(_SMALLEST_PAGE)}"
        yield option_key("segment_bytes"), text
    for field in ("min_segment_bytes", "starting_segment_bytes"):
        size = getattr(config, field)
        if not 0 < size <= page:
            text = f"is {format_size(size)}; it must be from 1 b to the segment size, {format_size(page)}"
            yield option_key(field), text
    for field in ("debloat_period_s", "debloat_target_s", "checkpoint_timeout_s"):
        if getattr(config, field) <= 0:
            yield option_key(field), f"is {time_text(getattr(config, field))}; it must be more than 0"
    interval = config.checkpoint_interval_s
    if interval is not None and interval < _LEAST_INTERVAL_S:
        yield option_key("checkpoint_interval_s"), f"is {time_text(interval)}; Flink wants at least 10 ms"
    if config.unaligned_enabled and config.max_concurrent_checkpoints > 1:
        text = f"is {config.max_concurrent_checkpoints}; it must be 1 with unaligned checkpoints"
        yield option_key("max_concurrent_checkpoints"), text


def cost_problems(costs: CostModel) -> Iterator[Problem]:
    """Yield costs below 0 and ranges that fall."""
    for field in costs.__dataclass_fields__:
        value = getattr(costs, field)
        low, high = value if isinstance(value, tuple) else (value, value)
        key = f"costs.{field.removesuffix('_bytes_per_s').removesuffix('_s')}"
        if not 0 <= low <= high < math.inf:
            yield key, f"is {value}; it must be 0 or more, and a range must not fall"
    if costs.wire_rate_bytes_per_s <= 0:
        yield "costs.wire_rate", "is 0; it must be more"


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
