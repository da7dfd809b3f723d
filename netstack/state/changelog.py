"""Keyed state with a changelog (FLIP-158): checkpoints store the changes, not the whole state.

Every change is applied to the state and added to the log. A checkpoint consists of a base and of the later
part of the log. The base is the whole state at the time of the last materialisation. A materialiser renews it
from time to time in the background, with `materialise` and `materialised`::

    checkpoint 6    base 1 + |------------|
    materialised             |------------|  base 2
    checkpoint 7    base 2 +              |---|
    checkpoint 8    base 2 +              |--------|

With storage in memory, the whole log is sent with each acknowledgement. With storage in files, each
checkpoint stores the new changes and refers to those that the last completed checkpoint has stored. The files
of a base and of the log are shared files: they are deleted when no retained checkpoint refers to them. After
a recovery there is no base, so each checkpoint stores the whole state until the first materialisation.

Each change has a number, its sequence. The encoding of a change suffices to replay it, without the state to
which it was first applied. All numbers are big-endian:

| bytes | content |
|---|---|
| 1 | the operation |
| 2 | the number of the state, in the order of the segment's list |
| 2, n | the key: its length, its key group and its bytes |
| 4, m | the value: its length and msgpack; length 0 if there is none |

(Flink: ``ChangelogKeyedStateBackend``, ``PeriodicMaterializationManager``, ``StateChangelogWriter``,
``StateChangeLoggerImpl``; in memory ``InMemoryStateChangelogWriter``.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from flowcontrol import SavepointFormat

from ..errors import StateError
from .backend import NO_CHECKPOINT_ID, BackendSnapshot, ReadHandle, SnapshotWork, WriteFile
from .handles import StateFormat, StateHandle, StoredFile
from .state_kinds import GROUP_BYTES, StateKind, Table
from .value_encoding import decode_value, encode_value

if TYPE_CHECKING:
    from .keyed_state import KeyedStateBackend

LAYOUT = 1
"""Number of the layout of a segment; segments with another number are rejected."""

_LENGTH_BYTES = 4
_HEAD_BYTES = 5
"""Size of operation, number of the state and length of the key."""


class Operation(IntEnum):
    """The effect of a change on the entry of a key."""

    PUT = 0
    APPEND = 1
    """Append values to an existing list."""
    REMOVE = 2


class Change(NamedTuple):
    """A change in the form in which it is replayed."""

    kind: str
    """Name of the state."""
    name: str
    operation: Operation
    key: bytes
    """Key group and key, in the form that tables use."""
    value: Any


class Segment(NamedTuple):
    """Consecutive changes, with the sequences from `begin` to `end` - 1."""

    begin: int
    end: int
    data: bytes


class Changelog:
    """The changes since the last materialisation of the state.

    `begin` is the sequence of the first change, `end` the sequence of the next one.
    """

    def __init__(self) -> None:
        self.begin = 0
        self._changes: list[bytes] = []
        self._states: list[tuple[str, str]] = []

    @property
    def end(self) -> int:
        """Sequence of the next change."""
        return self.begin + len(self._changes)

    def state(self, kind: str, name: str) -> int:
        """Register a state, and return its number for `append`."""
        self._states.append((kind, name))
        return len(self._states) - 1

    def append(self, operation: Operation, state: int, key: bytes, value: Any = None) -> None:
        """Add a change.

        Raises:
            StateError: if the value has a type that cannot be stored.
        """
        try:
            encoded = b"" if operation is Operation.REMOVE else encode_value(value)
        except StateError as error:
            raise StateError(f"state {self._states[state][1]!r}: {error}") from error
        head = bytes((operation,)) + state.to_bytes(2, "big") + len(key).to_bytes(2, "big")
        self._changes.append(head + key + len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded)

    def since(self, begin: int) -> Segment:
        """Return all changes from the sequence `begin` on; `begin` must be `end` or the sequence of a kept
        change.
        """
        states = msgspec.msgpack.encode((LAYOUT, self._states))
        data = len(states).to_bytes(_LENGTH_BYTES, "big") + states
        return Segment(begin, self.end, data + b"".join(self._changes[begin - self.begin :]))

    def truncate(self, upto: int) -> None:
        """Remove the changes before a sequence."""
        del self._changes[: upto - self.begin]
        self.begin = max(self.begin, upto)


class LoggedTable:
    """A `Table` of a state that also logs its changes."""

    __slots__ = ("_log", "_state", "_table")

    def __init__(self, table: Table, log: Changelog, kind: str, name: str) -> None:
        self._table = table
        self._log = log
        self._state = log.state(kind, name)

    def get(self, key: bytes) -> Any | None:
        """Return the value of a key, or None."""
        return self._table.get(key)

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of a key."""
        self._log.append(Operation.PUT, self._state, key, value)
        self._table.put(key, value)

    def append(self, key: bytes, values: Sequence[Any]) -> None:
        """Append values to the list of a key."""
        self._log.append(Operation.APPEND, self._state, key, list(values))
        self._table.append(key, values)

    def remove(self, key: bytes) -> None:
        """Remove a key."""
        self._log.append(Operation.REMOVE, self._state, key)
        self._table.remove(key)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys, ascending."""
        return iter(self._table)

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the keys with this prefix, ascending."""
        return self._table.beginning_with(prefix)


