"""Changes and savepoints at given times of a run, and their form in scenario files.

A change sets options, the cost of records or the rate of a source from a given time on. Flink would restart
the job for most changes. The emulator applies a change at once, so that a run shows the effect of the change
without that of a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from flowcontrol import PostCheckpointAction, SavepointFormat

from .options import CHANGEABLE, FLINK_OPTIONS, OPTIONS, POLICY, NetworkConfig, read_options
from .tables import HoldsTuples, Key, Part, Section, key, needed, read_table, table_shape, write_table
from .value_kinds import FLOAT, STRING, TIME, Shape, Subsystem, any_of, elements, named, one_or_more

__all__ = ["ScheduledChange", "ScheduledSavepoint"]

_NUMBERS = one_or_more(FLOAT)


class _ChangedSettings(Part):
    """Changed settings, in two keys of a table: ``flink`` and ``policy``."""

    is_tuple = True

    def read(self, section: Section, key: Key, default: object) -> tuple[tuple[str, Any], ...]:
        config = read_options(section.section(key.name), NetworkConfig())
        settings = [(name, getattr(config, name)) for name in sorted(config.given)]
        if POLICY.name in section:
            settings.append(("debloat_policy", POLICY.read(section, config.debloat_policy)))
        return tuple(settings)

    def entries(self, key: Key, value: tuple[tuple[str, Any], ...]) -> Mapping[str, object]:
        options = {OPTIONS[name].name: rendered(name, each) for name, each in value if name in OPTIONS}
        policies = [(POLICY.name, each) for name, each in value if name not in OPTIONS]
        return ({key.name: options} if options else {}) | dict(policies)

    @property
    def shape(self) -> Shape:
        return FLINK_OPTIONS.shape


def rendered(field: str, value: Any) -> Any:
    """Return the value of a field of `NetworkConfig` in the form that documents use."""
    return OPTIONS[field].kind.render(value) if field in OPTIONS else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledChange(HoldsTuples):
    """A change of the job's settings or of one vertex, at a given time in seconds.

    A buffer that is being processed keeps its cost. Fields that are not given change nothing. A new
    `service_s` also drops later steps of the vertex's service. `settings` are pairs of a field name of
    `NetworkConfig`, which `CHANGEABLE` contains, and its new value.
    """

    at_s: float = field(metadata=needed(TIME, '"30 s"', 0.0, "Time of the change."))
    settings: tuple[tuple[str, Any], ...] = key(
        _ChangedSettings(),
        (),
        "New settings of the job; empty: no change.",
        name="flink",
        beside=(POLICY,),
    )
    vertex: str | None = key(STRING, None, "The vertex whose service or rate changes; None: no vertex.")
    service_s: float | None = key(TIME, None, "Cost of a record; None: as before.")
    service_skew: tuple[float, ...] = key(
        _NUMBERS, (), "Factor of each subtask's cost; a shorter list repeats; empty: as before."
    )
    rates: tuple[float, ...] = key(
        _NUMBERS,
        (),
        "Records per second of each subtask of a source, 0 for as fast as possible; a shorter list repeats; "
        "empty: as before.",
        name="rate",
    )

    def concerns(self, subsystem: Subsystem) -> bool:
        """Whether this part of the job has to obey a changed setting."""
        return any(CHANGEABLE.get(field) is subsystem for field, _ in self.settings)

    def __str__(self) -> str:
        return ", ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        for setting, value in self.settings:
            name = OPTIONS[setting].name if setting in OPTIONS else POLICY.name
            yield f"{name} is {_in_words(rendered(setting, value))}"
        for name, value in write_table(self).items():
            if name in ("service", "service_skew", "rate"):
                yield f"{self.vertex}: {name} is {_in_words(value)}"


def by_time(changes: Iterable[ScheduledChange]) -> list[tuple[float, list[ScheduledChange]]]:
    """Group changes by their time, ascending. Changes at the same time keep their order."""
    ordered = sorted(changes, key=lambda change: change.at_s)
    return [(at, list(group)) for at, group in groupby(ordered, key=lambda change: change.at_s)]


def _in_words(value: Any) -> str:
    """Return a value in the notation of scenario files."""
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(f"{number:.15g}" for number in value) if isinstance(value, list) else str(value)


_FORMAT = named({each.name.lower(): each for each in SavepointFormat}, "is not a format of savepoints")
_STOP = named(
    {"suspend": PostCheckpointAction.SUSPEND, "drain": PostCheckpointAction.TERMINATE},
    "is not a way to stop a job",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSavepoint:
    """A savepoint that a user requests at a given time, in seconds. The job may stop after it."""

    at_s: float = field(metadata=needed(TIME, '"30 s"', 0.0, "Time of the request."))
    directory: str | None = key(
        STRING,
        None,
        "Directory in which the savepoint's folder is created; None: the savepoint directory of the job.",
    )
    format: SavepointFormat = key(
        _FORMAT, SavepointFormat.CANONICAL, "Format of the savepoint's keyed state."
    )
    action: PostCheckpointAction = key(
        _STOP,
        PostCheckpointAction.NONE,
        "Way to stop the job after the savepoint; None: the job continues.",
        name="stop",
    )


class Savepoints(Part):
    """A list of savepoints: each is a time, or a table with a time ``at``."""

    is_tuple = True

    def read(self, section: Section, key: Key, default: object) -> tuple[ScheduledSavepoint, ...]:
        """Return the savepoints."""
        tables = section.take(key.name, self._tables, [])
        return tuple(
            read_table(section.part(key.name, table, place), ScheduledSavepoint)
            for place, table in enumerate(tables)
        )

    def _tables(self, value: object) -> list[Mapping[str, Any]]:
        return [each if isinstance(each, Mapping) else {"at": each} for each in elements(value)]

    def render(self, value: Sequence[ScheduledSavepoint]) -> object:
        """Return a list of times if no savepoint has other fields, else a list of tables."""
        tables = [write_table(each) for each in value]
        return [each["at"] for each in tables] if all(len(each) == 1 for each in tables) else tables

    @property
    def shape(self) -> Shape:
        """JSON Schema of the list."""
        return {"type": "array", "items": any_of(TIME.shape, table_shape(ScheduledSavepoint))}
