"""Settings of Python's garbage collector for large jobs.

The objects of a job live until the job ends. With thousands of channels, searching these objects for garbage
takes half of the start-up time and finds none. So the collector is disabled while a job is built. The objects
of a large job are then frozen, which excludes them from searches until the job ends. Objects created while
the job runs, most of which are not garbage either, are searched less often::

    with building():  ...  create the job's objects  ...
    ...  the job runs: only objects created since are searched, and rarely  ...
    over()

The objects of a job that has ended are in the oldest generation, which is rarely searched. So `building`
starts with a full search for the next job. Objects that a program has frozen itself stay frozen.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LARGE_BLOCKS = 40_000
"""From this number of memory blocks on, a job counts as large: about three thousand channels."""

RARELY = (100_000, 50, 100)
"""Thresholds of the collector during a large job. With Python's default thresholds, the collector would take
a third of the run time.
"""

PART_OF_JOB = 8
"""Divisor: the first threshold of a very large job is its number of memory blocks divided by this."""


class _Frozen:
    """State of this module for the whole process: the objects frozen and the thresholds set."""

    frozen = False
    """Whether a running job is frozen."""
    unsearched = False
    """Whether a job has ended and its objects have not been searched for garbage yet."""
    thresholds = gc.get_threshold()
    """Thresholds before the job, which `over` restores."""
    rarely = RARELY
    """Thresholds that `building` set, as Python reports them; Python may not report that of the oldest
    generation.
    """


@contextmanager
def building() -> Iterator[None]:
    """Disable the collector while a job is built, and freeze the job afterwards if it is large."""
    over()
    if _Frozen.unsearched:
        _Frozen.unsearched = False
        gc.collect()
    frozen_by_others = gc.get_freeze_count() > 0
    enabled = gc.isenabled()
    before = sys.getallocatedblocks()
    gc.disable()
    try:
        yield
        made = sys.getallocatedblocks() - before
        if not frozen_by_others and made >= LARGE_BLOCKS:
            gc.freeze()
            _Frozen.frozen = True
            _Frozen.thresholds = gc.get_threshold()
            gc.set_threshold(max(RARELY[0], made // PART_OF_JOB), *RARELY[1:])
            _Frozen.rarely = gc.get_threshold()
    finally:
        if enabled:
            gc.enable()


def over() -> None:
    """Let the collector search all objects again; called when a job has ended."""
    if _Frozen.frozen:
        gc.freeze()  # its new objects count as old, or they would be searched at once
        gc.unfreeze()
        if gc.get_threshold() == _Frozen.rarely:  # no other code has changed them
            gc.set_threshold(*_Frozen.thresholds)
        _Frozen.frozen, _Frozen.unsearched = False, True
