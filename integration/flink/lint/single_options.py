"""Rules about options one by one: names that nobody reads, values that cannot be read or hardly are meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from netstack import (
    OPTIONS,
    PRESETS,
    NetworkConfig,
    QuantityError,
    format_duration,
    format_size,
    option_problems,
    with_options,
)

from .catalogue import (
    CATALOGUE,
    FIRST_OF_2,
    PARALLELISM,
    REMOVED,
    RENAMED,
    SINCE,
    SLOTS,
    STANDARD_YAML,
    Known,
    Version,
    is_of_family,
    is_read,
    nearest,
    parse,
)
from .config_file import NEW_NAME, OLD_NAME, ConfigPart, Entry
from .file_settings import Place, Remark, Settings, name_of

_INSTEAD = {
    "exclusive_buffers_per_channel": "debloating, the options buffer-debloat, gives fewer bytes in flight",
    "floating_buffers_per_gate": "more parallelism of the consumer gives a link more buffers",
    "max_buffers_per_channel": "with skewed consumers, try debloating or unaligned checkpoints",
    "max_overdraft_buffers_per_gate": "a record may take that many buffers at once beyond its pool",
}

SMALLEST_PAGE = 4096
"""Flink's least segment size, in bytes (MemoryManager.MIN_PAGE_SIZE)."""

LARGEST_PAGE = 1 << 30
"""The greatest, in bytes: the largest power of two of an int of Java."""

MOST_INLINE = 1 << 20
"""The most state that may stand in the metadata, in bytes (FsStateBackend)."""

_DURATION, _SIZE = OPTIONS["debloat_period_s"].kind, OPTIONS["segment_bytes"].kind

_FEW = 1000
"""A number below this without a unit is hardly meant in milliseconds, or in bytes."""


def about_format(file: ConfigPart, version: Version, name: str) -> Iterator[Remark]:
    """Yield what is wrong with the file itself, whatever its options are, and the lines that Flink skips.

    `name` is the file's, of a file that is all configuration.
    """
    if file.is_old and version >= FIRST_OF_2:
        message = f"Flink 2 does not read {OLD_NAME}"
        advice = "move its options to config.yaml, which is YAML"
        yield Remark(file.line, "error", "old-file", OLD_NAME, message, advice)
    if name == NEW_NAME and file.entries and version < STANDARD_YAML:
        message = f"Flink {version} does not read {NEW_NAME}, which came with {STANDARD_YAML}"
        advice = f"write {OLD_NAME}, a line `name: value` for each option"
        yield Remark(file.line, "note", "new-file", NEW_NAME, message, advice)
    for skipped in file.skipped:
        shown = skipped.text if len(skipped.text) <= 40 else f"{skipped.text[:37]}..."
        message = "Flink skips this line: it is not `name: value`, with a space after the colon"
        yield Remark(skipped.line, "warning", "skipped-line", shown, message)
    for name, line, first in file.repeated:
        message = f"stands on line {first} too; YAML allows a name once, so Flink does not read the file"
        yield Remark(line, "error", "given-twice", name, message, "put both together")


def about_names(entries: list[Entry], version: Version) -> Iterator[Remark]:
    """Yield options whose names are wrong, old, or of another version, and those that the version ignores."""
    for entry in entries:
        known = CATALOGUE.get(entry.name)
        now = None if known is None else known.name_in(version)
        if known is None:
            yield from _unknown(entry, version)
        elif not is_read(entry.name, version):
            yield _too_new(entry, now, version)
        elif now is None:
            yield _ignored(entry, known)
        elif entry.name != now and entry.name in RENAMED:
            advice = f"write {now}"
            yield Remark(
                entry.line,
                "note",
                "old-name",
                entry.name,
                "is an old name, which later versions may not read",
                advice,
            )


def about_repeated(file: ConfigPart, version: Version) -> Iterator[Remark]:
    """Yield options that are given more than once, by different names or in different forms."""
    first: dict[str, Entry] = {}
    said = {repeated.line for repeated in file.repeated}
    for entry in file.entries:
        known = CATALOGUE.get(entry.name)
        name = entry.name if known is None else known.name
        if known is None and not is_of_family(name):
            continue
        if known is not None and not is_read(entry.name, version):
            continue
        before = first.setdefault(name, entry)
        if before is not entry and entry.line not in said:
            yield _repeated(before, entry, file.is_old, version)


def _repeated(before: Entry, entry: Entry, is_old: bool, version: Version) -> Remark:
    if before.name != entry.name:
        old = before if entry.name == CATALOGUE[entry.name].name_in(version) else entry
        message = f"is another name of {before.name} of line {before.line}; Flink reads the new name only"
        return Remark(entry.line, "warning", "given-twice", entry.name, message, f"drop {old.name}")
    if is_old:
        message = f"is given on line {before.line} too; Flink takes the last one"
        return Remark(entry.line, "warning", "given-twice", entry.name, message, "drop one")
    message = f"is given on line {before.line} too, written otherwise; only one of them counts"
    return Remark(entry.line, "warning", "given-twice", entry.name, message, "drop one")


