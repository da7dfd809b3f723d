"""Checkpoints, savepoints, sink output and keyed state on disk.

The public names are in `__all__`. Each is imported when first used, because some need Arrow::

    with table_stores(scenario) as tables:
        result = netstack.emulate(scenario, tables=tables, storage=DirectoryStorage("/data/checkpoints"))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .checkpoint_list import find_checkpoint
    from .directory import DirectoryStorage
    from .rocksdb import RocksStores, table_stores
    from .sink_output import TransactionDirectory

__all__ = ["DirectoryStorage", "RocksStores", "TransactionDirectory", "find_checkpoint", "table_stores"]

_MODULES = {
    "DirectoryStorage": ".directory",
    "RocksStores": ".rocksdb",
    "TransactionDirectory": ".sink_output",
    "find_checkpoint": ".checkpoint_list",
    "table_stores": ".rocksdb",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value
