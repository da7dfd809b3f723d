"""When the windows of an imported job work: for each record read, or when they fire."""

from dataclasses import replace

import pytest

from integration.flink.fit.alternatives import changed, nearest
from integration.flink.fit.overrides import Overrides
from integration.flink.fit.window_work import firing, unknown_windows, with_windows
from integration.flink.fit.words import note_of
from netstack import Edge, GeneratorSpec, NetworkConfig, Scenario, Vertex
from tests.integration.flink.test_flink_flows import edge_to, job
from tests.integration.flink.test_union_or_join import shown

READS = Scenario(
    name="windows",
    duration_s=40.0,
    warmup_s=10.0,
    config=NetworkConfig(checkpoint_interval_s=1.3),
    vertices=(
        Vertex(name="events", source=GeneratorSpec(record_bytes=4000, rates=(130.0,))),
        Vertex(name="window", service=((0.0, 0.006),), emit_every_s=2.0),
        Vertex(name="sink"),
    ),
    edges=(Edge(source="events", target="window"), Edge(source="window", target="sink")),
)
WINDOW = replace(READS.vertices[1], service=(), emit_cost_s=0.006)
FIRES = replace(READS, vertices=(READS.vertices[0], WINDOW, READS.vertices[2]))


@pytest.mark.parametrize(("truth", "when"), [(FIRES, "when they fire"), (READS, "for each record read")])
def test_the_work_whose_emulation_is_nearer_is_taken(truth: Scenario, when: str) -> None:
    taken, remarks = nearest(READS, [firing({"window": 2.0}, FIRES.vertices)], shown(truth))
    assert changed(READS, taken) == truth
    (note,) = map(note_of, remarks)
    assert note.startswith(
        f"window: Flink does not report when its windows work; assuming {when}, which is nearer to "
    )
    assert "; emulated with work when they fire " in note


@pytest.mark.parametrize(
    ("description", "given", "found"),
    [
        (
            "Window(TumblingEventTimeWindows(2000), EventTimeTrigger, Summed)<br/>",
            Overrides(),
            {"window": 2.0},
        ),
        ("Window(SlidingProcessingTimeWindows(60000, 5000), ...)", Overrides(), {"window": 5.0}),
        ("Window(EventTimeSessionWindows(500), EventTimeTrigger, Summed)", Overrides(), {"window": 0.2}),
        ("WindowAggregate(window=[TUMBLE(time_col=[ts], size=[10 s])], select=[...])", Overrides(), {}),
        ("Map", Overrides(), {}),
        ("Window(TumblingEventTimeWindows(2000), ...)", Overrides(window_s={"window": 3.0}), {}),
        ("Window(TumblingEventTimeWindows(2000), ...)", Overrides(service_s={"": 0.001}), {}),
    ],
)
def test_a_window_of_a_datastream_is_known_by_its_description(
    description: str, given: Overrides, found: dict[str, float]
) -> None:
    shape = job(edge_to("events", "window", "HASH"), edge_to("window", "sink", "REBALANCE"))
    vertices = [
        replace(vertex, description=description if vertex.id == "window" else "") for vertex in shape.vertices
    ]
    assert unknown_windows(replace(shape, vertices=tuple(vertices)), READS, shown(READS), given) == found


def test_a_window_that_hardly_works_makes_no_difference() -> None:
    shape = job(edge_to("events", "window", "HASH"), edge_to("window", "sink", "REBALANCE"))
    window = "Window(TumblingEventTimeWindows(2000), EventTimeTrigger, Counted)"
    described = replace(shape, vertices=tuple(replace(each, description=window) for each in shape.vertices))
    idle = replace(READS, vertices=(READS.vertices[0], replace(WINDOW, emit_cost_s=0.0), READS.vertices[2]))
    assert unknown_windows(described, idle, shown(idle), Overrides()) == {}


def test_an_override_stays_beside_the_windows_that_are_tried() -> None:
    given = Overrides(window_s={"other": 5.0})
    assert with_windows(given, {"window": 2.0}).window_s == {"window": 2.0, "other": 5.0}
