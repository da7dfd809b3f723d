"""The newest checkpoint of a channel: which arriving data belongs to it, what its barrier came behind."""

from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import ChannelBarrier


def new_barrier() -> ChannelBarrier[str]:
    return ChannelBarrier()


def test_data_is_persisted_from_the_start_until_the_barrier() -> None:
    barrier = new_barrier()
    assert (barrier.persisting, barrier.arrived) == (None, False)

    assert barrier.start(3)
    assert barrier.persisting == 3
    barrier.arrive(3, "last")

    assert (barrier.persisting, barrier.arrived, barrier.last_before) == (None, True, "last")


def test_there_is_nothing_to_wait_for_where_the_barrier_was_first() -> None:
    barrier = new_barrier()
    barrier.arrive(3, "last")

    assert barrier.start(3)  # what was queued before it belongs to the checkpoint
    assert (barrier.persisting, barrier.last_before) == (None, "last")


def test_a_checkpoint_that_is_over_is_not_started_again() -> None:
    barrier = new_barrier()
    barrier.start(3)
    barrier.stop(3)

    assert barrier.persisting is None
    assert not barrier.start(3)
    assert not barrier.start(2)


def test_what_comes_late_of_an_older_checkpoint_is_ignored() -> None:
    barrier = new_barrier()
    barrier.start(3)

    barrier.arrive(2, "last")
    barrier.stop(2)

    assert (barrier.persisting, barrier.arrived) == (3, False)


def test_a_newer_barrier_ends_an_older_checkpoint() -> None:
    barrier = new_barrier()
    barrier.start(3)
    barrier.arrive(5, None)

    assert barrier.persisting is None
    assert not barrier.start(4)
    assert barrier.start(6)
    assert barrier.persisting == 6


def test_a_barrier_that_nobody_stopped_does_not_keep_a_later_checkpoint_from_persisting() -> None:
    barrier = new_barrier()
    barrier.arrive(3, "last")

    assert barrier.start(4)
    assert (barrier.persisting, barrier.arrived, barrier.last_before) == (4, False, None)


def test_an_announced_barrier_is_taken_once_by_its_sequence_number() -> None:
    barrier = new_barrier()
    assert barrier.take_announced(0) is None
    barrier.announce(7, "barrier", "announcement")
    assert barrier.take_announced(6) is None
    assert barrier.take_announced(7) == ("barrier", "announcement")
    assert barrier.take_announced(7) is None


@given(st.lists(st.tuples(st.sampled_from(["start", "arrive", "stop"]), st.integers(0, 5)), max_size=20))
def test_a_checkpoint_is_persisted_from_its_start_until_anything_as_new_ends_it(
    calls: list[tuple[str, int]],
) -> None:
    barrier = new_barrier()
    for index, (name, checkpoint_id) in enumerate(calls):
        answer = barrier.start(checkpoint_id) if name == "start" else None
        if name == "arrive":
            barrier.arrive(checkpoint_id, None)
        elif name == "stop":
            barrier.stop(checkpoint_id)
        newest = max(number for _, number in calls[: index + 1])
        names = [name for name, number in calls[: index + 1] if number == newest]
        assert barrier.persisting == (newest if set(names) == {"start"} else None)
        assert barrier.arrived == ("arrive" in names and "stop" not in names)
        if answer is not None:
            assert answer == (checkpoint_id == newest and "stop" not in names)
