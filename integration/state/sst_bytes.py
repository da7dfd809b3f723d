"""Table files of RocksDB as bytes: what they say of themselves, and the same bytes for the same entries.

A table file of the block-based layout ends with a footer, which says where the index of meta blocks is, and
that says where the block of properties is::

    blocks of entries | index | properties | index of meta blocks | footer

Two files with the same entries differ in the properties only: each names the database, the session and the
host that wrote it, and when. `normalised` writes constants of the same length in their place, so no offset
changes. It holds for files of `FORMAT_VERSION` without checksums of blocks, and what is stored of them has a
checksum of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from mmap import mmap

from netstack import StateError

FORMAT_VERSION = 5
"""The layout of a table; from 6 on something random goes into the checksum of each block."""

_FOOTER = 53
"""Bytes at the end: the kind of checksum, two places (padded to 40), the format version, a magic number."""
_MAGIC = bytes.fromhex("f7cff485b741e288")
_PROPERTIES = b"rocksdb.properties"
_FAMILY = b"rocksdb.column.family.name"
_IDENTITIES = frozenset(
    {b"rocksdb.creating.db.identity", b"rocksdb.creating.session.identity", b"rocksdb.creating.host.identity"}
)
_NUMBERS = frozenset(
    {
        b"rocksdb.creation.time",
        b"rocksdb.file.creation.time",
        b"rocksdb.newest.key.time",
        b"rocksdb.oldest.key.time",
        b"rocksdb.original.file.number",
    }
)

_MOST_BITS = 63
"""Of a number of variable length, before its last byte."""

_Bytes = bytes | bytearray | mmap


def family_of(table: _Bytes) -> str:
    """Return the name of the column family whose entries a table file has.

    Raises:
        StateError: It is no table file.
    """
    for name, start, size in _properties(table):
        if name == _FAMILY:
            try:
                return bytes(table[start : start + size]).decode()
            except UnicodeDecodeError:
                raise StateError("a table file of RocksDB is damaged") from None
    raise StateError("a table file does not say which column family it is of")


def normalised(table: bytes) -> bytes:
    """Return a table file without what depends on where and when it was written.

    Raises:
        StateError: It is no table file.
    """
    changed = bytearray(table)
    for name, start, size in _properties(table):
        if name in _IDENTITIES:
            changed[start : start + size] = b"0" * size
        elif name in _NUMBERS and size:
            changed[start : start + size] = b"\x80" * (size - 1) + b"\x00"  # 0 as a number of that length
    return bytes(changed)


def _properties(table: _Bytes) -> list[tuple[bytes, int, int]]:
    """Return the name of each property, and where in the file its value begins and how long it is."""
    try:
        if len(table) < _FOOTER or table[-len(_MAGIC) :] != _MAGIC:
            raise StateError("it does not end like a table file of RocksDB")
        place = len(table) - _FOOTER + 1
        start, place = _number(table, place)
        size, _ = _number(table, place)
        for name, at, _ in _entries(table, start, size):
            if name == _PROPERTIES:
                start, at = _number(table, at)
                size, _ = _number(table, at)
                return list(_entries(table, start, size))
    except (IndexError, struct.error):
        raise StateError("a table file of RocksDB is damaged") from None
    raise StateError("a table file of RocksDB has no properties")


def _entries(table: _Bytes, start: int, size: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the key of each entry of a block, and where its value begins and how long it is.

    A key shares its first bytes with the one before; behind the entries are places where one does not.
    """
    if start + size > len(table) or size < 4:
        raise IndexError
    (restarts,) = struct.unpack("<I", table[start + size - 4 : start + size])
    end = start + size - 4 - 4 * (restarts & 0x7FFFFFFF)
    place, key = start, b""
    while place < end:
        shared, place = _number(table, place)
        own, place = _number(table, place)
        length, place = _number(table, place)
        if place + own + length > end:
            raise IndexError
        key = key[:shared] + bytes(table[place : place + own])
        place += own
        yield key, place, length
        place += length


def _number(table: _Bytes, place: int) -> tuple[int, int]:
    """Return the number of variable length at a place, and the place behind it."""
    number = shift = 0
    while True:
        byte = table[place]
        place += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, place
        if shift > _MOST_BITS:
            raise IndexError
