"""Paced sources are logs that others fill while a job is down: after a restart they read the backlog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netstack import (
    CollectionSource,
    Edge,
    Fault,
    GeneratorSpec,
    Job,
    NetworkConfig,
    RestartStrategy,
    Scenario,
    ScheduledChange,
    SourceObject,
    Vertex,
    emulate,
)
from netstack.tasks.source_log import Bursts, LogSpan, Pace, SourceLog, Wave
from netstack.tasks.source_subtask import SourceSubtask
from tests.netstack.whole_jobs import EXACT, kill, run

RATE = 200.0
DOWN_S = 3.0
COURSE = ((1.3, 0.5), (0.9, 1.7))
SOURCES: dict[str, dict[str, Any]] = {
    "even": {},
    "of each subtask": {"rates": (RATE, 3 * RATE)},
    "bursts": {"burst_s": 1.0},
    "short bursts": {"burst_s": 0.013},
    "wave": {"wave_s": 7.0},
    "course": {"course": COURSE},
    "batches": {"batch": 7},
    "legacy": {"legacy": True},
    "without catching up": {"catch_up_s": 0.0},
}


def job(faults: Sequence[Fault], changes: Sequence[ScheduledChange] = (), **of_source: Any) -> Scenario:
    """Two pipelines, which are two regions; a checkpoint is complete after 1.5 s, 3 s and so on."""
    course = of_source.pop("course", ())
    spec = GeneratorSpec(**({"record_bytes": 50, "rates": (RATE,)} | of_source))
    return Scenario(
        name="backlog",
        duration_s=20.0,
        costs=EXACT,
        config=NetworkConfig(
            checkpoint_interval_s=1.5,
            restart_strategy=RestartStrategy.FIXED_DELAY,
            restart_attempts=10,
            restart_delay_s=DOWN_S,
        ),
        vertices=(
            Vertex(name="source", parallelism=2, source=spec, course=course),
            Vertex(name="sink", parallelism=2),
        ),
        edges=(Edge(source="source", target="sink", ship="forward"),),
        faults=tuple(faults),
        changes=tuple(changes),
    )


def positions(scenario: Scenario, times: Sequence[float]) -> list[list[int]]:
    """Return the number of records that each source subtask has read, at each of the times."""
    found: list[list[int]] = []

    def look(job: Job) -> None:
        assert job.attempt is not None
        own = job.attempt.builder.subtasks[0]
        found.append([subtask.position for subtask in own if isinstance(subtask, SourceSubtask)])

    run(scenario, looks=[(at, look) for at in times])
    return found


TIMES = (17.001, 18.234, 19.901)


@cache
def undisturbed_positions(scenario: Scenario) -> list[list[int]]:
    """Return the positions at `TIMES`, for all tests that disturb the same job."""
    return positions(scenario, TIMES)


FAULTS = {
    "one": [kill("sink", 0, 5.0)],
    "before the first checkpoint": [kill("source", 0, 1.0)],
    "again while it reads its state": [kill("sink", 0, 5.0), kill("sink", 0, 8.01)],
    "again while it reads the backlog": [kill("sink", 0, 5.0), kill("source", 0, 8.13)],
    "both regions": [kill("sink", 0, 5.0), kill("sink", 1, 6.0)],
    "three": [kill("source", 1, 4.0), kill("source", 1, 8.0), kill("source", 1, 12.0)],
}


@pytest.mark.parametrize("ship", ["forward", "rebalance"])
@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("of_source", SOURCES.values(), ids=SOURCES)
def test_in_the_end_a_source_has_read_all_that_has_arrived(
    of_source: dict[str, Any], faults: list[Fault], ship: str
) -> None:
    edges = (Edge(source="source", target="sink", ship=ship),)
    disturbed = replace(job(faults, **of_source), edges=edges)
    assert positions(disturbed, TIMES) == undisturbed_positions(replace(disturbed, faults=()))


def change(at: float, *rates: float) -> ScheduledChange:
    return ScheduledChange(at_s=at, vertex="source", rates=rates)


CHANGES = {
    "while it runs": [change(2.0, 500.0)],
    "after the checkpoint that is restored": [change(4.7, 90.0)],
    "while it is down": [change(6.1, 500.0, 100.0)],
    "twice while it is down": [change(5.6, 500.0), change(6.7, 100.0)],
    "while it reads the backlog": [change(8.105, 50.0)],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    "of_source",
    [{}, {"burst_s": 0.25}, {"wave_s": 7.0}, {"course": COURSE}],
    ids=["even", "bursts", "wave", "course"],
)
def test_a_rate_that_changes_fills_the_log_also_while_the_job_is_down(
    of_source: dict[str, Any], changes: list[ScheduledChange]
) -> None:
    disturbed = job([kill("sink", 0, 5.0)], changes, **of_source)
    undisturbed = undisturbed_positions(replace(disturbed, faults=()))
    assert positions(disturbed, TIMES) == [
        [pytest.approx(one, abs=1) for one in each] for each in undisturbed
    ]


def test_a_log_does_not_grow_while_it_has_no_rate() -> None:
    stopped = job([kill("sink", 0, 5.0), kill("sink", 1, 5.0)], [change(5.5, 0.0), change(6.5, 100.0)])
    assert positions(stopped, [19.905]) == [[pytest.approx(5.0 * RATE + 13.905 * 100.0, abs=102)] * 2]


def test_the_backlog_is_read_above_the_rate_and_as_fast_as_the_job_can() -> None:
    slow = replace(job([kill("sink", 0, 5.0)], record_bytes=20_000), duration_s=30.0)
    source, sink = slow.vertices
    slow = replace(slow, vertices=(source, replace(sink, service=((0.0, 1 / 500),))))
    before, after, later = (positions(slow, [at, at + 1.0]) for at in (3.0, 9.0, 28.0))
    assert before[1][0] - before[0][0] == RATE
    assert after[1][0] - after[0][0] == pytest.approx(500, rel=0.1)
    assert later[1][0] - later[0][0] == RATE
    assert later[0][0] == 28 * RATE + 1
    (series,) = [each for each in emulate(slow).series if each.vertex == "source"]
    assert max(series.numRecordsOut[0]) >= 30 * RATE


def test_what_a_job_does_not_make_up_under_back_pressure_is_not_in_the_backlog() -> None:
    held = job([kill("sink", 0, 6.9)], catch_up_s=0.5, record_bytes=30_000)
    source, sink = held.vertices
    service = ((0.0, 1.0), (5.0, 0.0))  # each record fills a buffer, so that little waits
    held = replace(held, vertices=(source, replace(sink, service=service, service_mode="exact")))
    assert positions(held, [19.9]) == [
        [pytest.approx(one, abs=2) for one in each] for each in positions(replace(held, faults=()), [19.9])
    ]


def test_a_log_that_ends_is_read_to_its_end() -> None:
    records = [b"%d" % number for number in range(1600)]
    source = SourceObject(source=CollectionSource([records, records]), rates=(RATE,))
    finite = job([kill("sink", 0, 5.0), kill("sink", 1, 6.0)])
    finite = replace(finite, vertices=(replace(finite.vertices[0], source=source), finite.vertices[1]))
    result = emulate(finite)
    assert result.emulated_seconds < 11  # the second one restarts at 9.1 s; the last records came at 8 s
    assert result.series[0].numRecordsOut[0][-1] > 1600  # those behind the checkpoint twice


def test_a_source_without_a_rate_has_no_backlog() -> None:
    fast = job([kill("sink", 0, 5.0)], rates=(0.0,), record_bytes=5_000)
    source, sink = fast.vertices
    fast = replace(fast, vertices=(source, replace(sink, service=((0.0, 1 / 100),))))
    ((killed, not_killed),) = positions(fast, [19.9])
    assert killed < not_killed - (DOWN_S - 1) * 100


def test_records_of_the_backlog_have_the_time_of_their_arrival() -> None:
    """The watermark begins where the checkpoint was, and then overtakes the clock's pace."""
    lags = dict[float, float]()

    def look(job: Job) -> None:
        assert job.attempt is not None
        lags[job.agenda.now] = job.attempt.builder.subtasks[0][0].sample().watermark_lag_ms

    timed = job([kill("sink", 0, 5.0)], out_of_orderness_s=0.0, record_bytes=20_000)
    source, sink = timed.vertices
    window = replace(sink, name="window", service=((0.0, 1 / 800),), emit_every_s=0.5, emit_by="event_time")
    timed = replace(
        timed,
        vertices=(source, window, replace(sink, parallelism=1)),
        edges=(Edge(source="source", target="window"), Edge(source="window", target="sink")),
        config=replace(timed.config, auto_watermark_interval_s=0.05),
    )
    run(timed, looks=[(at, look) for at in (4.0, 8.5, 9.0, 9.5, 12.0)])
    restarted = 8.1  # at the position of 4.5 s; reads four times as fast as records arrive
    assert lags[4.0] == pytest.approx(0, abs=60)
    for at in (8.5, 9.0, 9.5):
        assert lags[at] == pytest.approx(1e3 * (restarted - 4.5 - 3 * (at - restarted)), abs=700)
    assert lags[12.0] == pytest.approx(0, abs=60)


