"""Rules about single values: what Flink would not read, and what lies outside of its range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from netstack import (
    OPTIONS,
    NetworkConfig,
    QuantityError,
    format_duration,
    format_size,
    option_problems,
    with_options,
)

from .catalogue import CATALOGUE, RENAMED, Known, parse
from .config_file import Entry
from .findings import Finding, Place, Settings, name_of
from .versions import Version, is_read

SMALLEST_PAGE = 4096
"""Flink's least segment size, in bytes (MemoryManager.MIN_PAGE_SIZE)."""

LARGEST_PAGE = 1 << 30
"""The greatest, in bytes: the largest power of two of an int of Java."""

MOST_INLINE = 1 << 20
"""The most state that may stand in the metadata, in bytes (FsStateBackend)."""


_DURATION, _SIZE = OPTIONS["debloat_period_s"].kind, OPTIONS["segment_bytes"].kind

_FEW = 1000
"""A number below this without a unit is hardly meant in milliseconds, or in bytes."""


class Usual(NamedTuple):
    """What an option has in jobs that work, and why not less or more."""

    least: float
    most: float
    why: str


_USUAL: Mapping[str, Usual] = {
    "debloat_threshold_percent": Usual(0, 100, "no size is smaller than another by more than 100 %"),
    "debloat_target_s": Usual(0.001, 60, "a second is the default, and more than a minute is no bound"),
    "debloat_period_s": Usual(0.01, 60, "sizes follow the load once a period; 200 ms is the default"),
    "debloat_samples": Usual(
        1, 1000, "so many periods pass until a change of load counts; 20 is the default"
    ),
    "buffer_timeout_interval_s": Usual(0, 60, "so long may a record wait in a buffer; 100 ms is the default"),
    "checkpoint_interval_s": Usual(0.05, 86400 * 7, "from seconds to hours is usual"),
    "checkpoint_timeout_s": Usual(0.5, 86400 * 7, "from minutes to hours is usual; 10 min is the default"),
    "max_concurrent_checkpoints": Usual(1, 100, "one at a time is usual, and the default"),
    "retained_checkpoints": Usual(1, 10_000, "each keeps its files; 1 is the default"),
    "network_memory_fraction": Usual(0, 0.8, "that leaves little for anything else; 0.1 is the default"),
}


def read_settings(
    entries: list[Entry], preset: NetworkConfig, version: Version
) -> tuple[Settings, list[Finding]]:
    """Return what the entries come to under the rules of a version, and the values that Flink cannot read.

    Options that the version ignores are left out, and so are wrong values: the preset's stand in.
    """
    fields: dict[str, object] = {}
    others: dict[str, int | float | bool | str] = {}
    places: dict[str, Place] = {}
    findings = []
    for entry, known in _by_age(entries):
        if known.name_in(version) is None or not is_read(entry.name, version):
            continue
        places[known.name] = Place(entry.name, entry.line)
        try:
            value = parse(known, _required(entry))
        except QuantityError as error:
            findings.append(_unreadable(entry, error))
            continue
        if known.field is not None and not _is_plain_millis(known):
            fields[known.field] = value
        elif isinstance(value, int | float | bool | str):
            others[known.name] = value
    return Settings(with_options(preset, fields), others, places, version), findings


def about_ranges(settings: Settings) -> Iterator[Finding]:
    """Yield values outside of their range, or outside of what another option leaves of it."""
    keys: Mapping[str, str] = {f"flink.{option.name}": field for field, option in OPTIONS.items()}
    for key, message in option_problems(settings.config):
        if keys[key] != "segment_bytes":  # of which a real Flink wants more, as below
            yield settings.finding("error", "out-of-range", keys[key], message)
    page = settings.config.segment_bytes
    if not SMALLEST_PAGE <= page <= LARGEST_PAGE or page & (page - 1):
        bounds = f"{format_size(SMALLEST_PAGE)} to {format_size(LARGEST_PAGE)}"
        message = f"is {format_size(page)}; it must be a power of two from {bounds}"
        yield settings.finding("error", "out-of-range", "segment_bytes", message)
    inline = settings.config.state_memory_threshold_bytes
    if inline > MOST_INLINE:
        message = f"is {format_size(inline)}; it must be at most {format_size(MOST_INLINE)}"
        yield settings.finding("error", "out-of-range", "state_memory_threshold_bytes", message)


def about_usual(entries: list[Entry], settings: Settings) -> Iterator[Finding]:
    """Yield values that Flink takes and that hardly anybody means; one for each option at most."""
    texts = {(entry.name, entry.line): entry.value or "" for entry in entries}
    for field in OPTIONS:
        place = settings.places.get(name_of(field))
        if place is None or not settings.gives(field):
            continue
        value, text = getattr(settings.config, field), texts[place.name, place.line].strip()
        if field in _USUAL and not _USUAL[field].least <= value <= _USUAL[field].most:
            message = f"is {text}; {_USUAL[field].why}"
            yield settings.finding("warning", "unusual-value", field, message)
        elif text.isdecimal() and 0 < int(text) < _FEW and OPTIONS[field].kind in (_DURATION, _SIZE):
            as_read = format_size(value) if OPTIONS[field].kind is _SIZE else format_duration(value)
            message = f"is {text} without a unit, which Flink reads as {as_read}"
            yield settings.finding("note", "no-unit", field, message, "write the unit")


def _by_age(entries: list[Entry]) -> Iterator[tuple[Entry, Known]]:
    """The entries that are known; old names first, since a new name wins, else the last one."""
    found = [(entry, CATALOGUE[entry.name]) for entry in entries if entry.name in CATALOGUE]
    yield from sorted(found, key=lambda pair: pair[0].name not in RENAMED)


def _required(entry: Entry) -> str:
    if entry.value is None or not entry.value.strip():
        raise QuantityError("has no value", "one")
    return entry.value


def _unreadable(entry: Entry, error: QuantityError) -> Finding:
    message = "has no value" if error.wrong == "has no value" else f"{error.wrong}; it must be {error.right}"
    return Finding(line=entry.line, severity="error", rule="bad-value", option=entry.name, message=message)


def _is_plain_millis(known: Known) -> bool:
    """Whether an option is whole milliseconds in a file, and seconds in the emulator."""
    return known.name.startswith("taskmanager.network.request-backoff.")
