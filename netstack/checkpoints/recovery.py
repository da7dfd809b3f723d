"""Coming back from a checkpoint: finds the state of each subtask in its metadata and storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from buffers import BufferBuilder, LocalBufferPool, PipelinedSubpartition
from flowcontrol import EndOfOutputChannelState

from ..errors import RecoveryError, StateError, StorageError
from ..exchange.partition import ResultPartition
from ..scenarios.topology import JobShape
from ..scenarios.user_code import KeyHash
from ..state.snapshots import CHANNEL_STATE, CheckpointMetadata, StateHandle, StateKind, SubtaskSnapshot
from .assignment import StateAssignment, carried_over, united
from .storage import CheckpointStorage, HandleReader

UNUSABLE = (StorageError, StateError, RecoveryError)
"""What is raised where a checkpoint cannot be restored."""


def unusable_text(checkpoint_id: int, error: Exception, *, last: bool) -> str:
    """Return in one line that and why a checkpoint cannot be restored; `last`: nor can any other one."""
    end = "; no other checkpoint is left" if last else ""
    return f"checkpoint {checkpoint_id} cannot be restored: {' '.join(str(error).split())}{end}"


class SubtaskRecovery:
    """The state that one subtask had in a checkpoint; without `snapshot` it had none.

    `bytes` is the size of all of it, `persisted_bytes` that of the data that was in flight.
    """

    def __init__(self, source: RecoverySource, snapshot: SubtaskSnapshot | None) -> None:
        self.data_ended = snapshot is not None and (snapshot.data_ended or snapshot.finished)
        self.finished = snapshot is not None and snapshot.finished
        self.bytes = 0 if snapshot is None else snapshot.size
        self.persisted_bytes = 0 if snapshot is None else snapshot.persisted_bytes
        self.checkpoint_id = source.metadata.checkpoint_id
        self._source = source
        self._handles = () if snapshot is None else snapshot.handles

    @property
    def state_handles(self) -> list[StateHandle]:
        """Handles of keyed and operator state; files of another's checkpoint are not shared with it."""
        handles = [handle for handle in self._handles if handle.kind not in CHANNEL_STATE]
        return handles if self._source.owned else [_not_shared(handle) for handle in handles]

    def of(self, kind: StateKind) -> list[StateHandle]:
        """Handles of one kind, in the order in which they were stored."""
        return [handle for handle in self._handles if handle.kind is kind]

    def read(self, handle: StateHandle) -> bytes:
        """The bytes of a handle.

        Raises:
            StorageError: if they cannot be read, or are not those that were written.
        """
        return self._source.read(handle)


class Rescaling(NamedTuple):
    """A job whose parallelism is not that of a checkpoint; the others as in `StateAssignment`."""

    job: JobShape
    hashes: Mapping[int, KeyHash]
    at_least_once: bool = False


class RecoverySource:
    """A checkpoint and the storage that holds its files; `owned` where they may be shared with it.

    With `rescaling` its state is dealt out to the subtasks of that job.
    """

    def __init__(
        self,
        metadata: CheckpointMetadata,
        storage: CheckpointStorage,
        *,
        owned: bool = True,
        rescaling: Rescaling | None = None,
    ) -> None:
        self.metadata = metadata
        self.owned = owned
        self.read = HandleReader(storage)
        self._united: dict[str, dict[int, SubtaskSnapshot]] = {}
        self._assignment = (
            None
            if rescaling is None
            else StateAssignment(
                metadata, rescaling.job, rescaling.hashes, self.read, at_least_once=rescaling.at_least_once
            )
        )
        self.max_parallelism = (
            metadata.max_parallelism if rescaling is None else carried_over(metadata, rescaling.job)
        )

    def of(self, vertex: str, subtask: int) -> SubtaskRecovery:
        """The state of one subtask.

        Raises:
            StorageError: if what is to be dealt out anew cannot be read.
            StateError: if it is not what it should be.
        """
        if self._assignment is not None:
            return SubtaskRecovery(self, self._assignment.of(vertex, subtask))
        if vertex not in self._united:
            snapshots = united([each for each in self.metadata.subtasks if each.vertex == vertex])
            self._united[vertex] = {snapshot.subtask: snapshot for snapshot in snapshots}
        return SubtaskRecovery(self, self._united[vertex].get(subtask))


def _not_shared(handle: StateHandle) -> StateHandle:
    if handle.file is None:
        return handle
    return replace(handle, file=replace(handle.file, shared=False))


def restore_partitions(partitions: Sequence[ResultPartition], recovery: SubtaskRecovery) -> Iterator[None]:
    """Put the data that was in flight in the outputs of a subtask back; what it writes later comes behind.

    Each subpartition waits behind its recovered data, also where there is none, until its reader resumes.
    Yields where it cannot go on before a pool has segments again.

    Raises:
        StorageError: at first, if it cannot be read.
    """
    data = [(handle, recovery.read(handle)) for handle in recovery.of(StateKind.OUTPUT_CHANNEL)]
    for handle, in_flight in data:
        partition = partitions[handle.exchange]
        yield from restore_subpartition(partition.pool, partition.subpartitions[handle.channel], in_flight)
    for partition in partitions:
        partition.broadcast_event(EndOfOutputChannelState())


def restore_subpartition(
    pool: LocalBufferPool, subpartition: PipelinedSubpartition, data: bytes
) -> Iterator[None]:
    """Put recovered data back into a subpartition, before anything else is written.

    Yields where `pool` has no segment: as Flink's, the task waits until readers have given some back.
    """
    rest = memoryview(data)
    while len(rest):
        segment = pool.request(subpartition.index)
        if segment is None:
            yield
            continue
        builder = BufferBuilder(segment, pool, subpartition.index)
        rest = rest[builder.append(rest) :]
        subpartition.add(builder.consumer())
        builder.finish()