PACES = st.one_of(
    st.none(),
    st.builds(Bursts, st.floats(0.5, 1e4), st.floats(0.01, 10.0)),
    st.builds(Wave, st.floats(0.5, 1e4), st.floats(0.1, 100.0)),
)


@given(PACES, st.floats(0.5, 1e4), st.floats(0.0, 1e3), st.integers(0, 10**6), st.integers(0, 10**5))
@settings(deadline=None)
def test_a_record_has_arrived_from_its_arrival_on(
    pace: Pace | None, rate: float, since_s: float, first: int, number: int
) -> None:
    span = LogSpan(since_s, first, rate, pace)
    arrival_s = span.arrival_s(first + number)
    assert span.arrived_by(arrival_s + 1e-6) > first + number
    assert span.arrived_by(arrival_s - 1e-6) <= first + number or arrival_s == since_s


def test_a_log_goes_on_over_changes_that_no_subtask_has_obeyed() -> None:
    log = SourceLog()
    log.reopen()
    assert not log.begin(10.0, 100, 10.0, None)
    log.announce(11.0, 20.0, None)  # 11 records have arrived
    log.announce(12.0, 0.0, None)  # 21 more; from now on the log has no rate
    log.announce(14.0, 5.0, None)
    log.leave(104, 10.4)
    log.reopen()
    assert log.begin(15.0, 102, 5.0, None)
    assert log.arrived_by(15.0) == 100 + 11 + 21 + 6
    assert [log.arrival_s(position) for position in (102, 110, 111, 131, 132, 137)] == pytest.approx(
        [10.2, 11.0, 11.0, 12.0, 14.0, 15.0]
    )
