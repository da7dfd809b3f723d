"""One more subtask: keys are spread anew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.advise.forecast.scaling import scaled, spread_anew
from netstack import Edge, GeneratorSpec, Scenario, Vertex, check_scenario


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=12), st.integers(1, 30))
def test_all_records_keep_a_reader(shares: list[float], count: int) -> None:
    spread = spread_anew(shares, count)
    assert len(spread) == count
    assert sum(spread) == pytest.approx(sum(shares), abs=1e-4)


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=12), st.integers(1, 5))
def test_a_multiple_divides_each_share(shares: list[float], times: int) -> None:
    spread = spread_anew(shares, times * len(shares))
    expected = [share / times for share in shares for _ in range(times)]
    assert spread == pytest.approx(expected, abs=1e-5)


def test_a_hot_range_stays_hot() -> None:
    assert spread_anew([0.5, 0.25, 0.25], 4) == pytest.approx([0.375, 0.25, 0.1875, 0.1875])


def test_a_job_with_one_more_subtask_is_valid() -> None:
    job = Scenario(
        name="job",
        duration_s=60.0,
        vertices=(
            Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=100, rates=(90.0, 60.0))),
            Vertex(
                name="work",
                parallelism=2,
                service=((0.0, 0.001),),
                service_skew=(1.0, 1.4),
                task_manager=("a", "b"),
            ),
            Vertex(name="sink", parallelism=2),
        ),
        edges=(
            Edge(source="source", target="work", ship="hash", shares=(0.6, 0.4)),
            Edge(source="work", target="sink", ship="forward"),
        ),
    )
    grown = scaled(job, "work")
    check_scenario(grown)
    work = grown.vertex("work")
    assert (work.parallelism, work.service_skew, work.task_manager) == (3, (1.0, 1.4, 1.2), ("a", "b", "a"))
    assert grown.edges[0].shares == pytest.approx((0.4, 1 / 3, 0.266667), abs=1e-4)
    assert grown.edges[1].ship == "rebalance", "forward needs equal parallelism"
    more = scaled(job, "source").vertex("source")
    assert sum(more.rate(subtask) for subtask in range(3)) == pytest.approx(150.0), "no more arrives"
