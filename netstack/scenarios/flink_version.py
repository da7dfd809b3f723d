"""Versions of Flink, as numbers that can be compared."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["NEWEST_FLINK", "FlinkVersion"]


class FlinkVersion(NamedTuple):
    """A version of Flink: major and minor number."""

    major: int
    minor: int

    @classmethod
    def of(cls, text: str) -> FlinkVersion:
        """Return the version in a text such as "2.2.1" or "flink-2.2"; without numbers, the newest."""
        numbers = [int(number) for number in re.findall(r"\d+", text)[:2]]
        return cls(numbers[0], numbers[1] if len(numbers) > 1 else 0) if numbers else NEWEST_FLINK

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


NEWEST_FLINK = FlinkVersion(2, 3)
"""The newest version that netstack knows."""
