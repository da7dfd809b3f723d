"""When the tables of a subtask are compacted, in emulated time, and when it shows.

::

    flush, by a snapshot or a full write buffer -> compaction begins -- bytes / rate --> its files are used
                                 snapshots meanwhile have the old files, and new ones of level 0

So the snapshot that sets a compaction off still has the files from before, as in RocksDB, whose compactions
run in threads of their own. One runs at a time; what is to be done next is found out when it ends. What has
expired by the time at which a compaction begins is left out of what comes of it.
"""

from __future__ import annotations

from ..engine.timers import Scope
from ..scenarios.config import CostModel
from ..state.table_backend import TableStateBackend
from ..state.table_store import Compaction


class TableSchedule:
    """Compacts the tables of a backend from now on, beside the work of its task."""

    def __init__(self, scope: Scope, costs: CostModel, backend: TableStateBackend) -> None:
        self._scope = scope
        self._rate = costs.table_compaction_rate_bytes_per_s
        self._backend = backend
        self._running: Compaction | None = None
        backend.on_flush = self._begin_if_wanted

    def _begin_if_wanted(self) -> None:
        store = self._backend.store
        if self._running is None and store.wants_compaction():
            self._backend.drop_expired()
            self._running = compaction = store.compact()
            duration = (compaction.bytes_read + compaction.bytes_written) / self._rate
            self._scope.after(duration, self._end)

    def _end(self) -> None:
        assert self._running is not None
        self._running.install()
        self._running = None
        self._begin_if_wanted()
