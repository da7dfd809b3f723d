"""Storages of storms, in memory or on disk, some with unreadable files; and a witness of the keyed state."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import floor
from pathlib import Path
from typing import Any

from integration.storage.directory import LOCK_NAME, DirectoryStorage
from integration.storage.rocksdb import RocksStores
from netstack import (
    CheckpointMetadata,
    DamagedFileError,
    FileLayout,
    HandleReader,
    Job,
    MemoryStorage,
    MissingFileError,
    OperatorContext,
    StateEntry,
    StorageError,
    StoredFile,
    keyed_entries,
)

from .case import ReadTrouble, StormCase
from .operators import Broken


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


_LARGE = 300
"""Keys and values of a state that is too large to be looked at each time."""

_Place = tuple[str, int]


class Notes:
    """What operators have noted at the barriers of all runs of a case, by subtask.

    A run may use the ids of checkpoints again that the run before has not completed.
    """

    def __init__(self) -> None:
        self._noted: dict[tuple[int, int, str], dict[int, Any]] = defaultdict(dict)
        self._first_ids: list[int] = []

    def begin_run(self, first_id: int) -> None:
        """Another run begins, whose first checkpoint has that id."""
        self._first_ids.append(first_id)

    def add(self, context: OperatorContext, checkpoint_id: int, note: Any) -> None:
        """Keep a note of a subtask."""
        run = len(self._first_ids)
        self._noted[run, checkpoint_id, context.vertex][context.subtask] = note

    def of(self, vertex: str, checkpoint_id: int) -> dict[int, Any]:
        """The notes at a checkpoint that subtasks begin with now, by subtask."""
        run = len(self._first_ids)
        if run > 1 and checkpoint_id < self._first_ids[-1]:
            run -= 1
        return self._noted.get((run, checkpoint_id, vertex), {})

    def is_own(self, checkpoint_id: int) -> bool:
        """Whether a checkpoint is of the run that goes on, and so of the same parallelism."""
        return len(self._first_ids) < 2 or checkpoint_id >= self._first_ids[-1]


class StateWitness:
    """What the operators of a run keep at its barriers; the `Witness` of its operators.

    `storage` is where the checkpoints of the run are, `tables` opens stores to read those in that are stored
    as tables. Of those that take long to read, as tables do, one in `every` is.
    """

    def __init__(
        self,
        now: Callable[[], float],
        storage: FileLayout,
        tables: RocksStores | None,
        *,
        every: int = 1,
        notes: Notes | None = None,
    ) -> None:
        self.notes = notes or Notes()
        self._job: Job | None = None
        self._storage = storage
        self._now = now
        self._tables = tables
        self._every = every if tables is None else 8 * every
        self._kept: dict[int, dict[_Place, dict[Any, Any]]] = defaultdict(dict)
        self._metadata: CheckpointMetadata | None = None

    @property
    def now_ms(self) -> int:
        """The time of the run in whole milliseconds, rounded as state rounds it."""
        return floor(self._now() * 1000 + 1e-6)

    def watch(self, job: Job) -> None:
        """Take part in another run of the case."""
        self._job = job
        self.notes.begin_run(job.coordinator.next_id)

    def restored(self, context: OperatorContext) -> int | None:
        """The checkpoint that a subtask has begun with, as the job says; None: it began with nothing."""
        attempt = None if self._job is None else self._job.attempt
        for subtask in () if attempt is None else attempt.subtasks:
            if (subtask.name, subtask.index) == (context.vertex, context.subtask):
                return subtask.recovered_from
        return None

    def barrier(self, context: OperatorContext, checkpoint_id: int, kept: dict[Any, Any]) -> None:
        """Note the state at a barrier, by key."""
        large = len(kept) > _LARGE
        if checkpoint_id % self._every == 0 and not large:
            copies = {key: _copy(value) for key, value in kept.items()}
            self._kept[checkpoint_id][context.vertex, context.subtask] = copies
        for old in [number for number in self._kept if number < checkpoint_id - 16]:
            del self._kept[old]

    def completed(self, context: OperatorContext, checkpoint_id: int) -> None:
        """Compare what is stored of a subtask.

        Raises:
            Broken: it is not what was kept.
        """
        kept = self._kept.get(checkpoint_id, {}).pop((context.vertex, context.subtask), None)
        if kept is None:
            return
        metadata = self._stored(checkpoint_id)
        if metadata is None:
            return
        found: dict[Any, Any] = {}
        for snapshot in metadata.subtasks:
            if (snapshot.vertex, snapshot.subtask) == (context.vertex, context.subtask):
                read = HandleReader(Untroubled(self._storage))  # type: ignore[arg-type]
                for entry in keyed_entries(metadata, snapshot, read, self._tables):
                    _add(found, entry)
        if found != kept:
            where = f"{context.vertex}[{context.subtask}]"
            wrong = [key for key in {*found, *kept} if found.get(key) != kept.get(key)]
            first = min(wrong)
            text = (
                f"of key {first!r} {found.get(first)!r:.80} is stored, and {kept.get(first)!r:.80} was kept"
            )
            raise Broken(f"checkpoint {checkpoint_id} of {where}: {text} at the barrier ({len(wrong)} keys)")

    def _stored(self, checkpoint_id: int) -> CheckpointMetadata | None:
        """The metadata of a checkpoint; None if it has been deleted meanwhile."""
        if self._metadata is None or self._metadata.checkpoint_id != checkpoint_id:
            try:
                self._metadata = self._storage.load(checkpoint_id)
            except MissingFileError:
                return None
        return self._metadata if checkpoint_id in self._storage.present() else None


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict) else value


def _add(found: dict[Any, Any], entry: StateEntry) -> None:
    """Add an entry as the state of its kind shows it."""
    match entry.kind:
        case "map":
            found.setdefault(entry.key, {})[entry.key_in_map] = entry.value
        case "aggregating":
            found[entry.key] = entry.value[0]
        case _:
            found[entry.key] = entry.value
