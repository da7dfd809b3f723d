"""The two runs that a report of a sweep shows: those of the sweep where they have series, else made again."""

from __future__ import annotations

import msgspec

from integration.tuning.axes import read_axes
from integration.tuning.points import Grid, probes_of
from integration.tuning.recommend import recommend
from integration.tuning.reruns import runs_to_show
from integration.tuning.running import run_point
from netstack import Edge, GeneratorSpec, NetworkConfig, Result, Scenario, Vertex, from_json, to_json

JOB = Scenario(
    name="job",
    duration_s=4.0,
    config=NetworkConfig(checkpoint_interval_s=0.5, debloat_enabled=True, debloat_target_s=0.1),
    vertices=(
        Vertex(name="source", source=GeneratorSpec(record_bytes=1000)),
        Vertex(name="slow", service=((0.0, 0.002),)),
    ),
    edges=(Edge(source="source", target="slow"),),
)
POINTS = Grid(read_axes(target="100ms"), 2).points(
    JOB, lambda scenario: probes_of(scenario, ("main", "baseline"))
)


def timeless(runs: dict[str, Result]) -> dict[str, bytes]:
    return {name: to_json(msgspec.structs.replace(run, wall_seconds=0.0)) for name, run in runs.items()}


def test_runs_of_the_sweep_are_shown_where_they_have_series_and_are_made_again_where_not() -> None:
    bare = [run_point(point) for point in POINTS]
    whole = [run_point(msgspec.structs.replace(point, with_series=True)) for point in POINTS]
    recommendation = recommend(bare, JOB)
    kept = runs_to_show(recommendation, JOB, whole)
    assert len(kept) == 2
    assert all(run.series and run.scenario.seed == JOB.seed for run in kept.values())
    assert timeless(runs_to_show(recommendation, JOB, bare)) == timeless(kept)
    walls = {from_json(row.result).wall_seconds for row in whole if row.result is not None}
    assert {run.wall_seconds for run in kept.values()} <= walls, "not made again"
