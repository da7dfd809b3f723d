"""The figures of a run, on results made by hand whose figures can be told in the head, and on short runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from integration.advise.sweeps.confidence import Estimate, estimate
from integration.advise.sweeps.points import bottleneck, step_at_s, with_step
from integration.base.reading import load_scenario
from integration.runs.measures import measure
from integration.runs.window_figures import Measures
from netstack import (
    CheckpointResult,
    Edge,
    RestartResult,
    Result,
    Scenario,
    Series,
    Steady,
    Vertex,
    VertexCheckpoint,
    VertexSteady,
    emulate,
    read_scenario,
    scenario_document,
    scenario_problems,
)

REFERENCE = Path(__file__).parents[2] / "data" / "flink-reference"
SECONDS = 40
RATE = 100
"""Records per second through each vertex of a result made by hand."""

Flow = tuple[list[list[int]], list[list[int]]]
"""What a vertex had read and emitted at each sample, by subtask."""


def steady_flow(lag_s: float, subtasks: int = 1) -> list[list[int]]:
    """Records counted at each second, `lag_s` behind the clock."""
    return [[max(0, round(RATE * (second - lag_s))) for second in range(SECONDS + 1)]] * subtasks


def result_of(
    flows: dict[str, Flow],
    edges: list[tuple[str, str, str]],
    checkpoints: list[CheckpointResult] | None = None,
    service: tuple[tuple[float, float], ...] = ((0.0, 0.01),),
    debloated: bool = False,
) -> Result:
    """A run of which the second half is measured; each edge is (from, to, ship)."""
    times = [float(second) for second in range(SECONDS + 1)]
    vertices = [
        VertexSteady(name=name, parallelism=len(read), records_in_per_s=[RATE] * len(read))
        for name, (read, _) in flows.items()
    ]
    return Result(
        scenario=Scenario(
            name="by hand",
            duration_s=float(SECONDS),
            vertices=tuple(
                Vertex(name=name, parallelism=len(read), service=() if name == "source" else service)
                for name, (read, _) in flows.items()
            ),
            edges=tuple(Edge(source=source, target=target, ship=ship) for source, target, ship in edges),
        ),
        preset="flink-2.2",
        clock="virtual",
        seed=1,
        emulated_seconds=float(SECONDS),
        wall_seconds=0.1,
        checkpoints=checkpoints or [],
        steady=[Steady(from_s=SECONDS / 2, to_s=float(SECONDS), checkpoints=0, vertices=vertices)],
        series=[
            Series(
                vertex=name,
                t=times,
                numRecordsIn=read,
                numRecordsOut=sent,
                inputQueueSize=[[7] * len(times)] * len(read),
                outputQueueSize=[[5] * len(times)] * len(read),
                debloatedBufferSize=[[256.0] * len(times)] * len(read) if debloated else UNSET,
            )
            for name, (read, sent) in flows.items()
        ],
    )


def checkpoint(
    t: float, duration_ms: float | None, status: str = "COMPLETED", failure: str | None = None
) -> CheckpointResult:
    """A checkpoint whose last subtask takes 7 ms for its snapshot, and 10 ms to align."""
    part = VertexCheckpoint(
        name="sink",
        end_to_end_ms=[duration_ms, 1.0],
        start_delay_ms=[20.0, 1.0],
        alignment_ms=[10.0, 0.0],
        sync_ms=[1.0, 0.0],
        async_ms=[6.0, 0.0],
    )
    return CheckpointResult(
        id=1, t=t, status=status, duration_ms=duration_ms, failure=failure, vertices=[part]
    )


NOTHING = steady_flow(SECONDS * 2)
TWO = {"source": (NOTHING, steady_flow(0)), "sink": (steady_flow(0.5), NOTHING)}
ONE_EDGE = [("source", "sink", "rebalance")]


def twice(curves: list[list[int]]) -> list[list[int]]:
    return [[2 * count for count in curve] for curve in curves]


def test_the_record_delay_is_the_time_between_the_curves() -> None:
    measures = measure(result_of(TWO, ONE_EDGE))
    assert measures.record_delay_ms == 500.0
    assert measures.record_delay_p95_ms == 500.0
    assert measures.throughput_per_s == RATE


@given(st.floats(0.0, 15.0))
def test_any_delay_is_found_to_within_a_record(lag_s: float) -> None:
    flows = {"source": (NOTHING, steady_flow(0)), "sink": (steady_flow(lag_s), NOTHING)}
    assert measure(result_of(flows, ONE_EDGE)).record_delay_ms == pytest.approx(lag_s * 1e3, abs=1e3 / RATE)


def test_the_delays_of_a_path_add_up() -> None:
    flows = {
        "source": (NOTHING, steady_flow(0)),
        "map": (steady_flow(0.5), steady_flow(0.5)),
        "sink": (steady_flow(2.5), NOTHING),
    }
    edges = [("source", "map", "rebalance"), ("map", "sink", "hash")]
    assert measure(result_of(flows, edges)).record_delay_ms == 2500.0


def test_of_several_sinks_and_ways_the_slowest_counts() -> None:
    flows = {
        "source": (NOTHING, twice(steady_flow(0))),  # once on each of two edges
        "quick": (steady_flow(0.1), NOTHING),
        "slow": (steady_flow(3), NOTHING),
    }
    edges = [("source", "quick", "rebalance"), ("source", "slow", "rebalance")]
    assert measure(result_of(flows, edges)).record_delay_ms == 3000.0


def test_ways_through_many_diamonds_are_not_followed_one_by_one() -> None:
    flows = {"source": (NOTHING, twice(steady_flow(0)))}
    edges = []
    last = "source"
    for number in range(1, 41):
        lags_s = 0.1 * number - 0.05, 0.1 * number
        sides = [f"left {number}", f"right {number}"]
        flows |= {name: (steady_flow(lags_s[0]), steady_flow(lags_s[0])) for name in sides}
        flows[f"end {number}"] = twice(steady_flow(lags_s[1])), twice(steady_flow(lags_s[1]))
        edges += [(last, name, "forward") for name in sides]
        edges += [(name, f"end {number}", "forward") for name in sides]
        last = f"end {number}"
    assert measure(result_of(flows, edges)).record_delay_ms == 4000.0


def test_a_broadcast_record_is_read_by_each_subtask_and_emitted_once() -> None:
    flows = {"source": (NOTHING, steady_flow(0)), "sink": (steady_flow(1, subtasks=4), NOTHING * 4)}
    assert measure(result_of(flows, [("source", "sink", "broadcast")])).record_delay_ms == 1000.0


def test_queues_of_sources_inputs_and_of_sinks_outputs_do_not_count() -> None:
    assert measure(result_of(TWO, ONE_EDGE)).in_flight_bytes == 12.0


def test_without_series_or_after_a_restart_nothing_is_said_of_records() -> None:
    whole = result_of(TWO, ONE_EDGE)
    restart = RestartResult(failed_at=3.0, cause="killed")
    for result in (
        msgspec.structs.replace(whole, series=[]),
        msgspec.structs.replace(whole, restarts=[restart]),
    ):
        assert measure(result).record_delay_ms is None
        assert measure(result).throughput_per_s == RATE
    assert measure(msgspec.structs.replace(whole, steady=[])) == Measures()


def test_checkpoints_of_the_window_are_counted_by_how_they_ended() -> None:
    measures = measure(
        result_of(
            TWO,
            ONE_EDGE,
            [
                checkpoint(5.0, 9000.0),  # before the window
                checkpoint(21.0, 100.0),
                checkpoint(23.0, 300.0),
                checkpoint(25.0, 200.0),
                checkpoint(27.0, None, "FAILED", "CHECKPOINT_EXPIRED"),
                checkpoint(29.0, None, "FAILED", "CHECKPOINT_DECLINED"),
                checkpoint(36.5, None, "IN_PROGRESS"),
            ],
        )
    )
    assert measures.end_to_end_ms == 200.0
    assert measures.end_to_end_p95_ms == 290.0
    assert (measures.start_delay_ms, measures.alignment_ms, measures.state_ms) == (20.0, 10.0, 7.0)
    assert measures.pending_ms == 3500.0
    counts = (measures.checkpoints_completed, measures.checkpoints_failed, measures.checkpoints_expired)
    assert counts == (3, 2, 1)


STEP_S = 10.0
STEPPING = ((0.0, 0.005), (10.0, 0.010))


def after_step(settles_at: int) -> dict[str, Flow]:
    """2 s of records wait until `settles_at` seconds, half a second's from then on."""
    read = steady_flow(0.5)[0]
    waiting = [200 if second < settles_at else 50 for second in range(SECONDS + 1)]
    return {
        "source": (NOTHING, [[count + more for count, more in zip(read, waiting, strict=True)]]),
        "sink": ([read], NOTHING),
    }


