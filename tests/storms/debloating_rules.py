"""Debloating held against Flink's arithmetic, in other words, step by step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from flowcontrol import POLICIES, Announcement, DebloatedChannel, DebloatPolicy, DebloatSettings

from .storm_operators import Broken

CHECKED_POLICY = f"{__name__}:CheckedDebloating"
"""The name of Flink's policy under observation."""

_SLACK_BYTES = 1.0
"""What is announced is rounded."""


class CheckedDebloating(DebloatPolicy):
    """Flink's policy, whose sizes are calculated once more."""

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self._policy = POLICIES["flink"](settings)
        self._size = float(settings.starting_size)
        self._told = settings.starting_size

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take one step as Flink does.

        Raises:
            Broken: the size is another one than throughput and buffers in use make it.
        """
        announcements = list(self._policy.recalculate(throughput, channels, now))
        self.last_announced = self._policy.last_announced
        self.estimated_time_s = self._policy.estimated_time_s
        self._step(throughput, sum(channel.buffers_in_use for channel in channels))
        self._check(announcements)
        return announcements

    def _step(self, throughput: int, in_use: int) -> None:
        settings = self.settings
        # Whole bytes, as growth doubles what is left out here.
        in_time = throughput * round(1000 * settings.target_s) // 1000
        wanted = in_time / max(1, in_use)
        weight = 2 / (settings.samples + 1)
        moved = (1 - weight) * self._size + weight * min(wanted, 2 * self._size)
        self._size = min(max(moved, settings.min_size), settings.max_size)

    def _check(self, announcements: Sequence[Announcement]) -> None:
        settings, before = self.settings, self._told
        changed = abs(self._size - before)
        at_bound = self._size <= settings.min_size or self._size >= settings.max_size
        worth = math.floor(before * settings.threshold_percent / 100)
        if not announcements:
            if changed > worth + _SLACK_BYTES or (at_bound and changed > _SLACK_BYTES):
                raise Broken(f"debloating keeps {before} bytes, and {self._size:.1f} are due")
            return
        self._told = announcements[0][1]
        if abs(self._told - self._size) > _SLACK_BYTES:
            raise Broken(f"debloating announces {self._told} bytes, and {self._size:.1f} are due")
