"""Versions of Flink whose rules are known, and since when each name of an option is read.

The dates are those of Flink's own documentation of each version and of the tickets that brought names. A name
that is not listed is in all of these versions, as far as is known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from netstack import ScenarioError


class Version(NamedTuple):
    """A version of Flink, without its last number."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def preset(self) -> str:
        """The preset whose defaults hold."""
        return "flink-1.20" if self.major == 1 else "flink-2.2"


FIRST_OF_1, LAST_OF_1 = Version(1, 12), Version(1, 20)
FIRST_OF_2, LATEST = Version(2, 0), Version(2, 2)

STANDARD_YAML = Version(1, 19)
"""From this one on, Flink reads config.yaml; before, flink-conf.yaml alone."""

_DEBLOAT = "taskmanager.network.memory.buffer-debloat"
_CHECKPOINTS = "execution.checkpointing"
_BACKOFF = "restart-strategy.exponential-delay"
_HYBRID = "taskmanager.network.hybrid-shuffle"

_BY_VERSION: Mapping[Version, tuple[str, ...]] = {
    Version(1, 0): ("state.backend.fs.checkpointdir",),  # old already in the first of these versions
    Version(1, 13): (
        *("state.checkpoint-storage", "state.storage.fs.memory-threshold"),
        *(f"{_BACKOFF}.{end}" for end in ("initial-backoff", "max-backoff", "backoff-multiplier")),
        *(f"{_BACKOFF}.{end}" for end in ("reset-backoff-threshold", "jitter-factor")),
    ),
    Version(1, 14): (
        *(f"{_DEBLOAT}.{end}" for end in ("enabled", "period", "samples", "target", "threshold-percentages")),
        "taskmanager.memory.min-segment-size",
        f"{_CHECKPOINTS}.aligned-checkpoint-timeout",
        f"{_CHECKPOINTS}.checkpoints-after-tasks-finish.enabled",
    ),
    Version(1, 15): ("taskmanager.network.max-num-tcp-connections",),
    Version(1, 16): (
        "taskmanager.network.memory.max-overdraft-buffers-per-gate",
        "taskmanager.network.batch-shuffle.compression.enabled",
        *(f"{_HYBRID}.{end}" for end in ("num-retained-in-memory-regions-max",)),
        *(f"{_HYBRID}.spill-index-{end}" for end in ("region-group-size", "segment-size")),
    ),
    Version(1, 17): (
        "taskmanager.network.memory.read-buffer.required-per-gate.max",
        f"{_CHECKPOINTS}.unaligned.enabled",
        f"{_CHECKPOINTS}.unaligned.max-subtasks-per-channel-state-file",
        "restart-strategy.type",
    ),
    Version(1, 18): (
        "execution.buffer-timeout.enabled",
        "execution.buffer-timeout.interval",
        f"{_HYBRID}.enable-new-mode",
    ),
    Version(1, 19): (
        f"{_CHECKPOINTS}.interval-during-backlog",
        f"{_BACKOFF}.attempts-before-reset-backoff",
    ),
    Version(1, 20): (
        *(f"{_CHECKPOINTS}.{end}" for end in ("dir", "storage", "savepoint-dir", "num-retained")),
        *(f"{_CHECKPOINTS}.{end}" for end in ("incremental", "data-inline-threshold", "write-buffer-size")),
        *(f"{_CHECKPOINTS}.{end}" for end in ("create-subdir", "cleaner.parallel-mode")),
        *(f"{_CHECKPOINTS}.local-backup.{end}" for end in ("dirs", "enabled")),
        *(f"{_CHECKPOINTS}.file-merging.{end}" for end in ("enabled", "pool-blocking", "max-file-size")),
        f"{_CHECKPOINTS}.file-merging.across-checkpoint-boundary",
        f"{_CHECKPOINTS}.file-merging.max-space-amplification",
        f"{_CHECKPOINTS}.file-merging.max-subtasks-per-file",
        f"{_CHECKPOINTS}.unaligned.interruptible-timers.enabled",
        f"{_CHECKPOINTS}.checkpoints-after-tasks-finish",
        "taskmanager.network.memory.buffers-request-timeout",
        f"{_HYBRID}.memory-decoupling.enabled",
        f"{_HYBRID}.external-remote-tier-factory.class",
    ),
    Version(2, 0): ("taskmanager.memory.starting-segment-size",),
}

SINCE: Mapping[str, Version] = {name: version for version, names in _BY_VERSION.items() for name in names}
"""Of names that did not come, or get another in their place, before the first of these versions."""


def is_read(name: str, version: Version) -> bool:
    """Return whether a version knows this name of an option yet."""
    return SINCE.get(name, FIRST_OF_1) <= version


def read_version(text: str, given_by: str) -> Version:
    """Return the version that a text such as "2.2", "1.20.1" or "2" names; `given_by` is who gave it.

    Raises:
        ScenarioError: its rules are not known.
    """
    match = re.fullmatch(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?(?:\.[0-9]{1,4})?", text)
    if match is not None:
        last = LAST_OF_1 if match[1] == "1" else LATEST
        version = Version(int(match[1]), last.minor if match[2] is None else int(match[2]))
        if FIRST_OF_1 <= version <= LAST_OF_1 or FIRST_OF_2 <= version <= LATEST:
            return version
    raise ScenarioError(
        [
            f"{given_by} is {text!r}; it must be from {FIRST_OF_1} to {LAST_OF_1}, "
            f"or from {FIRST_OF_2} to {LATEST}"
        ]
    )
