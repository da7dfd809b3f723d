"""A cluster that changes while it is read: the scenario is of one state, or an error names the change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from integration.flink import (
    FlinkRestError,
    Imported,
    LiveCluster,
    Recorder,
    Recording,
    import_scenario,
    importing,
)
from integration.flink.http.client import RestClient
from integration.flink.read import polling
from integration.flink.read.checkpoints import read_checkpoints
from integration.flink.read.job import FlinkJob
from integration.flink.read.job_state import JobState
from integration.flink.read.running_tasks import check_all_go_on
from integration.flink.recording import packed
from netstack import CheckpointResult, InputError, scenario_document
from tests.integration.flink.changing_cluster import ChangingCluster, Start, draw_starts, troubled
from tests.integration.flink.flink_cluster import RECORDINGS
from tests.integration.flink.test_flink_flows import edge_to, job

SEEDS = range(60)

ROUNDED = 0.5
"""Milliseconds in a second, or records, by which a whole number is off."""

PATIENCE_S = 2.0
"""Seconds to wait for an answer over HTTP."""

TOO_LITTLE = "too little"
"""Outcome for a job that has run for too short a time, also after a restart."""

CHANGED = re.compile(
    "job .* (became|restarted)|vertices of job .* changed|stopped reporting|no job is running"
    "|is INITIALIZING. Wait|task manager .* has (disappeared|appeared)|changed from Flink"
    "|are still from before"
    "|are not always reported"
)
ADVICE = re.compile(r"[Tt]ry again|[Ww]ait until|[Oo]nly a (running )?job|(CANCELED|FAILED|FINISHED)\)\.$")


@dataclass(frozen=True)
class Outcome:
    """Result of an import: a scenario, as a document, or the lines of an error."""

    scenario: Mapping[str, Any] | None
    problems: tuple[str, ...] = ()


def cluster_of(starts: tuple[Start, ...], seed: int) -> ChangingCluster:
    random = Random(seed)
    return ChangingCluster(starts, random.choice((0.5, 2.0, 10.0)), random)


def read(cluster: ChangingCluster, file: Path | None = None) -> Outcome:
    recorder = Recorder(cluster)
    try:
        imported = import_scenario(recorder)
    except InputError as error:
        return Outcome(None, tuple(error.problems))
    check_no_nonsense(imported)
    if file is not None:
        file.write_bytes(packed(recorder.document(imported.scenario, imported.measured), file))
        assert document_of(import_scenario(Recording(file))) == document_of(imported)
    return Outcome(document_of(imported) | shown_of(imported))


def shown_of(imported: Imported) -> dict[str, Any]:
    """Measured figures: rates and times of vertices, and start delays of checkpoints, which change too."""
    shown = imported.measured
    return {
        "vertices shown": [msgspec.to_builtins(vertex) for vertex in shown.steady.vertices],
        "delays": [[vertex.start_delay_ms for vertex in each.vertices] for each in shown.checkpoints],
    }


def document_of(imported: Imported) -> dict[str, Any]:
    """The scenario with its task managers numbered as they come, which a recording calls otherwise."""
    document = scenario_document(imported.scenario)
    named: dict[str, int] = {}
    for vertex in document["vertices"]:
        places = vertex["task_manager"]
        listed = places if isinstance(places, list) else [places]
        vertex["task_manager"] = [named.setdefault(place, len(named)) for place in listed]
    for machine in document.get("machines", ()):
        machine["task_managers"] = [named[place] for place in machine["task_managers"]]
    return document


def check_no_nonsense(imported: Imported) -> None:
    """Check that no measured figure is negative."""
    for vertex in imported.measured.steady.vertices:
        for name in vertex.__struct_fields__:
            value = getattr(vertex, name)
            if isinstance(value, list):
                assert all(each is None or each >= 0 for each in value), (name, value)
    assert all(checkpoint.t >= 0 for checkpoint in imported.measured.checkpoints)


def alike(one: Any, other: Any) -> bool:
    """Whether two documents are the same but for the last digits of what was counted over other seconds."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=0.02, abs=ROUNDED)
    return bool(one == other)


def judged(seed: int, folder: Path, outcome: Outcome | None = None) -> str:
    """Read a changing cluster, and each of its states as if there were no other; say what came of it."""
    starts = draw_starts(Random(seed))
    if outcome is None:
        outcome = read(cluster_of(starts, seed), folder / "job.json")
    twins = [read(cluster_of((start.unending(),), seed)) for start in starts]
    if outcome.scenario is not None:
        same = [
            place
            for place, twin in enumerate(twins)
            if twin.scenario is not None and alike(outcome.scenario, twin.scenario)
        ]
        assert same, (seed, outcome.scenario, [twin.scenario for twin in twins])
        return f"state {same[0]}"
    if any(outcome.problems == twin.problems for twin in twins):
        return TOO_LITTLE
    assert len(outcome.problems) == 1, (seed, outcome.problems)
    problem = outcome.problems[0]
    assert CHANGED.search(problem), (seed, problem)
    assert ADVICE.search(problem), (seed, problem)
    assert "\n" not in problem
    return "changed"


