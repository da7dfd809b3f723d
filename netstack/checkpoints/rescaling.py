"""Redistributes the state of a checkpoint to a job with another parallelism.

::

    key groups    |  0 .. 63   |  64 .. 127  |        of 2 subtasks
                  |0..42| 43 .. 85 |86 .. 127|        of 3: the second one reads the state of both

Keyed state is distributed by key groups. A subtask gets the handles of all subtasks that had some of its key
groups, and ignores entries of other key groups in them. So the job must keep the checkpoint's maximum
parallelism, which is its number of key groups. A list of operator state is split evenly, or every subtask
gets the whole list (union), or every subtask gets the common content (broadcast). The unread input of a
source subtask stays together as one split.

A subtask whose input had ended has emitted its last records and does not need its keyed state any more. If
other subtasks of its vertex had not ended, its keyed state is dropped, as Flink does for finished tasks. A
subtask that took over this state would emit these records again, which only at-least-once allows.

The in-flight data of a channel has two parts, one at its reader and one at its writer. A record may begin in
the one and end in the other. So the parts are joined, decoded, and distributed record by record::

    reader's piece | writer's piece         by key: to the subtask that has its key group now
    [..r1][r2][r3.. | ..r3][r4]    ->       round robin, if the exchange has no keys
                                            broadcast: each subtask gets all unread records of one reader

All in-flight data becomes data of input channels, which a subtask reads before newly sent data. Each record
is read once, and the records of a channel in order. In Flink the parts meet in virtual channels at the
reader, which drops the records of other key groups. The result is the same.

In-flight watermarks are dropped. A watermark is valid for its own channel only. If one subtask has taken over
the work of several, records of other channels may now follow the watermark. Event time does not advance until
each new channel has a watermark of its own, so event time never runs ahead.

The rules are otherwise those of Flink's StateAssignmentOperation and RoundRobinOperatorStateRepartitioner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from buffers import CorruptRecord, RecordBlock, RecordDecoder, watermark_places

from ..errors import StateError
from ..exchange.key_groups import assign_to_operators, default_max_parallelism, key_group_range
from ..scenarios.checkpoint_modes import GUARANTEES, CheckpointMode
from ..scenarios.checkpointed_shape import Exchange, JobShape
from ..scenarios.ship_strategies import ShipStrategy, consumers_of_producers, producers_of_consumers
from ..scenarios.user_code import KeyHash
from ..state.backend import ReadHandle
from ..state.handles import (
    EVENT_TIME,
    HELD_BACK,
    OWED,
    PENDING_TRANSACTIONS,
    POSITION,
    SPLITS,
    Redistribution,
    StateHandle,
)
from ..state.operator_state import list_in
from ..state.state_kinds import CHANNEL_STATE, StateKind
from ..state.value_encoding import encode_value
from .metadata import CheckpointMetadata, SubtaskSnapshot


class Rescaling(NamedTuple):
    """A job for which the state of a checkpoint has to be redistributed.

    Either its parallelism differs, or the in-flight data of outputs moves to the consumers. `hashes` maps the
    number of a hash exchange to the function that hashes the keys of its records. `at_least_once`: whether
    the guarantee of the job is at-least-once; savepoints do not record it. `output_at_consumers`: whether the
    in-flight data of outputs becomes data of input channels even if the parallelism is unchanged.
    """

    job: JobShape
    hashes: Mapping[int, KeyHash]
    at_least_once: bool = False
    output_at_consumers: bool = False


class StateAssignment:
    """The state of a checkpoint, redistributed to the subtasks of a job; read when it is requested."""

    def __init__(self, metadata: CheckpointMetadata, rescaling: Rescaling, read: ReadHandle) -> None:
        guarantee = GUARANTEES.get(metadata.checkpoint_type, CheckpointMode.EXACTLY_ONCE)
        self._at_least_once = rescaling.at_least_once or guarantee is not CheckpointMode.EXACTLY_ONCE
        self._metadata = metadata
        self._job = rescaling.job
        self._read = read
        self._channels = ChannelAssignment(metadata, rescaling, read)
        self._of_vertices: dict[str, list[SubtaskSnapshot]] = {}
        self._redistributions: dict[tuple[str, str], Redistribution] = {}  # by vertex and name of the list

    def of(self, vertex: str, subtask: int) -> SubtaskSnapshot:
        """Return the initial state of a subtask of the job, in the form of a snapshot.

        Raises:
            StorageError: if a file could not be read.
            StateError: if the state is invalid, or in-flight data cannot be redistributed.
        """
        if vertex not in self._of_vertices:
            self._of_vertices[vertex] = list(self._assigned(vertex))
        snapshot = self._of_vertices[vertex][subtask]
        return replace(snapshot, handles=(*snapshot.handles, *self._channels.handles(vertex, subtask)))

    def _assigned(self, vertex: str) -> Iterator[SubtaskSnapshot]:
        """Yield the initial state of each subtask of a vertex, without in-flight data."""
        before, subtasks = _subtasks_of(self._metadata, vertex), self._job.parallelism[vertex]
        if subtasks == len(before):
            for snapshot in united(before):
                yield replace(snapshot, handles=_state_of(snapshot))
            return
        is_source = all(target != vertex for _, target, _ in self._job.exchanges)
        lists = self._splits(before, subtasks) if is_source else self._lists(before, subtasks)
        keyed = [handle for snapshot in self._with_keys(before) for handle in _keyed(snapshot)]
        max_parallelism = carried_over(self._metadata, self._job).get(vertex)
        for index in range(subtasks):
            groups = key_group_range(max_parallelism or default_max_parallelism(subtasks), subtasks, index)
            handles = [handle for handle in keyed if handle.has_some_of(groups)]
            handles += [
                self._list_handle(vertex, name, values) for name, values in lists[index].items() if values
            ]
            ended = all(map(_has_ended, before)) or (is_source and not lists[index][SPLITS])
            yield SubtaskSnapshot(
                vertex=vertex,
                subtask=index,
                handles=tuple(handles),
                data_ended=ended,
                finished=all(snapshot.finished for snapshot in before),
            )

    def _with_keys(self, before: Sequence[SubtaskSnapshot]) -> list[SubtaskSnapshot]:
        """Return the subtasks whose keyed state is still needed."""
        still_running = [snapshot for snapshot in before if not _has_ended(snapshot)]
        return list(before) if self._at_least_once or not still_running else still_running

    def _lists(self, before: Sequence[SubtaskSnapshot], subtasks: int) -> list[dict[str, list[Any]]]:
        """Return the operator state of the subtasks of a vertex: the values of each list, by name."""
        some_go_on = not all(map(_has_ended, before))
        found: dict[str, list[tuple[int, list[Any]]]] = {}
        for snapshot in before:
            for name, values in self._lists_in(snapshot).items():
                if not (some_go_on and _has_ended(snapshot) and _is_over(name)):
                    found.setdefault(name, []).append((snapshot.subtask, values))
        distributed: list[dict[str, list[Any]]] = [{} for _ in range(subtasks)]
        for name, parts in found.items():
            redistribution = self._redistributions.get((before[0].vertex, name), Redistribution.SPLIT)
            if redistribution is Redistribution.BROADCAST:  # an empty list is valid
                known = dict(parts)
                parts = [(snapshot.subtask, known.get(snapshot.subtask, [])) for snapshot in before]
            shares = distribute(name, parts, subtasks, redistribution)
            for own, values in zip(distributed, shares, strict=True):
                own[name] = values
        return distributed

    def _splits(self, before: Sequence[SubtaskSnapshot], subtasks: int) -> list[dict[str, list[Any]]]:
        """Return the state of a source's subtasks: each gets a share of the unfinished splits."""
        splits: list[list[int]] = []
        event_time: list[tuple[int, list[Any]]] = []
        for snapshot in before:
            lists = self._lists_in(snapshot)
            started = [[snapshot.subtask, len(before), position] for position in lists.get(POSITION, [0])]
            if not _has_ended(snapshot):
                splits += lists.get(SPLITS, started)
            event_time.append((snapshot.subtask, lists.get(EVENT_TIME, [])))
        reached = distribute(EVENT_TIME, event_time, subtasks)
        return [{SPLITS: splits[index::subtasks], EVENT_TIME: own} for index, own in enumerate(reached)]

    def _lists_in(self, snapshot: SubtaskSnapshot) -> dict[str, list[Any]]:
        lists: dict[str, list[Any]] = {}
        for handle in snapshot.handles:
            if handle.kind is StateKind.OPERATOR:
                lists.setdefault(handle.name, []).extend(list_in(handle, self._read))
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
    """Return the snapshots of a vertex. Each contains the union lists of all subtasks of the vertex."""
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


