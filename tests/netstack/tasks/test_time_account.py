"""Categories of a subtask's time; none is counted before it begins or after it has ended."""

from __future__ import annotations

import pytest

from netstack import (
    CollectionSource,
    Edge,
    GeneratorSpec,
    NetworkConfig,
    Scenario,
    SourceObject,
    Vertex,
    emulate,
)
from netstack.tasks.time_account import TimeAccount, Waiting


def test_time_is_busy_that_is_not_waited() -> None:
    times = TimeAccount()
    times.begin(1.0)
    times.enter(Waiting.INPUT, 3.0)
    assert times.until(3.5) == (2.0, 0.5, 0.0)
    times.enter(Waiting.OUTPUT, 4.0)
    assert times.until(6.0) == (2.0, 1.0, 2.0)
    times.enter(Waiting.NOTHING, 6.0)
    assert times.until(7.0) == times.until(7.0) == (3.0, 1.0, 2.0)


def test_nothing_is_booked_before_it_begins_nor_after_it_has_ended() -> None:
    times = TimeAccount()
    assert times.until(2.0) == (0.0, 0.0, 0.0)
    times.begin(2.0)
    times.enter(Waiting.TIME, 2.5)
    times.enter(Waiting.NOTHING, 3.0)
    times.end(3.25)
    assert times.until(9.0) == (0.75, 0.5, 0.0)


def test_tasks_that_have_ended_are_not_busy_while_others_go_on() -> None:
    short = SourceObject(source=CollectionSource([[b"x"] * 20]))
    vertices = (
        Vertex(name="short", source=short),
        Vertex(name="reads_it"),
        Vertex(name="endless", source=GeneratorSpec(record_bytes=20, rates=(50.0,))),
        Vertex(name="works", service=((0.0, 0.01),)),
    )
    edges = tuple(Edge(source=vertices[n].name, target=vertices[n + 1].name, ship="hash") for n in (0, 2))
    result = emulate(
        Scenario(name="ends", duration_s=10.0, config=NetworkConfig(), vertices=vertices, edges=edges)
    )
    busy = {vertex.name: vertex.busy_ms_per_s[0] for vertex in result.steady[0].vertices}
    assert busy["short"] == busy["reads_it"] == 0
    assert busy["works"] == pytest.approx(500, rel=0.1)
