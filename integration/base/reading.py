"""Reading of a user's files, completely and within limits: bytes, text, documents, scenarios, results.

Input that may never end or never begin (a device, a pipe without a writer) is rejected before a byte is read.
A file that is too large for its kind is rejected too. A few hundred bytes of TOML or JSON can keep a reader
busy for hours, or crash it: nested brackets, names of ten thousand parts, numbers of ten thousand digits.
Each of these is rejected with a message of one line.
"""

from __future__ import annotations

import codecs
import dataclasses
import gzip
import io
import json
import os
import re
import stat
import sys
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from netstack import InputError, PathSpec, Result, Scenario, ScenarioError, Vertex, from_json, read_scenario

from .errors import FileError

LARGEST_CONFIGURATION = 1 << 20
"""Maximum bytes of a file that a user writes: a scenario, options. Kubernetes has the same limit."""

LARGEST_RESULT = 64 << 20
"""Maximum bytes of a file that a program writes. Results of long runs have some megabytes."""

LARGEST_RECORDING = 256 << 20
"""Maximum bytes of a recording, decompressed. A thousand subtasks have some sixty million."""

STDIN = Path("/dev/stdin")
"""The name of standard input. Its content can be read more than once."""

NO_RESULT = "is not a JSON result of netstack run"

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

DEEPEST = 32
"""Maximum nesting of tables and lists. A scenario has five levels."""

_WHOLE = range(-(1 << 63), 1 << 63)
"""Range of whole numbers in TOML."""

_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*'""")

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a surrogate pair in JSON, which is no character by itself."""

_BLANK = 1000
"""Maximum number of blank bytes before a text begins."""

_END_OF_KEY = re.compile(r"[ \t]*[=\]]")


_stdin: tuple[object, bytes] = (None, b"")
"""The stream that was read as standard input, and its content."""


def read_user_file(file: Path, largest: int) -> bytes:
    """Return the content of a file or of standard input, at most `largest` bytes.

    Raises:
        FileError: the file is missing, unreadable, not regular, or larger. The message is one line.
    """
    content = _read_stdin() if file == STDIN else _read_regular(file, largest)
    if len(content) > largest:
        raise FileError([f"{file}: is larger than {largest >> 20} MiB, the limit for such files"])
    return content


def _read_stdin() -> bytes:
    global _stdin
    if sys.stdin is None:
        raise FileError([f"{STDIN}: is closed, so nothing can be read from it"])
    if _stdin[0] is not sys.stdin:
        _stdin = sys.stdin, sys.stdin.buffer.read(LARGEST_RECORDING + 1)
    return _stdin[1]


def _read_regular(file: Path, largest: int) -> bytes:
    """Return the content of a regular file; if the file is too large, the first `largest` + 1 bytes."""
    try:
        # O_NONBLOCK, because opening a pipe waits until another process writes to the pipe.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _require_regular(file, os.fstat(descriptor).st_mode)
            with os.fdopen(descriptor, "rb", closefd=False) as opened:
                return opened.read(largest + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise FileError([f"{file}: there is no such file"]) from None
    except OSError as error:
        raise FileError([f"{file}: cannot be read: {error.strerror}"]) from None
    except FileError:
        raise
    except ValueError:  # the name has a character that file names cannot have
        raise FileError([f"{file}: is not a valid file name"]) from None


def read_user_text(file: Path, largest: int, right: str) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark; `right` describes a correct file.

    Raises:
        FileError: as `read_user_file`, or the text is not UTF-8.
    """
    try:
        return read_user_file(file, largest).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError([f"{file}: is not text in UTF-8; {right}"]) from None


def unpacked(content: bytes, largest: int) -> bytes:
    """Return the content, decompressed if it is in gzip format.

    Raises:
        ValueError: the content is damaged, or has more than `largest` bytes when decompressed.
    """
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as unpacking:
            inner = unpacking.read(largest + 1)
    except (OSError, EOFError, zlib.error):
        raise ValueError("it is incomplete or corrupt") from None
    if len(inner) > largest:
        raise ValueError(f"unpacked, it is larger than {largest >> 20} MiB")
    return inner


def begins_json(content: bytes) -> bool:
    """Return whether a text begins like a JSON object, as no TOML and hardly any YAML does."""
    return content[:_BLANK].removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"{"


