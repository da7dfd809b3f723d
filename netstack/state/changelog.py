"""Keyed state with a changelog (FLIP-158): checkpoints store the changes, however large the state is.

Every change goes to the state and to the log. A checkpoint consists of the state as it was last stored as a
whole, its base, and the log since. A materialiser renews the base from time to time, beside the work, by
`materialise` and `materialised`::

    checkpoint 6    base 1 + |------------|
    materialised             |------------|  base 2
    checkpoint 7    base 2 +              |---|
    checkpoint 8    base 2 +              |--------|

In memory the whole log travels with each acknowledgement; in files each checkpoint stores what is new, and
uses what the last completed one has stored. A base and the files of the log are shared files: they are
deleted when no retained checkpoint names them. After a recovery there is no base, so each checkpoint stores
the whole state until there is one.

Each change has a number, its sequence. It is laid out so that it can be replayed without the state that it
was made in, numbers big-endian:

| bytes | content |
|---|---|
| 1 | the operation |
| 2 | the number of the state, in the order of the segment's list |
| 2, n | the key: its length, its key group and its bytes |
| 4, m | the value: its length and msgpack; length 0 where there is none |

(Flink: ``ChangelogKeyedStateBackend``, ``PeriodicMaterializationManager``, ``StateChangelogWriter``,
``StateChangeLoggerImpl``; in memory ``InMemoryStateChangelogWriter``.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from flowcontrol import SavepointFormat

from ..errors import StateError
from .backend import NO_CHECKPOINT_ID, BackendSnapshot, ReadHandle, SnapshotWork, WriteFile
from .snapshots import StateFormat, StateHandle, StateKind, StoredFile
from .state_kinds import GROUP_BYTES, Table
from .value_encoding import decode_value, encode_value

if TYPE_CHECKING:
    from .keyed_state import KeyedStateBackend

LAYOUT = 1
"""Number of the layout of a segment; another one is refused."""

_LENGTH_BYTES = 4
_HEAD_BYTES = 5
"""Layout of operation, number of the state and length of the key."""


class Operation(IntEnum):
    """The effect of a change on the entry of a key."""

    PUT = 0
    APPEND = 1
    """Adds values to the list that is there."""
    REMOVE = 2


class Change(NamedTuple):
    """A change as it is replayed."""

    kind: str
    """Name of the state."""
    name: str
    operation: Operation
    key: bytes
    """Key group and key, as tables have it."""
    value: Any


class Segment(NamedTuple):
    """Changes that follow each other: those with the sequences `begin` to before `end`."""

    begin: int
    end: int
    data: bytes


class Changelog:
    """The changes since the state was last stored as a whole.

    `begin` is the sequence of the first one, `end` that of the next one to come.
    """

    def __init__(self) -> None:
        self.begin = 0
        self._changes: list[bytes] = []
        self._states: list[tuple[str, str]] = []

    @property
    def end(self) -> int:
        """The sequence of the next change."""
        return self.begin + len(self._changes)

    def state(self, kind: str, name: str) -> int:
        """Return the number of a state, which `append` is given."""
        self._states.append((kind, name))
        return len(self._states) - 1

    def append(self, operation: Operation, state: int, key: bytes, value: Any = None) -> None:
        """Add a change.

        Raises:
            StateError: The value is of a type that cannot be stored.
        """
        try:
            encoded = b"" if operation is Operation.REMOVE else encode_value(value)
        except StateError as error:
            raise StateError(f"state {self._states[state][1]!r}: {error}") from error
        head = bytes((operation,)) + state.to_bytes(2, "big") + len(key).to_bytes(2, "big")
        self._changes.append(head + key + len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded)

    def since(self, begin: int) -> Segment:
        """Return all changes from a sequence on, which is one of those kept or the next."""
        states = msgspec.msgpack.encode((LAYOUT, self._states))
        data = len(states).to_bytes(_LENGTH_BYTES, "big") + states
        return Segment(begin, self.end, data + b"".join(self._changes[begin - self.begin :]))

    def truncate(self, upto: int) -> None:
        """Forget the changes before a sequence."""
        del self._changes[: upto - self.begin]
        self.begin = max(self.begin, upto)


class LoggedTable:
    """A table of a state whose changes go to a log too; a `Table`."""

    __slots__ = ("_log", "_state", "_table")

    def __init__(self, table: Table, log: Changelog, kind: str, name: str) -> None:
        self._table = table
        self._log = log
        self._state = log.state(kind, name)

    def get(self, key: bytes) -> Any | None:
        """Return the value of a key, None if there is none."""
        return self._table.get(key)

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of a key."""
        self._log.append(Operation.PUT, self._state, key, value)
        self._table.put(key, value)

    def append(self, key: bytes, values: Sequence[Any]) -> None:
        """Add values to the list of a key."""
        self._log.append(Operation.APPEND, self._state, key, list(values))
        self._table.append(key, values)

    def remove(self, key: bytes) -> None:
        """Forget a key."""
        self._log.append(Operation.REMOVE, self._state, key)
        self._table.remove(key)

    def __iter__(self) -> Iterator[bytes]:
        """The keys, ascending."""
        return iter(self._table)

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """The keys that begin so, ascending."""
        return self._table.beginning_with(prefix)


