"""Who uses the files that several checkpoints share, and when one may be deleted.

A completed checkpoint registers its shared files, by keys that their writers know them by. While a key is
known, its first file stays: whoever has stored the same again, since it had not heard yet that the first
one's checkpoint is complete, gets that file instead of its own. A checkpoint that falls out of retention is
unregistered, and a file goes with its last user. A checkpoint that failed was never registered.

::

    two retained    1   2   3   4   (1,2,3)   5   (4,5,6)     uses of each table file
    checkpoint 1    1   1
    checkpoint 2    2   2   1   1
    checkpoint 3    1   1   1   2      1      1               checkpoint 1 goes
    checkpoint 4    -   -   -   1      2      1      1        checkpoint 2 goes, with 1, 2 and 3

Checkpoints come and go in the order of their ids, so a file has no user left exactly if the last one that
used it is older than the oldest that is retained. (Flink: ``SharedStateRegistry``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..state.snapshots import CheckpointMetadata, StateFormat, StoredFile

SharedKey = str
"""What a writer knows a shared file by: two files of one key have the same content."""


@dataclass(slots=True)
class _Entry:
    file: StoredFile
    users: set[int] = field(default_factory=set)


class SharedStateRegistry:
    """The shared files of the completed checkpoints that are retained."""

    def __init__(self) -> None:
        self._entries: dict[SharedKey, _Entry] = {}
        self._paths: set[str] = set()

    def register(
        self, checkpoint_id: int, files: Iterable[tuple[SharedKey, StoredFile]]
    ) -> dict[str, StoredFile]:
        """Let a checkpoint use files.

        Returns by path, of files that are duplicates of others, those that are to be used in their place;
        the duplicates may be deleted once the checkpoint is complete.
        """
        kept = {}
        for key, file in files:
            entry = self._entries.setdefault(key, _Entry(file))
            entry.users.add(checkpoint_id)
            self._paths.add(entry.file.path)
            if entry.file.path != file.path:
                kept[file.path] = entry.file
        return kept

    def unregister(self, checkpoint_id: int) -> list[StoredFile]:
        """Let a checkpoint use nothing any more; returns the files that nobody uses now."""
        unused = []
        for key, entry in list(self._entries.items()):
            entry.users.discard(checkpoint_id)
            if not entry.users:
                del self._entries[key]
                self._paths.discard(entry.file.path)
                unused.append(entry.file)
        return unused

    def has(self, file: StoredFile) -> bool:
        """Whether a checkpoint uses a file."""
        return file.path in self._paths

    def uses(self, key: SharedKey) -> int:
        """How many checkpoints use the file of a key."""
        return len(self._entries[key].users) if key in self._entries else 0

    def last_used(self, key: SharedKey) -> int | None:
        """The newest checkpoint that uses the file of a key; None: none does."""
        return max(self._entries[key].users) if key in self._entries else None


def shared_files(metadata: CheckpointMetadata) -> Iterator[tuple[SharedKey, StoredFile]]:
    """Yield the shared files of a checkpoint with their keys."""
    for snapshot in metadata.subtasks:
        for handle in snapshot.handles:
            if handle.file is not None and handle.file.shared:
                path, table = handle.file.path, f"{snapshot.vertex}[{snapshot.subtask}] {handle.name}"
                yield table if handle.format is StateFormat.TABLE_FILE else path, handle.file
