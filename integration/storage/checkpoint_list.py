"""Checks of a checkpoint storage, and the checkpoints in it that a run can start from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from netstack import (
    CLAIM_NAME,
    METADATA_NAME,
    CheckpointMetadata,
    DamagedFileError,
    FileLayout,
    InitialCheckpoint,
    MissingFileError,
    SavepointFolder,
    StorageError,
    StoredFile,
    checkpoint_id_of,
    claim_path,
    folder_of,
    metadata_path,
)

from .directory import DirectoryStorage, storage_at


class Status(StrEnum):
    """Whether a checkpoint is complete, so that a job can start from it."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    BROKEN = "broken"


class Wrong(StrEnum):
    """Kinds of problems with a file."""

    MISSING = "missing"
    CORRUPT = "corrupt"
    LEFT_OVER = "left over"


class Problem(msgspec.Struct, frozen=True):
    """A missing, damaged or superfluous file. ``why`` is a sentence about the problem."""

    wrong: Wrong
    path: str
    why: str


class CheckpointEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint, or a savepoint in the same directory. Sizes are in bytes, times in seconds since the
    start of the run.

    If the checkpoint is incomplete or broken, ``size`` and ``files`` are those of its folder. If it is
    complete, ``size`` is the size of its state, and ``files`` counts all files that it needs, in any folder.
    """

    checkpoint_id: int
    status: Status
    size: int
    files: int
    job: str | None = None
    checkpoint_type: str | None = None
    triggered_at: float | None = None
    duration_s: float | None = None
    savepoint: str | msgspec.UnsetType = msgspec.UNSET
    """The folder of a savepoint; absent for a checkpoint."""


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoints and problems of a storage. ``verified`` says whether every file has been read."""

    schema: str = "netstack.checkpoints/1"
    root: str
    verified: bool
    checkpoints: list[CheckpointEntry]
    problems: list[Problem]


def take_inventory(storage: FileLayout, root: str, *, verify: bool) -> Inventory:
    """Return the inventory of a storage. With ``verify``, read every file and list the problems.

    Raises:
        StorageError: The storage cannot be read.
    """
    checks = _Checks(storage)
    entries = [checks.entry_of(checkpoint_id, verify) for checkpoint_id in storage.present()]
    entries += [checks.entry_of_savepoint(folder, verify) for folder in storage.savepoints()]
    if verify:
        checks.find_left_over_shared_files()
    return Inventory(root=root, verified=verify, checkpoints=entries, problems=checks.problems)


class _Checks:
    """A pass over a storage that collects its problems."""

    def __init__(self, storage: FileLayout) -> None:
        self.problems: list[Problem] = []
        self._storage = storage
        self._checked: set[StoredFile] = set()  # files that several checkpoints share are read once
        self._shared: set[str] = set()
        self._all_known = True

    def entry_of(self, checkpoint_id: int, verify: bool) -> CheckpointEntry:
        contents = self._storage.contents(checkpoint_id)
        path = metadata_path(checkpoint_id)
        try:
            metadata = self._storage.load(checkpoint_id)
        except MissingFileError:
            if verify:
                self._left_over(contents, f"checkpoint {checkpoint_id} was never completed")
            return _unfinished(checkpoint_id, Status.INCOMPLETE, contents)
        except DamagedFileError as error:
            self._all_known = False
            if verify:
                self.problems.append(Problem(Wrong.CORRUPT, path, _why(path, error)))
            return _unfinished(checkpoint_id, Status.BROKEN, contents)
        if verify:
            self._verify(metadata)
            unknown = contents.keys() - metadata.files.keys() - {path, claim_path(checkpoint_id)}
            self._left_over(sorted(unknown), f"checkpoint {checkpoint_id} does not use this file")
        return _complete(metadata)

    def entry_of_savepoint(self, folder: SavepointFolder, verify: bool) -> CheckpointEntry:
        contents = folder.contents(0)
        try:
            metadata = folder.metadata
        except MissingFileError:
            if verify:
                paths = [f"{folder.folder}/{name}" for name in contents]
                self._left_over(sorted(paths), "the savepoint was never completed")
            unfinished = _unfinished(0, Status.INCOMPLETE, contents)
            return msgspec.structs.replace(unfinished, savepoint=folder.folder)
        except DamagedFileError as error:
            if verify:
                path = f"{folder.folder}/{METADATA_NAME}"
                self.problems.append(Problem(Wrong.CORRUPT, path, _why(METADATA_NAME, error)))
            broken = _unfinished(0, Status.BROKEN, contents)
            return msgspec.structs.replace(broken, savepoint=folder.folder)
        if verify:
            checks = _Checks(folder)
            checks._verify(metadata)
            unknown = contents.keys() - metadata.files.keys() - {METADATA_NAME, CLAIM_NAME}
            checks._left_over(sorted(unknown), "the savepoint does not use this file")
            self.problems += [
                msgspec.structs.replace(each, path=f"{folder.folder}/{each.path}") for each in checks.problems
            ]
        return msgspec.structs.replace(_complete(metadata), savepoint=folder.folder)

    def find_left_over_shared_files(self) -> None:
        # A checkpoint with broken metadata may need any of the files.
        if self._all_known:
            unknown = self._storage.shared_files().keys() - self._shared
            self._left_over(sorted(unknown), "no complete checkpoint uses this file")

    def _verify(self, metadata: CheckpointMetadata) -> None:
        for file in metadata.files.values():
            if file.shared:
                self._shared.add(file.path)
            if file not in self._checked:
                self._checked.add(file)
                try:
                    self._storage.verify(file)
                except MissingFileError:
                    self.problems.append(Problem(Wrong.MISSING, file.path, "the file does not exist"))
                except DamagedFileError as error:
                    self.problems.append(Problem(Wrong.CORRUPT, file.path, _why(file.path, error)))
        path = metadata_path(metadata.checkpoint_id)
        self.problems += [Problem(Wrong.CORRUPT, path, why) for why in _inconsistencies(metadata)]

    def _left_over(self, paths: Iterable[str], why: str) -> None:
        self.problems += [Problem(Wrong.LEFT_OVER, path, why) for path in paths]


