"""The folder in which table stores of a run lie, and goes with it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netstack import OPTIONS, Scenario, StateBackendType, TableOptions

from ..errors import FileError, MissingExtraError
from ..extras import is_installed, missing_line
from .rocksdb_store import RocksStore

_TYPE = f"flink.{OPTIONS['state_backend'].name}"
_FOLDER = f"flink.{OPTIONS['rocksdb_localdir'].name}"


class RocksStores:
    """Opens stores in a folder; a `TableStores`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: list[RocksStore] = []

    def open(self, name: str, options: TableOptions) -> RocksStore:
        """Return an empty store."""
        store = RocksStore(self._folder / str(len(self._opened)), options)
        self._opened.append(store)
        return store

    def close(self) -> None:
        """Close all that are open."""
        for store in self._opened:
            store.close()


@contextmanager
def table_stores(scenario: Scenario) -> Iterator[RocksStores | None]:
    """Where the state of a run is kept in tables, if it is; closed and deleted however the block ends.

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
    with folder as path:
        stores = RocksStores(Path(path))
        try:
            yield stores
        finally:
            stores.close()
