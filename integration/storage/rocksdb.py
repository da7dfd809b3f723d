"""Table stores in RocksDB whose flushes and compactions run only on request.

RocksDB's own compaction is off, except while `compact` runs and waits for it. So RocksDB decides which files
are merged, but not when. RocksDB's file numbers differ between runs, so this module assigns its own numbers.
A link keeps each file until the last user of the file releases it. There is no write-ahead log: a failed run
restores its state from a checkpoint.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from netstack import OPTIONS, Scenario, StateBackendType, StateError, TableOptions

from ..errors import FileError, MissingExtraError
from ..extras import is_installed, missing_line
from .rocksdb_edits import FORMAT_VERSION, family_of, normalised, normalised_size, with_levels

if TYPE_CHECKING:
    from rocksdict import Options, Rdict

TIMER_FAMILIES = ("_timer_state/event_user-timers", "_timer_state/processing_user-timers")
"""Families that Flink opens for the timers of any keyed operator. They are empty in this store."""

ENTRY_BYTES = 22
"""Memory of an entry besides its key and value, in bytes: a list node, and a sequence number."""

_TYPE = f"flink.{OPTIONS['state_backend'].name}"
_FOLDER = f"flink.{OPTIONS['rocksdb_localdir'].name}"
_POLL_S = 0.0005
_FIRST_FILE = 10
_MEMORY_LIMIT = 256 << 20


class RocksTable(NamedTuple):
    """A table file, at a path outside the database."""

    number: int
    level: int
    size: int
    path: Path

    def read(self) -> bytes:
        """Return the file's normalised bytes, which are the same wherever and whenever it was written."""
        return normalised(self.path.read_bytes())


