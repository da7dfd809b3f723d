"""All random numbers of an emulation, drawn from the scenario's seed.

Each owner (a wire, a task, the coordinator) has its own streams, one for each purpose. A stream depends only
on the seed and on the names of its purpose and owner::

    seed 1, "wire", "a", "b"      0.93  1.08  1.21  ...
    seed 1, "wake-up", 0, 3       1.02  0.88  ...

So a task that draws more numbers, or a part that is added to the job, leaves the numbers of all others as
they are. Two runs with the same seed and different settings have the same costs and the same jitter (common
random numbers), so their difference varies less from seed to seed than each run does.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from math import floor
from statistics import NormalDist

# Imported here by name, not on first use during a run: its compiled modules would swallow a Ctrl-C that
# arrives during the import.
from numpy.random import Generator, Philox, default_rng

_FIRST_BLOCK = 8
"""Numbers that a stream draws at first: many owners need only a few."""

_BLOCK = 256


class Draws:
    """A stream of random numbers; `blocks` yields them in lists.

    It is a class and not a generator because compiled code calls a method directly.
    """

    __slots__ = ("_blocks", "_left")

    def __init__(self, blocks: Iterator[list[float]]) -> None:
        self._blocks = blocks
        self._left: list[float] = []

    def draw(self) -> float:
        """Return the next number."""
        if not self._left:
            self._left = next(self._blocks)
            self._left.reverse()
        return self._left.pop()


class Randomness:
    """The streams of random numbers of one run, by owner.

    An owner is named by its purpose and by values that have the same `repr` in each run. An owner that is
    created again, such as a restarted task, continues its streams. Numbers are drawn in blocks, so each costs
    only tens of nanoseconds.
    """

    def __init__(self, seed: int, jitter_sigma: float) -> None:
        self._seed = seed
        self._sigma = jitter_sigma
        self._jitter: dict[tuple[object, ...], Draws] = {}
        self._uniform: dict[tuple[object, ...], Draws] = {}

    def jitter(self, *owner: object) -> Draws:
        """Return the owner's stream of factors for short times, log-normally distributed with median 1."""
        if owner not in self._jitter:
            self._jitter[owner] = Draws(_lognormal(self._seed, owner, self._sigma))
        return self._jitter[owner]

    def uniform(self, *owner: object) -> Draws:
        """Return the owner's stream of uniform numbers between 0 and 1."""
        if owner not in self._uniform:
            self._uniform[owner] = Draws(_uniform_of(self._seed, owner))
        return self._uniform[owner]

    def between(self, bounds: tuple[float, float], *owner: object) -> float:
        """Return the next number of the owner's uniform stream, scaled to `bounds`."""
        low, high = bounds
        return low + (high - low) * self.uniform(*owner).draw()

    def integer(self, below: int, *owner: object) -> int:
        """Return an integer from 0 to `below` - 1, made from the owner's next uniform number."""
        return floor(below * self.uniform(*owner).draw())


def _generator(seed: int, owner: tuple[object, ...]) -> Generator:
    """Return the generator of an owner; its key is a hash, so streams of different owners are independent."""
    key = blake2b(repr((seed, *owner)).encode(), digest_size=16).digest()
    return Generator(Philox(key=int.from_bytes(key, "little")))


def _lognormal(seed: int, owner: tuple[object, ...], sigma: float) -> Iterator[list[float]]:
    generator = _generator(seed, owner)
    yield generator.lognormal(0.0, sigma, _FIRST_BLOCK).tolist()
    while True:
        yield generator.lognormal(0.0, sigma, _BLOCK).tolist()


def _uniform_of(seed: int, owner: tuple[object, ...]) -> Iterator[list[float]]:
    generator = _generator(seed, owner)
    yield generator.random(_FIRST_BLOCK).tolist()
    while True:
        yield generator.random(_BLOCK).tolist()


def numbers_of(*seed: int) -> Iterator[float]:
    """Return an endless stream of uniform numbers between 0 and 1, drawn from `seed`."""
    generator = default_rng(list(seed))
    while True:
        yield from generator.random(_BLOCK).tolist()


def uncertain_factor(seed: int, spread: float) -> float:
    """Return the factor for a cost whose relative standard error is `spread`.

    It is ``1 + spread * sigmas``, but at least 0. The seed determines `sigmas`, so all costs of a run are too
    high or too low together, as on a machine that is more or less busy. Successive seeds are spread evenly
    over the normal distribution, so a few seeds represent it as well as many random draws::

        seed     1     2     3     4     5     6     7
        sigmas   0  -0.67  0.67 -1.15  0.32 -0.32  1.15
    """
    return max(0.0, 1 + spread * NormalDist().inv_cdf(_reversed_bits(abs(seed) or 1))) if spread else 1.0


def _reversed_bits(number: int) -> float:
    """Return a number between 0 and 1: the bits of `number` in reverse order (van der Corput's sequence)."""
    return int(f"{number:b}"[::-1], 2) / (1 << number.bit_length())
