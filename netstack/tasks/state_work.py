"""Work with keyed state besides the service time of records: accesses, compaction, materialisation.

**Accesses.** For state in memory, accesses are part of the service time. Tables count reads and writes, and a
changelog counts added changes. A task spends the time for these with its next buffer.

**Compaction** of tables runs in the background, in emulated time::

    flush, by a snapshot or a full write buffer -> compaction begins -- bytes / rate --> the next may begin

As in RocksDB, which compacts in separate threads, the snapshot that triggers a compaction still contains the
former files. Snapshots from then on contain the new files, even before the compaction has ended. Compactions
run one at a time, and the next is chosen when the last has ended. A compaction drops the entries that have
expired when it begins.

**Materialisation** of a changelog stores the whole state from time to time::

    task opens --- delay ---> mark the state, between two records
                                 | upload, while the task continues
                              later checkpoints are based on it
                                 |--- interval ---> again

The first delay is a fraction of the interval, derived from a hash of the task's name, so that not all tasks
store their state at once. After a recovery, checkpoints have no materialisation to build on, so the first
materialisation begins at once. (Flink: ``PeriodicMaterializationManager``.)
"""

from __future__ import annotations

from collections.abc import Sequence

from ..checkpoints.storage import delete_where_possible
from ..engine.cancellation import Scope
from ..errors import StorageError
from ..exchange.java_hash import hash_strings
from ..exchange.key_groups import murmur
from ..scenarios.costs import CostModel
from ..state.changelog import Changelog, ChangelogBackend, Materialisation
from ..state.handles import StateHandle, StoredFile
from ..state.subtask_state import SubtaskState
from ..state.table_backend import Accesses, TableStateBackend
from .snapshot_upload import storing_s
from .subtask import Subtask
from .subtask_environment import Environment


class StateTimes:
    """Computes the time for one subtask's work with keyed state."""

    __slots__ = ("_accesses", "_costs", "_log", "_logged", "_paid")

    def __init__(self, state: SubtaskState, costs: CostModel) -> None:
        self._costs = costs
        self._accesses = state.keyed.accesses if isinstance(state.keyed, TableStateBackend) else Accesses()
        self._log: Changelog | None = None if state.changelog is None else state.changelog.log
        self._paid = (0, 0)
        self._logged = 0

    def owed_s(self) -> float:
        """Return the cost of all work since the last call, in seconds."""
        accesses, costs = self._accesses, self._costs
        reads, writes = accesses.reads - self._paid[0], accesses.writes - self._paid[1]
        self._paid = accesses.reads, accesses.writes
        owed = reads * costs.table_read_s + writes * costs.table_write_s
        if self._log is not None:
            changes, self._logged = self._log.end - self._logged, self._log.end
            owed += changes * costs.log_write_s
        return owed


def state_times(state: SubtaskState, costs: CostModel) -> StateTimes | None:
    """Return the counter for the time that a subtask spends on its state; None if state costs no time."""
    if state.changelog is None and not isinstance(state.keyed, TableStateBackend):
        return None
    return StateTimes(state, costs)


class TableSchedule:
    """Compacts the tables of a backend in the background."""

    def __init__(self, scope: Scope, costs: CostModel, backend: TableStateBackend) -> None:
        self._scope = scope
        self._rate = costs.table_compaction_rate_bytes_per_s
        self._backend = backend
        self._running = False
        backend.on_flush = self._begin_if_wanted

    def _begin_if_wanted(self) -> None:
        store = self._backend.store
        if not self._running and store.wants_compaction():
            self._backend.drop_expired()
            self._running = True
            self._scope.after(store.compact() / self._rate, self._end)

    def _end(self) -> None:
        self._running = False
        self._begin_if_wanted()


OPERATOR = "KeyedProcessOperator"
"""Operator name in the hashed identifier; the name of the vertex follows it."""


def first_delay_s(vertex: str, index: int, parallelism: int, interval_s: float) -> float:
    """Return the delay of a subtask's first materialisation in seconds, less than the interval.

    As in Flink, it is derived from a hash of the operator's identifier; the name of the vertex replaces the
    operator id.
    """
    identifier = f"{OPERATOR}_{vertex}_({index + 1}/{parallelism})"
    interval_ms = max(1, round(interval_s * 1e3))
    hashed = murmur(hash_strings([identifier]))
    return int(hashed[0]) % interval_ms / 1e3


class Materializer:
    """Materialises the state that `backend` holds for `subtask`, one of `parallelism` subtasks."""

    def __init__(self, subtask: Subtask, parallelism: int, backend: ChangelogBackend) -> None:
        self._subtask = subtask
        self._parallelism = parallelism
        self._backend = backend
        self._interval_s = subtask.environment.config.materialize_interval_s
        self._failures = 0

    @property
    def _environment(self) -> Environment:
        """The environment of the subtask, which changes of the job replace."""
        return self._subtask.environment

    def start(self) -> None:
        """Start the timer, before the task runs."""
        subtask = self._subtask
        delay_s = self._environment.costs.materialize_start_s
        if subtask.recovered_from is None:
            delay_s += first_delay_s(subtask.name, subtask.index, self._parallelism, self._interval_s)
        self._after(delay_s)

    def _after(self, delay_s: float) -> None:
        self._environment.scope.after(delay_s, self._due)

    def _due(self) -> None:
        if not self._subtask.ended:
            self._subtask.post(self._begin)

    def _begin(self) -> None:
        """Mark the state between two records and store it.

        Checkpoints use the stored state as soon as its upload has finished.
        """
        marked = self._backend.materialise()
        if marked is None:
            self._after(self._interval_s)
            return
        threshold = self._environment.config.state_memory_threshold_bytes
        written: list[StoredFile] = []

        def write(name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
            file = self._environment.storage.write(0, self._file_name(name), data, shared=True)
            written.append(file)
            return file

        try:
            handles = marked.snapshot.handles(write, threshold)
        except StorageError as error:
            delete_where_possible(self._environment.storage, written)
            self._failed(str(error))
            return
        self._backend.being_stored = written
        duration = storing_s(handles, self._environment.costs)
        self._environment.scope.after(duration, self._stored, marked, handles)

    def _file_name(self, name: str) -> str:
        """Return a name that is unique among all materialisations, attempts and runs."""
        subtask, now_us = self._subtask, round(self._environment.agenda.now * 1e6)
        from_checkpoint = subtask.recovered_from or 0
        return f"{subtask.name}-{subtask.index}-{name}-{from_checkpoint}-{now_us}"

    def _stored(self, marked: Materialisation, handles: Sequence[StateHandle]) -> None:
        self._failures = 0
        self._backend.materialised(marked.sequence, handles)
        self._subtask.trace(f"materialised {sum(handle.size for handle in handles)} bytes of state")
        self._after(self._interval_s)

    def _failed(self, cause: str) -> None:
        self._failures += 1
        self._subtask.trace(f"the materialisation failed: {cause}")
        allowed = self._environment.config.materialize_max_failures
        if self._failures > allowed:
            text = (
                f"{self._failures} materialisations failed in a row, but only {allowed} are allowed: {cause}"
            )
            self._environment.coordinator.fail_task(self._subtask, text)
        else:
            self._after(self._interval_s)
