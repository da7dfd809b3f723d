"""Restarts of a job: restart strategies, and the records of restarts.

A restart strategy decides after each failure of a running job whether and when the job restarts. It has no
clock and does not wait. Its callers wait: the run in virtual time, and the run over several processes::

    failed at t --> delay_after(t) --> seconds --> the job restarts
                                 \\--> None ----> permanent failure, explained by `exhausted`

The rules are those of Flink's RestartBackoffTimeStrategy and its classes. Failures of all regions of a job
are counted together. With the exponential delay, a failure of one region while another waits for its restart
is not counted separately. A new strategy needs a class here, a row in `_CLASSES`, and its name and options in
`scenarios/options.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from ..checkpoints.metadata import SubtaskSnapshot
from ..checkpoints.recovery import InitialCheckpoint
from ..engine.randomness import Randomness
from ..results.recorder import SubtaskSample
from ..results.result import Work
from ..scenarios.options import NetworkConfig, RestartStrategy
from ..scenarios.scenario import Scenario
from ..scenarios.unit_texts import format_duration

_MOST_MS = float(1 << 62)
"""Limit of a backoff, far above any useful delay."""


class RestartBackoffStrategy(ABC):
    """Decides about the restarts of one run, with the options of `config`."""

    def __init__(self, config: NetworkConfig, randomness: Randomness) -> None:
        self._config = config
        self._randomness = randomness

    @abstractmethod
    def delay_after(self, failed_at: float) -> float | None:
        """Return the delay in seconds between a failure at `failed_at` and the restart; None: no restart."""

    @property
    def exhausted(self) -> str:
        """Error text about the limit that prevents another restart; empty if there is never a restart."""
        return ""


class NoRestart(RestartBackoffStrategy):
    """Never restarts (NoRestartBackoffTimeStrategy)."""

    def delay_after(self, failed_at: float) -> float | None:
        """Return None."""
        return None


class FixedDelayRestart(RestartBackoffStrategy):
    """Restarts after the same delay, a limited number of times (FixedDelayRestartBackoffTimeStrategy)."""

    _restarts = 0

    def delay_after(self, failed_at: float) -> float | None:
        """Return the delay; None if no attempts are left."""
        if self._restarts >= self._config.restart_attempts:
            return None
        self._restarts += 1
        return self._config.restart_delay_s

    @property
    def exhausted(self) -> str:
        """Text for the limit of attempts."""
        return _limit(self._config.restart_attempts)


class ExponentialDelayRestart(RestartBackoffStrategy):
    """Increases the delay with each restart (ExponentialDelayRestartBackoffTimeStrategy).

    The delay is reset after a long enough time without failures. A random jitter is added: a fraction of the
    backoff, positive or negative. The sum stays between the initial and the maximum backoff, and is in whole
    milliseconds.
    """

    _restarts = 0  # since the backoff was reset
    _backoff_ms = 0.0
    _restarts_at = -inf

    def delay_after(self, failed_at: float) -> float | None:
        """Return a longer delay than before, or the initial delay after a long enough time without failures.

        While a restart is pending, return the time until this restart.
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
        jitter_ms = int(backoff * config.restart_jitter_factor)
        jitter = self._randomness.integer(2 * jitter_ms + 1, "restart") - jitter_ms
        most = _whole_ms(config.restart_max_backoff_s)
        return max(_whole_ms(config.restart_initial_backoff_s), min(backoff + jitter, most))

    @property
    def exhausted(self) -> str:
        """Text for the limit of attempts since the last reset of the backoff."""
        limit = self._config.restart_attempts_before_reset
        return "" if limit is None else _limit(limit)


class FailureRateRestart(RestartBackoffStrategy):
    """Restarts while failures are rare enough (FailureRateRestartBackoffTimeStrategy)."""

    def __init__(self, config: NetworkConfig, randomness: Randomness) -> None:
        super().__init__(config, randomness)
        self._failures = deque[float](maxlen=config.restart_max_failures_per_interval + 1)

    def delay_after(self, failed_at: float) -> float | None:
        """Return the delay; None if more failures than allowed occurred within the interval."""
        failures, config = self._failures, self._config
        failures.append(failed_at)
        full = len(failures) == failures.maxlen
        if full and failed_at - failures[0] <= config.restart_failure_rate_interval_s:
            return None
        return config.restart_failure_rate_delay_s

    @property
    def exhausted(self) -> str:
        """Text for the limit of failures within the interval."""
        interval = format_duration(self._config.restart_failure_rate_interval_s)
        most = self._config.restart_max_failures_per_interval
        return f"failed {most + 1} times within {interval}, and the limit for this time is {most}"


