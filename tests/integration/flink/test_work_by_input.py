"""Costs of the records of both inputs of an imported join."""

from dataclasses import replace

import pytest

from integration.flink.fit.alternatives import changed, nearest
from integration.flink.fit.overrides import Overrides
from integration.flink.fit.words import note_of
from integration.flink.fit.work_by_input import unequal_inputs
from netstack import Edge, GeneratorSpec, NetworkConfig, Scenario, Vertex
from tests.integration.flink.test_flink_flows import edge_to, job
from tests.integration.flink.test_union_or_join import shown

ALIKE = Scenario(
    name="orders and shipments",
    duration_s=40.0,
    warmup_s=10.0,
    config=NetworkConfig(checkpoint_interval_s=1.0),
    vertices=(
        Vertex(name="shipments", source=GeneratorSpec(record_bytes=150, rates=(150.0,))),
        Vertex(name="orders", source=GeneratorSpec(record_bytes=4000, rates=(0.0,))),
        Vertex(name="pair", service=((0.0, 0.002),), selectivity=0.5),
        Vertex(name="sink"),
    ),
    edges=(
        Edge(source="shipments", target="pair", ship="hash"),
        Edge(source="orders", target="pair", ship="hash", input=1),
        Edge(source="pair", target="sink"),
    ),
)
"""A join that is always busy, 500 records a second, of which 150 are shipments."""

SHIPMENTS, ORDERS, OUT = ALIKE.edges

_EXCHANGES = (
    edge_to("shipments", "pair", "HASH"),
    edge_to("orders", "pair", "HASH"),
    edge_to("pair", "sink", "FORWARD"),
)
_BY_ID = {vertex.id: vertex for vertex in job(*_EXCHANGES).vertices}
SHAPE = replace(job(*_EXCHANGES), vertices=tuple(_BY_ID[vertex.name] for vertex in ALIKE.vertices))


def with_costs(of_shipment_s: float, of_order_s: float) -> Scenario:
    edges = (
        replace(SHIPMENTS, service=((0.0, of_shipment_s),)),
        replace(ORDERS, service=((0.0, of_order_s),)),
        OUT,
    )
    return replace(ALIKE, edges=edges)


def test_costs_are_found_that_explain_what_one_cost_does_not() -> None:
    figures = shown(with_costs(0.006, 0.0003))  # 90 % of the time for shipments; 2 ms on average
    alternatives = unequal_inputs(SHAPE, ALIKE, figures, Overrides())
    taken, remarks = nearest(ALIKE, alternatives, figures)
    (note,) = map(note_of, remarks)
    assert note.startswith("pair: Flink does not report which input takes its time; assuming different costs")
    found = changed(ALIKE, taken)
    assert found.edges[0].service[0][1] > 5 * found.edges[1].service[0][1]
    assert found.vertex("pair").selectivity == 1


def test_without_a_difference_nothing_is_said_and_tried() -> None:
    figures = shown(ALIKE)
    assert nearest(ALIKE, unequal_inputs(SHAPE, ALIKE, figures, Overrides()), figures) == ([], ())


@pytest.mark.parametrize(
    ("scenario", "given"),
    [
        (
            replace(ALIKE, edges=(ALIKE.edges[0], replace(ALIKE.edges[1], input=0), ALIKE.edges[2])),
            Overrides(),
        ),
        (replace(ALIKE, edges=(replace(SHIPMENTS, ship="broadcast"), ORDERS, OUT)), Overrides()),
        (ALIKE, Overrides(service_s={"pair": 0.002})),
    ],
    ids=["union", "broadcast", "overridden"],
)
def test_only_joins_of_unknown_costs_are_tried(scenario: Scenario, given: Overrides) -> None:
    assert unequal_inputs(SHAPE, scenario, shown(ALIKE), given) == []


def test_each_share_of_the_time_leaves_the_work_and_the_output_as_they_are() -> None:
    figures = shown(ALIKE)
    (alternative,) = unequal_inputs(SHAPE, ALIKE, figures, Overrides())
    per_s = {vertex.name: sum(vertex.records_out_per_s) for vertex in figures.steady.vertices}
    read_per_s = per_s["shipments"] + per_s["orders"]
    for form in alternative.forms:
        edges = form(ALIKE).edges[:2]
        work = sum(per_s[edge.source] * edge.service[0][1] for edge in edges if edge.service)
        output = sum(per_s[edge.source] * edge.selectivity for edge in edges if edge.selectivity is not None)
        assert work == pytest.approx(0.002 * read_per_s, rel=0.001)
        assert output == pytest.approx(0.5 * read_per_s, rel=0.001)
