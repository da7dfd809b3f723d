"""Recorded answers of a Flink, in a file that replaces its address."""

from __future__ import annotations

import copy
import gzip
import json
import re
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from integration.cli.app import main
from integration.flink import (
    Answers,
    FlinkRestError,
    Imported,
    Overrides,
    Recorder,
    Recording,
    import_scenario,
)
from integration.flink.http.answers import Refused
from integration.flink.recording import packed, without_the_cluster
from netstack import OPTIONS, scenario_toml
from tests.integration.flink.flink_cluster import NAMES, RECORDINGS, recording, replayed

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "wordcount_off.rest.json.gz"


def file_of(name: str) -> Path:
    return RECORDINGS / f"{name}.json.gz"


def written(document: dict[str, Any], folder: Path) -> Path:
    file = folder / "changed.json"
    file.write_text(json.dumps(document))
    return file


def recorded(answers: Answers, file: Path, given: Overrides | None = None) -> Imported:
    """Import a job, and write the recording."""
    recorder = Recorder(answers)
    imported = import_scenario(recorder, watch_s=7.5, overrides=given)
    file.write_bytes(packed(recorder.document(imported.scenario, imported.measured), file))
    return imported


def shown(imported: Imported) -> tuple[str, dict[str, Any]]:
    """All of an import but where it came from."""
    fields = {name: getattr(imported.measured, name) for name in imported.measured.__struct_fields__}
    return scenario_toml(imported.scenario, imported.notes), fields | {"url": ""}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = time.sleep

    def wait(seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            return sleep(seconds)  # of somebody else, such as Spark
        raise AssertionError(f"waits for {seconds} s")

    monkeypatch.setattr(time, "sleep", wait)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_says_what_the_cluster_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # a cluster that is busy may be asked again after a while
    with replayed(name) as cluster:
        of_cluster = import_scenario(cluster.url, watch_s=7.5, pause=lambda seconds: None)
    for place in (Recording(file_of(name)), file_of(name), str(file_of(name))):
        assert shown(import_scenario(place)) == shown(of_cluster)


@pytest.mark.parametrize("ending", ["json", "json.gz"])
@pytest.mark.parametrize("name", NAMES)
def test_a_recording_of_an_import_gives_the_same_import(name: str, ending: str, tmp_path: Path) -> None:
    file, again = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    imported = recorded(Recording(file_of(name)), file)
    assert shown(recorded(Recording(file), again)) == shown(imported)
    assert file.read_bytes() == again.read_bytes()
    assert (file.read_bytes()[:2] == b"\x1f\x8b") == ending.endswith("gz")


class Ticking(Answers):
    """Answers of a file at the times of a clock that never stands still, as a cluster's come."""

    def __init__(self, file: Path) -> None:
        self._recording = Recording(file)
        self.name = "ticking"
        self._times = (1e6 + 0.37 * tick for tick in count())

    def answer(self, path: str) -> Any | Refused:
        return self._recording.answer(path)

    def pause(self, seconds: float) -> None:
        """The clock goes on by itself."""

    def clock(self) -> float:
        return next(self._times)


def test_times_are_those_of_the_recording_where_tasks_keep_none(tmp_path: Path) -> None:
    document = recording(NAMES[0])
    for path, rounds in document["answers"].items():
        if path.endswith("?get=*"):
            for entries in rounds:
                entries[:] = [entry for entry in entries if not entry["id"].startswith("accumulate")]
    file = tmp_path / "recorded.json"
    given = Overrides(service_s={"stage1": 5e-3})
    imported = recorded(Ticking(written(document, tmp_path)), file, given)
    _, stage = imported.measured.steady.vertices
    assert stage.busy_ms_per_s == [None, None]
    assert stage.records_in_per_s[0]
    assert shown(import_scenario(Recording(file), overrides=given)) == shown(imported)


def test_what_is_refused_stays_so(tmp_path: Path) -> None:
    document = recording(NAMES[0])
    options = "/jobmanager/config"
    del document["answers"][options]
    checkpoints = f"/jobs/{document['job']}/checkpoints"
    del document["answers"][checkpoints]
    document["refused"] = {options: 500}
    file = tmp_path / "recorded.json"
    imported = recorded(Recording(written(document, tmp_path)), file)
    assert any("does not offer" in note and checkpoints in note for note in imported.notes)
    assert Recording(file).answer(options) == Refused(500, f"{options} is not in the recording")
    assert shown(import_scenario(Recording(file))) == shown(imported)


@pytest.mark.parametrize("code", [403, 404, 500])
def test_what_is_refused_of_task_managers_stays_so_without_their_names(code: int, tmp_path: Path) -> None:
    document = json.loads(json.dumps(recording(NAMES[0])).replace("tm1", "secret-7"))
    metrics = "/taskmanagers/{}/metrics?get=*"
    del document["answers"]["/taskmanagers/tm0"]
    document["refused"] = {
        metrics.format("tm0"): code,
        metrics.format("secret-7"): code,
        "/taskmanagers/tm0": 404,
    }
    file = tmp_path / "recorded.json"
    imported = recorded(Recording(written(document, tmp_path)), file)
    kept = json.loads(file.read_text())
    assert "secret" not in file.read_text()
    assert (
        kept["refused"].items()
        >= {
            metrics.format("tm0"): code,
            metrics.format("tm1"): code,
            "/taskmanagers/tm0": 404,
        }.items()
    )
    for manager in ("tm0", "tm1"):
        answer = Recording(file).answer(f"/taskmanagers/{manager}/metrics?get=Status.JVM.CPU.Time")
        assert isinstance(answer, Refused)
        assert answer.code == code
    again = import_scenario(Recording(file), watch_s=7.5)
    assert again.notes == [note.replace("secret-7", "tm1") for note in imported.notes]


def test_a_round_that_failed_stays_one(tmp_path: Path) -> None:
    document = recording(NAMES[0])
    path = next(path for path in document["answers"] if path.endswith("?get=*"))
    document["answers"][path][2] = None
    file = tmp_path / "recorded.json"
    imported = recorded(Recording(written(document, tmp_path)), file)
    kept = json.loads(file.read_text())["answers"][path]
    assert [entries is None for entries in kept[:4]] == [False, False, True, False]
    assert shown(import_scenario(Recording(file))) == shown(imported)


def test_where_the_cluster_is_stays_there(tmp_path: Path) -> None:
    document = recording(NAMES[0])
    answers = document["answers"]
    places = {"tm0": "tm-1.prod.example.org:6122-7f", "tm1": "tm-2.prod.example.org:6122-7e"}
    text = json.dumps(answers)
    for manager, place in places.items():
        text = text.replace(f'"{manager}"', f'"{place}"').replace(
            f"/taskmanagers/{manager}", f"/taskmanagers/{place}"
        )
    answers = document["answers"] = json.loads(text)
    for path in answers:
        if re.search(r"/vertices/\w+$", path):
            for subtask in answers[path]["subtasks"]:
                subtask["endpoint"] = subtask["host"] = "prod.example.org"
    answers["/jobmanager/config"] += [
        {"key": "jobmanager.rpc.address", "value": "prod.example.org"},
        {"key": "execution.checkpointing.dir", "value": "s3://prod.example.org/checkpoints"},
        {"key": "s3.access-key", "value": "prod.example.org"},
    ]
    answers["/jobs/overview"]["jobs"].append(
        {"jid": "0" * 32, "name": "prod.example.org", "state": "FINISHED"}
    )
    file = tmp_path / "recorded.json"
    imported = recorded(Recording(written(document, tmp_path)), file)
    assert "prod.example.org" not in file.read_text()
    plain = import_scenario(Recording(file_of(NAMES[0])))
    assert scenario_toml(import_scenario(Recording(file)).scenario) == scenario_toml(plain.scenario)
    placed = scenario_toml(imported.scenario)
    for manager, place in places.items():
        placed = placed.replace(place, manager)
    assert placed == scenario_toml(plain.scenario)


def test_every_option_that_is_read_is_kept() -> None:
    entries = [{"key": option.name, "value": "1"} for option in OPTIONS.values()]
    kept = without_the_cluster({"/jobmanager/config": entries}, "job")["/jobmanager/config"]
    assert kept == entries


def test_task_managers_are_numbered_whatever_they_are_called() -> None:
    names = [f"tm{number}" for number in range(12)]
    answers = {"/taskmanagers": {"taskmanagers": [{"id": name, "path": "somewhere"} for name in names]}}
    assert without_the_cluster(answers, "job") == {
        "/taskmanagers": {"taskmanagers": [{"id": name} for name in names]}
    }


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "Input data was truncated"),
        (b"\x1f\x8b\x08", "it is incomplete or corrupt"),
        (gzip.compress(b"{}" * 1000, mtime=0)[:-9], "it is incomplete or corrupt"),
        (b'{"answers": {"a":' + b"[" * 100_000, "it is nested more than 32 levels deep"),
        (b'{"answers": {"a":' + b"[" * 600 + b"]" * 600 + b"}}", "it is nested more than 32 levels deep"),
        (b'{"answers": {"a": NaN}}', "NaN at byte 18 is not a number in JSON"),
        (gzip.compress(b"[" + b"[]," * (4 << 20) + b"[]]", mtime=0), "more than 8,388,608 values"),
        (b"[]", "Expected `object`"),
        (b'{"schema": "netstack.result/1"}', "missing required field `answers`"),
        (b'{"answers": {}}', "/config is not among the recorded answers"),
        (b'{"answers": {"/config": {}}}', "/jobs/overview is not among the recorded answers"),
    ],
)
def test_a_file_that_is_no_recording(content: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "recording.json"
    file.write_bytes(content)
    with pytest.raises(
        FlinkRestError, match=f"{file}: is not a recording of a Flink job: .*{re.escape(why)}"
    ):
        Recording(file)


def test_answers_of_another_shape_are_a_clear_error(tmp_path: Path) -> None:
    whole = recording(NAMES[0])
    path = next(path for path in whole["answers"] if path.endswith("?get=*"))
    clear = r"does not answer as Flink's REST API does|too little is known"
    for other in ({}, {"a": 1}, [1], ["text"], [[1]], "text", [[{}]]):
        document = copy.deepcopy(whole)
        document["answers"][path] = other
        with pytest.raises(FlinkRestError, match=clear):
            import_scenario(Recording(written(document, tmp_path)))


class TestCommands:
    def test_import_writes_a_recording_and_reads_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "job.json.gz"
        assert main(["import-flink", str(EXAMPLE), "--recording", str(file)]) == 0
        first = capsys.readouterr()
        assert f"wrote {file}" in first.err.replace("\n", "")
        assert main(["import-flink", str(file)]) == 0
        second = capsys.readouterr().out
        assert second.partition("\n\n")[2] == first.out.partition("\n\n")[2]
        assert len(second) > 500

    def test_diagnose_reads_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["diagnose", "--from-flink", str(EXAMPLE)]) == 0
        shown = capsys.readouterr()
        assert "count limits the throughput: some subtasks are always busy" in shown.out
        assert shown.err == ""  # nothing takes time

    @pytest.mark.parametrize(
        "command",
        [
            ["import-flink"],
            ["validate", "--from-flink"],
            ["tune", "--from-flink"],
            ["diagnose", "--from-flink"],
        ],
    )
    def test_who_asks_does_not_matter_to_a_file(
        self, command: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([*command, str(EXAMPLE), "--user", "ann"]) == 2
        assert capsys.readouterr().err == (
            f"netstack {command[0]}: --ca, --cert, --key, --header, --user and --password-file can be used "
            f"only with the address of a cluster, but {EXAMPLE} is a recording; remove them\n"
        )

    def test_a_place_that_is_neither(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["import-flink", str(tmp_path / "none.json")]) == 2
        assert (
            "none.json: is not an address of Flink's REST API. "
            "Write http://HOST:8081, or name the file of a recording." in (capsys.readouterr().err)
        )

    def test_a_recording_that_cannot_be_written_is_found_out_before(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["import-flink", str(EXAMPLE), "--recording", str(tmp_path)]) == 2
        shown = capsys.readouterr()
        assert (shown.out, shown.err.count("\n")) == ("", 1)


def test_a_subtask_without_a_number_is_not_of_a_flink(tmp_path: Path) -> None:
    document = recording(NAMES[0])

    def spoil(value: Any) -> None:
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            spoil(each)
        if isinstance(value, dict) and "subtask" in value and value["subtask"] == 0:
            value["subtask"] = []

    spoil(document["answers"])
    with pytest.raises(FlinkRestError, match="does not answer as Flink's REST API does"):
        import_scenario(Recording(written(document, tmp_path)))
