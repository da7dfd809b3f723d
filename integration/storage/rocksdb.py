"""Table stores in RocksDB whose flushes and compactions run only on request.

RocksDB's own compaction is off, except while `compact` runs and waits for it. So RocksDB decides which files
are merged, but not when. A view is a checkpoint that RocksDB makes of its database: links to the table files,
and copies of its metadata files (``CURRENT``, ``MANIFEST-...``, ``OPTIONS-...``). There is no write-ahead
log: a failed run restores its state from a checkpoint.

**Sizes.** RocksDB's threads take file numbers in an order that differs between runs, so a few stored bytes do
too. Sizes in results are the same in all runs:

- A table file counts without the name of the host and without its own number, which RocksDB writes into it.
- Of the metadata files, ``OPTIONS`` counts. ``CURRENT`` and ``MANIFEST`` do not, since their lengths depend
  on file numbers and on the order of threads.
"""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from netstack import OPTIONS, Scenario, StateBackendType, StateError, TableOptions

from ..base.errors import FileError, MissingExtraError
from ..base.extras import is_installed, missing_line

if TYPE_CHECKING:
    from rocksdict import Options, Rdict, WriteOptions

TIMER_FAMILIES = ("_timer_state/event_user-timers", "_timer_state/processing_user-timers")
"""Families that Flink opens for the timers of any keyed operator. They are empty in this store."""

ENTRY_BYTES = 22
"""Memory of an entry besides its key and value, in bytes: a list node, and a sequence number."""

_TYPE = f"flink.{OPTIONS['state_backend'].name}"
_FOLDER = f"flink.{OPTIONS['rocksdb_localdir'].name}"
_MEMORY_LIMIT = 256 << 20
_METADATA = re.compile(r"CURRENT|(MANIFEST|OPTIONS)-[0-9]+")
_TABLE = re.compile(r"[0-9]+\.sst")
_NO_KEY = b""


class RocksTable(NamedTuple):
    """A table file in the folder of a view; `size` is the size that results count, in bytes."""

    name: str
    size: int
    path: Path

    def read(self) -> bytes:
        """Return the bytes of the file."""
        return self.path.read_bytes()


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
    """A checkpoint of a store, in a folder that `release` deletes."""

    def __init__(self, folder: Path, sizes: Mapping[str, int]) -> None:
        self.files = [RocksTable(name, size, folder / name) for name, size in sizes.items()]
        self._folder = folder

    @property
    def metadata(self) -> dict[str, bytes]:
        """The metadata files, by name."""
        found = (path for path in self._folder.iterdir() if _METADATA.fullmatch(path.name))
        return {path.name: path.read_bytes() for path in sorted(found)}

    @property
    def metadata_size(self) -> int:
        """Size in bytes of the metadata as results count it."""
        return sum(path.stat().st_size for path in self._folder.glob("OPTIONS-*"))

    def release(self) -> None:
        """Release the files; a second call does nothing."""
        shutil.rmtree(self._folder, ignore_errors=True)


