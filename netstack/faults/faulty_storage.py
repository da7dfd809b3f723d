"""A checkpoint storage that fails when told to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from buffers import Pieces

from ..checkpoints.paths import folder_of, metadata_path
from ..checkpoints.storage import CheckpointStorage, write_pieces
from ..errors import StorageError
from ..state.snapshots import CheckpointMetadata, StoredFile


class Clock(Protocol):
    """What tells the time: the agenda."""

    @property
    def now(self) -> float:
        """Seconds since the tasks opened."""
        ...


class StorageCondition:
    """What a storage refuses at present. Times are in seconds of the run; None: for good."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._no_uploads_until = -math.inf
        self._full_until = -math.inf

    def fail_uploads(self, until: float | None) -> None:
        """Refuse files, but not metadata, before `until`."""
        self._no_uploads_until = max(self._no_uploads_until, math.inf if until is None else until)

    def fill(self, until: float | None) -> None:
        """Refuse files and metadata before `until`."""
        self._full_until = max(self._full_until, math.inf if until is None else until)

    def check_upload(self, path: str) -> None:
        """Refuse to write a file if that is how things are.

        Raises:
            StorageError: with one line that says why.
        """
        self.check_space(path)
        if self._clock.now < self._no_uploads_until:
            raise StorageError(f"{path} cannot be written: the upload failed")

    def check_space(self, path: str) -> None:
        """Refuse to write anything if the storage is full.

        Raises:
            StorageError: with one line that says so.
        """
        if self._clock.now < self._full_until:
            raise StorageError(f"{path} cannot be written: no space is left")


class FaultyStorage:
    """A `CheckpointStorage` that writes while its condition allows, and always reads and deletes."""

    def __init__(self, inner: CheckpointStorage, condition: StorageCondition) -> None:
        self._inner = inner
        self._condition = condition

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        """Store a file; a fault refuses it with a StorageError before anything is written."""
        self._condition.check_upload(f"{folder_of(checkpoint_id)}/{name}")
        return self._inner.write(checkpoint_id, name, data, shared=shared)

    def write_pieces(self, checkpoint_id: int, name: str, data: Pieces) -> StoredFile:
        """Store a file of data in flight, under the same condition."""
        self._condition.check_upload(f"{folder_of(checkpoint_id)}/{name}")
        return write_pieces(self._inner, checkpoint_id, name, data)

    def read(self, file: StoredFile) -> bytes:
        """Return the bytes of a file."""
        return self._inner.read(file)

    def complete(self, metadata: CheckpointMetadata) -> None:
        """Write the metadata; a full storage refuses it with a StorageError, and nothing is complete."""
        self._condition.check_space(metadata_path(metadata.checkpoint_id))
        self._inner.complete(metadata)

    def checkpoints(self) -> list[int]:
        """Return the ids of the complete checkpoints, ascending."""
        return self._inner.checkpoints()

    def load(self, checkpoint_id: int) -> CheckpointMetadata:
        """Return the metadata of a complete checkpoint."""
        return self._inner.load(checkpoint_id)

    def discard(self, checkpoint_id: int) -> None:
        """Delete what belongs to a checkpoint alone."""
        self._inner.discard(checkpoint_id)

    def claim(self, checkpoint_id: int, claimant: str) -> None:
        """Note that a checkpoint is another run's."""
        self._inner.claim(checkpoint_id, claimant)

    def free_location(self, directory: str | None, name: str) -> str:
        """Return a location for a savepoint."""
        return self._inner.free_location(directory, name)

    def savepoint(self, location: str) -> CheckpointStorage:
        """Return the storage of one savepoint, which fails as this one does."""
        return FaultyStorage(self._inner.savepoint(location), self._condition)

    def delete(self, files: Iterable[StoredFile]) -> None:
        """Delete single files."""
        self._inner.delete(files)
