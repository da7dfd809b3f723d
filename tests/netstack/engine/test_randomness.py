"""Streams of random numbers that belong to their owners."""

from __future__ import annotations

from netstack.engine.randomness import Draws, Randomness


def drawn(numbers: Draws, count: int) -> list[float]:
    return [numbers.draw() for _ in range(count)]


def test_an_owner_draws_the_same_numbers_whatever_others_draw() -> None:
    alone, among_others = Randomness(7, 0.5), Randomness(7, 0.5)
    for _ in range(1000):
        among_others.jitter("wire", "b", "a").draw()
        among_others.between((0.0, 1.0), "service", "map[0]")
    owner = ("wire", "a", "b")
    assert drawn(alone.jitter(*owner), 600) == drawn(among_others.jitter(*owner), 600)
    owner = ("service", "map[1]")
    assert drawn(alone.uniform(*owner), 600) == drawn(among_others.uniform(*owner), 600)


def test_streams_of_other_owners_and_seeds_differ() -> None:
    def first(seed: int, *owner: object) -> float:
        return Randomness(seed, 0.0).uniform(*owner).draw()

    numbers = {first(seed, "wake-up", name, index) for seed in (1, 2) for name in "ab" for index in (0, 1)}
    assert len(numbers) == 8


def test_an_owner_that_is_created_again_continues_its_stream() -> None:
    randomness = Randomness(1, 1.0)
    before = drawn(randomness.jitter("wake-up", "map[0]"), 5)
    after = drawn(randomness.jitter("wake-up", "map[0]"), 5)
    assert not set(before) & set(after)
    again = Randomness(1, 1.0).jitter("wake-up", "map[0]")
    assert drawn(again, 10) == before + after


def test_values_stay_within_their_bounds() -> None:
    randomness = Randomness(3, 0.0)
    assert {randomness.integer(4, "first channel") for _ in range(200)} == {0, 1, 2, 3}
    assert all(2.0 <= randomness.between((2.0, 3.0), "trigger") < 3.0 for _ in range(200))
    assert drawn(randomness.jitter("still"), 5) == [1.0] * 5