def _require_regular(file: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    raise FileError([f"{file}: is {kind}; give a regular file"])


def toml_document(file: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        FileError: the file cannot be read, is not TOML, or is nested too deeply.
    """
    text = read_user_text(file, LARGEST_CONFIGURATION, "a scenario is a TOML file")
    if _has_long_name(text):
        raise _too_deep(file)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _too_deep(file) from None
    except ValueError as error:  # a TOMLDecodeError, or a number with too many digits
        raise FileError([f"{file}: is not valid TOML: {one_line(error)}"]) from None


def json_document(file: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
        FileError: the file cannot be read, is not JSON, is nested too deeply, or is not an object.
    """
    content = read_user_file(file, LARGEST_RESULT)
    try:
        text = content.decode(json.detect_encoding(content))
        document = json.loads(text, parse_constant=_no_constant)
        if _HALF.search(text):
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise _too_deep(file) from None
    except ValueError as error:
        raise FileError([f"{file}: is not valid JSON: {one_line(error)}"]) from None
    if not isinstance(document, dict):
        raise FileError([f"{file}: is not a JSON object; it must begin with {{"])
    return document


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def check_bounds(document: Mapping[str, object], file: Path) -> None:
    """Reject a document that is nested too deeply, or has numbers of more than 64 bits.

    Raises:
        FileError: the document is nested too deeply, or has such a number.
    """
    for level in levels_within(document):
        if any(isinstance(value, int) and value not in _WHOLE for value in level):
            raise FileError([f"{file}: contains a whole number that does not fit into 64 bits"])
    if level:
        raise _too_deep(file)


def levels_within(value: object) -> Iterator[list[object]]:
    """Yield the values within a document's tables and lists, level by level.

    There are always `DEEPEST` levels, the last ones empty. If the last level is not empty, the document is
    nested too deeply.
    """
    level: list[object] = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        yield level


def one_line(text: object) -> str:
    """Return a text, or the message of an error, as one line."""
    return " ".join(str(text).split())


def _has_long_name(text: str) -> bool:
    """Whether a dotted name may have more than `DEEPEST` parts, for which `tomllib` needs quadratic time."""
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
    return ScenarioError(
        [f"{file}: is nested too deeply; tables and lists may be nested {DEEPEST} levels deep"]
    )


def load_scenario(
    path: str | Path,
    *,
    policy: str | None = None,
    allow_code: bool = False,
    notices: list[str] | None = None,
) -> Scenario:
    """Read a scenario from a TOML file, or from a JSON file with a scenario or a result.

    A source's relative path is resolved against the file's folder first, then the working directory. `policy`
    replaces the file's policy. If the file names a policy as "package.module:Class", this code is imported,
    and thereby run, only with `allow_code`, because the file may come from anywhere. The list `notices` gets
    a line for each value that may not mean what its author expects, as in `read_scenario`.

    Raises:
        FileError: with a line for each mistake: file, key, what is wrong, what would be right.
    """
    file = Path(path)
    is_json = file.suffix == ".json" or begins_json(read_user_file(file, LARGEST_RESULT))
    document = json_document(file) if is_json else toml_document(file)
    if is_json and isinstance(document.get("scenario"), Mapping):
        document = document["scenario"]
    check_bounds(document, file)
    if policy is not None:
        document = {**document, "policy": policy}
    elif not allow_code:
        _refuse_code(document, file)
    try:
        scenario = read_scenario(document, name=file.stem, notices=notices)
    except ScenarioError as error:
        problems = [f"{file}: {problem}" for problem in error.problems]
        if policy is not None:  # the policy is from the caller, not from the file
            problems = [problem.replace(f"{file}: policy:", "`policy`:", 1) for problem in problems]
        raise ScenarioError(problems) from None
    vertices = tuple(_with_path_beside(vertex, file.parent) for vertex in scenario.vertices)
    return dataclasses.replace(scenario, vertices=vertices)


def _refuse_code(document: Mapping[str, Any], file: Path) -> None:
    policy = document.get("policy")
    if isinstance(policy, str) and ":" in policy:
        raise FileError(
            [
                f"{file}: policy: {policy!r} is code, and a file must not run code by itself; "
                "give `allow_code` if you trust the file"
            ]
        )


def load_result(path: str | Path) -> Result:
    """Read a result document.

    Raises:
        FileError: the file is missing or is not a result.
    """
    file = Path(path)
    try:
        return from_json(read_user_file(file, LARGEST_RESULT))
    except RecursionError:
        raise FileError([f"{file}: {NO_RESULT}: it is nested too deeply"]) from None
    except InputError:
        raise
    except ValueError as error:
        raise FileError([f"{file}: {NO_RESULT}: {one_line(error)}"]) from None


def load_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
        FileError: the file is missing, not JSON, or not an object.
    """
    return json_document(Path(path))


def _with_path_beside(vertex: Vertex, folder: Path) -> Vertex:
    source = vertex.source
    if not isinstance(source, PathSpec) or not (folder / source.path).exists():
        return vertex
    return dataclasses.replace(vertex, source=dataclasses.replace(source, path=str(folder / source.path)))
