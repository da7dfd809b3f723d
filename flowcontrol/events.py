"""Events that travel between records, and the types of network buffers.

An event (barrier, cancel marker, end) has a buffer of its own. Its bytes begin with a 4-byte kind. The sizes
in bytes are those of Flink's EventSerializer: 34 for the barrier of a checkpoint, 35 plus the location for
the barrier of a savepoint, 12 for a cancel marker, 5 for the end of data, 4 for the end of a partition. Times
are IEEE doubles in seconds; Flink has whole milliseconds. An announcement is used inside its receiver only.
The end of recovered input state and the end of recovered output state have the same kind; another byte
distinguishes them.

The type of a buffer decides how the network layer treats it:

| type | is an event | blocks the sender | overtakes data | is announced before its turn |
|---|---|---|---|---|
| DATA_BUFFER | | | | |
| EVENT_BUFFER | y | | | |
| PRIORITIZED_EVENT_BUFFER | y | | y | |
| ALIGNED_CHECKPOINT_BARRIER | y | y | | |
| TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER | y | y | | y |
| RECOVERY_COMPLETION | y | y | | |
"""

from __future__ import annotations

import math
import struct
from enum import IntEnum
from functools import lru_cache

import msgspec

from .errors import LocalProtocolError, MalformedEvent

__all__ = [
    "ANNOUNCED_TYPES",
    "BLOCKING_TYPES",
    "EVENT_TYPES",
    "PRIORITY_TYPES",
    "Alignment",
    "CancelCheckpointMarker",
    "CheckpointBarrier",
    "CheckpointOptions",
    "DataType",
    "EndOfData",
    "EndOfInputChannelState",
    "EndOfOutputChannelState",
    "EndOfPartition",
    "Event",
    "EventAnnouncement",
    "PostCheckpointAction",
    "Savepoint",
    "SavepointFormat",
    "data_type_of",
    "decode_event",
    "encode_event",
]


class DataType(IntEnum):
    """The kind of a buffer; its value is the byte on the wire (Flink's Buffer.DataType).

    Flink's values 0 (NONE), 7 (END_OF_SEGMENT) and 8 (RECOVERY_METADATA) are never sent, so they have no
    members.
    """

    DATA_BUFFER = 1
    EVENT_BUFFER = 2
    PRIORITIZED_EVENT_BUFFER = 3
    ALIGNED_CHECKPOINT_BARRIER = 4
    TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER = 5
    RECOVERY_COMPLETION = 6


EVENT_TYPES = frozenset(DataType) - {DataType.DATA_BUFFER}
"""Types that hold an event: they need no credit and no pooled memory."""

BLOCKING_TYPES = frozenset(
    {
        DataType.ALIGNED_CHECKPOINT_BARRIER,
        DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
        DataType.RECOVERY_COMPLETION,
    }
)
"""Types after which a subpartition sends nothing until consumption resumes."""

PRIORITY_TYPES = frozenset({DataType.PRIORITIZED_EVENT_BUFFER})
"""Types that overtake the data queued before them."""

ANNOUNCED_TYPES = frozenset({DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER})
"""Types whose arrival a receiver announces before their turn."""


class Alignment(IntEnum):
    """Alignment of a checkpoint; the value is its byte (Flink's CheckpointOptions.AlignmentType)."""

    AT_LEAST_ONCE = 0
    ALIGNED = 1
    UNALIGNED = 2
    FORCED_ALIGNED = 3


class SavepointFormat(IntEnum):
    """Layout of the state of a savepoint; the value is its byte (Flink's SavepointFormatType)."""

    CANONICAL = 0
    """One format for all state backends."""
    NATIVE = 1
    """The format of the state backend's own checkpoints, which is faster to write."""


class PostCheckpointAction(IntEnum):
    """Action of a job after a savepoint is complete; the value is the byte of the barrier's type."""

    NONE = 1
    """The job continues."""
    SUSPEND = 2
    """The job stops without draining its sources."""
    TERMINATE = 3
    """The job ends, since its sources ended their data before the barrier."""


