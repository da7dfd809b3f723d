"""A rule over the shape of a job: whether unaligned checkpoints may bring it to a stand (`standstills`).

Told of a job with aligned checkpoints too, since what is slow about these is often answered with unaligned
ones. Of jobs that come to a stand only after a checkpoint has expired there are many, so these are told of
where one has failed.
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
    failed = overtakes and any(each.status == FAILED for each in view.checkpoints)
    after_timeout = failed and view.config.aligned_checkpoint_timeout_s > 0
    for late, blocked, joins, at_once in _ways(view, after_timeout=after_timeout):
        can = "can" if overtakes else "could"
        when = "" if at_once else " after one has expired"
        keep = "or keep to aligned checkpoints: execution.checkpointing.unaligned.enabled: false"
        if not at_once:
            keep += "; or to unaligned ones without execution.checkpointing.aligned-checkpoint-timeout"
        yield Finding(
            rule="standstill",
            severity="problem" if failed else "notice",
            where=joins,
            says=f"Unaligned checkpoints {can} bring the job to a stand{when}: {joins} does not read "
            f"{blocked} before it has barriers that wait for {late}, whose data wait for {blocked}.",
            evidence=[f"no barrier overtakes data into {late}, and none into {joins}"],
            next=[
                f"let barriers overtake into {joins}: rebalance() or keyBy() for each of its inputs that is "
                "forward, rescale or broadcast",
                keep,
            ],
        )


def may_overtake(view: Observation) -> bool:
    """Whether unaligned checkpoints are to be recommended: they bring the job of a view to no stand."""
    return not any(_ways(view, after_timeout=False))


def may_overtake_in(scenario: Scenario) -> bool:
    """Whether unaligned checkpoints are to be recommended for a scenario."""
    sizes = {vertex.name: vertex.parallelism for vertex in scenario.vertices}
    return not any(each.at_once for each in standstills(scenario.edges, sizes))


def _ways(view: Observation, *, after_timeout: bool) -> Iterator[Standstill]:
    """How one checkpoint can do it, or also one after another; each blocked exchange once."""
    sizes = {vertex.name: vertex.parallelism for vertex in view.vertices}
    told: set[tuple[str, str]] = set()
    for way in standstills(view.exchanges, sizes):
        if (way.at_once or after_timeout) and way[1:3] not in told:
            told.add((way.blocked, way.joins))
            yield way
