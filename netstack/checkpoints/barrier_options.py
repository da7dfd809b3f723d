"""How the barriers of a job's checkpoints are to be treated."""

from __future__ import annotations

from flowcontrol import Alignment, CheckpointOptions

from ..scenarios.config import CheckpointMode, NetworkConfig


def options_of_barriers(config: NetworkConfig) -> CheckpointOptions:
    """How the checkpoints of a job are taken (Flink's CheckpointOptions.forConfig)."""
    if config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
        return CheckpointOptions(Alignment.AT_LEAST_ONCE)
    if not config.takes_unaligned_checkpoints:
        return CheckpointOptions()
    if not config.aligned_checkpoint_timeout_s:
        return CheckpointOptions(Alignment.UNALIGNED)
    return CheckpointOptions(Alignment.ALIGNED, config.aligned_checkpoint_timeout_s)
