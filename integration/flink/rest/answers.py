"""What answers to the paths of Flink's REST API: a cluster that is asked now, or a recording of one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

from netstack import ScenarioError

WITH_VALUES = "/metrics?get="
"""In the path of a request for values of metrics, whose names follow."""


class FlinkRestError(ScenarioError):
    """A Flink cluster cannot be read, or shows too little; `problems` has a line for each reason."""

    def __init__(self, *problems: str) -> None:
        super().__init__(problems)


class Refused(NamedTuple):
    """An answer that is none: its status, and what is said of it."""

    code: int
    text: str


def number(value: object) -> float | None:
    """Return a value as Flink writes it; None for NaN, which a task gives for what it does not measure."""
    try:
        parsed = float(str(value))
    except ValueError:
        return None
    return parsed if math.isfinite(parsed) else None


class Answers(Protocol):
    """A cluster, as far as it can be read."""

    name: str
    """How it is called wherever it is spoken of: its address, or the file."""

    def answer(self, path: str) -> Any | Refused:
        """Return what answers to a path, as JSON.

        Raises:
            FlinkRestError: nobody answers, or not with JSON.
        """

    def pause(self, seconds: float) -> None:
        """Wait until the cluster has gone on for so long."""

    def clock(self) -> float:
        """Return the time of the last answer, in seconds from any moment."""
