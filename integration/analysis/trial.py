"""Advice tried out: the same job emulated once more, with other options.

A remedy that is only reckoned may not keep what it promises. Where a run of the job takes no more than
`LONGEST_S` it costs little to see, so whoever gives advice emulates it, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from buffers import InsufficientBuffers
from netstack import (
    GeneratorSpec,
    JobFailedError,
    Result,
    Scenario,
    ScenarioError,
    check_scenario,
    with_options,
)

from ..emulating import emulate

LONGEST_S = 3.0
"""Seconds that a run may take, by the one that was made before, to be made again for the sake of advice."""


class Trial(NamedTuple):
    """What came of a run with other options."""

    result: Result
    took_s: float
    """By the clock on the wall."""


def may_be_tried(scenario: Scenario, took_s: float) -> bool:
    """Whether a job can be emulated again as it was: soon, and from nothing but what the scenario says."""
    sources = [vertex.source for vertex in scenario.vertices if vertex.source is not None]
    generated = all(isinstance(source, GeneratorSpec) for source in sources)
    return generated and took_s <= LONGEST_S


def try_out(scenario: Scenario, changes: Mapping[str, object], seed: int | None = None) -> Trial | None:
    """Emulate a scenario with other values of fields of its `NetworkConfig`; checkpoints stay in memory.

    None: the values do not go together, or the job fails with them.
    """
    changed = replace(scenario, config=with_options(scenario.config, changes))
    try:
        check_scenario(changed)
        result = emulate(changed, seed=seed)
    except (ScenarioError, InsufficientBuffers, JobFailedError):
        return None
    return None if result.failure is not None else Trial(result, result.wall_seconds)
