"""Unaligned barriers and alignment timeouts: single rules as traces."""

import pytest

from flowcontrol import (
    Abort,
    AbortReason,
    Alarm,
    Alignment,
    AlignmentEnd,
    AlignmentMetrics,
    AlternatingAligner,
    CheckpointBarrier,
    CheckpointOptions,
    LocalProtocolError,
    Prioritize,
    Resume,
    Trigger,
)


def barrier(
    checkpoint_id: int, alignment: Alignment = Alignment.ALIGNED, timeout_s: float | None = None
) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 0.0, CheckpointOptions(alignment, timeout_s))


def unaligned(checkpoint_id: int) -> CheckpointBarrier:
    return barrier(checkpoint_id, Alignment.UNALIGNED)


def timeoutable(checkpoint_id: int) -> CheckpointBarrier:
    """One that turns unaligned 2 seconds after its trigger at 0."""
    return barrier(checkpoint_id, Alignment.ALIGNED, 2.0)


def forced(checkpoint_id: int) -> CheckpointBarrier:
    return barrier(checkpoint_id, Alignment.FORCED_ALIGNED, 2.0)


def test_an_unaligned_checkpoint_is_triggered_by_its_first_barrier_and_ends_with_the_last() -> None:
    aligner = AlternatingAligner(3)

    trace = [aligner.barrier(1, unaligned(1), now=1.0)]
    aligner.bytes_processed(50)
    trace.append(aligner.barrier(0, unaligned(1), now=2.0))
    aligner.bytes_processed(50)
    trace.append(aligner.barrier(2, unaligned(1), now=4.0))

    metrics = AlignmentMetrics(start_delay_s=1.0, alignment_s=3.0, bytes_processed=100)
    assert trace == [[Trigger(unaligned(1), None)], [], [AlignmentEnd(1, metrics)]]
    assert aligner.latest_metrics == metrics
    assert not aligner.pending


def test_a_checkpoint_that_aligns_in_time_stays_aligned() -> None:
    aligner = AlternatingAligner(2)

    assert aligner.announcement(0, timeoutable(1), 7, now=0.5) == [Alarm(1, 1.5)]
    assert aligner.barrier(0, timeoutable(1), now=1.0) == []
    assert aligner.announcement(1, timeoutable(1), 3, now=1.0) == []
    assert aligner.barrier(1, timeoutable(1), now=2.0) == [
        Trigger(timeoutable(1), AlignmentMetrics(1.0, 1.0, 0)),
        Resume(0),
        Resume(1),
    ]
    assert aligner.alarm(1, now=2.0) == []


def test_the_alarm_finds_some_barriers_and_triggers() -> None:
    aligner = AlternatingAligner(3)
    aligner.barrier(0, timeoutable(1), now=1.0)
    aligner.announcement(1, timeoutable(1), 5, now=1.0)

    assert aligner.alarm(1, now=2.0) == [Prioritize(1, 5), Trigger(unaligned(1), None)]
    assert aligner.barrier(1, timeoutable(1), now=2.5) == []
    assert aligner.barrier(2, unaligned(1), now=3.0) == [
        AlignmentEnd(1, AlignmentMetrics(1.0, 2.0, 0)),
        Resume(0),
        Resume(1),
    ]


def test_a_barrier_later_than_its_timeout_does_not_wait_for_the_alarm() -> None:
    aligner = AlternatingAligner(2)
    aligner.announcement(1, timeoutable(1), 5, now=1.0)

    # Exactly at the timeout is still in time.
    assert aligner.barrier(0, timeoutable(1), now=2.25) == [Prioritize(1, 5), Trigger(unaligned(1), None)]
    other = AlternatingAligner(2)
    assert other.barrier(0, timeoutable(1), now=2.0) == [Alarm(1, 0.0)]


