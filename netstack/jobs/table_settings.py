"""What a scenario says of the tables that its keyed state is kept in."""

from __future__ import annotations

from ..errors import ScenarioError
from ..scenarios.config import OPTIONS, StateBackendType
from ..scenarios.scenario import Scenario
from ..state.table_backend import TableSettings
from ..state.table_store import TableOptions, TableStores


def table_settings(scenario: Scenario, stores: TableStores | None) -> TableSettings | None:
    """Return where keyed state is kept in tables and how; None if it is kept in memory, or there is none.

    Raises:
        ScenarioError: There are no `stores`, and it needs them.
    """
    config = scenario.config
    if config.state_backend is not StateBackendType.ROCKSDB or not scenario.keeps_keyed_state:
        return None
    if stores is None:
        needs = "rocksdb needs something that opens table stores, such as integration.state.table_stores"
        raise ScenarioError([f"flink.{OPTIONS['state_backend'].name}: {needs}"])
    options = TableOptions(
        write_buffer_bytes=config.rocksdb_write_buffer_bytes,
        target_file_bytes=config.rocksdb_target_file_bytes,
        level_base_bytes=config.rocksdb_level_base_bytes,
        block_bytes=config.rocksdb_block_bytes,
    )
    return TableSettings(stores, options, config.incremental_checkpoints)
