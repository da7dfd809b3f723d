"""Recovery of a job from a checkpoint of this run or of an earlier run.

`RecoverySource` finds the state of each subtask in the metadata and the storage. An `InitialCheckpoint` comes
from an earlier run; the user chooses whether the new run owns it (`ClaimMode`). Ids of new checkpoints follow
its id, and the clock of the new run begins at 0. Since that checkpoint, the parallelism of vertices may have
changed (see `rescaling`), and chains may have been split or joined.

A vertex with a name such as "count -> sink" is a chain of several vertices (Flink's operator chains). If the
job has the members of a chain as separate vertices, or the reverse, each piece of state goes to the member
that it belongs to::

    checkpoint   numbers --hash--> "count -> sink"         keyed state of count, transactions of sink
    job          numbers --hash--> count --forward--> sink

Keyed state and records that were read but not emitted belong to the first member, which reads the chain's
input. Positions of a source belong to the first member too, which is the source. Transactions of a sink
belong to the last member. Operator state of user functions goes to all members, since each function reads its
own lists by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from buffers import BufferBuilder, LocalBufferPool, PipelinedSubpartition
from flowcontrol import EndOfOutputChannelState

from ..errors import RecoveryError, StateError, StorageError
from ..exchange.partition import ResultPartition
from ..scenarios.checkpointed_shape import Exchange, JobShape
from ..state.handles import HELD_BACK, OWED, PENDING_TRANSACTIONS, POSITION, SPLITS, StateHandle
from ..state.state_kinds import CHANNEL_STATE, StateKind
from ..state.value_encoding import decode_value, encode_value
from .metadata import CheckpointMetadata, SubtaskSnapshot
from .rescaling import Rescaling, StateAssignment, carried_over, is_hashed, rescaling_mismatches, united
from .storage import CheckpointStorage, HandleReader

__all__ = ["ClaimMode", "InitialCheckpoint"]

UNUSABLE = (StorageError, StateError, RecoveryError)
"""Errors raised if a checkpoint cannot be restored."""


def unusable_text(checkpoint_id: int, error: Exception, *, last: bool) -> str:
    """Return a one-line message that a checkpoint cannot be restored; `last`: whether no other is left."""
    end = "; there is no other checkpoint to restore" if last else ""
    return f"checkpoint {checkpoint_id} cannot be restored: {' '.join(str(error).split())}{end}"


class SubtaskRecovery:
    """The state of one subtask in a checkpoint, and its source."""

    def __init__(self, source: RecoverySource, snapshot: SubtaskSnapshot) -> None:
        self.snapshot = snapshot
        self.data_ended = snapshot.data_ended or snapshot.finished
        self.checkpoint_id = source.metadata.checkpoint_id
        self._source = source

    @property
    def state_handles(self) -> list[StateHandle]:
        """Handles of keyed and operator state.

        If the checkpoint belongs to another run, the handles are marked as not shared. New checkpoints then
        do not refer to its files.
        """
        handles = [handle for handle in self.snapshot.handles if handle.kind not in CHANNEL_STATE]
        return handles if self._source.owned else [_not_shared(handle) for handle in handles]

    def of(self, kind: StateKind) -> list[StateHandle]:
        """Return the handles of one kind, in the order in which they were stored."""
        return [handle for handle in self.snapshot.handles if handle.kind is kind]

    def read(self, handle: StateHandle) -> bytes:
        """Return the bytes of a handle.

        Raises:
            StorageError: if the bytes cannot be read or have changed.
        """
        return self._source.read(handle)


class RecoverySource:
    """A checkpoint and its storage; `owned`: whether this run's checkpoints may share its files.

    With `rescaling`, the state is redistributed to the subtasks of its job.
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
        self._assignment = None if rescaling is None else StateAssignment(metadata, rescaling, self.read)
        self.max_parallelism = (
            metadata.max_parallelism if rescaling is None else carried_over(metadata, rescaling.job)
        )

    def of(self, vertex: str, subtask: int) -> SubtaskRecovery:
        """Return the state of one subtask, which is empty if the subtask took no part in the checkpoint.

        Raises:
            StorageError: if state to redistribute cannot be read.
            StateError: if that state is invalid.
        """
        if self._assignment is not None:
            return SubtaskRecovery(self, self._assignment.of(vertex, subtask))
        if vertex not in self._united:
            snapshots = united([each for each in self.metadata.subtasks if each.vertex == vertex])
            self._united[vertex] = {snapshot.subtask: snapshot for snapshot in snapshots}
        nothing = SubtaskSnapshot(vertex=vertex, subtask=subtask)
        return SubtaskRecovery(self, self._united[vertex].get(subtask, nothing))


