"""Memory: segments and pools, buffers and their queues, encoding of records.

Read `segment`, `network_pool` and `local_pool` for the origin of memory, `buffer` and `subpartition` for the
producing side, `channel_buffers` and `channel_queue` for the receiving side, `records` and `record_decoder`
for the contents of buffers.
"""

from .buffer import (
    BufferBuilder,
    BufferConsumer,
    BufferSlice,
    BufferTurns,
    EventBuffer,
    EventConsumer,
    ReceivedBuffer,
    Recycler,
    room_in_turns,
)
from .buffer_counts import GateBuffersSpec, gate_buffers, gate_segments, partition_buffers, partition_segments
from .channel_buffers import ChannelBuffers
from .channel_queue import ChannelQueue, Queued, RecoveredBuffer, recovered_buffers
from .errors import CorruptRecord, InsufficientBuffers, PoolDestroyed
from .local_pool import BufferListener, LocalBufferPool
from .network_pool import NetworkBufferPool
from .payload import HEADER_BYTES, BlankBytes, Content, Payload, Pieces, content_of
from .pool_sizes import plan_sizes
from .pool_statistics import LocalPoolStatistics
from .record_decoder import DEFAULT_MAX_RECORD_BYTES, RecordDecoder
from .records import (
    WATERMARK_BYTES,
    RecordBlock,
    encode_behind,
    encode_watermark,
    split_at_watermarks,
    watermark_at,
    watermark_places,
)
from .segment import Bytes, MemorySegment, MemorySlab
from .subpartition import ADD_REFUSED, UNLIMITED_SIZE, PipelinedSubpartition, PolledBuffer

__all__ = [
    "ADD_REFUSED",
    "DEFAULT_MAX_RECORD_BYTES",
    "HEADER_BYTES",
    "UNLIMITED_SIZE",
    "WATERMARK_BYTES",
    "BlankBytes",
    "BufferBuilder",
    "BufferConsumer",
    "BufferListener",
    "BufferSlice",
    "BufferTurns",
    "Bytes",
    "ChannelBuffers",
    "ChannelQueue",
    "Content",
    "CorruptRecord",
    "EventBuffer",
    "EventConsumer",
    "GateBuffersSpec",
    "InsufficientBuffers",
    "LocalBufferPool",
    "LocalPoolStatistics",
    "MemorySegment",
    "MemorySlab",
    "NetworkBufferPool",
    "Payload",
    "Pieces",
    "PipelinedSubpartition",
    "PolledBuffer",
    "PoolDestroyed",
    "Queued",
    "ReceivedBuffer",
    "RecordBlock",
    "RecordDecoder",
    "RecoveredBuffer",
    "Recycler",
    "content_of",
    "encode_behind",
    "encode_watermark",
    "gate_buffers",
    "gate_segments",
    "partition_buffers",
    "partition_segments",
    "plan_sizes",
    "recovered_buffers",
    "room_in_turns",
    "split_at_watermarks",
    "watermark_at",
    "watermark_places",
]