def changes_in(data: bytes) -> Iterator[Change]:
    """Yield the changes of a segment in their order.

    Raises:
        StateError: The bytes are not those of a segment, or of a layout that is not known.
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
        raise StateError("a changelog is not laid out as it should be") from None


def _states_in(data: bytes) -> tuple[list[tuple[str, str]], int]:
    """Return the states of a segment, kind and name, and the offset of its changes."""
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
"""Deletes those of some files that no retained checkpoint names."""


class _Part(NamedTuple):
    """Changes that a file has, which a checkpoint has stored."""

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
        whole: BackendSnapshot | None,
        segment: Segment | None,
    ) -> None:
        logged = SnapshotWork(logged_bytes=0 if segment is None else len(segment.data))
        self.work = logged if whole is None else whole.work
        self._backend = backend
        self._checkpoint_id = checkpoint_id
        self._stored = [replace(handle, stored_before=True) for handle in stored]
        self._whole = whole
        self._segment = segment

    def handles(self, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store what is new, and return handles to all of it."""
        if self._whole is not None:
            return self._whole.handles(write, inline_up_to)
        handles = list(self._stored)
        if self._segment is not None:
            handles.append(self._backend.stored(self._checkpoint_id, self._segment, write))
        return handles

    def release(self) -> None:
        """Give up what is kept for the snapshot."""
        if self._whole is not None:
            self._whole.release()


@dataclass(slots=True, eq=False)
class _Base:
    """The base of checkpoints, and the checkpoints that use it."""

    handles: tuple[StateHandle, ...]
    is_named: bool = False
    """Whether a completed checkpoint names its files, so that they go with that."""
    pending: set[int] = field(default_factory=set)
    """Checkpoints that would name it and have not completed."""


class Materialisation(NamedTuple):
    """The state as a whole, to be stored, and the sequence up to which it has the changes."""

    sequence: int
    snapshot: BackendSnapshot


