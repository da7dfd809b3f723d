"""Which producer sends to which consumer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netstack import Edge, GeneratorSpec, Scenario, Vertex
from netstack.jobs.build import gates_of, partitions_of
from netstack.scenarios.ship_strategies import (
    ShipStrategy,
    capacity_by_load,
    consumers_of_producers,
    producers_of_consumers,
    producers_read,
    subpartition_counts,
)

PARALLELISM = st.integers(1, 20)
ALL_TO_ALL = [ship.value for ship in ShipStrategy if not ship.pointwise]
POINTWISE = [ship.value for ship in ShipStrategy if ship.pointwise]


def test_a_strategy_says_what_it_does_with_records() -> None:
    assert {ship.value for ship in ShipStrategy if ship.pointwise} == {"forward", "rescale"}
    assert {ship.value for ship in ShipStrategy if ship.by_key} == {"hash"}
    assert {ship.value for ship in ShipStrategy if ship.copies} == {"broadcast"}
    assert {ship.value for ship in ShipStrategy if not ship.can_be_overtaken} == {
        "forward",
        "rescale",
        "broadcast",
    }
    assert ShipStrategy.of("hash") is ShipStrategy.HASH
    assert ShipStrategy.of("unknown") is ShipStrategy.REBALANCE


@pytest.mark.parametrize("ship", ALL_TO_ALL)
def test_all_to_all_reaches_every_consumer(ship: str) -> None:
    assert consumers_of_producers(ship, 2, 3) == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("ship", POINTWISE)
@pytest.mark.parametrize(
    ("producers", "consumers", "reached"),
    [
        (3, 3, [[0], [1], [2]]),
        (2, 4, [[0, 1], [2, 3]]),
        (4, 2, [[0], [0], [1], [1]]),
        (3, 2, [[0], [1], [1]]),
        (2, 3, [[0, 1], [2]]),
        (1, 3, [[0, 1, 2]]),
        (3, 1, [[0], [0], [0]]),
        (2, 5, [[0, 1, 2], [3, 4]]),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_pointwise_deals_the_larger_side_out_over_the_smaller(
    ship: str, producers: int, consumers: int, reached: list[list[int]]
) -> None:
    assert consumers_of_producers(ship, producers, consumers) == reached


@given(PARALLELISM, PARALLELISM)
def test_pointwise_leaves_nobody_out_and_nobody_with_much_more(producers: int, consumers: int) -> None:
    reached = consumers_of_producers("rescale", producers, consumers)
    fed = producers_of_consumers(reached, consumers)
    larger = reached if producers <= consumers else fed
    smaller = fed if producers <= consumers else reached
    counts = [len(own) for own in larger]
    assert [len(own) for own in smaller] == [1] * max(producers, consumers)
    assert max(counts) - min(counts) <= 1
    assert [consumer for own in reached for consumer in own] == sorted(
        consumer for own in reached for consumer in own
    )


def test_channels_of_a_consumer_are_in_the_order_of_the_producers() -> None:
    reached = consumers_of_producers("rebalance", 3, 2)
    assert producers_of_consumers(reached, 2) == [[(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 1), (2, 1)]]


def test_channels_of_a_pointwise_exchange_name_the_subpartition_of_their_producer() -> None:
    reached = consumers_of_producers("rescale", 2, 4)
    assert producers_of_consumers(reached, 4) == [[(0, 0)], [(0, 1)], [(1, 0)], [(1, 1)]]
    reached = consumers_of_producers("rescale", 3, 2)
    assert producers_of_consumers(reached, 2) == [[(0, 0)], [(1, 0), (2, 0)]]


@given(st.sampled_from([*ALL_TO_ALL, *POINTWISE]), PARALLELISM, PARALLELISM)
def test_both_sides_agree_on_every_channel(ship: str, producers: int, consumers: int) -> None:
    reached = consumers_of_producers(ship, producers, consumers)
    fed = producers_of_consumers(reached, consumers)
    assert all(
        reached[producer][index] == consumer for consumer, own in enumerate(fed) for producer, index in own
    )
    assert sum(map(len, fed)) == sum(map(len, reached))


@pytest.mark.parametrize(
    ("ship", "producers", "rates", "capacity"),
    [
        ("rebalance", 4, [1000.0, 1000.0, 1000.0, 250.0], 3250.0),
        ("rebalance", 1, [10.0, 1.0], 11.0),
        ("rescale", 2, [10.0, 1.0, 10.0, 10.0], 22.0),  # the first producer reaches the slow consumer
        ("rescale", 2, [10.0, 1.0], 2.0),  # one consumer each
        ("rescale", 4, [10.0, 1.0], 4 * 0.5),  # two producers share the slow consumer
    ],
)
def test_consumers_chosen_by_load_read_what_they_can(
    ship: str, producers: int, rates: list[float], capacity: float
) -> None:
    assert capacity_by_load(ship, producers, rates) == pytest.approx(capacity)


@given(st.sampled_from([*ALL_TO_ALL, *POINTWISE]), PARALLELISM, PARALLELISM)
def test_counts_and_ranges_are_those_of_the_listed_channels(
    ship: str, producers: int, consumers: int
) -> None:
    reached = consumers_of_producers(ship, producers, consumers)
    listed = producers_of_consumers(reached, consumers)
    assert subpartition_counts(ship, producers, consumers) == [len(own) for own in reached]
    for consumer, channels in enumerate(listed):
        read = producers_read(ship, producers, consumers, consumer)
        assert list(read) == [producer for producer, _ in channels]


def test_buffers_of_a_job_with_a_thousand_million_channels_are_counted_without_a_list_of_them() -> None:
    """A list of channels would not fit into memory."""
    many = 30_000
    scenario = Scenario(
        name="large",
        duration_s=1.0,
        vertices=(
            Vertex(
                name="source",
                parallelism=many,
                task_manager=("tm-1", "tm-2"),
                source=GeneratorSpec(record_bytes=9),
            ),
            Vertex(name="sink", parallelism=many, task_manager="tm-2"),
        ),
        edges=(Edge(source="source", target="sink"),),
    )
    (edge,) = scenario.edges
    remote = {(manager, remote) for manager, _, remote in gates_of(scenario, edge)}
    assert scenario.has_remote_channels(edge)
    assert remote == {("tm-2", many // 2)}
    assert sum(count for _, count in partitions_of(scenario, edge)) == many * many
