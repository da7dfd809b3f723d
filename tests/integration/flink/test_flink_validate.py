"""Predictions for imported jobs beside what the jobs showed, and the commands that make them."""

import dataclasses
import json
import tomllib

import pytest

from integration.cli.app import main
from integration.flink import FlinkRestError, Recording, import_scenario, validate
from integration.runs.quantities import (
    ALIGNMENT,
    BUFFER_SIZE,
    END_TO_END,
    SLOW_TENTH,
    START_DELAY,
    THROUGHPUT,
)
from integration.runs.seeds import run_seeds
from netstack import InputError, emulate, read_scenario, scenario_document
from tests.integration.flink.flink_cluster import NAMES, RECORDINGS, replayed

pytestmark = pytest.mark.long

ON1S, ON1S_OF_1X, DEPTH2 = NAMES
SHORTER = {"duration_s": 34.0, "warmup_s": 16.0}


def imported_from(name):
    with replayed(name) as cluster:
        return import_scenario(cluster.url, watch_s=7.5, pause=lambda seconds: None)


def shortened(imported):
    return dataclasses.replace(imported, scenario=dataclasses.replace(imported.scenario, **SHORTER))


def ratios(found):
    return {(row.vertex, row.quantity): row.ratio for row in found.comparison.rows}


def test_a_job_without_debloating_is_predicted_within_the_tolerance():
    imported = shortened(imported_from(DEPTH2))
    found = validate(imported, run_seeds([imported.scenario], 2)[0])
    assert found.ok, found.comparison
    shown = ratios(found)
    for vertex in ("stage1", "stage2"):
        assert shown[vertex, THROUGHPUT] == pytest.approx(1, abs=0.02)
        assert shown[vertex, START_DELAY] == pytest.approx(1, abs=0.05)
    assert shown["", END_TO_END] == pytest.approx(1, abs=0.05)
    assert (found.flink, found.schema) == ("2.2.1", "netstack.validation/1")
    durations = [checkpoint.duration_ms for checkpoint in imported.measured.checkpoints]
    (row,) = [row for row in found.comparison.rows if row.quantity == END_TO_END]
    assert (row.flink.least, row.flink.most) == (min(durations), max(durations))
    assert row.flink.least < row.flink.median < row.flink.most


@pytest.mark.parametrize("name", [ON1S, ON1S_OF_1X])
def test_a_job_with_debloating_is_predicted_within_a_quarter(name):
    """Its checkpoints follow one another without a pause, so its delays drift by a fifth between runs."""
    imported = shortened(imported_from(name))
    found = validate(imported, run_seeds([imported.scenario], 3)[0])
    shown = ratios(found)
    assert shown["stage1", THROUGHPUT] == pytest.approx(1, abs=0.02)
    for subject in (("", END_TO_END), ("stage1", START_DELAY)):
        assert shown[subject] == pytest.approx(1, abs=0.25)
    assert shown["stage1", BUFFER_SIZE] == pytest.approx(1, abs=0.35)
    assert ("stage1", ALIGNMENT) in shown
    assert any(note.startswith("Checkpoints take") for note in found.notes)


def test_of_a_job_whose_cost_alternates_the_slowest_checkpoints_are_predicted_too():
    imported = import_scenario(RECORDINGS / "changing/flink-2.3.0_alternates_off.json.gz")
    found = validate(imported, [emulate(imported.scenario)])
    shown = ratios(found)
    assert shown["work", THROUGHPUT] == pytest.approx(1, abs=0.03)
    assert shown["", END_TO_END] == pytest.approx(1, abs=0.15)
    assert shown["", SLOW_TENTH] == pytest.approx(1, abs=0.3)
    (row,) = [row for row in found.comparison.rows if row.quantity == SLOW_TENTH]
    assert row.flink.median > 1.3 * imported.measured.steady.end_to_end_ms


def test_what_the_job_shows_does_not_depend_on_when_it_was_read():
    imported = shortened(imported_from(DEPTH2))
    results = [emulate(dataclasses.replace(imported.scenario, duration_s=24.0))]
    early = dataclasses.replace(imported.scenario, duration_s=24.0)
    told = imported.measured
    later = dataclasses.replace(imported, scenario=early)
    shifted = [
        type(one)(**{name: getattr(one, name) for name in one.__struct_fields__} | {"t": one.t + 9999})
        for one in told.checkpoints
    ]
    moved = type(told)(
        **{name: getattr(told, name) for name in told.__struct_fields__} | {"checkpoints": shifted}
    )
    assert (
        validate(later, results).comparison
        == validate(dataclasses.replace(later, measured=moved), results).comparison
    )


def test_a_result_of_another_job_is_refused():
    imported, other = shortened(imported_from(ON1S)), shortened(imported_from(DEPTH2))
    with pytest.raises(InputError, match="the jobs differ"):
        validate(imported, [emulate(dataclasses.replace(other.scenario, duration_s=34.0))])


