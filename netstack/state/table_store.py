"""The interface between a state backend and a store of immutable, sorted table files; bytes only.

Such a store is a log-structured merge tree, like RocksDB. Writes go to memory. A flush writes them to a table
file of level 0. A compaction merges files of a level into files of the next level. The store flushes and
compacts only when `flush` and `compact` are called. Metadata files describe which tables make up the store.

The same calls produce the same tables with the same sizes. Their bytes and names may differ, and so may the
metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from ..scenarios.options import NetworkConfig

__all__ = ["TableOptions", "TableStore", "TableStores"]

_DEFAULTS = NetworkConfig()


class TableOptions(NamedTuple):
    """Layout of the files of a store; the defaults are those of Flink's options."""

    write_buffer_bytes: int = _DEFAULTS.rocksdb_write_buffer_bytes
    """Maximum size of the unflushed writes in bytes; when it is reached, the caller must flush."""
    target_file_bytes: int = _DEFAULTS.rocksdb_target_file_bytes
    """Size of the files that a compaction writes."""
    level_base_bytes: int = _DEFAULTS.rocksdb_level_base_bytes
    """Maximum size of level 1; each further level may have ten times as much."""
    block_bytes: int = _DEFAULTS.rocksdb_block_bytes
    """Size of a block of entries before it is compressed."""
    level0_files: int = 4
    """Number of files of level 0 that are merged into level 1."""


class TableFile(Protocol):
    """A table file, which never changes. It can be read as long as a view holds it."""

    @property
    def name(self) -> str:
        """Name of the file in the store, which never gives it to another file."""

    @property
    def size(self) -> int:
        """Size in bytes as results count it, without parts whose lengths vary between runs."""

    def read(self) -> bytes:
        """Return the bytes of the file."""


class StoreView(Protocol):
    """All files of a store at one moment, kept until the view is released."""

    @property
    def files(self) -> Sequence[TableFile]:
        """The table files, in an order that depends only on the calls to the store."""

    @property
    def metadata(self) -> Mapping[str, bytes]:
        """The metadata files, by name."""

    @property
    def metadata_size(self) -> int:
        """Size of the metadata in bytes as results count it."""

    def release(self) -> None:
        """Release the files; a second call does nothing."""


class FamilyTable(Protocol):
    """The entries of one column family."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""

    def remove(self, key: bytes) -> None:
        """Remove a key, if present."""

    def items(self, first: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from ``first`` up to, not including, ``stop``, ascending.

        Writes during the iteration have no effect on these entries.
        """


class TableStore(Protocol):
    """The tables of one subtask in one attempt."""

    def family(self, name: str) -> FamilyTable:
        """Return the column family with this name; creates it if it does not exist."""

    def unflushed_bytes(self) -> int:
        """Return the bytes of writes that have not been flushed."""

    def flush(self) -> int:
        """Write a file of level 0 for each family with unflushed writes; returns the bytes written."""

    def view(self) -> StoreView:
        """Return a view of the current files. All writes must have been flushed."""

    def wants_compaction(self) -> bool:
        """Whether a level exceeds its maximum size."""

    def compact(self) -> int:
        """Merge files until no level exceeds its maximum size.

        Returns the bytes of the files that were merged plus the bytes of the files that were written.
        """

    def restore(self, files: Iterable[tuple[str, bytes]], metadata: Mapping[str, bytes]) -> None:
        """Open the files of a view by name, before any write. They keep their names.

        Table files are read one at a time, since together they may not fit into memory.

        Raises:
            StateError: if they are not the files of a store, or some are missing.
        """

    def close(self) -> None:
        """Release everything; a second call does nothing."""


class TableStores(Protocol):
    """Opens table stores."""

    def open(self, name: str, options: TableOptions) -> TableStore:
        """Return an empty store; ``name`` identifies the owner in messages."""