@pytest.mark.long
def test_whatever_happens_a_scenario_is_of_one_state(tmp_path: Path) -> None:
    outcomes = Counter(judged(seed, tmp_path) for seed in SEEDS)
    assert outcomes.keys() >= {"state 0", "state 1", "changed"}
    assert min(outcomes["state 0"], outcomes["state 1"], outcomes["changed"]) >= len(SEEDS) // 12


def test_metrics_of_the_attempt_before_are_not_taken_for_those_of_the_attempt_that_runs() -> None:
    """Which a cluster has until it collects them anew."""
    first = draw_starts(Random(0))[0].unending()
    again = replace(first, attempt=1, running_s=-4.0, tasks_s=-3.0)
    cluster = ChangingCluster((replace(first, failed_s=-5.0), again), 60.0, Random(0), now_s=-30.0)
    path = f"/jobs/{first.job}/vertices/{cluster.source}/subtasks/0/metrics"
    for _ in range(2):
        cluster.answer(path)
        cluster.pause(1.0)
    cluster.now_s = 0.0
    with pytest.raises(
        FlinkRestError, match=r" are still from before its restart\. Try again in a few seconds\."
    ):
        import_scenario(cluster, watch_s=5.0)


# Over HTTP.

TROUBLED = re.compile(
    "cannot be reached: |no complete answer|the answer is incomplete|the answer is not JSON|Flink answers 503"
)


class OverHttp:
    """A changing cluster that is asked over HTTP, in its own time."""

    def __init__(self, url: str, cluster: ChangingCluster) -> None:
        self._live = LiveCluster(url, timeout_s=PATIENCE_S, sleep=cluster.pause)
        self.name = self._live.name
        self.past = None
        self.answer = self._live.answer
        self.answer_all = self._live.answer_all
        self.pause = cluster.pause
        self.clock = cluster.clock


@pytest.mark.parametrize("seed", range(6))
def test_so_it_is_over_http_with_answers_that_do_not_come(seed: int, tmp_path: Path) -> None:
    cluster = cluster_of(draw_starts(Random(seed)), seed)
    with troubled(cluster, Random(seed)) as url:
        outcome = read(OverHttp(url, cluster))
    if outcome.scenario is None and TROUBLED.search(outcome.problems[0]):
        assert len(outcome.problems) == 1
    else:
        judged(seed, tmp_path, outcome)


# Defects that are planted, each of which some seed finds.


@contextmanager
def only_reading(client: RestClient, state: JobState, pause: object) -> Iterator[None]:
    with client.reading():
        yield


def of_all_starts(client: RestClient, job: FlinkJob) -> list[CheckpointResult]:
    return read_checkpoints(client, replace(job, running_since_ms=0.0))


def nothing(*_: object, **__: object) -> None:
    """Does not do what it should."""


DEFECTS: dict[str, tuple[int, object, str, object]] = {
    "the job is not looked at again": (36, importing, "unchanged", only_reading),
    "tasks may fall silent": (56, polling, "check_all_go_on", nothing),
    "checkpoints of earlier starts count": (31, importing, "read_checkpoints", of_all_starts),
}
"""For each defect: a seed that finds it, and the function that replaces a name of a module."""


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, module, name, instead = DEFECTS[defect]
    assert judged(seed, tmp_path)
    monkeypatch.setattr(module, name, instead)
    with pytest.raises(AssertionError):
        judged(seed, tmp_path)


@pytest.mark.parametrize(
    ("accounts", "is_lost"),
    [
        ([40, 41, 42, 43, 44, 45, 46, 46, 46], False),  # the end of a recording, read earlier than the others
        ([40, 41, 42, 42, 42, 42, 42, 42, 42], True),
    ],
)
def test_a_task_is_lost_only_if_it_accounts_for_less_time_than_others(
    accounts: list[int], is_lost: bool
) -> None:
    client = RestClient(Recording(RECORDINGS / "flink-2.3.0_merge_off.json.gz"))
    shape = job(edge_to("source", "work", "REBALANCE"), parallelism=3)
    vertex = shape.vertices[1]
    others = [40, 41, 41, 42, 43, 44, 44, 45, 46]
    rounds = [
        {
            (vertex.id, subtask): (
                float(at),
                {"busy_ms": 1e3 * seconds, "idle_ms": 0.0, "backpressured_ms": 0.0},
            )
            for subtask, seconds in enumerate(of_poll)
        }
        for at, of_poll in enumerate(zip(others, others, accounts, strict=True))
    ]

    def check() -> None:
        again = iter(rounds[6:])
        check_all_go_on(client, shape, rounds[:6], lambda: next(again), at_each_poll=True)

    if is_lost:
        with pytest.raises(FlinkRestError, match="subtask 2 of 'work' stopped reporting while others"):
            check()
    else:
        check()
