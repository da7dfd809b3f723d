"""What the channels of a running job hold, edge by edge: queues, credit, sizes, barriers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from buffers import EventBuffer, PipelinedSubpartition
from flowcontrol import EVENT_TYPES, BufferResponse, ChannelSender, CheckpointBarrier, decode_event
from netstack import Edge, Job, RemoteInputChannel, Scenario, consumers_of_producers

from .page_messages import MOST_CHANNELS, EdgeFrame, EdgeShape

_QUEUE_LENGTH, _BUFFER_SIZE = attrgetter("queue_length"), attrgetter("buffer_size")
_QUEUED_BYTES = attrgetter("queued_bytes")
_CREDIT = attrgetter("credit.available")

BARRIER_PLACES = ("sender", "wire", "receiver")
"""Where a barrier of a channel may be."""


class Pair(NamedTuple):
    """A channel by its producer and its consumer; of a sum over producers, that is None."""

    producer: int | None
    consumer: int


def pairs_of(scenario: Scenario, edge: Edge) -> list[Pair]:
    """Return the channels of an edge, producer by producer; consumers, if they are too many to be shown."""
    producers, consumers = scenario.vertex(edge.source), scenario.vertex(edge.target)
    reached = consumers_of_producers(edge.ship, producers.parallelism, consumers.parallelism)
    if sum(map(len, reached)) > MOST_CHANNELS:
        return [Pair(None, consumer) for consumer in range(consumers.parallelism)]
    return [Pair(producer, consumer) for producer, targets in enumerate(reached) for consumer in targets]


def edge_shape(scenario: Scenario, edge: Edge) -> EdgeShape:
    """Return an edge as it is drawn."""
    names = [vertex.name for vertex in scenario.vertices]
    pairs = pairs_of(scenario, edge)
    summed = pairs[0].producer is None
    ends = names.index(edge.source), names.index(edge.target)
    return EdgeShape(*ends, edge.ship, summed, [(pair.producer, pair.consumer) for pair in pairs])


class _Channel(NamedTuple):
    """Both ends of a channel, and its place in what is shown of its edge."""

    queue: PipelinedSubpartition
    end: RemoteInputChannel | None
    """None: it leads to a task in the same task manager, which reads the queue itself."""
    place: int


class EdgeView:
    """Looks at the channels of an edge in the attempt of a job that runs, as often as wanted."""

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
        self._channels = list(self._find(job, edge, target, gate_number, pairs))
        self._remote = [(c.place, c.end) for c in self._channels if c.end is not None]
        self._queues = [channel.queue for channel in self._channels]
        self._ends = [end for _, end in self._remote]
        self._queue_places = [channel.place for channel in self._channels]
        self._end_places = [place for place, _ in self._remote]
        self._places = {end.channel_id: place for place, end in self._remote}
        self._unasked = list(self._remote)  # whose producers have not been asked for them yet
        self._senders: list[ChannelSender] = []
        self._sender_places: list[int] = []
        ends = set(job.scenario.channel_ends(edge))
        self._links = [link for pair, link in job.attempt.links.items() if pair in ends]

    def _find(
        self, job: Job, edge: Edge, target: int, gate_number: int, pairs: Sequence[Pair]
    ) -> Iterator[_Channel]:
        assert job.attempt is not None
        builder, places = job.attempt.builder, {pair: place for place, pair in enumerate(pairs)}
        producers = job.scenario.vertex(edge.source).parallelism
        reached = consumers_of_producers(edge.ship, producers, len(builder.subtasks[target]))
        for consumer, subtask in enumerate(builder.subtasks[target]):
            sources = [producer for producer, targets in enumerate(reached) if consumer in targets]
            channels = getattr(subtask, "gates", ())[gate_number].channels  # as all have that read
            for producer, channel in zip(sources, channels, strict=True):
                queue = builder.subpartition_of(channel.channel_id)
                if queue is not None:
                    place = places[Pair(None if self._summed else producer, consumer)]
                    yield _Channel(queue, channel if isinstance(channel, RemoteInputChannel) else None, place)

    def look(self, *, barriers: bool) -> EdgeFrame:
        """Return what the channels hold now; barriers are looked for if there may be some."""
        # Thousands of channels, twenty times a second: so loops that are map's and zip's.
        shown = self._shown
        sender = _added(shown, self._queue_places, map(len, self._queues))
        receiver = _added(shown, self._end_places, map(_QUEUE_LENGTH, self._ends))
        size = [self._segment_bytes] * shown
        for place, bytes_of in zip(self._queue_places, map(_BUFFER_SIZE, self._queues), strict=True):
            if bytes_of < size[place]:
                size[place] = bytes_of
        blocked = [place for place, end in self._remote if end.blocked]
        if len(self._remote) < len(self._channels):
            blocked += [c.place for c in self._channels if c.end is None and c.queue.blocked]
        coming = sorted(set(self._barriers())) if barriers else []
        under_way = sum(link.under_way for link in self._links)
        return EdgeFrame(sender, receiver, self._credit(), size, under_way, coming, sorted(set(blocked)))

    @property
    def in_flight_bytes(self) -> int:
        """Bytes that wait at producers and consumers."""
        senders: int = sum(map(_QUEUED_BYTES, self._queues))
        receivers: int = sum(map(_QUEUED_BYTES, self._ends))
        return senders + receivers

    def _credit(self) -> list[int | None]:
        """What senders may send, by place; None where nobody asks for credit, or has not asked yet."""
        unasked, self._unasked = self._unasked, []
        for place, end in unasked:
            sender = self._sender(end.channel_id)
            if sender is None:
                self._unasked.append((place, end))
            else:
                self._senders.append(sender)
                self._sender_places.append(place)
        credit: list[int | None] = [None] * self._shown
        for place, available in zip(self._sender_places, map(_CREDIT, self._senders), strict=True):
            credit[place] = available + (credit[place] or 0)
        return credit

    def _sender(self, channel: int) -> ChannelSender | None:
        senders = (producer.queue.sender(channel) for producer in self._producers)
        return next((sender for sender in senders if sender is not None), None)

    def _barriers(self) -> Iterator[tuple[int, str, int]]:
        at_sender, on_wire, at_receiver = BARRIER_PLACES
        for queue, end, place in self._channels:
            for checkpoint in _checkpoints(queue.queued_events):
                yield place, at_sender, checkpoint
            if end is not None:
                for checkpoint in _checkpoints(end.queued_events):
                    yield place, at_receiver, checkpoint
        for link in self._links:
            for message in link.to_consumer.messages_under_way:
                if not isinstance(message, BufferResponse) or message.data_type not in EVENT_TYPES:
                    continue
                event = decode_event(memoryview(bytes(message.payload)))
                if isinstance(event, CheckpointBarrier) and message.channel in self._places:
                    yield self._places[message.channel], on_wire, event.checkpoint_id


def _added(shown: int, places: Sequence[int], values: Iterable[int]) -> list[int]:
    """Add up values by their places."""
    sums = [0] * shown
    for place, value in zip(places, values, strict=True):
        sums[place] += value
    return sums


def _checkpoints(events: Iterable[EventBuffer]) -> Iterator[int]:
    for buffer in events:
        event = decode_event(buffer.payload)
        if isinstance(event, CheckpointBarrier):
            yield event.checkpoint_id
