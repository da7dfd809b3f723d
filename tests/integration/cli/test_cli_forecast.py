"""``netstack forecast`` and ``--load``, from a file to what is printed and written."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from integration.base.reading import load_scenario
from integration.cli.app import main
from netstack import scenario_toml
from tests.integration.advise.tune.paced_job import JOB, UNLIMITED


@pytest.fixture
def job(tmp_path: Path) -> str:
    """The file of a job with a limit at 1.6 times its load."""
    file = tmp_path / "paced.toml"
    file.write_text(scenario_toml(JOB), "utf-8")
    return str(file)


def test_it_says_how_much_the_job_can_take(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["forecast", job, "--restart", "20s", "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"work is the first to reach its limit, at 1\.(5[5-9]|6)", lines[0])
    assert any(line.startswith("Down 20 s: caught up after 3") for line in lines)
    assert any(line.split()[1:2] == ["limit"] for line in lines)
    assert max(map(len, lines)) <= 80
    document = json.loads((out / "forecast.json").read_bytes())
    assert document["curves"][0]["headroom"]["bottleneck"]["vertex"] == "work"
    assert (out / "report.html").stat().st_size > 0
    drill = load_scenario(out / "restart.toml")
    assert [fault.kind for fault in drill.faults] == ["outage"], "for run and lab"


def test_a_diagnosis_has_a_line_on_headroom(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", job]) == 0
    assert re.search(
        r"^work is the first to reach its limit, at 1\.(5[5-9]|6)", capsys.readouterr().out, re.M
    )
    assert main(["diagnose", job, "--load", "1.2"]) == 0
    assert re.search(r"^work is the first to reach its limit, at 1\.3", capsys.readouterr().out, re.M)


def test_a_run_may_have_another_load(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", job, "--load", "1.2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["scenario"]["vertices"][0]["source"]["rate"] == [300.0]


@pytest.mark.parametrize("command", ["run", "diagnose", "tune", "forecast"])
def test_a_load_of_0_is_refused(command: str, job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, job, "--load", "0"]) == 2
    assert f"netstack {command}: --load: is 0; it must be a number above 0" in capsys.readouterr().err


def test_a_drill_needs_a_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "unlimited.toml"
    file.write_text(scenario_toml(UNLIMITED), "utf-8")
    assert main(["forecast", str(file), "--restart", "20s"]) == 2
    assert "emits as fast as possible, so nothing arrives" in capsys.readouterr().err
    assert main(["forecast", str(file), "--restart", "20"]) == 2
    assert "--restart" in capsys.readouterr().err


def test_tune_compares_settings_at_the_limit_and_at_todays_load(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", job, "--target", "300ms", "--only", "debloating", "--seeds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Set the debloat target to 300 ms: at the limit, checkpoints take ")
    assert any(re.match(r"At the limit, 1\.(5[5-9]|6)\d? times today's load", line) for line in lines)
    (heads,) = (line for line in lines if line.startswith("setting"))
    assert heads.split()[-1] == "today"
    assert max(map(len, lines)) <= 80


def test_a_stored_result_chooses_no_code_that_a_diagnosis_imports(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs that look for the limit would import the policy that the file names."""
    assert main(["run", job, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    document["scenario"] |= {"policy": "stored_policy:Policy"}
    document["scenario"]["flink"] |= {"taskmanager.network.memory.buffer-debloat.enabled": True}
    (tmp_path / "result.json").write_text(json.dumps(document), "utf-8")
    (tmp_path / "stored_policy.py").write_text("raise SystemExit('imported')", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["diagnose", str(tmp_path / "result.json")]) == 0
    assert "times today's load" not in capsys.readouterr().out
    assert "stored_policy" not in sys.modules


def test_a_diagnosis_of_a_large_job_names_the_command_that_finds_its_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large = replace(
        JOB,
        duration_s=3.0,
        warmup_s=1.0,
        vertices=tuple(replace(vertex, parallelism=45) for vertex in JOB.vertices),
    )
    (tmp_path / "large.toml").write_text(scenario_toml(large), "utf-8")
    assert main(["diagnose", str(tmp_path / "large.toml")]) == 0
    assert "`netstack forecast` finds its limit" in " ".join(capsys.readouterr().out.split())