class Savepoint(msgspec.Struct, frozen=True):
    """Properties that a savepoint has beyond a checkpoint (Flink's SavepointType).

    `location`: the folder for its files, in the notation of the checkpoint storage.
    """

    location: str
    format: SavepointFormat = SavepointFormat.CANONICAL
    action: PostCheckpointAction = PostCheckpointAction.NONE

    @property
    def stops(self) -> bool:
        """Whether the job stops after this savepoint."""
        return self.action is not PostCheckpointAction.NONE


class CheckpointOptions(msgspec.Struct, frozen=True):
    """Options of one checkpoint (Flink's CheckpointOptions).

    `timeout_s`: an aligned checkpoint older than this many seconds turns unaligned; None: never. `savepoint`:
    set if this is a savepoint, which is never unaligned; None for a checkpoint.
    """

    alignment: Alignment = Alignment.ALIGNED
    timeout_s: float | None = None
    savepoint: Savepoint | None = None

    @property
    def needs_alignment(self) -> bool:
        """Whether a channel is blocked after its barrier until the barriers of all channels have arrived."""
        return self.alignment in (Alignment.ALIGNED, Alignment.FORCED_ALIGNED)

    @property
    def timeoutable(self) -> bool:
        """Whether the checkpoint may turn unaligned after it has begun."""
        return self.alignment is Alignment.ALIGNED and self._limited

    @property
    def is_unaligned(self) -> bool:
        """Whether the barrier overtakes data, which then becomes part of the checkpoint."""
        return self.alignment is Alignment.UNALIGNED

    def with_unaligned_unsupported(self) -> CheckpointOptions:
        """Return these options for an exchange where barriers cannot overtake data. A timeout is kept."""
        if self.is_unaligned:
            return CheckpointOptions(Alignment.FORCED_ALIGNED)
        return CheckpointOptions(Alignment.FORCED_ALIGNED, self.timeout_s) if self.timeoutable else self

    def with_unaligned_supported(self) -> CheckpointOptions:
        """Return these options for an exchange where barriers can overtake data. Forced alignment is undone:
        the options become aligned with the timeout if there is one, otherwise unaligned.
        """
        if self.alignment is not Alignment.FORCED_ALIGNED:
            return self
        if self._limited:
            return CheckpointOptions(Alignment.ALIGNED, self.timeout_s)
        return CheckpointOptions(Alignment.UNALIGNED)

    @property
    def _limited(self) -> bool:
        return self.timeout_s is not None and self.timeout_s > 0


class CheckpointBarrier(msgspec.Struct, frozen=True):
    """Barrier between the data of a checkpoint and later data.

    `timestamp`: time at which the coordinator triggered the checkpoint, in seconds.
    """

    checkpoint_id: int
    timestamp: float
    options: CheckpointOptions = CheckpointOptions()

    def as_unaligned(self) -> CheckpointBarrier:
        """Return this barrier as an unaligned one, without its timeout."""
        if self.options.is_unaligned:
            return self
        return CheckpointBarrier(self.checkpoint_id, self.timestamp, CheckpointOptions(Alignment.UNALIGNED))


class CancelCheckpointMarker(msgspec.Struct, frozen=True):
    """Marks a checkpoint that an upstream task has aborted, so that its barrier will not arrive."""

    checkpoint_id: int


class EndOfData(msgspec.Struct, frozen=True):
    """End of a channel's records. Only checkpoint barriers may still follow."""


class EndOfPartition(msgspec.Struct, frozen=True):
    """End of a channel: no event or data follows."""


class EndOfInputChannelState(msgspec.Struct, frozen=True):
    """End of the data that a receiver restored for this channel; stays in the receiver's own queue."""


class EndOfOutputChannelState(msgspec.Struct, frozen=True):
    """End of the data that the producer restored for this channel; the channel is blocked until it is
    resumed.
    """


class EventAnnouncement(msgspec.Struct, frozen=True):
    """Announces a barrier that is queued behind data; created and read inside a receiver only.

    `sequence_number`: sequence number of the barrier's buffer, used to move it to the front.
    """

    barrier: CheckpointBarrier
    sequence_number: int


