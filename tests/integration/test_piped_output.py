"""What commands write where nobody looks on: the result alone, and no spaces at the ends of lines."""

import json
from pathlib import Path

import pytest

from integration.cli.app import main

ROOT = Path(__file__).parents[2]
JOB = str(ROOT / "tests/data/flink-reference/2x2_200KBs_on1s.toml")
MEASURED = str(ROOT / "tests/data/flink-reference/2x2_200KBs_on1s.json")
RECORDED = str(ROOT / "docs/examples/wordcount_off.rest.json.gz")
PROGRESS = ("\x1b", "\r", " left", "watching", "━")
"""What belongs on stderr, or on a terminal."""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("result")
    assert main(["run", JOB, "--out", str(folder)]) == 0
    return str(folder / "2x2_200KBs_on1s.json")


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("flink") / "config.yaml"
    file.write_text("taskmanager.network.memory.buffer-debloat.enable: true\n", "utf-8")
    return str(file)


TEXTS = {
    "run": ["run", JOB],
    "size": ["size", JOB],
    "size of numbers": ["size", "--throughput", "10 MB/s"],
    "diagnose": ["diagnose", "RESULT"],
    "compare with Flink": ["compare", "RESULT", MEASURED],
    "compare two": ["compare", "RESULT", "RESULT"],
    "import": ["import-flink", RECORDED],
    "validate": ["validate", "--from-flink", RECORDED, "--seeds", "1"],
    "lint": ["lint", "OPTIONS"],
    "storm": ["storm", "--seeds", "2"],
    "bench": ["bench", "--list"],
    "help": ["--help"],
    "help of a command": ["lab", "--help"],
    "version": ["--version"],
}
DOCUMENTS = ["run", "size", "diagnose", "compare with Flink", "compare two", "import", "validate", "lint"]


def printed(arguments: list[str], files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main([files.get(argument, argument) for argument in arguments]) in (0, 1)
    return capsys.readouterr().out


@pytest.mark.parametrize("command", TEXTS)
def test_a_text_is_the_result_and_nothing_else(
    command: str, result: str, options: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(TEXTS[command], {"RESULT": result, "OPTIONS": options}, capsys)
    lines = text.splitlines()
    assert lines
    assert [line for line in lines if line != line.rstrip()] == []
    assert [word for word in PROGRESS if word in text] == []
    assert text.endswith("\n")


@pytest.mark.parametrize("command", DOCUMENTS)
def test_a_document_is_one_line_of_json(
    command: str, result: str, options: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed([*TEXTS[command], "--json"], {"RESULT": result, "OPTIONS": options}, capsys)
    assert isinstance(json.loads(text), dict | list)
    assert text.count("\n") == 1
