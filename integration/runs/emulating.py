"""Emulation for commands: trio handles Ctrl-C, and RocksDB stores keyed state if configured."""

from __future__ import annotations

from typing import Unpack

import netstack
from netstack import Result, RunOptions, Scenario

from ..base.signals import ctrl_c_to_trio
from ..storage.rocksdb import table_stores


@ctrl_c_to_trio
def emulate(scenario: Scenario, **options: Unpack[RunOptions]) -> Result:
    """Call `netstack.emulate`, with table stores if the state backend needs them.

    Raises:
        ScenarioError: The scenario is invalid, or needs something that is not installed.
    """
    with table_stores(scenario) as tables:
        options.setdefault("tables", tables)
        return netstack.emulate(scenario, **options)
