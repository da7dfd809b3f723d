"""The job of docs/TUTORIAL.md does what the page shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from integration.cli.app import main

TEXT = (Path(__file__).parents[2] / "docs" / "TUTORIAL.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "my-job.toml"
    file.write_text(blocks("toml")[0], "utf-8")
    return file


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_the_run_and_its_diagnosis(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(job)]) == 0
    shown = blocks("text")[0].splitlines()
    assert printed(capsys)[3 : len(shown)] == shown[3:]  # after how long it took
    assert main(["run", str(job), "--json"]) == 0
    result = tmp_path / "my-job.json"
    document = json.loads(capsys.readouterr().out)
    result.write_text(json.dumps(document | {"wall_seconds": 0.4}), "utf-8")  # so that advice is tried out
    assert main(["diagnose", str(result)]) == 0
    shown = timeless(blocks("text")[1])
    assert timeless(capsys.readouterr().out)[: len(shown)] == shown


def timeless(text: str) -> list[str]:
    """The words of a text, without how long its emulations took."""
    return re.sub(r"emulated in [\d.]+ s", "emulated", " ".join(text.split())).split()


def test_the_sizes(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", str(job), "--round-trip", "1 ms"]) == 0
    shown = blocks("text")[2].splitlines()
    assert printed(capsys)[: len(shown)] == shown
