"""Where the data in flight of an unaligned checkpoint goes, if one end of its exchange has changed.

What was in flight in a channel lies in two pieces, at its reader and at its writer, and only together do they
begin and end with whole records. So they are joined here, decoded, and dealt out record by record::

    reader's piece | writer's piece         by key: to the subtask that has its key group now
    [..r1][r2][r3.. | ..r3][r4]    ->       in turns, where the exchange does not go by keys
                                            broadcast: all that one of the readers had still to see

All of it becomes data of input channels, which a subtask reads before anything that is sent to it, each
record once and those of a channel in their order. In Flink the pieces meet in virtual channels at the reader,
which drops the records that others have the key groups of; what comes out is the same.

Watermarks in flight are left out. One holds for the channel it was in, and behind it here there may be
records of other channels, and then those of a subtask that has taken over the work of several. Event time
stands still until each of the new channels brings a watermark of its own, so it never runs ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buffers import CorruptRecord, RecordBlock, RecordDecoder, watermark_places

from ..errors import StateError
from ..exchange.key_groups import assign_to_operators, default_max_parallelism
from ..scenarios.topology import JobShape, ShipStrategy, consumers_of_producers, producers_of_consumers
from ..scenarios.user_code import KeyHash
from ..state.backend import ReadHandle
from ..state.snapshots import CHANNEL_STATE, CheckpointMetadata, StateHandle, StateKind


class _Stream(NamedTuple):
    """The records that were in flight from a subtask to another one, as both were numbered then."""

    producer: int
    consumer: int
    records: RecordBlock


Dealt = list[dict[int, bytearray]]
"""What the subtasks of a consumer are given: data by channel."""


class ChannelAssignment:
    """The data in flight that each subtask of a job takes over; `hashes` as in `StateAssignment`."""

    def __init__(
        self, metadata: CheckpointMetadata, job: JobShape, hashes: Mapping[int, KeyHash], read: ReadHandle
    ) -> None:
        self._before, self._now = metadata.parallelism, job.parallelism
        self._max_parallelism = metadata.max_parallelism_of
        self._job = job
        self._hashes = hashes
        self._read = read
        self._handles = {
            (snapshot.vertex, snapshot.subtask, handle.kind, handle.exchange, handle.channel): handle
            for snapshot in metadata.subtasks
            for handle in snapshot.handles
            if handle.kind in CHANNEL_STATE and handle.size
        }
        self._of_subtasks: dict[tuple[str, int], list[StateHandle]] = {}
        for (vertex, subtask, *_), handle in self._handles.items():
            self._of_subtasks.setdefault((vertex, subtask), []).append(handle)
        self._dealt: dict[int, Dealt] = {}

    def handles(self, vertex: str, subtask: int) -> list[StateHandle]:
        """Return the data in flight that a subtask begins with.

        Raises:
            StorageError: A file could not be read.
            StateError: It cannot be dealt out, or is no whole records.
        """
        exchanges = {kind: exchanges_of(self._job, vertex, kind) for kind in CHANNEL_STATE}
        kept = [
            handle
            for handle in self._of_subtasks.get((vertex, subtask), ())
            if not self._changed(exchanges[handle.kind][handle.exchange])
        ]
        for gate, number in enumerate(exchanges[StateKind.INPUT_CHANNEL]):
            if self._changed(number):
                if number not in self._dealt:
                    self._dealt[number] = self._deal(number)
                dealt = self._dealt[number][subtask]
                kept += [_handle(gate, channel, bytes(data)) for channel, data in sorted(dealt.items())]
        return kept

    def _changed(self, number: int) -> bool:
        return any(self._before[name] != self._now[name] for name in self._job.exchanges[number][:2])

    def _deal(self, number: int) -> Dealt:
        source, target, ship = self._job.exchanges[number]
        streams = [stream for stream in self._streams(number) if len(stream.records)]
        dealt: Dealt = [{} for _ in range(self._now[target])]
        if streams and ShipStrategy.of(ship).pointwise:
            raise StateError(f"{ship} cannot deal out what was in flight from {source} to {target}")
        if not ShipStrategy.of(ship).copies and self._before[target] != self._now[target]:
            streams = _joined(streams, self._now[source])
        turn = 0
        for stream in streams:
            channel = stream.producer % self._now[source]
            for consumer, data in self._shares(number, stream, turn):
                dealt[consumer].setdefault(channel, bytearray()).extend(data)
            turn += len(stream.records)
        return dealt

    def _shares(self, number: int, stream: _Stream, turn: int) -> Iterator[tuple[int, bytes]]:
        """What each subtask is given of a stream; `turn` counts the records of those before."""
        target, ship = self._job.exchanges[number][1:]
        before, now, records = self._before[target], self._now[target], stream.records
        if before == now:
            yield stream.consumer, records.data.tobytes()
        elif ShipStrategy.of(ship).copies:  # a subtask goes on for that one whose broadcast state it is given
            for consumer in range(stream.consumer, now, before):
                yield consumer, records.data.tobytes()
        else:
            consumers = self._consumers(number, records, turn)
            order = np.argsort(consumers, kind="stable")
            found, starts = np.unique(consumers[order], return_index=True)
            for consumer, places in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
                yield consumer, b"".join(map(records.encoded, places.tolist()))

    def _consumers(self, number: int, records: RecordBlock, turn: int) -> NDArray[np.int64]:
        """Which subtask each record goes to now."""
        target = self._job.exchanges[number][1]
        now, key_hash = self._now[target], self._hashes.get(number)
        if key_hash is None:
            return np.arange(turn, turn + len(records)) % now
        most = self._max_parallelism(target)
        most = most if now <= most else default_max_parallelism(now)
        return assign_to_operators(key_hash(records), most, now)

    def _streams(self, number: int) -> Iterator[_Stream]:
        """What was in flight in each channel of an exchange, in the order of its readers."""
        source, target, ship = self._job.exchanges[number]
        consumers = self._before[target]
        gate = exchanges_of(self._job, target, StateKind.INPUT_CHANNEL).index(number)
        output = exchanges_of(self._job, source, StateKind.OUTPUT_CHANNEL).index(number)
        reached = consumers_of_producers(ship, self._before[source], consumers)
        for consumer, channels in enumerate(producers_of_consumers(reached, consumers)):
            for channel, (producer, subpartition) in enumerate(channels):
                pieces = (
                    (target, consumer, StateKind.INPUT_CHANNEL, gate, channel),
                    (source, producer, StateKind.OUTPUT_CHANNEL, output, subpartition),
                )
                data = b"".join(
                    self._read(self._handles[place]) for place in pieces if place in self._handles
                )
                if data:
                    where = f"{source}[{producer}] to {target}[{consumer}]"
                    yield _Stream(producer, consumer, _records(data, where))


def _joined(streams: Sequence[_Stream], channels: int) -> list[_Stream]:
    """Join the streams that go into one of so many channels now; each record is dealt out by itself."""
    of_channels: dict[int, list[RecordBlock]] = {}
    for stream in streams:
        of_channels.setdefault(stream.producer % channels, []).append(stream.records)
    return [_Stream(channel, 0, RecordBlock.concat(of_channels[channel])) for channel in sorted(of_channels)]


def exchanges_of(job: JobShape, vertex: str, kind: StateKind) -> list[int]:
    """Return the exchanges that a vertex reads (input channels) or writes, in the order of gates or outputs.

    They are numbers of the job's exchanges.
    """
    end = 1 if kind is StateKind.INPUT_CHANNEL else 0
    return [number for number, exchange in enumerate(job.exchanges) if exchange[end] == vertex]


def _records(data: bytes, where: str) -> RecordBlock:
    """The records in the data of a channel, without the watermarks among them."""
    decoder = RecordDecoder(watermarks=True)
    try:
        block = decoder.feed(data)
    except CorruptRecord as error:
        raise StateError(f"what was in flight from {where} is no records: {error}") from error
    if decoder.pending_bytes:
        raise StateError(f"what was in flight from {where} ends within a record")
    bounds = [-1, *watermark_places(block), len(block)]
    if len(bounds) == 2:
        return block
    parts = [block[before + 1 : place] for before, place in pairwise(bounds)]
    return RecordBlock.concat([part for part in parts if len(part)])


def _handle(gate: int, channel: int, data: bytes) -> StateHandle:
    return StateHandle(
        kind=StateKind.INPUT_CHANNEL, exchange=gate, channel=channel, size=len(data), inline=data
    )
