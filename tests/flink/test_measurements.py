"""What a cluster answered becomes a reference that the comparison reads."""

import gzip
import json
import socket
import sys
from pathlib import Path
from statistics import linear_regression
from typing import Any

import msgspec
import pytest

from integration.runs.quantities import END_TO_END, THROUGHPUT
from integration.runs.reference_comparison import measure, runs_of
from netstack import emulate
from tests.flink import __main__ as commands
from tests.flink import policy_runs
from tests.flink.cluster import CACHE, Software
from tests.flink.job_description import POLICIES
from tests.flink.measuring import (
    Samples,
    all_vertices,
    checkpoints_of,
    outcome,
    repeated,
    steady,
    vertices_of,
)
from tests.flink.policy_runs import (
    KNOWN,
    NEW,
    PREDICTIONS,
    Key,
    Measured,
    PolicyFigures,
    Run,
    _predictions,
    _rows,
    keep,
    measurements,
    table_of,
    tables,
)
from tests.flink.references import compared, scenario_named

RECORDING = Path(__file__).parents[1] / "data/flink-rest/flink-2.2.1_2x2_200KBs_on1s.json.gz"
ROUNDS, APART_S = 6, 1.5


class Recorded:
    """Answers as a cluster did; values of metrics change from round to round."""

    def __init__(self) -> None:
        document = json.loads(gzip.decompress(RECORDING.read_bytes()))
        self.job: str = document["job"]
        self.answers: dict[str, Any] = document["answers"]
        self.round = 0

    def get(self, path: str) -> Any:
        base, asks, names = path.partition("?get=")
        if asks:
            return [
                each for each in self.answers[f"{base}?get=*"][self.round] if each["id"] in names.split(",")
            ]
        if path.endswith("/metrics"):
            return self.answers[path.replace("/metrics", "/subtasks/metrics")] and [
                {"id": f"0.{each['id']}"}
                for each in self.answers[path.replace("/metrics", "/subtasks/0/metrics")]
            ]
        return self.answers[path]


def measured_by(recorded: Recorded) -> dict[str, Any]:
    vertices = all_vertices(recorded, recorded.job)
    samples = Samples(vertices)
    for recorded.round in range(ROUNDS):
        samples.take(recorded, recorded.job, recorded.round * APART_S)
    history = recorded.answers[f"/jobs/{recorded.job}/checkpoints"]["history"]
    kept = [
        each
        for each in history
        if f"/jobs/{recorded.job}/checkpoints/details/{each['id']}" in recorded.answers
    ]
    recorded.answers[f"/jobs/{recorded.job}/checkpoints"]["history"] = kept
    began_ms = min(each["trigger_timestamp"] for each in kept)
    checkpoints, failed = checkpoints_of(recorded, recorded.job, vertices, began_ms)
    window = (0.0, 60.0)
    return {
        "failed_checkpoints": failed,
        "steady": [steady(window, vertices, samples.times, samples.series, checkpoints)],
        "checkpoints": checkpoints,
        "t": samples.times,
        "series": samples.series,
    }


def test_answers_become_a_reference() -> None:
    document = measured_by(Recorded())
    (run,) = runs_of(document)
    (block,) = run["steady"]
    source, sink = block["vertices"]
    assert [source["name"], sink["name"]] == ["Source: source", "stage1"]
    assert source["records_in_per_s"] == [0.0, 0.0]
    counted = document["series"][1]["numRecordsIn"]
    slopes = [linear_regression(document["t"], values).slope for values in counted]
    assert sink["records_in_per_s"] == [round(slope, 1) for slope in slopes]
    assert min(slopes) > 150
    assert block["checkpoints"] == 8
    assert 1000 < block["end_to_end_ms"] < 2500
    assert sink["alignment_ms_max_subtask"] > 0
    assert all(256 < size < 32768 for size in sink["debloatedBufferSize"])
    figures = {subject.quantity: value for subject, value in measure(run, [1]).items()}
    assert figures[THROUGHPUT] == sum(sink["records_in_per_s"])
    assert figures[END_TO_END] == block["end_to_end_ms"]


def test_repetitions_are_compared_too() -> None:
    document = measured_by(Recorded())
    whole = repeated([document, document, document])
    assert [set(run) for run in whole["repetitions"]] == [{"steady", "checkpoints"}] * 2
    assert len(runs_of(whole)) == 3


def test_a_metric_that_comes_later_has_no_value_before() -> None:
    recorded = Recorded()
    (_, sink) = all_vertices(recorded, recorded.job)
    samples = Samples([sink])
    listed = f"/jobs/{recorded.job}/vertices/{sink.id}/subtasks/0/metrics"
    full = recorded.answers[listed]
    recorded.answers[listed] = [
        each for each in full if "debloated" not in each["id"] and "out" not in each["id"]
    ]
    samples.take(recorded, recorded.job, 0.0)
    recorded.answers[listed] = full
    samples.take(recorded, recorded.job, 1.0)
    first, second = samples.series[0]["debloatedBufferSize"][0]
    assert first is None
    assert second is not None


