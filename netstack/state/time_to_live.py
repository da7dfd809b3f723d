"""State with a time-to-live: each value, list element or map entry is stored with the time of its update.

Expired values are removed when they are read. In addition, state in memory checks a few entries on each use,
and tables drop expired values in a compaction. Snapshots of state in memory omit expired values. The stored
form is the list ``[value, ms]`` with the job's time of the update; the time-to-live itself is not stored.
(Flink: ``StateTtlConfig``, ``AbstractTtlDecorator``, ``TtlIncrementalCleanup``.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

from ..engine.event_clock import EventClock
from ..errors import QuantityError, StateError
from ..scenarios.unit_texts import parse_duration
from .state_kinds import Table

__all__ = ["StateTtlConfig"]

UpdateType = Literal["on create and write", "on read and write"]
Visibility = Literal["never return expired", "return expired if not cleaned up"]

CLEANED_AT_ONCE = 5
"""Number of keys that each use of a state in memory checks; Flink's default."""


@dataclass(frozen=True, slots=True)
class StateTtlConfig:
    """Time-to-live of the values of a state (Flink: ``StateTtlConfig``).

    Args:
        ttl: Seconds, or a duration such as "30 min"; at least a millisecond.
        update_type: The operations that restart the time-to-live: only writing, or reading as well.
        visibility: Whether an expired value may still be returned if it has not been removed.

    Raises:
        StateError: if a value is not allowed.
    """

    ttl: float | str
    update_type: UpdateType = "on create and write"
    visibility: Visibility = "never return expired"

    def __post_init__(self) -> None:
        if self.ttl_ms < 1:
            raise StateError(f"a time-to-live of {self.ttl!r} is too short; give at least a millisecond")
        for name, value, known in (
            ("update_type", self.update_type, get_args(UpdateType)),
            ("visibility", self.visibility, get_args(Visibility)),
        ):
            if value not in known:
                choices = " or ".join(map(repr, known))
                raise StateError(f"time-to-live: {name} {value!r} is unknown; it must be {choices}")

    @property
    def ttl_ms(self) -> int:
        """Time-to-live in milliseconds."""
        try:
            return round((parse_duration(self.ttl) if isinstance(self.ttl, str) else self.ttl) * 1000)
        except (QuantityError, TypeError, ValueError, OverflowError) as error:
            text = (
                f"a time-to-live of {self.ttl!r} is not a duration; give seconds or a text such as '30 min'"
            )
            raise StateError(text) from error


class Expiry(NamedTuple):
    """The expiry rule of stored values; `of_elements` for lists, whose elements expire separately."""

    ttl_ms: int
    of_elements: bool

    def is_over(self, at_ms: int, now_ms: int) -> bool:
        """Whether a value updated at `at_ms` has expired at `now_ms`."""
        return at_ms + self.ttl_ms <= now_ms

    def left(self, stored: Any, now_ms: int) -> Any | None:
        """Return the unexpired part of a stored value: None if empty, the same object if complete."""
        if not self.of_elements:
            return None if self.is_over(stored[1], now_ms) else stored
        kept = [element for element in stored if not self.is_over(element[1], now_ms)]
        return stored if len(kept) == len(stored) else kept or None


class TtlTable:
    """A `Table` whose values expire, based on a table that stores them with timestamps.

    With ``cleans``, each use also checks a few entries and removes expired ones.
    """

    def __init__(
        self, table: Table, ttl: StateTtlConfig, expiry: Expiry, clock: EventClock, *, cleans: bool
    ) -> None:
        self._table = table
        self._expiry = expiry
        self._clock = clock
        self._updates_on_read = ttl.update_type == "on read and write"
        self._returns_expired = ttl.visibility == "return expired if not cleaned up"
        self._cleans = cleans
        self._to_clean: Iterator[bytes] = iter(())

    def get(self, key: bytes) -> Any | None:
        """Return the value; None if the key has no value or an expired one."""
        self._clean_some()
        stored = self._table.get(key)
        if stored is None:
            return None
        left = self._expiry.left(stored, self._clock.now_ms)
        if left is None:
            self._table.remove(key)
        elif self._updates_on_read:
            self._table.put(key, self._with_time(self._values(left)))
        returned = stored if self._returns_expired else left
        return None if returned is None else self._values(returned)

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of a key, with the current time."""
        self._clean_some()
        self._table.put(key, self._with_time(value))

    def append(self, key: bytes, values: Sequence[Any]) -> None:
        """Append values, with the current time, to the list of a key."""
        self._clean_some()
        self._table.append(key, self._with_time(values))

    def remove(self, key: bytes) -> None:
        """Remove a key, if present."""
        self._clean_some()
        self._table.remove(key)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys, ascending; their values may have expired."""
        return iter(self._table)

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the entries of a key, ascending; their values may have expired."""
        return self._table.beginning_with(prefix)

    def _values(self, stored: Any) -> Any:
        return stored[0]

    def _with_time(self, value: Any) -> Any:
        return [value, self._clock.now_ms]

    def _clean_some(self) -> None:
        if not self._cleans:
            return
        keys = list(islice(self._to_clean, CLEANED_AT_ONCE))
        if not keys:
            self._to_clean = iter(self._table)
            keys = list(islice(self._to_clean, CLEANED_AT_ONCE))
        for key in keys:
            stored = self._table.get(key)
            if stored is None:
                continue
            left = self._expiry.left(stored, self._clock.now_ms)
            if left is None:
                self._table.remove(key)
            elif left is not stored:
                self._table.put(key, left)


class TtlListTable(TtlTable):
    """A table of lists whose elements expire separately."""

    def _values(self, stored: Any) -> Any:
        return [value for value, _ in stored]

    def _with_time(self, value: Any) -> Any:
        now_ms = self._clock.now_ms
        return [[each, now_ms] for each in value]