def distribute(
    name: str,
    parts: Sequence[tuple[int, list[Any]]],
    subtasks: int,
    redistribution: Redistribution = Redistribution.SPLIT,
) -> list[list[Any]]:
    """Return the values of an operator state list for each of `subtasks` subtasks.

    `parts` holds the number and the values of each former subtask. Internal lists of tasks, recognised by
    `name`, have rules of their own.
    """
    values = [value for _, part in parts for value in part]
    if name == EVENT_TIME:
        return [[max(values)] if values else []] * subtasks
    if name == PENDING_TRANSACTIONS:  # they keep the names used for committing
        named = [[*value[:2], *(value[2:] or [subtask])] for subtask, part in parts for value in part]
        return split(named, subtasks)
    if name == HELD_BACK:
        reached = [value["watermark"] for value in values if isinstance(value, dict)]
        fired = [{"watermark": max(reached), "windows": {}}] if reached else []
        return [[*part, *fired] for part in split(values, subtasks)]
    if redistribution is Redistribution.UNION:
        return [list(values) for _ in range(subtasks)]
    if redistribution is Redistribution.BROADCAST:
        return [list(parts[index % len(parts)][1]) for index in range(subtasks)]
    return split(values, subtasks)


def split(values: Sequence[Any], subtasks: int) -> list[list[Any]]:
    """Split the values into `subtasks` parts, in order.

    If the values do not divide evenly, each of the first parts gets one value more.
    """
    each, more = divmod(len(values), subtasks)
    bounds = [index * each + min(index, more) for index in range(subtasks + 1)]
    return [list(values[bounds[index] : bounds[index + 1]]) for index in range(subtasks)]


