"""The garbage collector of Python beside a large job.

What a job is made of lives until it ends, and hundreds of thousands of channels take long to search for
garbage that is not there: half of the time in which such a job starts. While it is built nothing is
searched, and what there is then is left out until it is over::

    with building():  ...  make everything  ...
    ...  the job runs: only what has been made since is searched  ...
    over()
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def building() -> Iterator[None]:
    """Search for no garbage meanwhile, and later not among what there is at the end of it."""
    over()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if enabled:
            gc.enable()


def over() -> None:
    """Search everything again."""
    gc.unfreeze()
