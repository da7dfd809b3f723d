"""Jobs that unaligned checkpoints bring to a stand, and those of nearly the same shape that go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from integration import load_scenario
from integration.base.optional_figures import known
from netstack import Edge, Result, Scenario, Standstill, emulate, standstills

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
EXAMPLE = load_scenario(EXAMPLES / "standstill.toml")


def found(scenario: Scenario) -> list[Standstill]:
    return list(standstills(scenario.edges, {each.name: each.parallelism for each in scenario.vertices}))


def with_ship(source: str, target: str, ship: str) -> Scenario:
    edges = (
        replace(edge, ship=ship) if (edge.source, edge.target) == (source, target) else edge
        for edge in EXAMPLE.edges
    )
    return replace(EXAMPLE, edges=tuple(edges))


def with_settings(**settings: Any) -> Scenario:
    return replace(EXAMPLE, config=replace(EXAMPLE.config, **settings))


def read_per_s(result: Result) -> float:
    """Records that the last vertex reads in a second."""
    rates = result.steady[-1].vertices[-1].records_in_per_s
    assert rates is not None
    return sum(known(rates))


def test_the_example_comes_to_a_stand_as_a_flink_does() -> None:
    assert found(EXAMPLE) == [Standstill("parse", "enrich", "join", at_once=True)]
    result = emulate(EXAMPLE)
    ended = [each for each in result.checkpoints if each.status != "IN_PROGRESS"]
    assert {each.failure for each in ended} == {"CHECKPOINT_EXPIRED"}
    assert read_per_s(result) < 100


@pytest.mark.parametrize(
    "scenario",
    [
        with_settings(unaligned_enabled=False),
        with_ship("enrich", "join", "rebalance"),
        with_ship("events", "parse", "rebalance"),
    ],
    ids=["aligned", "enrich's barrier overtakes", "barriers overtake on the way to parse"],
)
def test_it_goes_on_without_one_of_what_it_takes(scenario: Scenario) -> None:
    if scenario.config.unaligned_enabled:
        assert found(scenario) == []
    result = emulate(scenario.ending_at(20.0))  # the first checkpoints would expire before
    assert all(each.status != "FAILED" for each in result.checkpoints)
    assert read_per_s(result) > 5000


def test_after_a_timeout_no_diamond_is_needed() -> None:
    edges = [
        Edge(source="events", target="parse", ship="rescale"),
        Edge(source="parse", target="enrich", ship="hash"),
        Edge(source="enrich", target="join", ship="rescale"),
    ]
    sizes = {"events": 4, "parse": 2, "enrich": 4, "join": 2}
    assert list(standstills(edges, sizes)) == [Standstill("parse", "enrich", "join", at_once=False)]
    assert list(standstills(edges, sizes | {"join": 4})) == [], "each has one channel"


def test_who_writes_much_for_a_record_is_late_as_well() -> None:
    edges = [
        Edge(source="events", target="parse", ship="hash"),
        Edge(source="parse", target="enrich", ship="hash"),
        Edge(source="enrich", target="join", ship="broadcast"),
    ]
    sizes = dict.fromkeys(("events", "parse", "enrich", "join"), 2)
    assert list(standstills(edges, sizes)) == []
    expected = [Standstill("parse", "enrich", "join", at_once=False)]
    assert list(standstills(edges, sizes, ["parse", "enrich", "join"])) == expected


@pytest.mark.parametrize(
    ("ship", "preset", "stands"),
    [
        ("rescale", "flink-2.2", True),
        ("rebalance", "flink-2.2", False),
        ("rescale", "flink-2.3", False),  # a real Flink 2.3.0 reads 639 records a second
    ],
)
def test_an_expired_checkpoint_can_bring_a_straight_job_to_a_stand(
    ship: str, preset: str, stands: bool
) -> None:
    example = load_scenario(EXAMPLES / "standstill_after_expiry.toml")
    edges = (replace(edge, ship=ship) if edge.source == "enrich" else edge for edge in example.edges)
    result = emulate(replace(example, edges=tuple(edges), preset=preset))
    assert (read_per_s(result) == 0) is stands


def test_a_job_of_many_ways_is_judged_at_once() -> None:
    edges = [
        Edge(source=f"v{number}", target=f"v{number + step}", ship="hash")
        for number in range(60)
        for step in (1, 2)
    ]
    sizes = {f"v{number}": 2 for number in range(63)}
    assert list(standstills(edges, sizes)) == []
    edges.append(Edge(source="v58", target="v60", ship="forward"))
    edges.append(Edge(source="v0", target="v30", ship="broadcast"))
    assert {(way.late, way.joins, way.at_once) for way in standstills(edges, sizes)} == {
        ("v30", "v60", False),
    }


def test_whoever_waits_for_all_barriers_blocks_nobody() -> None:
    edges = [
        Edge(source="events", target="parse", ship="forward"),
        Edge(source="parse", target="enrich", ship="broadcast"),
        Edge(source="enrich", target="join", ship="forward"),
        Edge(source="parse", target="join", ship="rebalance"),
    ]
    assert list(standstills(edges, dict.fromkeys(["events", "parse", "enrich", "join"], 2))) == []
