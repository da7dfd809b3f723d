"""Restart strategies: whether and when a job that has failed begins again.

A strategy is told of each failure of a running job and answers. It knows no clock and waits for nothing; both
runners do that, the one in virtual time and the one over several processes::

    failed at t --> delay_after(t) --> seconds --> the job begins again
                                 \\--> None ----> it has failed for good, as `exhausted` says

The rules are those of Flink's RestartBackoffTimeStrategy and its classes. Failures of all regions of a job
count; where the delay grows, one that comes while another region waits for its restart is one with that.

A further strategy is a class here, its row in `_CLASSES`, and its name and options in `scenarios/config.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from math import inf

from ..engine.randomness import Randomness
from ..scenarios.config import NetworkConfig, RestartStrategy
from ..scenarios.quantities import format_duration
from ..scenarios.scenario import Scenario

_MOST_MS = float(1 << 62)
"""At which a backoff stops growing: far above all that can be waited for."""


class RestartBackoffStrategy(ABC):
    """Decides over the restarts of one run with the options of `config`."""

    def __init__(self, config: NetworkConfig, randomness: Randomness) -> None:
        self._config = config
        self._randomness = randomness

    @abstractmethod
    def delay_after(self, failed_at: float) -> float | None:
        """Seconds from a failure, at that second of the run, to the restart; None: there is none."""

    @property
    def exhausted(self) -> str:
        """What allows no further restart, once none is allowed; empty: the job never restarts."""
        return ""


class NoRestart(RestartBackoffStrategy):
    """The first failure is the end (NoRestartBackoffTimeStrategy)."""

    def delay_after(self, failed_at: float) -> float | None:
        """Return None."""
        return None


class FixedDelayRestart(RestartBackoffStrategy):
    """Restarts after the same delay, so and so often (FixedDelayRestartBackoffTimeStrategy)."""

    _restarts = 0

    def delay_after(self, failed_at: float) -> float | None:
        """Return the delay while attempts are left."""
        if self._restarts >= self._config.restart_attempts:
            return None
        self._restarts += 1
        return self._config.restart_delay_s

    @property
    def exhausted(self) -> str:
        """The number of attempts."""
        return _limit(self._config.restart_attempts)


class ExponentialDelayRestart(RestartBackoffStrategy):
    """Waits longer each time, until the job runs well for long (ExponentialDelayRestartBackoffTimeStrategy).

    The jitter is a part of the backoff, to either side; the delay is no less than the initial backoff and no
    more than the greatest one all the same. It is whole milliseconds.
    """

    _restarts = 0  # since the backoff was the initial one
    _backoff_ms = 0.0
    _restarts_at = -inf

    def delay_after(self, failed_at: float) -> float | None:
        """Return a longer delay than before, or the initial one after long enough a time without failure.

        While a restart is still to come, it is the time until then.
        """
        config = self._config
        if failed_at < self._restarts_at:
            return self._restarts_at - failed_at
        if failed_at - self._restarts_at >= config.restart_reset_backoff_threshold_s:
            self._restarts = 0
            self._backoff_ms = float(_whole_ms(config.restart_initial_backoff_s))
        limit = config.restart_attempts_before_reset
        if limit is not None and self._restarts >= limit:
            return None
        delay = self._delay_ms() / 1e3
        self._restarts += 1
        self._backoff_ms = min(self._backoff_ms * config.restart_backoff_multiplier, _MOST_MS)
        self._restarts_at = failed_at + delay
        return delay

    def _delay_ms(self) -> int:
        config, backoff = self._config, int(self._backoff_ms)
        jitter = self._randomness.restart_jitter(int(backoff * config.restart_jitter_factor))
        most = _whole_ms(config.restart_max_backoff_s)
        return max(_whole_ms(config.restart_initial_backoff_s), min(backoff + jitter, most))

    @property
    def exhausted(self) -> str:
        """The number of attempts since the backoff was the initial one."""
        limit = self._config.restart_attempts_before_reset
        return "" if limit is None else _limit(limit)


class FailureRateRestart(RestartBackoffStrategy):
    """Restarts while failures are rare enough (FailureRateRestartBackoffTimeStrategy)."""

    def __init__(self, config: NetworkConfig, randomness: Randomness) -> None:
        super().__init__(config, randomness)
        self._failures = deque[float](maxlen=config.restart_max_failures_per_interval + 1)

    def delay_after(self, failed_at: float) -> float | None:
        """Return the delay, unless one failure more than allowed came within an interval."""
        failures, config = self._failures, self._config
        failures.append(failed_at)
        full = len(failures) == failures.maxlen
        if full and failed_at - failures[0] <= config.restart_failure_rate_interval_s:
            return None
        return config.restart_failure_rate_delay_s

    @property
    def exhausted(self) -> str:
        """The failures, and in what time they came."""
        interval = format_duration(self._config.restart_failure_rate_interval_s)
        most = self._config.restart_max_failures_per_interval
        return f"failed {most + 1} times within {interval}, and the limit is {most}"


_CLASSES: Mapping[RestartStrategy, type[RestartBackoffStrategy]] = {
    RestartStrategy.NONE: NoRestart,
    RestartStrategy.FIXED_DELAY: FixedDelayRestart,
    RestartStrategy.EXPONENTIAL_DELAY: ExponentialDelayRestart,
    RestartStrategy.FAILURE_RATE: FailureRateRestart,
}


def restart_strategy_of(scenario: Scenario, randomness: Randomness) -> RestartBackoffStrategy:
    """Return what decides over the restarts of one run of a scenario."""
    return _CLASSES[scenario.restart_strategy](scenario.config, randomness)


def _whole_ms(seconds: float) -> int:
    return round(seconds * 1e3)


def _limit(restarts: int) -> str:
    return f"restarted {restarts} times, which is the limit" if restarts else ""
