"""The level of each table file in a manifest of RocksDB, where it can be changed.

A database that is repaired has all of its files in level 0, and there a newer file hides an older one whole.
That is wrong for a file that a compaction has written: newer entries of some keys have made it the newer
file, and of others it has older ones than a file of level 0 that the compaction left alone. So files must
come back to the level that they had.

A manifest is a log: records, in fragments that end where a block of 32 KiB does, each behind a checksum, a
length and which part of its record it is. A record is a series of fields, each behind its number. Levels are
below 128, so that each is one byte and can be changed in its place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from netstack import StateError

from .sst_bytes import read_varint

_BLOCK = 32 << 10
_HEADER = struct.Struct("<IHB")
"""Of a fragment: its checksum, its length, which part it is."""
_LAST_PARTS = (1, 4)
"""The whole of a record, and its end."""

_NEW_FILE = 103
_NUMBER_FIELDS = frozenset((2, 3, 4, 9, 10, 200, 203))
"""Numbers of logs and files, the last sequence number, which column family it is."""
_BYTES_FIELDS = frozenset((1, 201))
"""Names: of the comparator and of a column family."""
_MAY_BE_SKIPPED = 1 << 13
"""Fields with this bit are bytes, and mean nothing to a reader that does not know them."""
_END_OF_FILE = 1
"""The number that ends what is said of a new file."""

_CRC32C = 0x82F63B78
_MASK = 0xA282EAD8


def with_levels(manifest: bytes, levels: Mapping[int, int]) -> bytes:
    """Return a manifest in which each new file stands at the level that its number has in `levels`.

    Raises:
        StateError: It is no manifest, has fields that are not known, or a file without a level.
    """
    data = bytearray(manifest)
    try:
        for fragments in _records(data):
            places = [place for fragment in fragments for place in fragment]
            for at, number in _new_files(bytes(data[place] for place in places)):
                data[places[at]] = levels[number]
            for fragment in fragments:
                _seal(data, fragment)
    except (IndexError, KeyError, struct.error):
        raise StateError("a manifest of RocksDB is damaged") from None
    return bytes(data)


def _records(data: bytearray) -> Iterator[list[range]]:
    """Yield where the fragments of each record are."""
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
    """Yield where the level of each new file is written, and the number of the file."""
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
            raise StateError(f"a manifest of RocksDB has field {field}, which is not known here")


def _behind_file(record: bytes, at: int) -> int:
    """Return the place behind a new file, from the one behind its number on."""
    _, at = read_varint(record, at)  # its size
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


def _seal(data: bytearray, fragment: range) -> None:
    """Write the checksum of a fragment, which covers which part it is as well."""
    crc = _crc32c(data[fragment.start - 1 : fragment.stop])
    masked = (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF
    struct.pack_into("<I", data, fragment.start - _HEADER.size, masked)


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
