"""Rules about combinations of options: what cannot work together, or of which one part does nothing."""

from __future__ import annotations

from collections.abc import Iterator

from buffers import gate_buffers, partition_buffers
from netstack import CheckpointStorageType, NetworkConfig, format_duration, format_size

from ...analysis.rules.finding import MOST_CHANNELS
from .catalogue import PARALLELISM, SLOTS
from .file_settings import Remark, Settings

SLOW_S = 30.0
"""A size that takes longer than this to follow a change of load is worth a word."""

_TUNING = ("debloat_period_s", "debloat_target_s", "debloat_samples", "debloat_threshold_percent")

_BACKLOG = "execution.checkpointing.interval-during-backlog"
_BACKOFF = "taskmanager.network.request-backoff"


def _off(settings: Settings) -> Iterator[Remark]:
    said = " while taskmanager.network.memory.buffer-debloat.enabled is false, its default"
    for field in _TUNING:
        if settings.gives(field):
            yield settings.remark("warning", "debloating-off", field, f"changes nothing{said}")
    for field in ("min_segment_bytes", "starting_segment_bytes"):
        if settings.gives(field):
            yield settings.remark("note", "debloating-off", field, f"changes nothing{said}")


def _sizes(settings: Settings) -> Iterator[Remark]:
    """Between the least and the greatest size there must be room."""
    config = settings.config
    if config.min_segment_bytes == config.segment_bytes:
        message = (
            f"is {format_size(config.min_segment_bytes)}, as much as a segment: no buffer can become smaller"
        )
        yield settings.remark("warning", "debloating-defeated", "min_segment_bytes", message, "lower it")
    if settings.gives("starting_segment_bytes") and config.starting_segment_bytes < config.min_segment_bytes:
        message = f"is less than min-segment-size, {format_size(config.min_segment_bytes)}"
        advice = "raise it to that; the first sizes lie below the least one"
        yield settings.remark("note", "start-below-minimum", "starting_segment_bytes", message, advice)


def _threshold(settings: Settings) -> Iterator[Remark]:
    """A size is announced if it differs from the announced one by the threshold (BufferDebloater)."""
    percent = settings.config.debloat_threshold_percent
    if percent == 100:  # what is more is remarked wherever it stands
        message = (
            f"is {percent}: no size is smaller than another by so much, so a smaller one is told "
            "only when it has come to the least"
        )
        yield settings.remark(
            "warning", "debloating-defeated", "debloat_threshold_percent", message, "25 is the default"
        )


def _flushes(settings: Settings) -> Iterator[Remark]:
    timeout = settings.config.buffer_timeout_s
    target = settings.config.debloat_target_s
    if timeout == 0:
        message = "0 sends each record in a buffer of its own, whose size debloating cannot change"
        yield settings.remark(
            "warning",
            "debloating-defeated",
            "buffer_timeout_interval_s",
            message,
            "give it some time",
        )
    elif timeout is not None and timeout > target > 0:
        message = (
            f"the target is {format_duration(target)}, and without back-pressure a record may wait for "
            f"{format_duration(timeout)} in a buffer that is not full"
        )
        yield settings.remark(
            "note", "timeout-above-target", "debloat_target_s", message, "debloating cannot shorten that"
        )


def _inertia(settings: Settings) -> Iterator[Remark]:
    """The moving average takes some (samples + 1) / 2 periods for most of a change."""
    config = settings.config
    follows_s = config.debloat_period_s * (config.debloat_samples + 1) / 2
    if follows_s > SLOW_S:
        field = "debloat_samples" if settings.gives("debloat_samples") else "debloat_period_s"
        message = (
            f"sizes follow a change of load in about {follows_s:.0f} s "
            f"({config.debloat_samples} samples, one each {format_duration(config.debloat_period_s)})"
        )
        yield settings.remark(
            "warning", "slow-debloating", field, message, "fewer samples, or a shorter period"
        )


def _parallelism(settings: Settings) -> Iterator[Remark]:
    parallelism = settings.whole(PARALLELISM)
    floating = settings.config.floating_buffers_per_gate
    if parallelism is None or parallelism <= MOST_CHANNELS or floating >= parallelism:
        return
    message = f"is {parallelism}: above about {MOST_CHANNELS}, debloating may choose wrong sizes"
    if settings.is_flink_1:
        advice = f"raise floating-buffers-per-gate, {floating}, to the parallelism"
    else:
        advice = f"the remedy of 1.x, as many floating buffers, is gone: Flink 2 has {floating}"
    yield settings.remark("warning", "debloating-parallelism", PARALLELISM, message, advice)


