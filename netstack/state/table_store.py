"""The interface of a store of immutable, sorted table files to a state backend; bytes only.

Such a store (a log-structured merge tree, as RocksDB is one) takes writes into memory. A flush turns them
into a table file of level 0; a compaction merges files of a level into those of the next one. Nothing of
that happens by itself here: a flush when it is asked for, a compaction when `TableStore.compact` is called,
so that the same calls give the same files, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

DEEPEST_LEVEL = 6
"""Level of the files that are merged into no other one; RocksDB's default."""


class TableOptions(NamedTuple):
    """Layout of the files of a store; the defaults are those of RocksDB in Flink."""

    write_buffer_bytes: int = 64 << 20
    """The user of the store flushes writes at this size at the latest."""
    target_file_bytes: int = 64 << 20
    """Size of the files that a compaction writes."""
    level_base_bytes: int = 256 << 20
    """Size of level 1 at most; of each further level ten times as much."""
    block_bytes: int = 4 << 10
    """Size of a block of entries before it is compressed."""
    level0_files: int = 4
    """Number of files of level 0 that are merged into level 1."""


class TableFile(Protocol):
    """A table file that never changes; it can be read as long as a view holds it."""

    @property
    def number(self) -> int:
        """Its number in the store: ascending in the order in which files were made."""
        ...

    @property
    def level(self) -> int:
        """The level at which it stands, up to `DEEPEST_LEVEL`."""
        ...

    @property
    def size(self) -> int:
        """Its bytes."""
        ...

    def read(self) -> bytes:
        """Return the bytes; files that came of the same calls have the same."""
        ...


class StoreView(Protocol):
    """All files of a store at one moment, kept until they are released."""

    @property
    def files(self) -> Sequence[TableFile]:
        """The files, by number."""
        ...

    @property
    def options(self) -> bytes:
        """The options of the store, as it writes them down."""
        ...

    def release(self) -> None:
        """Let go of the files; a second call does nothing."""
        ...


class FamilyTable(Protocol):
    """The entries of one column family."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None if there is none."""
        ...

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        ...

    def remove(self, key: bytes) -> None:
        """Forget a key, if it is there."""
        ...

    def items(self, first: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The entries from ``first`` on and before ``stop``, ascending; what is written meanwhile is not."""
        ...


class Compaction(Protocol):
    """Files that were merged; until `install` the views of the store still have those from before."""

    @property
    def bytes_read(self) -> int:
        """Size of the files that were merged."""
        ...

    @property
    def bytes_written(self) -> int:
        """Size of the files that came of it."""
        ...

    def install(self) -> None:
        """Let views that are taken from now on have the merged files in place of the others."""
        ...


class TableStore(Protocol):
    """The tables of one subtask in one attempt."""

    def family(self, name: str) -> FamilyTable:
        """Return a column family, which is made if there is none of that name."""
        ...

    def unflushed_bytes(self) -> int:
        """Bytes of the writes that no file has yet."""
        ...

    def flush(self) -> int:
        """Write a file of level 0 for each family that was written to; returns their bytes."""
        ...

    def view(self) -> StoreView:
        """Keep the files of this moment; writes that have not been flushed are in none of them."""
        ...

    def wants_compaction(self) -> bool:
        """Whether a level has more in it than it should."""
        ...

    def compact(self) -> Compaction:
        """Merge until no level has more than it should. One at a time: the last must have been installed."""
        ...

    def restore(self, files: Iterable[bytes], levels: Sequence[int]) -> list[int]:
        """Take over files at their levels, before anything is written; returns their numbers here.

        Each is asked for when the one before is in its place, since all of them may not fit into memory.

        Raises:
            StateError: They are no such files, or cannot stand at these levels.
        """
        ...

    def close(self) -> None:
        """Release everything; a second call does nothing."""
        ...


class TableStores(Protocol):
    """Opens stores."""

    def open(self, name: str, options: TableOptions) -> TableStore:
        """Return an empty store; ``name`` says whose it is, for people."""
        ...
