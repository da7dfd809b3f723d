"""A short run of the fuzzer; a long one is ``python -m tests.fuzz --inputs 10000000``."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.__main__ import run_piece
from tests.fuzz.inputs import Inputs
from tests.fuzz.targets import TARGETS, decode


@pytest.mark.parametrize("seed", range(4))
def test_five_thousand_inputs(seed: int) -> None:
    counts = run_piece(seed, 5000)
    assert counts.total() == 5000
    assert set(counts) == set(TARGETS)


def test_a_seed_gives_the_same_inputs_again() -> None:
    one, other = Inputs(1), Inputs(1)
    first = [one.next() for _ in range(200)]
    assert first == [other.next() for _ in range(200)]
    different = Inputs(2)
    assert first != [different.next() for _ in range(200)]


def test_inputs_reach_every_message_and_every_error() -> None:
    inputs = Inputs(0)
    messages: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for _ in range(5000):
        each = inputs.next()
        if each.target == "frames":
            outcome = decode(each.data, (), each.max_frame_bytes)
            messages.update(type(message).__name__ for message in outcome.messages)
            errors[type(outcome.error).__name__] += 1
    assert len(messages) == 12
    assert min(messages.values()) >= 20
    assert set(errors) == {"NoneType", "BadMagic", "FrameTooLong", "MalformedFrame", "UnknownMessage"}
    assert min(errors.values()) >= 50
