"""The load at which the first vertex of a job reaches its limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integration.advise.diagnose.headroom import (
    MOST_LOAD,
    Bottleneck,
    Headroom,
    brief_point,
    capacity_of,
    find_headroom,
    headroom_of,
    load_point,
    load_run,
    with_load,
)
from integration.advise.diagnose.words import cpu_bound_text, headroom_text
from integration.advise.sweeps.point_rows import failed_row
from integration.advise.sweeps.point_runs import run_point
from integration.advise.sweeps.waves import run_side_by_side
from integration.runs.job_load import at_load, rates_of
from netstack import Edge, GeneratorSpec, Keys, Machine, Scenario, Vertex
from tests.integration.advise.tune.paced_job import JOB, LIMIT, UNLIMITED

WORK = Bottleneck(vertex="work", subtask=0, busy_share=1.0)


def found(job: Scenario) -> Headroom:
    """The headroom of a job that has one."""
    headroom = headroom_of(job)
    assert headroom is not None
    return headroom


@pytest.fixture(scope="module")
def headroom() -> Headroom:
    return found(JOB)


def test_the_limit_follows_from_costs(headroom: Headroom) -> None:
    assert headroom.limit == pytest.approx(LIMIT, rel=0.03)
    assert headroom.bottleneck.vertex == "work"
    assert headroom.at_least < headroom.limit < headroom.beyond
    assert headroom.has_room


def test_at_another_load_the_rest_is_left(headroom: Headroom) -> None:
    assert found(at_load(JOB, 1.3)).limit == pytest.approx(headroom.limit / 1.3, rel=0.03)


def test_a_job_that_does_not_keep_up_has_a_limit_below_1() -> None:
    overloaded = found(at_load(JOB, 2.0))
    assert overloaded.limit == pytest.approx(LIMIT / 2, rel=0.03)
    assert not overloaded.has_room


def test_the_subtask_with_the_hot_key_counts() -> None:
    """One key has 60 % of the records, so its subtask takes 60 % of the load."""
    source = GeneratorSpec(record_bytes=1000, rates=(250.0,), keys=Keys(number=1000, most_frequent=(0.6,)))
    skewed = replace(
        JOB,
        vertices=(Vertex(name="orders", source=source), replace(JOB.vertices[1], parallelism=2)),
        edges=(Edge(source="orders", target="work", ship="hash"),),
    )
    limit = found(skewed).limit
    assert limit == pytest.approx(LIMIT / 0.8, rel=0.05), "0.6, and half of the other keys"


def test_shared_cores_count() -> None:
    """Two subtasks that burn a shared core take half of what each could take alone."""
    vertices = (
        Vertex(name="orders", source=GeneratorSpec(record_bytes=1000, rates=(250.0,)), task_manager="tm"),
        Vertex(
            name="work",
            parallelism=2,
            service=((0.0, 0.0025),),
            service_mode="burn",
            task_manager=("tm", "tm"),
        ),
    )
    shared = replace(JOB, vertices=vertices, machines=(Machine(cores=1, task_managers=("tm",)),))
    assert found(shared).limit == pytest.approx(LIMIT, rel=0.07)


def test_a_second_source_keeps_its_part() -> None:
    """All sources take the factor, so the mix of records stays."""
    sources = tuple(
        Vertex(name=name, source=GeneratorSpec(record_bytes=1000, rates=(rate,)))
        for name, rate in (("orders", 200.0), ("clicks", 50.0))
    )
    edges = tuple(Edge(source=each.name, target="work") for each in sources)
    both = replace(JOB, vertices=(*sources, JOB.vertices[1]), edges=edges)
    assert found(both).limit == pytest.approx(LIMIT, rel=0.05)


def test_without_costs_no_limit_is_found() -> None:
    idle = replace(
        JOB,
        duration_s=10.0,
        vertices=(
            Vertex(name="orders", source=GeneratorSpec(record_bytes=1000, rates=(0.5,))),
            Vertex(name="work"),
        ),
    )
    headroom = found(idle)
    assert not headroom.is_bounded
    assert "No vertex reaches its limit" in headroom_text(headroom)


def test_where_there_is_no_single_headroom() -> None:
    assert headroom_of(UNLIMITED) is None
    stepping = replace(JOB.vertices[1], service=((0.0, 0.001), (10.0, 0.002)))
    assert headroom_of(replace(JOB, vertices=(JOB.vertices[0], stepping))) is None


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (1.31, "work is the first to reach its limit, at 1.31 times today's load."),
        (1.0, "The job is at its limit: work cannot take more than today's load."),
        (0.8, "The job does not keep up: work can take 0.8 times today's load."),
    ],
)
def test_it_is_said_in_a_sentence(limit: float, text: str) -> None:
    assert headroom_text(Headroom(limit=limit, at_least=limit, bottleneck=WORK)) == text


def test_half_of_the_load_of_an_unlimited_source_is_half_of_what_it_emits() -> None:
    assert rates_of(with_load(UNLIMITED, 0.5).vertex("orders")) == pytest.approx([200.0], rel=0.03)


def test_a_brief_run_has_a_few_checkpoints() -> None:
    long = replace(JOB, duration_s=600.0, warmup_s=100.0)
    assert brief_point(long, 0.5, {}).document["duration"] == "30 s"
    assert load_point(long, 0.5, {}).document["duration"] == "600 s"


def test_the_limit_of_cpu_bound_work_is_said_where_it_differs() -> None:
    waits = Headroom(limit=1.94, at_least=1.9, bottleneck=WORK)
    burns = Headroom(limit=1.46, at_least=1.4, bottleneck=WORK)
    assert cpu_bound_text(waits, burns) == (
        "It is unknown whether the work of tasks is CPU-bound or waits. If it is CPU-bound, the limit is at "
        "1.46 times today's load (at work)."
    )
    assert cpu_bound_text(waits, Headroom(limit=1.9, at_least=1.9, bottleneck=WORK)) is None
    assert cpu_bound_text(waits, None) is None


def test_the_highest_load_that_is_tried_is_64_times_todays() -> None:
    job = replace(
        JOB,
        duration_s=10.0,
        vertices=(
            Vertex(name="orders", source=GeneratorSpec(record_bytes=1000, rates=(0.5,))),
            Vertex(name="work", service=((0.0, 1e-4),)),
        ),
    )
    headroom = found(job)
    assert (headroom.limit, headroom.is_bounded) == (MOST_LOAD, False)


@pytest.mark.parametrize("period_s", [0.5, 7.0, 15.0])
def test_bursts_of_a_source_are_no_lack_of_capacity(period_s: float) -> None:
    """A window contains whole bursts only, so fewer or more records than its share."""
    bursts = GeneratorSpec(record_bytes=1000, rates=(250.0,), burst_s=period_s)
    headroom = found(replace(JOB, vertices=(Vertex(name="orders", source=bursts), JOB.vertices[1])))
    assert headroom.limit == pytest.approx(LIMIT, rel=0.1)


def test_a_wave_of_the_load_has_no_single_headroom() -> None:
    wave = GeneratorSpec(record_bytes=1000, rates=(250.0,), wave_s=10.0)
    assert headroom_of(replace(JOB, vertices=(Vertex(name="orders", source=wave), JOB.vertices[1]))) is None


def test_the_limit_is_unknown_if_a_run_fails() -> None:
    row = run_point(load_point(JOB, 1.0, {}))
    today = load_run(row, 1.0)
    assert today is not None
    failing = [find_headroom(JOB, today)]
    assert run_side_by_side(failing, lambda points, why: [failed_row(each, "killed") for each in points]) == [
        None
    ]


def test_without_a_rate_the_limit_follows_from_what_is_processed_today() -> None:
    today = load_run(run_point(load_point(UNLIMITED, 1.0, {})), 1.0)
    faster = replace(JOB.vertices[1], service=((0.0, 0.002),))
    after = load_run(
        run_point(load_point(replace(UNLIMITED, vertices=(UNLIMITED.vertices[0], faster)), 1.0, {})), 1.0
    )
    assert today is not None
    assert after is not None
    assert capacity_of(after, today).limit == pytest.approx(1.25, rel=0.03)


def test_a_queue_that_takes_minutes_to_fill_hides_no_limit() -> None:
    """Records of 12 bytes: a buffer takes seconds, so the source emits for minutes more than is processed."""
    tiny = GeneratorSpec(record_bytes=8, rates=(100.0,))
    slow = replace(JOB.vertices[1], service=((0.0, 0.003),))
    headroom = found(replace(JOB, vertices=(Vertex(name="orders", source=tiny), slow)))
    assert headroom.limit == pytest.approx(1 / (100 * 0.003), rel=0.03)
