"""The sending end of a connection: the scenarios of Flink's own tests, and whose turn it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from flowcontrol import (
    BLOCKING_TYPES,
    EVENT_TYPES,
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    CancelPartitionRequest,
    ChannelSender,
    CloseRequest,
    DataType,
    LocalProtocolError,
    Message,
    NewBufferSize,
    PartitionRequest,
    Polled,
    RemoteProtocolError,
    ResumeConsumption,
    SendQueue,
)
from tests.vectors import flink_vectors

VECTORS = flink_vectors("credit_sender_request_queue")

ELSEWHERE = {
    "tx-new-buffer-size": "needs a writer: in tests/netstack/exchange/test_partition.py",
    "tx-partition-timeout": "nothing is sent yet: played in tests/flowcontrol/test_partition_requests.py",
}

DATA, EVENT, BARRIER = DataType.DATA_BUFFER, DataType.EVENT_BUFFER, DataType.ALIGNED_CHECKPOINT_BARRIER
CHANNEL = 7


class FakeBuffer:
    """A buffer that counts its releases."""

    def __init__(self, data_type: DataType) -> None:
        self.data_type = data_type
        self.is_event = data_type in EVENT_TYPES
        self.payload = memoryview(b"bytes")
        self.released = 0

    def release(self) -> None:
        self.released += 1


class FakeView:
    """A subpartition in which everything is finished; a `treacherous` one claims data it does not have."""

    def __init__(self, queue: Sequence[DataType] = (), *, treacherous: bool = False) -> None:
        self.index = 3
        self.queue = deque(queue)
        self.blocked = False
        self.released = False
        self.acknowledged = False
        self.sizes: list[int] = []
        self._treacherous = treacherous
        self._sequence = -1

    def acknowledge_all_records(self) -> None:
        self.acknowledged = True

    def poll(self) -> Polled | None:
        if self.blocked or not self.queue:
            return None
        data_type = self.queue.popleft()
        self.blocked = data_type in BLOCKING_TYPES
        self._sequence += 1
        more = bool(self.queue) and not self.blocked
        next_is_event = more and self.queue[0] in EVENT_TYPES
        return Polled(FakeBuffer(data_type), self.backlog, more, next_is_event, self._sequence)

    def can_send(self, credit: int) -> bool:
        if self._treacherous:
            return True
        return bool(self.queue) and not self.blocked and (credit > 0 or self.queue[0] in EVENT_TYPES)

    @property
    def backlog(self) -> int:
        return 0 if self.blocked else sum(item not in EVENT_TYPES for item in self.queue)

    def resume(self) -> None:
        self.blocked = False

    def set_buffer_size(self, size: int) -> None:
        self.sizes.append(size)

    def release(self) -> None:
        self.released = True


def request(channel: int, initial_credit: int) -> PartitionRequest:
    return PartitionRequest(channel=channel, initial_credit=initial_credit)


def drain(queue: SendQueue) -> list[BacklogAnnouncement | BufferResponse]:
    """Everything that can leave now."""
    sent = []
    while (item := queue.next_message()) is not None:
        sent.append(item[0])
    return sent


class Player:
    """Plays the steps of a scenario; what is sent leaves at once unless the connection is blocked."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self.given = scenario["given"]
        self.queue = SendQueue()
        self.view = FakeView()
        self.sender = self.queue.open(request(CHANNEL, self.given["initial_credit"]), self.view)
        self.fill()
        self.writable = True
        self.sent: list[BacklogAnnouncement | BufferResponse] = []

    def fill(self) -> None:
        """Queue what is given, of which nobody has been told yet."""
        queued = [DATA] * self.given.get("queued_buffers", 0)
        self.view.queue.extend(queued + [DataType[name] for name in self.given.get("queue", [])])

    def play(self, step: dict[str, Any]) -> None:
        match step["op"]:
            case "block_connection":
                self.writable = False
            case "unblock_connection":
                self.writable = True
            case "data_available":
                self.data_available(step)
            case "add_credit":
                self.add_credit(step["n"])
            case "add_credit_each":
                for number in range(1, step["times"] + 1):
                    self.add_credit(step["n"])
                    assert (self.sender.queued, self.sender.credit.available) == (True, number)
            case "resume_consumption":
                self.queue.handle(ResumeConsumption(CHANNEL))
            case "cancel":
                self.queue.handle(CancelPartitionRequest(CHANNEL))
            case "check":
                assert self.sender.sendable == step["expect"]["available"]
                return
            case other:
                raise AssertionError(f"unknown step {other}")
        if self.writable:
            self.sent += drain(self.queue)
        self.check(step.get("expect", {}))

    def add_credit(self, credit: int) -> None:
        if "queued_buffers" not in self.given and not self.view.queue:
            self.view.queue.append(DATA)  # Flink's test has a view that always offers a buffer
        self.queue.handle(AddCredit(CHANNEL, credit))

    def data_available(self, step: dict[str, Any]) -> None:
        if step.get("next") == "event":
            self.view.queue.append(EVENT)
        if "reader" in step:
            self.add_reader(empty=step["reader"] == "empty")
            return
        for _ in range(step.get("times", 1)):
            self.queue.data_available(self.sender)

    def add_reader(self, *, empty: bool) -> None:
        view = FakeView(treacherous=True) if empty else FakeView([DATA] * 5)
        self.queue.open(request(CHANNEL + 1 + empty, self.given["initial_credit"]), view)

    def check(self, expected: dict[str, Any]) -> None:
        responses = [message for message in self.sent if isinstance(message, BufferResponse)]
        actual = {
            "reader_enqueued": self.sender.queued,
            "credit": self.sender.credit.available,
            "has_buffers": bool(self.view.queue),
            "buffer_responses_sent": len(responses),
            "messages_sent": len(self.sent),
            "available": self.sender.sendable,
            "queued": len(self.view.queue),
            "sent_types": [message.data_type.name for message in responses],
            "released": self.view.released,
        }
        if "announced" in expected:
            assert self.sent == [BacklogAnnouncement(CHANNEL, self.view.backlog)]
            return
        checked = expected.keys() - {"credit_after_i"}
        if "credit_after_i" in expected:
            assert expected["credit_after_i"] == "i"  # checked while it was played
        assert {key: actual[key] for key in checked} == {key: expected[key] for key in checked}


