"""Rules about names: options that nobody reads, that are misspelt, old, or given twice."""

from __future__ import annotations

from collections.abc import Iterator

from netstack import PRESETS

from .catalogue import CATALOGUE, PARALLELISM, REMOVED, RENAMED, SLOTS, Known, is_of_family, nearest
from .config_file import ConfigPart, Entry
from .findings import Finding, Severity
from .kubernetes import NEW_NAME, OLD_NAME
from .versions import FIRST_OF_2, SINCE, STANDARD_YAML, Version, is_read

_INSTEAD = {
    "exclusive_buffers_per_channel": "debloating, the options buffer-debloat, gives fewer bytes in flight",
    "floating_buffers_per_gate": "more parallelism of the consumer gives a link more buffers",
    "max_buffers_per_channel": "with skewed consumers, try debloating or unaligned checkpoints",
    "max_overdraft_buffers_per_gate": "a record may take that many buffers at once beyond its pool",
}


def about_format(file: ConfigPart, version: Version, name: str) -> Iterator[Finding]:
    """Yield what is wrong with the file itself, whatever its options are, and the lines that Flink skips.

    `name` is the file's, of a file that is all configuration.
    """
    if file.is_old and version >= FIRST_OF_2:
        message = f"Flink 2 does not read {OLD_NAME}"
        advice = "move its options to config.yaml, which is YAML"
        yield _finding(file.line, "error", "old-file", OLD_NAME, message, advice)
    if name == NEW_NAME and file.entries and version < STANDARD_YAML:
        message = f"Flink {version} does not read {NEW_NAME}, which came with {STANDARD_YAML}"
        advice = f"write {OLD_NAME}, a line `name: value` for each option"
        yield _finding(file.line, "note", "new-file", NEW_NAME, message, advice)
    for skipped in file.skipped:
        shown = skipped.text if len(skipped.text) <= 40 else f"{skipped.text[:37]}..."
        message = "Flink skips this line: it is not `name: value`, with a space after the colon"
        yield _finding(skipped.line, "warning", "skipped-line", shown, message)
    for name, line, first in file.repeated:
        message = f"stands on line {first} too; YAML allows a name once, so Flink does not read the file"
        yield _finding(line, "error", "given-twice", name, message, "put both together")


def about_names(entries: list[Entry], version: Version) -> Iterator[Finding]:
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
            yield _finding(
                entry.line,
                "note",
                "old-name",
                entry.name,
                "is an old name, which later versions may not read",
                advice,
            )


def about_repeated(file: ConfigPart, version: Version) -> Iterator[Finding]:
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


def _repeated(before: Entry, entry: Entry, is_old: bool, version: Version) -> Finding:
    if before.name != entry.name:
        old = before if entry.name == CATALOGUE[entry.name].name_in(version) else entry
        message = f"is another name of {before.name} of line {before.line}; Flink reads the new name only"
        return _finding(entry.line, "warning", "given-twice", entry.name, message, f"drop {old.name}")
    if is_old:
        message = f"is given on line {before.line} too; Flink takes the last one"
        return _finding(entry.line, "warning", "given-twice", entry.name, message, "drop one")
    message = f"is given on line {before.line} too, written otherwise; only one of them counts"
    return _finding(entry.line, "warning", "given-twice", entry.name, message, "drop one")


def _too_new(entry: Entry, now: str | None, version: Version) -> Finding:
    message = f"came with Flink {SINCE[entry.name]}; {version} ignores it without a word"
    advice = "drop it" if now is None else f"write {now}"
    return _finding(entry.line, "warning", "later-option", entry.name, message, advice)


def _unknown(entry: Entry, version: Version) -> Iterator[Finding]:
    family = is_of_family(entry.name)
    if entry.name in REMOVED:
        message = f"is no option any more; {REMOVED[entry.name]}"
        yield _finding(entry.line, "warning", "removed-option", entry.name, message)
    elif close := nearest(entry.name, not family, version):
        meant = " or ".join(close)
        message = "is no option of Flink's, so it is ignored without a word"
        yield _finding(entry.line, "warning", "unknown-option", entry.name, message, f"did you mean {meant}?")
    elif family:
        message = "is no option that is known here; Flink ignores a wrong name without a word"
        advice = "compare it with Flink's documentation"
        yield _finding(entry.line, "warning", "unknown-option", entry.name, message, advice)


def _ignored(entry: Entry, known: Known) -> Finding:
    field = known.field
    if field is None:
        message = "Flink 2 has no such option, and ignores it without a word"
        return _finding(entry.line, "warning", "ignored-option", entry.name, message, "drop it")
    constant = getattr(PRESETS["flink-2.2"], field)
    message = f"Flink 2 ignores it without a word: in its place is the constant {constant}"
    if entry.value != str(constant):
        message += f", not {entry.value}"
    return _finding(
        entry.line, "warning", "ignored-option", entry.name, message, f"drop it; {_INSTEAD[field]}"
    )


def _finding(
    line: int | None, severity: Severity, rule: str, option: str, message: str, advice: str = ""
) -> Finding:
    return Finding(line=line, severity=severity, rule=rule, option=option, message=message, advice=advice)


def concerns(name: str) -> bool:
    """Return whether an option is of the network layer or of checkpoints, by its name."""
    return (name in CATALOGUE and name not in (PARALLELISM, SLOTS)) or name in REMOVED or is_of_family(name)