def carried_over(metadata: CheckpointMetadata, job: JobShape) -> dict[str, int]:
    """Return the vertices whose maximum parallelism is not the default, with this number.

    The maximum parallelism is taken from the checkpoint, except for a stateless vertex whose parallelism now
    exceeds it.
    """
    kept = {name: metadata.max_parallelism_of(name) for name in job.parallelism}
    return {
        name: kept[name]
        for name, subtasks in job.parallelism.items()
        if subtasks <= kept[name] != default_max_parallelism(subtasks)
    }


def rescaling_mismatches(metadata: CheckpointMetadata, job: JobShape) -> Iterator[str]:
    """Yield the reasons why a checkpoint cannot be rescaled to a job, one line each."""
    changed = [name for name in job.parallelism if metadata.parallelism[name] != job.parallelism[name]]
    for name in changed:
        before, most = _subtasks_of(metadata, name), metadata.max_parallelism_of(name)
        if job.parallelism[name] > most and any(_state_of(snapshot) for snapshot in before):
            yield (
                f"{name} has parallelism {job.parallelism[name]} in the job, but the maximum "
                f"parallelism of its state in the checkpoint is {most}; lower the parallelism to at "
                f"most {most}"
            )
        if any(map(_keyed, before)) and not is_hashed(name, job.exchanges):
            yield (
                f"{name} has parallelism {len(before)} in the checkpoint and {job.parallelism[name]} in "
                "the job; its keyed state cannot be redistributed, since no hash exchange leads to it; "
                "keep the parallelism of the checkpoint"
            )
        yield from _partly_ended(name, before)
    for number, (source, target, ship) in enumerate(job.exchanges):
        is_pointwise = ShipStrategy.of(ship).pointwise
        if {source, target} & {*changed} and is_pointwise and _has_in_flight_data(metadata, job, number):
            yield (
                f"the checkpoint has in-flight records of the {ship} exchange from {source} to {target}, "
                "which cannot be redistributed to another parallelism; restore an aligned checkpoint, or "
                "keep the parallelism"
            )


