"""Rules about network memory, counts of buffers and flushing."""

from __future__ import annotations

from collections.abc import Iterator

from buffers import gate_buffers, partition_buffers
from netstack import NetworkConfig, format_size

from .catalogue import PARALLELISM, SLOTS
from .findings import Finding, Settings

_BACKOFF = "taskmanager.network.request-backoff"


def about_memory(settings: Settings) -> Iterator[Finding]:
    """Yield what is found."""
    for rule in (_bounds, _too_little, _required, _counts, _flushing, _backoff):
        yield from rule(settings)


def _bounds(settings: Settings) -> Iterator[Finding]:
    config = settings.config
    least, most = config.network_memory_min_bytes, config.network_memory_max_bytes
    if most is None:
        return
    if least > most:
        given = "" if settings.gives("network_memory_min_bytes") else ", its default"
        message = f"is {format_size(most)}, less than the least, {format_size(least)}{given}"
        yield settings.finding(
            "error", "out-of-range", "network_memory_max_bytes", message, "Flink does not start with that"
        )
    elif least == most and settings.gives("network_memory_fraction"):
        message = f"decides nothing: least and most are both {format_size(most)}"
        yield settings.finding("note", "fraction", "network_memory_fraction", message)


def _too_little(settings: Settings) -> Iterator[Finding]:
    """One exchange from all to all must find the buffers without which its tasks do not start."""
    config, most = settings.config, settings.config.network_memory_max_bytes
    parallelism = settings.whole(PARALLELISM)
    if most is None or parallelism is None or config.segment_bytes <= 0:
        return
    slots = min(settings.whole(SLOTS) or 1, parallelism)
    needed, there = slots * required_segments(config, parallelism), most // config.segment_bytes
    if needed > there:
        message = (
            f"holds {there:,} buffers; a single exchange between {parallelism} and {parallelism} subtasks, "
            f"{slots} of each in a task manager, does not start with fewer than {needed:,}"
        )
        advice = f"give at least {format_size(needed * config.segment_bytes)}"
        yield settings.finding("error", "too-little-memory", "network_memory_max_bytes", message, advice)


def required_segments(config: NetworkConfig, parallelism: int) -> int:
    """Return the segments that one subtask at each end of an exchange from all to all needs to start."""
    each, floating = config.exclusive_buffers_per_channel, config.floating_buffers_per_gate
    spec = gate_buffers(parallelism, each, floating, config.max_required_buffers_per_gate)
    gate = parallelism * spec.exclusive_per_channel + spec.required_floating
    return gate + partition_buffers(parallelism, each, floating)[0]


def _required(settings: Settings) -> Iterator[Finding]:
    config, parallelism = settings.config, settings.whole(PARALLELISM)
    most = config.max_required_buffers_per_gate
    if most is None or parallelism is None:
        return
    each = config.exclusive_buffers_per_channel
    left = gate_buffers(parallelism, each, config.floating_buffers_per_gate, most).exclusive_per_channel
    if left < each:
        message = f"is {most}: with {parallelism} channels it leaves each {left} exclusive buffers of {each}"
        advice = f"for all of them it takes {parallelism * each + 1}"
        yield settings.finding("note", "fewer-exclusive", "max_required_buffers_per_gate", message, advice)


def _counts(settings: Settings) -> Iterator[Finding]:
    """Only Flink 1 reads them."""
    config = settings.config
    most, each = config.max_buffers_per_channel, config.exclusive_buffers_per_channel
    if most == 1:
        message = "is 1: the one buffer of a channel is the one being written, so that no record is ever sent"
        yield settings.finding("error", "no-buffers", "max_buffers_per_channel", message, "10 is the default")
    elif most < each:
        message = f"is {most}, less than buffers-per-channel, {each}: a channel cannot use what is set aside"
        yield settings.finding("warning", "no-buffers", "max_buffers_per_channel", message)
    if each == 0 and settings.gives("exclusive_buffers_per_channel"):
        message = "is 0: a channel that begins to send asks for its first buffer, a round trip more"
        yield settings.finding("note", "no-exclusive", "exclusive_buffers_per_channel", message)


def _flushing(settings: Settings) -> Iterator[Finding]:
    config = settings.config
    if not settings.gives("buffer_timeout_interval_s"):
        return
    if not config.buffer_timeout_enabled:
        message = f"does nothing while {settings.spelt('buffer_timeout_enabled')} is false"
        yield settings.finding("warning", "no-flushing", "buffer_timeout_interval_s", message)
    elif config.buffer_timeout_interval_s == 0 and not config.debloat_enabled:
        message = "is 0: each record is sent by itself, in a buffer of its own, which costs throughput"
        yield settings.finding("note", "each-record", "buffer_timeout_interval_s", message)


def _backoff(settings: Settings) -> Iterator[Finding]:
    first, most = settings.whole(f"{_BACKOFF}.initial"), settings.whole(f"{_BACKOFF}.max")
    if first is not None and most is not None and first > most:
        message = f"is {first} ms, more than the longest, {most} ms"
        yield settings.finding("error", "out-of-range", f"{_BACKOFF}.initial", message)
