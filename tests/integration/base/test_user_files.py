"""Files that a user names and that would keep a reader busy, or waiting, for ever."""

import os
from pathlib import Path

import pytest

from integration.base.reading import (
    DEEPEST,
    load_json,
    load_result,
    load_scenario,
    read_user_file,
    toml_document,
)
from integration.cli.app import main
from netstack import InputError

COMMANDS = (["run"], ["size"], ["tune"], ["lint"], ["diagnose"], ["compare"])


def of_kind(kind: str, folder: Path) -> Path:
    path = folder / "input.toml"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        return Path("/dev/zero")
    return path


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        *((command, kind) for command in COMMANDS for kind in ("a pipe", "a device")),
        *((command, "a folder") for command in COMMANDS[:-1]),  # compare takes folders
    ],
)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, capsys, command, kind):
    path = of_kind(kind, tmp_path)
    paths = [str(path), str(path)] if command == ["compare"] else [str(path)]
    assert main([*command, *paths]) == 2
    printed = capsys.readouterr()
    assert printed.err == f"{path}: is {kind}; give a regular file\n"
    assert printed.out == ""


def test_as_many_bytes_as_may_be_are_read_and_not_one_more(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(bytes(1 << 20))
    assert len(read_user_file(path, 1 << 20)) == 1 << 20
    path.write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(InputError, match="x: is larger than 1 MiB, the limit for such files"):
        read_user_file(path, 1 << 20)


def test_a_name_that_no_file_has():
    with pytest.raises(InputError, match="is not a valid file name"):
        read_user_file(Path("a\0b"), 1)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "{a = " * 100_000,
        "a = " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
        "a." * 100_000 + "a = 1",
        f"[{'a.' * 100_000}a]",
        "a = 1\n" + '"a" . ' * 100_000 + "a = 1",
        "'a'." * 100_000 + "a = 1",
    ],
    ids=lambda text: text[:10],
)
def test_scenarios_that_go_too_deep(tmp_path, capsys, text):
    path = tmp_path / "deep.toml"
    path.write_text(text)
    assert main(["run", str(path)]) == 2
    printed = capsys.readouterr().err
    assert printed == f"{path}: is nested too deeply; tables and lists may be nested {DEEPEST} levels deep\n"


def test_dots_in_texts_are_no_names_of_many_parts(tmp_path):
    path = tmp_path / "dots.toml"
    many = "a." * 100
    path.write_text(f"a = \"{many}\"\nb = [{'1.5, ' * 100}]\nc = '{many}' # {many}\nd = ['{many}']\n")
    assert toml_document(path)["c"] == "a." * 100


@pytest.mark.parametrize("load", [load_scenario, load_json, load_result])
@pytest.mark.parametrize("text", ['{"scenario": ' + '{"a": ' * 100_000, '{"schema": ' + "[" * 100_000])
def test_json_that_goes_too_deep(tmp_path, load, text):
    path = tmp_path / "deep.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"deep\.json: is n"):
        load(path)


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, str(1 << 63)])
def test_numbers_that_are_too_long(tmp_path, number):
    path = tmp_path / "long.toml"
    path.write_text(f"seed = {number}\n")
    with pytest.raises(InputError) as caught:
        load_scenario(path)
    (problem,) = caught.value.problems
    assert len(problem) < 400


def test_a_value_without_end_is_shown_in_part(tmp_path):
    path = tmp_path / "long.toml"
    path.write_text(f'duration = [{"1, " * 10_000}]\n[[vertices]]\nname = "{"x" * 10_000}"\n')
    with pytest.raises(InputError) as caught:
        load_scenario(path)
    assert all(len(problem) < 1000 for problem in caught.value.problems)
    assert "a time such as" in caught.value.problems[0]