@pytest.mark.parametrize("settles_at", [11, 13, 20])
def test_adaptation_lasts_until_the_drain_time_stays_where_it_settles(settles_at: int) -> None:
    result = result_of(after_step(settles_at), ONE_EDGE, service=STEPPING, debloated=True)
    assert measure(result, step_at_s=STEP_S).adaptation_ms == (settles_at - STEP_S) * 1e3


def test_no_adaptation_time_where_nothing_steps_adapts_or_settles() -> None:
    settled = result_of(after_step(13), ONE_EDGE, service=STEPPING, debloated=True)
    fixed = result_of(after_step(13), ONE_EDGE, service=STEPPING, debloated=False)
    restless = result_of(after_step(SECONDS - 1), ONE_EDGE, service=STEPPING, debloated=True)
    assert measure(settled).adaptation_ms is None
    assert measure(settled, step_at_s=STEP_S + 1).adaptation_ms is None
    assert measure(fixed, step_at_s=STEP_S).adaptation_ms is None
    assert measure(restless, step_at_s=STEP_S).adaptation_ms is None


def test_a_step_of_the_load_doubles_the_service_time_of_the_bottleneck() -> None:
    step = with_step(load_scenario(REFERENCE / "2x2_200KBs_on1s.toml"))
    assert step is not None
    assert step.vertex("stage1").service == ((0.0, 0.005), (30.0, 0.010))
    assert step_at_s(step) == 30.0
    assert not step.takes_checkpoints
    assert list(scenario_problems(step)) == []
    assert read_scenario(scenario_document(step)) == step


