"""Doors of stored state: values, tables of entries, logs of changes, metadata."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from netstack import StateError, StateHandle, StateKind, StorageError
from netstack.checkpoints.metadata_encoding import checksum, decode_metadata, encode_metadata
from netstack.state.changelog import Changelog, Operation, changes_in, restore_logged
from netstack.state.handles import StateFormat
from netstack.state.keyed_state import KeyedStateBackend, decode_table, encode_table
from netstack.state.state_kinds import entry_key
from netstack.state.value_encoding import decode_value, encode_value
from tests.netstack.state.test_state_values import VALUES

from .damage import SELDOM, as_json, changed, damaged, documents, door, refused, words_in
from .stored import checkpoints

GROUPS = range(128)
KINDS = ("value", "list", "map", "reducing", "aggregating")
_WRONG_KINDS = ("", "set", "map with time-to-live ", "\0")

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


ENCODED = st.one_of(*[VALUES.map(encode_value)] * 9, st.sampled_from(_ODD_VALUES))
"""Bytes of values, and seldom bytes that resemble one."""

EXTENSIONS = st.builds(
    lambda code, data: msgspec.msgpack.encode(Ext(code, msgspec.msgpack.encode([msgspec.Raw(data), 1]))),
    st.sampled_from((1, 2, 3, -1)),
    ENCODED,
)


@door(damaged(ENCODED | ENCODED | EXTENSIONS), 2)
def test_values(data: bytes) -> bool:
    """What is read can be stored again, and is then read as the same."""
    try:
        value = decode_value(data)
    except StateError as error:
        return refused(error)
    again = encode_value(value)
    assert encode_value(decode_value(again)) == again
    return True


KIND = st.builds(str.__add__, st.sampled_from(KINDS), st.sampled_from(("", "", " with time-to-live")))
"""The kind of a state, with or without a time-to-live."""


@st.composite
def keys(draw: st.DrawFn, kind: str) -> bytes:
    """A key of a table, seldom of another kind of state or of an unknown key group."""
    group = draw(st.sampled_from((0, 0, 1, 5, 127, 128, 65535)))
    key = group.to_bytes(2) + encode_value(draw(st.sampled_from((0, 1, "a", b"k", (1, 2)))))
    if kind.startswith("map"):
        key = entry_key(key, encode_value(draw(st.integers(0, 3))))
    return draw(damaged(st.just(key), SELDOM))


@st.composite
def values_of(draw: st.DrawFn, kind: str) -> bytes:
    """Bytes of a value that state of a kind may have."""
    value: Any = draw(VALUES)
    timed = kind.endswith("time-to-live")
    if kind.startswith("list"):
        return encode_value([[each, 5] if timed else each for each in (value, 1)])
    return encode_value([value, 1000] if timed else value)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """A table of entries; few have keys or values of another kind of state."""
    kind = draw(KIND)
    wrong = draw(SELDOM)
    entries = st.dictionaries(keys(kind), ENCODED if wrong else values_of(kind), min_size=1, max_size=4)
    table = encode_table(
        draw(st.sampled_from(_WRONG_KINDS)) if wrong else kind, sorted(draw(entries).items())
    )
    assert table is not None
    return table


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A log of changes of two states."""
    log = Changelog()
    kinds = [draw(KIND), draw(KIND)]
    for number, kind in enumerate(kinds):
        log.state(kind, f"s{number}")
    for _ in range(draw(st.integers(0, 5))):
        state, operation, value = draw(st.integers(0, 1)), draw(st.sampled_from(Operation)), draw(VALUES)
        appended = operation is Operation.APPEND and not draw(SELDOM)
        log.append(operation, state, draw(keys(kinds[state])), [value] if appended else value)
    return log.since(0).data


ONE_DAMAGED = st.tuples(damaged(tables()), logs()) | st.tuples(tables(), damaged(logs()))


@door(ONE_DAMAGED)
def test_a_table_before_a_log(table: bytes, log: bytes) -> bool:
    """State restored from a table and a log can be read, stored and restored once more unchanged."""
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


@door(damaged(tables()))
def test_tables(data: bytes) -> bool:
    """The bytes of a table come to entries that make the same table, or are refused."""
    try:
        kind, entries = decode_table(data)
    except StateError as error:
        return refused(error)
    again = encode_table(kind, ((key, encode_value(value)) for key, value in entries))
    assert again is None or decode_table(again)[0] == kind
    return True


@door(damaged(logs()))
def test_logs(data: bytes) -> bool:
    """The bytes of a log come to changes, or are refused."""
    try:
        for change in changes_in(data):
            encode_value(change.value)
    except StateError as error:
        return refused(error)
    return True


@st.composite
def metadata(draw: st.DrawFn) -> bytes:
    """Metadata of checkpoints under valid headers, few of them changed."""
    trees = [stored.tree for stored in checkpoints()]
    body = draw(as_json(documents(trees, words_in(*trees)))) + b"\n"
    header: Any = {"schema": "netstack.checkpoint/2", "size": len(body), "sha256": checksum(body)}
    if draw(SELDOM):
        header = draw(changed(header, ["size"]))
    return json.dumps(header).encode() + b"\n" + body


@door(metadata())
def test_metadata(data: bytes) -> bool:
    """Metadata is the same when it is written and read again, or is refused."""
    try:
        decoded = decode_metadata(data)
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        return refused(StorageError(str(error)))  # as every storage says it
    assert decode_metadata(encode_metadata(decoded)) == decoded
    return True