def is_hashed(vertex: str, exchanges: Iterable[Exchange]) -> bool:
    """Whether a hash exchange leads to a vertex, so that the vertex's keys belong to key groups."""
    return any(target == vertex and ShipStrategy.of(ship).by_key for _, target, ship in exchanges)


def _partly_ended(vertex: str, before: Sequence[SubtaskSnapshot]) -> Iterator[str]:
    ended = [snapshot for snapshot in before if _has_ended(snapshot)]
    if not 0 < len(ended) < len(before):
        return
    for snapshot in before:
        for handle in filter(_is_of_user, snapshot.handles):
            is_split = handle.redistribution is Redistribution.SPLIT
            if is_split and snapshot in ended:
                yield (
                    f"the input of {vertex}[{snapshot.subtask}] had ended, but the input of other subtasks "
                    f"had not, so its part of the operator state {handle.name!r} cannot be given to "
                    "another subtask; restore an older checkpoint"
                )
                return
            if not is_split and any(each.finished for each in ended):
                yield (
                    f"some subtasks of {vertex} had ended and others had not, so their parts of the "
                    f"operator state {handle.name!r} are missing; restore an older checkpoint"
                )
                return


def _is_of_user(handle: StateHandle) -> bool:
    """Whether a handle is operator state of a user function."""
    known = (EVENT_TIME, PENDING_TRANSACTIONS, POSITION, SPLITS)
    return handle.kind is StateKind.OPERATOR and handle.name not in known and not _is_over(handle.name)


def _has_in_flight_data(metadata: CheckpointMetadata, job: JobShape, number: int) -> bool:
    """Whether the checkpoint has in-flight data of an exchange, at either end."""
    source, target, _ = job.exchanges[number]
    output, gate = _ends_of(job, number)
    ends = ((source, StateKind.OUTPUT_CHANNEL, output), (target, StateKind.INPUT_CHANNEL, gate))
    return any(
        handle.size and (snapshot.vertex, handle.kind, handle.exchange) in ends
        for snapshot in metadata.subtasks
        for handle in snapshot.handles
    )


def _subtasks_of(metadata: CheckpointMetadata, vertex: str) -> list[SubtaskSnapshot]:
    """Return the snapshots of all subtasks of a vertex; an empty snapshot replaces a missing one."""
    found = {snapshot.subtask: snapshot for snapshot in metadata.subtasks if snapshot.vertex == vertex}
    return [
        found.get(index) or SubtaskSnapshot(vertex=vertex, subtask=index)
        for index in range(metadata.parallelism[vertex])
    ]


def _has_ended(snapshot: SubtaskSnapshot) -> bool:
    return snapshot.data_ended or snapshot.finished


def _is_over(name: str) -> bool:
    """Whether an operator state list is no longer needed once the last records have been emitted."""
    return name == HELD_BACK or name.startswith(OWED)


def _state_of(snapshot: SubtaskSnapshot) -> tuple[StateHandle, ...]:
    return tuple(handle for handle in snapshot.handles if handle.kind not in CHANNEL_STATE)


def _keyed(snapshot: SubtaskSnapshot) -> list[StateHandle]:
    return [handle for handle in snapshot.handles if handle.kind is StateKind.KEYED]


class _Stream(NamedTuple):
    """The in-flight records from one subtask to another, by their indices before the rescaling."""

    producer: int
    consumer: int
    records: RecordBlock


Distributed = list[dict[int, bytearray]]
"""The in-flight data for each subtask of a reading vertex, by channel."""


