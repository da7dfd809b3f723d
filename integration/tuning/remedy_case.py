"""What a remedy is, and what the rules for remedies look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from netstack import OPTIONS, Scenario

from .constraints import CHECKPOINTS, MAX_CHECKPOINT, MAX_DELAY, Constraints, Shortfall
from .summaries import TargetSummary

if TYPE_CHECKING:
    from .rows import PointRow


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """Something else to try."""

    name: str
    why: str
    measured: bool
    """Whether the sweep has run it; else it is reckoned, or emulated for the purpose."""
    configuration: list[str] = []
    """Lines for Flink's configuration file."""
    target: str | None = None
    """The debloat target that it goes with, where its lines name none; None: it needs none."""
    emulated_s: float | None = None
    """How long its emulation took; None: it was not tried, so it is reckoned if it was not measured."""


@dataclass(frozen=True, slots=True)
class Case:
    """What the rules look at: the figures of a sweep, and the constraints that rule out all of it."""

    scenario: Scenario
    rows: Sequence[PointRow]
    baseline: TargetSummary
    targets: Sequence[TargetSummary]
    constraints: Constraints
    binding: Sequence[str]

    @property
    def too_slow(self) -> bool:
        """Whether checkpoints or records take too long, whatever the target."""
        return bool({MAX_CHECKPOINT, MAX_DELAY, CHECKPOINTS} & set(self.binding))

    def shortfall(self, name: str) -> Shortfall | None:
        """That of a constraint by the setting that is nearest to it."""
        found = [one for target in self.targets for one in target.shortfalls if one.constraint == name]
        return min(found, key=lambda one: one.excess, default=None)

    @property
    def shortest(self) -> TargetSummary | None:
        """The shortest target that was measured."""
        return next((one for one in self.targets if one.seeds), None)


def line(field: str, text: str) -> str:
    """Return a line of Flink's configuration file, for a field of `NetworkConfig`."""
    return f"{OPTIONS[field].name}: {text}"
