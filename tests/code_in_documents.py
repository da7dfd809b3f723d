"""Blocks of code in the documents, and the commands in these and in the text."""

from __future__ import annotations

import re
import shlex
import tomllib
from code import InteractiveConsole
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

PART = "part of "
"""How the note of a block begins whose lines are those of a file."""

NO_FILES: Mapping[str, Path] = MappingProxyType({})

_FENCE = re.compile(r"^(?:<!-- (.*) -->\n)?```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_INLINE = re.compile(r"`((?:netstack|make) [^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code; `note` is the comment before it, which readers do not see."""

    language: str
    text: str
    note: str


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(document: Path) -> list[Block]:
    fences = _FENCE.finditer(document.read_text("utf-8"))
    return [Block(language=fence[2], text=fence[3], note=fence[1] or "") for fence in fences]


def programs(document: Path) -> list[tuple[str, str | None]]:
    """The Python of a document, block by block, each with the output that stands behind it, if one does."""
    following = [*blocks(document), Block("", "", "")]
    return [
        (block.text, after.text if after.language == "text" else None)
        for block, after in pairwise(following)
        if block.language == "python" and not block.note.startswith(PART)
    ]


def parts(document: Path) -> list[tuple[str, Path]]:
    """The blocks of a document that show a part of a file, and which."""
    return [
        (block.text, ROOT / block.note.removeprefix(PART))
        for block in blocks(document)
        if block.note.startswith(PART)
    ]


def write_scenarios(document: Path, folder: Path) -> list[Path]:
    """Write the scenarios of a document to files by their names, as its reader does."""
    files = []
    for block in blocks(document):
        if block.language == "toml":
            files.append(folder / f"{tomllib.loads(block.text)['name']}.toml")
            files[-1].write_text(block.text, "utf-8")
    return files


def run(document: Path, names: dict[str, Any], files: Mapping[str, Path] = NO_FILES) -> list[tuple[str, str]]:
    """Paste the Python of a document into a prompt, block by block.

    `files`: paths of files that other processes read or write, by their names in the document. Returns for
    each block the text that it prints, and the text that the document shows below it.
    """
    printed = []
    console = InteractiveConsole(names)
    for text, output in programs(document):
        for name, path in files.items():
            text = text.replace(f'"{name}"', repr(str(path)))
        with redirect_stdout(StringIO()) as shown, redirect_stderr(StringIO()) as mistakes:
            for line in [*text.splitlines(), ""]:
                console.push(line)
        assert not re.search("Traceback|SyntaxError", mistakes.getvalue()), mistakes.getvalue()
        printed.append((shown.getvalue(), output or shown.getvalue()))
    return printed


def commands(document: Path) -> Iterator[list[str]]:
    """The words of each command of ours that a document has; "..." behind them: some arguments are left out.

    Those are all in the text, and those in blocks for a shell that say so.
    """
    text = document.read_text("utf-8")
    for block in blocks(document):
        if block.language not in ("text", "python", "toml", "json", "yaml"):
            yield from filter(None, map(_whole, block.text.splitlines()))
    yield from ([*_words(inline.replace("...", "")), "..."] for inline in _INLINE.findall(text))


def _whole(line: str) -> list[str]:
    words = _words(line)
    return [*(word for word in words if word != "..."), "..."] if "..." in words else words


def shell_commands(block: Block) -> Iterator[tuple[list[str], str | None]]:
    """The words of each command of ours in a block, and the file that its output goes to, if it does."""
    for line in block.text.splitlines():
        if words := _words(line):
            _, arrow, file = line.partition(" > ")
            yield words, file.strip() if arrow else None


def _words(line: str) -> list[str]:
    """The words of a command, up to where it is redirected; none where the line is something else."""
    line = line.strip().removeprefix("$ ").removeprefix(".venv/bin/")
    if not re.match(r"(netstack|make|python|python -m) [\w-]", line):
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=">|")
    lexer.whitespace_split = True
    words = list(lexer)
    ends = [place for place, word in enumerate(words) if set(word) <= set(">|")]
    return words[: min(ends, default=len(words))]
