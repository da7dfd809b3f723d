"""The lab beside a running Flink: what is read, what is shown of it, and what becomes of it meanwhile."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import trio

from integration.base.errors import JobWentError, NotRunningError
from integration.flink import FlinkRestError, Imported, LiveCluster, Recording, import_scenario
from integration.flink.watching import JobWatch
from integration.lab.lab import Lab
from integration.lab.messages import Change, Pause, Step
from integration.lab.observed_flink import ObservedFlink, job_figures, predicted_of
from integration.lab.server import LabServer
from tests.integration.flink.flink_cluster import NAMES, ReplayedCluster, recording, replayed, serving
from tests.integration.lab.test_lab_server import Browser, browsing

RECORDED = Path(__file__).parents[3] / "docs/examples/wordcount_off.rest.json.gz"
SINK = "stage1"


@pytest.fixture
def cluster() -> Iterator[ReplayedCluster]:
    with replayed(NAMES[0]) as made:
        yield made


def asked(cluster: ReplayedCluster) -> LiveCluster:
    """Return the cluster over HTTP, without waiting times."""
    return LiveCluster(cluster.url, sleep=lambda seconds: None)


def out_of_order(request: BaseHTTPRequestHandler) -> int:
    return 503


def in_order(request: BaseHTTPRequestHandler) -> None:
    return None


def job_of(cluster: ReplayedCluster) -> dict[str, Any]:
    answer: dict[str, Any] = cluster.answers[f"/jobs/{cluster.job}"]
    return answer


def begin_again(cluster: ReplayedCluster) -> None:
    job_of(cluster)["timestamps"]["RUNNING"] += 1000


def be(cluster: ReplayedCluster, state: str) -> None:
    cluster.answers["/jobs/overview"]["jobs"][0]["state"] = state


def test_a_job_is_looked_at_as_it_was_read(cluster: ReplayedCluster) -> None:
    imported = import_scenario(asked(cluster))
    cluster.answers = recording(NAMES[0])["answers"]
    cluster.rewind()
    watch = JobWatch(asked(cluster), imported)
    first = watch.poll()
    assert first.steady.vertices == imported.measured.steady.vertices  # nothing has moved yet
    cluster.asked.clear()
    for _ in range(11):
        last = watch.poll()
    assert last.steady.vertices == imported.measured.steady.vertices
    assert last.checkpoints == imported.measured.checkpoints
    assert not any("/checkpoints/details/" in path for path in cluster.asked)  # it knows these already


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (begin_again, JobWentError, " restarted after it was read"),
        (partial(be, state="CANCELED"), JobWentError, "became CANCELED"),
        (partial(be, state="RESTARTING"), NotRunningError, "is RESTARTING"),
        (
            lambda cluster: cluster.answers["/jobs/overview"].update(jobs=[]),
            JobWentError,
            "is no longer known",
        ),
        (
            lambda cluster: job_of(cluster)["vertices"][0].update(parallelism=3),
            JobWentError,
            " now has other vertices or another parallelism",
        ),
    ],
)
def test_a_job_that_is_another_is_told(
    change: Any, error: type, words: str, cluster: ReplayedCluster
) -> None:
    watch = JobWatch(asked(cluster), import_scenario(asked(cluster)))
    watch.poll()
    change(cluster)
    with pytest.raises(FlinkRestError, match=words) as raised:
        watch.poll()
    assert type(raised.value) is error


def test_a_cluster_in_trouble_is_asked_again(cluster: ReplayedCluster) -> None:
    watch = JobWatch(asked(cluster), import_scenario(asked(cluster)))
    cluster.refuse = out_of_order
    with pytest.raises(FlinkRestError, match="503") as raised:
        watch.poll()
    assert type(raised.value) is FlinkRestError
    cluster.refuse = in_order
    assert watch.poll().job == cluster.job


def test_what_is_not_told_stays_unknown(cluster: ReplayedCluster) -> None:
    def no_idle_time(name: str, value: float, number: int) -> float | None:
        return float("nan") if name in ("accumulateIdleTimeMs", "numRecordsIn") else None

    cluster.change_metrics(SINK, 1, no_idle_time)
    imported = import_scenario(asked(cluster))
    source, sink = job_figures(imported.scenario, imported.measured.steady, None).vertices
    assert [sink[name] for name in ("busy", "idle", "records_per_s")] == [
        None,
        None,
        None,
    ]  # of one of two subtasks
    assert sink["input_queue"] is not None
    inputs = ("in_pool", "input_queue", "buffer_bytes")
    assert [source[name] for name in inputs] == [None, None, None]  # it has no input


def test_a_prediction_begins_behind_what_was_changed_last() -> None:
    imported = import_scenario(Recording(RECORDED))
    scenario = imported.scenario
    lab = Lab(scenario, begin_s=scenario.warmup_s)
    try:
        run_on(lab)
        assert predicted_of(lab.sides[0], scenario) is None  # it has just come there
        run_on(lab, Step(12.0))
        before = predicted_of(lab.sides[0], scenario)
        option = "execution.checkpointing.interval"
        lab.handle(Change("a", option, "1 s"))
        run_on(lab, Step(4.0))
        after = predicted_of(lab.sides[0], scenario)
    finally:
        lab.close()
    assert before is not None
    assert after is not None
    assert before.over_s == pytest.approx(12.0)
    assert after.over_s == pytest.approx(4.0, abs=0.01)
    assert before.checkpoints["checkpoints"]
    completed = [after.checkpoints[name] for name in ("checkpoints", "end_to_end_ms")]
    assert completed == [0, None]  # none has been completed since


def run_on(lab: Lab, step: Step | None = None) -> None:
    """Let a lab come to where it wants to be, and stand still there."""
    lab.pace = None
    lab.handle(step or Pause(True))
    while not lab.stands:
        lab.turn(0.05)


@asynccontextmanager
async def served(cluster: ReplayedCluster) -> AsyncIterator[tuple[LabServer, Browser]]:
    """A lab of a running job, and a browser."""
    labs: list[Lab] = []

    def read(other: bool, watching: Any) -> Imported:
        return import_scenario(asked(cluster), watching=watching)

    def show(imported: Imported) -> None:
        labs.append(Lab(imported.scenario))
        server.lab = labs[-1]

    flink = ObservedFlink(
        cluster.url,
        read,
        lambda imported: JobWatch(asked(cluster), imported),
        show,
        lambda: True,
        every_s=0.01,
    )
    server = LabServer(None, flink=flink)
    try:
        async with browsing(server) as browser:
            yield server, browser
    finally:
        for lab in labs:
            lab.close()


async def in_state(page: Any, state: str) -> dict[str, Any]:
    """The next message on Flink that has this state."""
    while True:
        message: dict[str, Any] = await page.next("flink")
        if message["state"] == state:
            return message


def test_a_page_sees_flink_and_what_is_predicted(cluster: ReplayedCluster) -> None:
    async def look() -> None:
        async with served(cluster) as (_, browser):
            page = await browser.open()
            hello = await page.next("hello")
            assert hello["flink"]["job"] == cluster.job
            shown = await in_state(page, "running")
            assert [len(shown["flink"]["vertices"]), shown["predicted"][0]["side"]] == [2, "a"]
            assert shown["flink"]["vertices"][1]["records_per_s"] == pytest.approx(400, rel=0.05)
            cluster.refuse = out_of_order
            away = await in_state(page, "away")
            assert "503" in away["text"]
            older = await in_state(page, "away")
            assert older["age_s"] > away["age_s"]
            assert older["flink"] == away["flink"]  # the last figures stay
            cluster.refuse = in_order
            assert (await in_state(page, "running"))["text"] == ""
            begin_again(cluster)
            assert " restarted after" in (await in_state(page, "gone"))["text"]
            await page.say('{"type": "read_again"}')
            await page.next("hello")
            await in_state(page, "running")

    trio.run(look)


def test_a_job_that_cannot_be_read_is_said_and_tried_again(cluster: ReplayedCluster) -> None:
    async def look() -> None:
        be(cluster, "FAILING")
        async with served(cluster) as (_, browser):
            page = await browser.open()
            while (reading := await page.next("reading"))["problem"] is None:
                await page.say('{"type": "pause", "paused": true}')
            assert "no job is running" in reading["problem"]
            be(cluster, "RUNNING")
            await page.say('{"type": "read_again"}')
            await page.next("hello")

    trio.run(look)


def test_a_job_without_flink_is_not_read_again() -> None:
    with serving(ReplayedCluster(recording(NAMES[0]))):
        server = LabServer(None)
        with pytest.raises(Exception, match="was not read from Flink"):
            server._answer_to('{"type": "read_again"}')
