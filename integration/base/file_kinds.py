"""Recognition of files by their content: scenarios, results, recordings, measurements, configurations."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from enum import StrEnum
from pathlib import Path

import msgspec

from .errors import FileError
from .reading import LARGEST_CONFIGURATION, LARGEST_RECORDING, begins_json, read_user_file, unpacked


class FileKind(StrEnum):
    """Kinds of files that commands accept. The value is the name in messages."""

    SCENARIO = "a scenario"
    RESULT = "a result of netstack run"
    RECORDING = "a recording of Flink's REST API"
    CHECKPOINTS = "a folder of checkpoints"
    CONFIGURATION = "a Flink configuration file"
    MEASUREMENT = "a measurement of a real Flink"


_RESULT = b'"netstack.result/'
_FLINK_MANIFESTS = (b'"FlinkDeployment"', b'"FlinkSessionJob"', b'"ConfigMap"', b'"List"')

_TOML, _YAML = re.compile(rb"""\[|[\w.'"-]+[ \t]*="""), re.compile(rb"""---|[\w.'"-]+[ \t]*:(?:\s|$)""")
"""Patterns for the first line of TOML and of a YAML mapping, after blank lines and comments."""

_OF_SCENARIO = re.compile(rb"^[ \t]*(?:\[\[[ \t]*vertices|vertices[ \t]*=|duration[ \t]*=)", re.MULTILINE)
"""Pattern of a line that every scenario in TOML has."""

_OF_CONFIGURATION = re.compile(
    rb"""^[ \t]*(?:kind:[ \t]*(?:Flink\w+|ConfigMap)\b|["']?(?:"""
    rb"env|execution|fs|heartbeat|high-availability|jobmanager|kubernetes|metrics|parallelism|pipeline|rest|"
    rb"""restart-strategy|security|state|table|taskmanager|web)(?:\.[\w.-]+)?["']?[ \t]*:(?:\s|$))""",
    re.MULTILINE,
)
"""Pattern of a YAML line that starts a Flink option, or names the kind of a Kubernetes manifest."""

_CHECKPOINT = re.compile(r"chk-[0-9]+|savepoint-.*|_metadata")


class _Head(msgspec.Struct):
    """The values of a JSON document that identify its kind, not decoded; empty if absent."""

    schema: msgspec.Raw = msgspec.Raw()
    answers: msgspec.Raw = msgspec.Raw()
    vertices: msgspec.Raw = msgspec.Raw()
    scenario: msgspec.Raw = msgspec.Raw()
    steady: msgspec.Raw = msgspec.Raw()
    kind: msgspec.Raw = msgspec.Raw()


def kind_of(path: Path) -> FileKind | None:
    """Return the kind of a file or folder; None if it is unknown, or the file cannot be read.

    A file may still have mistakes: the reader of its kind reports them.
    """
    if path.is_dir():
        is_checkpoint = any(_CHECKPOINT.fullmatch(inner.name) for inner in path.iterdir())
        return FileKind.CHECKPOINTS if is_checkpoint else None
    try:
        content = unpacked(read_user_file(path, LARGEST_RECORDING), LARGEST_RECORDING)
    except (FileError, ValueError):
        return None
    if begins_json(content):
        return _kind_of_json(content)
    if len(content) > LARGEST_CONFIGURATION:
        return None
    lines = map(bytes.strip, content.removeprefix(BOM_UTF8).splitlines())
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    if _TOML.match(first) and _OF_SCENARIO.search(content):
        return FileKind.SCENARIO
    is_configuration = _YAML.match(first) and _OF_CONFIGURATION.search(content)
    return FileKind.CONFIGURATION if is_configuration else None


def _kind_of_json(content: bytes) -> FileKind | None:
    try:
        head = msgspec.json.decode(content.removeprefix(BOM_UTF8), type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if head.answers:
        return FileKind.RECORDING
    if bytes(head.schema).startswith(_RESULT):
        return FileKind.RESULT
    if head.steady and not head.schema and not head.vertices:
        return FileKind.MEASUREMENT
    if bytes(head.vertices).startswith(b"[") or begins_json(bytes(head.scenario)):
        return FileKind.SCENARIO
    return FileKind.CONFIGURATION if bytes(head.kind) in _FLINK_MANIFESTS else None