def _not_shared(handle: StateHandle) -> StateHandle:
    if handle.file is None:
        return handle
    return replace(handle, file=replace(handle.file, shared=False))


def restore_partitions(partitions: Sequence[ResultPartition], recovery: SubtaskRecovery) -> Iterator[None]:
    """Restore the in-flight data of a subtask's outputs.

    Records written later follow this data. After its recovered data, even if there is none, each subpartition
    blocks until its reader resumes it. Yields when a pool has no segment; the caller continues when a segment
    is free.

    Raises:
        StorageError: before the first yield, if the data cannot be read.
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
    """Restore the data of one subpartition, before anything else is written to it.

    Yields while `pool` has no segment. As in Flink, the task then waits until readers have returned segments.
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


class ClaimMode(StrEnum):
    """Ownership of the checkpoint that a run starts from (Flink's RecoveryClaimMode)."""

    NO_CLAIM = "no-claim"
    """The run does not own the checkpoint, and its own checkpoints do not use its files."""
    CLAIM = "claim"
    """The run owns the checkpoint and deletes it when it is no longer retained."""
    LEGACY = "legacy"
    """The run does not own the checkpoint, but may use its files, so it must be kept (Flink 1)."""


class InitialCheckpoint(NamedTuple):
    """The checkpoint or savepoint that a run starts from, its storage, and its path for messages.

    New checkpoints have ids from `next_id` on, so that no other checkpoint in the storage has the same id.
    `in_place`: whether the new run stores its checkpoints in the same storage.
    `leaves_state_out`: whether to ignore state of vertices that the job does not have (Flink's
    allowNonRestoredState).
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
        """Whether checkpoints of the new run may refer to files of this checkpoint."""
        return self.in_place and self.claim_mode is not ClaimMode.NO_CLAIM

    def claim(self) -> None:
        """Record in the storage that this run owns the checkpoint; does nothing unless the mode is CLAIM.

        Raises:
            StorageError: if another run has claimed the checkpoint, or the claim cannot be stored.
        """
        if self.claim_mode is ClaimMode.CLAIM:
            try:
                self.storage.claim(self.metadata.checkpoint_id, f"a run of {self.metadata.job}")
            except StorageError as error:
                raise StorageError(f"{self.path}: {error}") from error

    def mismatches(self, job: JobShape) -> list[str]:
        """Return the reasons why the job cannot start from this checkpoint, one line each; empty if it can.

        Raises:
            StorageError: if state that has to be checked cannot be read.
        """
        metadata = rechained(self.metadata, job, self.storage)
        reasons = _mismatches(metadata, job, leaves_state_out=self.leaves_state_out)
        return [f"{self.path}: {reason}" for reason in reasons]

    def fitted(self, job: JobShape) -> InitialCheckpoint:
        """Return this checkpoint adapted to the job, without removed vertices and with new ones.

        Raises:
            StorageError: see `mismatches`.
        """
        return self._replace(metadata=fitted(self.metadata, job, self.storage))


def fitted(metadata: CheckpointMetadata, job: JobShape, storage: CheckpointStorage) -> CheckpointMetadata:
    """Return a checkpoint with the vertices, chains and edges of a job; new vertices have no state.

    Raises:
        StorageError: if state of split or joined chains cannot be read.
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