class RocksStore:
    """A RocksDB database in its own folder, which `close` deletes. It is a `TableStore`.

    `folder` must not exist.
    """

    def __init__(self, folder: Path, options: TableOptions) -> None:
        self._folder = folder
        self._database = folder / "db"
        self._options = options
        self._views = (folder / f"view-{number}" for number in count())
        self._sizes: dict[str, int] = {}  # of the table files, by name
        self._families: dict[str, RocksFamily] = {}
        self._rocks: Rdict | None = None
        self._database.mkdir(parents=True)
        self._open(TIMER_FAMILIES)

    def _open(self, families: Iterable[str], there: Iterable[str] = ()) -> None:
        """Open the database with its families, ``there``, and create the rest of ``families`` in order."""
        from rocksdict import Rdict

        options = rocks_options(self._options)
        self._rocks = Rdict(str(self._database), options, column_families=dict.fromkeys(there, options))
        self._rocks.set_write_options(_without_log())
        self._families = {name: RocksFamily(self._family(name)) for name in there}
        for name in families:
            self.family(name)
        self._sizes = self._live_sizes()

    def _family(self, name: str) -> Rdict:
        family = self._opened.get_column_family(name)
        family.set_write_options(_without_log())
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
        before, self._sizes = self._sizes, self._live_sizes()
        return sum(size for name, size in self._sizes.items() if name not in before)

    def _live_sizes(self) -> dict[str, int]:
        """Return the sizes of the table files by name, in an order that depends only on their entries."""
        files = sorted(self._opened.live_files(), key=_order)
        return {_name(file): _size(file) for file in files}

    def view(self) -> RocksView:
        """Return a view of the current files. All writes must have been flushed."""
        from rocksdict import Checkpoint

        folder = next(self._views)
        Checkpoint(self._opened).create_checkpoint(str(folder))
        return RocksView(folder, self._sizes)

    def wants_compaction(self) -> bool:
        """Whether a level of a family exceeds its size."""
        return bool(self._wanting())

    def _wanting(self) -> list[Rdict]:
        families = [family.rocks for family in self._families.values()]
        return [rocks for rocks in families if rocks.property_int_value("rocksdb.compaction-pending")]

    def compact(self) -> int:
        """Merge until no level exceeds its size; see `TableStore`."""
        while wanting := self._wanting():
            _switch(wanting, automatic=True)
            self._wait_for_compactions()
            _switch(wanting, automatic=False)
            self._wait_for_compactions()  # those that began before the switch
        before, self._sizes = self._sizes, self._live_sizes()
        return sum(size for _, size in before.items() ^ self._sizes.items())

    def _wait_for_compactions(self) -> None:
        """Wait for the compactions that RocksDB has begun.

        RocksDB lets them end before it begins an exclusive compaction. There is one of the default family
        here, which has no entries: it removes the file with the removal of a key.
        """
        from rocksdict import BottommostLevelCompaction, CompactOptions

        exclusive = CompactOptions()
        exclusive.set_exclusive_manual_compaction(True)
        exclusive.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        self._opened.delete(_NO_KEY)
        self._opened.compact_range(None, None, exclusive)

    def restore(self, files: Iterable[tuple[str, bytes]], metadata: Mapping[str, bytes]) -> None:
        """Open the files of a view in the empty store; they keep their names.

        Raises:
            StateError: They are not the files of a database, or some are missing.
        """
        from rocksdict import Rdict

        known, tables = list(self._families), set()
        self._close_database()
        self._database.mkdir()
        for name, data in chain(metadata.items(), files):
            if _TABLE.fullmatch(name):
                tables.add(name)
            elif not _METADATA.fullmatch(name):
                raise StateError(f"table files cannot be restored: RocksDB has no files named {name!r}")
            (self._database / name).write_bytes(data)
        try:
            there = Rdict.list_cf(str(self._database), rocks_options(self._options))
            self._open(known, sorted({*there} - {"default"}))
        except Exception as error:
            raise StateError(f"table files cannot be restored: {' '.join(str(error).split())}") from error
        if self._sizes.keys() != tables:
            raise StateError("table files cannot be restored: RocksDB's metadata lists other files")

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
    """Return options with which RocksDB merges files only on request.

    Raises:
        ImportError: rocksdict is not installed.
    """
    from rocksdict import BlockBasedOptions, DBCompressionType, Options

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
    rocks.set_block_based_table_factory(blocks)
    return rocks


def _switch(families: Iterable[Rdict], *, automatic: bool) -> None:
    for rocks in families:
        rocks.set_options({"disable_auto_compactions": str(not automatic).lower()})


def _without_log() -> WriteOptions:
    from rocksdict import WriteOptions

    writes = WriteOptions()
    writes.disable_wal = True  # type: ignore[assignment, method-assign]  # a property: the stub is wrong
    return writes


def _name(file: Mapping[str, Any]) -> str:
    name: str = file["name"]
    return name.removeprefix("/")


def _order(file: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a sort key by which only files that results cannot tell apart are equal."""
    ranks = ("level", "start_key", "end_key", "num_entries", "num_deletions")
    return *(file[rank] for rank in ranks), _size(file)


def _size(file: Mapping[str, Any]) -> int:
    """Return the size of a table file without the two properties whose lengths vary.

    RocksDB writes the name of the host, and the number in the file's name as a varint: 7 bits a byte.
    """
    number = int(_name(file).removesuffix(".sst"))
    size: int = file["size"]
    return size - len(socket.gethostname()) - (number.bit_length() + 6) // 7


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