def test_without_debloating_or_a_service_time_there_is_no_step() -> None:
    scenario = load_scenario(REFERENCE / "2x2_200KBs_off.toml")
    idle = replace(scenario, vertices=tuple(replace(vertex, service=()) for vertex in scenario.vertices))
    assert with_step(scenario) is None
    assert bottleneck(idle) is None


def test_the_bottleneck_is_the_vertex_with_the_least_capacity() -> None:
    scenario = load_scenario(REFERENCE / "2x2x2_1MBs_depth2_off.toml")
    vertices = [
        replace(vertex, service=((0.0, 0.001), (40.0, 0.1)))
        for vertex in scenario.vertices
        if vertex.source is None
    ]
    skewed = replace(vertices[0], service_skew=(1.0, 1.5))
    narrow = replace(vertices[1], parallelism=1)
    source = scenario.vertices[0]
    assert bottleneck(replace(scenario, vertices=(source, skewed, vertices[1]))) == skewed
    assert bottleneck(replace(scenario, vertices=(source, skewed, narrow))) == narrow


def test_a_real_run_drains_its_queues_in_about_the_record_delay() -> None:
    scenario = load_scenario(REFERENCE / "2x2_200KBs_unaligned.toml")
    measures = measure(emulate(scenario))
    assert measures.in_flight_bytes is not None
    assert measures.throughput_per_s is not None
    assert measures.record_delay_ms == pytest.approx(
        measures.in_flight_bytes / (measures.throughput_per_s * 1017) * 1e3, rel=0.1
    )
    assert measures.persisted_bytes == pytest.approx(measures.in_flight_bytes, rel=0.15)


def test_a_real_run_with_a_step_adapts_in_seconds() -> None:
    step = with_step(load_scenario(REFERENCE / "2x2_200KBs_on1s.toml"))
    assert step is not None
    adaptation = measure(emulate(step), step_at_s=step_at_s(step)).adaptation_ms
    assert adaptation is not None
    assert 1000 <= adaptation <= 10_000


@pytest.mark.parametrize("runs", [2, 3, 5, 8])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(runs: int) -> None:
    held = 0
    for repetition in range(300):
        values = np.random.default_rng([repetition, runs]).normal(100.0, 5.0, runs)
        found = estimate(values, 6)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 100.0 <= found.high
    assert 0.91 <= held / 300 <= 0.99


def test_a_single_run_has_no_interval() -> None:
    assert estimate([3.0]) == Estimate(3.0, None, None, 1, 1)


def test_runs_without_the_figure_are_counted_and_do_not_lower_the_mean() -> None:
    assert estimate([None, 3.0, None]) == Estimate(3.0, None, None, 1, 3)
    assert estimate([None, None]) is None
    assert estimate([]) is None


def test_an_amount_is_not_less_than_none() -> None:
    found = estimate([0.0, 10.0])
    assert found is not None
    assert found.low == 0.0
