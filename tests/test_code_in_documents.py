"""Code in the documents runs, and prints the text below it; commands and files in them exist."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from cyclopts import App

from integration import load_scenario
from integration.cli.app import app
from tests.code_in_documents import (
    DOCUMENTS,
    PART,
    ROOT,
    blocks,
    commands,
    name_of,
    parts,
    programs,
    run,
    write_scenarios,
)

ELSEWHERE = {"docs/RECOVERY.md", "docs/SHUFFLE.md"}
"""Those whose Python needs Spark (tests/integration/test_code_of_spark.py)."""

LANGUAGES = {"", "json", "python", "sh", "text", "toml", "yaml", "{eval-rst}"}
WITH_PYTHON = [
    document for document in DOCUMENTS if programs(document) and name_of(document) not in ELSEWHERE
]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a reader: it contains the examples, and the files that the page writes."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("document", WITH_PYTHON, ids=name_of)
def test_the_python_of_a_document_prints_what_it_says(document: Path, folder: Path) -> None:
    write_scenarios(document, folder)
    for printed, said in run(document, {}):
        assert printed == said


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_blocks_of_a_document_are_in_a_known_language(document: Path, folder: Path) -> None:
    for file in write_scenarios(document, folder):
        assert load_scenario(file).name == file.stem
    for block in blocks(document):
        assert block.language in LANGUAGES
        if block.language == "json":
            assert isinstance(json.loads(block.text), dict)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_the_commands_of_a_document_exist_with_their_options(document: Path) -> None:
    wrong = [" ".join(words) for words in commands(document) if not _exists(words)]
    assert wrong == []


def _exists(words: list[str]) -> bool:
    match words:
        case ["make", target, *_]:
            return target in TARGETS
        case ["python", "-m", module, *_]:
            return find_spec(module) is not None
        case ["python", file, *_]:
            return (ROOT / file).is_file()
        case ["netstack", *arguments]:
            return _is_understood(arguments)
    return False


def _is_understood(arguments: list[str]) -> bool:
    """Whether the command line has a command with these options, and takes them if they are all there are."""
    if arguments[0] in ("--help", "--version", "--install-completion", "COMMAND", "..."):
        return True
    if arguments[-1] == "...":
        options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
        return arguments[0] in app and options <= _options(app[arguments[0]])
    app.parse_args(arguments, print_error=False, exit_on_error=False)
    return True


def _options(command: App) -> set[str]:
    names = (name for argument in command.assemble_argument_collection() for name in argument.names)
    return {"--help", *names}


def test_a_part_of_a_file_is_what_stands_there() -> None:
    shown = [part for document in DOCUMENTS for part in parts(document)]
    for text, file in shown:
        lines = [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]
        assert all(line.strip() in lines for line in text.splitlines() if line.strip())
    assert shown != []


def test_few_blocks_are_marked_as_not_run() -> None:
    every = [block.note for document in DOCUMENTS for block in blocks(document) if block.note]
    notes = [note for note in every if not note.startswith(PART)]
    assert all(note.startswith("not run by the tests: ") for note in notes)
    assert len(notes) <= 8