@pytest.mark.parametrize("name", [name for name in VECTORS if name not in ELSEWHERE])
def test_vector(name: str) -> None:
    player = Player(VECTORS[name])
    for step in VECTORS[name]["steps"]:
        player.play(step)


def test_every_vector_is_played_or_listed() -> None:
    played = {
        "tx-event-without-credit",
        "tx-buffer-needs-credit",
        "tx-resume-after-barrier",
        "tx-announce-backlog",
        "tx-empty-reader-does-not-stop",
        "tx-cancel",
    }
    assert played.isdisjoint(ELSEWHERE)
    assert set(VECTORS) == played | set(ELSEWHERE)


def opened(
    *queues: Sequence[DataType], credit: int = 2
) -> tuple[SendQueue, list[ChannelSender], list[FakeView]]:
    """A queue with a channel 0, 1, ... for each of `queues`."""
    queue = SendQueue()
    views = [FakeView(items) for items in queues]
    return queue, [queue.open(request(n, credit), view) for n, view in enumerate(views)], views


def test_channels_send_in_turns() -> None:
    queue, _, _ = opened([DATA] * 3, [DATA], [DATA] * 2, credit=5)
    messages = drain(queue)
    assert [message.channel for message in messages] == [0, 1, 2, 0, 2, 0]


def test_a_message_tells_what_the_subpartition_said() -> None:
    queue, _, _ = opened([EVENT, DATA, DATA], credit=1)
    assert drain(queue) == [
        BufferResponse(0, 3, 0, 2, EVENT, False, memoryview(b"bytes")),
        BufferResponse(0, 3, 1, 1, DATA, False, memoryview(b"bytes")),
    ]


def test_the_writer_of_a_message_gets_the_buffer_to_release() -> None:
    queue, _, _ = opened([DATA])
    item = queue.next_message()
    assert item is not None
    buffer = item[1]
    assert isinstance(buffer, FakeBuffer)
    assert buffer.released == 0


def test_an_event_behind_data_leaves_when_credit_is_spent() -> None:
    queue, (sender,), _ = opened([DATA, EVENT, DATA], credit=1)
    assert [message.data_type for message in drain(queue) if isinstance(message, BufferResponse)] == [
        DATA,
        EVENT,
    ]
    assert (sender.queued, sender.credit.available) == (False, 0)


