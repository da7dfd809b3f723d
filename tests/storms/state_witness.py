"""Holds what is stored of keyed state against what was kept at the barrier, however it is kept and stored.

Operators tell what they keep just before it is snapshotted. When the checkpoint is complete, their part of it
is read from the storage, and decoded as whoever restores it does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from math import floor
from typing import Any

from integration.storage.rocksdb import RocksStores
from netstack import (
    CheckpointMetadata,
    FileLayout,
    HandleReader,
    Job,
    MissingFileError,
    OperatorContext,
    StateEntry,
    keyed_entries,
)

from .storm_operators import Broken
from .troubled_storage import Untroubled

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
