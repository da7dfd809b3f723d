"""Verification of change packages: before, promised and after."""

from __future__ import annotations

import re

import pytest

from integration.advise.tune.change_package import CHECKPOINT, CHECKPOINT_P95, FAILED, RATE
from integration.advise.tune.verification import Verdict, Verification, verify_change
from integration.base.errors import UsageError
from tests.integration.advise.tune.changed_job import AFTER, ENABLED, TARGET, cluster, package, read
from tests.integration.flink.flink_cluster import ReplayedCluster


def verify(made: ReplayedCluster, **limits: float) -> Verification:
    return verify_change(package(**limits), read(made))


def test_a_promise_is_kept_if_checkpoints_are_as_fast_as_promised() -> None:
    found = verify(cluster(AFTER, durations_ms=365.0))
    assert found.verdict is Verdict.KEPT
    assert re.fullmatch(
        r"The promise is kept: checkpoints take 365 ms "
        r"\(promised 35\d ms, 3\d\d ms to 3\d\d ms; before 1\.51 s\)\.",
        found.sentence,
    )
    assert {each.figure: each.ok for each in found.figures} == {
        CHECKPOINT: True,
        CHECKPOINT_P95: None,
        RATE: True,
        FAILED: True,
    }
    assert (found.checkpoints, found.not_in_force, found.measured) == (8, [], True)


def test_checkpoints_that_are_faster_than_promised_keep_the_promise() -> None:
    assert verify(cluster(AFTER, durations_ms=20.0)).verdict is Verdict.KEPT


def test_slower_checkpoints_break_the_promise() -> None:
    found = verify(cluster(AFTER, durations_ms=500.0))
    assert found.verdict is Verdict.NOT_KEPT
    assert found.sentence.startswith("The promise is not kept: checkpoints take 500 ms (promised 35")


@pytest.mark.parametrize(("limit_ms", "verdict"), [(370.0, Verdict.KEPT), (360.0, Verdict.NOT_KEPT)])
def test_the_limit_for_checkpoint_times_belongs_to_the_promise(limit_ms: float, verdict: Verdict) -> None:
    found = verify(cluster(AFTER, durations_ms=365.0), max_checkpoint_ms=limit_ms)
    assert found.verdict is verdict
    text = "95 % of the checkpoints take up to 365 ms, and the limit is 360 ms"
    assert (text in found.sentence) == (verdict is Verdict.NOT_KEPT)


def test_more_failed_checkpoints_break_the_promise() -> None:
    found = verify(cluster(AFTER, durations_ms=350.0, failed=2))
    assert found.verdict is Verdict.NOT_KEPT
    expected = "The promise is not kept: 20 % of the checkpoints fail (promised 0 %; before 0 %)."
    assert found.sentence == expected


def test_a_job_whose_checkpoints_all_fail_breaks_the_promise() -> None:
    made = cluster(AFTER)
    for entry in made.answers[f"/jobs/{made.job}/checkpoints"]["history"]:
        entry["status"] = "FAILED"
    found = verify(made)
    assert found.verdict is Verdict.NOT_KEPT
    assert "100 % of the checkpoints fail" in found.sentence


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({ENABLED: "true", TARGET: "1 s"}, f"{TARGET} is not 300 ms, as far as Flink reports"),
        (
            {ENABLED: "false", TARGET: None},
            f"{ENABLED} is not true, as far as Flink reports, and 1 more option not as in the package",
        ),
    ],
)
def test_a_change_that_is_not_in_force_cannot_be_judged(options: dict[str, str | None], said: str) -> None:
    found = verify(cluster(options, durations_ms=350.0))
    assert found.verdict is Verdict.NOT_JUDGED
    assert found.sentence == f"The promise cannot be judged: {said}."
    assert [each.ok for each in found.figures] == [None, None, None, None]


def test_options_that_flink_does_not_report_are_not_taken_for_the_defaults() -> None:
    made = cluster(AFTER, durations_ms=350.0)
    made.answers["/jobmanager/config"] = []
    found = verify(made)
    assert (found.verdict, found.not_in_force) == (Verdict.NOT_JUDGED, [])
    assert found.sentence == (
        "The promise cannot be judged: Flink does not report its options, so it is unknown whether "
        f"{ENABLED} is in force."
    )


def test_few_checkpoints_cannot_be_judged() -> None:
    made = cluster(AFTER, durations_ms=350.0)
    path = f"/jobs/{made.job}/checkpoints"
    made.answers[path]["history"] = made.answers[path]["history"][:3]
    found = verify(made)
    assert found.verdict is Verdict.NOT_JUDGED
    said = "The promise cannot be judged: only 3 checkpoints ended since the job's last start; wait for 5."
    assert found.sentence == said


def at_rate(share: float, *, waits: bool) -> ReplayedCluster:
    """The job after the change, reading a share of the records; its source is back-pressured or not."""
    made = cluster(AFTER, durations_ms=350.0)

    def change(name: str, value: float, number: int) -> float | None:
        if name.endswith("numRecordsIn"):
            return value * share
        if "ackPressured" in name and not waits:
            return 0.0
        return None

    for vertex in ("source", "stage1"):
        for subtask in (0, 1):
            made.change_metrics(vertex, subtask, change)
    return made


def test_another_load_cannot_be_judged() -> None:
    for share in (0.8, 1.3):
        found = verify(at_rate(share, waits=False))
        assert found.verdict is Verdict.NOT_JUDGED
        assert "the job has another load: it reads " in found.sentence
    assert verify(at_rate(1.3, waits=True)).verdict is Verdict.NOT_JUDGED


def test_a_job_below_its_limit_reads_what_its_input_has() -> None:
    found = verify(at_rate(0.93, waits=False))
    assert found.verdict is Verdict.KEPT
    assert {each.figure: each.ok for each in found.figures}[RATE] is None


@pytest.mark.parametrize("share", [0.93, 0.8])
def test_a_lower_throughput_of_a_job_at_its_limit_breaks_the_promise(share: float) -> None:
    found = verify(at_rate(share, waits=True))
    assert found.verdict is Verdict.NOT_KEPT
    assert found.sentence.startswith("The promise is not kept: the throughput is ")


def test_a_job_of_another_name_is_refused() -> None:
    made = cluster(AFTER)
    for path in ("/jobs/overview", f"/jobs/{made.job}"):
        answer = made.answers[path]
        (answer["jobs"][0] if "jobs" in answer else answer)["name"] = "billing"
    with pytest.raises(UsageError, match="is 'billing', but the package is for 'flinklab'; give that job"):
        verify(made)
