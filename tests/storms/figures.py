"""Whether the figures of a storm's job are possible: counters, times, alignments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netstack import Job, ShipStrategy

from .case import StormCase

_SLACK_S = 1e-6
_WAKE_UPS = 10
"""A task takes less than so many of their median to wake up."""

_COUNTERS = ("records_in", "bytes_in", "buffers_in", "records_out", "bytes_out", "buffers_out")
_TIMES = ("busy_s", "backpressured_s", "idle_s")


def check_figures(case: StormCase, job: Job) -> Iterator[str]:
    """Counters never go back, and times are no longer than the run."""
    samples = [job.recorder.samples_of(number) for number in range(len(case.vertices))]
    if not len(job.recorder.times):
        return
    for vertex, figures in zip(case.vertices, samples, strict=True):
        for name in (*_COUNTERS, *_TIMES):
            if (np.diff(figures[name], axis=1) < -_SLACK_S).any():
                yield f"{name} of {vertex.name} goes back"
        booked = np.diff(np.sum([figures[name] for name in _TIMES], axis=0), axis=1, prepend=0.0)
        too_long = booked - np.diff(job.recorder.times, prepend=0.0)
        if too_long.max() > _SLACK_S:
            yield f"{vertex.name} was busy, held up or idle for {too_long.max():.6f} s more than there were"


def check_checkpoint_times(case: StormCase, job: Job) -> Iterator[str]:
    """No task has aligned a checkpoint for longer than its timeout, where barriers may overtake.

    The timeout wakes the task, which takes a moment, and the last barrier may come in that.
    """
    config = case.config
    if not config.takes_unaligned_checkpoints:
        return
    timeout = config.aligned_checkpoint_timeout_s
    latest = timeout + _WAKE_UPS * case.costs.wake_up_s + _SLACK_S
    for number, vertex in enumerate(case.vertices):
        parts = job.recorder.parts_of(number)
        start_delay, alignment = parts["start_delay_s"], parts["alignment_s"]
        kept = np.array([head.savepoint is None for head in job.recorder.checkpoints], dtype=bool)
        if all(ShipStrategy.of(ship).can_be_overtaken for _, ship in case.inputs(vertex)):
            late = (alignment > 0) & (start_delay + alignment > latest) & (parts["unaligned"] == 0)
            if late[kept].any():
                yield f"{vertex.name} aligned a checkpoint for longer than its timeout of {timeout} s"
