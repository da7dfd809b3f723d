"""The garbage collector of Python beside a large job.

What a job is made of lives until it ends, and thousands of channels take long to search for garbage that is
not there: half of the time in which such a job starts. While it is built nothing is searched. What a large
job is made of is left out until it is over, and what it makes meanwhile, most of which is no garbage either,
is searched more rarely::

    with building():  ...  make everything  ...
    ...  the job runs: only what has been made since is searched, and that rarely  ...
    over()

A job that has ended is garbage of the oldest kind, which is hardly ever searched for; so the next one that is
built begins with a search. A program that has frozen objects of its own keeps them frozen.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LARGE_BLOCKS = 40_000
"""Blocks of memory that a job takes from which on it is left out: some three thousand channels."""

RARELY = (100_000, 50, 100)
"""Thresholds of the collector beside a large job; Python's own would take a third of its time."""

PART_OF_JOB = 8
"""Beside a very large job the first threshold is a part of what that is made of, its blocks by this."""


class _Left:
    """The objects that this module has frozen, in the whole process."""

    frozen = False
    """A job that runs."""
    unsearched = False
    """A job that has ended."""
    thresholds = gc.get_threshold()
    """Those of before."""
    rarely = RARELY
    """Thresholds that were set, as Python reports them; it may not report that of the oldest generation."""


@contextmanager
def building() -> Iterator[None]:
    """Search for no garbage meanwhile, and not in a large job afterwards."""
    over()
    if _Left.unsearched:
        _Left.unsearched = False
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
            _Left.frozen = True
            _Left.thresholds = gc.get_threshold()
            gc.set_threshold(max(RARELY[0], made // PART_OF_JOB), *RARELY[1:])
            _Left.rarely = gc.get_threshold()
    finally:
        if enabled:
            gc.enable()


def over() -> None:
    """Search everything again."""
    if _Left.frozen:
        gc.freeze()  # what it has made meanwhile becomes as old as the rest, or it would be searched at once
        gc.unfreeze()
        if gc.get_threshold() == _Left.rarely:  # no other code has set them meanwhile
            gc.set_threshold(*_Left.thresholds)
        _Left.frozen, _Left.unsearched = False, True
