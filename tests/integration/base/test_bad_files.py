"""Commands that read a file, with files that are bad in every way: one line, status 2, nothing written."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.cli.app import main

SCENARIO = Path("docs/examples/two_sources.toml")
RECORDING = "docs/examples/wordcount_off.rest.json.gz"
LONGEST_LINE = 1000
"""Characters of the line that says what is wrong; paths of tests are long."""

COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "run": lambda path: ["run", path],
    "run --from-checkpoint": lambda path: ["run", str(SCENARIO), "--from-checkpoint", path],
    "run --from-savepoint": lambda path: ["run", str(SCENARIO), "--from-savepoint", path],
    "compare": lambda path: ["compare", path, path],
    "size": lambda path: ["size", path],
    "tune": lambda path: ["tune", path],
    "tune --from-flink": lambda path: ["tune", "--from-flink", path],
    "lint": lambda path: ["lint", path],
    "diagnose": lambda path: ["diagnose", path],
    "import-flink": lambda path: ["import-flink", path],
    "validate": lambda path: ["validate", "--from-flink", path],
    "verify": lambda path: ["verify", path, "--from-flink", RECORDING],
    "checkpoints": lambda path: ["checkpoints", path],
    "state": lambda path: ["state", path],
}

TAKES_FOLDERS = {
    "compare",
    "checkpoints",
    "state",
    "run --from-checkpoint",
    "run --from-savepoint",
}


def missing(path: Path) -> None:
    pass


def empty(path: Path) -> None:
    path.touch()


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 16)


def cut(path: Path) -> None:
    path.write_bytes(SCENARIO.read_bytes()[:700])


def another_format(path: Path) -> None:
    path.write_text('{"schema": "somebody.else/7", "vertices": 3}', "utf-8")


def a_list(path: Path) -> None:
    path.write_text("[1, 2, 3]", "utf-8")


def deep(path: Path) -> None:
    path.write_text("[" * 100_000 + "]" * 100_000, "utf-8")


def packed(path: Path) -> None:
    path.write_bytes(gzip.compress(b"{" * 5_000_000))


def broken_pack(path: Path) -> None:
    path.write_bytes(gzip.compress(b'{"a": 1}' * 1000)[:-20])


def wide_characters(path: Path) -> None:
    path.write_bytes('name = "x"\n'.encode("utf-16"))


def in_a_circle(path: Path) -> None:
    path.symlink_to(path)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def huge_numbers(path: Path) -> None:
    path.write_text('name = "x"\nduration = 1e999\nseed = 99999999999999999999999999\n', "utf-8")


KINDS = (
    missing,
    empty,
    binary,
    cut,
    another_format,
    a_list,
    deep,
    packed,
    broken_pack,
    wide_characters,
    in_a_circle,
    a_pipe,
    huge_numbers,
)


FINE = {("lint", empty), ("lint", another_format)}
"""An empty configuration, and one of options that Flink does not know, which is said in the findings."""

TRIALS = [(command, kind) for command in COMMANDS for kind in KINDS if (command, kind) not in FINE]


@pytest.mark.parametrize(("command", "kind"), TRIALS, ids=lambda each: getattr(each, "__name__", each))
def test_a_bad_file_is_one_line(
    command: str, kind: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "input.toml"
    kind(path)
    before = sorted(tmp_path.rglob("*"))
    status = main(COMMANDS[command](str(path)))
    printed = capsys.readouterr()
    lines = printed.err.strip().splitlines()
    assert status == 2, printed
    assert printed.out == ""
    assert lines, "nothing is said"
    assert "input.toml" in printed.err, printed.err
    assert all(len(line) < LONGEST_LINE for line in lines)
    assert "Traceback" not in printed.err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - TAKES_FOLDERS))
def test_a_folder_in_place_of_a_file_is_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "input.toml"
    folder.mkdir()
    assert main(COMMANDS[command](str(folder))) == 2
    assert "input.toml" in capsys.readouterr().err
    assert list(tmp_path.rglob("*")) == [folder]
