"""A run to which faults are added is as if they had been in its scenario from the beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from netstack import (
    AtTime,
    ChannelItem,
    CutLink,
    DelayMessages,
    DropMessages,
    Edge,
    FailUpload,
    Fault,
    FillStorage,
    GeneratorSpec,
    KillSubtask,
    KillTaskManager,
    Moment,
    NetworkConfig,
    OnAcknowledgement,
    OnChannel,
    Outage,
    Scenario,
    ScenarioError,
    SubtaskName,
    Vertex,
    to_json,
)
from netstack.engine.agenda import Agenda
from netstack.jobs.emulation import result_of
from netstack.jobs.job import Job

FIRST = KillSubtask(when=AtTime(1.2), subtask=SubtaskName("stage1", 1))
"""Lets all runs have a restart before anything is planned."""

PLANNED_AT = 2.6


def scenario_with(ship: str, *faults: Fault) -> Scenario:
    """Two sources, two stages elsewhere, and two sinks beside the stages; with `forward` in two regions."""
    return Scenario(
        name="job",
        duration_s=6.0,
        warmup_s=1.0,
        seed=3,
        vertices=(
            Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=100, rates=(150.0,))),
            Vertex(name="stage1", parallelism=2, service=((0.0, 0.004),)),
            Vertex(name="sink", parallelism=2, task_manager="stage1"),
        ),
        edges=(
            Edge(source="source", target="stage1", ship=ship),
            Edge(source="stage1", target="sink", ship="forward"),
        ),
        config=NetworkConfig(
            checkpoint_interval_s=0.4,
            unaligned_enabled=True,
            state_memory_threshold_bytes=0,
            heartbeat_timeout_s=1.0,
            tolerable_failed_checkpoints=100,
            restart_delay_s=0.2,
        ),
        faults=(FIRST, *faults),
    )


def run_planned(scenario: Scenario, planned: Sequence[Fault] = ()) -> tuple[str, list[tuple[float, str]]]:
    """Run a scenario, to which faults are added on the way.

    Returns its result without the faults, and the faults that have fired.
    """
    agenda = Agenda()
    job = Job(scenario, agenda)
    try:
        job.begin()
        agenda.run_until(PLANNED_AT, 10**9)
        if planned:
            job.plan(replace(scenario, faults=scenario.faults + tuple(planned)))
        agenda.run_until(scenario.duration_s, 10**9)
        job.conclude()
        result = result_of(
            replace(scenario, faults=()),
            job.recorder,
            clock="virtual",
            emulated_seconds=agenda.now,
            wall_seconds=0.0,
            work=job.work,
            start=None,
            restarts=job.restarts,
            fired=(),
            failure=job.failure,
        )
    finally:
        agenda.clear()
        job.release()
    assert job.leaked_segments == 0
    return to_json(result), [(fault.time, fault.kind) for fault in job.faults.fired]


def on(item: str, number: int, source: str, target: str) -> Moment:
    names = SubtaskName(source, 1), SubtaskName(target, 1)
    return OnChannel(item=ChannelItem(item), number=number, source=names[0], target=names[1])


MOMENTS = {
    "at a time": AtTime(3.1),
    "on a buffer of a remote channel": on("buffer", 25, "source", "stage1"),
    "on a buffer of a local channel": on("buffer", 25, "stage1", "sink"),
    "on a barrier": on("barrier", 5, "source", "stage1"),
    "on an acknowledgement": OnAcknowledgement(number=5, subtask=SubtaskName("stage1", 1)),
}


def faults_at(when: Moment) -> dict[str, Fault]:
    return {
        "kill_subtask": KillSubtask(when=when, subtask=SubtaskName("stage1", 1)),
        "kill_task_manager": KillTaskManager(when=when, task_manager="stage1"),
        "cut_link": CutLink(when=when, from_task_manager="source", to_task_manager="stage1", for_s=1.5),
        "delay_messages": DelayMessages(when=when, messages="acknowledge", delay_s=0.15, for_s=2.0),
        "drop_messages": DropMessages(when=when, messages="acknowledge", for_s=1.0, vertex="stage1"),
        "fail_upload": FailUpload(when=when, for_s=1.0),
        "fill_storage": FillStorage(when=when),
        "outage": Outage(when=when, for_s=0.7),
    }


KINDS = list(faults_at(AtTime(0.0)))
COUNTED = [moment for moment in MOMENTS if moment != "at a time"]


@pytest.mark.parametrize(
    ("ship", "moment", "kind"),
    [
        *(("rebalance", "at a time", kind) for kind in KINDS),
        *(("rebalance", moment, "outage") for moment in COUNTED),
        *((ship, moment, KINDS[0]) for ship in ("rebalance", "forward") for moment in COUNTED),
        *(("rebalance", moment, kind) for moment, kind in zip(COUNTED, KINDS[2:], strict=False)),
    ],
)
def test_a_planned_fault_does_what_it_does_from_the_beginning(ship: str, moment: str, kind: str) -> None:
    fault = faults_at(MOMENTS[moment])[kind]
    planned, fired = run_planned(scenario_with(ship), [fault])
    (first, _), (at, what) = fired
    assert (first, what) == (1.2, kind)
    assert PLANNED_AT < at < 5.5
    from_the_beginning, _ = run_planned(scenario_with(ship, fault))
    assert planned == from_the_beginning
    without, _ = run_planned(scenario_with(ship))
    assert planned != without


def test_a_fault_whose_number_has_passed_is_refused_and_nothing_changes() -> None:
    scenario = scenario_with("rebalance")
    late = KillSubtask(when=on("barrier", 1, "source", "stage1"), subtask=SubtaskName("stage1", 1))
    in_time = KillSubtask(when=AtTime(3.0), subtask=SubtaskName("stage1", 1))
    agenda = Agenda()
    job = Job(scenario, agenda)
    try:
        job.begin()
        agenda.run_until(PLANNED_AT, 10**9)
        with pytest.raises(
            ScenarioError,
            match=r"^faults\.2\.number: is 1, but the run has already counted \d; give a higher number$",
        ):
            job.plan(replace(scenario, faults=(FIRST, in_time, late)))
        assert job.scenario == scenario
        agenda.run_until(scenario.duration_s, 10**9)
        assert [fault.time for fault in job.faults.fired] == [1.2]
    finally:
        agenda.clear()
        job.release()
