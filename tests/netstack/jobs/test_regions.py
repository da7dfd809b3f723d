"""Pipelined regions: which subtasks fail together, by their exchanges, and how long deploying them takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netstack import (
    CostModel,
    Edge,
    FailoverStrategy,
    GeneratorSpec,
    NetworkConfig,
    Scenario,
    Vertex,
    distribution_notices,
)
from netstack.jobs.failover import Region, deployment_s, failover_regions, regions_of, task_names
from netstack.scenarios.scenario import SHIPS
from netstack.scenarios.ship_strategies import consumers_of_producers


def job(vertices: dict[str, int], *edges: tuple[str, str, str], **config: object) -> Scenario:
    """A job of these vertices, by parallelism, and edges; what nobody sends to is a source."""
    targets = {target for _, target, _ in edges}
    return Scenario(
        name="job",
        duration_s=1.0,
        vertices=tuple(
            Vertex(
                name=name,
                parallelism=parallelism,
                source=None if name in targets else GeneratorSpec(record_bytes=100),
            )
            for name, parallelism in vertices.items()
        ),
        edges=tuple(Edge(source=source, target=target, ship=ship) for source, target, ship in edges),
        config=NetworkConfig(**config),  # type: ignore[arg-type]
    )


def test_forward_edges_alone_make_a_region_of_each_row_of_subtasks() -> None:
    chain = job({"a": 3, "b": 3, "c": 3}, ("a", "b", "forward"), ("b", "c", "forward"))
    assert regions_of(chain) == [tuple((vertex, row) for vertex in range(3)) for row in range(3)]


@pytest.mark.parametrize("ship", ["rebalance", "hash", "broadcast"])
def test_one_exchange_among_all_joins_all_subtasks(ship: str) -> None:
    chain = job({"a": 2, "b": 2, "c": 2}, ("a", "b", "forward"), ("b", "c", ship))
    assert regions_of(chain) == [((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1))]


def test_rescale_joins_each_subtask_with_those_that_it_is_dealt() -> None:
    assert regions_of(job({"a": 2, "b": 5}, ("a", "b", "rescale"))) == [
        ((0, 0), (1, 0), (1, 1), (1, 2)),
        ((0, 1), (1, 3), (1, 4)),
    ]


def test_two_pipelines_that_share_nothing_are_two_regions() -> None:
    apart = job({"a": 2, "x": 1, "b": 1, "y": 2}, ("a", "b", "hash"), ("x", "y", "rebalance"))
    assert regions_of(apart) == [((0, 0), (0, 1), (2, 0)), ((1, 0), (3, 0), (3, 1))]


def test_with_the_strategy_full_all_of_a_job_is_one() -> None:
    edges = ("a", "b", "forward")
    assert len(failover_regions(job({"a": 3, "b": 3}, edges))) == 3
    full = job({"a": 3, "b": 3}, edges, failover_strategy=FailoverStrategy.FULL)
    assert failover_regions(full) == [tuple((vertex, row) for vertex in range(2) for row in range(3))]


def test_over_several_processes_it_is_said_that_all_regions_restart() -> None:
    edges = ("a", "b", "forward")
    ((key, message),) = distribution_notices(job({"a": 3, "b": 3}, edges))
    assert key == "flink.jobmanager.execution.failover-strategy"
    assert message == "is region, and the job has 3 regions, but over TCP all regions restart together"
    assert not list(distribution_notices(job({"a": 1, "b": 1}, edges)))
    full = job({"a": 3, "b": 3}, edges, failover_strategy=FailoverStrategy.FULL)
    assert not list(distribution_notices(full))


def test_tasks_are_named_by_their_vertex_or_their_subtasks() -> None:
    chain = job({"a": 2, "b": 4, "c": 1}, ("a", "b", "rescale"), ("a", "c", "rescale"))
    assert task_names(chain, ((0, 0), (1, 0), (1, 1), (2, 0))) == ["a[0]", "b[0, 1]", "c"]


@st.composite
def jobs(draw: st.DrawFn) -> Scenario:
    """Jobs of up to six vertices, whose edges lead from earlier ones to later ones."""
    vertices = {f"v{n}": draw(st.integers(1, 5)) for n in range(draw(st.integers(1, 6)))}
    names = list(vertices)
    edges = [
        (source, target, draw(st.sampled_from(SHIPS)))
        for place, target in enumerate(names)
        for source in names[:place]
        if draw(st.integers(0, 2)) == 0
    ]
    return job(vertices, *(edge for edge in edges if edge[2] != "forward" or _equal(vertices, *edge[:2])))


def _equal(vertices: dict[str, int], source: str, target: str) -> bool:
    return vertices[source] == vertices[target]


@given(jobs())
def test_regions_are_what_is_connected(scenario: Scenario) -> None:
    """By brute force: from each subtask, whatever can be reached over channels, in either direction."""
    numbers = {vertex.name: number for number, vertex in enumerate(scenario.vertices)}
    neighbours: dict[tuple[int, int], set[tuple[int, int]]] = {
        (n, i): set() for n, vertex in enumerate(scenario.vertices) for i in range(vertex.parallelism)
    }
    for edge in scenario.edges:
        producers, consumers = scenario.vertex(edge.source), scenario.vertex(edge.target)
        reached = consumers_of_producers(edge.ship, producers.parallelism, consumers.parallelism)
        for producer, own in enumerate(reached):
            for consumer in own:
                ends = (numbers[edge.source], producer), (numbers[edge.target], consumer)
                neighbours[ends[0]].add(ends[1])
                neighbours[ends[1]].add(ends[0])
    regions = regions_of(scenario)
    assert sorted(task for region in regions for task in region) == sorted(neighbours)
    for region in regions:
        connected = {region[0]}
        while more := {other for task in connected for other in neighbours[task]} - connected:
            connected |= more
        assert connected == set(region)
        assert list(region) == sorted(region)
    assert regions == sorted(regions)


def test_a_task_manager_deploys_one_task_after_the_other_and_the_last_counts() -> None:
    scenario = Scenario(
        name="job",
        duration_s=1.0,
        vertices=(
            Vertex(name="a", parallelism=3, source=GeneratorSpec(record_bytes=100), task_manager="tm1"),
            Vertex(name="b", parallelism=2, task_manager="tm2"),
        ),
        edges=(Edge(source="a", target="b"),),
        costs=CostModel(deploy_s=1.0, deploy_per_task_s=0.1),
    )
    region: Region = ((0, 0), (1, 0), (1, 1))
    assert deployment_s(scenario, region) == pytest.approx(1.2)
    assert deployment_s(scenario, [*region, (0, 1), (0, 2)]) == pytest.approx(1.3)
