"""Faults that name what is not there, or wait for what cannot happen."""

from __future__ import annotations

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
    PathSpec,
    Scenario,
    SubtaskName,
    Vertex,
    scenario_problems,
)

JOB = Scenario(
    name="job",
    duration_s=60.0,
    vertices=(
        Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=100)),
        Vertex(name="stage1", parallelism=2),
        Vertex(name="stage2", parallelism=2, task_manager="stage1"),
    ),
    edges=(
        Edge(source="source", target="stage1"),
        Edge(source="stage1", target="stage2", ship="forward"),
    ),
    config=NetworkConfig(checkpoint_interval_s=2.0),
)
SOON = AtTime(1.0)
THERE = SubtaskName("stage1", 1)


def channel(
    source: str = "source", producer: int = 0, target: str = "stage1", consumer: int = 1, number: int = 3
) -> OnChannel:
    return OnChannel(
        item=ChannelItem.BARRIER,
        number=number,
        source=SubtaskName(source, producer),
        target=SubtaskName(target, consumer),
    )


def acknowledgement(vertex: str, subtask: int, number: int = 1) -> OnAcknowledgement:
    return OnAcknowledgement(number=number, subtask=SubtaskName(vertex, subtask))


def kill(when: Moment) -> Fault:
    return KillSubtask(when=when, subtask=THERE)


def problems(*faults: Fault, scenario: Scenario = JOB) -> dict[str, str]:
    return dict(scenario_problems(replace(scenario, faults=faults)))


@pytest.mark.parametrize(
    "fault",
    [
        kill(AtTime(0.0)),
        kill(channel()),
        kill(channel("stage1", 1, "stage2", 1)),
        kill(acknowledgement("stage1", 1)),
        kill(acknowledgement("source", 0)),
        KillTaskManager(when=SOON, task_manager="stage1"),
        CutLink(when=SOON, from_task_manager="source", to_task_manager="stage1"),
        DelayMessages(when=SOON, messages="completed", delay_s=1.0, for_s=1.0, vertex="stage2"),
        DropMessages(when=SOON, messages="aborted", for_s=1.0, vertex="stage2", subtask=1),
        FailUpload(when=SOON, for_s=1.0),
        FillStorage(when=SOON),
        Outage(when=SOON, for_s=600.0),  # longer than the run
    ],
)
def test_a_sensible_fault_has_no_problems(fault: Fault) -> None:
    assert problems(fault) == {}


@pytest.mark.parametrize(
    ("fault", "field", "message"),
    [
        (Outage(when=SOON, for_s=0.0), "for", "is 0 s; it must be more than 0 s"),
        (Outage(when=AtTime(60.0), for_s=1.0), "at", "is 60 s; it must be from 0 s to before the end, 60 s"),
        (kill(AtTime(60.0)), "at", "is 60 s; it must be from 0 s to before the end, 60 s"),
        (kill(AtTime(-1.0)), "at", "it must be from 0 s"),
        (kill(channel(number=0)), "number", "is 0; counting begins with 1"),
        (kill(channel("scource")), "from", "no vertex is named 'scource'; did you mean 'source'?"),
        (kill(channel(producer=2)), "from_subtask", "is 2; source has the subtasks 0 to 1"),
        (kill(channel(consumer=-1)), "to_subtask", "is -1; stage1 has the subtasks 0 to 1"),
        (kill(channel(target="stage2")), "to", "no edge leads to it from source; did you mean 'stage1'?"),
        (
            kill(channel("stage2", target="source")),
            "to",
            "no edge leads out of stage2; give a vertex that sends records",
        ),
        (
            kill(channel("stage1", 0, "stage2", 1)),
            "to_subtask",
            "with forward, no records go from stage1[0] to ",
        ),
        (kill(acknowledgement("stage1", 2)), "from_subtask", "is 2; stage1 has the subtasks 0 to 1"),
        (kill(acknowledgement("stage1", 1, number=-1)), "number", "; counting begins with 1"),
        (KillSubtask(when=SOON, subtask=SubtaskName("sink", 0)), "vertex", "source, stage1, stage2"),
        (KillSubtask(when=SOON, subtask=SubtaskName("source", 2)), "subtask", "the subtasks 0 to 1"),
        (KillTaskManager(when=SOON, task_manager="stage2"), "task_manager", "did you mean 'stage1'?"),
        (
            CutLink(when=SOON, from_task_manager="stage1", to_task_manager="source"),
            "to_task_manager",
            "; links with records: source to stage1",
        ),
        (
            CutLink(when=SOON, from_task_manager="source", to_task_manager="elsewhere"),
            "to_task_manager",
            "no task manager is named 'elsewhere'",
        ),
        (
            CutLink(when=SOON, from_task_manager="source", to_task_manager="stage1", for_s=0.0),
            "for",
            "is 0 s; it must be more than 0 s",
        ),
        (
            DelayMessages(when=SOON, messages="trigger", delay_s=0.0, for_s=1.0),
            "delay",
            "it must be more than 0 s",
        ),
        (DropMessages(when=SOON, messages="ack", for_s=1.0), "messages", "'ack' is unknown"),
        (
            DropMessages(when=SOON, messages="trigger", for_s=1.0, subtask=1),
            "subtask",
            "is given without a vertex; give the vertex, too",
        ),
        (
            DropMessages(when=SOON, messages="trigger", for_s=1.0, vertex="stage3"),
            "vertex",
            "did you mean 'stage",
        ),
        (
            DropMessages(when=SOON, messages="trigger", for_s=1.0, vertex="source", subtask=9),
            "subtask",
            "is 9; source has the subtasks 0 to 1",
        ),
    ],
)
def test_a_mistake_is_named_with_its_fault_and_key(fault: Fault, field: str, message: str) -> None:
    found = problems(kill(SOON), fault)
    assert list(found) == [f"faults.1.{field}"]
    assert message in found[f"faults.1.{field}"]


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        (kill(channel()), "on"),
        (kill(acknowledgement("source", 0)), "on"),
        (DropMessages(when=SOON, messages="trigger", for_s=1.0), "kind"),
        (FailUpload(when=SOON, for_s=1.0), "kind"),
        (FillStorage(when=SOON), "kind"),
    ],
)
def test_what_concerns_checkpoints_needs_some(fault: Fault, field: str) -> None:
    without = replace(JOB, config=NetworkConfig())
    found = problems(fault, scenario=without)
    assert list(found) == [f"faults.0.{field}"]
    assert (
        "the job takes no checkpoints; give execution.checkpointing.interval or checkpoints_at"
        in found[f"faults.0.{field}"]
    )
    assert problems(fault, scenario=replace(without, manual_checkpoints_s=(1.0,))) == {}


def test_subtasks_of_a_path_are_known_only_when_it_has_been_opened() -> None:
    source = Vertex(name="source", parallelism=0, source=PathSpec(path="x.csv"))
    scenario = replace(JOB, vertices=(source, *JOB.vertices[1:]))
    assert problems(kill(channel(producer=5)), scenario=scenario) == {}
    found = problems(kill(channel(producer=-1)), scenario=scenario)
    assert found == {"faults.0.from_subtask": "is -1; subtasks are counted from 0"}


def test_faults_are_looked_at_when_the_job_makes_sense() -> None:
    cyclic = replace(JOB, edges=(*JOB.edges, Edge(source="stage2", target="stage1")))
    assert list(problems(kill(channel("nowhere")), scenario=cyclic)) == ["edges"]
