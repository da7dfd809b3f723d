"""The error of the emulation that is known for a kind of job, and the band of what a real Flink may show.

Settings that were predicted and then set in a real Flink (docs/FIDELITY.md) tell how far predictions of a
kind of job are off. If the job itself was read from Flink, its present checkpoints tell more: another setting
may be off by as much as the present one is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import hypot
from typing import NamedTuple

import msgspec

from netstack import GeneratorSpec, Scenario

from ...runs.job_load import course_s
from ..sweeps.confidence import Estimate


class Band(NamedTuple):
    """The least and the greatest value that a figure may have in a real Flink."""

    low: float
    high: float


class ModelError(msgspec.Struct, frozen=True, kw_only=True):
    """Largest differences to expect between the figures of a real Flink and the emulated ones."""

    why: str | None = None
    """The reason why the error is greater than usual, as a clause; None: it is the usual one."""
    least: float = 0.9
    """The shortest time to expect, as a multiple of the emulated one."""
    most: float = 1.1
    """The longest time to expect, as a multiple of the emulated one."""
    more_ms: float = 15.0
    """The time by which a short time may be longer, in milliseconds."""
    lost: float = 0.015
    """The greatest further loss of throughput to expect, as a share of the present one."""
    gained: float = 0.015
    """The greatest further gain of throughput to expect, as a share of the present one."""

    def of_time(self, emulated: Estimate) -> Band:
        """Return the band of a time, from the interval over seeds and the error of the emulation."""
        longer = max(self.more_ms, emulated.mean * (self.most - 1))
        return self._band(emulated, emulated.mean * (1 - self.least), longer)

    def of_share(self, emulated: Estimate) -> Band:
        """Return the band of a throughput as a share of the present one."""
        return self._band(emulated, self.lost, self.gained)

    def _band(self, emulated: Estimate, below: float, above: float) -> Band:
        mean = emulated.mean
        low, high = mean - hypot(mean - emulated.least, below), mean + hypot(emulated.greatest - mean, above)
        return Band(max(0.0, low), high)


NO_ERROR = ModelError(least=1.0, most=1.0, more_ms=0.0, lost=0.0, gained=0.0)
"""The error of a perfect emulation."""


def model_error(scenario: Scenario) -> ModelError:
    """Return the known error for a job: the greatest of those of its kinds."""
    found = ModelError()
    for error in (error for is_kind, error in _KINDS if is_kind(scenario)):
        why = error.why if found.why is None else f"{found.why}, and {error.why}"
        found = ModelError(
            why=why,
            least=min(found.least, error.least),
            most=max(found.most, error.most),
            more_ms=max(found.more_ms, error.more_ms),
            lost=max(found.lost, error.lost),
            gained=max(found.gained, error.gained),
        )
    return found


def with_measured(error: ModelError, measured_ms: float | None, emulated_ms: float | None) -> ModelError:
    """Return an error that is at least that of the present setting; None: a time is unknown."""
    if not measured_ms or not emulated_ms:
        return error
    ratio = measured_ms / emulated_ms
    if error.least <= ratio <= error.most or abs(measured_ms - emulated_ms) <= error.more_ms:
        return error
    why = "the emulation of the present setting is off by as much"
    why = why if error.why is None else f"{error.why}, and {why}"
    return msgspec.structs.replace(error, why=why, least=min(error.least, ratio), most=max(error.most, ratio))


def _changes(scenario: Scenario) -> bool:
    return course_s(scenario) > 0


def _fires(scenario: Scenario) -> bool:
    return any(vertex.emit_every_s is not None for vertex in scenario.vertices)


def _joins(scenario: Scenario) -> bool:
    inputs: dict[str, set[int]] = {}
    for edge in scenario.edges:
        if edge.strategy.by_key:
            inputs.setdefault(edge.target, set()).add(edge.input)
    return any(len(each) > 1 for each in inputs.values())


def _has_large_records(scenario: Scenario) -> bool:
    return any(size > scenario.config.segment_bytes for size in _record_sizes(scenario))


def _record_sizes(scenario: Scenario) -> Iterator[int]:
    for vertex in scenario.vertices:
        if isinstance(vertex.source, GeneratorSpec):
            yield vertex.source.record_bytes
        if vertex.record_bytes is not None:
            yield vertex.record_bytes


def _is_cpu_bound(scenario: Scenario) -> bool:
    return any(vertex.burns for vertex in scenario.vertices)


_KINDS: tuple[tuple[Callable[[Scenario], bool], ModelError], ...] = (
    (_changes, ModelError(why="its costs or its load change", least=0.85, most=1.9, lost=0.02, gained=0.07)),
    (_fires, ModelError(why="its windows fire at once", least=0.8, most=1.7, lost=0.1)),
    (_joins, ModelError(why="a join costs more or less as its state grows", least=0.85, most=2.1, lost=0.08)),
    (
        _has_large_records,
        ModelError(why="its records are larger than a buffer", least=0.85, most=1.2, lost=0.025),
    ),
    (
        _is_cpu_bound,
        ModelError(why="its work is CPU-bound", least=0.8, most=1.2, more_ms=110.0, lost=0.05, gained=0.03),
    ),
)
"""The kinds of jobs with a greater error than usual. The ends are those of the settings that were proved."""
