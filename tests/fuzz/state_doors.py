"""Doors of stored state: values, tables of entries, logs of changes, files of RocksDB, metadata.

Valid checkpoints are trees of their metadata and of the files that these name; the fuzzer mutates the
trees.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
from msgspec.msgpack import Ext

from buffers import RecordBlock
from integration.storage import RocksStores
from integration.storage.rocksdb import RocksStore
from integration.storage.rocksdb_edits import family_of, normalised, normalised_size
from netstack import (
    CheckpointMetadata,
    Redistribution,
    StateError,
    StateHandle,
    StateKind,
    StorageError,
    StoredFile,
    SubtaskSnapshot,
    TableOptions,
)
from netstack.checkpoints.metadata_encoding import checksum, decode_metadata, encode_metadata
from netstack.state.changelog import Changelog, Operation, changes_in, restore_logged
from netstack.state.keyed_state import KeyedStateBackend, decode_table, encode_table
from netstack.state.operator_state import OperatorStateBackend
from netstack.state.snapshots import StateFormat
from netstack.state.state_kinds import entry_key
from netstack.state.table_backend import TableSettings, TableStateBackend
from netstack.state.time_to_live import StateClock, StateTtlConfig
from netstack.state.value_encoding import decode_value, encode_value

from .door import Arguments, Door, refused
from .mutation import as_json, mutated, spoilt, words_in

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


GROUPS = range(128)
KINDS = ("value", "list", "map", "reducing", "aggregating")
_WRONG_KINDS = ("", "set", "map with time-to-live ", "\0")


def draw_state_value(random: Random, depth: int = 0) -> Any:
    """A value that state may have."""
    kind = random.randrange(9 if depth < 4 else 5)
    if kind < 5:
        numbers = (0, 1, -1, 255, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, random.getrandbits(16))
        floats = (0.0, -0.0, 1.5, 1e308, float("inf"), float("nan"))
        texts = ("", "a", "\u20ac", "\U0001f600", "x" * 40)
        return random.choice((None, True, *numbers, *floats, *texts, b"", b"\xff\0", random.randbytes(8)))
    size = random.choice((0, 1, 1, 2, 3))
    values = [draw_state_value(random, depth + 1) for _ in range(size)]
    if kind == 5:
        return values
    if kind == 6:
        return tuple(values)
    keys = [random.choice((0, 1, "a", b"k", None, 2.5, True)) for _ in range(size)]
    if kind == 8:
        return {(key, number): value for number, (key, value) in enumerate(zip(keys, values, strict=True))}
    return dict(zip(keys, values, strict=True))


_ODD_VALUES = [
    msgspec.msgpack.encode(Ext(1, msgspec.msgpack.encode(5))),
    msgspec.msgpack.encode(Ext(2, msgspec.msgpack.encode([[1], 2, 3]))),
    msgspec.msgpack.encode(Ext(2, msgspec.msgpack.encode({1: 2}))),
    msgspec.msgpack.encode(Ext(9, b"")),
    bytes.fromhex("d6ff00000000"),
    b"\x91" * 5000 + b"\xc0",
    b"\xc7\x02\x01\x91" * 400,
    b"\xdf\xff\xff\xff\xff",
    b"\xdd\xff\xff\xff\xff\xc0",
    b"\xc6\xff\xff\xff\xff",
]


def draw_encoded(random: Random) -> bytes:
    """The bytes of a value, or ones that come near."""
    if random.random() < 0.1:
        return random.choice(_ODD_VALUES)
    return encode_value(draw_state_value(random))


def values(random: Random) -> Iterator[Arguments]:
    """Bytes of values, most with something wrong."""
    while True:
        data = draw_encoded(random)
        kind = random.random()
        if kind < 0.2:
            inner = msgspec.Raw(data)
            data = msgspec.msgpack.encode(
                Ext(random.choice((1, 2, 3, -1)), msgspec.msgpack.encode([inner, 1]))
            )
        yield (data if kind > 0.85 else spoilt(random, data),)


def check_value(data: bytes) -> bool:
    """What is read can be stored again, and is then read as the same."""
    try:
        value = decode_value(data)
    except StateError as error:
        return refused(error)
    again = encode_value(value)
    assert encode_value(decode_value(again)) == again
    return True


def draw_key(random: Random, kind: str) -> bytes:
    """A key of a table, now and then one of another kind of state or of a key group that there is not."""
    group = random.choice((0, 0, 1, 5, 127, 128, 65535))
    key = group.to_bytes(2) + encode_value(random.choice((0, 1, "a", b"k", (1, 2))))
    if random.random() < 0.05:
        return draw_encoded(random)
    return entry_key(key, encode_value(random.randrange(4))) if kind.startswith("map") else key


def draw_kind(random: Random) -> str:
    """The kind of a state, with or without a time-to-live; seldom one that there is not."""
    if random.random() < 0.03:
        return random.choice(_WRONG_KINDS)
    return random.choice(KINDS) + random.choice(("", "", " with time-to-live"))


def draw_table(random: Random) -> bytes:
    """A table of entries; some have values that such state does not have."""
    kind = draw_kind(random)
    entries = sorted(
        {draw_key(random, kind): draw_of_kind(random, kind) for _ in range(random.randrange(1, 5))}.items()
    )
    table = encode_table(kind, entries)
    assert table is not None
    if random.random() < 0.1:
        flat: list[Any] = [draw_state_value(random) for _ in range(random.randrange(5))]
        return msgspec.msgpack.encode((1, kind, [msgspec.Raw(encode_value(each)) for each in flat]))
    return table


def draw_of_kind(random: Random, kind: str) -> bytes:
    """The bytes of a value that state of a kind may have, or seldom of another."""
    if random.random() < 0.1:
        return draw_encoded(random)
    value: Any = draw_state_value(random)
    timed = kind.endswith("time-to-live")
    if kind.startswith("list"):
        return encode_value([[each, 5] if timed else each for each in (value, 1)])
    return encode_value([value, 1000] if timed else value)


def tables(random: Random) -> Iterator[Arguments]:
    """Tables of keyed state, each before a log of changes of the same states."""
    while True:
        table, log = draw_table(random), draw_log(random)
        kind = random.random()
        if kind < 0.4:
            table = spoilt(random, table)
        elif kind < 0.8:
            log = spoilt(random, log)
        yield table, log


def draw_log(random: Random) -> bytes:
    """A log of changes of two states."""
    log = Changelog()
    kinds = [draw_kind(random) for _ in range(2)]
    for number, kind in enumerate(kinds):
        log.state(kind, f"s{number}")
    for _ in range(random.randrange(6)):
        state = random.randrange(2)
        operation = random.choice(list(Operation))
        value = draw_state_value(random)
        if operation is Operation.APPEND and random.random() < 0.8:
            value = [value]
        log.append(operation, state, draw_key(random, kinds[state]), value)
    return log.since(0).data


def check_table(table: bytes, log: bytes) -> bool:
    """What is restored of a table and a log can be walked through, stored and restored once more as it is."""
    handles = [
        _handle("s0", table, StateFormat.CANONICAL),
        _handle("changelog", log, StateFormat.LOG),
    ]
    backend = KeyedStateBackend(GROUPS, len(GROUPS))
    try:
        restore_logged(backend, handles, _inline)
    except StateError as error:
        return refused(error)
    stored = backend.snapshot().handles(_unwritable, 1 << 30)
    other = KeyedStateBackend(GROUPS, len(GROUPS))
    other.restore(stored, _inline)
    assert [handle.inline for handle in other.snapshot().handles(_unwritable, 1 << 30)] == [
        handle.inline for handle in stored
    ]
    return True


def _handle(name: str, data: bytes, layout: StateFormat) -> StateHandle:
    return StateHandle(kind=StateKind.KEYED, name=name, size=len(data), inline=data, format=layout)


def _inline(handle: StateHandle) -> bytes:
    assert handle.inline is not None
    return handle.inline


def _unwritable(name: str, data: bytes, /, *, shared: bool = False) -> Any:
    raise AssertionError("everything fits into the handles")


def check_entries(data: bytes) -> bool:
    """The bytes of a table come to entries that make the same table, or are refused."""
    try:
        kind, entries = decode_table(data)
    except StateError as error:
        return refused(error)
    again = encode_table(kind, ((key, encode_value(value)) for key, value in entries))
    assert again is None or decode_table(again)[0] == kind
    return True


def check_log(data: bytes) -> bool:
    """The bytes of a log come to changes, or are refused."""
    try:
        for change in changes_in(data):
            encode_value(change.value)
    except StateError as error:
        return refused(error)
    return True


@cache
def table_files() -> Sequence[bytes]:
    """Table files of RocksDB with few entries and with some hundred."""
    found = []
    with tempfile.TemporaryDirectory(prefix="netstack-fuzz-") as folder:
        store = RocksStore(Path(folder) / "store", TableOptions())
        for name, count in (("a", 1), ("b", 300), ("c" * 300, 3)):
            family = store.family(name)
            for number in range(count):
                family.put(number.to_bytes(2) + encode_value(number), encode_value(f"value {number}"))
        store.flush()
        found = [file.read() for file in store.view().files]
        store.close()
    return found


def sst_files(random: Random) -> Iterator[Arguments]:
    """Table files of RocksDB, spoilt where they say of themselves what they are, or anywhere."""
    while True:
        data = random.choice(table_files())
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            tail = max(0, len(data) - random.choice((53, 400, 1500)))
            data = (
                data[:tail] + spoilt(random, data[tail:]) if random.random() < 0.9 else spoilt(random, data)
            )
            if random.random() < 0.8:  # else it is refused by its end
                data = data[:-8] + bytes.fromhex("f7cff485b741e288")
        yield (data,)


def check_sst(data: bytes) -> bool:
    """A table file says whose it is, and is not changed where that does not matter, or is refused."""
    try:
        family = family_of(data)
        plain = normalised(data)
    except StateError as error:
        return refused(error)
    assert len(plain) == normalised_size(data)
    assert data not in table_files() or (family_of(plain), normalised(plain)) == (family, plain)
    return True


def metadata(random: Random) -> Iterator[Arguments]:
    """Metadata of checkpoints under right headers, or, seldom, under wrong ones."""
    trees = metadata_trees()
    words = words_in(*trees)
    while True:
        tree: Any = random.choice(trees)
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            tree = mutated(random, tree, words)
        body = as_json(random, tree, 0.1) + b"\n"
        header = {"schema": "netstack.checkpoint/2", "size": len(body), "sha256": checksum(body)}
        if random.random() < 0.05:
            header = mutated(random, header, words)
        yield (as_json(random, header, 0.02) + b"\n" + body,)


def check_metadata(data: bytes) -> bool:
    """Metadata is the same when it is written and read again, or is refused."""
    try:
        decoded = decode_metadata(data)
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        return refused(StorageError(str(error)))  # as every storage says it
    assert decode_metadata(encode_metadata(decoded)) == decoded
    return True


def entries(random: Random) -> Iterator[Arguments]:
    """Tables by themselves."""
    while True:
        data = draw_table(random)
        yield (data if random.random() < 0.2 else spoilt(random, data),)


def logs(random: Random) -> Iterator[Arguments]:
    """Logs by themselves."""
    while True:
        data = draw_log(random)
        yield (data if random.random() < 0.2 else spoilt(random, data),)


DOORS = [
    Door("value", values, check_value, 20_000, 16),
    Door("entries", entries, check_entries, 8_000, 5),
    Door("log", logs, check_log, 8_000, 5),
    Door("table", tables, check_table, 4_000, 2),
    Door("sst", sst_files, check_sst, 10_000, 6),
    Door("metadata", metadata, check_metadata, 3_000, 1),
]
