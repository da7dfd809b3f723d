"""The receiving end of a channel: every state with every input, and what is rejected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flowcontrol import (
    BLOCKING_TYPES,
    EVENT_TYPES,
    TRANSITIONS,
    ChannelReceiver,
    CreditExceeded,
    DataType,
    Input,
    LocalProtocolError,
    ProtocolError,
    ReceiverState,
    RemoteProtocolError,
    SequenceGap,
)

BARRIER = DataType.ALIGNED_CHECKPOINT_BARRIER


def in_state(state: ReceiverState, initial_credit: int = 2) -> ChannelReceiver:
    """A receiver that got into `state` in the way that the protocol offers."""
    receiver = ChannelReceiver(initial_credit)
    if state is ReceiverState.BLOCKED:
        receiver.accept(0, 0, BARRIER)
    elif state is ReceiverState.ENDED:
        receiver.end()
    elif state is ReceiverState.RELEASED:
        receiver.release()
    assert receiver.state is state
    return receiver


def snapshot(receiver: ChannelReceiver) -> tuple[ReceiverState, int, int, int]:
    credit = receiver.credit
    return receiver.state, receiver.expected_sequence, credit.outstanding, credit.unannounced


def apply(receiver: ChannelReceiver, what: Input) -> None:
    """Let `what` happen, legal in everything but perhaps the state."""
    number = receiver.expected_sequence
    deeds: dict[Input, Callable[[], None]] = {
        Input.DATA: lambda: receiver.accept(number, 5, DataType.DATA_BUFFER),
        Input.EVENT: lambda: receiver.accept(number, 5, DataType.EVENT_BUFFER),
        Input.PRIORITY_EVENT: lambda: receiver.accept(number, 5, DataType.PRIORITIZED_EVENT_BUFFER),
        Input.BLOCKING_EVENT: lambda: receiver.accept(number, 0, BARRIER),
        Input.RESUME: receiver.resume,
        Input.END: receiver.end,
        Input.RELEASE: receiver.release,
    }
    deeds[what]()


def test_the_table_knows_every_state() -> None:
    assert set(TRANSITIONS) == set(ReceiverState)


@pytest.mark.parametrize("what", Input, ids=lambda what: what.name)
@pytest.mark.parametrize("state", ReceiverState, ids=lambda state: state.name)
def test_the_outcome_is_the_row_or_an_error_without_effect(state: ReceiverState, what: Input) -> None:
    receiver = in_state(state)
    before = snapshot(receiver)
    if what in TRANSITIONS[state]:
        apply(receiver, what)
        assert receiver.state is TRANSITIONS[state][what]
    else:
        with pytest.raises(ProtocolError):
            apply(receiver, what)
        assert snapshot(receiver) == before


@pytest.mark.parametrize("what", [Input.DATA, Input.EVENT, Input.BLOCKING_EVENT])
def test_what_arrives_in_a_wrong_state_is_the_fault_of_the_peer(what: Input) -> None:
    for state in (ReceiverState.BLOCKED, ReceiverState.ENDED, ReceiverState.RELEASED):
        with pytest.raises(RemoteProtocolError, match=state.name):
            apply(in_state(state), what)


@pytest.mark.parametrize("state", [ReceiverState.OPEN, ReceiverState.ENDED, ReceiverState.RELEASED])
def test_a_wrong_resume_is_the_fault_of_the_caller(state: ReceiverState) -> None:
    with pytest.raises(LocalProtocolError, match=state.name):
        in_state(state).resume()


@pytest.mark.parametrize("data_type", DataType, ids=lambda data_type: data_type.name)
def test_only_data_costs_credit_and_only_blocking_types_block(data_type: DataType) -> None:
    receiver = ChannelReceiver(2)
    receiver.accept(0, 0, data_type)
    assert receiver.credit.outstanding == (2 if data_type in EVENT_TYPES else 1)
    assert (receiver.state is ReceiverState.BLOCKED) == (data_type in BLOCKING_TYPES)
    assert receiver.expected_sequence == 1


@pytest.mark.parametrize("number", [0, 2, 29, -1])
def test_a_gap_in_the_sequence_numbers(number: int) -> None:
    receiver = ChannelReceiver(2)
    receiver.accept(0, 0, DataType.DATA_BUFFER)
    before = snapshot(receiver)
    with pytest.raises(SequenceGap, match=f"buffer reordering: expected sequence number 1, got {number}"):
        receiver.accept(number, 0, DataType.DATA_BUFFER)
    assert snapshot(receiver) == before


def test_more_data_than_credit() -> None:
    receiver = ChannelReceiver(1)
    receiver.accept(0, 0, DataType.DATA_BUFFER)
    before = snapshot(receiver)
    with pytest.raises(CreditExceeded):
        receiver.accept(1, 0, DataType.DATA_BUFFER)
    assert snapshot(receiver) == before
    receiver.accept(1, 0, DataType.EVENT_BUFFER)


@pytest.mark.parametrize("data_type", sorted(BLOCKING_TYPES), ids=lambda data_type: data_type.name)
def test_a_blocking_event_reports_no_backlog(data_type: DataType) -> None:
    receiver = ChannelReceiver(1)
    before = snapshot(receiver)
    with pytest.raises(RemoteProtocolError, match="backlog of 3"):
        receiver.accept(0, 3, data_type)
    assert snapshot(receiver) == before


def test_sequence_numbers_wrap_as_a_java_int() -> None:
    receiver = ChannelReceiver(0, first_sequence=2**31 - 1)
    receiver.accept(2**31 - 1, 0, DataType.EVENT_BUFFER)
    assert receiver.expected_sequence == -(2**31)
    receiver.accept(-(2**31), 0, DataType.EVENT_BUFFER)
    assert receiver.expected_sequence == -(2**31) + 1


def test_resuming_revokes_credit_only_without_exclusive_buffers() -> None:
    for exclusive, outstanding, unannounced in ((0, 0, 0), (2, 5, 1)):
        receiver = in_state(ReceiverState.BLOCKED, exclusive)
        receiver.credit.gain(3)
        receiver.credit.take()
        receiver.credit.gain(1)
        receiver.resume()
        assert (receiver.credit.outstanding, receiver.credit.unannounced) == (outstanding, unannounced)
