"""Which subtask takes over what of a checkpoint, where a job has another parallelism than it had then.

::

    key groups    |  0 .. 63   |  64 .. 127  |        of 2 subtasks
                  |0..42| 43 .. 85 |86 .. 127|        of 3: the second one reads the state of both

Keyed state goes by key groups: a subtask is given the handles of all that had some of its own, and takes no
other entries of them. So the number of key groups, the maximum parallelism, is that of the checkpoint.
Lists of operator state are split into even parts, or all go to all, or what is the same in all to each. What
a source subtask had to read stays together, as a split that is read on where it was left. Data in flight is
dealt out in `channel_assignment`.

A subtask whose input had ended has emitted its last records and is done with its keys. Where others of its
vertex had not ended, its keyed state is left out, as that of a finished task is in Flink: its last records
would be emitted again. (At least once they may be.) The rules are otherwise those of Flink's
StateAssignmentOperation and RoundRobinOperatorStateRepartitioner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ..errors import StateError
from ..exchange.key_groups import default_max_parallelism, key_group_range
from ..scenarios.topology import Exchange, JobShape, ShipStrategy
from ..scenarios.user_code import KeyHash
from ..state.backend import ReadHandle
from ..state.snapshots import (
    CHANNEL_STATE,
    EVENT_TIME,
    HELD_BACK,
    OWED,
    PENDING_TRANSACTIONS,
    POSITION,
    SPLITS,
    CheckpointMetadata,
    Redistribution,
    StateHandle,
    StateKind,
    SubtaskSnapshot,
)
from ..state.values import decode_value, encode_value
from .channel_assignment import ChannelAssignment, exchanges_of

AT_LEAST_ONCE = "AT_LEAST_ONCE_CHECKPOINT"
"""The type of checkpoints from which records may come a second time."""


class StateAssignment:
    """What the subtasks of a job take over from a checkpoint that was taken at another parallelism.

    `hashes` has the hash of a record's key, by the number of the exchange, where records go by their key.
    `at_least_once` is the promise of the job, which its savepoints do not tell of. Nothing is read before it
    is asked for.
    """

    def __init__(
        self,
        metadata: CheckpointMetadata,
        job: JobShape,
        hashes: Mapping[int, KeyHash],
        read: ReadHandle,
        *,
        at_least_once: bool = False,
    ) -> None:
        self._again = at_least_once or metadata.checkpoint_type == AT_LEAST_ONCE
        self._metadata = metadata
        self._job = job
        self._read = read
        self._channels = ChannelAssignment(metadata, job, hashes, read)
        self._of_vertices: dict[str, list[SubtaskSnapshot]] = {}
        self._redistributions: dict[tuple[str, str], Redistribution] = {}  # by vertex and list

    def of(self, vertex: str, subtask: int) -> SubtaskSnapshot:
        """Return what a subtask of the job begins with, as if it had been in the checkpoint.

        Raises:
            StorageError: A file could not be read.
            StateError: The bytes are not those of such state, or data in flight cannot be dealt out.
        """
        if vertex not in self._of_vertices:
            self._of_vertices[vertex] = list(self._assigned(vertex))
        snapshot = self._of_vertices[vertex][subtask]
        return replace(snapshot, handles=(*snapshot.handles, *self._channels.handles(vertex, subtask)))

    def _assigned(self, vertex: str) -> Iterator[SubtaskSnapshot]:
        """What the subtasks of a vertex begin with, but for data in flight."""
        before, subtasks = _subtasks_of(self._metadata, vertex), self._job.parallelism[vertex]
        if subtasks == len(before):
            for snapshot in united(before):
                yield replace(snapshot, handles=_state_of(snapshot))
            return
        is_source = all(target != vertex for _, target, _ in self._job.exchanges)
        lists = (self._splits if is_source else self._lists)(before, subtasks)
        keyed = [handle for snapshot in self._with_keys(before) for handle in _keyed(snapshot)]
        max_parallelism = carried_over(self._metadata, self._job).get(vertex)
        for index in range(subtasks):
            groups = key_group_range(max_parallelism or default_max_parallelism(subtasks), subtasks, index)
            own = [handle for handle in keyed if _has_some_of(handle, groups)]
            ended = all(map(_has_ended, before)) or (is_source and SPLITS not in lists[index])
            yield SubtaskSnapshot(
                vertex=vertex,
                subtask=index,
                handles=(*own, *(self._list_handle(vertex, *each) for each in lists[index].items())),
                data_ended=ended,
                finished=all(snapshot.finished for snapshot in before),
            )

    def _with_keys(self, before: Sequence[SubtaskSnapshot]) -> list[SubtaskSnapshot]:
        """Those subtasks whose keyed state is still needed."""
        going_on = [snapshot for snapshot in before if not _has_ended(snapshot)]
        if not going_on or self._again:
            return list(before)
        return going_on

    def _lists(self, before: Sequence[SubtaskSnapshot], subtasks: int) -> list[dict[str, list[Any]]]:
        """The operator state of the subtasks of a vertex, list by list."""
        some_go_on = not all(map(_has_ended, before))
        found: dict[str, list[tuple[int, list[Any]]]] = {}
        for snapshot in before:
            for name, values in self._lists_in(snapshot).items():
                if not (some_go_on and _has_ended(snapshot) and _is_over(name)):
                    found.setdefault(name, []).append((snapshot.subtask, values))
        dealt: list[dict[str, list[Any]]] = [{} for _ in range(subtasks)]
        for name, parts in found.items():
            redistribution = self._redistributions.get((before[0].vertex, name), Redistribution.SPLIT)
            if redistribution is Redistribution.BROADCAST:  # an empty one is as good, with all yet to come
                known = dict(parts)
                parts = [(snapshot.subtask, known.get(snapshot.subtask, [])) for snapshot in before]
            for own, values in zip(dealt, deal(name, parts, subtasks, redistribution), strict=True):
                if values:
                    own[name] = values
        return dealt

    def _splits(self, before: Sequence[SubtaskSnapshot], subtasks: int) -> list[dict[str, list[Any]]]:
        """The state of the subtasks of a source: each reads its share of what was begun, if any is left."""
        splits: list[list[int]] = []
        event_time: list[tuple[int, list[Any]]] = []
        for snapshot in before:
            lists = self._lists_in(snapshot)
            begun = [[snapshot.subtask, len(before), position] for position in lists.get(POSITION, [0])]
            if not _has_ended(snapshot):
                splits += lists.get(SPLITS, begun)
            event_time.append((snapshot.subtask, lists.get(EVENT_TIME, [])))
        reached = deal(EVENT_TIME, event_time, subtasks)
        return [
            {
                name: values
                for name, values in ((SPLITS, splits[index::subtasks]), (EVENT_TIME, own))
                if values
            }
            for index, own in enumerate(reached)
        ]

    def _lists_in(self, snapshot: SubtaskSnapshot) -> dict[str, list[Any]]:
        lists: dict[str, list[Any]] = {}
        for handle in snapshot.handles:
            if handle.kind is StateKind.OPERATOR:
                values = decode_value(self._read(handle))
                if type(values) is not list:
                    raise StateError(f"operator state {handle.name!r} is no list")
                lists.setdefault(handle.name, []).extend(values)
                self._redistributions[snapshot.vertex, handle.name] = handle.redistribution
        return lists

    def _list_handle(self, vertex: str, name: str, values: list[Any]) -> StateHandle:
        data = encode_value(values)
        return StateHandle(
            kind=StateKind.OPERATOR,
            name=name,
            size=len(data),
            inline=data,
            redistribution=self._redistributions.get((vertex, name), Redistribution.SPLIT),
        )


def united(before: Sequence[SubtaskSnapshot]) -> list[SubtaskSnapshot]:
    """Return the snapshots of a vertex, each with the lists of all that are united."""
    union = [handle for snapshot in before for handle in snapshot.handles if _is_united(handle)]
    if not union:
        return list(before)
    return [
        replace(
            snapshot,
            handles=(*(handle for handle in snapshot.handles if not _is_united(handle)), *union),
        )
        for snapshot in before
    ]


def _is_united(handle: StateHandle) -> bool:
    return handle.kind is StateKind.OPERATOR and handle.redistribution is Redistribution.UNION


def deal(
    name: str,
    parts: Sequence[tuple[int, list[Any]]],
    subtasks: int,
    redistribution: Redistribution = Redistribution.SPLIT,
) -> list[list[Any]]:
    """Return which values of a list of operator state each of so many subtasks is given.

    `parts` has what each subtask had, with its number. Lists of tasks themselves that mean something for all
    of them have a way of their own.
    """
    values = [value for _, part in parts for value in part]
    match name:
        case _ if name == EVENT_TIME:
            return [[max(values)] if values else []] * subtasks
        case _ if name == PENDING_TRANSACTIONS:  # which keep the names under which they may be committed
            named = [[*value[:2], *(value[2:] or [subtask])] for subtask, part in parts for value in part]
            return split(named, subtasks)
        case _ if name == HELD_BACK:
            reached = [value["watermark"] for value in values if isinstance(value, dict)]
            fired = [{"watermark": max(reached), "windows": {}}] if reached else []
            return [[*part, *fired] for part in split(values, subtasks)]
        case _ if redistribution is Redistribution.UNION:
            return [list(values) for _ in range(subtasks)]
        case _ if redistribution is Redistribution.BROADCAST:
            return [list(parts[index % len(parts)][1]) for index in range(subtasks)]
        case _:
            return split(values, subtasks)


def split(values: Sequence[Any], subtasks: int) -> list[list[Any]]:
    """Return the values in as many parts, in order; the first ones have one more where they do not go up."""
    each, more = divmod(len(values), subtasks)
    bounds = [index * each + min(index, more) for index in range(subtasks + 1)]
    return [list(values[bounds[index] : bounds[index + 1]]) for index in range(subtasks)]


def carried_over(metadata: CheckpointMetadata, job: JobShape) -> dict[str, int]:
    """Return the maximum parallelism of the vertices of which it is not what follows from their parallelism.

    It is that of the checkpoint; a vertex without state may have outgrown that.
    """
    kept = {name: metadata.max_parallelism_of(name) for name in job.parallelism}
    return {
        name: kept[name]
        for name, subtasks in job.parallelism.items()
        if subtasks <= kept[name] != default_max_parallelism(subtasks)
    }


def rescaling_misfits(metadata: CheckpointMetadata, job: JobShape) -> Iterator[str]:
    """Say in a line each why a checkpoint cannot be taken over at the parallelism of a job."""
    changed = [name for name in job.parallelism if metadata.parallelism[name] != job.parallelism[name]]
    for name in changed:
        before, most = _subtasks_of(metadata, name), metadata.max_parallelism_of(name)
        if job.parallelism[name] > most and any(_state_of(snapshot) for snapshot in before):
            yield (
                f"{name} has parallelism {job.parallelism[name]} in the job, and its state in the checkpoint "
                f"is for {most} at most, its maximum parallelism"
            )
        if any(map(_keyed, before)) and not is_hashed(name, job.exchanges):
            yield (
                f"{name} has parallelism {len(before)} in it and {job.parallelism[name]} in the job; no hash "
                "exchange leads there, so its keyed state belongs to its subtasks and not to key groups"
            )
        yield from _half_ended(name, before)
    for number, (source, target, ship) in enumerate(job.exchanges):
        is_pointwise = ShipStrategy.of(ship).pointwise
        if {source, target} & {*changed} and is_pointwise and _in_flight(metadata, job, number):
            yield (
                f"it has records in flight from {source} to {target}, which {ship} cannot deal out anew "
                "at another parallelism; go on from an aligned checkpoint, or at the same parallelism"
            )


def is_hashed(vertex: str, exchanges: Iterable[Exchange]) -> bool:
    """Return whether a hash exchange leads to a vertex, so that its keys are in key groups."""
    return any(target == vertex and ShipStrategy.of(ship).by_key for _, target, ship in exchanges)


def _half_ended(vertex: str, before: Sequence[SubtaskSnapshot]) -> Iterator[str]:
    ended = [snapshot for snapshot in before if _has_ended(snapshot)]
    if not 0 < len(ended) < len(before):
        return
    for snapshot in before:
        for handle in filter(_is_of_user, snapshot.handles):
            is_split = handle.redistribution is Redistribution.SPLIT
            if is_split and snapshot in ended:
                yield (
                    f"the input of {vertex}[{snapshot.subtask}] had ended and that of others had not, so its "
                    f"operator state {handle.name!r} is nobody else's; go on from an older checkpoint"
                )
                return
            if not is_split and any(each.finished for each in ended):
                yield (
                    f"some subtasks of {vertex} had ended and others had not, so what they had of the "
                    f"operator state {handle.name!r} is missing; go on from an older checkpoint"
                )
                return


def _is_of_user(handle: StateHandle) -> bool:
    """Whether it is operator state that tasks do not know the meaning of."""
    known = (EVENT_TIME, PENDING_TRANSACTIONS, POSITION, SPLITS)
    return handle.kind is StateKind.OPERATOR and handle.name not in known and not _is_over(handle.name)


def _in_flight(metadata: CheckpointMetadata, job: JobShape, number: int) -> bool:
    """Whether there is data of an exchange in the checkpoint, at either end of it."""
    source, target, _ = job.exchanges[number]
    ends = {
        (vertex, kind): exchanges_of(job, vertex, kind).index(number)
        for vertex, kind in ((target, StateKind.INPUT_CHANNEL), (source, StateKind.OUTPUT_CHANNEL))
    }
    return any(
        handle.size and ends.get((snapshot.vertex, handle.kind)) == handle.exchange
        for snapshot in metadata.subtasks
        for handle in snapshot.handles
    )


def _subtasks_of(metadata: CheckpointMetadata, vertex: str) -> list[SubtaskSnapshot]:
    """The snapshots of all subtasks of a vertex; one that is not in the checkpoint has nothing."""
    found = {snapshot.subtask: snapshot for snapshot in metadata.subtasks if snapshot.vertex == vertex}
    return [
        found.get(index) or SubtaskSnapshot(vertex=vertex, subtask=index)
        for index in range(metadata.parallelism[vertex])
    ]


def _has_ended(snapshot: SubtaskSnapshot) -> bool:
    return snapshot.data_ended or snapshot.finished


def _is_over(name: str) -> bool:
    """Whether a list is worth nothing once the last records have been emitted."""
    return name == HELD_BACK or name.startswith(OWED)


def _state_of(snapshot: SubtaskSnapshot) -> tuple[StateHandle, ...]:
    return tuple(handle for handle in snapshot.handles if handle.kind not in CHANNEL_STATE)


def _keyed(snapshot: SubtaskSnapshot) -> list[StateHandle]:
    return [handle for handle in snapshot.handles if handle.kind is StateKind.KEYED]


def _has_some_of(handle: StateHandle, groups: range) -> bool:
    if handle.key_groups is None:
        return True
    first, last = handle.key_groups
    return first < groups.stop and groups.start <= last
