"""The public names of `integration.storage` for keyed state, under their earlier path."""

from .storage import RocksStores, table_stores

__all__ = ["RocksStores", "table_stores"]
