"""Settings that several tests of whole jobs run under."""

from typing import Any

from netstack import CheckpointMode, CostModel

EXACT = CostModel(
    source_record_s=0.0,
    consumer_buffer_s=0.0,
    consumer_record_s=0.0,
    after_sleep_s=0.0,
    oversleep_s=0.0,
    wake_up_s=0.0,
    notify_s=0.0,
    wire_s=0.0,
    wire_message_s=0.0,
    wire_rate_bytes_per_s=1e15,
    trigger_s=(0.0, 0.0),
    trigger_per_source_s=0.0,
    sync_s=(0.0, 0.0),
    ack_s=(0.0, 0.0),
    jitter_sigma=0.0,
)
"""A machine whose only cost is what a scenario says, so that times can be computed by hand."""

MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "at least once": {"checkpoint_mode": CheckpointMode.AT_LEAST_ONCE},
    "unaligned": {"unaligned_enabled": True},
    "aligned with timeout": {"unaligned_enabled": True, "aligned_checkpoint_timeout_s": 0.03},
}
"""The ways to take a checkpoint, as fields of `NetworkConfig`."""

EXACTLY_ONCE = [mode for mode in MODES if mode != "at least once"]