def _single_records(settings: Settings) -> Iterator[Remark]:
    """A record that needs many small buffers blocks its task unless it may overdraw its pool."""
    if settings.config.max_overdraft_buffers_per_gate == 0:
        message = "is 0, and debloated buffers may be smaller than a record: a task stops within the record"
        yield settings.remark(
            "warning",
            "no-overdraft",
            "max_overdraft_buffers_per_gate",
            message,
            "5 is the default; or raise min-segment-size to a record",
        )


def _unaligned(settings: Settings) -> Iterator[Remark]:
    config = settings.config
    if config.unaligned_enabled and not config.takes_unaligned_checkpoints:
        message = f"does nothing: the mode is {config.checkpoint_mode}, and only EXACTLY_ONCE knows it"
        yield settings.remark("warning", "no-unaligned", "unaligned_enabled", message, "drop one of the two")
    if not config.unaligned_enabled:
        for field in (
            "aligned_checkpoint_timeout_s",
            "unaligned_forced",
            "max_subtasks_per_channel_state_file",
        ):
            if settings.gives(field):
                message = f"does nothing without {settings.spelt('unaligned_enabled')} = true"
                yield settings.remark("warning", "no-unaligned", field, message)


def _aligned_timeout(settings: Settings) -> Iterator[Remark]:
    """A checkpoint may stay aligned until the timeout; debloating lets a barrier wait for its target."""
    config = settings.config
    timeout = config.aligned_checkpoint_timeout_s
    if not config.takes_unaligned_checkpoints or timeout <= 0:
        return
    field = "aligned_checkpoint_timeout_s"
    if timeout >= config.checkpoint_timeout_s:
        message = (
            f"is {format_duration(timeout)}: by then the checkpoint has expired, "
            f"its timeout is {format_duration(config.checkpoint_timeout_s)}"
        )
        yield settings.remark("warning", "never-unaligned", field, message, "make it shorter")
    elif config.debloat_enabled and timeout < config.debloat_target_s:
        message = (
            f"is {format_duration(timeout)}, less than the debloat target, "
            f"{format_duration(config.debloat_target_s)}: "
            "each checkpoint under back-pressure becomes unaligned"
        )
        advice = "make it longer than the target for each exchange on the way, or drop it"
        yield settings.remark("warning", "always-unaligned", field, message, advice)


def _times(settings: Settings) -> Iterator[Remark]:
    config = settings.config
    timeout, target, pause = (
        config.checkpoint_timeout_s,
        config.debloat_target_s,
        config.checkpoint_min_pause_s,
    )
    if config.debloat_enabled and not config.takes_unaligned_checkpoints and 0 < timeout <= target:
        message = (
            f"is {format_duration(timeout)}, and a barrier may wait for the debloat target, "
            f"{format_duration(target)}: under back-pressure hardly a checkpoint completes in time"
        )
        yield settings.remark("warning", "timeout-below-target", "checkpoint_timeout_s", message)
    interval = config.checkpoint_interval_s
    if interval is not None and pause > interval:
        message = (
            f"is {format_duration(pause)}, longer than the interval, {format_duration(interval)}, "
            "which then decides nothing"
        )
        yield settings.remark("note", "pause-above-interval", "checkpoint_min_pause_s", message)
    backlog = settings.others.get(_BACKLOG)
    if interval is not None and isinstance(backlog, int | float) and 0 < backlog < interval:
        message = f"must be 0 or at least the interval, {format_duration(interval)}"
        yield settings.remark("error", "out-of-range", _BACKLOG, message)


def _storage(settings: Settings) -> Iterator[Remark]:
    config = settings.config
    if config.checkpoint_dir is not None and config.checkpoint_storage is CheckpointStorageType.JOBMANAGER:
        message = "holds the metadata only: the storage is jobmanager"
        yield settings.remark("note", "storage", "checkpoint_dir", message)


def _no_interval(settings: Settings) -> Iterator[Remark]:
    """Options of checkpoints are no mistake without an interval: the job may give one in its code."""
    if settings.gives("checkpoint_interval_s") or not settings.gives("unaligned_enabled"):
        return
    message = "takes effect only if the job itself sets an interval: this file has none"
    yield settings.remark("note", "no-interval", "unaligned_enabled", message)


