"""The valve that says how far event time has come at a task: the least of its channels' watermarks."""

from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import MAX_WATERMARK, NO_WATERMARK, WatermarkValve

STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(-5, 20)), max_size=60)


def test_nothing_is_known_until_every_channel_has_brought_a_watermark() -> None:
    valve = WatermarkValve(3)
    assert [valve.advance(channel, 100) for channel in (0, 1, 1)] == [None, None, None]
    assert valve.lowest == NO_WATERMARK
    assert valve.advance(2, 40) == 40


def test_the_slowest_channel_holds_all_others_back() -> None:
    valve = WatermarkValve(2)
    steps = [(0, 10), (1, 3), (0, 20), (0, 30), (1, 5), (1, 25), (1, 40)]
    assert [valve.advance(channel, watermark) for channel, watermark in steps] == [
        None, 3, None, None, 5, 25, 30
    ]  # fmt: skip


def test_a_watermark_that_is_not_later_changes_nothing() -> None:
    valve = WatermarkValve(1)
    assert [valve.advance(0, watermark) for watermark in (7, 7, 5, 8)] == [7, None, None, 8]
    assert valve.of_channel(0) == 8


def test_channels_that_have_ended_hold_nobody_back() -> None:
    valve = WatermarkValve(2)
    assert [valve.advance(1, MAX_WATERMARK), valve.advance(0, 4), valve.advance(0, MAX_WATERMARK)] == [
        None, 4, MAX_WATERMARK
    ]  # fmt: skip


@given(channels=st.integers(1, 5), steps=STEPS)
def test_it_gives_the_minimum_of_the_greatest_watermarks_whenever_that_rises(
    channels: int, steps: list[tuple[int, int]]
) -> None:
    valve, greatest, lowest = WatermarkValve(channels), [NO_WATERMARK] * channels, NO_WATERMARK
    for channel, watermark in steps:
        channel %= channels
        greatest[channel] = max(greatest[channel], watermark)
        expected = min(greatest) if min(greatest) > lowest else None
        assert valve.advance(channel, watermark) == expected
        lowest = min(greatest)
        assert valve.lowest == lowest
        assert [valve.of_channel(each) for each in range(channels)] == greatest


@given(channels=st.integers(1, 5), inputs=st.integers(1, 3), steps=STEPS)
def test_one_valve_over_the_channels_of_all_inputs_gives_what_a_valve_for_each_input_gives(
    channels: int, inputs: int, steps: list[tuple[int, int]]
) -> None:
    """Flink has a valve for each input, and the operator takes the minimum of what they give."""
    together, apart = WatermarkValve(channels), [[NO_WATERMARK] * channels for _ in range(inputs)]
    combined = NO_WATERMARK
    for channel, watermark in steps:
        channel %= channels
        own = apart[channel % inputs]
        own[channel] = max(own[channel], watermark)
        least = min(
            min(own[number::inputs]) for number, own in enumerate(apart) if own[number::inputs]
        )  # the channels of an input are every `inputs`-th one
        assert together.advance(channel, watermark) == (least if least > combined else None)
        combined = max(combined, least)
