"""The end of the run of a point, by recordings that are made up and by whole jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from integration.advise.sweeps.end_of_run import (
    LEAST_CHECKPOINTS,
    MOST_WINDOW_S,
    SETTLED_CHECKPOINTS,
    SETTLED_RATE,
    EndOnceSettled,
    is_settled,
)
from integration.advise.sweeps.point_runs import run_point, run_reading
from integration.advise.sweeps.points import point_of
from netstack import (
    AtTime,
    Edge,
    GeneratorSpec,
    KillSubtask,
    NetworkConfig,
    PathSpec,
    Recorder,
    Scenario,
    ScheduledChange,
    SubtaskName,
    Vertex,
    from_json,
)
from netstack.results.recorder import CheckpointHead, SubtaskSample

SCENARIO = Scenario(
    name="made-up",
    duration_s=100.0,
    warmup_s=20.0,
    vertices=(
        Vertex(name="source", source=GeneratorSpec(record_bytes=100)),
        Vertex(name="sink", service=((0.0, 0.001),)),
    ),
    edges=(Edge(source="source", target="sink"),),
    config=NetworkConfig(checkpoint_interval_s=1.0),
)
SOURCE, SINK = SCENARIO.vertices


class Recorded:
    """A recording that grows by a second at a time."""

    def __init__(self, scenario: Scenario = SCENARIO) -> None:
        self.scenario = scenario
        self.recorder = Recorder([1, 1])
        self.ending = EndOnceSettled(scenario)
        self.now = -1.0
        self.read = 0.0

    def second(self, rate: float = 500.0, checkpoints_s: Sequence[float] = (0.3,)) -> float:
        """Let a second go by in which the sink reads at a rate, and checkpoints complete; when is the end?"""
        self.now += 1.0
        self.read += rate
        for duration in checkpoints_s:
            self.recorder.checkpoint(CheckpointHead(1, self.now - duration, duration), {})
        self.recorder.sample(self.now, [SubtaskSample(), SubtaskSample(records_in=int(self.read))])
        return self.ending(self.recorder)

    def ends(self, most: int = 2000, **what: object) -> float | None:
        """Return the end of the run after seconds of this kind; None if `most` of them do not end it."""
        for _ in range(most):
            end = self.second(**what)  # type: ignore[arg-type]
            if end <= self.now + 1.0:
                return end
        return None


def test_a_run_ends_once_its_figures_have_settled() -> None:
    assert Recorded().ends() == 41.0
    slow = Recorded()
    for second in range(60):
        end = slow.second(checkpoints_s=(6.0,) if second % 6 == 0 else ())
        if end <= slow.now + 1.0:
            break
    assert second == 30 + 6 * (SETTLED_CHECKPOINTS - 1), "the first was triggered at 24 s"


def test_a_window_has_its_length_where_checkpoints_come_thick_and_fast() -> None:
    assert Recorded().ends(checkpoints_s=(0.3, 0.3, 0.3)) == 41.0


@pytest.mark.parametrize("at", [0.0, 20.0, 30.0])
@pytest.mark.parametrize("of", ["a vertex", "an edge"])
def test_a_run_whose_costs_change_in_the_window_does_not_end_before(of: str, at: float) -> None:
    service, (edge,) = ((0.0, 0.001), (at, 0.002)) if at else ((0.0, 0.001),), SCENARIO.edges
    if of == "a vertex":
        scenario = replace(SCENARIO, vertices=(SOURCE, replace(SINK, service=service)))
    else:
        scenario = replace(SCENARIO, edges=(replace(edge, service=service),))
    assert Recorded(scenario).ends() == (100.0 if at > 20.0 else 41.0)


def test_without_checkpoints_the_throughput_tells() -> None:
    scenario = replace(SCENARIO, config=NetworkConfig(checkpoint_interval_s=None))
    assert Recorded(scenario).ends(checkpoints_s=()) == 41.0


def test_figures_that_vary_run_as_long_as_was_asked() -> None:
    recorded = Recorded()
    chance = np.random.default_rng(1)
    ends = [recorded.second(checkpoints_s=(float(chance.uniform(0.1, 0.9)),)) for _ in range(100)]
    assert set(ends) == {100.0}


def test_throughput_that_varies_keeps_a_run_going() -> None:
    recorded = Recorded()
    ends = [recorded.second(rate=500.0 if second % 20 < 10 else 100.0) for second in range(100)]
    assert set(ends) == {100.0}


def test_times_that_drift_have_not_settled_though_they_hardly_spread() -> None:
    """A queue that grows: the mean is known to 2 %, and will be another one."""
    values = np.linspace(0.98, 1.02, 20)
    mixed = np.concatenate([values[::2], values[1::2][::-1]])
    assert is_settled(mixed, SETTLED_RATE)
    assert not is_settled(np.linspace(0.97, 1.03, 20), SETTLED_RATE)
    assert not is_settled(np.zeros(20), SETTLED_RATE)


def test_the_fewer_values_there_are_the_nearer_they_have_to_lie() -> None:
    spread = np.array([-1.0, 1.0, -1.0, 1.0])
    assert not is_settled(1.0 + 0.001 * spread, SETTLED_RATE), "four say nothing"
    assert is_settled(np.append(1.0 + 0.01 * spread, 1.0), SETTLED_RATE)
    assert not is_settled(np.append(1.0 + 0.02 * spread, 1.0), SETTLED_RATE)
    assert is_settled(1.0 + 0.02 * np.tile(spread, 2), SETTLED_RATE)


def test_checkpoint_times_that_spread_by_a_few_percent_have_settled() -> None:
    """Times that differ by 5 % count as equal, so a mean need not be known better."""
    assert Recorded().ends(checkpoints_s=(0.31, 0.29)) == 41.0
    slow = Recorded()
    ends = [slow.second(checkpoints_s=(each,)) for each in (0.2, 0.4) * 35]
    assert set(ends) == {100.0}


@pytest.mark.parametrize(
    "changed",
    [
        replace(SCENARIO, vertices=(SOURCE, replace(SINK, service=((0.0, 0.001), (60.0, 0.002))))),
        replace(SCENARIO, faults=(KillSubtask(when=AtTime(70.0), subtask=SubtaskName("sink", 0)),)),
        replace(SCENARIO, manual_checkpoints_s=(70.0,)),
        replace(SCENARIO, phases=((20.0, 60.0),)),
        replace(SCENARIO, vertices=(SOURCE, replace(SINK, emit_every_s=18.0))),
    ],
    ids=["step", "fault", "request", "window before the end", "window of an operator"],
)
def test_what_changes_with_time_is_run_to_its_end(changed: Scenario) -> None:
    recorded = Recorded(changed)
    assert recorded.ends(99) is None
    assert recorded.ends(1) == 100.0


def test_a_step_before_the_window_changes_nothing_in_it() -> None:
    early = replace(SCENARIO, vertices=(SOURCE, replace(SINK, service=((0.0, 0.001), (10.0, 0.002)))))
    assert Recorded(early).ends() == 41.0


def test_a_run_goes_on_until_its_window_holds_enough_checkpoints() -> None:
    recorded = Recorded()
    assert recorded.ends(101, checkpoints_s=()) is None
    for second in range(90):
        taken = 5.0 + second % 12 / 6
        end = recorded.second(checkpoints_s=(taken,) if second % 6 == 0 else ())
        if end <= recorded.now + 1.0:
            break
    assert second == 6 * (LEAST_CHECKPOINTS - 1)


def test_a_run_in_which_no_checkpoint_completes_gives_up() -> None:
    assert Recorded().ends(checkpoints_s=()) == 20.0 + 2 * 80.0 + 1.0


def test_checkpoints_before_the_window_do_not_count() -> None:
    recorded = Recorded()
    assert recorded.ends(20, checkpoints_s=(0.1,) * 5) is None
    assert recorded.ends(checkpoints_s=()) == 20.0 + 2 * 80.0 + 1.0


def test_a_duration_that_is_no_whole_number_is_kept_to() -> None:
    scenario = replace(SCENARIO, duration_s=39.4)
    assert Recorded(scenario).ends() == 39.4


def test_windows_have_a_longest_length() -> None:
    recorded = Recorded()
    slow = [
        recorded.second(checkpoints_s=(100.0 + second % 300 / 6,) if second % 150 == 0 else ())
        for second in range(2000)
    ]
    last = round(recorded.scenario.warmup_s + MOST_WINDOW_S)
    assert slow[last] == last + 1.0
    assert slow[last - 10] == last - 8.0, "it goes on"


@pytest.mark.long
def test_a_job_that_ends_by_itself_has_run_as_long_as_was_asked(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("n\n" + "1\n" * 50)
    path = PathSpec(path=str(tmp_path / "few.csv"))
    config = NetworkConfig(checkpoint_interval_s=5.0)
    few = replace(SCENARIO, config=config, vertices=(replace(SOURCE, source=path), SINK))
    (row,) = run_reading([point_of(few)])
    assert row.emulated_seconds is not None
    assert row.emulated_seconds < few.duration_s
    assert row.result is not None
    assert from_json(row.result).scenario.duration_s == few.duration_s


def test_points_run_as_long_as_they_need() -> None:
    """Where a record takes 100 ms the queue makes a checkpoint take 6 s: no window of 20 s holds ten."""
    large = replace(SOURCE, source=GeneratorSpec(record_bytes=10_000))
    slow = replace(SCENARIO, duration_s=40.0, vertices=(large, replace(SINK, service=((0.0, 0.1),))))
    fast = replace(SCENARIO, duration_s=500.0, vertices=(large, SINK))
    ran_s, completed = [], []
    for scenario in (fast, slow):
        row = run_point(point_of(scenario))
        assert row.measures is not None
        assert row.emulated_seconds is not None
        ran_s.append(row.emulated_seconds)
        completed.append(row.measures.checkpoints_completed)
    assert ran_s[0] < fast.duration_s
    assert ran_s[1] > slow.duration_s
    assert completed[0] >= SETTLED_CHECKPOINTS
    assert completed[1] >= SETTLED_CHECKPOINTS


def test_a_job_is_judged_at_its_peak_although_it_is_well_at_the_end() -> None:
    """The load exceeds what the sink can process for a third of the run, and is low at the end."""
    rises_and_falls = replace(
        SCENARIO,
        warmup_s=10.0,
        duration_s=70.0,
        phases=((10.0, 30.0), (30.0, 50.0), (50.0, 70.0)),
        vertices=(
            replace(SOURCE, source=GeneratorSpec(record_bytes=1000, rates=(300.0,))),
            replace(SINK, service=((0.0, 0.002),)),
        ),
        changes=(
            ScheduledChange(at_s=30.0, vertex="source", rates=(900.0,)),
            ScheduledChange(at_s=50.0, vertex="source", rates=(100.0,)),
        ),
    )
    without_phases = replace(rises_and_falls, phases=())
    for scenario in (rises_and_falls, without_phases):
        measured = run_point(point_of(scenario)).measures
        assert measured is not None
        assert measured.worst_phase == "from 30 s to 50 s"
        slow_ms = measured.worst_phase_ms
        assert slow_ms is not None
        assert measured.end_to_end_p95_ms is not None
        assert measured.record_delay_ms is not None
        assert slow_ms > 1000
        assert measured.end_to_end_p95_ms > 1000
        assert measured.record_delay_ms > 250, "the median would be that of calm phases"
