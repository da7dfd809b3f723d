"""Checks of a checkpoint storage, and the checkpoints in it that a run can start from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

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

from ..base.reading import one_line
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
    UNREADABLE = "unreadable"


class Problem(msgspec.Struct, frozen=True):
    """A missing, damaged, unreadable or superfluous file or folder. ``why`` is a sentence."""

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

    A checkpoint that cannot be read is listed as broken, with or without ``verify``.

    Raises:
        StorageError: The storage itself cannot be read.
    """
    checks = _Checks(verify)
    entries = [checks.entry_of(storage, checkpoint_id) for checkpoint_id in storage.present()]
    savepoints = [checks.entry_of(folder, 0) for folder in storage.savepoints()]
    if verify and not any(entry.status is Status.BROKEN for entry in entries):
        # A checkpoint with broken metadata might need any of the files.
        used = {file.path for file in checks.checked if file.shared}
        unused = sorted(storage.shared_files().keys() - used)
        checks.add(Wrong.LEFT_OVER, unused, "no complete checkpoint uses this file")
    return Inventory(root=root, verified=verify, checkpoints=entries + savepoints, problems=checks.problems)


class _Checks:
    """A pass over a storage and its savepoints that collects their problems."""

    def __init__(self, verify: bool) -> None:
        self.problems: list[Problem] = []
        self.checked: set[StoredFile] = set()  # files that several checkpoints share are read once
        self._verify = verify

    def add(self, wrong: Wrong, paths: Iterable[str], why: str) -> None:
        if self._verify:
            self.problems += [Problem(wrong, path, why) for path in paths]

    def entry_of(self, storage: FileLayout, checkpoint_id: int) -> CheckpointEntry:
        """Return the entry of a checkpoint of a storage, or of a savepoint, which is a storage by itself."""
        try:
            return self._entry_of(storage, checkpoint_id)
        except StorageError as error:
            place = _place_in(storage, checkpoint_id)
            folder = place.shown(place.metadata).removesuffix(f"/{METADATA_NAME}")
            self.problems.append(Problem(Wrong.UNREADABLE, folder, one_line(error)))
            return CheckpointEntry(
                checkpoint_id=checkpoint_id,
                status=Status.BROKEN,
                size=0,
                files=0,
                savepoint=place.savepoint,
            )

    def _entry_of(self, storage: FileLayout, checkpoint_id: int) -> CheckpointEntry:
        contents = storage.contents(checkpoint_id)
        place = _place_in(storage, checkpoint_id)
        unfinished = CheckpointEntry(
            checkpoint_id=checkpoint_id,
            status=Status.INCOMPLETE,
            size=sum(contents.values()),
            files=len(contents),
            savepoint=place.savepoint,
        )
        try:
            metadata = (
                storage.metadata if isinstance(storage, SavepointFolder) else storage.load(checkpoint_id)
            )
        except MissingFileError:
            self.add(Wrong.LEFT_OVER, map(place.shown, contents), f"{place.name} was never completed")
            return unfinished
        except DamagedFileError as error:
            self.add(Wrong.CORRUPT, [place.shown(place.metadata)], _why(place.metadata, error))
            return msgspec.structs.replace(unfinished, status=Status.BROKEN)
        if self._verify:
            self._check_files(storage, metadata, place)
            for why in _inconsistencies(metadata):
                self.add(Wrong.CORRUPT, [place.shown(place.metadata)], why)
            unused = sorted(contents.keys() - metadata.files.keys() - {place.metadata, place.claim})
            self.add(Wrong.LEFT_OVER, map(place.shown, unused), f"{place.name} does not use this file")
        return CheckpointEntry(
            checkpoint_id=metadata.checkpoint_id,
            status=Status.COMPLETE,
            size=metadata.size,
            files=len(metadata.files) + 1,  # the metadata file itself
            job=metadata.job,
            checkpoint_type=metadata.checkpoint_type,
            triggered_at=metadata.triggered_at,
            duration_s=metadata.duration_s,
            savepoint=place.savepoint,
        )

    def _check_files(
        self, storage: FileLayout, metadata: CheckpointMetadata, place: _CheckpointPlace
    ) -> None:
        is_savepoint = place.savepoint is not msgspec.UNSET
        for file in metadata.files.values():
            if file in self.checked and not is_savepoint:
                continue
            try:
                storage.verify(file)
            except MissingFileError:
                self.add(Wrong.MISSING, [place.shown(file.path)], "the file does not exist")
            except DamagedFileError as error:
                self.add(Wrong.CORRUPT, [place.shown(file.path)], _why(file.path, error))
            except StorageError as error:
                self.add(Wrong.UNREADABLE, [place.shown(file.path)], one_line(error))
            if not is_savepoint:
                self.checked.add(file)