Event = (
    CheckpointBarrier
    | CancelCheckpointMarker
    | EndOfData
    | EndOfPartition
    | EndOfInputChannelState
    | EndOfOutputChannelState
    | EventAnnouncement
)


class _Kind(IntEnum):
    END_OF_PARTITION = 0
    BARRIER = 1
    CANCEL_MARKER = 4
    END_OF_CHANNEL_STATE = 5
    ANNOUNCEMENT = 6
    END_OF_DATA = 8


_PLAIN_CHECKPOINT, _DEFAULT_LOCATION, _DRAIN = 0, -1, 0
_OF_INPUT, _OF_OUTPUT = 0, 1

_CHANNEL_STATE_ENDS: dict[int, type[EndOfInputChannelState] | type[EndOfOutputChannelState]] = {
    _OF_INPUT: EndOfInputChannelState,
    _OF_OUTPUT: EndOfOutputChannelState,
}

_KIND_BYTES = struct.Struct(">i")
_BARRIER_BYTES = struct.Struct(">iqdbibd")
_SAVEPOINT_HEAD = struct.Struct(">iqdbbi")  # up to its location
_BARRIER_TAIL = struct.Struct(">bd")
_TYPE_OFFSET = struct.calcsize(">iqd")
_PLAIN_TYPE = bytes([_PLAIN_CHECKPOINT])
_CANCEL_BYTES = struct.Struct(">iq")
_END_BYTES = struct.Struct(">ib")
_ANNOUNCEMENT_BYTES = struct.Struct(">ii")


def encode_event(event: Event) -> bytes:
    """Encode `event` as the payload of an event buffer.

    Raises:
        LocalProtocolError: if a checkpoint id exceeds 64 bits, a sequence number exceeds 32 bits, a time is
            not a number, or a location cannot be encoded.
    """
    try:
        match event:
            case CheckpointBarrier():
                return _encode_barrier(event)
            case CancelCheckpointMarker():
                return _CANCEL_BYTES.pack(_Kind.CANCEL_MARKER, event.checkpoint_id)
            case EndOfData():
                return _END_BYTES.pack(_Kind.END_OF_DATA, _DRAIN)
            case EndOfPartition():
                return _KIND_BYTES.pack(_Kind.END_OF_PARTITION)
            case EndOfInputChannelState():
                return _END_BYTES.pack(_Kind.END_OF_CHANNEL_STATE, _OF_INPUT)
            case EndOfOutputChannelState():
                return _END_BYTES.pack(_Kind.END_OF_CHANNEL_STATE, _OF_OUTPUT)
            case EventAnnouncement(barrier, sequence_number):
                head = _ANNOUNCEMENT_BYTES.pack(_Kind.ANNOUNCEMENT, sequence_number)
                return head + _encode_barrier(barrier)
    except (struct.error, ValueError) as error:
        raise LocalProtocolError(f"{event} cannot be written: {error}") from None


def decode_event(payload: bytes | memoryview) -> Event:
    """Decode the event in `payload`, which must hold nothing else.

    Raises:
        MalformedEvent: if the payload is not exactly one event.
    """
    try:
        (kind,) = _KIND_BYTES.unpack_from(payload)
        match kind:
            case _Kind.BARRIER:
                return _decode_barrier(bytes(payload))
            case _Kind.CANCEL_MARKER:
                return CancelCheckpointMarker(_CANCEL_BYTES.unpack(payload)[1])
            case _Kind.END_OF_DATA if _END_BYTES.unpack(payload)[1] == _DRAIN:
                return EndOfData()
            case _Kind.END_OF_PARTITION if len(payload) == _KIND_BYTES.size:
                return EndOfPartition()
            case _Kind.END_OF_CHANNEL_STATE:
                return _CHANNEL_STATE_ENDS[_END_BYTES.unpack(payload)[1]]()
            case _Kind.ANNOUNCEMENT:
                return _decode_announcement(payload)
    except (struct.error, ValueError, KeyError) as error:
        raise MalformedEvent(f"the event of {len(payload)} bytes cannot be decoded: {error}") from None
    raise MalformedEvent(f"the event of {len(payload)} bytes has the unknown kind {kind}")


