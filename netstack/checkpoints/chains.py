"""Chains that were taken apart, or put together, since a checkpoint: whose is the state then.

A vertex whose name is that of several, such as "count -> sink", is a chain of them (Flink's operator chains).
Where the job has the members as vertices of their own, or the other way round, state goes with the member
that it is of::

    checkpoint   numbers --hash--> "count -> sink"         keyed state of count, transactions of sink
    job          numbers --hash--> count --forward--> sink

Keyed state, and what a task has held back, is that of the member that the exchange leads to, the first one;
positions are those of a source, which is the first one, too; transactions are the last one's. Lists of users'
functions go to all members, since each function reads by name what is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from ..scenarios.topology import Exchange, JobShape
from ..state.snapshots import (
    CHANNEL_STATE,
    HELD_BACK,
    OWED,
    PENDING_TRANSACTIONS,
    POSITION,
    SPLITS,
    CheckpointMetadata,
    StateHandle,
    StateKind,
    SubtaskSnapshot,
)
from ..state.values import decode_value, encode_value
from .storage import CheckpointStorage, HandleReader

LINK = " -> "
"""Between the names of a chain's members."""


def rechained(metadata: CheckpointMetadata, job: JobShape, storage: CheckpointStorage) -> CheckpointMetadata:
    """Return a checkpoint with the chains of a job, of vertices that have only been chained in another way.

    One that has records in flight is returned as it is: they belong to exchanges that are others now.

    Raises:
        StorageError: Transactions that have to keep their names cannot be read from `storage`.
    """
    apart, together = _changes(metadata, job)
    in_flight = any(handle.kind in CHANNEL_STATE for each in metadata.subtasks for handle in each.handles)
    if in_flight or not (apart or together):
        return metadata
    read = HandleReader(storage)
    named = [_with_names(snapshot, read) for snapshot in metadata.subtasks]
    subtasks = [part for snapshot in named for part in _parts(snapshot, apart.get(snapshot.vertex))]
    wholes = {member: whole for whole, members in together.items() for member in members}
    heads = {**wholes, **{chain: members[0] for chain, members in apart.items()}}
    tails = {**wholes, **{chain: members[-1] for chain, members in apart.items()}}
    return replace(
        metadata,
        parallelism=_numbers(metadata.parallelism, apart, wholes),
        max_parallelism=_numbers(metadata.max_parallelism, apart, wholes),
        subtasks=tuple(_joined(subtasks, wholes)),
        exchanges=None if metadata.exchanges is None else _exchanges(metadata.exchanges, heads, tails),
    )


Chains = Mapping[str, Sequence[str]]
"""Members, or shorter chains of them, by the name of a chain."""


def _changes(metadata: CheckpointMetadata, job: JobShape) -> tuple[Chains, Chains]:
    """The chains of the checkpoint that the job has in parts, and those of the job that it has in parts."""
    gone = [name for name in metadata.parallelism if name not in job.parallelism]
    new = [name for name in job.parallelism if name not in metadata.parallelism]
    apart = {chain: parts for chain in gone if (parts := _cover(chain, new))}
    together = {
        chain: parts
        for chain in new
        if (parts := _cover(chain, gone)) and len({metadata.parallelism[part] for part in parts}) == 1
    }
    return apart, together


def _cover(chain: str, names: Sequence[str]) -> list[str]:
    """The names that, one behind the other, make up a chain; none if they do not."""
    rest, parts = chain, []
    while rest:
        part = next((name for name in names if f"{rest}{LINK}".startswith(f"{name}{LINK}")), None)
        if part is None:
            return []
        parts.append(part)
        rest = rest[len(part) + len(LINK) :]
    return parts


def _parts(snapshot: SubtaskSnapshot, members: Sequence[str] | None) -> Iterator[SubtaskSnapshot]:
    """What each member of a chain has of its state."""
    for member in members or (snapshot.vertex,):
        handles = tuple(
            handle for handle in snapshot.handles if members is None or _is_of(handle, member, members)
        )
        yield replace(snapshot, vertex=member, handles=handles)


def _is_of(handle: StateHandle, member: str, members: Sequence[str]) -> bool:
    """Whether a member of a chain is given a piece of its state."""
    if handle.name == PENDING_TRANSACTIONS:
        return member == members[-1]
    if handle.kind is StateKind.KEYED or handle.name in (POSITION, SPLITS, HELD_BACK):
        return member == members[0]
    return member == members[0] or not handle.name.startswith(OWED)


def _with_names(snapshot: SubtaskSnapshot, read: HandleReader) -> SubtaskSnapshot:
    """The state of a subtask, whose transactions keep the name under which they may have been committed."""

    def named(handle: StateHandle) -> StateHandle:
        if handle.name != PENDING_TRANSACTIONS:
            return handle
        own = [snapshot.subtask, snapshot.vertex]
        values = [[*value, *own[len(value) - 2 :]] for value in decode_value(read(handle))]
        data = encode_value(values)
        return replace(handle, inline=data, file=None, offset=0, size=len(data))

    return replace(snapshot, handles=tuple(map(named, snapshot.handles)))


def _joined(snapshots: Sequence[SubtaskSnapshot], wholes: Mapping[str, str]) -> Iterator[SubtaskSnapshot]:
    """The state of the subtasks of a job, of which those of a chain have what its members had."""
    by_task: dict[tuple[str, int], list[SubtaskSnapshot]] = {}
    for snapshot in snapshots:
        task = wholes.get(snapshot.vertex, snapshot.vertex), snapshot.subtask
        by_task.setdefault(task, []).append(snapshot)
    for (vertex, subtask), parts in by_task.items():
        yield SubtaskSnapshot(
            vertex=vertex,
            subtask=subtask,
            handles=tuple(handle for part in parts for handle in part.handles),
            data_ended=all(part.data_ended or part.finished for part in parts),
            finished=all(part.finished for part in parts),
        )


def _numbers(of_vertices: Mapping[str, int], apart: Chains, wholes: Mapping[str, str]) -> dict[str, int]:
    """A number of each vertex, for those that there are now."""
    return {
        wholes.get(part, part): number
        for name, number in of_vertices.items()
        for part in apart.get(name, (name,))
    }


def _exchanges(
    exchanges: Sequence[Exchange], heads: Mapping[str, str], tails: Mapping[str, str]
) -> tuple[Exchange, ...]:
    """The exchanges between what there is now, without those that are within a chain."""
    moved = [
        (tails.get(source, source), heads.get(target, target), ship) for source, target, ship in exchanges
    ]
    return tuple(each for each in moved if each[0] != each[1])