def test_forced_barriers_align_and_are_triggered_as_forced() -> None:
    aligner = AlternatingAligner(2)

    assert aligner.barrier(0, forced(1), now=9.0) == []
    assert aligner.barrier(1, barrier(1), now=9.0) == [
        Trigger(forced(1), AlignmentMetrics(9.0, 0.0, 0)),
        Resume(0),
        Resume(1),
    ]
    aligner.barrier(0, barrier(2), now=9.0)
    assert aligner.barrier(1, barrier(2), now=9.0)[0] == Trigger(barrier(2), AlignmentMetrics(9.0, 0.0, 0))


def test_a_forced_barrier_blocks_its_channel_until_an_unaligned_checkpoint_ends() -> None:
    aligner = AlternatingAligner(3)
    aligner.barrier(0, unaligned(1), now=0.0)

    assert aligner.barrier(1, forced(1), now=0.0) == []
    assert aligner.blocked == [1]
    assert aligner.barrier(2, unaligned(1), now=0.0)[1:] == [Resume(1)]


def test_an_end_aborts_where_finished_tasks_take_no_checkpoints() -> None:
    aligner = AlternatingAligner(3, checkpoints_after_tasks_finish=False)
    aligner.barrier(0, unaligned(1), now=0.0)
    aligner.barrier(2, barrier(1), now=0.0)

    assert aligner.end_of_partition(1, now=1.0) == [Resume(2), Abort(1, AbortReason.INPUT_ENDED)]


def test_a_newer_barrier_or_announcement_aborts_the_pending_checkpoint() -> None:
    aligner = AlternatingAligner(3)
    aligner.barrier(0, timeoutable(1), now=0.0)

    assert aligner.announcement(1, timeoutable(2), 8, now=1.0) == [
        Resume(0),
        Abort(1, AbortReason.SUBSUMED),
        Alarm(2, 1.0),
    ]
    assert aligner.alarm(1, now=2.0) == []
    assert aligner.barrier(2, unaligned(3), now=2.0) == [
        Abort(2, AbortReason.SUBSUMED),
        Trigger(unaligned(3), None),
    ]


def test_a_cancel_of_a_newer_checkpoint_also_tells_of_one_that_was_triggered() -> None:
    aligner = AlternatingAligner(3)
    aligner.barrier(0, unaligned(1), now=0.0)
    aligner.barrier(1, barrier(1), now=0.0)

    assert aligner.cancel(2, 4, now=0.0) == [
        Resume(1),
        Abort(1, AbortReason.SUBSUMED),
        Abort(4, AbortReason.CANCELLED),
    ]


def test_a_checkpoint_that_was_only_announced_cannot_be_cancelled() -> None:
    aligner = AlternatingAligner(2)
    aligner.announcement(0, timeoutable(1), 3, now=0.0)

    assert aligner.cancel(1, 1, now=0.0) == []
    assert aligner.pending


def test_an_at_least_once_barrier_is_refused_and_changes_nothing() -> None:
    aligner = AlternatingAligner(2)
    at_least_once = barrier(1, Alignment.AT_LEAST_ONCE)

    with pytest.raises(LocalProtocolError, match="AT_LEAST_ONCE"):
        aligner.barrier(0, at_least_once, now=0.0)
    with pytest.raises(LocalProtocolError, match="AT_LEAST_ONCE"):
        aligner.announcement(0, at_least_once, 3, now=0.0)
    assert aligner.current_checkpoint_id == -1
    assert not aligner.pending


@pytest.mark.parametrize("channel", [0, 2, -1])
def test_a_channel_that_has_ended_or_does_not_exist_is_refused(channel: int) -> None:
    aligner = AlternatingAligner(2)
    aligner.end_of_partition(0, now=0.0)

    for call in (
        lambda: aligner.barrier(channel, barrier(1), now=0.0),
        lambda: aligner.announcement(channel, timeoutable(1), 0, now=0.0),
        lambda: aligner.cancel(channel, 1, now=0.0),
        lambda: aligner.end_of_partition(channel, now=0.0),
    ):
        with pytest.raises(LocalProtocolError):
            call()
    assert aligner.current_checkpoint_id == -1
