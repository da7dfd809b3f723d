"""Outages: the whole job is down for a given time, and then reads what has arrived in the meantime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import cos, floor, isnan, pi
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from netstack import (
    Agenda,
    AtTime,
    CollectionSource,
    Edge,
    FailoverStrategy,
    Fault,
    GeneratorSpec,
    Job,
    JobFailedError,
    NetworkConfig,
    OnAcknowledgement,
    Outage,
    RestartStrategy,
    Result,
    Scenario,
    ScheduledChange,
    SourceObject,
    SubtaskName,
    TransactionLog,
    Vertex,
    from_json,
    to_json,
    transactional_sink,
)
from netstack import emulate as emulated
from netstack.jobs.failover import regions_of
from netstack.tasks.source_subtask import SourceSubtask
from tests.netstack.whole_jobs import EXACT, MODES, kill, recovering, run

COUNT = 400
COSTS = replace(EXACT, deploy_s=0.0, deploy_per_task_s=0.0)


def outage(at: float, for_s: float) -> Outage:
    return Outage(when=AtTime(at), for_s=for_s)


def job(
    *faults: Fault, ship: str = "rebalance", log: TransactionLog | None = None, **options: Any
) -> Scenario:
    """Numbers that are read at 200 a second and committed; with `forward` two regions."""
    parts = [[b"%d:%d" % (number, part) for number in range(COUNT)] for part in range(2)]
    return Scenario(
        name="outage",
        duration_s=60.0,
        costs=COSTS,
        config=recovering(**{"restart_strategy": RestartStrategy.NONE} | options),
        vertices=(
            Vertex(
                name="numbers",
                parallelism=2,
                source=SourceObject(source=CollectionSource(parts), rates=(200.0,)),
                task_manager="tm1",
            ),
            Vertex(
                name="out",
                parallelism=2,
                operator=transactional_sink((log or TransactionLog()).commit),
                service=((0.0, 0.001),),
                task_manager="tm2",
            ),
        ),
        edges=(Edge(source="numbers", target="out", ship=ship),),
        faults=faults,
    )


def emulate(scenario: Scenario) -> Result:
    """Run a job, which may fail for good."""
    try:
        return emulated(scenario)
    except JobFailedError as error:
        return error.result


def all_records() -> list[bytes]:
    return sorted(b"%d:%d" % (number, part) for number in range(COUNT) for part in range(2))


def spans(result: Result) -> list[tuple[float, float | None, str]]:
    """Times at which the job failed and restarted, with the cause."""
    return [(each.failed_at, each.restarted_at, each.cause) for each in result.restarts]


@pytest.mark.parametrize("ship", ["rebalance", "forward"])
def test_a_job_that_never_restarts_comes_back_after_an_outage(ship: str) -> None:
    log = TransactionLog()
    result = emulate(job(outage(1.0, 3.0), ship=ship, log=log))
    assert result.failure is None
    assert spans(result) == [(1.0, 4.0, "the job is down for 3 s")]
    assert [restart.tasks for restart in result.restarts] == [UNSET]
    assert result.restarts[0].checkpoint_id is not None
    assert [(fault.t, fault.kind) for fault in result.faults] == [(1.0, "outage")]
    assert sorted(log.records) == all_records()


def test_an_outage_takes_no_attempt_of_the_restart_strategy() -> None:
    few = {"restart_strategy": RestartStrategy.FIXED_DELAY, "restart_attempts": 1, "restart_delay_s": 0.5}
    result = emulate(job(outage(0.3, 0.5), outage(1.0, 0.5), kill("out", 0, 1.7), **few))
    assert result.failure is None
    assert [restarted for _, restarted, _ in spans(result)] == [0.8, 1.5, 2.2]
    result = emulate(job(outage(0.3, 0.5), kill("out", 0, 1.2), kill("out", 0, 1.9), **few))
    assert result.failure is not None


def test_a_kill_after_an_outage_ends_a_job_that_never_restarts() -> None:
    result = emulate(job(outage(0.3, 0.5), kill("out", 0, 1.2)))
    assert result.failure is not None
    assert result.failure.startswith("subtask out[0] is killed")


DEPLOYMENT = replace(COSTS, deploy_s=0.2)


@pytest.mark.parametrize(
    ("at", "for_s", "restarted_at"),
    [
        (1.5, 4.0, 5.7),  # during the delay
        (1.5, 0.2, 2.2),  # ends before the delay
        (1.5, 0.6, 2.3),  # ends during the deployment, which begins anew
        (2.1, 1.0, 3.3),  # begins during the deployment
    ],
)
def test_an_outage_during_a_restart_delays_the_restart(at: float, for_s: float, restarted_at: float) -> None:
    delayed = {"restart_strategy": RestartStrategy.FIXED_DELAY, "restart_delay_s": 1.0}
    log = TransactionLog()
    scenario = job(kill("out", 0, 1.0), outage(at, for_s), log=log, **delayed)
    result = emulate(replace(scenario, costs=DEPLOYMENT))
    assert spans(result) == [(1.0, restarted_at, "subtask out[0] is killed")]
    assert sorted(log.records) == all_records()


def test_the_latest_end_of_overlapping_outages_counts() -> None:
    long_first = emulate(job(outage(1.0, 4.0), outage(2.0, 1.0)))
    assert spans(long_first) == [(1.0, 5.0, "the job is down for 4 s")]
    short_first = emulate(job(outage(1.0, 2.0), outage(2.0, 4.0)))
    assert spans(short_first) == [(1.0, 6.0, "the job is down for 2 s")]


def test_an_outage_while_a_job_reads_its_state_is_another_restart() -> None:
    log = TransactionLog()
    scenario = job(outage(1.0, 1.0), outage(2.0001, 1.0), log=log)
    slow = replace(scenario, costs=replace(COSTS, download_rate_bytes_per_s=10.0))
    result = emulate(slow)
    assert [at for at, _, _ in spans(result)] == [1.0, 2.0]
    assert result.restarts[0].running_at is None
    assert sorted(log.records) == all_records()


def test_a_region_that_waits_for_its_restart_goes_down_with_the_job() -> None:
    delayed = {"restart_strategy": RestartStrategy.FIXED_DELAY, "restart_delay_s": 1.0}
    log = TransactionLog()
    scenario = job(kill("out", 0, 1.0), outage(1.2, 3.0), ship="forward", log=log, **delayed)
    assert len(regions_of(scenario)) == 2
    result = emulate(scenario)
    assert spans(result) == [
        (1.0, None, "subtask out[0] is killed"),
        (1.2, 4.2, "the job is down for 3 s"),
    ]
    assert sorted(log.records) == all_records()
    full = emulate(
        replace(scenario, config=replace(scenario.config, failover_strategy=FailoverStrategy.FULL))
    )
    assert spans(full) == [(1.0, 4.2, "subtask out[0] is killed")]


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "at least once"])
@pytest.mark.parametrize("number", [1, 3, 6])
def test_an_outage_in_the_middle_of_a_checkpoint_loses_nothing(mode: str, number: int) -> None:
    log = TransactionLog()
    first = OnAcknowledgement(number=number, subtask=SubtaskName("numbers", 0))
    scenario = job(Outage(when=first, for_s=2.0), log=log, **MODES[mode])
    source, sink = scenario.vertices
    scenario = replace(scenario, vertices=(source, replace(sink, service=((0.0, 0.005),))))  # queues are full
    result = emulate(scenario)
    ((failed_at, restarted_at, _),) = spans(result)
    pending = [each for each in result.checkpoints if each.t < failed_at and each.status == "FAILED"]
    assert [each.id for each in pending] == [number]
    assert result.restarts[0].checkpoint_id == (number - 1 or None)
    assert restarted_at == pytest.approx(failed_at + 2.0)
    assert sorted(log.records) == all_records()


def test_a_job_that_has_no_checkpoint_begins_anew() -> None:
    result = emulate(job(outage(0.01, 1.0)))
    assert (result.restarts[0].checkpoint_id, result.failure) == (None, None)


def test_an_outage_may_begin_with_the_run_and_last_until_after_its_end() -> None:
    result = emulate(job(outage(0.0, 100.0)))
    assert (result.failure, result.emulated_seconds) == (None, 60.0)
    assert spans(result) == [(0.0, None, "the job is down for 100 s")]
    assert result.series[0].numRecordsOut[0][-1] <= 1


def test_an_outage_after_the_end_of_the_data_has_no_effect() -> None:
    result = emulate(job(outage(10.0, 5.0)))
    assert (result.restarts, result.emulated_seconds < 10.0) == ([], True)


def generated(*faults: Fault, changes: Sequence[ScheduledChange] = (), **of_source: Any) -> Scenario:
    """Two sources without an end, whose sinks read far above their rates."""
    spec = GeneratorSpec(**({"record_bytes": 50, "rates": (100.0,), "cost_s": 1e-5} | of_source))
    return Scenario(
        name="arrivals",
        duration_s=25.0,
        costs=COSTS,
        config=NetworkConfig(checkpoint_interval_s=0.7, restart_strategy=RestartStrategy.NONE),
        vertices=(Vertex(name="source", parallelism=2, source=spec), Vertex(name="sink")),
        edges=(Edge(source="source", target="sink"),),
        faults=faults,
        changes=tuple(changes),
    )


def arrived(spec: GeneratorSpec, rate: float, seconds: float) -> int:
    """The number of records that have arrived at a subtask, some seconds after the first one."""
    if spec.burst_s is not None:
        return int((floor(seconds / spec.burst_s + 1e-9) + 1) * rate * spec.burst_s + 1e-9)
    if spec.wave_s is not None:
        turn = 2 * pi / spec.wave_s
        return int(rate * (seconds + (1 - cos(turn * seconds)) / turn) + 1e-9) + 1
    return int(rate * seconds + 1e-9) + 1


KINDS = st.one_of(
    st.just({}),
    st.builds(lambda seconds: {"burst_s": seconds}, st.floats(0.05, 4.0)),
    st.builds(lambda seconds: {"wave_s": seconds}, st.floats(0.5, 20.0)),
    st.just({"batch": 7}),
)
OUTAGES = st.lists(st.builds(outage, st.floats(0.0, 12.0), st.floats(0.01, 6.0)), max_size=3)


@given(KINDS, st.tuples(st.floats(1.0, 400.0), st.floats(1.0, 400.0)), OUTAGES)
@settings(max_examples=25, deadline=None)
def test_pending_records_are_those_that_have_arrived_and_were_not_read(
    of_source: dict[str, Any], rates: tuple[float, float], outages: list[Outage]
) -> None:
    # A record that is due at the very end of the run may have arrived or not, by the rounding of its time.
    assume(all(abs(rate * 25.0 - round(rate * 25.0)) > 1e-6 for rate in rates))
    scenario = generated(*outages, rates=rates, **of_source)
    spec = scenario.vertices[0].source
    assert isinstance(spec, GeneratorSpec)
    seen: list[tuple[float, list[tuple[int, float] | None]]] = []

    def look(now: float) -> None:
        rows: list[tuple[int, float] | None] = [None, None]
        if running.attempt is not None:
            for index, subtask in enumerate(running.attempt.builder.subtasks[0]):
                assert isinstance(subtask, SourceSubtask)
                rows[index] = subtask.position, running.latest[index].pending_records
        seen.append((now, rows))

    running = Job(scenario, Agenda(), progress=look)
    run(running)
    first_read_s = min(
        [0.0, *(each.when.time_s + each.for_s for each in outages if each.when == AtTime(0.0))]
    )
    for now, rows in seen:
        for rate, row in zip(rates, rows, strict=True):
            if row is not None and not isnan(row[1]):
                position, pending = row
                expected = max(0, arrived(spec, rate, now - first_read_s) - position)
                assert abs(pending - expected) <= 1, "a record may be due at this very moment"
    _, last = seen[-1]
    for rate, row in zip(rates, last, strict=True):
        assert row is not None
        position, pending = row
        assert position + pending == pytest.approx(arrived(spec, rate, 25.0), abs=spec.batch - 1)
        assert pending <= max(2.0, rate * (spec.burst_s or 0.0) + 1)


def test_pending_records_are_not_known_while_the_job_is_down() -> None:
    result = emulate(generated(outage(5.5, 6.0)))
    source, sink = result.series
    assert isinstance(source.pendingRecords, list)
    assert sink.pendingRecords is UNSET
    for of_subtask in source.pendingRecords:
        known = {t for t, pending in zip(source.t, of_subtask, strict=True) if pending is not None}
        assert {t for t in source.t if 5.5 <= t < 11.5}.isdisjoint(known)
        assert known == {t for t in source.t if 0.0 < t < 5.5 or t > 11.5}
    assert from_json(to_json(result)).series == result.series


def test_the_backlog_after_an_outage_is_what_has_arrived_since_the_checkpoint() -> None:
    slow = generated(outage(5.0, 6.0), cost_s=1 / 200)  # catches up at 100 a second
    result = emulate(slow)
    (series, _), (restart,) = result.series, result.restarts
    (since,) = [checkpoint.t for checkpoint in result.checkpoints if checkpoint.id == restart.checkpoint_id]
    assert isinstance(series.pendingRecords, list)
    backlog = dict(zip(series.t, series.pendingRecords[0], strict=True))
    assert backlog[12.0] == pytest.approx((12.0 - since) * 100 - 200, abs=21)
    assert backlog[16.0] == pytest.approx((16.0 - since) * 100 - 1000, abs=21)
    assert backlog[20.0] == pytest.approx(0, abs=2)


def test_without_a_rate_there_are_no_pending_records() -> None:
    unlimited = generated(rates=(0.0,), cost_s=0.01)
    assert emulate(unlimited).series[0].pendingRecords is UNSET
    one_of_two = emulate(generated(rates=(0.0, 50.0), cost_s=0.01)).series[0].pendingRecords
    assert isinstance(one_of_two, list)
    assert set(one_of_two[0]) == {None}
    assert None not in one_of_two[1][1:]


def test_a_source_that_has_read_all_of_its_input_has_no_pending_records() -> None:
    scenario = job(outage(1.0, 3.0))
    source, sink = scenario.vertices
    late = replace(sink, service=((0.0, 0.02),))  # works for seconds after the sources have ended
    series = emulate(replace(scenario, vertices=(source, late))).series[0]
    assert isinstance(series.pendingRecords, list)
    assert [each[-1] for each in series.pendingRecords] == [0, 0]


@pytest.mark.parametrize("of_source", [{"burst_s": 0.5}, {"wave_s": 3.0}], ids=["bursts", "wave"])
def test_a_change_of_the_rate_keeps_the_backlog_of_back_pressure(of_source: dict[str, Any]) -> None:
    doubled = ScheduledChange(at_s=10.0, vertex="source", rates=(200.0,))
    held = generated(changes=(doubled,), cost_s=1 / 50, **of_source)  # reads half of what arrives at first
    series = emulate(held).series[0]
    assert isinstance(series.pendingRecords, list)
    backlog = dict(zip(series.t, series.pendingRecords[0], strict=True))
    assert backlog[9.0] == pytest.approx(9.0 * 50, abs=110)
    assert backlog[12.0] == pytest.approx(10.0 * 50 + 2.0 * 150, abs=220)
