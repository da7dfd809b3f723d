"""A rule of the family as a policy; this module has one of every rule's name, made when it is asked for.

Announcements are counted for all gates of this process together, since their number is one of the objectives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from flowcontrol import (
    Announcement,
    BufferSizeEMA,
    DebloatedChannel,
    DebloatPolicy,
    DebloatSettings,
    to_all,
)

from .rules import FLINK, Rule, named


class Announced:
    """How many sizes gates have announced to channels."""

    total = 0


class RulePolicy(DebloatPolicy):
    """FLIP-183's arithmetic with the choices of `rule`."""

    rule: ClassVar[Rule] = FLINK

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        chosen = replace(settings, samples=self.rule.samples, threshold_percent=self.rule.tell_percent)
        self._debloater = chosen.debloater(_jumping(self.rule.jump_percent / 100))
        half_life_s = self.rule.half_life_s
        self._kept = 0.5 ** (settings.period_s / half_life_s) if half_life_s else 0.0
        self._in_use_before = 0
        self._before: dict[int, int] = {}
        self._peak = 0.0

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """One step, but where the rule takes none while a channel is blocked."""
        if self.rule.blocked == "held" and any(channel.blocked for channel in channels):
            return ()
        self._peak = max(float(self._count(channels)), self._peak * self._kept)
        size = self._debloater.recalculate(throughput, round(self._peak))
        self.last_announced = self._debloater.last_announced
        self.estimated_time_s = self._debloater.estimated_time_s
        if size is None:
            return ()
        Announced.total += len(channels)
        return to_all(size, channels)

    def _count(self, channels: Sequence[DebloatedChannel]) -> int:
        counts = [channel.buffers_in_use for channel in channels]
        if self.rule.counting == "longest":
            counts = self._frozen(channels, counts)
            return sum(count > 0 for count in counts) * max(counts, default=0)
        in_use = sum(counts)
        if self.rule.blocked == "frozen" and any(channel.blocked for channel in channels):
            return max(in_use, self._in_use_before)
        self._in_use_before = in_use
        return in_use

    def _frozen(self, channels: Sequence[DebloatedChannel], counts: list[int]) -> list[int]:
        """The counts; where the rule freezes them, of a blocked channel not less than before."""
        for place, channel in enumerate(channels):
            if channel.blocked and self.rule.blocked == "frozen":
                counts[place] = max(counts[place], self._before.get(place, 0))
            else:
                self._before[place] = counts[place]
        return counts


def _jumping(jump: float) -> type[BufferSizeEMA]:
    """An average that a size which is too large by a share of `jump` does not wait for; 0: it always does."""
    if not jump:
        return BufferSizeEMA

    class Jumping(BufferSizeEMA):
        __slots__ = ("_usual",)

        def __init__(self, starting_size: int, max_size: int, min_size: int, samples: int) -> None:
            super().__init__(starting_size, max_size, min_size, samples)
            self._usual = self.alpha

        def calculate(self, total_bytes: int, buffers: int) -> int:
            too_large = buffers > 0 and total_bytes / buffers < self._size * (1 - jump)
            self.alpha = 1.0 if too_large else self._usual
            return super().calculate(total_bytes, buffers)

    return Jumping


def __getattr__(name: str) -> type[RulePolicy]:
    try:
        rule = named(name)
    except ValueError as error:
        raise AttributeError(str(error)) from None
    return type(name, (RulePolicy,), {"rule": rule})
