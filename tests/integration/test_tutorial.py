"""Pages that show what commands print, followed to the letter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.cli.app import main
from tests.code_in_documents import ROOT, Block, blocks, shell_commands, write_scenarios

pytestmark = pytest.mark.long

PAGE = ROOT / "docs" / "TUTORIAL.md"
OWN_POLICY = ROOT / "docs" / "OWN_POLICY.md"
SLOW = ("demo", "tune")
"""They start Spark; tests of their own run them, on smaller jobs."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the checkout, as far as the page needs it."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    write_scenarios(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def timeless(text: str) -> list[str]:
    """The words of a text, without how long its emulations took."""
    text = re.sub(r"\bin [\d.]+ s\b", "in some time", " ".join(text.split()))
    return re.sub(r"\([\d,]+/s\)", "(a rate)", text).split()


def sections(document: Path) -> Iterator[tuple[Block, Block | None]]:
    """Each block of commands, with the block below that shows what its last one prints, if there is one."""
    page = [block for block in blocks(document) if block.language in ("sh", "text")]
    for place, block in enumerate(page):
        if block.language == "sh":
            after = page[place + 1] if place + 1 < len(page) else None
            yield block, after if after is not None and after.language == "text" else None


def type_in(words: list[str], file: str | None, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command, with its output in a file if there is one; return what it prints."""
    status = main(words[1:])
    printed = capsys.readouterr().out
    assert status == 0, words
    if file is not None:
        Path(file).write_text(printed, "utf-8")
    return printed


def appears(shown: list[str], printed: list[str]) -> bool:
    """Whether some words stand in others, in one piece."""
    places = range(len(printed) - len(shown) + 1)
    return any(printed[place : place + len(shown)] == shown for place in places)


def test_every_command_prints_what_is_shown_below_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compared = 0
    for block, below in sections(PAGE):
        printed = ""
        for words, file in shell_commands(block):
            if words[0] != "netstack" or words[1] in SLOW:
                break
            if words[1] == "diagnose" and (result := folder / "my-job.json").exists():
                quick = json.loads(result.read_text("utf-8")) | {
                    "wall_seconds": 0.4
                }  # so that advice is tried out
                result.write_text(json.dumps(quick), "utf-8")
            printed = type_in(words, file, capsys)
        else:
            if below is not None:
                assert appears(timeless(below.text), timeless(printed)), below.text
                compared += 1
    assert compared == 5
    assert 'name = "wordcount"' in (folder / "wordcount.toml").read_text("utf-8")


def test_the_run_of_a_policy_prints_what_is_shown_below_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    compared = 0
    for block, below in sections(OWN_POLICY):
        for words, file in shell_commands(block):
            printed = type_in(words, file, capsys)
            assert below is not None
            assert appears(timeless(below.text), timeless(printed)), below.text
            compared += 1
    assert compared == 1