def _too_new(entry: Entry, now: str | None, version: Version) -> Remark:
    message = f"came with Flink {SINCE[entry.name]}; {version} ignores it without a word"
    advice = "drop it" if now is None else f"write {now}"
    return Remark(entry.line, "warning", "later-option", entry.name, message, advice)


def _unknown(entry: Entry, version: Version) -> Iterator[Remark]:
    family = is_of_family(entry.name)
    if entry.name in REMOVED:
        message = f"is no option any more; {REMOVED[entry.name]}"
        yield Remark(entry.line, "warning", "removed-option", entry.name, message)
    elif close := nearest(entry.name, not family, version):
        meant = " or ".join(close)
        message = "is no option of Flink's, so it is ignored without a word"
        yield Remark(entry.line, "warning", "unknown-option", entry.name, message, f"did you mean {meant}?")
    elif family:
        message = "is no option that is known here; Flink ignores a wrong name without a word"
        advice = "compare it with Flink's documentation"
        yield Remark(entry.line, "warning", "unknown-option", entry.name, message, advice)


def _ignored(entry: Entry, known: Known) -> Remark:
    field = known.field
    if field is None:
        message = "Flink 2 has no such option, and ignores it without a word"
        return Remark(entry.line, "warning", "ignored-option", entry.name, message, "drop it")
    constant = getattr(PRESETS["flink-2.2"], field)
    message = f"Flink 2 ignores it without a word: in its place is the constant {constant}"
    if entry.value != str(constant):
        message += f", not {entry.value}"
    return Remark(entry.line, "warning", "ignored-option", entry.name, message, f"drop it; {_INSTEAD[field]}")


def concerns(name: str) -> bool:
    """Return whether an option is of the network layer or of checkpoints, by its name."""
    return (name in CATALOGUE and name not in (PARALLELISM, SLOTS)) or name in REMOVED or is_of_family(name)


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
) -> tuple[Settings, list[Remark]]:
    """Return what the entries come to under the rules of a version, and the values that Flink cannot read.

    Options that the version ignores are left out, and so are wrong values: the preset's stand in.
    """
    fields: dict[str, object] = {}
    others: dict[str, int | float | bool | str] = {}
    places: dict[str, Place] = {}
    findings: list[Remark] = []
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


def about_ranges(settings: Settings) -> Iterator[Remark]:
    """Yield values outside of their range, or outside of what another option leaves of it."""
    keys: Mapping[str, str] = {f"flink.{option.name}": field for field, option in OPTIONS.items()}
    for key, message in option_problems(settings.config):
        if keys[key] != "segment_bytes":  # of which a real Flink wants more, as below
            yield settings.remark("error", "out-of-range", keys[key], message)
    page = settings.config.segment_bytes
    if not SMALLEST_PAGE <= page <= LARGEST_PAGE or page & (page - 1):
        bounds = f"{format_size(SMALLEST_PAGE)} to {format_size(LARGEST_PAGE)}"
        message = f"is {format_size(page)}; it must be a power of two from {bounds}"
        yield settings.remark("error", "out-of-range", "segment_bytes", message)
    inline = settings.config.state_memory_threshold_bytes
    if inline > MOST_INLINE:
        message = f"is {format_size(inline)}; it must be at most {format_size(MOST_INLINE)}"
        yield settings.remark("error", "out-of-range", "state_memory_threshold_bytes", message)


def about_usual(entries: list[Entry], settings: Settings) -> Iterator[Remark]:
    """Yield values that Flink takes and that hardly anybody means; one for each option at most."""
    texts = {(entry.name, entry.line): entry.value or "" for entry in entries}
    for field in OPTIONS:
        place = settings.places.get(name_of(field))
        if place is None or not settings.gives(field):
            continue
        value, text = getattr(settings.config, field), texts[place.name, place.line].strip()
        if field in _USUAL and not _USUAL[field].least <= value <= _USUAL[field].most:
            message = f"is {text}; {_USUAL[field].why}"
            yield settings.remark("warning", "unusual-value", field, message)
        elif text.isdecimal() and 0 < int(text) < _FEW and OPTIONS[field].kind in (_DURATION, _SIZE):
            as_read = format_size(value) if OPTIONS[field].kind is _SIZE else format_duration(value)
            message = f"is {text} without a unit, which Flink reads as {as_read}"
            yield settings.remark("note", "no-unit", field, message, "write the unit")


def _by_age(entries: list[Entry]) -> Iterator[tuple[Entry, Known]]:
    """The entries that are known; old names first, since a new name wins, else the last one."""
    known = [(entry, CATALOGUE[entry.name]) for entry in entries if entry.name in CATALOGUE]
    yield from sorted(known, key=lambda pair: pair[0].name not in RENAMED)


def _required(entry: Entry) -> str:
    if entry.value is None or not entry.value.strip():
        raise QuantityError("has no value", "one")
    return entry.value


def _unreadable(entry: Entry, error: QuantityError) -> Remark:
    message = "has no value" if error.wrong == "has no value" else f"{error.wrong}; it must be {error.right}"
    return Remark(entry.line, "error", "bad-value", entry.name, message)


def _is_plain_millis(known: Known) -> bool:
    """Whether an option is whole milliseconds in a file, and seconds in the emulator."""
    return known.name.startswith("taskmanager.network.request-backoff.")
