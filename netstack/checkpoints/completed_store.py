"""The checkpoints that a job can go back to: the newest completed ones, and the files they need.

An older one is deleted only after a newer one is complete, so there always is one from the first on.
Shared files go when no checkpoint needs them any more. The rules are those of Flink's
CompletedCheckpointStore and SharedStateRegistry.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from ..state.snapshots import CheckpointMetadata, StoredFile
from .storage import CheckpointStorage, StorageError


class CompletedCheckpointStore:
    """Keeps the newest `retained` completed checkpoints in `storage`; outlives restarts of the job.

    It begins with `stored`, what is there already, oldest first. The checkpoint `initial` of an earlier run
    counts as the oldest one, and is forgotten in its turn but never deleted. What cannot be deleted is left
    where it is: it belongs to no checkpoint any more and harms none.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        retained: int,
        stored: Iterable[CheckpointMetadata] = (),
        initial: CheckpointMetadata | None = None,
    ) -> None:
        self.storage = storage
        self._retained = retained
        self._initial = initial
        self._checkpoints = [*([] if initial is None else [initial]), *stored]

    @property
    def checkpoints(self) -> tuple[CheckpointMetadata, ...]:
        """The retained checkpoints, oldest first."""
        return tuple(self._checkpoints)

    @property
    def latest(self) -> CheckpointMetadata | None:
        """The checkpoint to restart from; None before the first."""
        return self._checkpoints[-1] if self._checkpoints else None

    def add(self, metadata: CheckpointMetadata, in_use: Iterable[StoredFile] = ()) -> None:
        """Complete a checkpoint, then delete the oldest one if there are too many now.

        Shared files that are `in_use` elsewhere stay.

        Raises:
            StorageError: if it cannot be completed. Nothing has changed.
        """
        self.storage.complete(metadata)
        self._checkpoints.append(metadata)
        if len(self._checkpoints) > self._retained:
            oldest = self._checkpoints.pop(0)
            if oldest is not self._initial:
                self.discard(oldest.checkpoint_id, oldest.files.values(), in_use)

    def forget(self, metadata: CheckpointMetadata) -> None:
        """Never go back to a checkpoint that cannot be restored; its files stay for whoever looks into it."""
        self._checkpoints.remove(metadata)

    def discard(
        self, checkpoint_id: int, files: Iterable[StoredFile], in_use: Iterable[StoredFile] = ()
    ) -> None:
        """Delete a checkpoint, complete or not; of its `files`, shared ones that are in use stay."""
        with suppress(StorageError):
            self.storage.discard(checkpoint_id)
        self.delete_unused([file for file in files if file.shared], in_use)

    def delete_unused(self, files: Iterable[StoredFile], in_use: Iterable[StoredFile] = ()) -> None:
        """Delete those of `files` that neither a retained checkpoint needs nor `in_use` names."""
        unused = {file.path: file for file in files}
        if not unused:
            return
        for file in in_use:
            unused.pop(file.path, None)
        for checkpoint in (*self._checkpoints, *filter(None, [self._initial])):
            for path in checkpoint.files:
                unused.pop(path, None)
        with suppress(StorageError):
            self.storage.delete(unused.values())