def _bounds(settings: Settings) -> Iterator[Remark]:
    config = settings.config
    least, most = config.network_memory_min_bytes, config.network_memory_max_bytes
    if most is None:
        return
    if least > most:
        given = "" if settings.gives("network_memory_min_bytes") else ", its default"
        message = f"is {format_size(most)}, less than the least, {format_size(least)}{given}"
        yield settings.remark(
            "error", "out-of-range", "network_memory_max_bytes", message, "Flink does not start with that"
        )
    elif least == most and settings.gives("network_memory_fraction"):
        message = f"decides nothing: least and most are both {format_size(most)}"
        yield settings.remark("note", "fraction", "network_memory_fraction", message)


def _too_little(settings: Settings) -> Iterator[Remark]:
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
        yield settings.remark("error", "too-little-memory", "network_memory_max_bytes", message, advice)


def required_segments(config: NetworkConfig, parallelism: int) -> int:
    """Return the segments that one subtask at each end of an exchange from all to all needs to start."""
    each, floating = config.exclusive_buffers_per_channel, config.floating_buffers_per_gate
    spec = gate_buffers(parallelism, each, floating, config.max_required_buffers_per_gate)
    gate = parallelism * spec.exclusive_per_channel + spec.required_floating
    return gate + partition_buffers(parallelism, each, floating)[0]


def _required(settings: Settings) -> Iterator[Remark]:
    config, parallelism = settings.config, settings.whole(PARALLELISM)
    most = config.max_required_buffers_per_gate
    if most is None or parallelism is None:
        return
    each = config.exclusive_buffers_per_channel
    left = gate_buffers(parallelism, each, config.floating_buffers_per_gate, most).exclusive_per_channel
    if left < each:
        message = f"is {most}: with {parallelism} channels it leaves each {left} exclusive buffers of {each}"
        advice = f"for all of them it takes {parallelism * each + 1}"
        yield settings.remark("note", "fewer-exclusive", "max_required_buffers_per_gate", message, advice)


def _counts(settings: Settings) -> Iterator[Remark]:
    """Only Flink 1 reads them."""
    config = settings.config
    most, each = config.max_buffers_per_channel, config.exclusive_buffers_per_channel
    if most == 1:
        message = "is 1: the one buffer of a channel is the one being written, so that no record is ever sent"
        yield settings.remark("error", "no-buffers", "max_buffers_per_channel", message, "10 is the default")
    elif most < each:
        message = f"is {most}, less than buffers-per-channel, {each}: a channel cannot use what is set aside"
        yield settings.remark("warning", "no-buffers", "max_buffers_per_channel", message)
    if each == 0 and settings.gives("exclusive_buffers_per_channel"):
        message = "is 0: a channel that begins to send asks for its first buffer, a round trip more"
        yield settings.remark("note", "no-exclusive", "exclusive_buffers_per_channel", message)


def _flushing(settings: Settings) -> Iterator[Remark]:
    config = settings.config
    if not settings.gives("buffer_timeout_interval_s"):
        return
    if not config.buffer_timeout_enabled:
        message = f"does nothing while {settings.spelt('buffer_timeout_enabled')} is false"
        yield settings.remark("warning", "no-flushing", "buffer_timeout_interval_s", message)
    elif config.buffer_timeout_interval_s == 0 and not config.debloat_enabled:
        message = "is 0: each record is sent by itself, in a buffer of its own, which costs throughput"
        yield settings.remark("note", "each-record", "buffer_timeout_interval_s", message)


def _backoff(settings: Settings) -> Iterator[Remark]:
    first, most = settings.whole(f"{_BACKOFF}.initial"), settings.whole(f"{_BACKOFF}.max")
    if first is not None and most is not None and first > most:
        message = f"is {first} ms, more than the longest, {most} ms"
        yield settings.remark("error", "out-of-range", f"{_BACKOFF}.initial", message)


_DEBLOATING = (_sizes, _threshold, _flushes, _inertia, _parallelism, _single_records)
_CHECKPOINTS = (_unaligned, _aligned_timeout, _times, _storage, _no_interval)
_MEMORY = (_bounds, _too_little, _required, _counts, _flushing, _backoff)


def about_combinations(settings: Settings) -> Iterator[Remark]:
    """Yield what is found; of debloating, where that is off, nothing but settings without effect."""
    debloating = _DEBLOATING if settings.config.debloat_enabled else (_off,)
    for rule in (*debloating, *_CHECKPOINTS, *_MEMORY):
        yield from rule(settings)