def _mismatches(metadata: CheckpointMetadata, job: JobShape, *, leaves_state_out: bool) -> Iterator[str]:
    if metadata.job != job.name:
        yield (
            f"the checkpoint is from the job {metadata.job!r}, but this job is {job.name!r}; restore a "
            "checkpoint of this job"
        )
        return
    handles = [(each.vertex, handle) for each in metadata.subtasks for handle in each.handles if handle.size]
    with_state = dict.fromkeys(vertex for vertex, _ in handles if vertex not in job.parallelism)
    if with_state and not leaves_state_out:
        yield (
            f"the checkpoint has state of {', '.join(with_state)}, but the job has only the vertices "
            f"{', '.join(job.parallelism)}; set `leaves_state_out` to leave that state out"
        )
        return
    in_flight = any(handle.kind in CHANNEL_STATE for _, handle in handles)
    if in_flight and metadata.exchanges not in (None, job.exchanges):
        yield (
            f"the checkpoint has in-flight records for the edges {_shown(metadata.exchanges or ())}, "
            f"but the job has the edges {_shown(job.exchanges)}; restore a savepoint or an aligned "
            "checkpoint instead, which has no in-flight records"
        )
        return
    for name in dict.fromkeys(vertex for vertex, handle in handles if handle.kind is StateKind.KEYED):
        before = job.exchanges if metadata.exchanges is None else metadata.exchanges
        if name in job.parallelism and is_hashed(name, before) != is_hashed(name, job.exchanges):
            yield (
                f"the checkpoint was taken with the edges {_shown(before)}, but the job has the edges "
                f"{_shown(job.exchanges)}; they would send keys of {name} to subtasks that do not have the "
                "state of these keys; restore with the edges of the checkpoint"
            )
            return
    adapted = _with_edges(metadata, job)
    yield from rescaling_mismatches(adapted, job)
    yield from _blank_records_now_read(adapted, job)


def _blank_records_now_read(metadata: CheckpointMetadata, job: JobShape) -> Iterator[str]:
    """Yield an error for each exchange with in-flight records stored without bytes that the job now reads."""
    if metadata.has_records:
        for source, target, _ in sorted({*metadata.blank_exchanges} - {*job.unread}):
            yield (
                f"the checkpoint has in-flight records of {source} -> {target} without their bytes, "
                "since no task of that run read these bytes; but now a user's function, or a hash "
                "exchange after such a function, reads them; restore an aligned checkpoint"
            )


def _shown(exchanges: Iterable[Exchange]) -> str:
    return ", ".join(f"{source} -> {target} ({ship})" for source, target, ship in exchanges)


LINK = " -> "
"""Separator between the names of a chain's members."""


def rechained(metadata: CheckpointMetadata, job: JobShape, storage: CheckpointStorage) -> CheckpointMetadata:
    """Adapt a checkpoint to a job that chains the vertices differently from the job that took it.

    A checkpoint with in-flight records is returned unchanged: these records belong to exchanges that the job
    does not have. Pending transactions keep the names under which they are committed.

    Raises:
        StorageError: if pending transactions cannot be read from `storage`.
    """
    split, joined = _split_and_joined(metadata, job)
    in_flight = any(handle.kind in CHANNEL_STATE for each in metadata.subtasks for handle in each.handles)
    if in_flight or not (split or joined):
        return metadata
    read = HandleReader(storage)
    named = [_with_named_transactions(snapshot, read) for snapshot in metadata.subtasks]
    subtasks = [part for snapshot in named for part in _state_of_members(snapshot, split)]
    chain_of = {member: chain for chain, members in joined.items() for member in members}
    heads = {**chain_of, **{chain: members[0] for chain, members in split.items()}}
    tails = {**chain_of, **{chain: members[-1] for chain, members in split.items()}}
    edges = metadata.exchanges
    return replace(
        metadata,
        parallelism=_by_new_vertex(metadata.parallelism, split, chain_of),
        max_parallelism=_by_new_vertex(metadata.max_parallelism, split, chain_of),
        subtasks=tuple(_state_of_chains(subtasks, chain_of)),
        exchanges=None if edges is None else _between_new_vertices(edges, heads, tails),
    )


Chains = Mapping[str, Sequence[str]]
"""Members of each chain, by the chain's name. A member may itself be a chain."""


