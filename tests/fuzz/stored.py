"""Valid checkpoints of real jobs, as trees of their metadata and of the files that these name."""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from integration.storage import DirectoryStorage, table_stores
from netstack import (
    CollectionSource,
    Edge,
    KeyedStateBackend,
    NetworkConfig,
    OperatorContext,
    Redistribution,
    Scenario,
    SourceObject,
    StateBackendType,
    Vertex,
    emulate,
)
from netstack.state.time_to_live import StateTtlConfig
from tests.integration.storage.test_state_contents import LINES, Words

FOLDER = "chk-1"
"""The folder of the checkpoints, relative to their directories."""

_WAYS: Sequence[dict[str, Any]] = (
    {"state_memory_threshold_bytes": 0},
    {"unaligned_enabled": True, "changelog_enabled": True, "materialize_interval_s": 1.0},
    {"unaligned_enabled": True},
    {"state_backend": StateBackendType.ROCKSDB, "incremental_checkpoints": True},
)


class Stored(NamedTuple):
    """A checkpoint: the tree of its metadata, and its files by path."""

    tree: dict[str, Any]
    files: Mapping[str, bytes]


class _EveryKind(Words):
    """Keeps state of every kind."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        context.operator.put("mine", [1, "two", (3, 4)])
        context.operator.put("everybody's", [[1, {"a": None}]], Redistribution.UNION)
        context.operator.broadcast("rules")["k"] = 1

    def declare(self, state: KeyedStateBackend) -> None:
        super().declare(state)
        self._last = state.value("last", ttl=StateTtlConfig(60.0))

    def process_record(self, record: bytes) -> Sequence[bytes]:
        self._last.update([record])
        super().process_record(record)
        return [record]


def job(config: Mapping[str, Any]) -> Scenario:
    """A job whose second task is slow, so that data is in flight before it."""
    return Scenario(
        name="job",
        duration_s=5.0,
        config=NetworkConfig(**config),
        manual_checkpoints_s=(0.5,),
        vertices=(
            Vertex(name="source", source=SourceObject(source=CollectionSource([LINES[:60]]), rates=(100.0,))),
            Vertex(
                name="count", parallelism=2, operator=lambda subtask: _EveryKind(), service=((0.0, 0.05),)
            ),
            Vertex(name="sink"),
        ),
        edges=(Edge(source="source", target="count", ship="hash"), Edge(source="count", target="sink")),
    )


@cache
def checkpoints() -> Sequence[Stored]:
    """Checkpoints with state in files, in a log, in the metadata, and in tables; some with data in flight."""
    return [_checkpoint(job(config)) for config in _WAYS]


def _checkpoint(scenario: Scenario) -> Stored:
    with tempfile.TemporaryDirectory() as folder, table_stores(scenario) as tables:
        root = Path(folder)
        emulate(scenario, storage=DirectoryStorage(root), tables=tables)
        files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    _, body = files[f"{FOLDER}/_metadata"].split(b"\n", 1)
    tree = json.loads(body)
    named = {file["path"] for handle in handles_of(tree) if (file := handle.get("file"))}
    return Stored(tree, {path: data for path, data in files.items() if path in named})


def resealed(tree: Any, files: Mapping[str, bytes]) -> None:
    """Set the sizes and checksums in a tree to those of the files, where the tree has any."""
    for handle in handles_of(tree):
        file = handle.get("file")
        if isinstance(file, dict) and file.get("path") in files:
            data = files[file["path"]]
            file |= {"size": len(data), "checksum": hashlib.sha256(data).hexdigest()}


def inlined(handle: Mapping[str, Any]) -> bytes | None:
    """Return the bytes in a handle of a tree, if it has any."""
    inline = handle.get("inline")
    return base64.b64decode(inline) if isinstance(inline, str) else None


def handles_of(tree: Any) -> list[dict[str, Any]]:
    """Return the handles of a tree that may be damaged."""
    found = []
    subtasks = tree.get("subtasks") if isinstance(tree, dict) else None
    for snapshot in subtasks if isinstance(subtasks, list) else ():
        handles = snapshot.get("handles") if isinstance(snapshot, dict) else None
        found += [each for each in handles if isinstance(each, dict)] if isinstance(handles, list) else []
    return found
