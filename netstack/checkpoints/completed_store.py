"""The completed checkpoints that a job can go back to, and the files that they share.

The store keeps the newest ones. An older one is deleted only after a newer one is complete, so there always
is one from the first on. A completed checkpoint registers its shared files, by keys that their writers know.
While a key is known, its first file stays: a task that has stored the same content again, before it heard
that the first checkpoint is complete, gets that file instead of its own. A checkpoint that falls out of
retention is unregistered, and a file is deleted with its last user. A failed checkpoint was never registered.

::

    two retained    1   2   3   4   (1,2,3)   5   (4,5,6)     uses of each table file
    checkpoint 1    1   1
    checkpoint 2    2   2   1   1
    checkpoint 3    1   1   1   2      1      1               checkpoint 1 goes
    checkpoint 4    -   -   -   1      2      1      1        checkpoint 2 goes, with 1, 2 and 3

Checkpoints come and go in the order of their ids, so a file has no user left exactly if the last one that
used it is older than the oldest that is retained. The rules are those of Flink's CompletedCheckpointStore and
SharedStateRegistry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from ..errors import StorageError
from ..state.snapshots import CheckpointMetadata, StateFormat, StateHandle, StoredFile
from .recovery import ClaimMode, InitialCheckpoint
from .storage import CheckpointStorage


class CompletedCheckpointStore:
    """Keeps the newest `retained` completed checkpoints in `storage`; outlives restarts of the job.

    It begins with the checkpoints in `stored`, oldest first. The checkpoint `initial` of an earlier run
    counts as the oldest one, and is forgotten in its turn, or deleted if this run has claimed it. What cannot
    be deleted is left where it is: it belongs to no checkpoint any more and harms none.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        retained: int,
        stored: Iterable[CheckpointMetadata] = (),
        initial: InitialCheckpoint | None = None,
    ) -> None:
        self.storage = storage
        self._retained = retained
        self._initial = initial
        earlier = list(stored)
        self._checkpoints = [*([] if initial is None else [initial.metadata]), *earlier]
        self._registry = SharedStateRegistry()
        for metadata in earlier:
            self._registry.register(metadata.checkpoint_id, shared_files(metadata))
        if initial is not None and initial.shares_files:
            # Beside it, there may be others of the earlier run; their files are theirs for good.
            for number in initial.storage.checkpoints():
                if number < initial.next_id:
                    self._registry.register(number, shared_files(initial.storage.load(number)))

    @property
    def checkpoints(self) -> tuple[CheckpointMetadata, ...]:
        """The retained checkpoints, oldest first."""
        return tuple(self._checkpoints)

    @property
    def latest(self) -> CheckpointMetadata | None:
        """The checkpoint to restart from; None before the first."""
        return self._checkpoints[-1] if self._checkpoints else None

    def add(self, metadata: CheckpointMetadata) -> None:
        """Complete a checkpoint, then delete the oldest one if there are too many now.

        Where one before has a shared file of the same content, it is completed with that one instead.

        Raises:
            StorageError: if it cannot be completed. Nothing has changed.
        """
        number = metadata.checkpoint_id
        kept = self._registry.register(number, shared_files(metadata))
        duplicates = [file for file in metadata.files.values() if file.path in kept]
        if kept:
            metadata = _with(kept, metadata)
        try:
            self.storage.complete(metadata)
        except StorageError:
            self._registry.unregister(number)
            raise
        self._checkpoints.append(metadata)
        self._delete(duplicates)
        if len(self._checkpoints) > self._retained:
            oldest = self._checkpoints.pop(0)
            if self._initial is None or oldest is not self._initial.metadata:
                self.discard(oldest.checkpoint_id, self._registry.unregister(oldest.checkpoint_id))
            elif self._initial.claim_mode is ClaimMode.CLAIM:
                self._delete_claimed(self._initial)

    def _delete_claimed(self, initial: InitialCheckpoint) -> None:
        """Delete the checkpoint of another run, and its shared files that no other checkpoint names."""
        number, storage = initial.metadata.checkpoint_id, initial.storage
        if initial.in_place:
            self.discard(number, self._registry.unregister(number))
            return
        with suppress(StorageError):
            storage.discard(number)
            named = {path for other in storage.checkpoints() for path in storage.load(other).files}
            files = initial.metadata.files.items()
            storage.delete([file for path, file in files if file.shared and path not in named])

    def forget(self, metadata: CheckpointMetadata) -> None:
        """Never go back to a checkpoint that cannot be restored; its files stay for inspection."""
        self._checkpoints.remove(metadata)

    def discard(self, checkpoint_id: int, shared: Iterable[StoredFile]) -> None:
        """Delete a checkpoint, complete or not, and those of its shared files that no retained one uses."""
        with suppress(StorageError):
            self.storage.discard(checkpoint_id)
        self._delete(file for file in shared if not self._registry.has(file))

    def delete_unused(self, files: Iterable[StoredFile]) -> None:
        """Delete those of the files, shared or not, that no retained checkpoint has."""
        kept = [checkpoint.files for checkpoint in self._checkpoints]
        self._delete(
            file
            for file in files
            if not self._registry.has(file) and not any(file.path in paths for paths in kept)
        )

    def _delete(self, files: Iterable[StoredFile]) -> None:
        unused = {file.path: file for file in files}
        if unused:
            with suppress(StorageError):
                self.storage.delete(unused.values())


