"""Emulations in a process of the command line: trio hears Ctrl-C while they run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import netstack

from .stopping import STOP

_P = ParamSpec("_P")
_R = TypeVar("_R")


def heard_by_trio(run: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function that does what `run` does, which calls `trio.run`.

    Ctrl-C and SIGTERM then end the run where trio lets them, and not in the middle of its own bookkeeping.
    """

    @wraps(run)
    def left_to_trio(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        left = STOP.leave_to_trio()
        try:
            return run(*args, **kwargs)
        finally:
            if left:
                STOP.take_back()

    return left_to_trio


emulate = heard_by_trio(netstack.emulate)
"""`netstack.emulate`, as commands call it."""
