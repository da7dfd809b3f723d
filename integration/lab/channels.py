"""The channels of a running job, edge by edge: queues, credit, sizes, barriers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from operator import attrgetter, ne
from typing import NamedTuple, TypeVar

from buffers import PipelinedSubpartition
from flowcontrol import (
    EVENT_TYPES,
    BufferResponse,
    ChannelSender,
    CheckpointBarrier,
    ReceiverState,
    decode_event,
)
from netstack import Edge, Job, RemoteInputChannel, Scenario

from .messages import MOST_CHANNELS, EdgeFrame, EdgeShape

E = TypeVar("E", int, None)

_QUEUE_LENGTH, _BUFFER_SIZE = attrgetter("queue_length"), attrgetter("buffer_size")
_QUEUED_BYTES = attrgetter("queued_bytes")
_DATA_BUFFERS, _STATE = attrgetter("data_buffers"), attrgetter("receiver.state")
_CREDIT = attrgetter("credit.available")

BARRIER_PLACES = ("sender", "wire", "receiver")
"""Places of a barrier in a channel."""


class Pair(NamedTuple):
    """A channel: its producer and consumer. `producer` is None if the channels of a consumer are summed."""

    producer: int | None
    consumer: int


def pairs_of(scenario: Scenario, edge: Edge) -> list[Pair]:
    """Return the channels of an edge, ordered by producer; with too many channels, one sum per consumer."""
    reached = scenario.consumers_reached(edge)
    if sum(map(len, reached)) > MOST_CHANNELS:
        return [Pair(None, consumer) for consumer in range(scenario.vertex(edge.target).parallelism)]
    return [Pair(producer, consumer) for producer, targets in enumerate(reached) for consumer in targets]


def edge_shape(scenario: Scenario, edge: Edge) -> EdgeShape:
    """Return an edge as the page draws it."""
    names = [vertex.name for vertex in scenario.vertices]
    pairs = pairs_of(scenario, edge)
    summed = pairs[0].producer is None
    ends = names.index(edge.source), names.index(edge.target)
    return EdgeShape(*ends, edge.ship, summed, [(pair.producer, pair.consumer) for pair in pairs])


class _Channel(NamedTuple):
    """Both ends of a channel, and its index among the shown channels of its edge."""

    queue: PipelinedSubpartition
    end: RemoteInputChannel | None
    """The consumer's end; None: the consumer is in the same task manager, and reads the producer's queue."""
    place: int


class EdgeView:
    """A view of the channels of an edge in the current attempt of a job."""

    def __init__(self, job: Job, number: int) -> None:
        assert job.attempt is not None
        edge = job.scenario.edges[number]
        names = [vertex.name for vertex in job.scenario.vertices]
        target = names.index(edge.target)
        gate_number = [each.target for each in job.scenario.edges[:number]].count(edge.target)
        pairs = pairs_of(job.scenario, edge)
        self._summed = pairs[0].producer is None
        self._shown = len(pairs)
        self._segment_bytes = job.scenario.config.segment_bytes
        self._producers = job.attempt.builder.connections.producers
        found = self._find(job, edge, target, gate_number, pairs)
        self._channels = sorted(found, key=attrgetter("place"))
        self._remote = [(c.place, c.end) for c in self._channels if c.end is not None]
        self._queues = [channel.queue for channel in self._channels]
        self._ends = [end for _, end in self._remote]
        self._queue_places = _Places(self._shown, [channel.place for channel in self._channels])
        self._end_places = _Places(self._shown, [place for place, _ in self._remote])
        self._places = {end.channel_id: place for place, end in self._remote}
        self._senders: list[ChannelSender] = []  # of the channels whose partition has been requested
        self._sender_places = _Places(self._shown, [])
        ends = set(job.scenario.channel_ends(edge))
        self._links = [link for pair, link in job.attempt.links.items() if pair in ends]

    def _find(
        self, job: Job, edge: Edge, target: int, gate_number: int, pairs: Sequence[Pair]
    ) -> Iterator[_Channel]:
        assert job.attempt is not None
        builder, places = job.attempt.builder, {pair: place for place, pair in enumerate(pairs)}
        reached = job.scenario.consumers_reached(edge)
        for consumer, subtask in enumerate(builder.subtasks[target]):
            sources = [producer for producer, targets in enumerate(reached) if consumer in targets]
            channels = getattr(subtask, "gates", ())[gate_number].channels  # every reader has input gates
            for producer, channel in zip(sources, channels, strict=True):
                queue = builder.subpartition_of(channel.channel_id)
                if queue is not None:
                    place = places[Pair(None if self._summed else producer, consumer)]
                    yield _Channel(queue, channel if isinstance(channel, RemoteInputChannel) else None, place)

    def frame(self, *, barriers: bool) -> EdgeFrame:
        """Return the current state of the channels. With `barriers`, include the positions of barriers."""
        # Speed matters: up to thousands of channels, twenty times per second. `map` and `zip` are fast.
        queued = list(map(len, self._queues))
        received = list(map(_QUEUE_LENGTH, self._ends))
        sender, receiver = self._queue_places.added(queued, 0), self._end_places.added(received, 0)
        size = self._queue_places.least(map(_BUFFER_SIZE, self._queues), self._segment_bytes)
        states = zip(self._remote, map(_STATE, self._ends), strict=True)
        blocked = [place for (place, _), state in states if state is ReceiverState.BLOCKED]
        if len(self._remote) < len(self._channels):
            blocked += [c.place for c in self._channels if c.end is None and c.queue.blocked]
        coming = self._barriers(queued, received) if barriers else []
        under_way = sum(link.under_way for link in self._links)
        return EdgeFrame(sender, receiver, self._credit(), size, under_way, coming, sorted(set(blocked)))

    @property
    def in_flight_bytes(self) -> int:
        """Bytes queued at producers and consumers."""
        senders: int = sum(map(_QUEUED_BYTES, self._queues))
        receivers: int = sum(map(_QUEUED_BYTES, self._ends))
        return senders + receivers

    def _credit(self) -> list[int | None]:
        """Return the credit of senders by position; None for local channels, and before the first request."""
        if len(self._senders) < len(self._remote):
            found = [(place, sender) for place, end in self._remote for sender in self._senders_of(end)]
            if len(found) != len(self._senders):
                self._senders = [sender for _, sender in found]
                self._sender_places = _Places(self._shown, [place for place, _ in found])
        return self._sender_places.added(map(_CREDIT, self._senders), None)

    def _senders_of(self, end: RemoteInputChannel) -> list[ChannelSender]:
        """Return the sender of a channel; none before the first request."""
        senders = (producer.queue.sender(end.channel_id) for producer in self._producers)
        return [sender for sender in senders if sender is not None]

    def _barriers(self, queued: Sequence[int], received: Sequence[int]) -> list[tuple[int, str, int]]:
        """Return the barriers in the channels, given the numbers of buffers and events at both ends."""
        at_sender, on_wire, at_receiver = BARRIER_PLACES
        with_events = compress(self._channels, map(ne, queued, map(_DATA_BUFFERS, self._queues)))
        events = [
            (place, at_sender, bytes(event.payload))
            for queue, _, place in with_events
            for event in queue.queued_events
        ]
        events += [
            (place, at_receiver, bytes(event.payload))
            for place, end in compress(self._remote, received)
            for event in end.queued_events
        ]
        events += [
            (self._places[message.channel], on_wire, bytes(message.payload))
            for link in self._links
            for message in link.to_consumer.messages_under_way
            if isinstance(message, BufferResponse)
            and message.data_type in EVENT_TYPES
            and message.channel in self._places
        ]
        # All barriers of a checkpoint have the same content, which is decoded once.
        contents = {payload for *_, payload in events}
        checkpoints = {each: number for each in contents if (number := _checkpoint_of(each)) is not None}
        barriers = [(place, where, checkpoints[each]) for place, where, each in events if each in checkpoints]
        return sorted(set(barriers) if self._summed else barriers)


class _Places:
    """Sums the values of channels that share a position on the page."""

    def __init__(self, shown: int, places: Sequence[int]) -> None:
        self._shown = shown
        self._places = places
        self._one_each = list(places) == list(range(shown))

    def added(self, values: Iterable[int], empty: E) -> list[int | E]:
        """Return the sum of the values at each position; `empty` for a position without values."""
        if self._one_each:
            return list(values)
        sums: list[int | E] = [empty] * self._shown
        for place, value in zip(self._places, values, strict=True):
            sums[place] = value + (sums[place] or 0)
        return sums

    def least(self, values: Iterable[int], most: int) -> list[int]:
        """Return the least value at each position, at most `most`."""
        if self._one_each:
            return [value if value < most else most for value in values]
        least = [most] * self._shown
        for place, value in zip(self._places, values, strict=True):
            if value < least[place]:
                least[place] = value
        return least


def _checkpoint_of(payload: bytes) -> int | None:
    """Return the checkpoint of a barrier; None for other events."""
    event = decode_event(memoryview(payload))
    return event.checkpoint_id if isinstance(event, CheckpointBarrier) else None
