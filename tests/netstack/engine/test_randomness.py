"""Streams of random numbers that belong to their owners."""

from __future__ import annotations

from itertools import islice

from netstack.engine.randomness import Randomness


def test_an_owner_draws_the_same_numbers_whatever_others_draw() -> None:
    alone, among_others = Randomness(7, 0.5), Randomness(7, 0.5)
    for _ in range(1000):
        among_others.jitter("wire", "b", "a")()
        among_others.between((0.0, 1.0), "service", "map[0]")
    owner = ("wire", "a", "b")
    assert [alone.jitter(*owner)() for _ in range(600)] == [among_others.jitter(*owner)() for _ in range(600)]
    first = list(islice(alone.uniform("service", "map[1]"), 600))
    assert first == list(islice(among_others.uniform("service", "map[1]"), 600))


def test_streams_of_other_owners_and_seeds_differ() -> None:
    def first(seed: int, *owner: object) -> float:
        return next(Randomness(seed, 0.0).uniform(*owner))

    drawn = {first(seed, "wake-up", vertex, index) for seed in (1, 2) for vertex in "ab" for index in (0, 1)}
    assert len(drawn) == 8


def test_an_owner_that_is_created_again_continues_its_stream() -> None:
    randomness = Randomness(1, 1.0)
    before = [randomness.jitter("wake-up", "map[0]")() for _ in range(5)]
    after = [randomness.jitter("wake-up", "map[0]")() for _ in range(5)]
    assert not set(before) & set(after)
    again = Randomness(1, 1.0).jitter("wake-up", "map[0]")
    assert [again() for _ in range(10)] == before + after


def test_values_stay_within_their_bounds() -> None:
    randomness = Randomness(3, 0.0)
    assert {randomness.integer(4, "first channel") for _ in range(200)} == {0, 1, 2, 3}
    assert all(2.0 <= randomness.between((2.0, 3.0), "trigger") < 3.0 for _ in range(200))
    assert {randomness.jitter("still")() for _ in range(5)} == {1.0}