class ChannelAssignment:
    """The in-flight data of a checkpoint, redistributed to the subtasks of a job."""

    def __init__(self, metadata: CheckpointMetadata, rescaling: Rescaling, read: ReadHandle) -> None:
        self._job = rescaling.job
        self._before, self._now = metadata.parallelism, self._job.parallelism
        self._max_parallelism = metadata.max_parallelism_of
        self._hashes = rescaling.hashes
        self._read = read
        self._output_at_consumers = rescaling.output_at_consumers
        self._handles = {
            (snapshot.vertex, snapshot.subtask, handle.kind, handle.exchange, handle.channel): handle
            for snapshot in metadata.subtasks
            for handle in snapshot.handles
            if handle.kind in CHANNEL_STATE and handle.size
        }
        self._of_subtasks: dict[tuple[str, int], list[StateHandle]] = {}
        for (vertex, subtask, *_), handle in self._handles.items():
            self._of_subtasks.setdefault((vertex, subtask), []).append(handle)
        self._distributed: dict[int, Distributed] = {}
        self._producers: dict[int, list[list[tuple[int, int]]]] = {}

    def handles(self, vertex: str, subtask: int) -> list[StateHandle]:
        """Return the in-flight data that a subtask begins with.

        Raises:
            StorageError: if a file could not be read.
            StateError: if the data cannot be redistributed, or does not consist of complete records.
        """
        exchanges = {kind: exchanges_of(self._job, vertex, kind) for kind in CHANNEL_STATE}
        kept = [
            handle
            for handle in self._of_subtasks.get((vertex, subtask), ())
            if not (self._output_at_consumers or self._changed(exchanges[handle.kind][handle.exchange]))
        ]
        for gate, number in enumerate(exchanges[StateKind.INPUT_CHANNEL]):
            if self._changed(number):
                if number not in self._distributed:
                    self._distributed[number] = self._distribute(number)
                distributed = self._distributed[number][subtask]
                kept += [_handle(gate, channel, bytes(data)) for channel, data in sorted(distributed.items())]
            elif self._output_at_consumers:
                in_flight = enumerate(self._in_flight_to(number, subtask))
                kept += [_handle(gate, channel, data) for channel, (_, data) in in_flight if data]
        return kept

    def _changed(self, number: int) -> bool:
        return any(self._before[name] != self._now[name] for name in self._job.exchanges[number][:2])

    def _distribute(self, number: int) -> Distributed:
        source, target, ship = self._job.exchanges[number]
        streams = [stream for stream in self._streams(number) if len(stream.records)]
        distributed: Distributed = [{} for _ in range(self._now[target])]
        if streams and ShipStrategy.of(ship).pointwise:
            raise StateError(
                f"in-flight records from {source} to {target} cannot be redistributed with {ship}"
            )
        if not ShipStrategy.of(ship).copies and self._before[target] != self._now[target]:
            streams = _joined(streams, self._now[source])
        turn = 0
        for stream in streams:
            channel = stream.producer % self._now[source]
            for consumer, data in self._shares(number, stream, turn):
                distributed[consumer].setdefault(channel, bytearray()).extend(data)
            turn += len(stream.records)
        return distributed

    def _shares(self, number: int, stream: _Stream, turn: int) -> Iterator[tuple[int, bytes]]:
        """Yield each subtask's part of a stream.

        `turn`: number of records in earlier streams, so that round robin continues after them.
        """
        target, ship = self._job.exchanges[number][1:]
        before, now, records = self._before[target], self._now[target], stream.records
        if before == now:
            yield stream.consumer, records.data.tobytes()
        elif ShipStrategy.of(ship).copies:  # continues the reader whose broadcast state it gets
            for consumer in range(stream.consumer, now, before):
                yield consumer, records.data.tobytes()
        else:
            consumers = self._consumers(number, records, turn)
            order = np.argsort(consumers, kind="stable")
            found, starts = np.unique(consumers[order], return_index=True)
            for consumer, places in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
                yield consumer, b"".join(map(records.encoded, places.tolist()))

    def _consumers(self, number: int, records: RecordBlock, turn: int) -> NDArray[np.int64]:
        """Return the new subtask of each record."""
        target = self._job.exchanges[number][1]
        now, key_hash = self._now[target], self._hashes.get(number)
        if key_hash is None:
            return np.arange(turn, turn + len(records)) % now
        most = self._max_parallelism(target)
        most = most if now <= most else default_max_parallelism(now)
        return assign_to_operators(key_hash(records), most, now)

    def _streams(self, number: int) -> Iterator[_Stream]:
        """Yield the in-flight data of each channel of an exchange, in the order of the readers."""
        source, target, _ = self._job.exchanges[number]
        for consumer in range(self._before[target]):
            for producer, data in self._in_flight_to(number, consumer):
                if data:
                    where = f"{source}[{producer}] to {target}[{consumer}]"
                    yield _Stream(producer, consumer, _records(data, where))

    def _in_flight_to(self, number: int, consumer: int) -> Iterator[tuple[int, bytes]]:
        """Yield the producer and the in-flight data of each channel of one former reader."""
        source, target, ship = self._job.exchanges[number]
        if number not in self._producers:
            consumers = self._before[target]
            reached = consumers_of_producers(ship, self._before[source], consumers)
            self._producers[number] = producers_of_consumers(reached, consumers)
        output, gate = _ends_of(self._job, number)
        for channel, (producer, subpartition) in enumerate(self._producers[number][consumer]):
            pieces = (
                (target, consumer, StateKind.INPUT_CHANNEL, gate, channel),
                (source, producer, StateKind.OUTPUT_CHANNEL, output, subpartition),
            )
            yield (
                producer,
                b"".join(self._read(self._handles[place]) for place in pieces if place in self._handles),
            )


