"""Emulation for commands: trio handles Ctrl-C, and RocksDB stores keyed state if configured."""

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


def ctrl_c_to_trio(run: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return `run`, a function that calls `trio.run`, wrapped so that trio handles signals.

    Ctrl-C and SIGTERM then end the run where trio can cancel a task, not during trio's own bookkeeping.
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


@ctrl_c_to_trio
def emulate(scenario: Scenario, **options: Unpack[RunOptions]) -> Result:
    """Call `netstack.emulate`, with table stores if the state backend needs them.

    Raises:
        ScenarioError: The scenario is invalid, or needs something that is not installed.
    """
    with table_stores(scenario) as tables:
        options.setdefault("tables", tables)
        return netstack.emulate(scenario, **options)
