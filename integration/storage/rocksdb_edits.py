"""Changes to the bytes of RocksDB's files: `normalised` table files, and manifests `with_levels`.

A table file of the block-based layout ends with a footer. The footer points to the index of meta blocks, and
this index to the properties::

    blocks of entries | index | properties | index of meta blocks | footer

Two files with the same entries differ only in their properties: database, session and host of the writer,
time, and file number. `normalised` replaces these by constants, whatever their length, and rebuilds the end
of the file. It needs files of `FORMAT_VERSION` without checksums of blocks; a checkpoint stores a checksum of
the whole file.

A repaired database has all of its files in level 0, where a newer file hides an older one. That is wrong for
a file that a compaction wrote. For some keys such a file has newer entries than a file of level 0 that was
not part of the compaction, and for other keys older ones. So `with_levels` writes the former level of each
file into the manifest.

A manifest is a log of records, cut into fragments at the ends of blocks of 32 KiB. A fragment begins with a
checksum, its length, and its part of the record. A record is a series of fields, each preceded by its number.
Levels are below 128, so each is one byte and can be changed in place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from mmap import mmap
from typing import NamedTuple

from netstack import StateError

FORMAT_VERSION = 5
"""Version of the table format. From version 6 on, the checksum of a block has a random part."""

_FOOTER = 53
"""Bytes of the footer: kind of checksum, two block locations (padded to 40), format version, magic number."""
_MAGIC = bytes.fromhex("f7cff485b741e288")
_PROPERTIES = b"rocksdb.properties"
_FAMILY = b"rocksdb.column.family.name"
_ZERO = b"\x80\x80\x80\x80\x00"
"""0 as a varint padded to five bytes, as long as a Unix time in seconds."""
_CONSTANTS = {
    b"rocksdb.creating.db.identity": b"0" * 36,
    b"rocksdb.creating.session.identity": b"0" * 20,
    b"rocksdb.creating.host.identity": b"host",
    b"rocksdb.creation.time": _ZERO,
    b"rocksdb.file.creation.time": _ZERO,
    b"rocksdb.newest.key.time": _ZERO,
    b"rocksdb.oldest.key.time": _ZERO,
    # These have varying lengths. The number of earlier files depends on RocksDB's threads.
    b"rocksdb.original.file.number": _ZERO,
}
"""Constants that replace the values of properties."""

_TRAILER = 5
"""Bytes after each block: its compression type and its checksum."""
_PLACES = 40
"""Bytes in the footer for the locations of two blocks."""

_MOST_BITS = 63
"""Number of bits of a varint before its last byte."""

_BLOCK = 32 << 10
_HEADER = struct.Struct("<IHB")
"""Header of a fragment: checksum, length, part of the record."""
_LAST_PARTS = (1, 4)
"""Kinds of fragments that end a record: a whole record, and a last fragment."""

_NEW_FILE = 103
_NUMBER_FIELDS = frozenset((2, 3, 4, 9, 10, 200, 203))
"""Fields with a number: of a log, of a file, of a column family, or the last sequence number."""
_BYTES_FIELDS = frozenset((1, 201))
"""Fields with a name: of the comparator, or of a column family."""
_MAY_BE_SKIPPED = 1 << 13
"""Bit in the number of a field that readers may skip if they do not know it. Such fields are byte strings."""
_END_OF_FILE = 1
"""Tag that ends the details of a new file."""

_CRC32C = 0x82F63B78
_MASK = 0xA282EAD8

_Bytes = bytes | bytearray | mmap


def family_of(table: _Bytes) -> str:
    """Return the name of the column family to which a table file belongs.

    Raises:
        StateError: It is not a table file.
    """
    for name, start, size in _properties(table):
        if name == _FAMILY:
            try:
                return bytes(table[start : start + size]).decode()
            except UnicodeDecodeError:
                raise StateError("a table file of RocksDB is damaged") from None
    raise StateError("a table file does not say to which column family it belongs")


def normalised(table: bytes) -> bytes:
    """Return a table file without the properties that depend on the place and time of writing.

    Raises:
        StateError: It is not a table file.
    """
    start, end = _new_end(table)
    return table[:start] + end


def normalised_size(table: _Bytes) -> int:
    """Return the size of a table file after normalisation.

    Raises:
        StateError: It is not a table file.
    """
    start, end = _new_end(table)
    return start + len(end)


def _new_end(table: _Bytes) -> tuple[int, bytes]:
    """Return the offset of the properties, and the normalised bytes of the file from there on."""
    blocks = _blocks(table)
    properties, places = blocks.properties, blocks.places
    ends = [properties.start - _TRAILER, places.start - _TRAILER, len(table) - _FOOTER - _TRAILER]
    if blocks.entry_index.stop > ends[0] or [properties.stop, places.stop] != ends[1:]:
        raise StateError("the blocks of a table file of RocksDB are in an unknown order")
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
    """Locations of the blocks at the end of a file."""

    properties: range
    places: range
    """The index of meta blocks."""
    entry_index: range


def _blocks(table: _Bytes) -> _Blocks:
    try:
        if len(table) < _FOOTER or table[-len(_MAGIC) :] != _MAGIC:
            raise StateError("a file does not end as table files of RocksDB do")
        places, at = _block(table, len(table) - _FOOTER + 1)
        entry_index, _ = _block(table, at)
        for name, at, _ in _entries(table, places):
            if name == _PROPERTIES:
                return _Blocks(_block(table, at)[0], places, entry_index)
    except (IndexError, struct.error):
        raise StateError("a table file of RocksDB is damaged") from None
    raise StateError("a table file of RocksDB has no properties")


def _block(table: _Bytes, at: int) -> tuple[range, int]:
    """Return the block whose offset and size are encoded at `at`, and the offset after them."""
    start, at = read_varint(table, at)
    size, at = read_varint(table, at)
    return range(start, start + size), at


def _properties(table: _Bytes) -> list[tuple[bytes, int, int]]:
    """Return the name of each property, with the offset and length of its value in the file."""
    try:
        return list(_entries(table, _blocks(table).properties))
    except (IndexError, struct.error):
        raise StateError("a table file of RocksDB is damaged") from None


def _with_values(table: _Bytes, block: range, values: Mapping[bytes, bytes]) -> bytes:
    """Return a block with new values for some of its entries."""
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
    """Yield the key of each entry of a block, with the start and length of its value.

    A key omits the first bytes that it shares with the previous key. After the entries come the offsets of
    keys that omit nothing.
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
    """Return the varint at an offset, and the offset after it.

    Raises:
        IndexError: The varint is too long, or the bytes end within it.
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
    """Return a number as a varint of minimal length."""
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def with_levels(manifest: bytes, levels: Mapping[int, int]) -> bytes:
    """Return a manifest with the level of each new file replaced. `levels` maps file numbers to levels.

    Raises:
        StateError: The bytes are not a manifest, have unknown fields, or name a file that is not in `levels`.
    """
    data = bytearray(manifest)
    try:
        for fragments in _records(data):
            places = [place for fragment in fragments for place in fragment]
            for at, number in _new_files(bytes(data[place] for place in places)):
                data[places[at]] = levels[number]
            for fragment in fragments:
                # The checksum of a fragment also covers its kind.
                crc = _crc32c(data[fragment.start - 1 : fragment.stop])
                masked = (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF
                struct.pack_into("<I", data, fragment.start - _HEADER.size, masked)
    except (IndexError, KeyError, struct.error):
        raise StateError("a manifest of RocksDB is damaged") from None
    return bytes(data)


def _records(data: bytearray) -> Iterator[list[range]]:
    """Yield the byte ranges of the fragments of each record."""
    at, fragments = 0, list[range]()
    while at < len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER.size:
            at += left
            continue
        _, length, part = _HEADER.unpack_from(data, at)
        start = at + _HEADER.size
        at = start + length
        if at > len(data):
            raise IndexError
        fragments.append(range(start, at))
        if part in _LAST_PARTS:
            yield fragments
            fragments = []


def _new_files(record: bytes) -> Iterator[tuple[int, int]]:
    """Yield two numbers for each new file: the offset of its level, and the file's number."""
    at = 0
    while at < len(record):
        field, at = read_varint(record, at)
        if field == _NEW_FILE:
            number, after = read_varint(record, at + 1)
            yield at, number
            at = _behind_file(record, after)
        elif field in _NUMBER_FIELDS:
            _, at = read_varint(record, at)
        elif field in _BYTES_FIELDS or field & _MAY_BE_SKIPPED:
            at = _behind_bytes(record, at)
        else:
            raise StateError(f"a manifest of RocksDB has the unknown field {field}")


def _behind_file(record: bytes, at: int) -> int:
    """Return the offset after the entry of a new file; `at` is the offset after the file's number."""
    _, at = read_varint(record, at)  # its size, first and last key, and least and greatest sequence number
    at = _behind_bytes(record, _behind_bytes(record, at))  # its first and last key
    for _ in range(2):  # its least and greatest sequence number
        _, at = read_varint(record, at)
    while True:
        detail, at = read_varint(record, at)
        if detail == _END_OF_FILE:
            return at
        at = _behind_bytes(record, at)


def _behind_bytes(record: bytes, at: int) -> int:
    length, at = read_varint(record, at)
    return at + length


def _crc32c(data: bytes | bytearray) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_OF_BYTE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _crc_of(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_CRC32C if byte & 1 else 0)
    return byte


_CRC_OF_BYTE = [_crc_of(byte) for byte in range(256)]
