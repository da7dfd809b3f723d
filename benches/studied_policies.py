"""The debloating policies that docs/studies/POLICIES.md compares, by the names of its tables.

Two of them are built in. The others are examples for users, so an import of this module registers them in
the process.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from flowcontrol import register_policy

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"

_OF_EXAMPLES = {
    "frozen-while-blocked": ("policies.frozen_while_blocked", "FrozenWhileBlocked"),
    "longest-channel": ("policies.longest_channel", "LongestChannel"),
    "per-channel": ("policies.per_channel", "PerChannel"),
    "burst": ("policies.burst", "Burst"),
}

STUDIED = ("flink", *_OF_EXAMPLES, "longest-when-unblocked")
"""Names of all compared policies, in the order of the tables."""

if str(EXAMPLES) not in sys.path:
    sys.path.append(str(EXAMPLES))
for _name, (_module, _class) in _OF_EXAMPLES.items():
    register_policy(_name, getattr(import_module(_module), _class))
