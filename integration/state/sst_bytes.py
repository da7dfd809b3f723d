"""Table files of RocksDB as bytes: what they say of themselves, and the same bytes for the same entries.

A table file of the block-based layout ends with a footer, which says where the index of meta blocks is, and
that says where the block of properties is::

    blocks of entries | index | properties | index of meta blocks | footer

Two files with the same entries differ in the properties only: each names the database, the session and the
host that wrote it, when, and under which number. `normalised` writes constants in their place, whatever their
length, so that the end of the file is made anew. It holds for files of `FORMAT_VERSION` without checksums of
blocks, and what is stored of them has a checksum of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from mmap import mmap
from typing import NamedTuple

from netstack import StateError

FORMAT_VERSION = 5
"""The layout of a table; from 6 on something random goes into the checksum of each block."""

_FOOTER = 53
"""Bytes at the end: the kind of checksum, two places (padded to 40), the format version, a magic number."""
_MAGIC = bytes.fromhex("f7cff485b741e288")
_PROPERTIES = b"rocksdb.properties"
_FAMILY = b"rocksdb.column.family.name"
_ZERO = b"\x80\x80\x80\x80\x00"
"""0 as a number of five bytes, which is as long as a time in seconds."""
_CONSTANTS = {
    b"rocksdb.creating.db.identity": b"0" * 36,
    b"rocksdb.creating.session.identity": b"0" * 20,
    b"rocksdb.creating.host.identity": b"host",
    b"rocksdb.creation.time": _ZERO,
    b"rocksdb.file.creation.time": _ZERO,
    b"rocksdb.newest.key.time": _ZERO,
    b"rocksdb.oldest.key.time": _ZERO,
    # Of varying length, and how many files there were before depends on RocksDB's threads.
    b"rocksdb.original.file.number": _ZERO,
}
"""What is written in place of properties."""

_TRAILER = 5
"""Bytes behind each block: how it is compressed, and its checksum."""
_PLACES = 40
"""Bytes in the footer for the places of two blocks."""

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
    start, end = _new_end(table)
    return table[:start] + end


def normalised_size(table: _Bytes) -> int:
    """Return how long a table file is once it is normalised.

    Raises:
        StateError: It is no table file.
    """
    start, end = _new_end(table)
    return start + len(end)


def _new_end(table: _Bytes) -> tuple[int, bytes]:
    """Return where the properties begin, and all from there on with constants in their place."""
    blocks = _blocks(table)
    properties, places = blocks.properties, blocks.places
    ends = [properties.start - _TRAILER, places.start - _TRAILER, len(table) - _FOOTER - _TRAILER]
    if blocks.entry_index.stop > ends[0] or [properties.stop, places.stop] != ends[1:]:
        raise StateError("a table file of RocksDB has its blocks in another order")
    try:
        new_properties = _with_values(table, properties, _CONSTANTS)
        place = _varint(properties.start) + _varint(len(new_properties))
        new_places = _with_values(table, places, {_PROPERTIES: place})
    except (IndexError, KeyError, struct.error):
        raise StateError("a table file of RocksDB is damaged") from None
    start = properties.start + len(new_properties) + _TRAILER
    placed = b"".join(
        map(_varint, (start, len(new_places), blocks.entry_index.start, len(blocks.entry_index)))
    )
    kind_of_checksum = table[-_FOOTER]
    parts = [
        new_properties,
        table[properties.stop : places.start],
        new_places,
        table[places.stop : len(table) - _FOOTER],
        bytes([kind_of_checksum]),
        placed.ljust(_PLACES, b"\0"),
        table[-_FOOTER + 1 + _PLACES :],
    ]
    return properties.start, b"".join(map(bytes, parts))


class _Blocks(NamedTuple):
    """Where the blocks at the end of a file are."""

    properties: range
    places: range
    """The index of meta blocks."""
    entry_index: range


def _blocks(table: _Bytes) -> _Blocks:
    try:
        if len(table) < _FOOTER or table[-len(_MAGIC) :] != _MAGIC:
            raise StateError("it does not end like a table file of RocksDB")
        places, at = _block(table, len(table) - _FOOTER + 1)
        entry_index, _ = _block(table, at)
        for name, at, _ in _entries(table, places):
            if name == _PROPERTIES:
                return _Blocks(_block(table, at)[0], places, entry_index)
    except (IndexError, struct.error):
        raise StateError("a table file of RocksDB is damaged") from None
    raise StateError("a table file of RocksDB has no properties")


def _block(table: _Bytes, at: int) -> tuple[range, int]:
    """Return the block whose place and size are written here, and what is behind them."""
    start, at = read_varint(table, at)
    size, at = read_varint(table, at)
    return range(start, start + size), at


def _properties(table: _Bytes) -> list[tuple[bytes, int, int]]:
    """Return the name of each property, and where in the file its value begins and how long it is."""
    try:
        return list(_entries(table, _blocks(table).properties))
    except (IndexError, struct.error):
        raise StateError("a table file of RocksDB is damaged") from None


def _with_values(table: _Bytes, block: range, values: Mapping[bytes, bytes]) -> bytes:
    """Return a block whose entries have other values, where these are given."""
    made = bytearray()
    moved = {}
    begin = block.start
    for name, at, length in _entries(table, block):
        moved[begin - block.start] = len(made)
        value = values.get(name, bytes(table[at : at + length]))
        shared, place = read_varint(table, begin)
        own, place = read_varint(table, place)
        made += _varint(shared) + _varint(own) + _varint(len(value))
        made += name[len(name) - own :] + value
        begin = at + length
    restarts = [at for (at,) in struct.iter_unpack("<I", table[begin : block.stop - 4])]
    made += b"".join(struct.pack("<I", moved[at]) for at in restarts)
    return bytes(made) + table[block.stop - 4 : block.stop]


def _entries(table: _Bytes, block: range) -> Iterator[tuple[bytes, int, int]]:
    """Yield the key of each entry of a block, and where its value begins and how long it is.

    A key shares its first bytes with the one before; behind the entries are places where one does not.
    """
    if block.stop > len(table) or len(block) < 4:
        raise IndexError
    (restarts,) = struct.unpack("<I", table[block.stop - 4 : block.stop])
    end = block.stop - 4 - 4 * (restarts & 0x7FFFFFFF)
    place, key = block.start, b""
    while place < end:
        shared, place = read_varint(table, place)
        own, place = read_varint(table, place)
        length, place = read_varint(table, place)
        if place + own + length > end:
            raise IndexError
        key = key[:shared] + bytes(table[place : place + own])
        place += own
        yield key, place, length
        place += length


def read_varint(table: _Bytes, place: int) -> tuple[int, int]:
    """Return the number of variable length at a place, and the place behind it.

    Raises:
        IndexError: It does not end, or not before the bytes do.
    """
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


def _varint(number: int) -> bytes:
    """Return a number in as few bytes of variable length as it takes."""
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
