"""Savepoints: options, storage and deletion."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from flowcontrol import CheckpointOptions, Savepoint

from ..errors import StorageError
from ..scenarios.changes import ScheduledSavepoint
from ..scenarios.checkpoint_modes import barrier_mode
from ..scenarios.options import NetworkConfig
from ..state.handles import StoredFile
from .metadata import CheckpointMetadata
from .storage import SAVEPOINT_PREFIX, CheckpointStorage, delete_where_possible


class Savepoints:
    """Keeps savepoints separate from checkpoints.

    Each savepoint has its own location in `storage`. Its job does not delete it after its completion.
    """

    def __init__(self, storage: CheckpointStorage, config: NetworkConfig) -> None:
        self._storage = storage
        self._config = config
        self._aborted: dict[int, str] = {}  # locations of aborted savepoints, by id

    def options(self, request: ScheduledSavepoint, checkpoint_id: int) -> CheckpointOptions:
        """Choose a location for a savepoint and return the options of its barriers, never unaligned.

        Raises:
            StorageError: if the storage has no location for the savepoint.
        """
        directory = self._config.savepoint_dir if request.directory is None else request.directory
        location = self._storage.free_location(directory, f"{SAVEPOINT_PREFIX}{checkpoint_id}")
        return CheckpointOptions(
            barrier_mode(self._config.checkpoint_mode).alignment,
            savepoint=Savepoint(location, request.format, request.action),
        )

    def complete(self, metadata: CheckpointMetadata, savepoint: Savepoint) -> None:
        """Write the metadata, which makes a savepoint complete.

        Raises:
            StorageError: if the metadata could not be written.
        """
        self._storage.savepoint(savepoint.location).complete(metadata)

    def abort(self, checkpoint_id: int, savepoint: Savepoint) -> None:
        """Delete the files of an aborted savepoint.

        Files that cannot be deleted stay. Without metadata they are no savepoint.
        """
        self._aborted[checkpoint_id] = savepoint.location
        self.delete_aborted(checkpoint_id)

    def delete_aborted(self, checkpoint_id: int) -> bool:
        """Delete the files of an aborted savepoint; returns False if no aborted savepoint has this id."""
        location = self._aborted.get(checkpoint_id)
        if location is not None:
            with suppress(StorageError):
                self._storage.savepoint(location).discard(checkpoint_id)
        return location is not None

    def delete_late(self, checkpoint_id: int, files: Iterable[StoredFile]) -> bool:
        """Delete files that were stored after their savepoint was aborted.

        Returns False if no aborted savepoint has this id.
        """
        location = self._aborted.get(checkpoint_id)
        if location is not None:
            delete_where_possible(self._storage.savepoint(location), files)
        return location is not None