def data_type_of(event: Event, *, priority: bool = False) -> DataType:
    """Return the type of the buffer that carries `event`; `priority`: whether the event overtakes data."""
    if priority or isinstance(event, EventAnnouncement):
        return DataType.PRIORITIZED_EVENT_BUFFER
    if isinstance(event, EndOfOutputChannelState):
        return DataType.RECOVERY_COMPLETION
    if not isinstance(event, CheckpointBarrier) or not event.options.needs_alignment:
        return DataType.EVENT_BUFFER
    if event.options.timeoutable:
        return DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
    return DataType.ALIGNED_CHECKPOINT_BARRIER


def _encode_barrier(barrier: CheckpointBarrier) -> bytes:
    options = barrier.options
    timeout = math.inf if options.timeout_s is None else options.timeout_s
    _check_times(barrier.timestamp, timeout)
    if (savepoint := options.savepoint) is not None:
        location = savepoint.location.encode()
        head = _SAVEPOINT_HEAD.pack(
            _Kind.BARRIER,
            barrier.checkpoint_id,
            barrier.timestamp,
            savepoint.action,
            savepoint.format,
            len(location),
        )
        return head + location + _BARRIER_TAIL.pack(options.alignment, timeout)
    return _BARRIER_BYTES.pack(
        _Kind.BARRIER,
        barrier.checkpoint_id,
        barrier.timestamp,
        _PLAIN_CHECKPOINT,
        _DEFAULT_LOCATION,
        options.alignment,
        timeout,
    )


@lru_cache(maxsize=8)  # the same barrier arrives on all channels of a task
def _decode_barrier(payload: bytes) -> CheckpointBarrier:
    if payload[_TYPE_OFFSET : _TYPE_OFFSET + 1] != _PLAIN_TYPE:
        return _decode_savepoint(payload)
    _, checkpoint_id, timestamp, _, location, alignment, timeout = _BARRIER_BYTES.unpack(payload)
    if location != _DEFAULT_LOCATION:
        raise ValueError(
            f"the location {location} of a checkpoint is not supported; only the default location is"
        )
    return _barrier(checkpoint_id, timestamp, alignment, timeout, None)


def _decode_savepoint(payload: bytes) -> CheckpointBarrier:
    _, checkpoint_id, timestamp, action, layout, length = _SAVEPOINT_HEAD.unpack_from(payload)
    location, tail = payload[_SAVEPOINT_HEAD.size :][:length], payload[_SAVEPOINT_HEAD.size + length :]
    if length < 0:
        raise ValueError(f"the length of a savepoint's location is {length} bytes; it must not be negative")
    alignment, timeout = _BARRIER_TAIL.unpack(tail)
    savepoint = Savepoint(location.decode(), SavepointFormat(layout), PostCheckpointAction(action))
    return _barrier(checkpoint_id, timestamp, alignment, timeout, savepoint)


def _barrier(
    checkpoint_id: int, timestamp: float, alignment: int, timeout: float, savepoint: Savepoint | None
) -> CheckpointBarrier:
    _check_times(timestamp, timeout)
    limit = None if timeout == math.inf else timeout
    options = CheckpointOptions(Alignment(alignment), limit, savepoint)
    if savepoint is not None and (options.is_unaligned or options.timeoutable):
        raise ValueError("the barrier of a savepoint must be aligned, but this one may overtake data")
    return CheckpointBarrier(checkpoint_id, timestamp, options)


def _decode_announcement(payload: bytes | memoryview) -> EventAnnouncement:
    _, sequence_number = _ANNOUNCEMENT_BYTES.unpack_from(payload)
    barrier = payload[_ANNOUNCEMENT_BYTES.size :]
    if _KIND_BYTES.unpack_from(barrier)[0] != _Kind.BARRIER:
        raise ValueError("the announced event is not a barrier")
    return EventAnnouncement(_decode_barrier(bytes(barrier)), sequence_number)


def _check_times(timestamp: float, timeout: float) -> None:
    if not math.isfinite(timestamp) or not timeout >= 0:
        raise ValueError(
            f"the timestamp {timestamp} must be finite, and the timeout {timeout} must be 0 or more"
        )
