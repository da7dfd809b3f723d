"""The job of a lab that nobody has named one for: back-pressured, so that there is something to see."""

from __future__ import annotations

from netstack import Scenario, read_scenario

_DOCUMENT = {
    "name": "lab",
    "duration": "1 h",
    "flink": {"execution.checkpointing.interval": "5 s"},
    "vertices": [
        {"name": "source", "parallelism": 4, "source": {"record_bytes": 200, "rate": [3000]}},
        {"name": "map", "parallelism": 4, "service": "100 us"},
        {"name": "sink", "parallelism": 4, "service": "400 us"},
    ],
    "edges": [
        {"from": "source", "to": "map", "ship": "rebalance"},
        {"from": "map", "to": "sink", "ship": "hash"},
    ],
}


def example() -> Scenario:
    """Return it: its sinks take 2,500 records a second each, and its sources have 3,000."""
    return read_scenario(_DOCUMENT)
