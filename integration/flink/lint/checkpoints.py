"""Rules about checkpoints: combinations that cannot work, or of which one part does nothing."""

from __future__ import annotations

from collections.abc import Iterator

from netstack import CheckpointStorageType, format_duration

from .findings import Finding, Settings

_BACKLOG = "execution.checkpointing.interval-during-backlog"


def about_checkpoints(settings: Settings) -> Iterator[Finding]:
    """Yield what is found."""
    for rule in (_unaligned, _aligned_timeout, _times, _storage, _no_interval):
        yield from rule(settings)


def _unaligned(settings: Settings) -> Iterator[Finding]:
    config = settings.config
    if config.unaligned_enabled and not config.takes_unaligned_checkpoints:
        message = f"does nothing: the mode is {config.checkpoint_mode}, and only EXACTLY_ONCE knows it"
        yield settings.finding("warning", "no-unaligned", "unaligned_enabled", message, "drop one of the two")
    if not config.unaligned_enabled:
        for field in (
            "aligned_checkpoint_timeout_s",
            "unaligned_forced",
            "max_subtasks_per_channel_state_file",
        ):
            if settings.gives(field):
                message = f"does nothing without {settings.spelt('unaligned_enabled')} = true"
                yield settings.finding("warning", "no-unaligned", field, message)


def _aligned_timeout(settings: Settings) -> Iterator[Finding]:
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
        yield settings.finding("warning", "never-unaligned", field, message, "make it shorter")
    elif config.debloat_enabled and timeout < config.debloat_target_s:
        message = (
            f"is {format_duration(timeout)}, less than the debloat target, "
            f"{format_duration(config.debloat_target_s)}: "
            "each checkpoint under back-pressure becomes unaligned"
        )
        advice = "make it longer than the target for each exchange on the way, or drop it"
        yield settings.finding("warning", "always-unaligned", field, message, advice)


def _times(settings: Settings) -> Iterator[Finding]:
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
        yield settings.finding("warning", "timeout-below-target", "checkpoint_timeout_s", message)
    interval = config.checkpoint_interval_s
    if interval is not None and pause > interval:
        message = (
            f"is {format_duration(pause)}, longer than the interval, {format_duration(interval)}, "
            "which then decides nothing"
        )
        yield settings.finding("note", "pause-above-interval", "checkpoint_min_pause_s", message)
    backlog = settings.others.get(_BACKLOG)
    if interval is not None and isinstance(backlog, int | float) and 0 < backlog < interval:
        message = f"must be 0 or at least the interval, {format_duration(interval)}"
        yield settings.finding("error", "out-of-range", _BACKLOG, message)


def _storage(settings: Settings) -> Iterator[Finding]:
    config = settings.config
    if config.checkpoint_dir is not None and config.checkpoint_storage is CheckpointStorageType.JOBMANAGER:
        message = "holds the metadata only: the storage is jobmanager"
        yield settings.finding("note", "storage", "checkpoint_dir", message)


def _no_interval(settings: Settings) -> Iterator[Finding]:
    """Options of checkpoints are no mistake without an interval: the job may give one in its code."""
    if settings.gives("checkpoint_interval_s") or not settings.gives("unaligned_enabled"):
        return
    message = "takes effect only if the job itself sets an interval: this file has none"
    yield settings.finding("note", "no-interval", "unaligned_enabled", message)
