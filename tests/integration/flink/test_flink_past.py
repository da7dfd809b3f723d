"""Figures of an earlier time, from a Prometheus that scraped Flink's reporter."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integration.advise.diagnose.flink_job import diagnose_job
from integration.base.errors import UsageError
from integration.cli.app import main
from integration.cli.past_options import NOW, PastOptions
from integration.flink import (
    FlinkRestError,
    Imported,
    Past,
    PastCluster,
    PrometheusServer,
    Recorder,
    Recording,
    import_scenario,
)
from integration.flink.http.answers import Refused
from integration.flink.recording import packed
from netstack import GeneratorSpec, scenario_toml
from tests.integration.flink.flink_cluster import NAMES, RECORDINGS, ReplayedCluster, Unserved, recording
from tests.integration.flink.scraped_prometheus import Scraped, scraped
from tests.integration.flink.test_flink_client import answering, sent
from tests.integration.flink.test_flink_ended import history_server

BEGIN_S = 1_795_000_000.0
"""A time after the start of the recorded jobs."""

FOR_S = 300.0
EXAMPLES = Path(__file__).parents[3] / "docs/examples"
_TASK = "flink_taskmanager_job_task_"


def cluster() -> ReplayedCluster:
    return ReplayedCluster(recording(NAMES[0]))


def imported(
    prometheus: Scraped,
    begin_s: float = BEGIN_S + 900,
    end_s: float | None = None,
    of: ReplayedCluster | None = None,
    **keywords: Any,
) -> Imported:
    end_s = begin_s + FOR_S if end_s is None else end_s
    past = Past(begin_s=begin_s, end_s=end_s, for_s=FOR_S)
    return import_scenario(PastCluster(Unserved(of or cluster()), prometheus, past), **keywords)


def problems(prometheus: Scraped, *arguments: Any, **keywords: Any) -> str:
    with pytest.raises(FlinkRestError) as caught:
        imported(prometheus, *arguments, **keywords)
    return "\n".join(caught.value.problems)


def hour(**keywords: Any) -> Scraped:
    return scraped(cluster(), BEGIN_S, 3600, **keywords)


def changed(prometheus: Scraped, change: Callable[[dict[str, str]], dict[str, str] | None]) -> Scraped:
    prometheus.relabel(change)
    return prometheus


class TestFigures:
    def test_rates_costs_and_checkpoints_are_those_of_the_window(self) -> None:
        later = BEGIN_S + 1800
        prometheus = hour(load=lambda at_s: 1.5 if at_s > later else 1.0)
        for begin_s, load in ((BEGIN_S + 900, 1.0), (later + 120, 1.5)):
            found = imported(prometheus, begin_s)
            source, stage = found.measured.steady.vertices
            assert source.records_out_per_s == pytest.approx([100 * load] * 2)
            assert stage.records_in_per_s == pytest.approx([100 * load] * 2)
            assert stage.busy_ms_per_s == pytest.approx([500 * load] * 2)
            assert stage.start_delay_ms == pytest.approx(400 * load)
            assert stage.alignment_ms == pytest.approx(100 * load)
            assert found.measured.steady.end_to_end_ms == pytest.approx(1000 * load)
            assert found.measured.steady.processed_bytes == 700
            assert found.scenario.vertices[0].source.rates == pytest.approx((100 * load,))

    def test_what_prometheus_lacks_is_unknown(self) -> None:
        found = imported(hour())
        source, stage = found.measured.steady.vertices
        assert found.measured.checkpoints[0].vertices[1].sync_ms == []
        assert stage.unaligned_share == 0
        assert source.debloatedBufferSize == [None, None]
        assert stage.outPoolUsage == [None, None]
        assert any(f"{_TASK}Shuffle_Netty_Output_Buffers_outPoolUsage" in note for note in found.notes)

    def test_the_window_is_named_in_local_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        first, *_ = imported(hour()).notes
        begin, end = (datetime.fromtimestamp(at).astimezone() for at in (BEGIN_S + 900, BEGIN_S + 1200))
        assert first == f"The figures are those of {begin:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S %z}."

    def test_samples_cover_the_window(self) -> None:
        found = imported(hour(every_s=5.0))
        for subtasks in found.samples.values():
            for subtask in subtasks:
                assert subtask.times[0] == BEGIN_S + 900
                assert subtask.times[-1] == BEGIN_S + 1200
                assert len(subtask.samples) == 61
                assert subtask.accounted_s == pytest.approx(300)

    @settings(max_examples=8, deadline=None)
    @given(
        every_s=st.sampled_from([5.0, 10.0, 15.0, 30.0, 60.0]),
        shift_s=st.floats(0, 60),
        load=st.floats(0.2, 1.9),
        for_s=st.floats(180, 500),
    )
    def test_neither_the_interval_of_scrapes_nor_their_phase_changes_rates(
        self, every_s: float, shift_s: float, load: float, for_s: float
    ) -> None:
        prometheus = scraped(cluster(), BEGIN_S, 1200, every_s=every_s, load=lambda at_s: load)
        begin_s = BEGIN_S + 600 + shift_s
        past = Past(begin_s=begin_s, end_s=begin_s + for_s, for_s=for_s)
        found = import_scenario(PastCluster(Unserved(cluster()), prometheus, past))
        for vertex in found.measured.steady.vertices:
            assert vertex.records_in_per_s == pytest.approx([100 * load] * 2, rel=1e-3)
            assert vertex.busy_ms_per_s == pytest.approx([500 * load] * 2, rel=1e-3)

    def test_a_job_that_started_again_since_has_its_age_by_its_accounts(self) -> None:
        since = cluster()
        since.answers[f"/jobs/{since.job}"]["timestamps"]["RUNNING"] = 1e3 * (BEGIN_S + 7200)
        found = imported(hour(), of=since)
        assert found.job.age_s == pytest.approx(900, abs=20)

    def test_task_managers_that_are_gone(self) -> None:
        moved = changed(
            hour(),
            lambda labels: {**labels, "tm_id": f"old_{labels['tm_id']}"} if "tm_id" in labels else labels,
        )
        found = imported(moved)
        assert {vertex.task_manager for vertex in found.scenario.vertices} != {
            vertex.task_manager for vertex in imported(hour()).scenario.vertices
        }
        assert any("are gone" in note for note in found.notes)
        assert found.scenario.config.network_memory_max_bytes == 2048 * 32768

    def test_the_plan_and_the_options_come_from_a_history_server_too(self) -> None:
        found = imported(hour(), of=history_server())
        running = imported(hour())
        assert found.scenario.vertices == running.scenario.vertices
        assert found.scenario.config == running.scenario.config
        assert not any("are gone" in note for note in found.notes)

    def test_a_diagnosis_asks_for_nothing_of_now(self) -> None:
        of = cluster()
        past = Past(begin_s=BEGIN_S + 900, end_s=BEGIN_S + 1200, for_s=FOR_S)
        diagnosis = diagnose_job(PastCluster(Unserved(of), hour(), past))
        assert diagnosis.windows
        assert not any(path.endswith(("/backpressure", "/metrics")) for path in of.asked)


class TestRealPrometheus:
    """Recorded answers of a Flink under a load that rises and falls, and of a Prometheus that scraped it."""

    def test_the_slowest_checkpoints_of_a_run(self) -> None:
        found = import_scenario(EXAMPLES / "peaks.rest.json.gz")
        source, stage = found.scenario.vertices
        assert source.source == GeneratorSpec(record_bytes=1015, rates=(0.0,))
        assert stage.service[0][1] == pytest.approx(4e-3, rel=0.01)
        assert found.measured.steady.end_to_end_ms == pytest.approx(2530, rel=0.01)
        assert found.measured.steady.vertices[1].unaligned_share == 0
        assert found.scenario.config.network_memory_max_bytes == 256 << 20
        assert "when checkpoints were slowest: 2.56 s on average, and 563 ms in the median" in found.notes[0]

    def test_the_same_minute_read_from_flink_and_from_prometheus(self) -> None:
        names = ("minute", "minute_of_rest")
        past, live = (
            import_scenario(RECORDINGS / f"flink-2.3.0_steady_{name}.json.gz").scenario for name in names
        )
        assert past.config == live.config
        assert past.edges[0].shares == pytest.approx(live.edges[0].shares, abs=0.005)
        for one, other in zip(past.vertices, live.vertices, strict=True):
            if isinstance(one.source, GeneratorSpec) and isinstance(other.source, GeneratorSpec):
                assert one.source.record_bytes == other.source.record_bytes
                assert one.source.rates == pytest.approx(other.source.rates, rel=0.01)
            else:
                assert one.service[0][1] == pytest.approx(other.service[0][1], rel=0.01)
                assert one.service_skew == pytest.approx(other.service_skew, rel=0.02)

    def test_the_slowest_checkpoint_waits_in_queues(self) -> None:
        (window,) = diagnose_job(Recording(EXAMPLES / "peaks.rest.json.gz")).windows
        (found,) = [each for each in window.findings if each.where == "checkpoints, at v1"]
        assert "start delay 2.38 s, alignment 169 ms" in found.evidence[0]

    def test_task_managers_that_are_scraped_in_turn_make_no_bursts(self) -> None:
        source, stage = import_scenario(RECORDINGS / "flink-2.3.0_peaks_minute.json.gz").scenario.vertices
        assert isinstance(source.source, GeneratorSpec)
        assert source.source.burst_s is None
        assert fmean(source.source.rates) == pytest.approx(222, rel=0.05)
        assert stage.service[0][1] == pytest.approx(4e-3, rel=0.01)


class TestWorst:
    def test_the_window_with_the_slowest_checkpoints_is_found(self) -> None:
        peak = BEGIN_S + 2000
        prometheus = hour(load=lambda at_s: 1.9 if peak <= at_s < peak + 400 else 0.7)
        found = imported(prometheus, BEGIN_S, BEGIN_S + 3600)
        window = found.samples[found.job.vertices[0].id][0].times
        assert peak - 30 <= window[0]
        assert window[-1] <= peak + 430
        assert "1.90 s on average, and 700 ms in the median over the 1 h" in found.notes[0]

    def test_windows_with_a_restart_do_not_count(self) -> None:
        peak = BEGIN_S + 2000
        prometheus = hour(load=lambda at_s: 1.9 if peak <= at_s < peak + 400 else 0.7, restarts_at=peak + 200)
        found = imported(prometheus, BEGIN_S, BEGIN_S + 3600)
        window = found.samples[found.job.vertices[0].id][0].times
        assert window[-1] < peak + 200 or window[0] >= peak + 200

    def test_checkpoints_that_failed_elsewhere_are_noted(self) -> None:
        peak = BEGIN_S + 2000
        prometheus = hour(load=lambda at_s: 1.9 if peak <= at_s < peak + 400 else 0.7)
        for key, values in prometheus.series.items():
            if ("__name__", "flink_jobmanager_job_numberOfFailedCheckpoints") in key:
                values.update(dict.fromkeys([at for at in values if at >= BEGIN_S + 3000], 3.0))
        _, second, *_ = imported(prometheus, BEGIN_S, BEGIN_S + 3600).notes
        at = datetime.fromtimestamp(BEGIN_S + 3000).astimezone()
        assert f"Checkpoints also failed outside this time, first at {at:%Y-%m-%d %H:%M}" in second

    def test_without_checkpoints_there_is_none(self) -> None:
        silent = changed(hour(), lambda labels: None if "job_task" not in labels["__name__"] else labels)
        text = problems(silent, BEGIN_S, BEGIN_S + 3600)
        assert "no flink_jobmanager_job_lastCheckpointDuration" in text
        assert "begin_s" in text


class TestProblems:
    def test_a_restart_in_the_window(self) -> None:
        text = problems(hour(restarts_at=BEGIN_S + 1000))
        at = datetime.fromtimestamp(BEGIN_S + 1000).astimezone()
        assert "The job restarted at about" in text
        assert f"{at:%Y-%m-%d %H:%M}" in text

    def test_counters_that_fall_without_a_label_of_the_attempt(self) -> None:
        def without_attempt(labels: dict[str, str]) -> dict[str, str]:
            return {name: value for name, value in labels.items() if name != "task_attempt_num"}

        prometheus = hour(restarts_at=BEGIN_S + 1000)
        first = {key: values for key, values in prometheus.series.items() if ("task_attempt_num", "0") in key}
        for key, values in first.items():
            second = tuple(sorted({**dict(key), "task_attempt_num": "1"}.items()))
            live = {at: value for at, value in values.items() if value is not None}
            prometheus.series[key] = live | prometheus.series.pop(second, {})
        assert "The job restarted at about" in problems(changed(prometheus, without_attempt))

    def test_nothing_was_scraped_then(self) -> None:
        assert "Prometheus has no flink_taskmanager_job_task_numRecordsIn from" in problems(
            hour(), BEGIN_S - 9e4
        )

    def test_metrics_with_other_names(self) -> None:
        renamed = changed(
            hour(), lambda labels: {**labels, "__name__": labels["__name__"].replace("flink_", "acme_")}
        )
        assert "rules do not rename or drop" in problems(renamed)

    @pytest.mark.parametrize("label", ["job_id", "task_id"])
    def test_labels_that_are_missing(self, label: str) -> None:
        without = changed(
            hour(), lambda labels: {name: value for name, value in labels.items() if name != label}
        )
        assert f"has no label {label}" in problems(without)

    def test_another_job(self) -> None:
        other = changed(hour(), lambda labels: {**labels, "job_id": "f00", "task_id": "beef"})
        text = problems(other)
        assert cluster().job in text
        assert "f00 (a_job)" in text

    def test_another_plan(self) -> None:
        other = changed(hour(), lambda labels: {**labels, "task_id": "beef"})
        assert "the job had another plan then" in problems(other)

    def test_the_same_vertices_under_another_id_of_the_job(self) -> None:
        found = imported(changed(hour(), lambda labels: {**labels, "job_id": "f00"}))
        assert "The job had the id f00 then." in found.notes
        assert found.job.id == cluster().job

    @pytest.mark.parametrize(
        ("number", "other", "text"),
        [("1", None, "no figures of subtask 1"), ("1", "5", "had 6 subtasks then, and has 2 in the cluster")],
    )
    def test_other_subtasks(self, number: str, other: str | None, text: str) -> None:
        def moved(labels: dict[str, str]) -> dict[str, str] | None:
            if labels.get("subtask_index") != number:
                return labels
            return None if other is None else {**labels, "subtask_index": other}

        assert text in problems(changed(hour(), moved))

    def test_a_field_that_is_dropped_is_named(self) -> None:
        gone = "numBuffersOut"
        dropped = changed(hour(), lambda labels: None if labels["__name__"] == _TASK + gone else labels)
        found = imported(dropped)
        assert any(f"lacks {_TASK}" in note and gone in note for note in found.notes)
        assert found.measured.steady.vertices[0].buffers_out_per_s == [None, None]

    def test_moments_without_a_task_manager_are_left_out(self) -> None:
        prometheus = hour()
        for key, values in prometheus.series.items():
            if ("subtask_index", "1") in key:
                values[BEGIN_S + 1000] = None
                del values[BEGIN_S + 1005]
        found = imported(prometheus)
        assert any("moments of this time" in note for note in found.notes)
        assert found.measured.steady.vertices[0].records_out_per_s == pytest.approx([100, 100])


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b'{"status":"error","errorType":"bad_data","error":"parse error"}', 400, "answers 400: parse error"),
        (b"<html>", 200, "is a web page, not JSON. If it is a login page, set metrics_user"),
        (b'{"status":"success"}', 200, "does not answer as Prometheus does"),
        (b'{"status":"success","data":{"resultType":"vector","result":[]}}', 200, "is a vector"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":1}]}}', 200, "metric"),
        (b"[]", 200, "does not answer as Prometheus does"),
        (b"", 401, "Prometheus answers 401: Unauthorized. Set metrics_user, or metrics_headers for a token."),
    ],
)
def test_answers_of_another_kind(body: bytes, status: int, text: str) -> None:
    past = Past(begin_s=BEGIN_S, end_s=BEGIN_S + FOR_S, for_s=FOR_S)
    with answering(sent(body, status)) as url, pytest.raises(FlinkRestError) as caught:
        import_scenario(PastCluster(Unserved(cluster()), PrometheusServer(url), past))
    assert text in str(caught.value.problems[0])


_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_SERIES = st.fixed_dictionaries(
    {
        "metric": st.dictionaries(
            st.sampled_from(["__name__", "job_id", "task_id", "subtask_index", "tm_id"]),
            st.sampled_from([f"{_TASK}numRecordsIn", cluster().job, "0", "-1", "\u0663", "x"]) | st.text(),
        ),
        "values": st.lists(
            st.tuples(
                st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["1", "NaN", "x", "-1"])
            )
        ),
    }
)


@settings(max_examples=50, deadline=None)
@given(result=st.lists(_SERIES | _VALUES, max_size=3))
def test_any_answer_is_read_or_refused(result: list[Any]) -> None:
    class Odd(Scraped):
        def answer(self, path: str) -> Any:
            return {"status": "success", "data": {"resultType": "matrix", "result": result}}

    with suppress(FlinkRestError):
        imported(Odd())


class TestRecordings:
    def test_a_recording_gives_the_same_import_without_names(self, tmp_path: Path) -> None:
        of = cluster()
        text = json.dumps(of.answers)
        for manager in ("tm0", "tm1"):
            place = f"{manager}.prod-1:6122"
            text = text.replace(f'"{manager}"', f'"{place}"')
            text = text.replace(f"/taskmanagers/{manager}", f"/taskmanagers/{place}")
        of.answers = json.loads(text)
        prometheus = scraped(of, BEGIN_S, 3600)
        past = Past(begin_s=BEGIN_S, end_s=BEGIN_S + 3600, for_s=FOR_S)
        recorder = Recorder(PastCluster(Unserved(of), prometheus, past))
        live = import_scenario(recorder)
        file = tmp_path / "past.json.gz"
        document = recorder.document(live.scenario, live.measured)
        file.write_bytes(packed(document, file))
        assert b"prod" not in document
        assert b"127_0_0_1" not in document
        again = import_scenario(Recording(file))
        placed = scenario_toml(live.scenario)
        for manager in ("tm0", "tm1"):
            placed = placed.replace(f"{manager}.prod-1:6122", manager)
        assert scenario_toml(again.scenario) == placed
        assert again.notes == live.notes
        assert import_scenario(recorder.replay()).notes == live.notes


class TestOptions:
    NOW_S = datetime(2026, 11, 28, tzinfo=UTC).timestamp()

    @pytest.fixture(autouse=True)
    def today(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("time.time", lambda: self.NOW_S)

    def past(self, **options: Any) -> Past:
        given = PastOptions(metrics_from="http://prometheus:9090", **options)
        past = given.of(lambda: Unserved(cluster())).past
        assert past is not None
        return past

    @pytest.mark.parametrize(
        "text",
        ["2026-11-27T20:15+01:00", "2026-11-27T19:15Z", "2026-11-27 19:15:00+00:00", "20261127T191500Z"],
    )
    def test_times_with_a_zone(self, text: str) -> None:
        begin = datetime(2026, 11, 27, 19, 15, tzinfo=UTC).timestamp()
        assert self.past(at=text) == Past(begin_s=begin, end_s=begin + 300, for_s=300)

    def test_a_time_without_a_zone_is_local(self) -> None:
        begin = datetime(2026, 11, 27, 10, 15).timestamp()
        assert self.past(at="2026-11-27T10:15", for_="10 min") == Past(
            begin_s=begin, end_s=begin + 600, for_s=600
        )

    def test_the_last_hours(self) -> None:
        assert self.past(worst="24h") == Past(begin_s=self.NOW_S - 86400, end_s=self.NOW_S, for_s=300)

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"at": "2026-11-27"}, "--at 2026-11-27: '2026-11-27' is not a time"),
            ({"at": "tomorrow"}, "such as 2026-11-27T20:15"),
            ({"at": "2026-13-27T20:15"}, "is not a time"),
            ({"at": "2026-11-27T23:59Z"}, "5 min from then on are not over yet"),
            ({"at": "2026-11-27T20:15Z", "for_": "5"}, "--for 5: '5' has no unit"),
            ({"at": "2026-11-27T20:15Z", "for_": "1s"}, "must be at least 10 s"),
            ({"worst": "5m"}, "must be longer than --for, 5 min"),
            ({"worst": "30d"}, "at most 2,500 times as long"),
            ({"worst": "yesterday"}, "--worst yesterday"),
            ({}, "requires either --at, a time, or --worst"),
            ({"at": "2026-11-27T20:15Z", "worst": "24h"}, "requires either --at, a time, or --worst"),
        ],
    )
    def test_what_is_wrong_is_said(self, options: dict[str, str], text: str) -> None:
        with pytest.raises(UsageError) as caught:
            self.past(**options)
        assert text in caught.value.problems[0]

    def test_watching_is_for_the_present(self) -> None:
        options = PastOptions(metrics_from="http://prometheus:9090", at="2026-11-27T20:15Z")
        with pytest.raises(UsageError, match="--watch is for present figures"):
            options.of(lambda: Unserved(cluster()), watch="1m")

    def test_a_time_needs_an_address(self) -> None:
        with pytest.raises(UsageError, match="at cannot be used without --metrics-from"):
            PastOptions(at="2026-11-27T20:15Z").of(lambda: Unserved(cluster()))
        assert NOW.of(lambda: Unserved(cluster())).past is None

    def test_credentials_are_those_of_prometheus(self, tmp_path: Path) -> None:
        seen: list[str | None] = []

        def answer(request: Any) -> None:
            seen.append(request.headers["Authorization"])
            sent(b"", 401)(request)

        password = tmp_path / "password"
        password.write_text("s3cr3t\n")
        with answering(answer) as url:
            options = PastOptions(
                metrics_from=url,
                at="2026-11-27T20:15Z",
                metrics_user="me",
                metrics_password_file=password,
            )
            source = options.of(lambda: Unserved(cluster()))
            refused = source.answer("/api/v1/query_range?query=up")
        assert seen == ["Basic bWU6czNjcjN0"]
        assert isinstance(refused, Refused)
        assert "These credentials do not suffice" in refused.text


def test_the_command_line_names_its_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(recording(NAMES[0])))
    with answering(sent(b"", 401)) as url:
        arguments = ["--metrics-from", url, "--at", "2026-11-27T20:15", "--metrics-header", "X: s3cr3t"]
        assert main(["import-flink", str(file), *arguments]) == 2
        assert main(["import-flink", str(file), *arguments[:4]]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "s3cr3t" not in first
    assert re.search(r"Set --metrics-user, or --metrics-header for a token\.$", second)