class _CheckpointPlace(NamedTuple):
    """The files of a checkpoint or savepoint that its metadata does not list, and its name in messages.

    Paths are relative to the storage.
    """

    name: str
    metadata: str
    claim: str
    savepoint: str | msgspec.UnsetType = msgspec.UNSET
    """The folder of a savepoint, which is a storage by itself."""

    def shown(self, path: str) -> str:
        """Return a path relative to the directory of checkpoints."""
        return path if self.savepoint is msgspec.UNSET else f"{self.savepoint}/{path}"


def _place_in(storage: FileLayout, checkpoint_id: int) -> _CheckpointPlace:
    if isinstance(storage, SavepointFolder):
        return _CheckpointPlace("the savepoint", METADATA_NAME, CLAIM_NAME, storage.folder)
    name = f"checkpoint {checkpoint_id}"
    return _CheckpointPlace(name, metadata_path(checkpoint_id), claim_path(checkpoint_id))


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


def find_checkpoint(path: str | Path, report: Callable[[str], None] = lambda line: None) -> InitialCheckpoint:
    """Return the checkpoint at a path or URI, after a check of all its files.

    The path names a folder such as ``chk-17``, the `_metadata` in it, or the directory of such folders, whose
    latest complete checkpoint is returned. A savepoint may have any folder name. `report` gets a line if
    newer checkpoints are incomplete.

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
        metadata = _latest(storage, given, report)
        named = f"{given}/{folder_of(metadata.checkpoint_id)}"
    elif checkpoint_id not in storage.present():
        raise StorageError(f"{given}: there is no such checkpoint")
    else:
        named = given.removesuffix(f"/{METADATA_NAME}")
        try:
            metadata = storage.load(checkpoint_id)
        except MissingFileError:
            raise StorageError(f"{given} is not complete: it has no {METADATA_NAME}") from None
        except DamagedFileError as error:
            raise StorageError(f"{given} is damaged: {error}") from error
    advice = "" if checkpoint_id is not None else _older(storage.present(), metadata.checkpoint_id)
    _read_all(storage, metadata, named, advice)
    return InitialCheckpoint(metadata, storage, named, storage.present()[-1] + 1)


def _savepoint_at(given: str) -> InitialCheckpoint | None:
    """Return the savepoint at a path; None if there is none."""
    full = (given if "://" in given else os.path.realpath(given)).removesuffix(f"/{METADATA_NAME}")
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


def _read_all(storage: FileLayout, metadata: CheckpointMetadata, named: str, advice: str = "") -> None:
    for file in metadata.files.values():
        try:
            storage.verify(file)
        except (DamagedFileError, MissingFileError) as error:
            raise StorageError(f"{named} is damaged: {error}{advice}") from error


def _older(present: Sequence[int], number: int) -> str:
    """Return the advice to continue from a checkpoint before a damaged one.

    Sinks may have committed the records of the damaged one, so the user has to decide.
    """
    older = ", ".join(map(folder_of, present[: present.index(number)])) or "there is no older one"
    return f"; to continue from an older checkpoint, name it: {older}"


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


def _latest(storage: DirectoryStorage, given: str, report: Callable[[str], None]) -> CheckpointMetadata:
    present = storage.present()
    if not present:
        raise StorageError(f"{given}: contains no checkpoints")
    for number in reversed(present):
        try:
            metadata = storage.load(number)
        except MissingFileError:
            continue  # the run ended before the checkpoint was complete
        except DamagedFileError as error:
            advice = _older(present, number)
            raise StorageError(f"{given}/{folder_of(number)} is damaged: {error}{advice}") from error
        if incomplete := ", ".join(folder_of(each) for each in present if each > number):
            report(f"{given}: {incomplete} was never completed; starting from {folder_of(number)}")
        return metadata
    raise StorageError(f"{given}: none of the checkpoints there is complete")
