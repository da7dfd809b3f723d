"""The mail of a subtask: none is left lying while it waits for something else."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from netstack import (
    Agenda,
    CollectionSource,
    CostModel,
    Edge,
    MemoryStorage,
    NetworkConfig,
    Scenario,
    SourceObject,
    Vertex,
)
from netstack.engine.agenda_loop import run_agenda
from netstack.engine.cancellation import Scope
from netstack.engine.randomness import Randomness
from netstack.jobs.build import JobBuilder
from netstack.tasks.source_log import SourceLogs
from netstack.tasks.subtask import Subtask
from netstack.tasks.subtask_environment import Environment
from tests.netstack.tasks.test_task_checkpoints import Told

SCENARIO = Scenario(
    name="a source and a sink",
    duration_s=1.0,
    vertices=(
        Vertex(name="source", source=SourceObject(source=CollectionSource([[b"x"]]))),
        Vertex(name="sink"),
    ),
    edges=(Edge(source="source", target="sink"),),
)


def source_and_sink(agenda: Agenda) -> tuple[Subtask, Subtask]:
    """Both subtasks of that job, which have not begun."""
    environment = Environment(
        agenda,
        Scope(agenda),
        CostModel(),
        NetworkConfig(),
        Randomness(1, 0.0),
        Told(),
        MemoryStorage(),
        SourceLogs(),
    )
    builder = JobBuilder(SCENARIO, environment)
    builder.build()
    (source,), (sink,) = builder.subtasks
    return source, sink


def test_mail_that_comes_while_a_snapshot_takes_its_time_is_handled_behind_it() -> None:
    agenda, handled_at = Agenda(), list[float]()
    _, sink = source_and_sink(agenda)
    sink.post(partial(sink.block, 0.01))
    agenda.at(0.005, sink.post, lambda: handled_at.append(agenda.now))
    agenda.start(sink.handle_mail())
    agenda.at(1.0, agenda.stop)
    trio.run(run_agenda, agenda)
    assert handled_at == [pytest.approx(0.01)]


def test_mail_that_has_come_within_a_record_does_not_wait_for_the_outputs() -> None:
    agenda, handled_at = Agenda(), list[float]()
    source, _ = source_and_sink(agenda)
    pool = source.outputs[0].partition.pool
    while pool.available:
        pool.request()
    source.post(lambda: handled_at.append(agenda.now))
    agenda.start(source.wait_for_output())
    agenda.at(1.0, agenda.stop)
    trio.run(run_agenda, agenda)
    assert handled_at == [0.0]
    assert not source.available
