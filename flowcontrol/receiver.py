"""The receiving end of one channel: checks whether each message is legal, and updates the channel's state.

The table shows all states of a channel; any input without an entry violates the protocol::

    OPEN     -- data, event --> OPEN       sequence number + 1; data costs one credit
    OPEN     -- blocking event --> BLOCKED the sender stays silent until it is resumed
    BLOCKED  -- priority event --> BLOCKED overtakes the data that the sender holds back
    BLOCKED  -- resume --> OPEN
    OPEN     -- end --> ENDED              the last event has arrived; no message is accepted after it
    any      -- release --> RELEASED       no message is accepted any more

The package `buffers` provides the memory. The rules are those of Flink's RemoteInputChannel.
"""

from __future__ import annotations

from enum import Enum, auto

from .credit import CreditAnnouncer
from .errors import LocalProtocolError, RemoteProtocolError, SequenceGap
from .events import BLOCKING_TYPES, EVENT_TYPES, PRIORITY_TYPES, DataType

__all__ = ["TRANSITIONS", "ChannelReceiver", "Input", "ReceiverState"]

_INT_RANGE = 1 << 32
_INT_MIDDLE = 1 << 31
_INT_MAX = _INT_MIDDLE - 1


class ReceiverState(Enum):
    """State of a receiving channel."""

    OPEN = auto()
    BLOCKED = auto()
    ENDED = auto()
    RELEASED = auto()


class Input(Enum):
    """Input of the state machine of a receiving channel."""

    DATA = auto()
    EVENT = auto()
    PRIORITY_EVENT = auto()
    BLOCKING_EVENT = auto()
    RESUME = auto()
    END = auto()
    RELEASE = auto()


TRANSITIONS: dict[ReceiverState, dict[Input, ReceiverState]] = {
    ReceiverState.OPEN: {
        Input.DATA: ReceiverState.OPEN,
        Input.EVENT: ReceiverState.OPEN,
        Input.PRIORITY_EVENT: ReceiverState.OPEN,
        Input.BLOCKING_EVENT: ReceiverState.BLOCKED,
        Input.END: ReceiverState.ENDED,
        Input.RELEASE: ReceiverState.RELEASED,
    },
    ReceiverState.BLOCKED: {
        Input.PRIORITY_EVENT: ReceiverState.BLOCKED,
        Input.RESUME: ReceiverState.OPEN,
        Input.RELEASE: ReceiverState.RELEASED,
    },
    ReceiverState.ENDED: {Input.RELEASE: ReceiverState.RELEASED},
    ReceiverState.RELEASED: {Input.RELEASE: ReceiverState.RELEASED},
}

_INPUT_OF_TYPE = {
    DataType.DATA_BUFFER: Input.DATA,
    **dict.fromkeys(EVENT_TYPES, Input.EVENT),
    **dict.fromkeys(PRIORITY_TYPES, Input.PRIORITY_EVENT),
    **dict.fromkeys(BLOCKING_TYPES, Input.BLOCKING_EVENT),
}


class ChannelReceiver:
    """Sequence numbers, credit and state of one receiving channel.

    Invariant: every accepted message had the expected sequence number. Every accepted data buffer used a
    credit that was announced before. A rejected message changes nothing.
    """

    __slots__ = ("credit", "expected_sequence", "state")

    def __init__(self, initial_credit: int, first_sequence: int = 0) -> None:
        self.credit = CreditAnnouncer(initial_credit)
        self.expected_sequence = first_sequence
        self.state = ReceiverState.OPEN

    def accept(self, sequence_number: int, backlog: int, data_type: DataType) -> None:
        """Check an arrived buffer or event and update the state.

        Raises:
            SequenceGap: if the item does not have the next sequence number.
            CreditExceeded: if the item is data and the sender had no credit.
            RemoteProtocolError: if the channel is blocked, or a blocking event reports a backlog.
        """
        if (
            data_type is DataType.DATA_BUFFER
            and self.state is ReceiverState.OPEN
            and sequence_number == self.expected_sequence
            and sequence_number != _INT_MAX
        ):  # fast path with the same result as below; nearly every message takes it
            self.credit.receive()
            self.expected_sequence = sequence_number + 1
            return
        what = _INPUT_OF_TYPE[data_type]
        state = TRANSITIONS[self.state].get(what)
        if state is None:
            raise RemoteProtocolError(f"{data_type.name} arrived on a channel in state {self.state.name}")
        if sequence_number != self.expected_sequence:
            raise SequenceGap(
                f"buffer reordering: expected sequence number {self.expected_sequence}, got {sequence_number}"
            )
        if what is Input.DATA:
            self.credit.receive()
        elif what is Input.BLOCKING_EVENT and backlog > 0:
            raise RemoteProtocolError(f"{data_type.name} reports a backlog of {backlog}; it must be 0")
        self.state = state
        self.expected_sequence = _next_sequence(sequence_number)

    def resume(self) -> None:
        """Unblock the channel after a blocking event.

        Raises:
            LocalProtocolError: if the channel is not blocked.
        """
        self._move(Input.RESUME)
        if self.credit.initial == 0:
            self.credit.revoke()

    def end(self) -> None:
        """End the channel: the event that was just accepted is the sender's last one.

        Raises:
            LocalProtocolError: if the channel is not open.
        """
        self._move(Input.END)

    def release(self) -> None:
        """Close the channel and announce no more credit. The caller drops buffers that still arrive."""
        self.state = ReceiverState.RELEASED  # allowed from every state of the table
        self.credit.unannounced = 0

    def _move(self, what: Input) -> None:
        state = TRANSITIONS[self.state].get(what)
        if state is None:
            raise LocalProtocolError(f"{what.name} is not possible on a channel in state {self.state.name}")
        self.state = state


def _next_sequence(number: int) -> int:
    """Return the next sequence number, a signed 32-bit integer that wraps around as in Java."""
    return (number + 1 + _INT_MIDDLE) % _INT_RANGE - _INT_MIDDLE