class RocksFamily:
    """The entries of one column family."""

    def __init__(self, rocks: Rdict) -> None:
        self.rocks = rocks
        self.unflushed = 0
        """Bytes written since the last flush."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if the key is absent."""
        value: bytes | None = self.rocks.get(key)
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        self.rocks[key] = value
        self.unflushed += len(key) + len(value) + ENTRY_BYTES

    def remove(self, key: bytes) -> None:
        """Remove a key, if present."""
        self.rocks.delete(key)
        self.unflushed += len(key) + ENTRY_BYTES

    def items(self, first: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield entries with keys from ``first`` to before ``stop``, ascending. Do not write meanwhile."""
        for key, value in self.rocks.items(from_key=first):
            assert isinstance(key, bytes)
            if stop is not None and key >= stop:
                return
            yield key, value


class RocksView:
    """The files of a store at one moment, each kept until `release`."""

    def __init__(self, users: Counter[Path], files: Sequence[RocksTable], options: bytes) -> None:
        self.files = files
        self.options = options
        self._users = users
        self._held = True
        users.update(file.path for file in files)

    def release(self) -> None:
        """Release the files; a second call does nothing."""
        if self._held:
            self._held = False
            _remove_user(self._users, self.files)


def _remove_user(users: Counter[Path], files: Iterable[RocksTable]) -> None:
    """Count one user less for each file, and delete the link of a file that has no user left."""
    for file in files:
        users[file.path] -= 1
        if not users[file.path]:
            del users[file.path]
            file.path.unlink(missing_ok=True)


class RocksCompaction(NamedTuple):
    """A finished compaction."""

    bytes_read: int
    bytes_written: int
    install: Callable[[], None]
    """Shows the new files in later views, in place of the files that were merged."""


class RocksStore:
    """A RocksDB database in its own folder, which `close` deletes. It is a `TableStore`.

    `folder` must not exist.
    """

    def __init__(self, folder: Path, options: TableOptions) -> None:
        self._folder = folder
        self._database = folder / "db"
        self._options = options
        self._users: Counter[Path] = Counter()  # of the links of files
        self._tables: dict[str, RocksTable] = {}  # the files that views show, by RocksDB's name
        self._seen: set[str] = set()  # also those of compactions that are not installed
        self._last_number = 0
        self._families: dict[str, RocksFamily] = {}
        self._rocks: Rdict | None = None
        self._database.mkdir(parents=True)
        self._open(TIMER_FAMILIES)

    def _open(self, families: Iterable[str], there: Iterable[str] = ()) -> None:
        """Open the database with its families, ``there``, and create the rest of ``families`` in order."""
        from rocksdict import Rdict

        options = rocks_options(self._options)
        self._rocks = Rdict(str(self._database), options, column_families=dict.fromkeys(there, options))
        self._families = {name: RocksFamily(self._family(name)) for name in there}
        for name in families:
            self.family(name)

    def _family(self, name: str) -> Rdict:
        from rocksdict import WriteOptions

        writes = WriteOptions()
        writes.disable_wal = True  # type: ignore[assignment, method-assign]  # a property: the stub is wrong
        family = self._opened.get_column_family(name)
        family.set_write_options(writes)
        return family

    @property
    def _opened(self) -> Rdict:
        if self._rocks is None:
            raise StateError("a table store was used after it had been closed")
        return self._rocks

    def family(self, name: str) -> RocksFamily:
        """Return a column family; create it if it does not exist."""
        if name not in self._families:
            self._opened.create_column_family(name, rocks_options(self._options))
            self._families[name] = RocksFamily(self._family(name))
        return self._families[name]

    def unflushed_bytes(self) -> int:
        """Return the bytes written since the last flush."""
        return sum(family.unflushed for family in self._families.values())

    def flush(self) -> int:
        """Write a file of level 0 for each family with new writes. Return the bytes written."""
        for family in self._families.values():
            if family.unflushed:
                family.rocks.flush(True)
                family.unflushed = 0
        new = self._discover()
        self._tables |= new
        return sum(file.size for file in new.values())

    def _discover(self) -> dict[str, RocksTable]:
        """Number the new files in an order that depends only on their contents."""
        found = []
        for file in self._opened.live_files():
            if file["name"] not in self._seen:
                path = Path(f"{self._database}{file['name']}")
                found.append((_family_at(path), file["level"], file["start_key"], file["name"], path))
        found.sort(key=lambda one: one[:3])
        return {name: self._take(name, level, path) for _, level, _, name, path in found}

    def _take(self, name: str, level: int, path: Path) -> RocksTable:
        self._last_number += 1
        link = self._folder / str(self._last_number)
        os.link(path, link)
        table = RocksTable(self._last_number, level, _size_at(path), link)
        self._seen.add(name)
        self._users[link] += 1
        return table

    def view(self) -> RocksView:
        """Return a view of the current files, without writes that have not been flushed."""
        newest = max(self._database.glob("OPTIONS-*"), key=lambda path: int(path.name[8:]))
        files = sorted(self._tables.values(), key=lambda file: file.number)
        return RocksView(self._users, files, newest.read_bytes())

    def wants_compaction(self) -> bool:
        """Whether a level of a family exceeds its size."""
        return bool(self._wanting())

    def _wanting(self) -> list[Rdict]:
        families = [family.rocks for family in self._families.values()]
        return [rocks for rocks in families if rocks.property_int_value("rocksdb.compaction-pending")]

    def compact(self) -> RocksCompaction:
        """Merge until no level exceeds its size; see `TableStore`."""
        while wanting := self._wanting():
            _switch(wanting, automatic=True)
            while self._wanting() or self._compacting():
                time.sleep(_POLL_S)
            _switch(wanting, automatic=False)
            while self._compacting():  # a compaction may have begun between two checks
                time.sleep(_POLL_S)
        levels = {file["name"]: file["level"] for file in self._opened.live_files()}
        merged, moved = {}, {}
        for name, file in self._tables.items():
            if name not in levels:
                merged[name] = file
            elif levels[name] != file.level:
                moved[name] = file._replace(level=levels[name])
        written = self._discover()

        def install() -> None:
            # All files are replaced together: a moved file may overlap a merged one at its new level.
            if self._rocks is not None:
                for name in merged:
                    del self._tables[name]
                self._tables |= written | moved
                _remove_user(self._users, merged.values())

        read_bytes, written_bytes = (sum(file.size for file in each.values()) for each in (merged, written))
        return RocksCompaction(read_bytes, written_bytes, install)

    def _compacting(self) -> bool:
        return bool(self._opened.property_int_value("rocksdb.num-running-compactions"))

    def restore(self, files: Iterable[bytes], levels: Sequence[int]) -> list[int]:
        """Load files at their levels into the empty store. Return the files' new numbers.

        Raises:
            StateError: The bytes are not table files, or do not fit these levels.
        """
        known = list(self._families)
        self._close_database()
        self._database.mkdir()
        paths: dict[str, Path] = {}  # by RocksDB's name
        families = set()
        for number, data in enumerate(files, _FIRST_FILE):
            name = f"/{number:06}.sst"
            paths[name] = Path(f"{self._database}{name}")
            paths[name].write_bytes(data)
            families.add(family_of(data))
        try:
            self._open(known, self._repair(levels))
        except Exception as error:
            raise StateError(f"table files cannot be restored: {' '.join(str(error).split())}") from error
        if not families <= self._families.keys():
            raise StateError(
                "table files cannot be restored: a column family is missing in the restored database"
            )
        restored_levels = {file["name"]: file["level"] for file in self._opened.live_files()}
        if restored_levels != dict(zip(paths, levels, strict=True)):
            raise StateError(
                "table files cannot be restored: RocksDB dropped some of them, or moved them to another level"
            )
        self._tables = {name: self._take(name, restored_levels[name], path) for name, path in paths.items()}
        return [table.number for table in self._tables.values()]

    def _repair(self, levels: Sequence[int]) -> list[str]:
        """Create a database from the files in the folder, each at its level. Return the column families."""
        from rocksdict import Rdict

        path, options = str(self._database), rocks_options(self._options)
        Rdict.repair(path, options)
        manifest = self._database / (self._database / "CURRENT").read_text().strip()
        manifest.write_bytes(with_levels(manifest.read_bytes(), dict(enumerate(levels, _FIRST_FILE))))
        return sorted({*Rdict.list_cf(path, options)} - {"default"})

    def close(self) -> None:
        """Close the database and delete the folder; a second call does nothing."""
        self._close_database()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _close_database(self) -> None:
        if self._rocks is not None:
            for family in self._families.values():
                family.rocks.close()
            self._rocks.close()
            self._rocks = None
        shutil.rmtree(self._database, ignore_errors=True)


def rocks_options(options: TableOptions) -> Options:
    """Return options with which RocksDB's files depend only on the entries.

    Raises:
        ImportError: rocksdict is not installed.
    """
    from rocksdict import BlockBasedOptions, ChecksumType, DBCompressionType, Options

    rocks = Options(raw_mode=True)
    rocks.create_if_missing(True)
    rocks.create_missing_column_families(True)
    rocks.set_disable_auto_compactions(True)
    rocks.set_level_compaction_dynamic_level_bytes(False)
    rocks.set_compression_type(DBCompressionType.snappy())
    rocks.set_write_buffer_size(max(_MEMORY_LIMIT, 4 * options.write_buffer_bytes))  # effectively unlimited
    rocks.set_level_zero_file_num_compaction_trigger(options.level0_files)
    rocks.set_target_file_size_base(options.target_file_bytes)
    rocks.set_max_bytes_for_level_base(options.level_base_bytes)
    rocks.set_num_levels(7)
    rocks.set_max_background_jobs(2)
    rocks.set_stats_dump_period_sec(0)
    rocks.set_keep_log_file_num(1)
    blocks = BlockBasedOptions()
    blocks.set_block_size(options.block_bytes)
    blocks.set_format_version(FORMAT_VERSION)
    blocks.set_checksum_type(ChecksumType.no_checksum())
    rocks.set_block_based_table_factory(blocks)
    return rocks


def _switch(families: Iterable[Rdict], *, automatic: bool) -> None:
    for rocks in families:
        rocks.set_options({"disable_auto_compactions": str(not automatic).lower()})


def _family_at(path: Path) -> str:
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as table:
        return family_of(table)


def _size_at(path: Path) -> int:
    """Return the size of a table file after normalisation."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as table:
        return normalised_size(table)


class RocksStores:
    """Table stores in a folder; a `TableStores`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: list[RocksStore] = []

    def open(self, name: str, options: TableOptions) -> RocksStore:
        """Return an empty store."""
        store = RocksStore(self._folder / str(len(self._opened)), options)
        self._opened.append(store)
        return store

    def close(self) -> None:
        """Close all stores."""
        for store in self._opened:
            store.close()


@contextmanager
def table_stores(scenario: Scenario) -> Iterator[RocksStores | None]:
    """Yield the table stores of a run, or None if its state is not in tables; delete them afterwards.

    Raises:
        MissingExtraError: rocksdict is not installed.
        FileError: The folder for the files cannot be made.
    """
    config = scenario.config
    if config.state_backend is not StateBackendType.ROCKSDB or not scenario.keeps_keyed_state:
        yield None
        return
    if not is_installed("rocksdb"):
        raise MissingExtraError(f"{_TYPE}: {missing_line('rocksdb', 'rocksdb')}")
    parent = config.rocksdb_localdir
    try:
        if parent is not None:
            Path(parent).mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix="netstack-tables-", dir=parent)
    except OSError as error:
        raise FileError([f"{_FOLDER}: {error.strerror}: {error.filename}"]) from error
    with folder as path, closing(RocksStores(Path(path))) as stores:
        yield stores
