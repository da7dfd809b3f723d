"""The reading of large jobs: many copies of a job's subtasks have the loads of that job."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from benches.reading import LONGEST_LINE, UPDATE_S, LargeJob
from integration.base.optional_figures import known
from integration.flink import Answers, Imported, Recorder, import_scenario
from integration.flink.http.answers import Refused
from integration.flink.read.cores_in_use import MOST_POLLED
from integration.flink.read.polling import IN_DETAIL
from tests.integration.flink.flink_cluster import recording

RECORDED = "flink-2.3.0_wordcount_on1s"
SMALL, LARGE = 8, 1000


class InTurn(Answers):
    """A large job whose requests take 5 ms of its own time, one after the other."""

    name = "http://cluster:8081"

    def __init__(self, subtasks: int) -> None:
        self.now_s = 0.0
        self.asked: Counter[str] = Counter()
        self._job = LargeJob(recording(RECORDED), subtasks, UPDATE_S, self.clock)

    def answer(self, path: str) -> Any | Refused:
        assert len(f"GET {path} HTTP/1.1") <= LONGEST_LINE
        self.now_s += 0.005
        self.asked[path.split("/")[1]] += 1
        of, _, names = path.partition("?get=")
        answer = self._job.answer(of, names.split(",") if names else [])
        return Refused(404, "no") if answer is None else answer

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def clock(self) -> float:
        return self.now_s


@pytest.fixture(scope="module")
def large() -> tuple[InTurn, Recorder, Imported]:
    cluster = InTurn(LARGE)
    recorder = Recorder(cluster)
    return cluster, recorder, import_scenario(recorder)


Large = tuple[InTurn, Recorder, Imported]


def test_copies_of_a_job_have_its_loads(large: Large) -> None:
    small, imported = import_scenario(InTurn(SMALL)), large[2]
    copies = LARGE // SMALL
    for one, many in zip(small.measured.steady.vertices, imported.measured.steady.vertices, strict=True):
        for figure in ("records_in_per_s", "records_out_per_s", "bytes_in_per_s", "busy_ms_per_s"):
            expected = getattr(one, figure) * copies
            assert getattr(many, figure) == pytest.approx(expected, rel=0.01), (one.name, figure)
    for one, many in zip(small.scenario.vertices, imported.scenario.vertices, strict=True):
        assert many.parallelism == copies * one.parallelism
        assert many.record_bytes == one.record_bytes
        assert [cost for _, cost in many.service] == pytest.approx([c for _, c in one.service], rel=0.01)


def test_few_requests_are_needed(large: Large) -> None:
    asked = large[0].asked
    # Each task manager once for its state, and some of them four times for their use of cores.
    managers = LARGE // SMALL * 2
    assert asked["taskmanagers"] == managers + 4 * MOST_POLLED + 1
    assert asked["jobs"] < 520


def test_gauges_are_those_of_subtasks_in_detail(large: Large) -> None:
    vertices = large[2].measured.steady.vertices
    in_detail = [known(vertex.inPoolUsage or vertex.outPoolUsage) for vertex in vertices]
    assert sum(map(len, in_detail)) == IN_DETAIL
    assert all(None not in vertex.busy_ms_per_s for vertex in vertices)


def test_a_recording_of_it_gives_the_same(large: Large) -> None:
    _, recorder, imported = large
    again = import_scenario(recorder.replay())
    assert again.scenario == imported.scenario
    assert again.measured == imported.measured
    assert again.notes == imported.notes


def test_notes_stay_short(large: Large) -> None:
    notes = large[2].notes
    assert "50 of 250 task managers" in " ".join(notes)
    assert max(map(len, notes)) < 300
