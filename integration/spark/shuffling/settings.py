"""What a shuffle's network layer is set to: options of Flink's, by their names and in their syntax."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

from buffers import partition_buffers
from netstack import (
    DEFAULT_PRESET,
    OPTIONS,
    PRESETS,
    ConnectionLimits,
    NetworkConfig,
    QuantityError,
    Section,
    TransportConfig,
    format_size,
    option_problems,
    parse_flink_size,
    policy_problems,
    read_options,
)

from ...errors import ShuffleError, ShuffleWarning

Config = Mapping[str, object] | NetworkConfig | TransportConfig | None
"""Options of Flink by name, such as ``{"heartbeat.timeout": "10 s"}``, or settings made of them."""

EFFECTIVE = frozenset(
    {
        "buffer_timeout_enabled",
        "buffer_timeout_interval_s",
        "debloat_enabled",
        "debloat_period_s",
        "debloat_samples",
        "debloat_target_s",
        "debloat_threshold_percent",
        "exclusive_buffers_per_channel",
        "floating_buffers_per_gate",
        "heartbeat_timeout_s",
        "max_buffers_per_channel",
        "max_overdraft_buffers_per_gate",
        "max_required_buffers_per_gate",
        "min_segment_bytes",
        "network_memory_max_bytes",
        "network_memory_min_bytes",
        "segment_bytes",
        "starting_segment_bytes",
    }
)
"""The fields of `NetworkConfig` that a shuffle obeys; the others are about jobs and their checkpoints."""

VERY_LARGE_SEGMENT_BYTES, LARGE_SEGMENT_BYTES = 512 << 10, 128 << 10
"""Sizes of segments for few tasks: a buffer costs the same at any size, and nobody waits for one.

A task has some six for each other task, so with more tasks, or little memory, they have to be smaller.
"""

_VERY_FEW_TASKS, _FEW_TASKS = 8, 32
_SEGMENTS_PER_TASK = 8
"""So many very large ones have to fit into the network memory for each task."""

DEFAULT_MAX_MEMORY = 128 << 20
LEAST_MAX_MEMORY = 1 << 20
"""Bytes of rows that a task may hold for several partitions: by default, and at least."""


def transport_config(config: Config, count: int) -> TransportConfig:
    """Return the settings of each of the `count` processes of a shuffle.

    They are Flink's, but for segments, which have 512 KiB rather than 32 up to 8 tasks, and 128 up to 32 or
    where ``taskmanager.memory.network.max`` has no room for so large ones; unless
    ``taskmanager.memory.segment-size`` is given, or a `NetworkConfig`.

    A peer that gives no sign of life is given up after ``heartbeat.timeout`` (50 s), unless a
    `TransportConfig` says otherwise. Options that change nothing in a shuffle are named in a
    `ShuffleWarning`.

    Raises:
        ShuffleError: An option is unknown or its value makes no sense, or the memory is not enough; one line
            for each mistake.
    """
    if isinstance(config, TransportConfig):
        settings = config
    else:
        network = config if isinstance(config, NetworkConfig) else _parsed(config, count)
        limits = ConnectionLimits(keep_alive_s=network.heartbeat_timeout_s)
        settings = TransportConfig(network=network, limits=limits)
    problems = [*option_problems(settings.network), *policy_problems(settings.network)]
    _refuse([f"{key.removeprefix('flink.')}: {text}" for key, text in problems])
    _require_memory(settings, count)
    _warn_of_idle(settings.network)
    return settings


def max_memory_bytes(value: int | str | None) -> int:
    """Return the bytes of a ``max_memory``: a number of them, or a size in Flink's syntax; None: 128 MiB.

    Raises:
        ShuffleError: It is neither, or less than `LEAST_MAX_MEMORY`.
    """
    if value is None:
        return DEFAULT_MAX_MEMORY
    try:
        size = parse_flink_size(value)
    except QuantityError as error:
        raise ShuffleError(f"max_memory: {error}") from None
    if size < LEAST_MAX_MEMORY:
        raise ShuffleError(f"max_memory is {value!r}; it must be at least {format_size(LEAST_MAX_MEMORY)}")
    return size


def early_bytes(config: TransportConfig) -> int:
    """Return how many bytes a task may hold before it is connected to its peers.

    It is ``taskmanager.memory.network.min`` (64 MiB), or ``.max`` if that is less.
    """
    network = config.network
    most = network.network_memory_max_bytes
    return (
        min(network.network_memory_min_bytes, most) if most is not None else network.network_memory_min_bytes
    )


def _parsed(config: object, count: int) -> NetworkConfig:
    base = PRESETS[DEFAULT_PRESET]
    if count <= _FEW_TASKS:
        base = replace(base, segment_bytes=LARGE_SEGMENT_BYTES)
    if config is None:
        return _with_very_large_segments(base, count)
    if not isinstance(config, Mapping):
        raise ShuffleError(
            f"config is a {type(config).__name__}; it must be a mapping of Flink's options to their values,"
            " a NetworkConfig or a TransportConfig"
        )
    strange = [name for name in config if not isinstance(name, str)]
    if strange:
        raise ShuffleError(f"config: {strange[0]!r} is no name of an option; names are text")
    problems: list[str] = []
    network = read_options(Section(config, "", problems), base)
    _refuse(problems)
    return network if "segment_bytes" in network.given else _with_very_large_segments(network, count)


def _with_very_large_segments(network: NetworkConfig, count: int) -> NetworkConfig:
    """The same with very large segments, if there are very few tasks and the memory has room for them."""
    most = network.network_memory_max_bytes
    wanted = VERY_LARGE_SEGMENT_BYTES * _SEGMENTS_PER_TASK * count
    if count > _VERY_FEW_TASKS or (most is not None and most < wanted):
        return network
    return replace(network, segment_bytes=VERY_LARGE_SEGMENT_BYTES)


def _refuse(problems: list[str]) -> None:
    if problems:
        raise ShuffleError("\n".join(f"config: {problem}" for problem in problems))


def _require_memory(config: TransportConfig, count: int) -> None:
    network, gate = config.network, config.gate(count)
    least_of_partition, _ = partition_buffers(
        count, network.exclusive_buffers_per_channel, network.floating_buffers_per_gate
    )
    least = least_of_partition + (count - 1) * gate.exclusive_per_channel + gate.required_floating
    if config.segments(count) < least:
        name = OPTIONS["network_memory_max_bytes"].name
        needed = format_size(least * network.segment_bytes)
        raise ShuffleError(
            f"config: {name}: is too little for {count} partitions; it must be at least {needed}"
        )


def _warn_of_idle(network: NetworkConfig) -> None:
    idle = sorted(OPTIONS[field].name for field in network.given - EFFECTIVE)
    if idle:
        warnings.warn(
            f"config: {', '.join(idle)}: changes nothing in a shuffle", ShuffleWarning, stacklevel=4
        )
