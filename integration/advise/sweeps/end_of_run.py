"""Decision when a run ends: once its figures have settled and its window has enough checkpoints.

A run has the duration of its scenario, with two exceptions.

- **It ends sooner** once its figures have settled: at least five checkpoints have completed in its window;
  their mean time is precise to 5 % and the mean throughput to 2 % with a confidence of 95 %; and neither
  differs by more than that between the halves of the window. This holds only for a job that does not change
  with time: no faults or requests, no step of a service time in the window, no files.
- **It goes on** while its window holds fewer than ten completed checkpoints, unless their times have settled
  as above. Checkpoints of six seconds at an interval of two are an example. It stops if no checkpoint has
  completed within twice the requested window, and after 20 minutes at the latest.

The more checkpoints differ, the more of them are needed: five settle only if they spread by at most 4 %,
twenty if by at most 10 %. If a checkpoint takes ten seconds, as in a job of 100x100, ending at five
halves the run. Differences of 5 % between checkpoint times count as none (`choice.SAME_SHARE`).

So each setting gets the window that it needs, not the window of the slowest setting. Most compared figures
are rates and means, which the length of a window changes only by chance. A 95th percentile of few values is a
little low. Once times have settled, this error is smaller than their uncertainty.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netstack import GeneratorSpec, Recorder, Scenario

from ...runs.run_lengths import periods_s
from .confidence import LEAST_PRECISE, is_precise

LEAST_CHECKPOINTS = 10
"""Minimum number of completed checkpoints in a window. Fewer suffice once their times have settled."""
SETTLED_CHECKPOINTS = LEAST_PRECISE
"""Minimum number of completed checkpoints for their times to count as settled."""
SETTLED_TIME, SETTLED_RATE = 0.05, 0.02
"""A mean time, or a mean throughput, has settled if its relative error is at most this."""
MOST_WINDOW_S = 1200.0
"""Maximum length of a window, in seconds. A window with too few checkpoints is then reported as such."""

_SAMPLE_S = 1.0
"""Emulated seconds between two samples."""
_BATCHES = 10
"""Number of parts of the window whose throughputs are compared."""
_LEAST_WINDOW_S = 20.0
"""Minimum length of a window, in seconds. A shorter one has too few samples for a rate or a delay."""
_LEAST_PERIODS = 5
"""Minimum number of periods of a repeating load, such as the firings of a window, in a measured window."""


class EndOnceSettled:
    """Decides when a run ends, by its recorded figures; passed to `emulate` as `end_of_run`."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._begin = scenario.windows[-1][0]
        self._may_end_sooner = _is_steady(scenario)
        self._least_window_s = max(
            [_LEAST_WINDOW_S, *(_LEAST_PERIODS * each for each in periods_s(scenario))]
        )
        outputs = {edge.source for edge in scenario.edges}
        self._last = [number for number, vertex in enumerate(scenario.vertices) if vertex.name not in outputs]

    def __call__(self, recorder: Recorder) -> float:
        """Return when the run is to end, in emulated seconds."""
        now, asked = float(recorder.times[-1]), self._scenario.duration_s
        if now + _SAMPLE_S < asked:
            ends_sooner = self._may_end_sooner and self._has_settled(recorder, now)
            return now + _SAMPLE_S if ends_sooner else asked
        if self._says_enough(recorder, now):
            return asked if now < asked else now + _SAMPLE_S
        return now + 2 * _SAMPLE_S  # the run asks again before that

    def _says_enough(self, recorder: Recorder, now: float) -> bool:
        """Whether the window holds enough checkpoints, or a longer window would not hold more."""
        scenario = self._scenario
        _, end = scenario.windows[-1]
        may_grow = scenario.config.checkpoint_interval_s is not None and end == scenario.duration_s
        if not may_grow or now - self._begin >= MOST_WINDOW_S:
            return True
        completed = self._completed(recorder)
        if len(completed) >= LEAST_CHECKPOINTS or (self._may_end_sooner and _have_settled(completed)):
            return True
        latest = max((at + duration for at, duration in completed), default=self._begin)
        return now - latest >= 2 * (scenario.duration_s - self._begin)

    def _has_settled(self, recorder: Recorder, now: float) -> bool:
        if now - self._begin < self._least_window_s:
            return False
        takes_checkpoints = self._scenario.config.checkpoint_interval_s is not None
        if takes_checkpoints and not _have_settled(self._completed(recorder)):
            return False
        return is_settled(self._rates(recorder), SETTLED_RATE)

    def _completed(self, recorder: Recorder) -> list[tuple[float, float]]:
        """Return the trigger time and the duration of each completed checkpoint of the window."""
        return [
            (head.triggered_at, head.duration_s)
            for head in recorder.checkpoints
            if head.duration_s is not None and head.triggered_at >= self._begin
        ]

    def _rates(self, recorder: Recorder) -> NDArray[np.float64]:
        """Return the records per second into the last vertices, for each of `_BATCHES` parts of a window."""
        times = recorder.times
        inside = times >= self._begin
        read = np.sum(
            [recorder.samples_of(number)["records_in"].sum(axis=0) for number in self._last], axis=0
        )
        ends = np.linspace(times[inside][0], times[-1], _BATCHES + 1)
        rates: NDArray[np.float64] = np.diff(np.interp(ends, times, read)) / np.diff(ends)
        return rates


def _have_settled(completed: Sequence[tuple[float, float]]) -> bool:
    return is_settled(np.array([duration for _, duration in completed]), SETTLED_TIME)


def is_settled(values: NDArray[np.float64], share: float) -> bool:
    """Return whether the mean of values, in order of time, is precise to `share` and does not drift.

    Return False for fewer than `SETTLED_CHECKPOINTS` values.
    """
    if len(values) < SETTLED_CHECKPOINTS:
        return False
    mean = float(values.mean())
    if not mean > 0.0:
        return False
    allowed = share * mean
    half = len(values) // 2
    drift = abs(float(values[:half].mean() - values[-half:].mean()))
    return is_precise(values, allowed) and drift <= allowed


def _is_steady(scenario: Scenario) -> bool:
    """Whether nothing in a job's scenario changes with time once its last window has begun."""
    begin, end = scenario.windows[-1]
    vertices, edges = scenario.vertices, scenario.edges
    steps = [vertex.service for vertex in vertices] + [edge.service or () for edge in edges]
    return not (
        end < scenario.duration_s
        or scenario.faults
        or scenario.manual_checkpoints_s
        or any(at > begin for service in steps for at, _ in service)
        or any(not isinstance(vertex.source, GeneratorSpec | None) for vertex in vertices)
    )
