"""Aligned barriers: single rules as traces, and promises that hold for any interleaving."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import (
    Abort,
    Action,
    AlignmentMetrics,
    BarrierAligner,
    CheckpointBarrier,
    LocalProtocolError,
    Resume,
    Trigger,
)


def barrier(checkpoint_id: int, timestamp: float = 0.0) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, timestamp)


def test_a_checkpoint_from_first_to_last_barrier() -> None:
    aligner = BarrierAligner(3)
    aligner.bytes_processed(7)

    trace = [aligner.barrier(2, barrier(1, timestamp=4.0), now=4.5)]
    aligner.bytes_processed(100)
    trace.append(aligner.barrier(0, barrier(1, timestamp=4.0), now=5.0))
    aligner.bytes_processed(20)
    trace.append(aligner.barrier(1, barrier(1, timestamp=4.0), now=6.0))

    metrics = AlignmentMetrics(start_delay_s=0.5, alignment_s=1.5, bytes_processed=120)
    assert trace == [[], [], [Trigger(barrier(1, 4.0), metrics), Resume(0), Resume(1), Resume(2)]]


def test_announcements_and_alarms_mean_nothing_to_an_aligner() -> None:
    aligner = BarrierAligner(2)
    aligner.barrier(0, barrier(1), now=0.0)

    assert aligner.announcement(1, barrier(2), 7, now=1.0) == []
    assert aligner.alarm(1, now=2.0) == []
    assert aligner.current_checkpoint_id == 1
    assert aligner.barrier(1, barrier(1), now=3.0)[0] == Trigger(barrier(1), AlignmentMetrics(0.0, 3.0, 0))


@pytest.mark.parametrize("channel", [0, 2, -1])
def test_a_channel_that_has_ended_or_does_not_exist_is_refused(channel: int) -> None:
    aligner = BarrierAligner(2)
    aligner.end_of_partition(0, now=0.0)

    with pytest.raises(LocalProtocolError):
        aligner.barrier(channel, barrier(1), now=0.0)
    with pytest.raises(LocalProtocolError):
        aligner.announcement(channel, barrier(1), 0, now=0.0)
    with pytest.raises(LocalProtocolError):
        aligner.cancel(channel, 1, now=0.0)
    with pytest.raises(LocalProtocolError):
        aligner.end_of_partition(channel, now=0.0)


class Model:
    """Channels that behave, around an aligner, with every promise of the aligner checked at each step."""

    def __init__(self, channels: int, count_ends: bool) -> None:
        self.aligner = BarrierAligner(channels, checkpoints_after_tasks_finish=count_ends)
        self.open = set(range(channels))
        self.next_id = dict.fromkeys(range(channels), 1)
        self.delivered: dict[int, set[int]] = {}
        self.open_at_start: dict[int, set[int]] = {}
        self.blocked: set[int] = set()
        self.triggered: list[int] = []
        self.aborted: list[int] = []
        self.now = 0.0

    def step(self, channel: int, kind: str, jump: int) -> None:
        if channel not in self.open or channel in self.blocked:
            return
        self.now += 0.25
        if kind == "data":
            self.aligner.bytes_processed(10)
            return
        if kind == "end":
            self.open.remove(channel)
            self.apply(self.aligner.end_of_partition(channel, self.now))
            return
        checkpoint_id = self.next_id[channel] + jump
        self.next_id[channel] = checkpoint_id + 1
        if kind == "cancel":
            self.apply(self.aligner.cancel(channel, checkpoint_id, self.now))
            return
        self.blocked.add(channel)
        self.delivered.setdefault(checkpoint_id, set()).add(channel)
        self.open_at_start.setdefault(checkpoint_id, set(self.open))
        self.apply(self.aligner.barrier(channel, barrier(checkpoint_id, self.now - 1), self.now))

    def apply(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Resume(channel):
                    self.blocked.remove(channel)  # a second Resume would fail here
                case Abort(checkpoint_id):
                    assert checkpoint_id not in [*self.triggered, *self.aborted]
                    self.aborted.append(checkpoint_id)
                case Trigger():
                    self.trigger(action)
        assert list(self.aligner.blocked) == sorted(self.blocked)
        assert self.aligner.pending or not self.blocked
        resumes = [action.channel for action in actions if isinstance(action, Resume)]
        assert resumes == sorted(resumes)

    def trigger(self, action: Trigger) -> None:
        checkpoint_id = action.barrier.checkpoint_id
        assert checkpoint_id not in self.aborted
        assert self.triggered[-1:] < [checkpoint_id]
        missing = self.open_at_start[checkpoint_id] - self.delivered[checkpoint_id]
        assert not missing & self.open
        assert action.metrics is not None
        assert action.metrics.alignment_s >= 0
        assert action.metrics.start_delay_s == 1.0
        assert action.metrics.bytes_processed <= action.metrics.alignment_s / 0.25 * 10
        self.triggered.append(checkpoint_id)


@given(
    channels=st.integers(1, 5),
    count_ends=st.booleans(),
    steps=st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(["data", "barrier", "barrier", "barrier", "barrier", "cancel", "end"]),
            st.sampled_from([0, 0, 0, 0, 1]),
        ),
        max_size=60,
    ),
)
def test_promises_hold_for_any_interleaving(
    channels: int, count_ends: bool, steps: list[tuple[int, str, int]]
) -> None:
    model = Model(channels, count_ends)
    for channel, kind, jump in steps:
        model.step(channel % channels, kind, jump)


@given(order=st.permutations([channel for channel in range(4) for _ in range(3)]))
def test_barriers_in_any_order_trigger_every_checkpoint_once(order: list[int]) -> None:
    model = Model(4, count_ends=True)
    waiting = list(order)
    while waiting:
        # A blocked channel cannot deliver; the first one that can goes next.
        channel = next(channel for channel in waiting if channel not in model.blocked)
        waiting.remove(channel)
        model.step(channel, "barrier", 0)

    assert model.triggered == [1, 2, 3]
    assert model.aborted == []
    assert not model.blocked
