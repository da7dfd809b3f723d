"""Changes of a running job: settings, the cost of records, the rate of a source, from a time on.

Flink would restart a job for most of them. Here they act at once, so that a run shows what comes of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from .config import OPTIONS
from .quantities import format_duration

CHANGEABLE = (
    "debloat_enabled",
    "debloat_target_s",
    "debloat_samples",
    "debloat_threshold_percent",
    "debloat_policy",
    "unaligned_enabled",
    "aligned_checkpoint_timeout_s",
    "checkpoint_interval_s",
    "checkpoint_min_pause_s",
    "checkpoint_timeout_s",
)
"""Fields of `NetworkConfig` that may change while a job runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledChange:
    """What is otherwise from a time on, in seconds: settings of the job, or the work of one vertex.

    A buffer that is being served is served as before. What a vertex has from now on is what the scenario
    says of it, but for what is given here: later steps of its service are dropped with a new `service_s`.
    """

    at_s: float
    settings: tuple[tuple[str, Any], ...] = ()
    """Fields of `NetworkConfig`, of those in `CHANGEABLE`, and their values."""
    vertex: str | None = None
    service_s: float | None = None
    """Seconds that a record costs; None: as before."""
    service_skew: tuple[float, ...] = ()
    """Factor of the cost of each subtask, cyclic; empty: as before."""
    rates: tuple[float, ...] = ()
    """Records per second of each subtask of a source, cyclic; 0: as fast as possible; empty: as before."""

    @property
    def of_checkpoints(self) -> bool:
        """Whether it changes how or when checkpoints are taken."""
        return any("checkpoint" in field or "aligned" in field for field, _ in self.settings)

    @property
    def of_debloating(self) -> bool:
        """Whether it changes how buffers are sized."""
        return any("debloat" in field for field, _ in self.settings)

    def __str__(self) -> str:
        return ", ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        for field, value in self.settings:
            name = OPTIONS[field].name if field in OPTIONS else "policy"
            yield f"{name} is {_in_words(_rendered(field, value))}"
        for key, value in change_document(self).items():
            if key in ("service", "service_skew", "rate"):
                yield f"{self.vertex}: {key} is {_in_words(value)}"


def by_time(changes: Iterable[ScheduledChange]) -> list[tuple[float, list[ScheduledChange]]]:
    """Return changes by the time at which they act, those of one time in their order."""
    ordered = sorted(changes, key=lambda change: change.at_s)
    return [(at, list(group)) for at, group in groupby(ordered, key=lambda change: change.at_s)]


def change_document(change: ScheduledChange) -> Mapping[str, Any]:
    """Return a change as a table that is read back to an equal one."""
    document: dict[str, Any] = {"at": format_duration(change.at_s)}
    options = {
        OPTIONS[field].name: _rendered(field, value) for field, value in change.settings if field in OPTIONS
    }
    if options:
        document["flink"] = options
    for field, value in change.settings:
        if field not in OPTIONS:
            document["policy"] = value
    if change.vertex is not None:
        document["vertex"] = change.vertex
    if change.service_s is not None:
        document["service"] = format_duration(change.service_s)
    if change.service_skew:
        document["service_skew"] = list(change.service_skew)
    if change.rates:
        document["rate"] = list(change.rates)
    return document


def _rendered(field: str, value: Any) -> Any:
    return OPTIONS[field].kind.render(value) if field in OPTIONS else value


def _in_words(value: Any) -> str:
    """A value as a scenario file or a user would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(f"{number:.15g}" for number in value) if isinstance(value, list) else str(value)
