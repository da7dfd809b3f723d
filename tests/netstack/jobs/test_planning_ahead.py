"""Tasks that plan their output ahead give the results of tasks that write each record in its turn.

Two sources never have the same rate: the order of records that are due at the same time would differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from netstack import (
    AtTime,
    CostModel,
    Edge,
    GeneratorSpec,
    KillSubtask,
    NetworkConfig,
    Scenario,
    ScheduledChange,
    SubtaskName,
    Vertex,
    emulate,
)
from netstack.results.result_json import to_json
from netstack.scenarios.scenario import CoursePart
from netstack.tasks.subtask import Subtask

SOURCES = st.sampled_from(
    [
        {},  # as fast as possible
        {"rates": (40.0, 37.0)},
        {"rates": (900.0, 3000.0)},
        {"rates": (6000.0, 5900.0), "catch_up_s": 0.01},
        {"rates": (500.0, 470.0), "burst_s": 0.2},
        {"rates": (500.0, 470.0), "wave_s": 1.0},
        {"batch": 7},
        {"rates": (2000.0, 1900.0), "batch": 3},
        {"legacy": True},
        {"cost_s": 1e-4},
    ]
)
SHIPS = st.sampled_from(["forward", "rescale", "rebalance", "hash", "broadcast"])
SETTINGS = st.fixed_dictionaries(
    {
        "segment_bytes": st.sampled_from([1024, 4096, 32768]),
        "buffer_timeout_interval_s": st.sampled_from([0.005, 0.1]),
        "checkpoint_interval_s": st.sampled_from([0.15, 0.6]),
        "debloat_enabled": st.booleans(),
        "unaligned_enabled": st.booleans(),
    }
)


def result_of(scenario: Scenario) -> bytes:
    result = emulate(scenario)
    return to_json(structs.replace(result, wall_seconds=0.0))


@settings(max_examples=12, deadline=None)
@given(
    source=SOURCES,
    record_bytes=st.sampled_from([20, 300, 1013]),
    ships=st.tuples(SHIPS, SHIPS),
    services=st.tuples(st.sampled_from([0.0, 1e-4, 2e-3]), st.sampled_from([0.0, 1e-4, 2e-3])),
    selectivity=st.sampled_from([1.0, 1.0, 0.4, 2.0]),
    courses=st.tuples(*[st.sampled_from([(), ((0.1, 0.4), (0.05, 2.2))])] * 2),
    options=SETTINGS,
    is_disturbed=st.booleans(),
)
def test_results_are_those_of_tasks_that_write_each_record_in_its_turn(
    source: dict[str, Any],
    record_bytes: int,
    ships: tuple[str, str],
    services: tuple[float, float],
    selectivity: float,
    courses: tuple[tuple[CoursePart, ...], tuple[CoursePart, ...]],
    options: dict[str, Any],
    is_disturbed: bool,
) -> None:
    scenario = Scenario(
        name="ahead",
        duration_s=0.8137,  # when no record is due
        costs=CostModel(source_record_s=2e-4),
        config=NetworkConfig(**options, restart_initial_backoff_s=0.05),
        vertices=(
            Vertex(
                name="source",
                parallelism=2,
                source=GeneratorSpec(record_bytes=record_bytes, **source),
                course=courses[0] if source.keys() == {"rates"} else (),
            ),
            Vertex(
                name="map",
                parallelism=2,
                service=((0.0, services[0]),),
                course=courses[1],
                selectivity=selectivity,
            ),
            Vertex(name="sink", parallelism=2, service=((0.0, services[1]),)),
        ),
        edges=(
            Edge(source="source", target="map", ship=ships[0]),
            Edge(source="map", target="sink", ship=ships[1]),
        ),
    )
    if is_disturbed:
        kill = KillSubtask(when=AtTime(0.3), subtask=SubtaskName("map", 1))
        changes = (ScheduledChange(at_s=0.6, vertex="source", rates=(1000.0, 700.0)),)
        scenario = replace(scenario, faults=(kill,), changes=changes)
    with patch.object(Subtask, "room", lambda *_: 0):
        in_turn = result_of(scenario)
    assert result_of(scenario) == in_turn
