"""Rules about single values: what Flink would not read, and what lies outside of its range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netstack import OPTIONS, NetworkConfig, QuantityError, format_size, option_problems, with_options

from .catalogue import CATALOGUE, RENAMED, Known, parse
from .config_file import Entry
from .findings import Finding, Place, Settings

SMALLEST_PAGE = 4096
"""Flink's least segment size, in bytes (MemoryManager.MIN_PAGE_SIZE)."""

LARGEST_PAGE = 1 << 30
"""The greatest, in bytes: the largest power of two of an int of Java."""

MOST_INLINE = 1 << 20
"""The most state that may stand in the metadata, in bytes (FsStateBackend)."""


def read_settings(
    entries: list[Entry], preset: NetworkConfig, is_flink_1: bool
) -> tuple[Settings, list[Finding]]:
    """Return what the entries come to under the rules of a version, and the values that Flink cannot read.

    Options that the version ignores are left out, and so are wrong values: the preset's stand in.
    """
    fields: dict[str, object] = {}
    others: dict[str, int | float | bool | str] = {}
    places: dict[str, Place] = {}
    findings = []
    for entry, known in _by_age(entries):
        if known.only_1x and not is_flink_1:
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
    return Settings(with_options(preset, fields), others, places, is_flink_1), findings


def about_ranges(settings: Settings) -> Iterator[Finding]:
    """Yield values outside of their range, or outside of what another option leaves of it."""
    keys: Mapping[str, str] = {f"flink.{option.name}": field for field, option in OPTIONS.items()}
    for key, message in option_problems(settings.config):
        yield settings.finding("error", "out-of-range", keys[key], message)
    page = settings.config.segment_bytes
    if not SMALLEST_PAGE <= page <= LARGEST_PAGE and page & (page - 1) == 0:
        message = f"is {format_size(page)}; it must be a power of two from {format_size(SMALLEST_PAGE)}"
        message += f" to {format_size(LARGEST_PAGE)}" if page > LARGEST_PAGE else ""
        yield settings.finding("error", "out-of-range", "segment_bytes", message)
    inline = settings.config.state_memory_threshold_bytes
    if inline > MOST_INLINE:
        message = f"is {format_size(inline)}; it must be at most {format_size(MOST_INLINE)}"
        yield settings.finding("error", "out-of-range", "state_memory_threshold_bytes", message)


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