class ChangelogBackend:
    """Keyed state whose changes are stored; a `StateBackend`.

    `keyed` keeps the state. `in_files` says where the log is stored: in files, each part once, or in the
    handles. `discard` is given files of bases that it no longer rests on. `being_stored` are those of a base
    that is not complete yet.
    """

    def __init__(self, keyed: KeyedStateBackend, *, in_files: bool, discard: Discard) -> None:
        self.log = Changelog()
        self.being_stored: Sequence[StoredFile] = ()
        self._keyed = keyed
        self._in_files = in_files
        self._discard = discard
        self._base: _Base | None = _Base(())
        self._former: list[_Base] = []  # which pending checkpoints may still name
        self._parts: list[_Part] = []
        self._unconfirmed: dict[int, list[_Part]] = {}  # all that a checkpoint names, and has stored
        keyed.log_to(self.log)

    def snapshot(
        self, checkpoint_id: int = NO_CHECKPOINT_ID, savepoint: SavepointFormat | None = None
    ) -> BackendSnapshot:
        """Mark base and log as they are now; for a savepoint the state itself, as a whole."""
        if savepoint is not None:
            return self._keyed.snapshot(checkpoint_id, savepoint)
        if self._base is None:
            return ChangelogSnapshot(self, checkpoint_id, (), self._whole(checkpoint_id), None)
        self._base.pending.add(checkpoint_id)
        parts = self._retained_parts()
        begin = parts[-1].end if parts else self.log.begin
        segment = self.log.since(begin) if self.log.end > begin else None
        self._unconfirmed[checkpoint_id] = parts
        stored = (*self._base.handles, *(part.handle for part in parts))
        return ChangelogSnapshot(self, checkpoint_id, stored, None, segment)

    def _retained_parts(self) -> list[_Part]:
        """The parts that are there for as long as a checkpoint may need that is taken now.

        The newest completed checkpoint is the last one heard of, or one after it: what all of these name is
        not deleted.
        """
        parts = list(self._parts)
        for named in self._unconfirmed.values():
            common = 0
            while common < min(len(parts), len(named)) and parts[common] == named[common]:
                common += 1
            del parts[common:]
        return parts

    def stored(self, checkpoint_id: int, segment: Segment, write: WriteFile) -> StateHandle:
        """Store a segment for a checkpoint, and return the handle to it."""
        size, groups = len(segment.data), (self._keyed.key_groups.start, self._keyed.key_groups.stop - 1)
        handle = StateHandle(
            kind=StateKind.KEYED, name=FILE_NAME, format=StateFormat.LOG, size=size, key_groups=groups
        )
        if not self._in_files:
            return replace(handle, inline=segment.data)
        name = f"{FILE_NAME}-{segment.begin}-{segment.end}-{checkpoint_id}"
        handle = replace(handle, file=write(name, segment.data, shared=True))
        named = self._unconfirmed.get(checkpoint_id)
        if named is not None:  # else it was given up meanwhile
            named.append(_Part(segment.begin, segment.end, handle))
        return handle

    def materialise(self) -> Materialisation | None:
        """Mark the state as it is now, to be stored as a whole; None: nothing has changed since it was."""
        if self._base is not None and self.log.end == self.log.begin:
            return None
        return Materialisation(self.log.end, self._whole())

    def _whole(self, checkpoint_id: int = NO_CHECKPOINT_ID) -> BackendSnapshot:
        """Mark the state so that it rests on nothing that others may delete."""
        return self._keyed.snapshot(checkpoint_id, SavepointFormat.NATIVE)

    def materialised(self, sequence: int, handles: Sequence[StateHandle]) -> None:
        """Rest checkpoints on these handles from now on, and on the changes from a sequence on."""
        self.being_stored = ()
        if self._base is not None:
            self._former.append(self._base)
        self._base = _Base(tuple(handles))
        self.log.truncate(sequence)
        self._parts = self._usable(self._parts)
        self._discard_former()

    def _usable(self, parts: Sequence[_Part]) -> list[_Part]:
        """Those of some parts, which follow each other, that follow the base."""
        left = [part for part in parts if part.begin >= self.log.begin]
        return left if left and left[0].begin == self.log.begin else []

    def _discard_former(self) -> None:
        """Let go of former bases that no checkpoint names, nor is about to."""
        unused = [base for base in self._former if not base.pending]
        self._former = [base for base in self._former if base.pending]
        files = [handle.file for base in unused if not base.is_named for handle in base.handles]
        if stored := [file for file in files if file is not None]:
            self._discard(stored)

    def restore(self, handles: Sequence[StateHandle], read: ReadHandle) -> None:
        """Add the state of the base, and replay what the log has of the own key groups.

        Raises:
            StorageError: A file could not be read.
            StateError: The bytes are not those of keyed state, or of its log.
        """
        restore_logged(self._keyed, handles, read)
        self.log.truncate(self.log.end)  # what was put while restoring is no change
        self._base = None

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Let later checkpoints use the parts of the log that this one has stored."""
        for base in self._bases():
            base.is_named = base.is_named or checkpoint_id in base.pending
            base.pending = {number for number in base.pending if number > checkpoint_id}
        named = self._unconfirmed.pop(checkpoint_id, None)
        if named is not None:  # those that only older ones name go with these
            self._parts = self._usable(named)
        self._unconfirmed = {
            number: parts for number, parts in self._unconfirmed.items() if number > checkpoint_id
        }
        self._discard_former()

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forget what this checkpoint has stored, which is or will be deleted."""
        for base in self._bases():
            base.pending.discard(checkpoint_id)
        self._unconfirmed.pop(checkpoint_id, None)
        self._discard_former()

    def _bases(self) -> list[_Base]:
        return self._former if self._base is None else [*self._former, self._base]

    def close(self) -> None:
        """Release all bases, also those of pending checkpoints: nothing is stored any more."""
        self._former, self._base = self._bases(), None
        for base in self._former:
            base.pending.clear()
            base.is_named = False  # as far as this subtask has heard
        self._discard_former()
        unfinished, self.being_stored = self.being_stored, ()
        if unfinished:
            self._discard(unfinished)
        self._keyed.close()


def restore_logged(keyed: KeyedStateBackend, handles: Sequence[StateHandle], read: ReadHandle) -> None:
    """Add the state of a base to keyed state, and replay what logs have of its key groups.

    Raises:
        StorageError: A file could not be read.
        StateError: The bytes are not those of keyed state, or of its log.
    """
    keyed.restore([handle for handle in handles if handle.format is not StateFormat.LOG], read)
    for handle in handles:
        if handle.format is StateFormat.LOG:
            for change in changes_in(read(handle)):
                keyed.replay(change)