def _joined(streams: Sequence[_Stream], channels: int) -> list[_Stream]:
    """Join the streams of producers that share a channel after rescaling.

    The caller assigns each record to its new subtask later, so the consumer is set to 0.
    """
    of_channels: dict[int, list[RecordBlock]] = {}
    for stream in streams:
        of_channels.setdefault(stream.producer % channels, []).append(stream.records)
    return [_Stream(channel, 0, RecordBlock.concat(of_channels[channel])) for channel in sorted(of_channels)]


def exchanges_of(job: JobShape, vertex: str, kind: StateKind) -> list[int]:
    """Return the exchanges that a vertex reads (input channels) or writes, in the order of gates or outputs.

    An exchange is an index into the job's exchanges.
    """
    end = 1 if kind is StateKind.INPUT_CHANNEL else 0
    return [number for number, exchange in enumerate(job.exchanges) if exchange[end] == vertex]


def _ends_of(job: JobShape, number: int) -> tuple[int, int]:
    """Return the index of an exchange among the outputs of its source, and among the gates of its target."""
    source, target, _ = job.exchanges[number]
    outputs = exchanges_of(job, source, StateKind.OUTPUT_CHANNEL)
    return outputs.index(number), exchanges_of(job, target, StateKind.INPUT_CHANNEL).index(number)


def _records(data: bytes, where: str) -> RecordBlock:
    """Return the records in the data of a channel, without watermarks."""
    decoder = RecordDecoder(watermarks=True)
    try:
        block = decoder.feed(data)
    except CorruptRecord as error:
        raise StateError(f"the in-flight data from {where} cannot be read as records: {error}") from error
    if decoder.pending_bytes:
        raise StateError(f"the in-flight data from {where} ends within a record")
    bounds = [-1, *watermark_places(block), len(block)]
    if len(bounds) == 2:
        return block
    parts = [block[before + 1 : place] for before, place in pairwise(bounds)]
    return RecordBlock.concat([part for part in parts if len(part)])


def _handle(gate: int, channel: int, data: bytes) -> StateHandle:
    return StateHandle(
        kind=StateKind.INPUT_CHANNEL, exchange=gate, channel=channel, size=len(data), inline=data
    )