def test_a_channel_stands_in_the_queue_once() -> None:
    queue, (sender,), _ = opened([DATA] * 3)
    for _ in range(3):
        queue.data_available(sender)
        queue.handle(AddCredit(0, 1))
    assert len(drain(queue)) == 3


@pytest.mark.parametrize(
    ("initial", "granted", "announced"), [(0, 0, True), (0, 1, False), (1, 0, False), (2, 0, False)]
)
def test_backlog_is_announced_only_where_no_response_can_tell_it(
    initial: int, granted: int, announced: bool
) -> None:
    queue, (sender,), (view,) = opened([], credit=initial)
    if granted:
        queue.handle(AddCredit(0, granted))
    view.queue.append(DATA)
    queue.data_available(sender)
    assert isinstance(drain(queue)[0], BacklogAnnouncement) == announced


def test_a_channel_with_exclusive_buffers_waits_for_credit_in_silence() -> None:
    queue, (sender,), _ = opened([DATA, DATA], credit=1)
    assert len(drain(queue)) == 1
    queue.data_available(sender)
    assert (sender.credit.available, drain(queue)) == (0, [])


def test_a_blocked_channel_announces_nothing() -> None:
    queue, (sender,), _ = opened([BARRIER, DATA], credit=0)
    assert len(drain(queue)) == 1
    queue.data_available(sender)
    assert drain(queue) == []
    queue.handle(ResumeConsumption(0))
    assert drain(queue) == [BacklogAnnouncement(0, 1)]


@pytest.mark.parametrize(("initial", "left"), [(0, 0), (2, 5)])
def test_resuming_revokes_credit_only_without_exclusive_buffers(initial: int, left: int) -> None:
    queue, (sender,), _ = opened([BARRIER], credit=initial)
    drain(queue)
    queue.handle(AddCredit(0, 3))
    queue.handle(ResumeConsumption(0))
    assert sender.credit.available == left
    assert sender.credit.granted == sender.credit.available + sender.credit.revoked


def test_a_new_buffer_size_reaches_the_subpartition() -> None:
    queue, _, (view,) = opened([])
    queue.handle(NewBufferSize(0, 512))
    assert view.sizes == [512]


@pytest.mark.parametrize("message", [NewBufferSize(9, 512), CancelPartitionRequest(9)])
def test_what_may_come_too_early_or_too_late_is_ignored(message: Message) -> None:
    queue, _, (view,) = opened([DATA])
    queue.handle(message)
    assert (view.sizes, view.released) == ([], False)


@pytest.mark.parametrize(
    "message",
    [
        AddCredit(9, 1),
        ResumeConsumption(9),
        ResumeConsumption(0),
        CloseRequest(),
        AckAllUserRecordsProcessed(9),
        BacklogAnnouncement(0, 1),
        PartitionRequest(0, 2),
    ],
    ids=repr,
)
def test_an_illegal_message_is_the_fault_of_the_receiver_and_changes_nothing(message: Message) -> None:
    queue, (sender,), (view,) = opened([DATA], credit=0)
    queue.handle(AddCredit(0, 1))
    with pytest.raises(RemoteProtocolError):
        queue.handle(message)
    assert (sender.queued, sender.credit.available, sender.credit.revoked) == (True, 1, 0)
    assert list(view.queue) == [DATA]


def test_a_channel_is_opened_once() -> None:
    queue, (sender,), _ = opened([DATA])
    with pytest.raises(RemoteProtocolError, match="twice"):
        queue.open(request(0, 9), FakeView())
    assert queue.sender(0) is sender
    assert len(drain(queue)) == 1


def test_a_cancelled_channel_sends_nothing_more() -> None:
    queue, (first, _), views = opened([DATA] * 2, [DATA])
    queue.cancel(first)
    assert [view.released for view in views] == [True, False]
    assert queue.sender(0) is None
    assert [message.channel for message in drain(queue)] == [1]
    with pytest.raises(LocalProtocolError, match="not open"):
        queue.cancel(first)


def test_closing_releases_every_channel() -> None:
    queue, _, views = opened([DATA], [], [DATA], credit=0)
    queue.close()
    assert [view.released for view in views] == [True] * 3
    assert drain(queue) == []


def test_the_acknowledgement_of_all_records_reaches_the_subpartition() -> None:
    queue, _, (view,) = opened([DATA], credit=2)
    queue.handle(AckAllUserRecordsProcessed(0))
    assert view.acknowledged