_CLASSES: Mapping[RestartStrategy, type[RestartBackoffStrategy]] = {
    RestartStrategy.NONE: NoRestart,
    RestartStrategy.FIXED_DELAY: FixedDelayRestart,
    RestartStrategy.EXPONENTIAL_DELAY: ExponentialDelayRestart,
    RestartStrategy.FAILURE_RATE: FailureRateRestart,
}


def restart_strategy_of(scenario: Scenario, randomness: Randomness) -> RestartBackoffStrategy:
    """Return the restart strategy of one run of a scenario."""
    return _CLASSES[scenario.restart_strategy](scenario.config, randomness)


def _whole_ms(seconds: float) -> int:
    return round(seconds * 1e3)


def _limit(restarts: int) -> str:
    return f"restarted {restarts} times, as often as is allowed" if restarts else ""


NOTHING_RUNS = SubtaskSample(input_queue_size=0, output_queue_size=0)
"""The figures of a subtask that does not run."""

_COUNTERS = (
    "records_in",
    "bytes_in",
    "buffers_in",
    "records_out",
    "bytes_out",
    "buffers_out",
    "busy_s",
    "backpressured_s",
    "idle_s",
)


@dataclass(eq=False)
class Restart:
    """A failure and the restart after it.

    Times are in seconds; None: not yet. `tasks`: the tasks that failed and restarted, from `task_names`;
    empty for the whole job. `checkpoint_id`: the restored checkpoint; None if the tasks started without
    state. `restored_bytes`: size of the restored state; `persisted_bytes`: size of the restored in-flight
    data. `unusable_checkpoint_id`: a checkpoint that could not be restored, so that the job failed at once.
    """

    failed_at: float
    cause: str
    tasks: list[str] = field(default_factory=list)
    restarted_at: float | None = None
    running_at: float | None = None
    checkpoint_id: int | None = None
    unusable_checkpoint_id: int | None = None
    restored_bytes: int = 0
    persisted_bytes: int = 0

    def restored(self, checkpoint_id: int, parts: Iterable[SubtaskSnapshot]) -> None:
        """Record the checkpoint that the tasks restore, and each task's part of it."""
        self.checkpoint_id = checkpoint_id
        for part in parts:
            self.restored_bytes += part.size
            self.persisted_bytes += part.persisted_bytes


def failed_for_good(cause: str, why: str) -> str:
    """Return the cause of a permanent failure, with the limit that prevented a restart, if any."""
    return f"{cause} ({why})" if why else cause


def never_restored(restarts: Sequence[Restart]) -> str | None:
    """Return the last failure, if a checkpoint could not be restored and the run ended before an older one
    was tried; else None.
    """
    if len(restarts) < 2 or restarts[-1].restarted_at is not None:
        return None
    latest = max(restarts[:-1], key=lambda restart: restart.restarted_at or 0.0)
    unusable = any(each.unusable_checkpoint_id is not None for each in (restarts[-2], latest))
    return f"{restarts[-1].cause}; the run ended before an older checkpoint was tried" if unusable else None


@dataclass(eq=False)
class Start:
    """The start of a run from a checkpoint of an earlier run.

    `running_at`: time at which all tasks had their state, in seconds; None if the run ended earlier.
    """

    initial: InitialCheckpoint
    running_at: float | None = None


class Totals:
    """Counters of all attempts that have ended."""

    def __init__(self, subtasks: int) -> None:
        self._ended = [NOTHING_RUNS] * subtasks
        self.work = Work()

    def add(self, samples: Sequence[SubtaskSample], work: Work) -> None:
        """Add the counters of an ended attempt, or of cancelled tasks.

        If there are samples of fewer subtasks than the job has, as after a failure during the build, the
        others count as zero.
        """
        missing = [NOTHING_RUNS] * (len(self._ended) - len(samples))
        self._ended = [
            NOTHING_RUNS._replace(**{name: getattr(sum_, name) for name in _COUNTERS})
            for sum_ in self.plus([*samples, *missing])
        ]
        self.work += work

    def plus(self, samples: Sequence[SubtaskSample]) -> list[SubtaskSample]:
        """Return the samples of a running attempt plus the counters of earlier attempts.

        No samples: nothing runs.
        """
        if not samples:
            return self._ended
        return [
            sample._replace(**{name: getattr(sample, name) + getattr(ended, name) for name in _COUNTERS})
            for ended, sample in zip(self._ended, samples, strict=True)
        ]
