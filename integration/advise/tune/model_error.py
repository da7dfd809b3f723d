"""The error of the emulation that is known for a kind of job, and the band of what a real Flink may show.

Settings that were predicted and then set in a real Flink (docs/FIDELITY.md) show how far predictions of a
kind of job are off. If the job itself was read from Flink, its present checkpoints show more: another setting
may be off by as much as the present one is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import hypot
from statistics import fmean
from typing import NamedTuple

import msgspec

from netstack import GeneratorSpec, Scenario

from ...runs.job_load import course_s
from ...runs.quantities import END_TO_END
from ...runs.reference_comparison import tolerance
from ..diagnose.headroom import varies
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
    """Minimum margin above an emulated time, in ms; it matters for short times."""
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


def with_measured(error: ModelError, times_ms: Sequence[float], emulated_ms: float | None) -> ModelError:
    """Return an error that is at least that of the present setting.

    `times_ms` are the times of its checkpoints in a real Flink; empty: unknown. `emulated_ms` is their
    emulated mean; None: none completes.
    """
    if not times_ms or (emulated_ms is not None and agrees(emulated_ms, times_ms)):
        return error
    why = "the emulated checkpoints of the present setting differ from Flink's"
    why = why if error.why is None else f"{error.why}, and {why}"
    ratio = fmean(times_ms) / emulated_ms if emulated_ms else 1.0
    return msgspec.structs.replace(error, why=why, least=min(error.least, ratio), most=max(error.most, ratio))


def agrees(emulated_ms: float, times_ms: Sequence[float]) -> bool:
    """Return whether the emulated mean of checkpoint times agrees with the times of a real Flink.

    It is within the tolerance of a comparison with Flink, or in the range of the times.
    """
    mean_ms = fmean(times_ms)
    is_near = abs(emulated_ms - mean_ms) <= tolerance(END_TO_END, mean_ms, 0.0)
    return is_near or min(times_ms) <= emulated_ms <= max(times_ms)


def _changes(scenario: Scenario) -> bool:
    return course_s(scenario) > 0 or varies(scenario)


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
    (_joins, ModelError(why="the cost of its join may change", least=0.85, most=2.1, lost=0.08)),
    (
        _has_large_records,
        ModelError(why="its records are larger than a buffer", least=0.85, most=1.2, lost=0.025),
    ),
    (
        _is_cpu_bound,
        ModelError(why="its work is CPU-bound", least=0.8, most=1.2, more_ms=110.0, lost=0.06, gained=0.03),
    ),
)
"""The kinds of jobs with a greater error than usual. Each range covers the differences in docs/FIDELITY.md,
with a margin.
"""
