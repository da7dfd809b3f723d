"""State that expires: each value, element of a list or entry of a map is stored with the time of its update.

What has expired is removed when it is read, and otherwise so: in memory a few entries are looked at whenever
the state is used; tables leave it out when they are compacted. Snapshots of state in memory leave it out too.
Stored is the list ``[value, ms]``, by which of the job's times a value was updated; the time-to-live itself
is not stored. (Flink: ``StateTtlConfig``, ``AbstractTtlDecorator``, ``TtlIncrementalCleanup``.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import floor
from typing import Any, Literal, NamedTuple, get_args

from ..errors import QuantityError, StateError
from ..scenarios.quantities import parse_duration
from .state_kinds import Table

UpdateType = Literal["on create and write", "on read and write"]
Visibility = Literal["never return expired", "return expired if not cleaned up"]

CLEANED_AT_ONCE = 5
"""Number of keys that are checked whenever a state in memory is used; Flink's default."""


@dataclass(frozen=True, slots=True)
class StateTtlConfig:
    """Time-to-live of the values of a state (Flink: ``StateTtlConfig``).

    Args:
        ttl: Seconds, or a duration such as "30 min"; at least a millisecond.
        update_type: What begins the time anew: writing, or reading as well.
        visibility: Whether something that has expired may be returned once, if it is still there.

    Raises:
        StateError: One of them is not among these.
    """

    ttl: float | str
    update_type: UpdateType = "on create and write"
    visibility: Visibility = "never return expired"

    def __post_init__(self) -> None:
        if self.ttl_ms < 1:
            raise StateError(f"a time-to-live of {self.ttl!r} is none; give a millisecond or more")
        for name, value, known in (
            ("update_type", self.update_type, get_args(UpdateType)),
            ("visibility", self.visibility, get_args(Visibility)),
        ):
            if value not in known:
                choices = " or ".join(map(repr, known))
                raise StateError(f"time-to-live: {name} {value!r} is unknown; it is {choices}")

    @property
    def ttl_ms(self) -> int:
        """Milliseconds that something lives."""
        try:
            return round((parse_duration(self.ttl) if isinstance(self.ttl, str) else self.ttl) * 1000)
        except (QuantityError, TypeError, ValueError, OverflowError) as error:
            text = f"a time-to-live of {self.ttl!r} is no duration; give seconds or '30 min'"
            raise StateError(text) from error


class StateClock:
    """The time that state expires by, in whole ms: that of the run, behind that of the run it was stored in.

    ``now`` says the time of the run in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._ahead_ms = 0
        self.is_used = False
        """Whether there is, or has been, state that expires."""

    @property
    def now_ms(self) -> int:
        """The time."""
        return floor(self._now() * 1000 + 1e-6) + self._ahead_ms

    def go_on_from(self, reached_ms: int) -> None:
        """Be at least at a time that has been reached when the state was stored."""
        self.is_used = True
        self._ahead_ms += max(0, reached_ms - self.now_ms)


class Expiry(NamedTuple):
    """The expiry rule of stored values; `of_elements` for lists, whose elements expire one by one."""

    ttl_ms: int
    of_elements: bool

    def is_over(self, at_ms: int, now_ms: int) -> bool:
        """Whether something that was updated at a time has expired by now."""
        return at_ms + self.ttl_ms <= now_ms

    def left(self, stored: Any, now_ms: int) -> Any | None:
        """Return the part of a stored value that is not expired, None for nothing; the same object if all."""
        if not self.of_elements:
            return None if self.is_over(stored[1], now_ms) else stored
        kept = [element for element in stored if not self.is_over(element[1], now_ms)]
        return stored if len(kept) == len(stored) else kept or None


class TtlTable:
    """A table whose values expire, over one that has them with their times; a `Table`.

    With ``cleans`` it looks at a few entries whenever it is used, and removes what has expired.
    """

    def __init__(
        self, table: Table, ttl: StateTtlConfig, expiry: Expiry, clock: StateClock, *, cleans: bool
    ) -> None:
        self._table = table
        self._expiry = expiry
        self._clock = clock
        self._updates_on_read = ttl.update_type == "on read and write"
        self._returns_expired = ttl.visibility == "return expired if not cleaned up"
        self._cleans = cleans
        self._to_clean: Iterator[bytes] = iter(())

    def get(self, key: bytes) -> Any | None:
        """Return the value, None if there is none or it has expired."""
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
        """Set the value of a key, as of now."""
        self._clean_some()
        self._table.put(key, self._with_time(value))

    def append(self, key: bytes, values: Sequence[Any]) -> None:
        """Add values, as of now, to the list of a key."""
        self._clean_some()
        self._table.append(key, self._with_time(values))

    def remove(self, key: bytes) -> None:
        """Forget a key, if it is there."""
        self._clean_some()
        self._table.remove(key)

    def __iter__(self) -> Iterator[bytes]:
        """The keys, ascending; what they have may have expired."""
        return iter(self._table)

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """The rows of a key, ascending; what they have may have expired."""
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
    """A table of lists whose elements expire one by one."""

    def _values(self, stored: Any) -> Any:
        return [value for value, _ in stored]

    def _with_time(self, value: Any) -> Any:
        now_ms = self._clock.now_ms
        return [[each, now_ms] for each in value]
