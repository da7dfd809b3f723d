"""The numbers of the runs in the statistics of shuffles, without Spark."""

from __future__ import annotations

from integration.spark.shuffling.reports import TaskReport, _rows
from netstack import TransportStatistics


def report(shuffle: str, attempt: str, task: int) -> TaskReport:
    others = dict.fromkeys(TransportStatistics.__struct_fields__[1:], 0)
    return TaskReport(shuffle, attempt, 7, "host", 10, 20, 0.5, 30, 40, TransportStatistics(task, **others))


def test_runs_are_numbered_for_each_shuffle_in_the_order_of_their_first_report() -> None:
    arrived = [
        ("a", "x", 1),
        ("b", "y", 0),
        ("a", "x", 0),
        ("c", "z", 0),
        ("a", "w", 0),  # the second run of a
        ("b", "y", 1),
        ("c", "x", 0),  # an attempt's name counts within its shuffle only
        ("a", "w", 1),
    ]
    numbered = [row[:3] for row in _rows(report(*each) for each in arrived)]
    assert numbered == [
        ("a", 0, 1),
        ("b", 0, 0),
        ("a", 0, 0),
        ("c", 0, 0),
        ("a", 1, 0),
        ("b", 0, 1),
        ("c", 1, 0),
        ("a", 1, 1),
    ]