def test_vertices_are_told_by_their_place() -> None:
    recorded = Recorded()
    for vertex, name in zip(
        recorded.answers[f"/jobs/{recorded.job}"]["vertices"], ("Source: v1 -> Filter", "v0"), strict=True
    ):
        vertex["name"] = name
    named = vertices_of(recorded, recorded.job, ["sink", "orders"])
    assert [vertex.name for vertex in named] == ["sink", "orders"]
    assert [vertex.id for vertex in named] == [v.id for v in reversed(all_vertices(recorded, recorded.job))]


def test_a_measurement_stands_beside_the_emulation() -> None:
    scenario = scenario_named("proof")
    result = emulate(scenario)
    document = {key: msgspec.to_builtins(getattr(result, key)) for key in ("steady", "checkpoints")}
    comparison = compared(scenario, document, seeds=1)
    assert comparison.ok
    assert comparison.scenario == "proof"
    assert {row.ratio for row in comparison.rows} == {1.0}


def test_predictions_stand_for_every_scenario_and_policy() -> None:
    of = {(key.scenario, key.policy) for key in _predictions()}
    assert of == {(name, policy) for name in (*KNOWN, *NEW) for policy in POLICIES}
    assert PREDICTIONS.read_text("utf-8").count("\n") == len(_predictions()) + 2


def runs_of_burst(file: Path, *times_ms: float) -> None:
    rows = [
        Measured(Run("2x2_200KBs_on1s", "burst", number), "20-60 s", time_ms, 2 * time_ms, 400.0, 0.1)
        for number, time_ms in enumerate(times_ms, 1)
    ]
    for row in reversed(rows):
        keep([row], file)
    assert measurements(file) == rows


def test_runs_that_are_there_are_read_and_judged(tmp_path: Path) -> None:
    runs_of_burst(tmp_path / "kept.json", 1000.0, 1500.0, 2000.0)
    table = table_of(measurements(tmp_path / "kept.json"))
    key = Key("2x2_200KBs_on1s", "20-60 s", "burst")
    assert list(table) == [key]
    assert table[key] == PolicyFigures((1500.0, 1000.0, 2000.0), 4000.0, 400.0)
    near = tables({key: PolicyFigures((1400, 1390, 1410), 1500, 400)}, table)
    assert "| 2x2_200KBs_on1s |  |  |  |  | 1400 (1390-1410) / 1500 (1000-2000) |" in near
    assert "within 10% or 15 ms: 1 of 1" in near
    far = tables({key: PolicyFigures((1300, 1300, 1300), 1500, 400)}, table)
    assert "within 10% or 15 ms: 0 of 1" in far


def test_a_window_without_checkpoints_has_no_figures() -> None:
    row = Measured(Run("2x2_200KBs_on1s", "burst", 1), "20-60 s", None, None, 400.0, 0.1)
    assert table_of([row]) == {}


def test_a_prediction_and_a_measurement_are_read_in_the_same_way() -> None:
    scenario = scenario_named("proof")
    result = emulate(scenario)
    (row,) = _rows(scenario, 1, {"steady": msgspec.to_builtins(result.steady), "other_cores_used": 0.5})
    (steady_window,) = result.steady
    sink = steady_window.vertices[-1]
    assert row.end_to_end_ms == steady_window.end_to_end_ms
    assert row.records_per_s == pytest.approx(sum(rate or 0.0 for rate in sink.records_in_per_s), abs=0.1)
    assert row.other_cores_used == 0.5


def test_what_is_measured_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")  # without a Java nothing could be measured
    kept = tmp_path / "kept.json"
    runs_of_burst(kept, 1234.0, 1234.0)
    asked = ["policies", "--only", "2x2_200KBs_on1s", "--policies", "burst", "--measurements", str(kept)]
    monkeypatch.setattr(sys, "argv", ["flink", *asked, "--out", str(tmp_path), "--repetitions", "2"])
    assert commands.main() == 0
    assert "/ 1234 (1234-1234)" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["flink", *asked, "--out", str(tmp_path), "--repetitions", "3"])
    assert commands.main() == 1
    assert "there is no java" in capsys.readouterr().err


def test_runs_that_fail_are_left_out_until_the_machine_seems_at_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    monkeypatch.setattr(
        policy_runs, "prepare", lambda release: Software(release, (), Path("jobs.jar"), Path("agent.jar"))
    )
    kept = str(tmp_path / "kept.json")
    asked = ["policies", "--only", "2x2_200KBs_on1s", "--measurements", kept, "--repetitions", "1"]
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        monkeypatch.setattr(sys, "argv", ["flink", *asked, "--port", port])
        assert commands.main() == 1
    said = capsys.readouterr().err
    assert said.count("is left out, to be tried again by the same command: port") == 2
    assert said.splitlines()[-1].startswith(f"tests.flink: port {port}")
    assert "4 of 5" not in said


def test_a_run_without_checkpoints_says_so() -> None:
    block = {"end_to_end_ms": None, "checkpoints": 0}
    assert outcome({"steady": [block, block | {"end_to_end_ms": 9.0, "checkpoints": 1}]}) == "end to end 9 ms"
    assert outcome({"steady": [block]}) == "no checkpoint was completed in time"
