"""Right checkpoints, as trees of their metadata and the files that these name, for the fuzzer to spoil."""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from buffers import RecordBlock
from integration.storage import RocksStores
from netstack import (
    CheckpointMetadata,
    Redistribution,
    StateHandle,
    StateKind,
    StoredFile,
    SubtaskSnapshot,
)
from netstack.state.changelog import Changelog, Operation
from netstack.state.keyed_state import KeyedStateBackend
from netstack.state.operator_state import OperatorStateBackend
from netstack.state.snapshots import StateFormat
from netstack.state.table_backend import TableSettings, TableStateBackend
from netstack.state.time_to_live import StateClock, StateTtlConfig

JOB = "job"
"""The name of the job; `source`, `count` and `sink` are its vertices."""

EXCHANGES = (("source", "count", "hash"), ("count", "sink", "rebalance"))


class Stored(NamedTuple):
    """A checkpoint: the tree of its metadata, and its files by path."""

    tree: dict[str, Any]
    files: Mapping[str, bytes]


class _Writer:
    """Keeps files as a storage would."""

    def __init__(self, prefix: str, owner: str) -> None:
        self.files: dict[str, bytes] = {}
        self._prefix = prefix
        self._owner = owner

    def __call__(self, name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
        path = f"{self._prefix}{self._owner}-{name}"
        self.files[path] = data
        return StoredFile(path=path, size=len(data), checksum=hashlib.sha256(data).hexdigest(), shared=False)


def _fill(backend: KeyedStateBackend) -> None:
    """Give a backend some state of each kind."""
    value, values, entries = backend.value("seen"), backend.list("values"), backend.map("by word")
    expiring = backend.value("last", ttl=StateTtlConfig(60.0))
    groups = backend.key_groups
    for number in range(12):
        backend.set_current_key(f"key {number}", groups.start + number % len(groups))
        value.update(number)
        values.add((number, "x"))
        values.add(None)
        entries.put("word", {"n": number})
        entries.put(number, b"\xff")
        expiring.update([number])


def _operators() -> OperatorStateBackend:
    backend = OperatorStateBackend()
    backend.put("mine", [1, "two", (3, 4)])
    backend.put("everybody's", [[1, {"a": None}]], Redistribution.UNION)
    backend.broadcast("rules")["k"] = 1
    return backend


def _log(groups: tuple[int, int]) -> StateHandle:
    log = Changelog()
    state = log.state("value", "seen")
    other = log.state("list", "values")
    key = groups[0].to_bytes(2) + b"\xa1k"
    log.append(Operation.PUT, state, key, 5)
    log.append(Operation.APPEND, other, key, [1, 2])
    log.append(Operation.REMOVE, state, key)
    data = log.since(0).data
    return StateHandle(
        kind=StateKind.KEYED,
        name="changelog",
        format=StateFormat.LOG,
        size=len(data),
        inline=data,
        key_groups=groups,
    )


def _channel(kind: StateKind, exchange: int, channel: int) -> StateHandle:
    data = RecordBlock.from_payloads([b"\0\0\0\x05record", b"\0\0\0\x07other"]).data.tobytes()
    return StateHandle(kind=kind, exchange=exchange, channel=channel, size=len(data), inline=data)


def _stored(
    prefix: str, inline_up_to: int, *, tables: RocksStores | None, log: bool, unaligned: bool
) -> Stored:
    snapshots, files = [], {}
    for subtask, groups in enumerate((range(64), range(64, 128))):
        write = _Writer(prefix, f"count-{subtask}")
        clock = StateClock(lambda: 1.0)
        backend: KeyedStateBackend
        if tables is None:
            backend = KeyedStateBackend(groups, 128, {}, clock)
        else:
            backend = TableStateBackend(f"count-{subtask}", groups, 128, {}, TableSettings(tables), clock)
        _fill(backend)
        handles = list(backend.snapshot().handles(write, inline_up_to))
        handles += _operators().snapshot().handles(write, inline_up_to)
        if log:
            handles.append(_log((groups.start, groups.stop - 1)))
        if unaligned:
            handles += [_channel(StateKind.INPUT_CHANNEL, 0, 0), _channel(StateKind.OUTPUT_CHANNEL, 0, 0)]
        snapshots.append(SubtaskSnapshot(vertex="count", subtask=subtask, handles=tuple(handles)))
        files |= write.files
        backend.close()
    metadata = CheckpointMetadata(
        checkpoint_id=17,
        job=JOB,
        checkpoint_type="UNALIGNED_CHECKPOINT" if unaligned else "CHECKPOINT",
        triggered_at=51.0,
        completed_at=51.25,
        parallelism={"source": 1, "count": 2, "sink": 1},
        subtasks=(*snapshots, _source()),
        exchanges=EXCHANGES,
        max_parallelism={"count": 128},
    )
    return Stored(json.loads(msgspec.json.encode(metadata)), files)


def _source() -> SubtaskSnapshot:
    backend = OperatorStateBackend()
    backend.put("source position", [1000])
    handles = backend.snapshot().handles(_Writer("", "source-0"), 1 << 20)
    return SubtaskSnapshot(vertex="source", subtask=0, handles=tuple(handles))


@cache
def checkpoints() -> Sequence[Stored]:
    """Checkpoints with state in files, in the metadata, in a log, in tables, and with data in flight."""
    with tempfile.TemporaryDirectory(prefix="netstack-fuzz-") as folder:
        stores = RocksStores(Path(folder))
        found = [
            _stored("chk-17/", 0, tables=None, log=False, unaligned=False),
            _stored("chk-17/", 1 << 20, tables=None, log=True, unaligned=True),
            _stored("chk-17/", 1 << 20, tables=None, log=False, unaligned=True),
            _stored("chk-17/", 300, tables=stores, log=False, unaligned=False),
        ]
        stores.close()
    return found


def metadata_trees() -> list[dict[str, Any]]:
    """The metadata of these."""
    return [stored.tree for stored in checkpoints()]


def resealed(tree: Any, files: Mapping[str, bytes]) -> None:
    """Set the sizes and checksums in a tree, as far as there are any, to those of the files."""
    for handle in _handles(tree):
        file = handle.get("file")
        if isinstance(file, dict) and file.get("path") in files:
            data = files[file["path"]]
            file |= {"size": len(data), "checksum": hashlib.sha256(data).hexdigest()}


def inlined(handle: Mapping[str, Any]) -> bytes | None:
    """The bytes that a handle in a tree holds itself, if it does."""
    inline = handle.get("inline")
    return base64.b64decode(inline) if isinstance(inline, str) else None


def with_inline(handle: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    """A handle in a tree with other bytes."""
    return {**handle, "inline": base64.b64encode(data).decode(), "size": len(data)}


def _handles(tree: Any) -> list[dict[str, Any]]:
    found = []
    subtasks = tree.get("subtasks") if isinstance(tree, dict) else None
    for snapshot in subtasks if isinstance(subtasks, list) else ():
        handles = snapshot.get("handles") if isinstance(snapshot, dict) else None
        found += [each for each in handles if isinstance(each, dict)] if isinstance(handles, list) else []
    return found
