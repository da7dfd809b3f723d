"""All random numbers of an emulation, drawn from the scenario's seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import NormalDist

# Imported here by name, not on first use during a run: its compiled modules would swallow a Ctrl-C that
# arrives during the import.
from numpy.random import Generator, SeedSequence, default_rng

_BLOCK = 4096


class Randomness:
    """Independent streams of random numbers.

    Each purpose has its own stream, so a draw for one purpose does not change the numbers for another.
    Numbers are drawn in blocks, so each number costs only tens of nanoseconds.
    """

    def __init__(self, seed: int, jitter_sigma: float) -> None:
        jitter, uniform, setup, notices, restarts = SeedSequence(seed).spawn(5)
        self.jitter: Callable[[], float] = _lognormal(default_rng(jitter), jitter_sigma).__next__
        """Returns a factor for short times, log-normally distributed with median 1."""
        self.chance = _uniform(default_rng(uniform))
        """Uniform numbers between 0 and 1."""
        self._setup = default_rng(setup)
        self._notices = _uniform(default_rng(notices))
        self._restarts = default_rng(restarts)

    def uniform(self, low: float, high: float) -> float:
        """Return a uniform number between `low` and `high`."""
        return low + (high - low) * next(self.chance)

    def notice(self, low: float, high: float) -> float:
        """Like `uniform`, but drawn from a stream of its own, so that other draws stay the same."""
        return low + (high - low) * next(self._notices)

    def between(self, bounds: tuple[float, float]) -> float:
        """Return a uniform number within `bounds`, from the stream for values drawn at set-up."""
        return float(self._setup.uniform(*bounds))

    def restart_jitter(self, most_ms: int) -> int:
        """Return the milliseconds to add to the backoff of a restart; may be negative."""
        return int(self._restarts.integers(-most_ms, most_ms, endpoint=True))

    def integer(self, below: int) -> int:
        """Return an integer from 0 to `below` - 1, drawn at set-up."""
        return int(self._setup.integers(below))


def numbers_of(*seed: int) -> Iterator[float]:
    """Return an endless stream of uniform numbers between 0 and 1, drawn from `seed`."""
    return _uniform(default_rng(list(seed)))


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


def _lognormal(generator: Generator, sigma: float) -> Iterator[float]:
    while True:
        yield from generator.lognormal(0.0, sigma, _BLOCK).tolist()


def _uniform(generator: Generator) -> Iterator[float]:
    while True:
        yield from generator.random(_BLOCK).tolist()
