"""Messages and their bytes: fixed rows read three ways, round trips, and everything malformed."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import (
    MAX_PEER_TEXT,
    NEED_DATA,
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    BadMagic,
    BufferResponse,
    CancelPartitionRequest,
    CloseRequest,
    ControlPayload,
    DataType,
    ErrorResponse,
    FrameDecoder,
    FrameTooLong,
    KeepAlive,
    LocalProtocolError,
    MalformedFrame,
    Message,
    NewBufferSize,
    PartitionRequest,
    RemoteProtocolError,
    ResumeConsumption,
    UnknownMessage,
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


def frame(message_id: int, body: str, *, length: int | None = None, magic: int = 0xBADC0FFE) -> bytes:
    content = bytes.fromhex(body)
    total = 9 + len(content) if length is None else length
    return struct.pack(">IIB", total, magic, message_id) + content


def response(tail: str) -> bytes:
    return frame(0, CHANNEL_7 + tail)


MALFORMED: list[tuple[str, bytes, type[RemoteProtocolError]]] = [
    ("bad magic", frame(5, "", magic=0xBADC0FFF), BadMagic),
    ("text instead of frames", b"GET / HTTP/1.1\r\n", BadMagic),
    ("unknown id", frame(12, ""), UnknownMessage),
    ("task events are not carried", frame(3, ""), UnknownMessage),
    ("length over the limit", frame(0, "", length=16 * 1024 * 1024 + 1), FrameTooLong),
    ("length negative as a Java int", frame(0, "", length=2**32 - 1), FrameTooLong),
    ("length 0", frame(5, "", length=0), MalformedFrame),
    ("length shorter than the header", frame(5, "", length=8), MalformedFrame),
    ("a byte too few", frame(6, "00000004" + CHANNEL_7[:-2]), MalformedFrame),
    ("a byte too many", frame(7, CHANNEL_7 + "00"), MalformedFrame),
    ("a body where none belongs", frame(5, "00"), MalformedFrame),
    ("response without its fields", frame(0, CHANNEL_7), MalformedFrame),
    ("credit 0", frame(6, "00000000" + CHANNEL_7), MalformedFrame),
    ("credit negative", frame(6, "ffffffff" + CHANNEL_7), MalformedFrame),
    ("announced backlog 0", frame(9, "00000000" + CHANNEL_7), MalformedFrame),
    ("buffer size 0", frame(10, "00000000" + CHANNEL_7), MalformedFrame),
    ("buffer size negative", frame(10, "80000000" + CHANNEL_7), MalformedFrame),
    ("initial credit negative", frame(2, "00" * 60 + "00" * 8 + CHANNEL_7 + "ffffffff"), MalformedFrame),
    ("subpartition negative", response("ffffffff 00000000 00000000 01 00 00000000"), MalformedFrame),
    ("backlog negative", response("00000000 00000000 ffffffff 01 00 00000000"), MalformedFrame),
    ("data type 0, no buffer", response("00000000 00000000 00000000 00 00 00000000"), MalformedFrame),
    ("unknown data type", response("00000000 00000000 00000000 09 00 00000000"), MalformedFrame),
    ("compressed 2", response("00000000 00000000 00000000 01 02 00000000"), MalformedFrame),
    (
        "payload longer than its size",
        response("00000000 00000000 00000000 01 00 00000001 6161"),
        MalformedFrame,
    ),
    (
        "payload shorter than its size",
        response("00000000 00000000 00000000 01 00 00000002 61"),
        MalformedFrame,
    ),
    ("size negative", response("00000000 00000000 00000000 01 00 ffffffff"), MalformedFrame),
    ("cause longer than the frame", frame(1, "7fffffff 00"), MalformedFrame),
    ("cause that is no text", frame(1, "00000001 ff 00"), MalformedFrame),
    ("flag without a channel", frame(1, "00000000 01"), MalformedFrame),
    ("channel without a flag", frame(1, "00000000 00" + CHANNEL_7), MalformedFrame),
    ("flag 2", frame(1, "00000000 02" + CHANNEL_7), MalformedFrame),
]


@pytest.mark.parametrize(("data", "error"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_malformed_bytes_are_the_peers_fault_and_stay_where_they_are(
    data: bytes, error: type[RemoteProtocolError]
) -> None:
    whole = FrameDecoder()
    whole.feed(encode(AddCredit(7, 4)) + data + encode(CloseRequest()))
    assert whole.next_message() == AddCredit(7, 4)
    held = whole.buffered_bytes
    texts = []
    for _ in range(3):
        with pytest.raises(error, match="the peer sent") as caught:
            whole.next_message()
        texts.append(str(caught.value))
    assert len(set(texts)) == 1
    assert whole.buffered_bytes == held

    with pytest.raises(error):
        drip(FrameDecoder(), data)


def test_a_cause_over_its_limit_is_found_before_it_is_collected() -> None:
    longest = ErrorResponse("\U0001f4a9" * MAX_PEER_TEXT, 7)
    decoder = FrameDecoder()
    decoder.feed(encode(longest))
    assert drain(decoder) == [longest]
    length = len(encode(longest)) + 1
    decoder.feed(length.to_bytes(4) + bytes.fromhex("badc0ffe 01"))
    with pytest.raises(
        MalformedFrame,
        match=f"the peer sent ErrorResponse in a frame of {length} bytes; this message has another length",
    ):
        decoder.next_message()
    with pytest.raises(LocalProtocolError, match=" bytes cannot be sent; at most 16384 bytes are allowed"):
        encode(ErrorResponse("x" * (4 * MAX_PEER_TEXT + 1)))


def test_the_limit_is_found_before_the_frame_is_collected() -> None:
    decoder = FrameDecoder(max_frame_bytes=46)
    data = encode(BufferResponse(1, 0, 0, 0, DataType.DATA_BUFFER, False, b"abc"))
    decoder.feed(data)
    assert len(drain(decoder)) == 1

    longer = encode(BufferResponse(1, 0, 0, 0, DataType.DATA_BUFFER, False, b"abcd"))
    decoder.feed(longer[:9])
    with pytest.raises(FrameTooLong, match="the peer sent a frame of 47 bytes; at most 46 bytes are allowed"):
        decoder.next_message()


ILLEGAL: list[Message] = [
    AddCredit(7, 0),
    AddCredit(7, -1),
    AddCredit(7, 2**31),
    AddCredit(-1, 1),
    AddCredit(2**128, 1),
    BacklogAnnouncement(7, 0),
    NewBufferSize(7, 0),
    PartitionRequest(7, -1),
    PartitionRequest(7, 1, partition=2**160),
    PartitionRequest(7, 1, attempt=2**320),
    ErrorResponse("x", -1),
    ErrorResponse("\ud800"),
    BufferResponse(7, -1, 0, 0, DataType.DATA_BUFFER, False, b""),
    BufferResponse(7, 0, 2**31, 0, DataType.DATA_BUFFER, False, b""),
    BufferResponse(7, 0, 0, -1, DataType.DATA_BUFFER, False, b""),
    BufferResponse(7, 0, 0, 0, 0, False, b""),  # type: ignore[arg-type]
    BufferResponse(7, 0, 0, 0, 9, False, b""),  # type: ignore[arg-type]
    BufferResponse(-7, 0, 0, 0, DataType.DATA_BUFFER, False, b""),
]


@pytest.mark.parametrize("message", ILLEGAL, ids=repr)
def test_illegal_values_are_our_own_fault(message: Message) -> None:
    with pytest.raises(LocalProtocolError, match=r"cannot be sent"):
        encode(message)