def changes_in(data: bytes) -> Iterator[Change]:
    """Yield the changes of a segment, in order.

    Raises:
        StateError: if the bytes are not a segment, or have an unknown layout.
    """
    try:
        states, offset = _states_in(data)
        while offset < len(data):
            operation = Operation(data[offset])
            kind, name = states[int.from_bytes(data[offset + 1 : offset + 3], "big")]
            key_ends = offset + _HEAD_BYTES + int.from_bytes(data[offset + 3 : offset + 5], "big")
            begins = key_ends + _LENGTH_BYTES
            ends = begins + int.from_bytes(data[key_ends:begins], "big")
            if ends > len(data) or key_ends < offset + _HEAD_BYTES + GROUP_BYTES:
                raise ValueError
            value = None if operation is Operation.REMOVE else decode_value(data[begins:ends])
            yield Change(kind, name, operation, data[offset + _HEAD_BYTES : key_ends], value)
            offset = ends
    except (ValueError, IndexError):
        raise StateError("a changelog is damaged: its entries cannot be read") from None


def _states_in(data: bytes) -> tuple[list[tuple[str, str]], int]:
    """Return kind and name of the states of a segment, and the offset of its changes."""
    ends = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
    match decode_value(data[_LENGTH_BYTES:ends]):
        case [layout, [*states]] if layout == LAYOUT:
            return [_state(each) for each in states], ends
        case _:
            raise ValueError


def _state(entry: object) -> tuple[str, str]:
    match entry:
        case [str(kind), str(name)]:
            return kind, name
        case _:
            raise ValueError


FILE_NAME = "changelog"

Discard = Callable[[Iterable[StoredFile]], None]
"""Deletes those of the given files that no retained checkpoint refers to."""


class _Part(NamedTuple):
    """The changes in one stored file of the log."""

    begin: int
    end: int
    handle: StateHandle


