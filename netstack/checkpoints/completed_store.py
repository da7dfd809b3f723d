"""Store of the completed checkpoints that a job can restart from, and registry of their shared files.

The store keeps the newest checkpoints. It deletes an older checkpoint only after a newer one is complete, so
one checkpoint is always left.

Several checkpoints may share a file. A completed checkpoint registers each of its shared files under a key;
files with the same key have the same content. A task may store a file again before it learns that the first
checkpoint is complete. The new checkpoint then refers to the file that was registered first. When the store
deletes a checkpoint, it also deletes the shared files that no other checkpoint uses. Failed checkpoints are
never registered.

Here the store retains two checkpoints. After each checkpoint, so many of them use each table file::

    table file      1   2   3   4   merged 1-3   5   merged 4-6
    checkpoint 1    1   1
    checkpoint 2    2   2   1   1
    checkpoint 3    1   1   1   2       1        1                checkpoint 1 is deleted
    checkpoint 4    -   -   -   1       2        1       1        checkpoint 2 and files 1 to 3 are deleted

Checkpoints are added and deleted in the order of their ids. So a file becomes unused when the newest
checkpoint that uses it is deleted. The rules are those of Flink's CompletedCheckpointStore and
SharedStateRegistry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from ..errors import StorageError
from ..state.handles import StateFormat, StateHandle, StoredFile
from .metadata import CheckpointMetadata
from .recovery import ClaimMode, InitialCheckpoint
from .storage import CheckpointStorage, delete_where_possible


class CompletedCheckpointStore:
    """Keeps the newest `retained` completed checkpoints in `storage`; survives restarts of the job.

    It starts with the checkpoints in `stored`, oldest first. The checkpoint `initial` of an earlier run
    counts as the oldest one. When `initial` is no longer retained, the store deletes it only if this run has
    claimed it. Files that cannot be deleted stay; they belong to no checkpoint and do no harm.
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
            # The storage may hold other checkpoints of the earlier run, whose shared files must stay.
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
        """Store a completed checkpoint, then delete the oldest one if there are too many.

        If an earlier checkpoint has a shared file with the same content, the new checkpoint refers to that
        file, and the duplicate is deleted.

        Raises:
            StorageError: if the metadata cannot be stored. The store is unchanged.
        """
        number = metadata.checkpoint_id
        originals = self._registry.register(number, shared_files(metadata))
        duplicates = [file for file in metadata.files.values() if file.path in originals]
        if originals:
            metadata = _with_originals(metadata, originals)
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
        """Delete the claimed checkpoint of another run, and shared files that no other checkpoint uses."""
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
        """Remove a checkpoint that cannot be restored; its files stay for inspection."""
        self._checkpoints.remove(metadata)

    def discard(self, checkpoint_id: int, shared: Iterable[StoredFile]) -> None:
        """Delete a checkpoint, complete or not, and the `shared` files that no retained checkpoint uses."""
        with suppress(StorageError):
            self.storage.discard(checkpoint_id)
        self._delete(file for file in shared if not self._registry.has(file))

    def delete_unused(self, files: Iterable[StoredFile]) -> None:
        """Delete those of the given files, shared or not, that no retained checkpoint uses."""
        kept = [checkpoint.files for checkpoint in self._checkpoints]
        self._delete(
            file
            for file in files
            if not self._registry.has(file) and not any(file.path in paths for paths in kept)
        )

    def _delete(self, files: Iterable[StoredFile]) -> None:
        unused = {file.path: file for file in files}
        if unused:
            delete_where_possible(self.storage, unused.values())


def _with_originals(metadata: CheckpointMetadata, originals: Mapping[str, StoredFile]) -> CheckpointMetadata:
    """Return the metadata with each duplicate replaced; `originals` holds the replacements by path."""

    def of_original(handle: StateHandle) -> StateHandle:
        file = None if handle.file is None else originals.get(handle.file.path)
        return handle if file is None else replace(handle, file=file)

    subtasks = tuple(
        replace(snapshot, handles=tuple(map(of_original, snapshot.handles))) for snapshot in metadata.subtasks
    )
    return replace(metadata, subtasks=subtasks)


SharedKey = str
"""Key of a shared file; files with the same key have the same content."""


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
        """Register the shared files of a checkpoint.

        A file is a duplicate if another file is registered under its key. Returns the registered file for
        each duplicate, by the duplicate's path. The caller may delete the duplicates when the checkpoint is
        complete.
        """
        originals = {}
        for key, file in files:
            entry = self._entries.setdefault(key, _Entry(file))
            entry.users.add(checkpoint_id)
            self._paths.add(entry.file.path)
            if entry.file.path != file.path:
                originals[file.path] = entry.file
        return originals

    def unregister(self, checkpoint_id: int) -> list[StoredFile]:
        """Unregister a checkpoint; returns the files that no checkpoint uses any more."""
        unused = []
        for key, entry in list(self._entries.items()):
            entry.users.discard(checkpoint_id)
            if not entry.users:
                del self._entries[key]
                self._paths.discard(entry.file.path)
                unused.append(entry.file)
        return unused

    def has(self, file: StoredFile) -> bool:
        """Whether a registered checkpoint uses a file."""
        return file.path in self._paths

    def users(self, key: SharedKey) -> set[int]:
        """Return the ids of the checkpoints that use the file with this key."""
        return set(self._entries[key].users) if key in self._entries else set()


def shared_files(metadata: CheckpointMetadata) -> Iterator[tuple[SharedKey, StoredFile]]:
    """Yield the shared files of a checkpoint with their keys."""
    for snapshot in metadata.subtasks:
        for handle in snapshot.handles:
            if handle.file is not None and handle.file.shared:
                path, table = handle.file.path, f"{snapshot.vertex}[{snapshot.subtask}] {handle.name}"
                yield table if handle.format is StateFormat.TABLE_FILE else path, handle.file
