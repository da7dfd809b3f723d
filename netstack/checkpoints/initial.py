"""The retained checkpoint of an earlier run that a new one goes on from.

Whose it is from then on is the user's to say. Ids go on behind it, and the clock of the new run begins at 0.
Vertices may have another parallelism than they had in it; see `assignment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from ..errors import StorageError
from ..scenarios.topology import Exchange, JobShape
from ..state.snapshots import CHANNEL_STATE, CheckpointMetadata, StateKind
from .assignment import is_hashed, rescaling_misfits
from .chains import rechained
from .storage import CheckpointStorage


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
    beside this. `in_place`: the new run stores its checkpoints in the same storage. `leaves_state_out`: state
    of vertices that the job does not have is not needed (Flink's allowNonRestoredState).
    """

    metadata: CheckpointMetadata
    storage: CheckpointStorage
    path: str
    next_id: int
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    in_place: bool = False
    leaves_state_out: bool = False

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
        """Return why it is no checkpoint of this job, a line for each reason; none where it is one.

        Raises:
            StorageError: what has to be read to tell cannot be.
        """
        metadata = rechained(self.metadata, job, self.storage)
        reasons = _misfits(metadata, job, leaves_state_out=self.leaves_state_out)
        return [f"{self.path}: {reason}" for reason in reasons]

    def fitted(self, job: JobShape) -> InitialCheckpoint:
        """Return it as one of this job, which it fits: without vertices that are gone, with new ones.

        Raises:
            StorageError: as `misfits`.
        """
        return self._replace(metadata=fitted(self.metadata, job, self.storage))


def fitted(metadata: CheckpointMetadata, job: JobShape, storage: CheckpointStorage) -> CheckpointMetadata:
    """Return a checkpoint with the vertices, chains and edges of a job; new vertices have no state.

    Raises:
        StorageError: what chains have to take over cannot be read.
    """
    return _with_edges(rechained(metadata, job, storage), job)


def _with_edges(metadata: CheckpointMetadata, job: JobShape) -> CheckpointMetadata:
    return replace(
        metadata,
        parallelism={name: metadata.parallelism.get(name, now) for name, now in job.parallelism.items()},
        subtasks=tuple(each for each in metadata.subtasks if each.vertex in job.parallelism),
        exchanges=job.exchanges,
        max_parallelism={
            name: most for name, most in metadata.max_parallelism.items() if name in job.parallelism
        },
    )


def _misfits(metadata: CheckpointMetadata, job: JobShape, *, leaves_state_out: bool) -> Iterator[str]:
    if metadata.job != job.name:
        yield f"it is a checkpoint of the job {metadata.job!r}, not of {job.name!r}"
        return
    handles = [(each.vertex, handle) for each in metadata.subtasks for handle in each.handles if handle.size]
    with_state = dict.fromkeys(vertex for vertex, _ in handles if vertex not in job.parallelism)
    if with_state and not leaves_state_out:
        yield (
            f"it has state of {', '.join(with_state)}, and the vertices of the job are "
            f"{', '.join(job.parallelism)}; --allow-non-restored-state leaves that out"
        )
        return
    in_flight = any(handle.kind in CHANNEL_STATE for _, handle in handles)
    if in_flight and metadata.exchanges not in (None, job.exchanges):
        yield (
            f"it has records in flight, and its edges are {_shown(metadata.exchanges or ())}; those of the "
            f"job are {_shown(job.exchanges)}; go on from a savepoint, or an aligned checkpoint"
        )
        return
    for name in dict.fromkeys(vertex for vertex, handle in handles if handle.kind is StateKind.KEYED):
        before = job.exchanges if metadata.exchanges is None else metadata.exchanges
        if name in job.parallelism and is_hashed(name, before) != is_hashed(name, job.exchanges):
            yield (
                f"its edges are {_shown(before)}; with those of the job, {_shown(job.exchanges)}, the keys "
                f"of {name} go by other key groups than its state"
            )
            return
    there = _with_edges(metadata, job)
    yield from rescaling_misfits(there, job)
    yield from _looked_at_too_late(there, job)


def _looked_at_too_late(metadata: CheckpointMetadata, job: JobShape) -> Iterator[str]:
    """Name the exchanges whose records lie in it without their bytes, which the job reads."""
    if metadata.has_records:
        for source, target, _ in sorted({*metadata.blank_exchanges} - {*job.unread}):
            yield (
                f"it has records of {source} -> {target} without their bytes, which no task "
                "read before; a function, or a hash exchange behind one, reads them now"
            )


def _shown(exchanges: Iterable[Exchange]) -> str:
    return ", ".join(f"{source} -> {target} ({ship})" for source, target, ship in exchanges)
