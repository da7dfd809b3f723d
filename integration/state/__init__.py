"""State that is kept in files while a job runs; what programs import from here is named in `__all__`.

::

    with table_stores(scenario) as tables:
        result = netstack.emulate(scenario, tables=tables)
"""

from .stores import RocksStores, table_stores

__all__ = ["RocksStores", "table_stores"]
