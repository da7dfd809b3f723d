"""Which arriving data an unaligned checkpoint persists."""

from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import ChannelStatePersister


def test_data_is_persisted_from_the_start_until_the_barrier() -> None:
    persister = ChannelStatePersister()
    assert persister.pending is None

    assert persister.start(3)
    assert persister.pending == 3
    persister.barrier(3)

    assert persister.pending is None


def test_there_is_nothing_to_wait_for_where_the_barrier_was_first() -> None:
    persister = ChannelStatePersister()
    persister.barrier(3)

    assert not persister.start(3)
    assert persister.pending is None


def test_a_checkpoint_that_is_over_is_not_started_again() -> None:
    persister = ChannelStatePersister()
    persister.start(3)
    persister.stop(3)

    assert persister.pending is None
    assert not persister.start(3)
    assert not persister.start(2)


def test_what_comes_late_of_an_older_checkpoint_is_ignored() -> None:
    persister = ChannelStatePersister()
    persister.start(3)

    persister.barrier(2)
    persister.stop(2)

    assert persister.pending == 3


def test_a_newer_barrier_ends_an_older_checkpoint() -> None:
    persister = ChannelStatePersister()
    persister.start(3)
    persister.barrier(5)

    assert persister.pending is None
    assert not persister.start(4)
    assert persister.start(6)


def test_a_barrier_that_nobody_stopped_does_not_keep_a_later_checkpoint_from_persisting() -> None:
    persister = ChannelStatePersister()
    persister.barrier(3)

    assert persister.start(4)
    assert persister.pending == 4


@given(st.lists(st.tuples(st.sampled_from(["start", "barrier", "stop"]), st.integers(0, 5)), max_size=20))
def test_a_checkpoint_is_pending_from_its_start_until_anything_as_new_ends_it(
    calls: list[tuple[str, int]],
) -> None:
    persister = ChannelStatePersister()
    for index, (name, checkpoint_id) in enumerate(calls):
        answer = getattr(persister, name)(checkpoint_id)
        newest = max(number for _, number in calls[: index + 1])
        names = [name for name, number in calls[: index + 1] if number == newest]
        assert persister.pending == (newest if set(names) == {"start"} else None)
        if name == "start":
            assert answer == (persister.pending == checkpoint_id)
