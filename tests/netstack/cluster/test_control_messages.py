"""The control plane between processes, as bytes, and the stand-ins that use it."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import (
    MAX_PEER_TEXT,
    Alignment,
    CheckpointBarrier,
    CheckpointOptions,
    FailureReason,
    RemoteProtocolError,
)
from netstack import (
    Edge,
    GeneratorSpec,
    Scenario,
    StateHandle,
    StateKind,
    StoredFile,
    SubtaskSnapshot,
    Vertex,
    decode_report,
)
from netstack.checkpoints.pending_checkpoint import Acknowledgement
from netstack.cluster.control_messages import (
    Aborted,
    Acknowledge,
    Completed,
    Control,
    Decline,
    Ended,
    Ready,
    Running,
    Start,
    Stop,
    ToTask,
    TriggerCheckpoint,
    decode_control,
    distant_tasks,
    encode_control,
)
from netstack.results.result import SubtaskCheckpoint

BARRIER = CheckpointBarrier(7, 1.5, CheckpointOptions(Alignment.ALIGNED, 0.25))

PART = SubtaskCheckpoint(
    start_delay_s=0.5, alignment_s=0.25, sync_s=0.001, async_s=0.002, alignment_processed_bytes=4096
)
SNAPSHOT = SubtaskSnapshot(
    vertex="window",
    subtask=3,
    handles=(
        StateHandle(kind=StateKind.OPERATOR, name="position", size=4, inline=b"\0\xff\x80 "),
        StateHandle(
            kind=StateKind.INPUT_CHANNEL,
            size=10,
            file=StoredFile(path="chk-7/window-3-channels", size=30, checksum="ab"),
            offset=20,
            channel=2,
        ),
        StateHandle(kind=StateKind.KEYED, name="sums", size=0, inline=b"", key_groups=(0, 63)),
    ),
    data_ended=True,
)

MESSAGES: list[Control] = [
    Ready(),
    Start(1.7e9, 0.0),
    Running(),
    TriggerCheckpoint((1, 2), BARRIER),
    TriggerCheckpoint((0, 0), CheckpointBarrier(1, 0.0, CheckpointOptions(Alignment.UNALIGNED))),
    Completed((0, 1), 7),
    Aborted((0, 1), 8),
    Acknowledge((1, 3), Acknowledgement(7, PART, SNAPSHOT)),
    Decline((1, 3), 7, FailureReason.DECLINED_SUBSUMED, "a newer one has come"),
    Ended((1, 3), 9),
    Stop(),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_its_bytes(message: Control) -> None:
    assert decode_control(encode_control(message)) == message


@given(st.floats(0, 1e9, allow_nan=False), st.integers(0, 2**62), st.floats(0, 1e6) | st.none())
def test_a_barrier_survives_to_the_bit(timestamp: float, number: int, timeout: float | None) -> None:
    barrier = CheckpointBarrier(number, timestamp, CheckpointOptions(Alignment.ALIGNED, timeout))
    decoded = decode_control(encode_control(TriggerCheckpoint((0, 0), barrier)))
    assert decoded == TriggerCheckpoint((0, 0), barrier)


def test_text_of_a_peer_is_readable() -> None:
    decoded = decode_control(encode_control(Decline((0, 1), 3, FailureReason.DECLINED, "line\n" * 9999)))
    assert isinstance(decoded, Decline)
    assert decoded.detail.startswith(r"line\nline\n")
    assert len(decoded.detail) == MAX_PEER_TEXT
    with pytest.raises(RemoteProtocolError) as caught:
        decode_control(msgspec.msgpack.encode({"type": "\x1b[2J" * 9999}))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < MAX_PEER_TEXT + 100


@pytest.mark.parametrize("payload", [b"\x81\xa4type\xa1\xff", b"\x81\xa4type\xa5Ready" + b"\x91" * 5000])
def test_text_that_is_none_and_lists_without_end_are_no_message(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="a control message of"):
        decode_control(payload)
    with pytest.raises(ValueError, match=r"codec|depth|truncated|missing|field|Expected") as caught:
        decode_report(payload)
    assert type(caught.value) is ValueError


def test_bytes_cut_short_are_no_message() -> None:
    for message in MESSAGES:
        with pytest.raises(RemoteProtocolError, match="a control message of"):
            decode_control(encode_control(message)[:-1])


def test_infinite_times_survive() -> None:
    message = Acknowledge((0, 0), Acknowledgement(1, SubtaskCheckpoint(start_delay_s=math.inf), SNAPSHOT))
    assert decode_control(encode_control(message)) == message


def test_a_distant_task_is_told_through_the_task_manager_that_hosts_it() -> None:
    scenario = Scenario(
        name="two",
        duration_s=1.0,
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=8), parallelism=2, task_manager="left"),
            Vertex(name="sink", parallelism=4, task_manager="right"),
        ),
        edges=(Edge(source="source", target="sink", ship="rescale"),),
    )
    told: list[tuple[str, ToTask]] = []
    tasks = distant_tasks(scenario, lambda manager, message: told.append((manager, message)))
    assert list(tasks) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3)]
    assert tasks[0, 1].upstream == []
    assert [tasks[1, index].upstream for index in range(4)] == [
        [tasks[0, 0]],
        [tasks[0, 0]],
        [tasks[0, 1]],
        [tasks[0, 1]],
    ]
    tasks[0, 1].trigger_checkpoint(BARRIER)
    tasks[1, 3].checkpoint_completed(7)
    tasks[1, 0].checkpoint_aborted(8)
    assert told == [
        ("left", TriggerCheckpoint((0, 1), BARRIER)),
        ("right", Completed((1, 3), 7)),
        ("right", Aborted((1, 0), 8)),
    ]