def _split_and_joined(metadata: CheckpointMetadata, job: JobShape) -> tuple[Chains, Chains]:
    """Return the chains of the checkpoint that the job has split, and the chains that the job has joined."""
    gone = [name for name in metadata.parallelism if name not in job.parallelism]
    new = [name for name in job.parallelism if name not in metadata.parallelism]
    split = {chain: members for chain in gone if (members := _members_of(chain, new))}
    joined = {
        chain: members
        for chain in new
        if (members := _members_of(chain, gone))
        and len({metadata.parallelism[member] for member in members}) == 1
    }
    return split, joined


def _members_of(chain: str, names: Sequence[str]) -> list[str]:
    """Split the name of a chain into members that are in `names`; empty if this is impossible."""
    rest, members = chain, []
    while rest:
        member = next((name for name in names if f"{rest}{LINK}".startswith(f"{name}{LINK}")), None)
        if member is None:
            return []
        members.append(member)
        rest = rest[len(member) + len(LINK) :]
    return members


def _state_of_members(snapshot: SubtaskSnapshot, split: Chains) -> Iterator[SubtaskSnapshot]:
    """Yield each member's part of the state, if the snapshot is of a chain that the job has split."""
    members = split.get(snapshot.vertex)
    if members is None:
        yield snapshot
        return
    for member in members:
        handles = tuple(handle for handle in snapshot.handles if _belongs_to(member, members, handle))
        yield replace(snapshot, vertex=member, handles=handles)


def _belongs_to(member: str, members: Sequence[str], handle: StateHandle) -> bool:
    """Whether a piece of a chain's state belongs to the given member."""
    if handle.name == PENDING_TRANSACTIONS:
        return member == members[-1]
    if handle.kind is StateKind.KEYED or handle.name in (POSITION, SPLITS, HELD_BACK):
        return member == members[0]
    return member == members[0] or not handle.name.startswith(OWED)


def _with_named_transactions(snapshot: SubtaskSnapshot, read: HandleReader) -> SubtaskSnapshot:
    """Return the state of a subtask after adding its index and vertex to each pending transaction.

    After rechaining, the transactions are still committed under these names.
    """

    def named(handle: StateHandle) -> StateHandle:
        if handle.name != PENDING_TRANSACTIONS:
            return handle
        own = [snapshot.subtask, snapshot.vertex]
        values = [[*value, *own[len(value) - 2 :]] for value in decode_value(read(handle))]
        data = encode_value(values)
        return replace(handle, inline=data, file=None, offset=0, size=len(data))

    return replace(snapshot, handles=tuple(map(named, snapshot.handles)))


def _state_of_chains(
    snapshots: Sequence[SubtaskSnapshot], chain_of: Mapping[str, str]
) -> Iterator[SubtaskSnapshot]:
    """Yield the state of the job's subtasks; the states of a joined chain's members are merged."""
    by_task: dict[tuple[str, int], list[SubtaskSnapshot]] = {}
    for snapshot in snapshots:
        task = chain_of.get(snapshot.vertex, snapshot.vertex), snapshot.subtask
        by_task.setdefault(task, []).append(snapshot)
    for (vertex, subtask), parts in by_task.items():
        yield SubtaskSnapshot(
            vertex=vertex,
            subtask=subtask,
            handles=tuple(handle for part in parts for handle in part.handles),
            data_ended=all(part.data_ended or part.finished for part in parts),
            finished=all(part.finished for part in parts),
        )


def _by_new_vertex(numbers: Mapping[str, int], split: Chains, chain_of: Mapping[str, str]) -> dict[str, int]:
    """Return a number for each vertex of the job, from the numbers of the checkpoint's vertices."""
    return {
        chain_of.get(member, member): number
        for name, number in numbers.items()
        for member in split.get(name, (name,))
    }


def _between_new_vertices(
    exchanges: Sequence[Exchange], heads: Mapping[str, str], tails: Mapping[str, str]
) -> tuple[Exchange, ...]:
    """Return the exchanges between vertices of the job, without exchanges inside a chain."""
    moved = [
        (tails.get(source, source), heads.get(target, target), ship) for source, target, ship in exchanges
    ]
    return tuple(each for each in moved if each[0] != each[1])
