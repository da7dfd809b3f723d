"""The job that measures the cost of a look can be made in Flink, and the cost is a slope."""

from netstack import OPTIONS
from tests.flink.job_description import described, layout_of
from tests.flink.look_cost import OFF, TRAVERSE_SIZES, Point, scenario_of, summary


def test_the_jobs_differ_by_the_traverse_size_alone() -> None:
    size = OPTIONS["adaptive_partitioner_max_traverse_size"].name
    jobs = [scenario_of(traverse_size) for traverse_size in TRAVERSE_SIZES]
    assert [layout_of(job).options[size] for job in jobs] == list(TRAVERSE_SIZES)
    assert layout_of(scenario_of(OFF)).options == {}
    assert all(described(job) == described(scenario_of(OFF)) for job in jobs)


def test_the_slope_over_the_traverse_size_is_the_cost_of_a_look() -> None:
    points = [Point(OFF, 80.0), Point(2, 86.0), Point(4, 92.0), Point(2, 88.0), Point(4, 94.0)]
    assert summary(points).splitlines() == [
        "off: 80.0 ns a record (80.0-80.0)",
        "max-traverse-size 2: 87.0 ns a record (86.0-88.0)",
        "max-traverse-size 4: 93.0 ns a record (92.0-94.0)",
        "one look: 3.0 ns",
    ]
