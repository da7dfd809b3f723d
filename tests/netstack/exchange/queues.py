"""Kit for tests of channels and connections: records and events for a subpartition."""

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
