"""Kit for tests of channels and connections: records, events, and a reader of a gate."""

from __future__ import annotations

from buffers import (
    BufferBuilder,
    EventBuffer,
    EventConsumer,
    LocalBufferPool,
    PipelinedSubpartition,
    RecordBlock,
)
from flowcontrol import Event, data_type_of, encode_event
from netstack.exchange.gate import InputGate


def add_record(subpartition: PipelinedSubpartition, pool: LocalBufferPool, payload: bytes) -> None:
    """Queue a finished buffer with one record."""
    segment = pool.request()
    assert segment is not None
    builder = BufferBuilder(segment, pool)
    subpartition.add(builder.consumer())
    builder.append(RecordBlock.from_payloads([payload]).encoded(0))
    builder.finish()


def event_item(event: Event, *, priority: bool = False) -> EventConsumer:
    """Return an event as an item of a queue."""
    return EventConsumer(EventBuffer(encode_event(event), data_type_of(event, priority=priority)))


class Reader:
    """Reads a gate, and recycles the items that it has read."""

    gate: InputGate

    def deliver(self) -> None:
        """Deliver all messages that are in transit; by default there are none."""

    def read(self) -> bytes | None:
        """Read and recycle one item."""
        polled = self.gate.poll(0.0)
        if polled is None:
            return None
        payload = bytes(polled[1].payload)
        polled[1].release()
        return payload

    def read_all(self) -> list[bytes]:
        """Read until nothing more arrives."""
        items = []
        self.deliver()
        while (item := self.read()) is not None:
            items.append(item)
            self.deliver()
        return items
