"""Lengths of runs."""

from dataclasses import replace

from integration.runs.run_lengths import filled, undisturbed
from netstack import Edge, GeneratorSpec, Scenario, Vertex


def test_a_window_has_whole_periods_of_the_load_unless_they_are_long_or_costs_change() -> None:
    source = GeneratorSpec(record_bytes=2000, rates=(1.0,), burst_s=12.0)
    scenario = Scenario(
        name="job",
        duration_s=90.0,
        warmup_s=6.0,
        vertices=(
            Vertex(name="source", parallelism=2, source=source),
            Vertex(name="stage", parallelism=2, emit_every_s=30.0),
            Vertex(name="sink", emit_every_s=3600.0),
        ),
        edges=(Edge(source="source", target="stage"), Edge(source="stage", target="sink")),
    )
    assert filled(undisturbed(scenario), 1.0).windows == ((30.0, 60.0),)
    sink = replace(scenario.vertices[-1], service=((0.0, 1e-3), (40.0, 2e-3)))
    changing = replace(scenario, vertices=(*scenario.vertices[:-1], sink))
    assert filled(undisturbed(changing), 1.0).windows == ((6.0, 90.0),)
