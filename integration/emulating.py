"""Emulations in a process of the command line: trio hears Ctrl-C, and there are tables for keyed state."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar, Unpack

import netstack
from netstack import Result, RunOptions, Scenario

from .stopping import STOP
from .storage.rocksdb import table_stores

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


@heard_by_trio
def emulate(scenario: Scenario, **options: Unpack[RunOptions]) -> Result:
    """Call `netstack.emulate` with table stores, where the state backend needs them.

    Raises:
        ScenarioError: the scenario makes no sense, or what it needs is not installed.
    """
    with table_stores(scenario) as tables:
        options.setdefault("tables", tables)
        return netstack.emulate(scenario, **options)