def _why(path: str, error: DamagedFileError) -> str:
    return str(error).removeprefix(path).lstrip(": ")


def _inconsistencies(metadata: CheckpointMetadata) -> Iterator[str]:
    """Yield a message for each handle whose size does not fit its file, which no checksum detects."""
    for snapshot in metadata.subtasks:
        for handle in snapshot.handles:
            there = len(handle.inline or b"") if handle.file is None else handle.file.size - handle.offset
            if handle.size > there or (handle.file is None and handle.size < there):
                where = f"{snapshot.vertex} {snapshot.subtask}"
                yield (
                    f"{handle.kind} state {handle.name!r} of {where} has {there} bytes, but should have "
                    f"{handle.size}"
                )


def _unfinished(checkpoint_id: int, status: Status, contents: dict[str, int]) -> CheckpointEntry:
    return CheckpointEntry(
        checkpoint_id=checkpoint_id, status=status, size=sum(contents.values()), files=len(contents)
    )


def _complete(metadata: CheckpointMetadata) -> CheckpointEntry:
    return CheckpointEntry(
        checkpoint_id=metadata.checkpoint_id,
        status=Status.COMPLETE,
        size=metadata.size,
        files=len(metadata.files) + 1,  # the metadata file itself
        job=metadata.job,
        checkpoint_type=metadata.checkpoint_type,
        triggered_at=metadata.triggered_at,
        duration_s=metadata.duration_s,
    )


def find_checkpoint(path: str | Path) -> InitialCheckpoint:
    """Return the checkpoint at a path or URI, after a check of all its files.

    The path names a folder such as ``chk-17``, the `_metadata` in it, or the directory of such folders, whose
    latest complete checkpoint is returned. A savepoint may have any folder name.

    Raises:
        StorageError: There is no checkpoint, or it is incomplete, damaged, or of another version; the message
            is one line.
    """
    given = str(path).rstrip("/") or "/"
    savepoint = _savepoint_at(given)
    if savepoint is not None:
        return savepoint
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
    _read_all(storage, metadata, named)
    return InitialCheckpoint(metadata, storage, named, storage.present()[-1] + 1)


def _savepoint_at(given: str) -> InitialCheckpoint | None:
    """Return the savepoint at a path; None if there is none."""
    full = given if "://" in given else os.path.realpath(given)
    if full.endswith(f"/{METADATA_NAME}"):
        full = full.removesuffix(f"/{METADATA_NAME}")
    named = given.removesuffix(f"/{METADATA_NAME}")
    if checkpoint_id_of(full.rpartition("/")[2]) is not None:
        return None
    try:
        storage = storage_at(full)
    except StorageError:  # the search for a checkpoint reports this
        return None
    if not isinstance(storage, SavepointFolder):
        return None
    try:
        metadata = storage.metadata
    except DamagedFileError as error:
        raise StorageError(f"{named} is damaged: {error}") from error
    _read_all(storage, metadata, named)
    return InitialCheckpoint(metadata, storage, named, metadata.checkpoint_id + 1)


def _read_all(storage: FileLayout, metadata: CheckpointMetadata, named: str) -> None:
    for file in metadata.files.values():
        try:
            storage.verify(file)
        except (DamagedFileError, MissingFileError) as error:
            raise StorageError(f"{named} is damaged: {error}") from error


def _place(given: str) -> tuple[str, int | None]:
    """Return the root of the storage at a path, and the id of the checkpoint if the path names one."""
    full = given if "://" in given else os.path.realpath(given)
    folder, _, name = full.rpartition("/")
    if name == METADATA_NAME:
        full = folder
        folder, _, name = full.rpartition("/")
        if checkpoint_id_of(name) is None:
            raise StorageError(
                f"{given}: there is no such savepoint, nor a checkpoint, such as chk-17, in it"
            )
    checkpoint_id = checkpoint_id_of(name)
    return (full, None) if checkpoint_id is None else (folder or "/", checkpoint_id)


def _latest(storage: DirectoryStorage, given: str) -> CheckpointMetadata:
    present = storage.present()
    if not present:
        raise StorageError(f"{given}: contains no checkpoints")
    for number in reversed(present):
        try:
            return storage.load(number)
        except MissingFileError:
            continue  # the run ended before the checkpoint was complete
        except DamagedFileError as error:
            # Sinks may have committed the records of this checkpoint, so the user has to decide about an
            # older one.
            older = f"; to continue from an older checkpoint, name it: {_listed(present, number)}"
            raise StorageError(f"{given}/{folder_of(number)} is damaged: {error}{older}") from error
    raise StorageError(f"{given}: none of the checkpoints there is complete")


def _listed(present: list[int], damaged: int) -> str:
    return ", ".join(folder_of(number) for number in present if number < damaged) or ("there is no older one")


def _load(storage: DirectoryStorage, checkpoint_id: int, given: str) -> CheckpointMetadata:
    if checkpoint_id not in storage.present():
        raise StorageError(f"{given}: there is no such checkpoint")
    try:
        return storage.load(checkpoint_id)
    except MissingFileError:
        raise StorageError(f"{given} is not complete: it has no {METADATA_NAME}") from None
    except DamagedFileError as error:
        raise StorageError(f"{given} is damaged: {error}") from error
