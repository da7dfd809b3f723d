"""The savepoints of a job: how they are taken, where their files go, and what is left of those given up."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from flowcontrol import Alignment, CheckpointOptions, Savepoint

from ..errors import StorageError
from ..scenarios.config import CheckpointMode, NetworkConfig
from ..state.snapshots import CheckpointMetadata, StoredFile
from .paths import SAVEPOINT_PREFIX
from .savepoint_request import SavepointRequest
from .storage import CheckpointStorage, delete_where_possible


class Savepoints:
    """Keeps savepoints apart from checkpoints: each in a place of its own in `storage`, and never deleted."""

    def __init__(self, storage: CheckpointStorage, config: NetworkConfig) -> None:
        self._storage = storage
        self._config = config
        self._given_up: dict[int, str] = {}  # locations by id

    def options(self, request: SavepointRequest, checkpoint_id: int) -> CheckpointOptions:
        """Return how a savepoint is taken, which is never unaligned, and where.

        Raises:
            StorageError: there is no place for it.
        """
        directory = self._config.savepoint_dir if request.directory is None else request.directory
        location = self._storage.free_location(directory, f"{SAVEPOINT_PREFIX}{checkpoint_id}")
        exactly_once = self._config.checkpoint_mode is CheckpointMode.EXACTLY_ONCE
        return CheckpointOptions(
            Alignment.ALIGNED if exactly_once else Alignment.AT_LEAST_ONCE,
            savepoint=Savepoint(location, request.format, request.action),
        )

    def complete(self, metadata: CheckpointMetadata, savepoint: Savepoint) -> None:
        """Write the metadata, which makes a savepoint complete.

        Raises:
            StorageError: it could not be written.
        """
        self._storage.savepoint(savepoint.location).complete(metadata)

    def give_up(self, checkpoint_id: int, savepoint: Savepoint) -> None:
        """Delete what was stored; what cannot be deleted is no savepoint, since its metadata is missing."""
        self._given_up[checkpoint_id] = savepoint.location
        self.delete_since(checkpoint_id)

    def delete_since(self, checkpoint_id: int) -> bool:
        """Delete all that was stored since a savepoint was given up; whether it was one."""
        location = self._given_up.get(checkpoint_id)
        if location is None:
            return False
        with suppress(StorageError):
            self._storage.savepoint(location).discard(checkpoint_id)
        return True

    def delete_late(self, checkpoint_id: int, files: Iterable[StoredFile]) -> bool:
        """Delete what has come after its savepoint was given up; whether it was one."""
        location = self._given_up.get(checkpoint_id)
        if location is None:
            return False
        delete_where_possible(self._storage.savepoint(location), files)
        return True
