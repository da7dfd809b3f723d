"""A handler of barriers that may overtake goes on where an aligning one was, as if it had been there."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import (
    Action,
    Alignment,
    AlternatingAligner,
    BarrierAligner,
    CheckpointBarrier,
    CheckpointOptions,
    LocalProtocolError,
)

CHANNELS = 3
ALIGNED = CheckpointOptions()
OVERTAKING = (ALIGNED, CheckpointOptions(timeout_s=0.5), CheckpointOptions(Alignment.UNALIGNED))

Step = tuple[str, tuple[Any, ...]]


def steps(*options: CheckpointOptions) -> st.SearchStrategy[list[Step]]:
    """What a gate tells its handler, in any order: `options` are those that barriers come with."""
    channels, ids = st.integers(0, CHANNELS - 1), st.integers(1, 4)
    barriers = st.builds(CheckpointBarrier, ids, st.just(0.0), st.sampled_from(options))
    return st.lists(
        st.one_of(
            st.tuples(st.just("barrier"), st.tuples(channels, barriers)),
            st.tuples(st.just("cancel"), st.tuples(channels, ids)),
            st.tuples(st.just("end_of_partition"), st.tuples(channels)),
            st.tuples(st.just("bytes_processed"), st.tuples(st.integers(0, 100))),
        ),
        max_size=12,
    )


def told(handler: Any, step: Step, now: float) -> list[Action] | str | None:
    """What a handler wants done, or why it refuses."""
    method, arguments = step
    if method != "bytes_processed":
        arguments = (*arguments, now)
    try:
        actions: list[Action] | None = getattr(handler, method)(*arguments)
    except LocalProtocolError as error:
        return str(error)
    return actions


@given(steps(ALIGNED), steps(*OVERTAKING), st.booleans())
def test_who_takes_over_does_as_one_that_was_there_from_the_beginning(
    before: list[Step], after: list[Step], count_ends: bool
) -> None:
    always = AlternatingAligner(CHANNELS, checkpoints_after_tasks_finish=count_ends)
    first = BarrierAligner(CHANNELS, checkpoints_after_tasks_finish=count_ends)
    for now, step in enumerate(before):
        assert told(first, step, float(now)) == told(always, step, float(now))
    second = AlternatingAligner(CHANNELS, checkpoints_after_tasks_finish=count_ends)
    second.take_over(first)
    for now, step in enumerate(after, len(before)):
        assert told(second, step, float(now)) == told(always, step, float(now))
        assert (second.state, second.pending) == (always.state, always.pending)
        assert second.blocked == always.blocked
        assert second.latest_metrics == always.latest_metrics
        assert second.start_delay_s == always.start_delay_s
