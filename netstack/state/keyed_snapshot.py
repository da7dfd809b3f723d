"""Keyed state as bytes: one table for each state, its entries in the order of their keys.

A table is a msgpack array ``[layout, kind, [key, value, key, value, ...]]``. A key is a byte string: two
bytes of key group, big-endian, and the key as `values` encodes it. The same state has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from ..errors import StateError
from .backend import SnapshotWork, StatePiece, WriteFile, store_pieces
from .copy_on_write import MapSnapshot
from .snapshots import StateHandle, StateKind
from .table import GROUP_BYTES
from .time_to_live import Expiry
from .values import decode_value, encode_value

LAYOUT = 1
"""Number of the layout of a table; another one is refused."""

FILE_NAME = "keyed"

LEAST_ENTRY_BYTES = 6
"""Of a key, with its length and its key group, and a value."""


class KeyedSnapshot:
    """All keyed states of a subtask at one moment; a `BackendSnapshot`."""

    def __init__(
        self,
        key_groups: range,
        tables: Mapping[str, tuple[str, MapSnapshot[bytes, Any]]],
        expiries: Mapping[str, Expiry],
        now_ms: int,
    ) -> None:
        self._key_groups = (key_groups.start, key_groups.stop - 1)
        self._tables = tables
        self._expiries = expiries
        lasting = [len(table) for name, (_, table) in tables.items() if name not in expiries]
        self.work = SnapshotWork(entry_bytes=sum(lasting) * LEAST_ENTRY_BYTES)
        self._now_ms = now_ms

    def handles(self, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store the states that have entries, one handle for each, and release them."""
        try:
            return store_pieces(list(self._pieces()), FILE_NAME, write, inline_up_to)
        finally:
            self.release()

    def release(self) -> None:
        """Give up what is kept for the snapshot."""
        for _, table in self._tables.values():
            table.release()

    def _pieces(self) -> Iterator[StatePiece]:
        for name, (kind, table) in sorted(self._tables.items(), key=lambda item: item[0]):
            entries = table.items()
            if name in self._expiries:
                left = partial(self._expiries[name].left, now_ms=self._now_ms)
                kept = ((key, left(stored)) for key, stored in entries)
                entries = [(key, stored) for key, stored in kept if stored is not None]
            data = encode_table(kind, _encoded(name, entries))
            if data is not None:
                yield StatePiece(StateKind.KEYED, data, name, self._key_groups)


def _encoded(name: str, entries: Iterable[tuple[bytes, Any]]) -> Iterator[tuple[bytes, bytes]]:
    try:
        for key, value in entries:
            yield key, encode_value(value)
    except StateError as error:
        raise StateError(f"state {name!r}: {error}") from error


def encode_table(kind: str, entries: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the bytes of a table with these keys and encoded values; None if there are none."""
    flat: list[bytes | msgspec.Raw] = []
    for key, value in entries:
        flat += key, msgspec.Raw(value)
    return msgspec.msgpack.encode((LAYOUT, kind, flat)) if flat else None


def decode_table(data: bytes) -> tuple[str, list[tuple[bytes, Any]]]:
    """Return the kind of a state and its entries.

    Raises:
        StateError: The bytes are not those of a table, or of a layout that is not known.
    """
    match decode_value(data):
        case [layout, str(kind), [*flat]] if layout == LAYOUT and len(flat) % 2 == 0 and _are_keys(flat[::2]):
            return kind, list(zip(flat[::2], flat[1::2], strict=True))
        case _:
            raise StateError("keyed state is not laid out as it should be")


def _are_keys(keys: list[Any]) -> bool:
    return {*map(type, keys)} <= {bytes} and min(map(len, keys), default=GROUP_BYTES) >= GROUP_BYTES
