"""TOML and JSON to documents, within bounds that what a person or `netstack` writes never meets.

A few hundred bytes can keep a reader busy for hours, or end it with a traceback: brackets within brackets,
names of ten thousand parts, numbers of ten thousand digits. Each is refused with one line.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netstack import ScenarioError

from .user_files import LARGEST_CONFIGURATION, LARGEST_RESULT, read_user_file, read_user_text

DEEPEST = 32
"""Tables and lists within each other; a scenario has five."""

_WHOLE = range(-(1 << 63), 1 << 63)
"""TOML's whole numbers."""

_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*'""")
_END_OF_KEY = re.compile(r"[ \t]*[=\]]")


def toml_document(file: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ScenarioError: it cannot be read, is no TOML, or goes too deep.
    """
    text = read_user_text(file, LARGEST_CONFIGURATION, "a scenario is a TOML file")
    if _has_long_name(text):
        raise _too_deep(file)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _too_deep(file) from None
    except ValueError as error:  # a TOMLDecodeError, or a number with too many digits
        raise ScenarioError([f"{file}: is not valid TOML: {one_line(error)}"]) from None


def json_document(file: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
        ScenarioError: it cannot be read, is no JSON, goes too deep, or is no object.
    """
    try:
        document = json.loads(read_user_file(file, LARGEST_RESULT))
    except RecursionError:
        raise _too_deep(file) from None
    except ValueError as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError([f"{file}: is not valid JSON: {one_line(error)}"]) from None
    if not isinstance(document, dict):
        raise ScenarioError([f"{file}: holds no object; it must begin with {{"])
    return document


def check_bounds(document: Mapping[str, object], file: Path) -> None:
    """Refuse a document that goes too deep, or has numbers of more than 64 bits.

    Raises:
        ScenarioError: it does.
    """
    level: list[object] = [document]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if any(isinstance(value, int) and value not in _WHOLE for value in level):
            raise ScenarioError([f"{file}: has a whole number of more than 64 bits"])
    if level:
        raise _too_deep(file)


def one_line(error: Exception) -> str:
    """Return what an error says, on one line."""
    return " ".join(str(error).split())


def _has_long_name(text: str) -> bool:
    """Whether what may be a name has more parts than tables may be deep; `tomllib` takes their square."""
    parts = end = 0
    for part in _PART.finditer(text):
        is_joined = parts and text[end : part.start()].strip(" \t") == "."
        parts, end = parts + 1 if is_joined else 1, part.end()
        if parts > DEEPEST and _END_OF_KEY.match(text, end):
            return True
    return False


def _inside(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


def _too_deep(file: Path) -> ScenarioError:
    return ScenarioError([f"{file}: is nested too deeply; tables and lists go {DEEPEST} deep at most"])
