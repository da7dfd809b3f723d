"""Handles to the bytes of a subtask's state in a checkpoint.

A handle points to bytes in a file of the checkpoint storage, or contains a small number of bytes itself. A
file may be *shared* with earlier checkpoints. When a checkpoint is deleted, its shared files stay as long as
other checkpoints use them. The terms are those of Flink's state handles and OperatorSubtaskState.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .state_kinds import StateKind

__all__ = ["Redistribution", "StateFormat", "StateHandle", "StoredFile"]


class StateFormat(StrEnum):
    """The layout of the bytes of a piece of state."""

    CANONICAL = "canonical"
    """A table of entries, or other state whose layout does not depend on the backend."""
    TABLE_FILE = "table file"
    """A table file of a state backend."""
    CATALOGUE = "catalogue"
    """The list of the table files and of the states in them, and the backend's metadata files."""
    LOG = "log"
    """A sequence of changes."""


WHOLE_FILES = frozenset({StateFormat.TABLE_FILE, StateFormat.CATALOGUE})
"""Formats whose bytes fill a file (or handle). The size of such a handle is the size that results count,
since a few of the bytes vary between runs.
"""


class Redistribution(StrEnum):
    """Redistribution of a list of operator state to subtasks (Flink's OperatorStateHandle.Mode)."""

    SPLIT = "split"
    """Each value goes to one subtask; with the same parallelism, to its former subtask."""
    UNION = "union"
    """After every restore, each subtask gets all values of all subtasks."""
    BROADCAST = "broadcast"
    """The values are equal in all subtasks, so each subtask gets the values of one former subtask."""


HELD_BACK = "records held back"
"""Name of the operator state with records that a vertex has read and not emitted yet."""


POSITION = "source position"
"""Name of the operator state with the number of records that a source has emitted."""


SPLITS = "source splits"
"""Name of the operator state that replaces the position if a subtask reads splits of other subtasks: a list
of `Split`.
"""


EVENT_TIME = "event time"
"""Name of the operator state with the event time reached, in milliseconds."""


PENDING_TRANSACTIONS = "pending transactions"
"""Name of the operator state of a sink with closed transactions that are not committed yet."""


OWED = "part of a record owed"
"""Prefix of the names of operator states with the fraction of a record still to be emitted."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the checkpoint storage; `path` is relative to the storage's root, `checksum` is SHA-256."""

    path: str
    size: int
    checksum: str
    shared: bool = False


class StateHandle(msgspec.Struct, frozen=True, kw_only=True):
    """The location of one piece of state: `size` bytes from `offset` on in `file`, or `inline`.

    For `WHOLE_FILES`, it is all of `file` or `inline`.

    `name`: the name of the state; for a table file, the name of the table, unique in the job. `key_groups`:
    the first and the last key group of keyed state. For channel state, `exchange` is the index of the gate
    (or output) within the subtask, and `channel` the index of the channel (or subpartition) within this gate
    (or output).
    """

    kind: StateKind
    format: StateFormat = StateFormat.CANONICAL
    name: str = ""
    size: int
    inline: bytes | None = None
    file: StoredFile | None = None
    offset: int = 0
    key_groups: tuple[int, int] | None = None
    exchange: int = 0
    channel: int = 0
    redistribution: Redistribution = Redistribution.SPLIT
    """Redistribution of operator state."""
    stored_before: bool = False
    """Whether the bytes were stored by an earlier checkpoint and are used again."""

    def has_some_of(self, groups: range) -> bool:
        """Whether keyed state may belong to some of these key groups."""
        if self.key_groups is None:
            return True
        first, last = self.key_groups
        return first < groups.stop and groups.start <= last
