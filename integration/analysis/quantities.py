"""The quantities by which two runs of one scenario are compared, taken from their documents.

A run is a document, ours or a real Flink's: both have ``steady`` and ``checkpoints`` in one layout, and are
measured by the same functions. Vertices are told by their place, since Flink renames them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

Run = Mapping[str, Any]
Block = Mapping[str, Any]
"""One window of a run's ``steady``."""

THROUGHPUT = "throughput"
START_DELAY = "mean start delay"
ALIGNMENT = "slowest alignment"
END_TO_END = "end to end"
BUFFER_SIZE = "smallest buffer"
PERSISTED = "persisted in flight"

UNITS = {
    THROUGHPUT: "rec/s",
    START_DELAY: "ms",
    ALIGNMENT: "ms",
    END_TO_END: "ms",
    BUFFER_SIZE: "bytes",
    PERSISTED: "bytes",
}


class Window(NamedTuple):
    """A phase, in seconds."""

    from_s: float
    to_s: float

    def __str__(self) -> str:
        return f"{self.from_s:g}-{self.to_s:g} s"


class Subject(NamedTuple):
    """What a number is about: a window, a vertex by its place (None: the whole job), and a quantity."""

    window: Window
    vertex: int | None
    quantity: str


def windows(run: Run) -> list[Window]:
    """Return the phases of a run."""
    return [Window(block["from_s"], block["to_s"]) for block in run["steady"]]


def measure(run: Run, operators: Iterable[int]) -> dict[Subject, float]:
    """Return all quantities of a run that it has a number for; `operators` are the vertices with input."""
    found: dict[Subject, float | None] = {}
    places = list(operators)
    for window, block in zip(windows(run), run["steady"], strict=True):
        found[Subject(window, None, END_TO_END)] = block["end_to_end_ms"]
        found[Subject(window, None, PERSISTED)] = block["persisted_bytes"] or None
        checkpoints = checkpoints_in(run, window)
        for place in places:
            vertex = block["vertices"][place]
            found[Subject(window, place, THROUGHPUT)] = _total(vertex["records_in_per_s"])
            found[Subject(window, place, START_DELAY)] = _mean_start_delay(checkpoints, place)
            found[Subject(window, place, ALIGNMENT)] = vertex["alignment_ms_max_subtask"]
            found[Subject(window, place, BUFFER_SIZE)] = _least(vertex.get("debloatedBufferSize"))
    return {subject: value for subject, value in found.items() if value is not None}


def checkpoints_in(run: Run, window: Window) -> list[Mapping[str, Any]]:
    """Return the completed checkpoints triggered in a window."""
    return [
        checkpoint
        for checkpoint in run["checkpoints"]
        if checkpoint.get("status", "COMPLETED") == "COMPLETED"
        and window.from_s <= checkpoint["t"] <= window.to_s
    ]


def buffer_time_ms(block: Block, place: int, segment_bytes: int) -> float:
    """Return how long a vertex takes for one buffer: its bytes over the rate at which they are read.

    A buffer has the debloated size where there is one, else the segment's. Median over subtasks; 0 where
    nothing is read.
    """
    vertex = block["vertices"][place]
    rates = vertex["bytes_in_per_s"]
    sizes = vertex.get("debloatedBufferSize") or [None] * len(rates)
    times = [(size or segment_bytes) / rate * 1e3 for size, rate in zip(sizes, rates, strict=True) if rate]
    return median(times) if times else 0.0


def _mean_start_delay(checkpoints: Sequence[Mapping[str, Any]], place: int) -> float | None:
    """Median over checkpoints of the mean over a vertex's subtasks."""
    delays = [_known(checkpoint["vertices"][place]["start_delay_ms"]) for checkpoint in checkpoints]
    means = [sum(own) / len(own) for own in delays if own]
    return median(means) if means else None


def _total(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return sum(known) if known else None


def _least(values: Sequence[float | None] | None) -> float | None:
    return min(_known(values or []), default=None)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
