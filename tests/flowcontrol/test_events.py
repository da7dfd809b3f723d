"""Events: their bytes, the type of the buffer that carries them, and bytes that are no event."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import (
    ANNOUNCED_TYPES,
    BLOCKING_TYPES,
    EVENT_TYPES,
    PRIORITY_TYPES,
    Alignment,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointOptions,
    DataType,
    EndOfData,
    EndOfInputChannelState,
    EndOfOutputChannelState,
    EndOfPartition,
    Event,
    EventAnnouncement,
    LocalProtocolError,
    MalformedEvent,
    PostCheckpointAction,
    Savepoint,
    SavepointFormat,
    data_type_of,
    decode_event,
    encode_event,
)

ROWS: list[tuple[Event, str]] = [
    (EndOfPartition(), "00000000"),
    (
        CheckpointBarrier(5, 1.5),
        "00000001 0000000000000005 3ff8000000000000 00 ffffffff 01 7ff0000000000000",
    ),
    (
        CheckpointBarrier(-1, 0.0, CheckpointOptions(Alignment.UNALIGNED, 0.5)),
        "00000001 ffffffffffffffff 0000000000000000 00 ffffffff 02 3fe0000000000000",
    ),
    (
        CheckpointBarrier(5, 1.5, CheckpointOptions(savepoint=Savepoint("sp-\u00fc"))),
        "00000001 0000000000000005 3ff8000000000000 01 00 00000005 73702dc3bc 01 7ff0000000000000",
    ),
    (
        CheckpointBarrier(
            6,
            2.0,
            CheckpointOptions(
                Alignment.AT_LEAST_ONCE,
                savepoint=Savepoint("", SavepointFormat.NATIVE, PostCheckpointAction.TERMINATE),
            ),
        ),
        "00000001 0000000000000006 4000000000000000 03 01 00000000 00 7ff0000000000000",
    ),
    (CancelCheckpointMarker(9), "00000004 0000000000000009"),
    (EndOfData(), "00000008 00"),
    (EndOfInputChannelState(), "00000005 00"),
    (EndOfOutputChannelState(), "00000005 01"),
    (
        EventAnnouncement(CheckpointBarrier(5, 1.5, CheckpointOptions(timeout_s=0.5)), -2),
        "00000006 fffffffe 00000001 0000000000000005 3ff8000000000000 00 ffffffff 01 3fe0000000000000",
    ),
]


@pytest.mark.parametrize(("event", "text"), ROWS)
def test_an_event_and_its_bytes(event: Event, text: str) -> None:
    data = bytes.fromhex(text)

    assert encode_event(event) == data
    assert decode_event(data) == event
    assert decode_event(memoryview(data)) == event


@pytest.mark.parametrize(("event", "text"), ROWS)
def test_no_event_is_read_from_part_of_its_bytes_or_from_more(event: Event, text: str) -> None:
    data = bytes.fromhex(text)

    for part in [*(data[:end] for end in range(len(data))), data + b"\0"]:
        with pytest.raises(MalformedEvent):
            decode_event(part)


@given(
    st.builds(
        CheckpointBarrier,
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.builds(
            CheckpointOptions,
            st.sampled_from(Alignment),
            st.none() | st.floats(0, allow_nan=False, allow_infinity=False),
        ),
    )
)
def test_a_barrier_survives_the_way(barrier: CheckpointBarrier) -> None:
    assert decode_event(encode_event(barrier)) == barrier


def barrier_bytes(**changes: float) -> bytes:
    fields = {"timestamp": 1.0, "kind": 0, "location": -1, "alignment": 1, "timeout": 1.0} | changes
    return struct.pack(">iqdbibd", 1, 5, *fields.values())


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("00000002"),
        bytes.fromhex("00000008 01"),
        bytes.fromhex("00000005 02"),
        bytes.fromhex("00000006 00000000") + bytes.fromhex("00000004 0000000000000009"),
        bytes.fromhex("00000006 00000000") + struct.pack(">iqdbibd", 0, 5, 1.0, 0, -1, 1, 1.0),
        barrier_bytes(kind=1),
        barrier_bytes(location=0),
        barrier_bytes(alignment=len(Alignment)),
        barrier_bytes(timestamp=math.nan),
        barrier_bytes(timeout=-1.0),
        barrier_bytes(timeout=math.nan),
    ],
)
def test_bytes_that_are_no_event(data: bytes) -> None:
    with pytest.raises(MalformedEvent):
        decode_event(data)


@pytest.mark.parametrize(
    "event",
    [
        CancelCheckpointMarker(2**63),
        CheckpointBarrier(1, math.inf),
        CheckpointBarrier(1, 0.0, CheckpointOptions(timeout_s=-1.0)),
        EventAnnouncement(CheckpointBarrier(1, 0.0), 2**31),
    ],
)
def test_an_event_that_cannot_be_is_our_own_fault(event: Event) -> None:
    with pytest.raises(LocalProtocolError):
        encode_event(event)


def options(alignment: Alignment, timeout_s: float | None = None) -> CheckpointBarrier:
    return CheckpointBarrier(1, 0.0, CheckpointOptions(alignment, timeout_s))


@pytest.mark.parametrize(
    ("event", "data_type"),
    [
        (options(Alignment.ALIGNED), DataType.ALIGNED_CHECKPOINT_BARRIER),
        (options(Alignment.FORCED_ALIGNED, 1.0), DataType.ALIGNED_CHECKPOINT_BARRIER),
        (options(Alignment.ALIGNED, 1.0), DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER),
        (options(Alignment.ALIGNED, 0.0), DataType.ALIGNED_CHECKPOINT_BARRIER),
        (options(Alignment.AT_LEAST_ONCE), DataType.EVENT_BUFFER),
        (options(Alignment.UNALIGNED), DataType.EVENT_BUFFER),
        (CancelCheckpointMarker(1), DataType.EVENT_BUFFER),
        (EndOfData(), DataType.EVENT_BUFFER),
        (EndOfPartition(), DataType.EVENT_BUFFER),
        (EndOfInputChannelState(), DataType.EVENT_BUFFER),
        (EndOfOutputChannelState(), DataType.RECOVERY_COMPLETION),
        (EventAnnouncement(options(Alignment.ALIGNED, 1.0), 3), DataType.PRIORITIZED_EVENT_BUFFER),
    ],
)
def test_the_type_of_the_buffer_that_carries_an_event(event: Event, data_type: DataType) -> None:
    assert data_type_of(event) is data_type
    assert data_type_of(event, priority=True) is DataType.PRIORITIZED_EVENT_BUFFER


def test_what_the_types_mean() -> None:
    barriers = {DataType.ALIGNED_CHECKPOINT_BARRIER, DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER}

    assert set(DataType) - {DataType.DATA_BUFFER} == EVENT_TYPES
    assert barriers | {DataType.RECOVERY_COMPLETION} == BLOCKING_TYPES
    assert {DataType.PRIORITIZED_EVENT_BUFFER} == PRIORITY_TYPES
    assert {DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER} == ANNOUNCED_TYPES
    assert [int(data_type) for data_type in DataType] == list(range(1, 7))


ALL_OPTIONS = st.builds(CheckpointOptions, st.sampled_from(Alignment), st.sampled_from([None, 0.0, 0.5]))


@given(ALL_OPTIONS)
def test_an_exchange_that_lets_no_barrier_overtake_forces_alignment_until_behind_it(
    given_options: CheckpointOptions,
) -> None:
    forced = given_options.with_unaligned_unsupported()

    assert not forced.is_unaligned
    assert not forced.timeoutable
    if given_options.alignment is not Alignment.FORCED_ALIGNED:
        assert forced.with_unaligned_supported().alignment is given_options.alignment


@pytest.mark.parametrize(
    ("given_options", "unsupported", "supported"),
    [
        (
            CheckpointOptions(Alignment.UNALIGNED),
            CheckpointOptions(Alignment.FORCED_ALIGNED),
            CheckpointOptions(Alignment.UNALIGNED),
        ),
        (
            CheckpointOptions(Alignment.ALIGNED, 0.5),
            CheckpointOptions(Alignment.FORCED_ALIGNED, 0.5),
            CheckpointOptions(Alignment.ALIGNED, 0.5),
        ),
        (CheckpointOptions(), CheckpointOptions(), CheckpointOptions()),
        (
            CheckpointOptions(Alignment.AT_LEAST_ONCE),
            CheckpointOptions(Alignment.AT_LEAST_ONCE),
            CheckpointOptions(Alignment.AT_LEAST_ONCE),
        ),
        (
            CheckpointOptions(Alignment.FORCED_ALIGNED),
            CheckpointOptions(Alignment.FORCED_ALIGNED),
            CheckpointOptions(Alignment.UNALIGNED),
        ),
        (
            CheckpointOptions(Alignment.FORCED_ALIGNED, 0.5),
            CheckpointOptions(Alignment.FORCED_ALIGNED, 0.5),
            CheckpointOptions(Alignment.ALIGNED, 0.5),
        ),
    ],
)
def test_options_on_and_behind_an_exchange_without_overtaking(
    given_options: CheckpointOptions, unsupported: CheckpointOptions, supported: CheckpointOptions
) -> None:
    assert given_options.with_unaligned_unsupported() == unsupported
    assert given_options.with_unaligned_supported() == supported


@given(ALL_OPTIONS)
def test_any_barrier_can_be_made_unaligned(given_options: CheckpointOptions) -> None:
    unaligned = CheckpointBarrier(7, 1.5, given_options).as_unaligned()

    assert (unaligned.checkpoint_id, unaligned.timestamp) == (7, 1.5)
    assert unaligned.options.is_unaligned
    assert not unaligned.options.needs_alignment
    assert unaligned.as_unaligned() is unaligned