def _with(kept: Mapping[str, StoredFile], metadata: CheckpointMetadata) -> CheckpointMetadata:
    """Return the metadata with the files of `kept` in place of those with its paths."""

    def with_kept(handle: StateHandle) -> StateHandle:
        file = None if handle.file is None else kept.get(handle.file.path)
        return handle if file is None else replace(handle, file=file)

    subtasks = tuple(
        replace(snapshot, handles=tuple(map(with_kept, snapshot.handles))) for snapshot in metadata.subtasks
    )
    return replace(metadata, subtasks=subtasks)


SharedKey = str
"""The writer's name of a shared file: two files of one key have the same content."""


@dataclass(slots=True)
class _Entry:
    file: StoredFile
    users: set[int] = field(default_factory=set)


class SharedStateRegistry:
    """The shared files of the completed checkpoints that are retained."""

    def __init__(self) -> None:
        self._entries: dict[SharedKey, _Entry] = {}
        self._paths: set[str] = set()

    def register(
        self, checkpoint_id: int, files: Iterable[tuple[SharedKey, StoredFile]]
    ) -> dict[str, StoredFile]:
        """Let a checkpoint use files.

        Returns by path, of files that are duplicates of others, those that are to be used in their place;
        the duplicates may be deleted once the checkpoint is complete.
        """
        kept = {}
        for key, file in files:
            entry = self._entries.setdefault(key, _Entry(file))
            entry.users.add(checkpoint_id)
            self._paths.add(entry.file.path)
            if entry.file.path != file.path:
                kept[file.path] = entry.file
        return kept

    def unregister(self, checkpoint_id: int) -> list[StoredFile]:
        """Remove a checkpoint; returns the files that no checkpoint uses any more."""
        unused = []
        for key, entry in list(self._entries.items()):
            entry.users.discard(checkpoint_id)
            if not entry.users:
                del self._entries[key]
                self._paths.discard(entry.file.path)
                unused.append(entry.file)
        return unused

    def has(self, file: StoredFile) -> bool:
        """Whether a checkpoint uses a file."""
        return file.path in self._paths

    def users(self, key: SharedKey) -> set[int]:
        """Return the ids of the checkpoints that use the file of a key."""
        return set(self._entries[key].users) if key in self._entries else set()


def shared_files(metadata: CheckpointMetadata) -> Iterator[tuple[SharedKey, StoredFile]]:
    """Yield the shared files of a checkpoint with their keys."""
    for snapshot in metadata.subtasks:
        for handle in snapshot.handles:
            if handle.file is not None and handle.file.shared:
                path, table = handle.file.path, f"{snapshot.vertex}[{snapshot.subtask}] {handle.name}"
                yield table if handle.format is StateFormat.TABLE_FILE else path, handle.file
