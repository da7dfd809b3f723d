"""What the lines of a trace say."""

from __future__ import annotations

import pytest

from flowcontrol import (
    Action,
    Alignment,
    AlignmentEnd,
    AlignmentMetrics,
    CheckpointBarrier,
    CheckpointOptions,
    Resume,
    Trigger,
)
from netstack import TraceEvent, TraceLog
from netstack.results.trace import (
    acknowledgement_text,
    barrier_text,
    how,
    in_bytes,
    restored_text,
    snapshot_text,
)

METRICS = AlignmentMetrics(0.0, 0.01, 0)


def barrier(alignment: Alignment = Alignment.ALIGNED) -> CheckpointBarrier:
    return CheckpointBarrier(3, 0.0, CheckpointOptions(alignment))


@pytest.mark.parametrize(
    ("alignment", "actions", "text"),
    [
        (Alignment.ALIGNED, [], "barrier 3 from source[1]: its channel is blocked"),
        (Alignment.FORCED_ALIGNED, [], "barrier 3 from source[1]: its channel is blocked"),
        (Alignment.ALIGNED, [Resume(1)], "barrier 3 from source[1]: too late for this checkpoint"),
        (Alignment.ALIGNED, [Resume(0)], "barrier 3 from source[1]: its channel is blocked"),
        (
            Alignment.ALIGNED,
            [Trigger(barrier(), METRICS), Resume(1)],
            "barrier 3 from source[1]: the last one",
        ),
        (
            Alignment.ALIGNED,
            [Trigger(barrier(Alignment.UNALIGNED), None)],
            "barrier 3 from source[1]: its channel is blocked, and the checkpoint continues unaligned",
        ),
        (Alignment.AT_LEAST_ONCE, [], "barrier 3 from source[1]: its channel is not blocked"),
        (
            Alignment.UNALIGNED,
            [Trigger(barrier(Alignment.UNALIGNED), None)],
            "barrier 3 from source[1], which has overtaken its data",
        ),
        (Alignment.UNALIGNED, [AlignmentEnd(3, METRICS)], "barrier 3 from source[1]: the last one"),
    ],
)
def test_a_barrier_and_what_it_means_for_its_channel(
    alignment: Alignment, actions: list[Action], text: str
) -> None:
    assert barrier_text(barrier(alignment), "source[1]", 1, actions) == text


def test_a_snapshot_and_whether_the_barrier_goes_on() -> None:
    assert snapshot_text(barrier(), METRICS, sends=True) == (
        "snapshot for checkpoint 3; barrier sent downstream"
    )
    assert snapshot_text(barrier(), None, sends=False) == (
        "snapshot for checkpoint 3, before its last barrier has arrived"
    )


def test_sizes_of_state_and_of_data_in_flight() -> None:
    assert acknowledgement_text(3, 20, 0) == "acknowledges checkpoint 3: 20 bytes of state"
    assert restored_text(1_000_021, 20) == "restores 1,000,001 bytes of state, 20 bytes in flight"
    assert in_bytes(1) == "1 byte"


def test_how_a_checkpoint_is_taken() -> None:
    assert how(CheckpointOptions(Alignment.AT_LEAST_ONCE)) == "at least once"
    assert how(CheckpointOptions(Alignment.ALIGNED, 0.5)) == "aligned, but for at most 500.0 ms"


def test_a_log_keeps_the_steps_in_order() -> None:
    log = TraceLog()
    log(0.0125, "source[0]", "begins", 1)
    log(0.02, "job", "fails")
    assert log == [TraceEvent(0.0125, "source[0]", "begins", 1), TraceEvent(0.02, "job", "fails")]
    assert str(log[0]) == "      12.5 ms  source[0]      begins"
