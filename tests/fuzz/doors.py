"""All doors, by name."""

from __future__ import annotations

from . import (
    checkpoint_doors,
    flink_doors,
    inputs,
    result_doors,
    rows_doors,
    scenario_doors,
    state_doors,
)

_MODULES = (
    inputs,
    rows_doors,
    state_doors,
    checkpoint_doors,
    scenario_doors,
    result_doors,
    flink_doors,
)

DOORS = {door.name: door for module in _MODULES for door in module.DOORS}
