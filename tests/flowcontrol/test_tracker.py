"""At-least-once barriers: single rules as traces, and promises that hold for any interleaving."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import (
    Abort,
    Action,
    Alignment,
    BarrierTracker,
    CheckpointBarrier,
    CheckpointOptions,
    FailureReason,
    LocalProtocolError,
    Trigger,
)

AT_LEAST_ONCE = CheckpointOptions(Alignment.AT_LEAST_ONCE)


def barrier(checkpoint_id: int, timestamp: float = 0.0) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, timestamp, AT_LEAST_ONCE)


def told(actions: list[Action]) -> list[str]:
    """Short words for actions: T1 triggers 1, C1 cancels it, E1 aborts it for the end of an input."""
    words = []
    for action in actions:
        match action:
            case Trigger(of):
                words.append(f"T{of.checkpoint_id}")
            case Abort(checkpoint_id, reason):
                letter = {
                    FailureReason.DECLINED_ON_CANCELLATION_BARRIER: "C",
                    FailureReason.DECLINED_INPUT_END_OF_STREAM: "E",
                }[reason]
                words.append(f"{letter}{checkpoint_id}")
            case _:
                pytest.fail(f"a tracker does not tell {action}")
    return words


def play(tracker: BarrierTracker, *steps: tuple[str, int] | tuple[str, int, int]) -> list[str]:
    """Hand over steps such as ("barrier", channel, id); what was told, step by step."""
    trace = []
    for step in steps:
        match step:
            case ("barrier", channel, checkpoint_id):
                actions = tracker.barrier(channel, barrier(checkpoint_id), now=0.0)
            case ("cancel", channel, checkpoint_id):
                actions = tracker.cancel(channel, checkpoint_id, now=0.0)
            case ("end", channel):
                actions = tracker.end_of_partition(channel, now=0.0)
            case _:
                pytest.fail(f"unknown step {step}")
        trace.append(" ".join(told(actions)))
    return trace


def test_the_oldest_of_more_than_50_checkpoints_is_forgotten() -> None:
    tracker = BarrierTracker(2)
    for checkpoint_id in range(1, 52):
        tracker.barrier(0, barrier(checkpoint_id), now=0.0)

    assert tracker.pending == tuple(range(2, 52))
    assert play(tracker, ("barrier", 1, 1), ("barrier", 1, 2)) == ["", "T2"]


def test_a_cancelled_checkpoint_counts_channels_until_it_can_be_forgotten() -> None:
    tracker = BarrierTracker(3)

    assert play(tracker, ("barrier", 0, 1), ("cancel", 1, 1)) == ["", "C1"]
    assert tracker.pending == (1,)
    assert play(tracker, ("cancel", 1, 1), ("barrier", 2, 1)) == ["", ""]
    assert tracker.pending == ()


def test_a_late_cancel_of_what_is_over_is_ignored() -> None:
    tracker = BarrierTracker(2)

    trace = play(tracker, ("barrier", 0, 2), ("barrier", 1, 2), ("cancel", 0, 2), ("cancel", 0, 1))

    assert trace == ["", "T2", "", ""]


def test_an_end_completes_the_newest_checkpoint_it_can_and_ends_older_ones() -> None:
    tracker = BarrierTracker(2)

    trace = play(tracker, ("barrier", 0, 1), ("barrier", 0, 2), ("barrier", 0, 3), ("end", 1))

    assert trace == ["", "", "", "T3"]
    assert tracker.pending == ()


def test_an_end_counts_for_checkpoints_that_wait_for_others_too() -> None:
    tracker = BarrierTracker(3)

    trace = play(
        tracker, ("barrier", 0, 1), ("barrier", 1, 1), ("barrier", 0, 2), ("end", 2), ("barrier", 1, 2)
    )

    assert trace == ["", "", "", "T1", "T2"]


def test_an_aborted_checkpoint_is_not_triggered_by_an_end() -> None:
    tracker = BarrierTracker(3)

    trace = play(tracker, ("barrier", 0, 1), ("cancel", 1, 1), ("end", 2))

    assert trace == ["", "C1", ""]
    assert tracker.pending == ()


def test_an_end_aborts_all_where_finished_tasks_take_no_checkpoints() -> None:
    tracker = BarrierTracker(3, checkpoints_after_tasks_finish=False)

    trace = play(tracker, ("cancel", 0, 1), ("barrier", 0, 2), ("barrier", 0, 3), ("end", 2))

    assert trace == ["C1", "", "", "E2 E3"]
    assert tracker.pending == ()
    assert play(tracker, ("barrier", 0, 4), ("barrier", 1, 4)) == ["", "T4"]


def test_an_abort_ends_the_measuring_of_its_own_checkpoint_only() -> None:
    tracker = BarrierTracker(2)
    tracker.barrier(0, barrier(1), now=1.0)
    tracker.barrier(0, barrier(2), now=3.0)

    tracker.cancel(1, 1, now=4.0)
    assert tracker.alignment_s(now=5.0) == 2.0
    tracker.cancel(1, 2, now=6.0)
    assert tracker.alignment_s(now=7.0) == 0.0


def test_announcements_and_alarms_mean_nothing_to_a_tracker() -> None:
    tracker = BarrierTracker(2)

    assert tracker.announcement(0, barrier(1), 3, now=0.0) == []
    assert tracker.alarm(1, now=0.0) == []
    assert tracker.pending == ()


@pytest.mark.parametrize("alignment", set(Alignment) - {Alignment.AT_LEAST_ONCE})
def test_a_barrier_whose_sender_waits_is_refused_and_changes_nothing(alignment: Alignment) -> None:
    tracker = BarrierTracker(2)

    with pytest.raises(LocalProtocolError, match=alignment.name):
        tracker.barrier(0, CheckpointBarrier(1, 0.0, CheckpointOptions(alignment)), now=0.0)
    assert tracker.current_checkpoint_id == -1
    assert tracker.pending == ()


@pytest.mark.parametrize("channel", [0, 2, -1])
def test_a_channel_that_has_ended_or_does_not_exist_is_refused(channel: int) -> None:
    tracker = BarrierTracker(2)
    tracker.end_of_partition(0, now=0.0)

    for call in (
        lambda: tracker.barrier(channel, barrier(1), now=0.0),
        lambda: tracker.announcement(channel, barrier(1), 0, now=0.0),
        lambda: tracker.cancel(channel, 1, now=0.0),
        lambda: tracker.end_of_partition(channel, now=0.0),
    ):
        with pytest.raises(LocalProtocolError):
            call()


class Reference:
    """What a tracker has to tell, worked out anew from everything that has happened.

    It is for channels that send ids in ascending order, each as a barrier or a cancel marker, and for
    fewer checkpoints than a tracker forgets.
    """

    def __init__(self, channels: int) -> None:
        self.open = set(range(channels))
        self.expected: dict[int, set[int]] = {}
        self.counted: dict[int, set[int]] = {}
        self.cancelled: set[int] = set()
        self.over = 0

    def step(self, channel: int, kind: str, checkpoint_id: int) -> list[str]:
        words: list[str] = []
        if kind == "end":
            self.open.remove(channel)
            seen = self.live()
        else:
            if checkpoint_id > max(self.expected, default=0):
                self.expected[checkpoint_id] = set(self.open)
            seen = [checkpoint_id] if checkpoint_id in self.live() else []
        if kind == "cancel":
            dropped = [older for older in self.live() if older <= checkpoint_id]
            words = [f"C{older}" for older in dropped if older not in self.cancelled]
            self.cancelled.update(dropped)
            self.over = max(self.over, checkpoint_id - 1)
        for one in seen:
            self.counted.setdefault(one, set()).add(channel)
        complete = [one for one in self.live() if self.counted.get(one, set()) >= self.expected[one]]
        if complete:
            self.over = max(complete)
            if self.over not in self.cancelled:
                words.append(f"T{self.over}")
        return words

    def live(self) -> list[int]:
        return [one for one in self.expected if one > self.over]


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["barrier", "barrier", "barrier", "barrier", "cancel", "end"]),
        st.sampled_from([1, 1, 1, 2]),
    ),
    max_size=48,
)


@given(channels=st.integers(1, 4), steps=STEPS)
def test_any_interleaving_tells_what_the_reference_tells(
    channels: int, steps: list[tuple[int, str, int]]
) -> None:
    tracker = BarrierTracker(channels)
    reference = Reference(channels)
    last_id = dict.fromkeys(range(channels), 0)
    triggered: list[int] = []
    aborted: list[int] = []
    for number, kind, ahead in steps:
        channel = number % channels
        if channel not in reference.open:
            continue
        last_id[channel] += ahead
        step = ("end", channel) if kind == "end" else (kind, channel, last_id[channel])
        told_now = play(tracker, step)[0].split()
        assert told_now == reference.step(channel, kind, last_id[channel])
        triggered += [int(word[1:]) for word in told_now if word[0] == "T"]
        aborted += [int(word[1:]) for word in told_now if word[0] == "C"]
        assert tracker.pending == tuple(reference.live())

    assert triggered == sorted(set(triggered))
    assert len(aborted) == len(set(aborted))
    assert not set(triggered) & set(aborted)
