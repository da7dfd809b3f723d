"""The storages of storms: in memory or on disk, some with files that cannot be read when they are needed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from integration.storage.directory import LOCK_NAME, DirectoryStorage
from netstack import DamagedFileError, FileLayout, MemoryStorage, StorageError, StoredFile

from .case import ReadTrouble, StormCase


class Troubled(FileLayout):
    """A storage that refuses to read files when it is their turn; it counts how often one is read."""

    trouble: Mapping[int, ReadTrouble]
    reads = 0

    def in_trouble(self, trouble: tuple[ReadTrouble, ...]) -> None:
        """Refuse these."""
        self.trouble = {each.number: each for each in trouble}
        self.damaged = set[str]()

    def read(self, file: StoredFile) -> bytes:
        """Return the bytes of a file.

        Raises:
            DamagedFileError: it is damaged.
            StorageError: it cannot be read this time, or as ever.
        """
        self.reads += 1
        trouble = self.trouble.get(self.reads)
        if trouble is not None and trouble.damaged:
            self.damaged.add(file.path)
        if file.path in self.damaged:
            raise DamagedFileError(f"{file.path} is damaged, as the storm will have it")
        if trouble is not None:
            raise StorageError(f"{file.path} cannot be read, as the storm will have it")
        return super().read(file)

    def read_untroubled(self, file: StoredFile) -> bytes:
        """Return the bytes of a file as they are."""
        return super().read(file)


class TroubledMemory(Troubled, MemoryStorage):
    """Checkpoints in memory."""


class TroubledDirectory(Troubled, DirectoryStorage):
    """Checkpoints in a directory."""


class Untroubled:
    """Reads a storage for whoever looks after the run; that counts for nothing."""

    def __init__(self, storage: FileLayout) -> None:
        self.read = storage.read_untroubled if isinstance(storage, Troubled) else storage.read


def storage_of(case: StormCase, folder: Path) -> TroubledMemory | TroubledDirectory:
    """Return an empty storage for a run of a case; `folder` is for files on disk."""
    storage = TroubledDirectory(folder) if case.on_disk else TroubledMemory()
    storage.in_trouble(case.trouble)
    return storage


def stored_in(storage: TroubledMemory | TroubledDirectory) -> dict[str, bytes]:
    """Return all that lies in a storage, by path."""
    if isinstance(storage, TroubledMemory):
        return {path: bytes(data) for path, data in storage.files.items()}
    root = Path(storage.root)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != LOCK_NAME
    }


def copy_of(storage: TroubledMemory | TroubledDirectory) -> TroubledMemory | TroubledDirectory:
    """Return a storage with what lies in another one at this moment."""
    copy: TroubledMemory | TroubledDirectory
    if isinstance(storage, TroubledMemory):
        copy = TroubledMemory()
        copy.files = dict(storage.files)
    else:
        target = Path(f"{storage.root}-left")
        if Path(storage.root).exists():
            shutil.copytree(storage.root, target)
        copy = TroubledDirectory(target)
    copy.in_trouble(())
    return copy


@contextmanager
def held(storage: TroubledMemory | TroubledDirectory) -> Iterator[None]:
    """Have a directory for oneself meanwhile, as a run has."""
    if isinstance(storage, TroubledDirectory):
        with storage.exclusive():
            yield
    else:
        yield