class ChangelogSnapshot:
    """Base and log at one moment; a `BackendSnapshot`."""

    def __init__(
        self,
        backend: ChangelogBackend,
        checkpoint_id: int,
        stored: Sequence[StateHandle],
        segment: Segment | None,
    ) -> None:
        self.work = SnapshotWork(logged_bytes=0 if segment is None else len(segment.data))
        self._backend = backend
        self._checkpoint_id = checkpoint_id
        self._stored = [replace(handle, stored_before=True) for handle in stored]
        self._segment = segment

    def handles(self, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store the new changes, and return handles to the base and all changes."""
        handles = list(self._stored)
        if self._segment is not None:
            handles.append(self._backend.stored(self._checkpoint_id, self._segment, write))
        return handles

    def release(self) -> None:
        """Do nothing: the snapshot keeps no data of the backend."""


@dataclass(slots=True, eq=False)
class _Base:
    """A base, and the checkpoints that use it."""

    handles: tuple[StateHandle, ...]
    is_named: bool = False
    """Whether a completed checkpoint refers to the base's files, which are then deleted together with that
    checkpoint.
    """
    pending: set[int] = field(default_factory=set)
    """Pending checkpoints that refer to the base."""


class Materialisation(NamedTuple):
    """The whole state, to be stored, and the sequence of the first change that it does not contain."""

    sequence: int
    snapshot: BackendSnapshot


class ChangelogBackend:
    """Keyed state whose changes are stored; a `StateBackend`.

    `keyed` holds the state. `in_files`: whether each part of the log is stored once, in a file; if not, the
    handles of each checkpoint contain the whole log. `discard` is called with files of bases that are no
    longer needed. `being_stored`: the files of a base that is not complete yet.
    """

    def __init__(self, keyed: KeyedStateBackend, *, in_files: bool, discard: Discard) -> None:
        self.log = Changelog()
        self.being_stored: Sequence[StoredFile] = ()
        self._keyed = keyed
        self._in_files = in_files
        self._discard = discard
        self._base: _Base | None = _Base(())
        self._former: list[_Base] = []  # bases that pending checkpoints may still refer to
        self._parts: list[_Part] = []
        self._unconfirmed: dict[int, list[_Part]] = {}  # the parts of each unconfirmed checkpoint
        keyed.log_to(self.log)

    def snapshot(
        self, checkpoint_id: int = NO_CHECKPOINT_ID, savepoint: SavepointFormat | None = None
    ) -> BackendSnapshot:
        """Mark the current base and log for a checkpoint, or the whole state: for a savepoint, or if there is
        no base yet.
        """
        if savepoint is not None:
            return self._keyed.snapshot(checkpoint_id, savepoint)
        if self._base is None:
            return self._whole(checkpoint_id)
        self._base.pending.add(checkpoint_id)
        parts = self._retained_parts()
        begin = parts[-1].end if parts else self.log.begin
        segment = self.log.since(begin) if self.log.end > begin else None
        self._unconfirmed[checkpoint_id] = parts
        stored = (*self._base.handles, *(part.handle for part in parts))
        return ChangelogSnapshot(self, checkpoint_id, stored, segment)

    def _retained_parts(self) -> list[_Part]:
        """Return the parts of the log to which a checkpoint taken now can refer.

        A checkpoint may be complete although this has not been reported to the backend yet. So only those
        parts are returned to which the last reported checkpoint and all later checkpoints refer; they will
        not be deleted.
        """
        parts = list(self._parts)
        for named in self._unconfirmed.values():
            pairs = zip(parts, named, strict=False)
            parts = [part for part, other in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        return parts

    def stored(self, checkpoint_id: int, segment: Segment, write: WriteFile) -> StateHandle:
        """Store a segment for a checkpoint, and return its handle."""
        groups = self._keyed.key_groups
        handle = StateHandle(
            kind=StateKind.KEYED,
            name=FILE_NAME,
            format=StateFormat.LOG,
            size=len(segment.data),
            key_groups=(groups.start, groups.stop - 1),
        )
        if not self._in_files:
            return replace(handle, inline=segment.data)
        name = f"{FILE_NAME}-{segment.begin}-{segment.end}-{checkpoint_id}"
        handle = replace(handle, file=write(name, segment.data, shared=True))
        named = self._unconfirmed.get(checkpoint_id)
        if named is not None:  # else it was aborted meanwhile
            named.append(_Part(segment.begin, segment.end, handle))
        return handle

    def materialise(self) -> Materialisation | None:
        """Mark the whole current state to be stored; None if nothing has changed since the last
        materialisation.
        """
        if self._base is not None and self.log.end == self.log.begin:
            return None
        return Materialisation(self.log.end, self._whole())

    def _whole(self, checkpoint_id: int = NO_CHECKPOINT_ID) -> BackendSnapshot:
        """Mark the whole state, without references to files that may be deleted later."""
        return self._keyed.snapshot(checkpoint_id, SavepointFormat.NATIVE)

    def materialised(self, sequence: int, handles: Sequence[StateHandle]) -> None:
        """Use these handles as the base of later checkpoints, with the changes from `sequence` on."""
        self.being_stored = ()
        if self._base is not None:
            self._former.append(self._base)
        self._base = _Base(tuple(handles))
        self.log.truncate(sequence)
        self._parts = self._usable(self._parts)
        self._discard_former()

    def _usable(self, parts: Sequence[_Part]) -> list[_Part]:
        """Return the given consecutive parts, except those whose changes the base already contains."""
        left = [part for part in parts if part.begin >= self.log.begin]
        return left if left and left[0].begin == self.log.begin else []

    def _discard_former(self) -> None:
        """Discard the files of former bases that no checkpoint, completed or pending, refers to."""
        unused = [base for base in self._former if not base.pending]
        self._former = [base for base in self._former if base.pending]
        files = [handle.file for base in unused if not base.is_named for handle in base.handles]
        if stored := [file for file in files if file is not None]:
            self._discard(stored)

    def restore(self, handles: Sequence[StateHandle], read: ReadHandle) -> None:
        """Add the state of the base, and replay the changes of this subtask's key groups from the log.

        Raises:
            StorageError: if a file could not be read.
            StateError: if the bytes are not keyed state or its log.
        """
        restore_logged(self._keyed, handles, read)
        self.log.truncate(self.log.end)  # writes during a restore are not changes
        self._base = None

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Let later checkpoints use the parts of the log that this checkpoint has stored."""
        for base in self._bases():
            base.is_named = base.is_named or checkpoint_id in base.pending
            base.pending = {number for number in base.pending if number > checkpoint_id}
        named = self._unconfirmed.pop(checkpoint_id, None)
        if named is not None:  # parts that only older ones refer to are dropped with them
            self._parts = self._usable(named)
        self._unconfirmed = {
            number: parts for number, parts in self._unconfirmed.items() if number > checkpoint_id
        }
        self._discard_former()

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forget the files of this checkpoint, which have been or will be deleted."""
        for base in self._bases():
            base.pending.discard(checkpoint_id)
        self._unconfirmed.pop(checkpoint_id, None)
        self._discard_former()

    def _bases(self) -> list[_Base]:
        return self._former if self._base is None else [*self._former, self._base]

    def close(self) -> None:
        """Discard all bases, including those of pending checkpoints: no more state will be stored."""
        self._former, self._base = self._bases(), None
        for base in self._former:
            base.pending.clear()
            base.is_named = False  # as far as this subtask knows
        self._discard_former()
        unfinished, self.being_stored = self.being_stored, ()
        if unfinished:
            self._discard(unfinished)
        self._keyed.close()


def restore_logged(keyed: KeyedStateBackend, handles: Sequence[StateHandle], read: ReadHandle) -> None:
    """Add the state of a base to keyed state, and replay the changes of its key groups from logs.

    Raises:
        StorageError: if a file could not be read.
        StateError: if the bytes are not keyed state or its log.
    """
    keyed.restore([handle for handle in handles if handle.format is not StateFormat.LOG], read)
    for handle in handles:
        if handle.format is StateFormat.LOG:
            for change in changes_in(read(handle)):
                keyed.replay(change)
