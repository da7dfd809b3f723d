"""Rules about debloating: combinations in which it cannot work, or something else defeats it."""

from __future__ import annotations

from collections.abc import Iterator

from netstack import format_duration, format_size

from .catalogue import PARALLELISM
from .findings import Finding, Settings

HIGH_PARALLELISM = 200
"""Above it, Flink's documentation warns, debloating may not work with the default counts of buffers."""

SLOW_S = 30.0
"""A size that takes longer than this to follow a change of load is worth a word."""

_TUNING = ("debloat_period_s", "debloat_target_s", "debloat_samples", "debloat_threshold_percent")


def about_debloating(settings: Settings) -> Iterator[Finding]:
    """Yield what is found; nothing but settings without effect where debloating is off."""
    if not settings.config.debloat_enabled:
        yield from _off(settings)
        return
    for rule in (_sizes, _threshold, _flushes, _inertia, _parallelism, _single_records):
        yield from rule(settings)


def _off(settings: Settings) -> Iterator[Finding]:
    said = " while taskmanager.network.memory.buffer-debloat.enabled is false, its default"
    for field in _TUNING:
        if settings.gives(field):
            yield settings.finding("warning", "debloating-off", field, f"changes nothing{said}")
    for field in ("min_segment_bytes", "starting_segment_bytes"):
        if settings.gives(field):
            yield settings.finding("note", "debloating-off", field, f"changes nothing{said}")


def _sizes(settings: Settings) -> Iterator[Finding]:
    """Between the least and the greatest size there must be room."""
    config = settings.config
    if config.min_segment_bytes == config.segment_bytes:
        message = (
            f"is {format_size(config.min_segment_bytes)}, as much as a segment: no buffer can become smaller"
        )
        yield settings.finding("warning", "debloating-defeated", "min_segment_bytes", message, "lower it")
    if settings.gives("starting_segment_bytes") and config.starting_segment_bytes < config.min_segment_bytes:
        message = f"is less than min-segment-size, {format_size(config.min_segment_bytes)}"
        advice = "raise it to that; the first sizes lie below the least one"
        yield settings.finding("note", "start-below-minimum", "starting_segment_bytes", message, advice)


def _threshold(settings: Settings) -> Iterator[Finding]:
    """A size is announced if it differs from the announced one by the threshold (BufferDebloater)."""
    percent = settings.config.debloat_threshold_percent
    if percent == 100:  # what is more is remarked wherever it stands
        message = (
            f"is {percent}: no size is smaller than another by so much, so a smaller one is told "
            "only when it has come to the least"
        )
        yield settings.finding(
            "warning", "debloating-defeated", "debloat_threshold_percent", message, "25 is the default"
        )


def _flushes(settings: Settings) -> Iterator[Finding]:
    timeout = settings.config.buffer_timeout_s
    target = settings.config.debloat_target_s
    if timeout == 0:
        message = "0 sends each record in a buffer of its own, whose size debloating cannot change"
        yield settings.finding(
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
        yield settings.finding(
            "note", "timeout-above-target", "debloat_target_s", message, "debloating cannot shorten that"
        )


def _inertia(settings: Settings) -> Iterator[Finding]:
    """The moving average takes some (samples + 1) / 2 periods for most of a change."""
    config = settings.config
    follows_s = config.debloat_period_s * (config.debloat_samples + 1) / 2
    if follows_s > SLOW_S:
        field = "debloat_samples" if settings.gives("debloat_samples") else "debloat_period_s"
        message = (
            f"sizes follow a change of load in about {follows_s:.0f} s "
            f"({config.debloat_samples} samples, one each {format_duration(config.debloat_period_s)})"
        )
        yield settings.finding(
            "warning", "slow-debloating", field, message, "fewer samples, or a shorter period"
        )


def _parallelism(settings: Settings) -> Iterator[Finding]:
    parallelism = settings.whole(PARALLELISM)
    floating = settings.config.floating_buffers_per_gate
    if parallelism is None or parallelism <= HIGH_PARALLELISM or floating >= parallelism:
        return
    message = f"is {parallelism}: above about {HIGH_PARALLELISM}, debloating may choose wrong sizes"
    if settings.is_flink_1:
        advice = f"raise floating-buffers-per-gate, {floating}, to the parallelism"
    else:
        advice = f"the remedy of 1.x, as many floating buffers, is gone: Flink 2 has {floating}"
    yield settings.finding("warning", "debloating-parallelism", PARALLELISM, message, advice)


def _single_records(settings: Settings) -> Iterator[Finding]:
    """A record that needs many small buffers blocks its task unless it may overdraw its pool."""
    if settings.config.max_overdraft_buffers_per_gate == 0:
        message = "is 0, and debloated buffers may be smaller than a record: a task stops within the record"
        yield settings.finding(
            "warning",
            "no-overdraft",
            "max_overdraft_buffers_per_gate",
            message,
            "5 is the default; or raise min-segment-size to a record",
        )
