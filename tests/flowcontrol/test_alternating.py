"""Unaligned barriers and alignment timeouts: single rules as traces."""

from flowcontrol import (
    Abort,
    AbortReason,
    Alignment,
    AlignmentMetrics,
    AlternatingAligner,
    CheckpointBarrier,
    CheckpointOptions,
    Resume,
    Trigger,
)


def barrier(
    checkpoint_id: int, alignment: Alignment = Alignment.ALIGNED, timeout_s: float | None = None
) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 0.0, CheckpointOptions(alignment, timeout_s))


def unaligned(checkpoint_id: int) -> CheckpointBarrier:
    return barrier(checkpoint_id, Alignment.UNALIGNED)


def forced(checkpoint_id: int) -> CheckpointBarrier:
    return barrier(checkpoint_id, Alignment.FORCED_ALIGNED, 2.0)


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


def test_a_cancel_of_a_newer_checkpoint_also_tells_of_one_that_was_triggered() -> None:
    aligner = AlternatingAligner(3)
    aligner.barrier(0, unaligned(1), now=0.0)
    aligner.barrier(1, barrier(1), now=0.0)

    assert aligner.cancel(2, 4, now=0.0) == [
        Resume(1),
        Abort(1, AbortReason.SUBSUMED),
        Abort(4, AbortReason.CANCELLED),
    ]
