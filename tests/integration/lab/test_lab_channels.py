"""What a frame of the lab says of channels, beside what these say themselves, one by one and summed."""

from collections.abc import Iterator
from typing import Any

import pytest

from integration.lab.channels import EdgeView, pairs_of
from integration.lab.lab import example
from integration.lab.live_job import LiveJob
from integration.lab.messages import EdgeFrame

EDGES = (0, 1)


@pytest.fixture
def job() -> Iterator[LiveJob]:
    made = LiveJob("a", example())
    made.advance(5.0)
    yield made
    made.close()


def moments(job: LiveJob) -> Iterator[float]:
    """Moments of the next seconds, with a checkpoint under way in many of them."""
    begin = job.now
    for step in range(120):
        job.advance(begin + 0.025 * step)
        yield job.now


def looked(job: LiveJob, edge: int) -> EdgeFrame:
    return EdgeView(job._job, edge).frame(barriers=True)


def test_a_channel_is_shown_as_it_is_at_its_place(job: LiveJob) -> None:
    attempt: Any = job._job.attempt
    pairs = pairs_of(job.scenario, job.scenario.edges[1])
    view = EdgeView(job._job, 1)
    blocked = full = barriers = False
    for _ in moments(job):
        frame = view.frame(barriers=True)
        for place, (producer, consumer) in enumerate(pairs):
            assert producer is not None
            end = attempt.builder.subtasks[2][consumer].gates[0].channels[producer]
            queue = attempt.builder.subpartition_of(end.channel_id)
            assert queue.index == consumer
            assert frame.sender[place] == len(queue)
            assert frame.receiver[place] == end.queue_length
            assert frame.size[place] == min(queue.buffer_size, job.scenario.config.segment_bytes)
            assert (place in frame.blocked) == end.blocked
            at = [(where, number) for here, where, number in frame.barriers if here == place]
            assert len(at) == len(set(at))
            assert {where for where, _ in at if where == "receiver"} <= (
                {"receiver"} if end.queue_length else set()
            )
            assert [where for where, _ in at].count("sender") <= len(queue) - queue.data_buffers
        blocked |= bool(frame.blocked)
        full |= max(frame.sender) > 1
        barriers |= bool(frame.barriers)
    assert blocked
    assert full
    assert barriers


@pytest.mark.parametrize("edge", EDGES)
def test_an_edge_of_many_channels_is_summed_by_consumer(
    edge: int, job: LiveJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = pairs_of(job.scenario, job.scenario.edges[edge])
    consumers = max(pair.consumer for pair in pairs) + 1
    of_consumer = [
        [place for place, pair in enumerate(pairs) if pair.consumer == consumer]
        for consumer in range(consumers)
    ]
    some_barriers = some_blocked = False
    for _ in moments(job):
        each = looked(job, edge)
        with monkeypatch.context() as patched:
            patched.setattr("integration.lab.channels.MOST_CHANNELS", len(pairs) - 1)
            total = looked(job, edge)
        assert total.sender == [sum(each.sender[place] for place in places) for places in of_consumer]
        assert total.receiver == [sum(each.receiver[place] for place in places) for places in of_consumer]
        assert total.credit == [sum(each.credit[place] or 0 for place in places) for places in of_consumer]
        assert total.size == [min(each.size[place] for place in places) for places in of_consumer]
        assert total.under_way == each.under_way
        consumer_of = [pair.consumer for pair in pairs]
        assert total.barriers == sorted({(consumer_of[place], where, n) for place, where, n in each.barriers})
        assert total.blocked == sorted({consumer_of[place] for place in each.blocked})
        some_barriers |= bool(each.barriers)
        some_blocked |= bool(each.blocked)
    assert some_barriers
    assert some_blocked


def test_the_least_size_of_summed_channels_is_shown_whichever_comes_last() -> None:
    job = LiveJob("a", example())
    try:
        job.advance(1.0)
        view = EdgeView(job._job, 1)
        sizes = [4096 * (1 + place % 5) for place in range(16)]
        for channel in view._channels:
            channel.queue.set_buffer_size(sizes[channel.place])
        assert view.frame(barriers=False).size == sizes
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("integration.lab.channels.MOST_CHANNELS", 15)
            summed = EdgeView(job._job, 1).frame(barriers=False)
        pairs = pairs_of(job.scenario, job.scenario.edges[1])
        assert summed.size == [
            min(size for size, pair in zip(sizes, pairs, strict=True) if pair.consumer == consumer)
            for consumer in range(4)
        ]
    finally:
        job.close()
