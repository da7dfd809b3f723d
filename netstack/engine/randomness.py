"""Everything random in an emulation, drawn from the scenario's seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import NormalDist

# Named, so that it is imported with this module and not by the first use, which is after a run has begun: its
# compiled modules take a Ctrl-C that comes meanwhile for a failure that does not matter, and it is lost.
from numpy.random import Generator, SeedSequence, default_rng

_BLOCK = 4096


class Randomness:
    """Streams of random numbers that do not disturb each other.

    Each purpose has a stream of its own, so one more wake-up does not change which channel a
    rebalancing source starts with. Numbers are drawn in blocks: one costs tens of nanoseconds.
    """

    def __init__(self, seed: int, jitter_sigma: float) -> None:
        jitter, uniform, setup, notices, restarts = SeedSequence(seed).spawn(5)
        self.jitter: Callable[[], float] = _lognormal(default_rng(jitter), jitter_sigma).__next__
        """A factor for a small time: log-normal with median 1."""
        self.chance = _uniform(default_rng(uniform))
        """Numbers between 0 and 1, each as likely."""
        self._setup = default_rng(setup)
        self._notices = _uniform(default_rng(notices))
        self._restarts = default_rng(restarts)

    def uniform(self, low: float, high: float) -> float:
        """A number between `low` and `high`, each as likely."""
        return low + (high - low) * next(self.chance)

    def notice(self, low: float, high: float) -> float:
        """Like `uniform`, from a separate stream, so that other draws stay as they are without."""
        return low + (high - low) * next(self._notices)

    def between(self, bounds: tuple[float, float]) -> float:
        """A number within `bounds`, drawn when the job is set up: it stays for the whole run."""
        return float(self._setup.uniform(*bounds))

    def restart_jitter(self, most_ms: int) -> int:
        """Return the milliseconds by which a restart is later than its backoff; less than 0: earlier."""
        return int(self._restarts.integers(-most_ms, most_ms, endpoint=True))

    def integer(self, below: int) -> int:
        """A whole number from 0 to `below` - 1, drawn when the job is set up."""
        return int(self._setup.integers(below))


def numbers_of(*seed: int) -> Iterator[float]:
    """Return endless numbers between 0 and 1, each as likely, of a stream of its own."""
    return _uniform(default_rng(list(seed)))


def uncertain_factor(seed: int, spread: float) -> float:
    """Return the factor of a cost that is known within a standard error of `spread`, a share of it.

    All costs of a run are uncertain together, as where a machine is busier or less so. Seeds are dealt over
    the normal distribution in turns, so few of them say as much as many that are drawn::

        seed     1     2     3     4     5     6     7
        sigmas   0  -0.67  0.67 -1.15  0.32 -0.32  1.15
    """
    return max(0.0, 1 + spread * NormalDist().inv_cdf(_reversed_bits(abs(seed) or 1))) if spread else 1.0


def _reversed_bits(number: int) -> float:
    """Between 0 and 1, the bits of `number` in the opposite order (van der Corput's sequence)."""
    return int(f"{number:b}"[::-1], 2) / (1 << number.bit_length())


def _lognormal(generator: Generator, sigma: float) -> Iterator[float]:
    while True:
        yield from generator.lognormal(0.0, sigma, _BLOCK).tolist()


def _uniform(generator: Generator) -> Iterator[float]:
    while True:
        yield from generator.random(_BLOCK).tolist()