class TestCommands:
    def test_import_flink_prints_a_scenario_that_loads(self, capsys):
        with replayed(ON1S) as cluster:
            assert main(["import-flink", cluster.url, "--watch", "0 s"]) == 0
        told = capsys.readouterr()
        scenario = read_scenario(tomllib.loads(told.out))
        assert [vertex.name for vertex in scenario.vertices] == ["source", "stage1"]
        assert f"# Read from {cluster.url}, Flink 2.2.1, job {cluster.job}" in told.out
        _, assumptions = told.err.split("\nAssumptions\n")
        assert "\n  Latency between task managers is not reported; assuming loopback." in assumptions

    def test_import_flink_writes_files_and_json(self, capsys, tmp_path):
        with replayed(ON1S) as cluster:
            arguments = ["import-flink", cluster.url, "--watch", "0 s", "--json", "--out", str(tmp_path)]
            assert main(arguments) == 0
        document = json.loads(capsys.readouterr().out)
        assert document == json.loads((tmp_path / "flinklab.json").read_bytes())
        assert document["measured"]["steady"]["vertices"][1]["name"] == "stage1"
        assert read_scenario(document["scenario"]) == read_scenario(
            tomllib.loads((tmp_path / "flinklab.toml").read_text())
        )

    def test_import_flink_takes_what_a_user_knows_better(self, capsys):
        with replayed(ON1S) as cluster:
            options = ["--record-bytes", "500", "--service", "stage1:7 ms", "--latency", "1 ms"]
            options += ["--set", "execution.checkpointing.interval=10 s", "--watch", "0 s"]
            assert main(["import-flink", cluster.url, *options]) == 0
        scenario = read_scenario(tomllib.loads(capsys.readouterr().out))
        assert scenario.vertices[0].source.record_bytes == 500
        assert scenario.vertices[1].service == ((0.0, 0.007),)
        assert (scenario.link.latency_s, scenario.config.checkpoint_interval_s) == (0.001, 10)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--service", "stage1:7"], "--service 7: '7' has no unit"),
            (["--record-bytes", "1 kb"], "--record-bytes 1 kb: '1 kb' is not a whole number"),
            (["--record-bytes", "\u00b2"], "--record-bytes \u00b2: '\u00b2' is not a whole number"),
            (["--rate", "source:fast"], "--rate fast: 'fast' is not a number"),
            (["--set", "heartbeat.timeout"], "--set heartbeat.timeout: has no value"),
            (["--watch", "soon"], "--watch soon: 'soon' is not a number with a unit"),
            (["--latency=-1 ms"], "--latency -1 ms: '-1 ms' is negative"),
        ],
    )
    def test_a_mistake_is_one_line(self, capsys, options, message):
        assert main(["import-flink", "http://127.0.0.1:1", *options]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith(f"netstack import-flink: {message}")
        assert told.err.count("\n") == 1

    @pytest.mark.parametrize("command", [["import-flink"], ["validate", "--from-flink"]])
    def test_an_unreachable_cluster_is_one_line(self, capsys, command):
        assert main([*command, "http://127.0.0.1:1"]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith("http://127.0.0.1:1: cannot be reached: Connection refused")
        assert told.err.count("\n") == 1

    def test_validate_prints_prediction_measurement_and_ratio(self, capsys, tmp_path, monkeypatch):
        monkeypatch.setattr("integration.flink.fit.fit_scenario.WARMUP_S", 4.0)
        monkeypatch.setattr("integration.flink.fit.fit_scenario._LEAST_WINDOW_S", 8.0)
        with replayed(ON1S) as cluster:
            options = ["--watch", "0 s", "--seeds", "1", "--out", str(tmp_path)]
            options += ["--recording", str(tmp_path / "job.json.gz")]
            status = main(["validate", "--from-flink", cluster.url, *options])
        told = capsys.readouterr()
        document = json.loads((tmp_path / "validation.json").read_bytes())
        assert status == (0 if document["ok"] else 1)
        assert f"job {cluster.job}, Flink 2.2.1" in told.out
        throughput = next(row for row in document["comparison"]["rows"] if row["quantity"] == THROUGHPUT)
        assert throughput["ratio"] == pytest.approx(1, abs=0.05)
        assert f"{throughput['ratio']:.2f}" in told.out
        assert max(map(len, told.out.splitlines())) <= 80
        again = import_scenario(Recording(tmp_path / "job.json.gz"))
        assert scenario_document(again.scenario) == document["scenario"] | {"seed": again.scenario.seed}
        page = (tmp_path / "report.html").read_text()
        assert page.count('class="vertex"') == len(document["scenario"]["vertices"]) == 2
        assert 'aria-label="from source to stage1: rebalance"' in page
        assert "Flink: in" in page
        assert "ours: in" in page
        assert page.count("<td>ok</td>") == sum(
            row["why"] == "tolerance" for row in document["comparison"]["rows"]
        )

    def test_validate_wants_a_seed(self, capsys):
        assert main(["validate", "--from-flink", "http://127.0.0.1:1", "--seeds", "0"]) == 2
        assert "; it must be at least 1" in capsys.readouterr().err


def test_a_job_that_shows_nothing_cannot_be_compared_with():
    imported = shortened(imported_from(DEPTH2))
    nothing = imported.measured
    steady = type(nothing.steady)(
        from_s=0,
        to_s=1,
        checkpoints=0,
        vertices=[
            type(vertex)(name=vertex.name, parallelism=vertex.parallelism)
            for vertex in nothing.steady.vertices
        ],
    )
    told = type(nothing)(url="http://x", job="j", job_name="n", flink="2.2.1", steady=steady)
    short = dataclasses.replace(imported.scenario, duration_s=20.0, warmup_s=16.0)
    with pytest.raises(
        FlinkRestError, match=" shows neither rates nor checkpoints, so there is nothing to compare"
    ):
        validate(dataclasses.replace(imported, measured=told, scenario=short), [emulate(short)])
