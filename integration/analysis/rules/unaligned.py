"""A rule over the shape of a job: whether unaligned checkpoints may bring it to a stand (`standstills`).

Told of a job with aligned checkpoints too, since what is slow about these is often answered with unaligned
ones. Jobs that come to a stand only after a checkpoint has expired are not told of: there are too many.
"""

from __future__ import annotations

from collections.abc import Iterator

from netstack import Scenario, Standstill, standstills

from ..checkpoint_times import FAILED
from .finding import Finding
from .observation import Observation


def stands_still(view: Observation) -> Iterator[Finding]:
    """A vertex that is not read before a barrier has come that waits for it."""
    overtakes = view.config.takes_unaligned_checkpoints
    failed = any(each.status == FAILED for each in view.checkpoints)
    for late, blocked, joins, _ in _ways(view):
        can = "can" if overtakes else "could"
        yield Finding(
            rule="standstill",
            severity="problem" if overtakes and failed else "notice",
            where=joins,
            says=f"Unaligned checkpoints {can} bring the job to a stand: {joins} does not read {blocked} "
            f"before it has the barriers of {late}, and those come behind data that waits for {blocked}.",
            evidence=[f"no barrier overtakes data into {late}, and none on the way {blocked} -> {joins}"],
            next=[
                f"let barriers overtake on the way {blocked} -> {joins}: rebalance() or keyBy() in place of "
                "what Flink connects one to one",
                "or keep to aligned checkpoints: execution.checkpointing.unaligned.enabled: false",
            ],
        )


def may_overtake(view: Observation) -> bool:
    """Whether unaligned checkpoints are to be recommended: they bring the job of a view to no stand."""
    return not any(_ways(view))


def may_overtake_in(scenario: Scenario) -> bool:
    """Whether unaligned checkpoints are to be recommended for a scenario."""
    sizes = {vertex.name: vertex.parallelism for vertex in scenario.vertices}
    return not any(each.at_once for each in standstills(scenario.edges, sizes))


def _ways(view: Observation) -> Iterator[Standstill]:
    """How one checkpoint can do it, each blocked exchange once."""
    sizes = {vertex.name: vertex.parallelism for vertex in view.vertices}
    told: set[tuple[str, str]] = set()
    for way in standstills(view.exchanges, sizes):
        if way.at_once and way[1:3] not in told:
            told.add((way.blocked, way.joins))
            yield way
