"""Which channel a record goes to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffers import RecordBlock
from netstack.exchange.java_hash import hash_strings
from netstack.exchange.partition import ALL, LEAST_LOADED, LEFT_OUT
from netstack.exchange.selectors import (
    Fraction,
    KeyGroupSelector,
    RoundRobin,
    SelectorTerms,
    selector_of,
)
from netstack.scenarios.ship_strategies import ShipStrategy


def block_of(count: int) -> RecordBlock:
    return RecordBlock.from_payloads([b"x"] * count)


def test_each_value_in_place_of_a_channel_is_distinct() -> None:
    assert len({ALL, LEAST_LOADED, LEFT_OUT}) == 3


def test_an_adaptive_selector_leaves_the_choice_to_the_partition() -> None:
    selector = RoundRobin(3, adaptive=True)
    assert selector.select(block_of(2)) == [LEAST_LOADED] * 2
    selector.adaptive = False
    assert selector.select(block_of(2)) == [0, 1]
    assert RoundRobin(1, adaptive=True).select(block_of(2)) == [0, 0]


@given(st.integers(1, 9), st.data(), st.lists(st.integers(0, 30)))
def test_blocks_make_no_difference_to_turns(channels: int, data: st.DataObject, sizes: list[int]) -> None:
    first = data.draw(st.integers(0, channels - 1))
    selector = RoundRobin(channels, first)
    chosen = [channel for size in sizes for channel in selector.select(block_of(size))]
    assert chosen == [(first + turn) % channels for turn in range(sum(sizes))]


@given(st.integers(1, 6), st.integers(1, 6), st.lists(st.integers(0, 30)))
def test_a_fraction_lets_through_as_many_as_are_due_whatever_the_blocks(
    part: int, more: int, sizes: list[int]
) -> None:
    whole = part + more
    selector = Fraction(part / whole, RoundRobin(3))
    chosen = [channel for size in sizes for channel in selector.select(block_of(size))]
    goes = [number for number, channel in enumerate(chosen) if channel != LEFT_OUT]
    due = [number for number in range(len(chosen)) if (number + 1) * part // whole > number * part // whole]
    assert goes == due
    assert [chosen[number] for number in goes] == [turn % 3 for turn in range(len(goes))]


def text_of_block(block: RecordBlock) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return hash_strings([bytes(payload).decode() for payload in block.payloads()])


def test_each_strategy_has_a_selector() -> None:
    terms = SelectorTerms(False, text_of_block, 128, lambda channels: channels - 1)
    block = RecordBlock.from_payloads([b"0", b"1", b"2", b"3"])
    assert {
        ship.value: selector_of(ship, 3, terms).select(block) for ship in ShipStrategy if not ship.copies
    } == {
        "forward": [0, 1, 2, 0],
        "rescale": [0, 1, 2, 0],
        "rebalance": [2, 0, 1, 2],
        "hash": KeyGroupSelector(3, 128, text_of_block).select(block),
    }


@pytest.mark.parametrize(
    ("channels", "expected"),
    # Key groups 104, 17, 35 and 98 of 128.
    [(1, [0, 0, 0, 0]), (2, [1, 0, 0, 1]), (3, [2, 0, 0, 2]), (4, [3, 0, 1, 3]), (128, [104, 17, 35, 98])],
    ids=str,
)
def test_keys_go_to_the_channel_of_their_key_group(channels: int, expected: list[int]) -> None:
    selector = KeyGroupSelector(channels, 128, text_of_block)
    assert selector.select(RecordBlock.from_payloads([b"A", b"B", b"hello", b"flink"])) == expected


def test_the_key_alone_decides() -> None:
    selector = KeyGroupSelector(3, 128, text_of_block)
    block = RecordBlock.from_payloads([b"A", b"B", b"A", b"hello", b"B"])
    chosen = selector.select(block)
    assert chosen == selector.select(block)
    assert (chosen[0], chosen[1]) == (chosen[2], chosen[4])
    assert all(type(channel) is int for channel in chosen)


def test_an_empty_block_needs_no_channel() -> None:
    assert KeyGroupSelector(3, 128, lambda block: np.zeros(0, np.int32)).select(block_of(0)) == []
