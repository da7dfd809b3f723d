"""Edges with buffers of their own: how many there are, what is refused, and that the job runs with them."""

from dataclasses import replace

import pytest

from netstack import (
    Edge,
    EdgeBuffers,
    GeneratorSpec,
    NetworkConfig,
    Scenario,
    ScenarioError,
    Vertex,
    emulate,
    read_scenario,
    scenario_document,
)
from netstack.jobs.build import plan_segments, required_segments

OWN = EdgeBuffers(exclusive=1, floating=3, partition=5, max_per_channel=4)


def job(buffers: EdgeBuffers = EdgeBuffers(), **settings: object) -> Scenario:  # noqa: B008 - it is frozen
    """Three sources before two subtasks that are full, each vertex in a task manager of its own."""
    return replace(
        Scenario(
            name="job",
            duration_s=20.0,
            warmup_s=5.0,
            vertices=(
                Vertex(name="source", parallelism=3, source=GeneratorSpec(record_bytes=1996)),
                Vertex(name="stage", parallelism=2, service=((0.0, 2e-3),)),
            ),
            edges=(Edge(source="source", target="stage", buffers=buffers),),
            config=NetworkConfig(checkpoint_interval_s=2.0, max_overdraft_buffers_per_gate=0),
        ),
        **settings,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("buffers", "most", "required"),
    [
        (EdgeBuffers(), {"source": 3 * 12, "stage": 2 * 14}, {"source": 9, "stage": 14}),
        (EdgeBuffers(exclusive=1, floating=3), {"source": 3 * 5, "stage": 2 * 6}, {"source": 9, "stage": 8}),
        (EdgeBuffers(partition=4), {"source": 3 * 4, "stage": 2 * 14}, {"source": 9, "stage": 14}),
        (OWN, {"source": 3 * 5, "stage": 2 * 6}, {"source": 9, "stage": 8}),
    ],
)
def test_memory_is_that_of_the_edges(
    buffers: EdgeBuffers, most: dict[str, int], required: dict[str, int]
) -> None:
    assert plan_segments(job(buffers)) == most
    assert required_segments(job(buffers)) == required


def test_a_document_has_what_an_edge_says_and_loads_back() -> None:
    written = {"exclusive": 1, "floating": 3, "partition": 5, "max_per_channel": 4}
    document = scenario_document(job(OWN))
    assert document["edges"][0]["buffers"] == written
    assert read_scenario(document) == job(OWN)
    assert "buffers" not in scenario_document(job())["edges"][0]


@pytest.mark.parametrize(
    ("buffers", "line"),
    [
        ({"exclusive": -1}, "edges.source->stage.buffers.exclusive: is -1; it must be 0 or more"),
        ({"floating": 0}, "edges.source->stage.buffers.floating: is 0; it must be 1 or more"),
        ({"max_per_channel": 1}, "edges.source->stage.buffers.max_per_channel: is 1; it must be 2 or more"),
        (
            {"partition": 2},
            "edges.source->stage.buffers.partition: is 2, but a producer needs one buffer more than its "
            "2 subpartitions",
        ),
        (
            {"exclusiv": 2},
            "edges.source->stage.buffers.exclusiv: is not a key of this table; did you mean 'exclusive'?",
        ),
        (
            {"exclusive": "2"},
            "edges.source->stage.buffers.exclusive: is '2', text; it must be a whole number, without quotes",
        ),
    ],
)
def test_a_mistake_is_one_line(buffers: dict[str, object], line: str) -> None:
    document = scenario_document(job())
    document["edges"][0]["buffers"] = buffers
    with pytest.raises(ScenarioError) as refused:
        read_scenario(document)
    assert refused.value.problems == (line,)


def test_fewer_buffers_hold_less_before_a_barrier_and_a_small_quota_less_still() -> None:
    """At the full consumer wait what its gate has, and what each of three producers has for it."""
    plenty = NetworkConfig(checkpoint_interval_s=2.0, network_memory_max_bytes=64 << 20)
    waits = [
        emulate(job(buffers, config=plenty)).steady[0].vertices[1].start_delay_ms_max_subtask or 0.0
        for buffers in (
            EdgeBuffers(),
            EdgeBuffers(exclusive=1, floating=1),
            EdgeBuffers(exclusive=1, floating=1, partition=12),
            EdgeBuffers(exclusive=1, floating=1, partition=12, max_per_channel=2),
        )
    ]
    every, few, pool_only, small_quota = waits
    assert few < 0.4 * every
    assert few < 0.7 * pool_only < 0.7 * every
    assert small_quota < 0.7 * pool_only
