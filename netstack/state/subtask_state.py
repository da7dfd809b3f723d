"""The state of one subtask: keyed and operator state together, with snapshots of both at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flowcontrol import SavepointFormat

from ..engine.event_clock import EventClock
from ..exchange.key_groups import key_group_range
from .backend import NO_CHECKPOINT_ID, BackendSnapshot, ReadHandle, SnapshotWork, StateBackend, WriteFile
from .changelog import ChangelogBackend, Discard, restore_logged
from .handles import Redistribution, StateHandle
from .keyed_state import KeyedStateBackend
from .operator_state import OperatorStateBackend
from .table_backend import TableSettings, TableStateBackend

__all__ = ["SubtaskState"]

TTL_CLOCK = "time of states with time-to-live"
"""Name of the operator state with the time in ms of the clock for time-to-live, from which a later run
continues.
"""


class ChangelogTerms(NamedTuple):
    """Settings of a changelog; see `ChangelogBackend`."""

    in_files: bool
    discard: Discard


class StateSnapshot:
    """The state of a subtask at one moment; a `BackendSnapshot` of several backends."""

    def __init__(self, parts: Sequence[BackendSnapshot]) -> None:
        self._parts = parts

    @property
    def work(self) -> SnapshotWork:
        """Sum of the work of all parts."""
        return SnapshotWork(*map(sum, zip(*(part.work for part in self._parts), strict=True)))

    def handles(self, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store the state and release the snapshot.

        Each backend decides by itself whether to inline its state. ``write`` is called with names that are
        unique within the subtask.

        Raises:
            StorageError: if a file could not be stored; files already stored are deleted with the checkpoint.
            StateError: if a value has a type that cannot be stored.
        """
        try:
            return [handle for part in self._parts for handle in part.handles(write, inline_up_to)]
        finally:
            self.release()

    def release(self) -> None:
        """Release the data kept for the snapshot; a second call does nothing."""
        for part in self._parts:
            part.release()


class SubtaskState:
    """The state of one of ``parallelism`` subtasks of a vertex (Flink: ``StreamOperatorStateHandler``).

    All subtasks share ``groups_of_keys``; see `KeyedStateBackend`. With ``tables``, keyed state is in a store
    of tables, else in memory. With a ``changelog``, checkpoints store the changes of keyed state. ``now``
    returns the time in seconds, for states with a time-to-live.

    Raises:
        ValueError: if ``subtask``, ``parallelism`` and ``max_parallelism`` contradict each other.
    """

    def __init__(
        self,
        vertex: str,
        subtask: int,
        parallelism: int,
        max_parallelism: int,
        groups_of_keys: dict[bytes, int] | None = None,
        changelog: ChangelogTerms | None = None,
        tables: TableSettings | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.vertex = vertex
        self.subtask = subtask
        groups = key_group_range(max_parallelism, parallelism, subtask)
        self._clock = clock = None if now is None else EventClock(now)
        self.keyed: KeyedStateBackend
        if tables is None:
            self.keyed = KeyedStateBackend(groups, max_parallelism, groups_of_keys, clock)
        else:
            name = f"{vertex}-{subtask}"
            self.keyed = TableStateBackend(name, groups, max_parallelism, groups_of_keys, tables, clock)
        self.operator = OperatorStateBackend()
        self.changelog = (
            None
            if changelog is None
            else ChangelogBackend(self.keyed, in_files=changelog.in_files, discard=changelog.discard)
        )
        self._backends: tuple[StateBackend, ...] = (self.changelog or self.keyed, self.operator)

    def snapshot(
        self, checkpoint_id: int = NO_CHECKPOINT_ID, savepoint: SavepointFormat | None = None
    ) -> StateSnapshot:
        """Mark the current state.

        This is the synchronous part, whose duration does not depend on the size of the state.
        """
        expires = self.keyed.has_expiring_states or TTL_CLOCK in self.operator.names
        if self._clock is not None and expires:
            self.operator.put(TTL_CLOCK, [self._clock.now_ms], Redistribution.UNION)
        return StateSnapshot([backend.snapshot(checkpoint_id, savepoint) for backend in self._backends])

    def restore(self, handles: Sequence[StateHandle], read: ReadHandle) -> None:
        """Add stored state, before the first record.

        Handles of channel state are ignored. Only this subtask's key groups of keyed state are restored, so
        the handles may come from several subtasks and from another parallelism. All given operator state is
        restored.

        Raises:
            StorageError: if a file could not be read.
            StateError: if the bytes are not state of a subtask.
        """
        if self.changelog is None:
            restore_logged(self.keyed, handles, read)  # there may be a log of an earlier run
        else:
            self.changelog.restore(handles, read)
        self.operator.restore(handles, read)
        if self._clock is not None:
            for reached_ms in self.operator.get(TTL_CLOCK):
                self._clock.go_on_from(reached_ms)

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Record that all subtasks have stored their part of this checkpoint."""
        for backend in self._backends:
            backend.checkpoint_completed(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Record that this checkpoint has been aborted."""
        for backend in self._backends:
            backend.checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Release resources outside memory. No state is stored afterwards; a second call does nothing."""
        for backend in self._backends:
            backend.close()
