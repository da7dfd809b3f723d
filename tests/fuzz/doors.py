"""All doors, by name."""

from __future__ import annotations

from . import (
    checkpoint_doors,
    flink_doors,
    result_doors,
    rows_doors,
    scenario_doors,
    state_doors,
    wire_doors,
)

_MODULES = (
    wire_doors,
    rows_doors,
    state_doors,
    checkpoint_doors,
    scenario_doors,
    result_doors,
    flink_doors,
)

DOORS = {door.name: door for module in _MODULES for door in module.DOORS}
