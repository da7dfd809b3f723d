"""Values of many subtasks in one request: the requests, the split answers, and recordings of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from integration.flink import Answers, Recorder
from integration.flink.http.answers import Refused
from integration.flink.http.batches import Batch, batches
from integration.flink.http.client import RestClient

VERTEX = "/jobs/j/vertices/v"
LONGEST_PATH = 3800

NAMES = st.lists(st.text("abc.-_é [", min_size=1, max_size=60), min_size=1, max_size=20, unique=True)


@given(st.dictionaries(st.integers(0, 40_000), NAMES, max_size=40))
def test_each_value_is_asked_for_once(names: dict[int, list[str]]) -> None:
    made = list(batches(VERTEX, names))
    assert {subtask: each for batch in made for subtask, each in batch.names.items()} == names
    assert sum(len(batch.names) for batch in made) == len(names)
    for batch in made:
        assert len(quote(batch.path, safe="/?=&,")) <= LONGEST_PATH or len(batch.names) == 1
        assert Batch.of(batch.path) == batch


def test_other_paths_are_no_batches() -> None:
    for path in (f"{VERTEX}/subtasks/0/metrics?get=a", "/taskmanagers/tm0/metrics?get=a", VERTEX):
        assert Batch.of(path) is None


class Metrics(Answers):
    """A cluster with metrics `a` and `b` of some subtasks, or with a status in place of batches."""

    name = "cluster"

    def __init__(self, subtasks: Sequence[int], refuses: int | None = None) -> None:
        self.asked: list[str] = []
        self._subtasks = subtasks
        self._refuses = refuses

    def answer(self, path: str) -> Any | Refused:
        self.asked.append(path)
        batch = Batch.of(path)
        if batch is None:
            subtask = int(path.split("/")[6])
            return [{"id": name, "value": f"{name}{subtask}"} for name in "ab"]
        if self._refuses is not None:
            return Refused(self._refuses, "no")
        return [
            {"id": f"{subtask}.{name}", "value": f"{name}{subtask}"}
            for subtask in batch.names
            for name in batch.names[subtask]
            if subtask in self._subtasks
        ]

    def pause(self, seconds: float) -> None:
        """Return at once."""

    def clock(self) -> float:
        return 0.0


BOTH = {7: ("a", "b"), 8: ("a", "b")}
OF_7 = [{"id": "a", "value": "a7"}, {"id": "b", "value": "b7"}]
OF_8 = [{"id": "a", "value": "a8"}, {"id": "b", "value": "b8"}]


def recorded(cluster: Metrics) -> tuple[list[Any], list[Any], Recorder]:
    """Return the values that a client reads, and those that it reads from a recording of them."""
    recorder = Recorder(cluster)
    read = list(RestClient(recorder).subtask_metrics(VERTEX, BOTH))
    return read, list(RestClient(recorder.replay()).subtask_metrics(VERTEX, BOTH)), recorder


def test_an_answer_is_split_and_recorded_by_subtask() -> None:
    cluster = Metrics([7, 8])
    read, again, recorder = recorded(cluster)
    assert read == again == [(7, OF_7), (8, OF_8)]
    assert cluster.asked == [f"{VERTEX}/metrics?get=7.a,7.b,8.a,8.b"]
    one = recorder.replay().answer(f"{VERTEX}/subtasks/8/metrics?get=b")
    assert one == [{"id": "b", "value": "b8"}]


def test_a_subtask_that_reports_nothing_has_an_empty_answer() -> None:
    read, again, _ = recorded(Metrics([7]))
    assert read == again == [(7, OF_7), (8, [])]


def test_subtasks_are_asked_one_by_one_where_nobody_answers_for_several() -> None:
    cluster = Metrics([7, 8], refuses=404)
    client = RestClient(cluster)
    for _ in range(2):
        assert list(client.subtask_metrics(VERTEX, BOTH)) == [(7, OF_7), (8, OF_8)]
    singles = [f"{VERTEX}/subtasks/{subtask}/metrics?get=a,b" for subtask in (7, 8)]
    assert cluster.asked == [f"{VERTEX}/metrics?get=7.a,7.b,8.a,8.b", *singles, *singles]
    assert client.missing == []


def test_a_failure_leaves_values_out() -> None:
    client = RestClient(Metrics([7, 8], refuses=500))
    assert list(client.subtask_metrics(VERTEX, BOTH)) == []
    assert client.missing == [f"{VERTEX}/metrics?get=7.a,7.b,8.a,8.b"]
    read, again, recorder = recorded(Metrics([7, 8], refuses=500))
    assert read == again == []
    refused = recorder.replay().answer(f"{VERTEX}/subtasks/8/metrics?get=b")
    assert isinstance(refused, Refused)
    assert refused.code == 500
