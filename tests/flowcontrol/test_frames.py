"""Messages and their bytes: fixed rows read three ways, round trips, and everything malformed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import (
    NEED_DATA,
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    CancelPartitionRequest,
    CloseRequest,
    ControlPayload,
    DataType,
    ErrorResponse,
    FrameDecoder,
    KeepAlive,
    Message,
    NewBufferSize,
    PartitionRequest,
    ResumeConsumption,
    encode,
    encode_header,
    wire_size,
)

CHANNEL_7 = "00000000000000000000000000000007"

ROWS: list[tuple[Message, str]] = [
    (
        BufferResponse(7, 2, 5, 3, DataType.DATA_BUFFER, False, b"abc"),
        f"0000002e badc0ffe 00 {CHANNEL_7} 00000002 00000005 00000003 01 00 00000003 616263",
    ),
    (
        BufferResponse(2**128 - 1, 0, -(2**31), 0, DataType.ALIGNED_CHECKPOINT_BARRIER, True, b""),
        f"0000002b badc0ffe 00 {'ff' * 16} 00000000 80000000 00000000 04 01 00000000",
    ),
    (ErrorResponse("no ä", 7), f"00000023 badc0ffe 01 00000005 6e6f20c3a4 01 {CHANNEL_7}"),
    (ErrorResponse(""), "0000000e badc0ffe 01 00000000 00"),
    (
        PartitionRequest(7, 2, partition=1, attempt=3, first_subpartition=4, last_subpartition=5),
        f"00000061 badc0ffe 02 {1:040x} {3:080x} 00000004 00000005 {CHANNEL_7} 00000002",
    ),
    (CancelPartitionRequest(7), f"00000019 badc0ffe 04 {CHANNEL_7}"),
    (CloseRequest(), "00000009 badc0ffe 05"),
    (AddCredit(7, 4), f"0000001d badc0ffe 06 00000004 {CHANNEL_7}"),
    (ResumeConsumption(7), f"00000019 badc0ffe 07 {CHANNEL_7}"),
    (AckAllUserRecordsProcessed(7), f"00000019 badc0ffe 08 {CHANNEL_7}"),
    (BacklogAnnouncement(7, 9), f"0000001d badc0ffe 09 00000009 {CHANNEL_7}"),
    (NewBufferSize(7, 1024), f"0000001d badc0ffe 0a 00000400 {CHANNEL_7}"),
]
BODY_BYTES = {
    BufferResponse: 34,
    PartitionRequest: 88,
    CancelPartitionRequest: 16,
    CloseRequest: 0,
    AddCredit: 20,
    ResumeConsumption: 16,
    AckAllUserRecordsProcessed: 16,
    BacklogAnnouncement: 20,
    NewBufferSize: 20,
}
"""Flink's body sizes, payload left out; that of an ErrorResponse varies."""


def drain(decoder: FrameDecoder) -> list[Message]:
    messages = []
    while (message := decoder.next_message()) is not NEED_DATA:
        messages.append(message)
    return messages


def drip(decoder: FrameDecoder, data: bytes) -> list[Message]:
    messages = []
    for byte in data:
        decoder.feed(bytes([byte]))
        messages += drain(decoder)
    return messages


@pytest.mark.parametrize(("message", "text"), ROWS, ids=lambda value: type(value).__name__)
def test_a_message_and_its_bytes(message: Message, text: str) -> None:
    data = bytes.fromhex(text)
    assert encode(message) == data
    assert wire_size(message) == len(data)

    whole = FrameDecoder()
    whole.feed(data)
    assert drain(whole) == [message]
    assert whole.buffered_bytes == 0

    dripping = FrameDecoder()
    assert drip(dripping, data[:-1]) == []
    assert drip(dripping, data[-1:]) == [message]

    trailing = FrameDecoder()
    trailing.feed(data + data[:8])
    assert drain(trailing) == [message]
    assert trailing.buffered_bytes == min(8, len(data))
    trailing.feed(data[8:])
    assert drain(trailing) == [message]


