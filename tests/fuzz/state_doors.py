"""Doors of stored state: values, tables of entries, logs of changes, files of RocksDB, metadata."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec.msgpack import Ext

from integration.storage.rocksdb import RocksStore
from integration.storage.rocksdb_files import family_of, normalised, normalised_size
from netstack import KeyedStateBackend, StateError, StateHandle, StateKind, StorageError, TableOptions
from netstack.checkpoints.metadata_encoding import checksum, decode_metadata, encode_metadata
from netstack.state.changelog import Changelog, Operation, changes_in, restore_logged
from netstack.state.keyed_state import decode_table, encode_table
from netstack.state.snapshots import StateFormat
from netstack.state.state_kinds import entry_key
from netstack.state.value_encoding import decode_value, encode_value

from .checkpoint_trees import metadata_trees
from .door import Arguments, Door, refused
from .mutation import as_json, mutated, spoilt, words_in

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
