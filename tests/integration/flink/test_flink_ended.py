"""Jobs that have ended, as a history server still shows them: without metrics, but with checkpoints."""

from __future__ import annotations

import re

import pytest

from integration.advise.diagnose.flink_job import diagnose_job
from integration.advise.diagnose.verdict import UNDECIDED, Diagnosis
from integration.base.errors import EndedJobError
from integration.cli.app import main
from integration.cli.option_names import problems_of
from integration.flink import FlinkRestError, import_scenario
from tests.integration.flink.flink_cluster import NAMES, ReplayedCluster, recording, serving

ENDED_MS = 1500


def history_server(name: str = NAMES[0]) -> ReplayedCluster:
    """Return a cluster that answers as a history server, about a job that ended soon after the recording."""
    cluster = ReplayedCluster(recording(name))
    path = f"/jobs/{cluster.job}"
    job = cluster.answers[path]
    job |= {"state": "FINISHED", "end-time": job["now"] + ENDED_MS, "now": job["now"] + 10**9}
    for vertex in job["vertices"]:
        vertex["status"] = "FINISHED"
    cluster.answers["/jobs/overview"]["jobs"][0]["state"] = "FINISHED"
    cluster.answers[f"{path}/jobmanager/config"] = cluster.answers["/jobmanager/config"]
    for gone in ("metrics", "/backpressure", "/taskmanagers"):
        cluster.forget(gone)
    del cluster.answers["/jobmanager/config"]
    return cluster


def without_totals(cluster: ReplayedCluster) -> ReplayedCluster:
    """Remove the counters of all subtasks from the answers."""
    for path, answer in cluster.answers.items():
        if re.search(r"/vertices/\w+$", path):
            for subtask in answer["subtasks"]:
                subtask["metrics"] = {}
    return cluster


def diagnosed(cluster: ReplayedCluster) -> Diagnosis:
    with serving(cluster):
        return diagnose_job(cluster.url)


def texts(diagnosis: Diagnosis) -> str:
    (window,) = diagnosis.windows
    lines = [line for each in window.findings for line in (each.says, *each.evidence, *each.next)]
    return " ".join([window.verdict, *lines])


def test_what_is_kept_of_a_job_is_told() -> None:
    cluster = history_server()
    job = cluster.answers[f"/jobs/{cluster.job}"]
    diagnosis = diagnosed(cluster)
    (window,) = diagnosis.windows
    ran_ms = job["end-time"] - job["timestamps"]["RUNNING"]
    assert (window.from_s, window.to_s) == (0.0, pytest.approx(ran_ms / 1e3, abs=0.01))
    assert window.verdict == "operator bound, at stage1"
    with serving(ReplayedCluster(recording(NAMES[0]))) as running:
        (live,) = diagnose_job(running.url, watch_s=0.0).windows
    delays = "long-start-delay"
    assert window.checkpoints == live.checkpoints == 8
    assert [found.evidence[0] for found in window.findings if found.rule == delays] == [
        found.evidence[0] for found in live.findings if found.rule == delays
    ]
    assert diagnosis.notes[:2] == [
        "The job has ended: its metrics are gone, and only the counters of each subtask are left.",
        "Times and rates are means since each subtask last started, not values of one moment.",
    ]


def test_what_is_not_kept_is_not_known() -> None:
    (window,) = diagnosed(history_server()).windows
    assert window.not_known == [
        "inPoolUsage of stage1; so it is unknown on which side data waits",
        "outPoolUsage of source; so it is unknown on which side data waits",
        "inputQueueSize of stage1; so it is unknown how much data waits",
        "outputQueueSize of source; so it is unknown how much data waits",
        "debloatedBufferSize of stage1; so it is unknown what debloating does",
        "estimatedTimeToConsumeBuffersMs of stage1; so it is unknown whether debloating keeps to its target",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_unknown_is_not_taken_for_zero(name: str) -> None:
    diagnosis = diagnosed(without_totals(history_server(name)))
    (window,) = diagnosis.windows
    assert window.verdict == UNDECIDED
    assert window.not_known[0].startswith("back-pressured time of source, stage1")
    assert window.not_known[1].startswith("busy time of source, stage1")
    assert any(line.startswith("records per second of ") for line in window.not_known)
    for word in ("nobody", "idle", "busy"):
        assert word not in texts(diagnosis)
    assert " is back-pressured, which is not reported" in texts(diagnosis)
    assert any(found.rule == "long-start-delay" for found in window.findings)
    assert not any("means since" in note for note in diagnosis.notes)


def test_a_job_without_checkpoints_and_options() -> None:
    cluster = history_server()
    cluster.forget("/checkpoints")
    cluster.forget("/jobmanager/config")
    diagnosis = diagnosed(cluster)
    assert diagnosis.windows[0].checkpoints == 0
    assert "The options of the cluster are not reported; assuming Flink's defaults." in diagnosis.notes
    assert "The cluster keeps no completed checkpoint, so delays are unknown." in diagnosis.notes
    assert any("does not offer /jobs/" in note and "/jobmanager/config" in note for note in diagnosis.notes)


def test_one_of_several_jobs_has_to_be_named() -> None:
    cluster = history_server()
    other = {"jid": "0" * 32, "name": "other", "state": "CANCELED"}
    cluster.answers["/jobs/overview"]["jobs"].append(other)
    with serving(cluster):
        with pytest.raises(
            FlinkRestError, match=r"no job is running. Set job to one of these: .* CANCELED\)"
        ):
            diagnose_job(cluster.url)
        assert diagnose_job(cluster.url, cluster.job).name == diagnosed(history_server()).name
        with pytest.raises(FlinkRestError, match="has no job 1; the cluster has "):
            diagnose_job(cluster.url, "1")


def test_a_running_job_goes_before_one_that_has_ended() -> None:
    cluster = ReplayedCluster(recording(NAMES[0]))
    other = {"jid": "0" * 32, "name": "other", "state": "FINISHED"}
    cluster.answers["/jobs/overview"]["jobs"].append(other)
    with serving(cluster):
        assert diagnose_job(cluster.url, watch_s=0.0).windows[0].to_s > 0


def test_an_import_needs_a_job_that_runs() -> None:
    cluster = history_server()
    with serving(cluster):
        for job, message in (
            (None, r"no job is running; the cluster has .* FINISHED\)"),
            (cluster.job, f"job {cluster.job} is FINISHED; only a running job"),
        ):
            with pytest.raises(EndedJobError, match=message) as caught:
                import_scenario(cluster.url, job)
            (line,) = problems_of(caught.value)
            assert line == f"{caught.value} netstack diagnose reads jobs that have ended."


def test_the_command_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(history_server()) as cluster:
        assert main(["diagnose", "--from-flink", cluster.url, "--latency", "1 ms"]) == 0
    shown = capsys.readouterr()
    assert "  The job has ended: its metrics are gone" in shown.out
    assert shown.err == ""
