"""Frames that break the protocol: whose fault it is, and that nothing moves."""

import struct

import pytest

from flowcontrol import (
    MAX_PEER_TEXT,
    NEED_DATA,
    AddCredit,
    BacklogAnnouncement,
    BadMagic,
    BufferResponse,
    CloseRequest,
    DataType,
    ErrorResponse,
    FrameDecoder,
    FrameTooLong,
    LocalProtocolError,
    MalformedFrame,
    Message,
    NewBufferSize,
    PartitionRequest,
    RemoteProtocolError,
    UnknownMessage,
    encode,
)

CHANNEL_7 = "00000000000000000000000000000007"


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