@pytest.mark.parametrize(("message", "text"), ROWS, ids=lambda value: type(value).__name__)
def test_sizes_are_flinks(message: Message, text: str) -> None:
    if type(message) in BODY_BYTES:
        payload = len(message.payload) if isinstance(message, BufferResponse) else 0
        assert len(encode(message)) == 9 + BODY_BYTES[type(message)] + payload


def test_a_header_and_its_payload_are_the_frame() -> None:
    payload = memoryview(bytearray(range(256)))
    response = BufferResponse(1, 0, 0, 0, DataType.DATA_BUFFER, False, payload)

    assert encode_header(response) + payload == encode(response)
    assert encode_header(AddCredit(1, 1)) == encode(AddCredit(1, 1))


def test_a_payload_is_a_view_of_what_was_fed() -> None:
    data = encode(BufferResponse(1, 0, 0, 0, DataType.DATA_BUFFER, False, bytes(32768)))
    decoder = FrameDecoder()
    decoder.feed(data)
    message = decoder.next_message()

    assert isinstance(message, BufferResponse)
    assert isinstance(message.payload, memoryview)
    assert message.payload.obj is data


def test_bytes_fed_from_a_buffer_that_is_used_again_stay_what_they_were() -> None:
    socket_buffer = bytearray(encode(AddCredit(7, 4)))
    decoder = FrameDecoder()
    decoder.feed(socket_buffer)
    socket_buffer[:] = bytes(len(socket_buffer))

    assert drain(decoder) == [AddCredit(7, 4)]


class CountingDecoder(FrameDecoder):
    """Counts the bytes it gathers into new pieces, since times are not to be trusted."""

    gathered = 0

    def _gather(self, count: int) -> memoryview:
        held = self._piece
        piece = super()._gather(count)
        if piece is not held:
            self.gathered += len(piece)
        return piece


@pytest.mark.parametrize("piece", [1, 100, 70_000, 10**6])
def test_every_byte_is_gathered_a_few_times_at_most(piece: int) -> None:
    message = BufferResponse(1, 0, 0, 0, DataType.DATA_BUFFER, False, bytes(20_000))
    data = encode(message) * 10
    decoder = CountingDecoder()
    messages = []
    for start in range(0, len(data), piece):
        decoder.feed(data[start : start + piece])
        messages += drain(decoder)

    assert messages == [message] * 10
    assert decoder.gathered <= 2 * len(data)


numbers = st.integers(0, 2**31 - 1)
positive = st.integers(1, 2**31 - 1)
channels = st.integers(0, 2**128 - 1)
any_message = st.one_of(
    st.builds(
        BufferResponse,
        channels,
        numbers,
        st.integers(-(2**31), 2**31 - 1),
        numbers,
        st.sampled_from(DataType),
        st.booleans(),
        st.binary(max_size=300) | st.integers(0, 5000).map(bytes),
    ),
    st.builds(ErrorResponse, st.text(), st.none() | channels),
    st.builds(
        PartitionRequest,
        channels,
        numbers,
        st.integers(0, 2**160 - 1),
        st.integers(0, 2**320 - 1),
        numbers,
        numbers,
    ),
    st.builds(CancelPartitionRequest, channels),
    st.builds(CloseRequest),
    st.builds(AddCredit, channels, positive),
    st.builds(ResumeConsumption, channels),
    st.builds(AckAllUserRecordsProcessed, channels),
    st.builds(BacklogAnnouncement, channels, positive),
    st.builds(NewBufferSize, channels, positive),
    st.just(KeepAlive()),
    st.builds(ControlPayload, st.binary(max_size=20) | st.integers(0, 3000).map(bytes)),
)


@given(st.lists(any_message, max_size=8), st.data())
def test_any_split_of_any_messages_gives_them_back(messages: list[Message], data: st.DataObject) -> None:
    stream = b"".join(map(encode, messages))
    assert len(stream) == sum(map(wire_size, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    decoder = FrameDecoder()
    decoded = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoder.feed(stream[start:end])
        if data.draw(st.booleans()):
            decoded += drain(decoder)

    assert decoded + drain(decoder) == messages
    assert decoder.buffered_bytes == 0
