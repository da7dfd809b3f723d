"""From what a person names to the checkpoint that a run goes on from."""

from __future__ import annotations

import os
from pathlib import Path

from netstack import (
    METADATA_NAME,
    CheckpointMetadata,
    DamagedFileError,
    InitialCheckpoint,
    MissingFileError,
    StorageError,
    checkpoint_id_of,
    folder_of,
)

from .directory import DirectoryStorage


def find_checkpoint(path: str | Path) -> InitialCheckpoint:
    """Return the checkpoint that a path or URI names, after reading all its files once.

    It may be a folder such as ``chk-17``, the `_metadata` in it, or the directory that holds such folders:
    then it is the latest complete one.

    Raises:
        StorageError: There is none, or it is not complete, damaged, or of another version; one line.
    """
    given = str(path).rstrip("/") or "/"
    root, checkpoint_id = _place(given)
    storage = DirectoryStorage(root)
    if not storage.exists():
        raise StorageError(f"{given}: there is no such checkpoint, nor a directory of checkpoints")
    if checkpoint_id is None:
        metadata = _latest(storage, given)
        named = f"{given}/{folder_of(metadata.checkpoint_id)}"
    else:
        metadata = _load(storage, checkpoint_id, given)
        named = given.removesuffix(f"/{METADATA_NAME}")
    for file in metadata.files.values():
        try:
            storage.verify(file)
        except (DamagedFileError, MissingFileError) as error:
            raise StorageError(f"{named} is damaged: {error}") from error
    return InitialCheckpoint(metadata, storage, named, storage.present()[-1] + 1)


def _place(given: str) -> tuple[str, int | None]:
    """The root of the storage that a path leads to, and the checkpoint if it names one."""
    full = given if "://" in given else os.path.realpath(given)
    folder, _, name = full.rpartition("/")
    if name == METADATA_NAME:
        full = folder
        folder, _, name = full.rpartition("/")
        if checkpoint_id_of(name) is None:
            raise StorageError(f"{given} does not lie in the folder of a checkpoint, such as chk-17")
    checkpoint_id = checkpoint_id_of(name)
    return (full, None) if checkpoint_id is None else (folder or "/", checkpoint_id)


def _latest(storage: DirectoryStorage, given: str) -> CheckpointMetadata:
    present = storage.present()
    for number in reversed(present):
        try:
            return storage.load(number)
        except MissingFileError:
            continue  # the run ended while it was being taken
        except DamagedFileError as error:
            # Sinks may have committed what belongs to it, so to go further back is for a person to decide.
            older = f"; to go on from an older one, name it: {_listed(present, number)}"
            raise StorageError(f"{given}/{folder_of(number)} is damaged: {error}{older}") from error
    raise StorageError(f"{given}: no checkpoint there is complete")


def _listed(present: list[int], damaged: int) -> str:
    return ", ".join(folder_of(number) for number in present if number < damaged) or "there is none"


def _load(storage: DirectoryStorage, checkpoint_id: int, given: str) -> CheckpointMetadata:
    if checkpoint_id not in storage.present():
        raise StorageError(f"{given}: there is no such checkpoint")
    try:
        return storage.load(checkpoint_id)
    except MissingFileError:
        raise StorageError(f"{given} is not complete: it has no {METADATA_NAME}") from None
    except DamagedFileError as error:
        raise StorageError(f"{given} is damaged: {error}") from error
