"""The same job at another load."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.base.errors import UsageError
from integration.runs.job_load import at_load, rates_of
from netstack import GeneratorSpec, PathSpec, Scenario, ScheduledChange, SourceSpec, Vertex
from tests.integration.advise.tune.paced_job import JOB


def with_source(source: SourceSpec, **vertex: object) -> Scenario:
    """The job with another source."""
    return replace(JOB, vertices=(Vertex(name="orders", source=source, **vertex), JOB.vertices[1]))  # type: ignore[arg-type]


@given(st.floats(0.01, 100.0), st.lists(st.floats(1.0, 1e6), min_size=1, max_size=4))
def test_all_rates_are_multiplied(factor: float, rates: list[float]) -> None:
    job = with_source(GeneratorSpec(record_bytes=100, rates=tuple(rates)), parallelism=4)
    before, after = rates_of(job.vertex("orders")), rates_of(at_load(job, factor).vertex("orders"))
    assert after == pytest.approx([factor * rate for rate in before], rel=1e-5)


def test_changes_of_the_rate_and_rows_of_files_follow_too() -> None:
    change = ScheduledChange(at_s=10.0, vertex="orders", rates=(300.0,))
    doubled = at_load(replace(with_source(PathSpec(path="x.csv", rates=(100.0,))), changes=(change,)), 2.0)
    assert doubled.vertex("orders").rate(0) == 200.0
    assert doubled.changes[0].rates == (600.0,)


def test_a_window_in_the_chain_of_a_source_emits_more_at_once() -> None:
    bursts = GeneratorSpec(record_bytes=100, rates=(100.0,), burst_s=2.0, batch=200)
    source = at_load(with_source(bursts), 1.5).vertex("orders").source
    assert isinstance(source, GeneratorSpec)
    assert (source.rates, source.burst_s, source.batch) == ((150.0,), 2.0, 300)


def test_todays_load_is_the_job_as_it_is() -> None:
    assert at_load(JOB, 1.0) is JOB


def test_a_source_without_a_rate_takes_no_more() -> None:
    unlimited = with_source(GeneratorSpec(record_bytes=100), parallelism=2)
    assert rates_of(at_load(unlimited, 3.0).vertex("orders")) == [0.0, 0.0]
    assert rates_of(at_load(unlimited, 0.5, {"orders": [80.0, 60.0]}).vertex("orders")) == [40.0, 30.0]
    with pytest.raises(UsageError, match="orders emits as fast as possible, so its rate today is unknown"):
        at_load(unlimited, 0.5)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_load_is_a_number_above_0(factor: float) -> None:
    with pytest.raises(UsageError, match="must be a number above 0"):
        at_load(JOB, factor)


def test_work_that_was_left_belongs_to_todays_load() -> None:
    behind = replace(JOB, vertices=(JOB.vertices[0], replace(JOB.vertices[1], behind_s=(3.0,))))
    assert at_load(behind, 0.5).vertex("work").behind_s == (0.0,)
