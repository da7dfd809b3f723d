"""Courses of costs and rates: what was watched is what the emulation repeats."""

from __future__ import annotations

import gzip
import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.flink import import_scenario
from integration.flink.fit.course import Interval, cost_course, rate_course, wait_course, with_courses
from integration.flink.fit.overrides import Overrides
from netstack import GeneratorSpec, Scenario, Vertex
from tests.integration.flink.flink_cluster import RECORDINGS

ALTERNATES = RECORDINGS / "changing/flink-2.3.0_alternates_off.json.gz"
"""A job whose bottleneck takes 1 ms and 3 ms for a record, each for 10 s, with new metrics every 2 s."""

seconds = st.integers(500, 15_000).map(lambda ms: ms / 1e3)
intervals = st.lists(
    st.builds(Interval, st.just(0.0), seconds, st.integers(100, 10_000).map(float), st.floats(0.05, 1.0)),
    min_size=1,
    max_size=200,
).map(lambda drawn: [each._replace(busy_s=each.busy_s * each.seconds) for each in drawn])


@given(intervals)
def test_the_costs_of_a_course_take_the_time_that_was_watched(drawn: list[Interval]) -> None:
    course = cost_course(drawn)
    assert len(course) <= 60
    assert sum(part for part, _ in course) == pytest.approx(sum(each.seconds for each in drawn), abs=0.1)
    if len(course) == len(drawn):
        mean = sum(each.busy_s for each in drawn) / sum(each.records for each in drawn)
        for each, (_, factor) in zip(drawn, course, strict=True):
            assert each.records * mean * factor == pytest.approx(each.busy_s, rel=0.01, abs=0.02)


@given(intervals)
def test_the_mean_rate_of_a_course_is_the_rate_that_was_watched(drawn: list[Interval]) -> None:
    course = rate_course(drawn)
    whole = sum(part for part, _ in course)
    assert sum(part * factor for part, factor in course) / whole == pytest.approx(1.0, rel=0.01)


@given(st.lists(st.tuples(seconds, st.floats(300.0, 5000.0)), min_size=2, max_size=10))
def test_by_waits_as_many_records_are_read_as_were_counted(drawn: list[tuple[float, float]]) -> None:
    ends = list(accumulate(between for between, _ in drawn))
    course = wait_course([(at, wait) for at, (_, wait) in zip(ends, drawn, strict=True)])
    whole = sum(part for part, _ in course)
    assert sum(part / factor for part, factor in course) == pytest.approx(whole, rel=0.01)
    ratios = [factor / wait for (_, factor), (_, wait) in zip(course, drawn, strict=True)]
    assert max(ratios) == pytest.approx(min(ratios), rel=0.02)


@given(intervals, intervals)
def test_courses_stay_in_step_and_a_window_has_whole_periods(
    one: list[Interval], other: list[Interval]
) -> None:
    vertices = tuple(Vertex(name=name) for name in "abc")
    job = Scenario(name="job", duration_s=60.0, warmup_s=20.0, vertices=vertices)
    fitted = with_courses(job, {"a": cost_course(one), "b": rate_course(other)})
    periods = {round(sum(part for part, _ in fitted.vertex(name).course), 6) for name in "ab"}
    assert len(periods) == 1
    (period,) = periods
    assert period <= 600.0
    window = fitted.duration_s - fitted.warmup_s
    assert window >= 40.0
    assert window / period == pytest.approx(round(window / period), abs=1e-3)
    assert fitted.vertex("c").course == ()


def test_of_a_long_course_the_worst_part_is_repeated() -> None:
    job = Scenario(name="job", duration_s=60.0, warmup_s=20.0, vertices=(Vertex(name="a"),))
    calm, peak = (300.0, 0.5), (400.0, 2.0)
    (vertex,) = with_courses(job, {"a": (calm, calm, calm, peak, calm)}).vertices
    assert vertex.course == (peak, (200.0, 0.5))


def test_the_rate_of_a_source_is_the_mean_of_what_is_repeated() -> None:
    spec = GeneratorSpec(record_bytes=100, rates=(30.0, 60.0))
    job = Scenario(name="job", duration_s=60.0, vertices=(Vertex(name="a", parallelism=2, source=spec),))
    (vertex,) = with_courses(job, {"a": ((600.0, 0.5), (600.0, 1.5))}).vertices
    assert isinstance(vertex.source, GeneratorSpec)
    assert (vertex.course, vertex.source.rates) == (((600.0, 1.0),), (45.0, 90.0))


def test_an_interval_without_records_goes_on_as_the_one_before() -> None:
    counted = [Interval(1.0, 2.0, 100.0, 2.0), Interval(3.0, 2.0, 0.0, 2.0), Interval(5.0, 2.0, 300.0, 2.0)]
    assert [factor for _, factor in cost_course(counted)] == [1.333, 1.333, 0.444]


def recorded(every: int = 1) -> dict[str, Any]:
    """The recording, with metrics that are renewed at every so many answers only."""
    document: dict[str, Any] = json.loads(gzip.decompress(ALTERNATES.read_bytes()))
    for path, answers in document["answers"].items():
        if path.endswith("/metrics?get=*"):
            document["answers"][path] = [answers[at - at % every] for at in range(len(answers))]
    return document


def imported_course(tmp_path: Path, document: dict[str, Any], **given: Any) -> dict[str, Any]:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(document))
    found = import_scenario(file, overrides=Overrides(**given))
    return {vertex.name: vertex.course for vertex in found.scenario.vertices if vertex.course} | {
        "notes": found.unsteady
    }


def test_an_import_repeats_the_course_of_a_cost(tmp_path: Path) -> None:
    found = imported_course(tmp_path, recorded())
    costs_ms = [1.462 * factor for _, factor in found["work"]]
    assert costs_ms[0] == pytest.approx(1.0, rel=0.05)
    assert max(costs_ms) == pytest.approx(3.0, rel=0.05)
    dear_s = [part for part, factor in found["work"] if 1.462 * factor > 2.0]
    assert sum(dear_s) == pytest.approx(9.0, abs=1.5)
    assert all(str(note).endswith("; the emulation repeats the course of work.") for note in found["notes"])


def test_waits_show_a_course_that_the_metrics_blur(tmp_path: Path) -> None:
    found = imported_course(tmp_path, recorded(every=5))
    factors = [factor for _, factor in found["work"]]
    assert len(factors) == 10
    assert max(factors) / min(factors) == pytest.approx(3.5, abs=0.3)
    assert "sink" not in found


def test_a_cost_that_is_overridden_stays_as_given(tmp_path: Path) -> None:
    found = imported_course(tmp_path, recorded(), service_s={"work": 0.002})
    assert list(found) == ["notes"]
    assert "the emulation assumes the mean" in str(found["notes"][0])
