"""What many storms come to."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from .storm_outcome import Outcome


class Tally:
    """What many storms come to; `done_before` of them were run before, which `failed` counts too."""

    def __init__(self) -> None:
        self.storms = 0
        self.done_before = 0
        self.failed: list[int] = []
        self._ends: Counter[str] = Counter()
        self._restarts = 0
        self._restored = 0
        self._completed = 0
        self._aborted = 0
        self._faults = 0

    def add(self, outcome: Outcome) -> None:
        """Count one storm."""
        self.storms += 1
        if outcome.problems:
            self.failed.append(outcome.seed)
        completed = outcome.checkpoints["COMPLETED"]
        self._ends[outcome.end] += 1
        self._restarts += outcome.restarts
        self._restored += outcome.restored_bytes > 0
        self._completed += completed
        self._aborted += outcome.checkpoints.total() - completed
        self._faults += len(outcome.fired)

    def failed_before(self, seed: int) -> None:
        """Count a storm that has failed before."""
        self.failed.append(seed)

    def print(self, console: Console) -> None:
        """Print what was run and how many failed."""
        ends = ", ".join(f"{number} {end}" for end, number in sorted(self._ends.items()))
        lines = [
            f"{self.storms} storms: {ends or 'none was left'}",
            f"{self._faults} faults, {self._restarts} restarts; data in flight restored: {self._restored}",
            f"{self._completed} checkpoints completed, {self._aborted} did not",
            f"wrong: {', '.join(map(str, sorted(self.failed))) or 'none'}",
        ]
        if self.done_before:
            lines[0] += f"; {self.done_before} were done before"
        console.print(Text("\n".join(lines)), soft_wrap=True)
