"""The retained checkpoint of an earlier run that a new one goes on from.

Whose it is from then on is the user's to say. Ids go on behind it, and the clock of the new run begins at 0.
Vertices may have another parallelism than they had in it; see `assignment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from ..scenarios.job_shape import Exchange, JobShape
from ..state.snapshots import CheckpointMetadata
from .assignment import rescaling_misfits
from .storage import CheckpointStorage, StorageError


class ClaimMode(StrEnum):
    """Whose a checkpoint is that a run goes on from (Flink's RecoveryClaimMode)."""

    NO_CLAIM = "no-claim"
    """That of whoever keeps it: the run reads it, and none of its own checkpoints needs its files."""
    CLAIM = "claim"
    """The run's: it is deleted as one of its own checkpoints would be."""
    LEGACY = "legacy"
    """That of whoever keeps it, but the run's checkpoints may need its files: it must stay (Flink 1)."""


class InitialCheckpoint(NamedTuple):
    """A checkpoint, or savepoint, to begin with, the storage that has its files, and its name for people.

    No checkpoint of the new run has an id below `next_id`, so that none can be taken for one that lies
    beside this. `in_place`: the new run stores its checkpoints in the same storage.
    """

    metadata: CheckpointMetadata
    storage: CheckpointStorage
    path: str
    next_id: int
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    in_place: bool = False

    @property
    def shares_files(self) -> bool:
        """Whether checkpoints of the new run may name its files."""
        return self.in_place and self.claim_mode is not ClaimMode.NO_CLAIM

    def claim(self) -> None:
        """Make it this run's, where it is to be claimed.

        Raises:
            StorageError: another run has claimed it, or that cannot be noted.
        """
        if self.claim_mode is ClaimMode.CLAIM:
            try:
                self.storage.claim(self.metadata.checkpoint_id, f"a run of {self.metadata.job}")
            except StorageError as error:
                raise StorageError(f"{self.path}: {error}") from error

    def misfits(self, job: JobShape) -> list[str]:
        """Return why it is no checkpoint of this job, a line for each reason; none where it is one."""
        return [f"{self.path}: {reason}" for reason in _misfits(self.metadata, job)]


def _misfits(metadata: CheckpointMetadata, job: JobShape) -> Iterator[str]:
    if metadata.job != job.name:
        yield f"it is a checkpoint of the job {metadata.job!r}, not of {job.name!r}"
        return
    there = metadata.parallelism
    if there.keys() != job.parallelism.keys():
        yield f"its vertices are {', '.join(there)}; those of the job are {', '.join(job.parallelism)}"
        return
    if metadata.exchanges is not None and metadata.exchanges != job.exchanges:
        yield f"its edges are {_shown(metadata.exchanges)}; those of the job are {_shown(job.exchanges)}"
        return
    yield from rescaling_misfits(metadata, job)
    yield from _looked_at_too_late(metadata, job)


def _looked_at_too_late(metadata: CheckpointMetadata, job: JobShape) -> Iterator[str]:
    """Say whose records are in it without their bytes, which the job would look at."""
    if metadata.has_records:
        for source, target, _ in sorted({*metadata.blank_exchanges} - {*job.unread}):
            yield (
                f"it has records of {source} -> {target} without what is in them, which nobody looked at "
                "when it was taken; a function, or a hash exchange behind one, does now"
            )


def _shown(exchanges: Iterable[Exchange]) -> str:
    return ", ".join(f"{source} -> {target} ({ship})" for source, target, ship in exchanges)
