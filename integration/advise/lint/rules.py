"""Rules for configuration files: names, values, and combinations of options.

A rule for combinations is a generator over the settings of a file. The lists at the end of the module define
when each rule applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from netstack import (
    OPTIONS,
    PRESETS,
    CheckpointStorageType,
    EdgeBuffers,
    FlinkVersion,
    NetworkConfig,
    QuantityError,
    format_duration,
    format_size,
    option_problems,
    preset_for,
    unit_notice,
    with_options,
)

from ...base.number_text import size
from ..diagnose.conditions import MOST_CHANNELS
from .config_files import NEW_NAME, OLD_NAME, ConfigPart, Entry
from .flink_options import (
    CATALOGUE,
    FIRST_OF_2,
    FLINK_SIZE,
    PARALLELISM,
    PROCESS_SIZE,
    REMOVED,
    SINCE,
    SLOTS,
    STANDARD_YAML,
    is_of_family,
    is_read,
    kind_of,
    nearest,
    parse,
)

_INSTEAD = {
    "exclusive_buffers_per_channel": "to get fewer bytes in flight, use debloating (options buffer-debloat)",
    "floating_buffers_per_gate": "to get more buffers for a link, raise the parallelism of the consumer",
    "max_buffers_per_channel": "if the consumers are skewed, try debloating or unaligned checkpoints",
    "max_overdraft_buffers_per_gate": "Flink 2 always allows a gate this number of overdraft buffers",
}

SMALLEST_PAGE = 4096
"""Flink's minimum segment size, in bytes (MemoryManager.MIN_PAGE_SIZE)."""

LARGEST_PAGE = 1 << 30
"""Flink's maximum segment size in bytes: the largest power of two in Java's int."""

MOST_INLINE = 1 << 20
"""Maximum size of state, in bytes, that may be stored in the metadata (FsStateBackend)."""

_FEW = 1000
"""If a value without a unit is smaller, milliseconds or bytes were probably not intended."""

SLOW_S = 30.0
"""Longest time, in seconds, in which buffer sizes may follow a change of load without a warning."""

_TUNING = ("debloat_period_s", "debloat_target_s", "debloat_samples", "debloat_threshold_percent")

_OF_UNALIGNED = ("aligned_checkpoint_timeout_s", "unaligned_forced", "max_subtasks_per_channel_state_file")

_BUFFERS = EdgeBuffers()
"""Numbers of buffers as the options set them."""

_OF_THE_CLUSTER = (PARALLELISM, SLOTS, PROCESS_SIZE, FLINK_SIZE)
"""Options that some rules need, and that belong neither to the network layer nor to checkpoints."""

_METASPACE_BYTES = 256 << 20
_OVERHEAD_SHARE, _OVERHEAD_BYTES = 0.1, (192 << 20, 1 << 30)
"""Flink's defaults of JVM metaspace, and of JVM overhead: share of the process, minimum and maximum."""

_BACKLOG = "execution.checkpointing.interval-during-backlog"
_BACKOFF = "taskmanager.network.request-backoff"


Severity = Literal["error", "warning", "note"]
"""error: Flink rejects the value, or no job runs. warning: the effect is unexpected. note: information."""


class LintRemark(msgspec.Struct, frozen=True):
    """A finding about a file."""

    line: int | None
    """The line in the file; None: the file does not contain the option."""
    severity: Severity
    rule: str
    """Short name of the rule that made the finding."""
    option: str
    """The option's name as the file spells it."""
    message: str
    """The problem, or the effect of the setting."""
    advice: str = ""
    """The remedy; empty if the message contains it."""


class Settings(NamedTuple):
    """The settings of a file under the rules of a version."""

    config: NetworkConfig
    """The options that the version reads. Others have the version's built-in values."""
    others: Mapping[str, int | float | bool | str]
    """Options that the emulator lacks, by their present names."""
    places: Mapping[str, Entry]
    """The entries that set options, by the present names of the options."""
    version: FlinkVersion

    @property
    def is_flink_1(self) -> bool:
        """Whether the version is before 2.0."""
        return self.version < FIRST_OF_2

    def gives(self, field: str) -> bool:
        """Return whether the option of a field is set in the file and read by the version."""
        return field in self.config.given

    def is_unreadable(self, field: str) -> bool:
        """Return whether the option of a field is set to a value that Flink cannot read."""
        return name_of(field) in self.places and not self.gives(field)

    def whole(self, name: str) -> int | None:
        """Return the value of an option of `others` if it is a whole number; None if it is not set."""
        value = self.others.get(name)
        return value if isinstance(value, int) else None

    def remark(
        self, severity: Severity, rule: str, option: str, message: str, advice: str = ""
    ) -> LintRemark:
        """Return a remark on an option. `option` is a field or a name."""
        name = name_of(option) if option in OPTIONS else option
        entry = self.places.get(name)
        line, named = (None, self.spelt(option)) if entry is None else (entry.line, entry.name)
        return LintRemark(line, severity, rule, named, message, advice)

    def spelt(self, option: str) -> str:
        """Return the version's name of an option. `option` is a field or the option's present name."""
        name = name_of(option) if option in OPTIONS else option
        known = CATALOGUE.get(name)
        return (known and known.name_in(self.version)) or name


def name_of(field: str) -> str:
    """Return the name of the option of a field of `NetworkConfig`."""
    return CATALOGUE[OPTIONS[field].name].name


# Names and values


def about_format(file: ConfigPart, version: FlinkVersion, name: str) -> Iterator[LintRemark]:
    """Yield problems of the file's format, and the lines that Flink skips. `name` is the file's name."""
    if file.is_old and version >= FIRST_OF_2:
        message = f"Flink 2 does not read {OLD_NAME}"
        advice = "move its options to config.yaml, which is YAML"
        yield LintRemark(file.line, "error", "old-file", OLD_NAME, message, advice)
    if name == NEW_NAME and file.entries and version < STANDARD_YAML:
        message = f"Flink {version} does not read {NEW_NAME}, which came with {STANDARD_YAML}"
        advice = f"write the options into {OLD_NAME}, as one line `name: value` each"
        yield LintRemark(file.line, "note", "new-file", NEW_NAME, message, advice)
    for skipped in file.skipped:
        shown = skipped.text if len(skipped.text) <= 40 else f"{skipped.text[:37]}..."
        message = "Flink skips this line, since it is not `name: value` with a space after the colon"
        yield LintRemark(skipped.line, "warning", "skipped-line", shown, message)
    for name, line, first in file.repeated:
        message = (
            f"is given on line {first}, too; YAML allows a name only once, so Flink does not read the file"
        )
        yield LintRemark(line, "error", "given-twice", name, message, "merge the two entries")


def about_names(entries: list[Entry], version: FlinkVersion) -> Iterator[LintRemark]:
    """Yield options with wrong or outdated names, and options that the version lacks or ignores."""
    for entry in entries:
        known = CATALOGUE.get(entry.name)
        now = None if known is None else known.name_in(version)
        if known is None:
            yield from _unknown(entry, version)
        elif not is_read(entry.name, version):
            message = f"was added in Flink {SINCE[entry.name]}; {version} ignores it silently"
            advice = "drop it" if now is None else f"write {now}"
            yield LintRemark(entry.line, "warning", "later-option", entry.name, message, advice)
        elif known.is_removed_in(version):
            message, advice = "Flink 2 does not have this option, and ignores it silently", "drop it"
            if known.field is not None:
                constant = getattr(PRESETS[preset_for(str(version))], known.field)
                message = f"Flink 2 ignores it silently and uses the constant {constant}"
                message += f", not {entry.value}" if entry.value != str(constant) else ""
                advice = f"remove it; {_INSTEAD[known.field]}"
            yield LintRemark(entry.line, "warning", "ignored-option", entry.name, message, advice)
        elif entry.name != now:
            message = "is an old name, which later versions may not read"
            yield LintRemark(entry.line, "note", "old-name", entry.name, message, f"write {now}")


def about_repeated(file: ConfigPart, version: FlinkVersion) -> Iterator[LintRemark]:
    """Yield options that are set more than once, under different names or in different notations."""
    first: dict[str, Entry] = {}
    reported = {repeated.line for repeated in file.repeated}
    for entry in file.entries:
        known = CATALOGUE.get(entry.name)
        name = entry.name if known is None else known.name
        if known is None and not is_of_family(name):
            continue
        if known is not None and not is_read(entry.name, version):
            continue
        before = first.setdefault(name, entry)
        if before is entry or entry.line in reported:
            continue
        advice = "drop one"
        if before.name != entry.name:
            old = before if entry.name == CATALOGUE[entry.name].name_in(version) else entry
            message = f"is another name of {before.name} on line {before.line}; Flink reads only the new name"
            advice = f"drop {old.name}"
        elif file.is_old:
            message = f"is set on line {before.line}, too; Flink uses the last value"
        else:
            message = f"is set on line {before.line}, too, in another notation; Flink uses only one of them"
        yield LintRemark(entry.line, "warning", "given-twice", entry.name, message, advice)


def _unknown(entry: Entry, version: FlinkVersion) -> Iterator[LintRemark]:
    family = is_of_family(entry.name)
    if entry.name in REMOVED:
        message = f"is no longer an option; {REMOVED[entry.name]}"
        yield LintRemark(entry.line, "warning", "removed-option", entry.name, message)
    elif close := nearest(entry.name, not family, version):
        meant = " or ".join(close)
        message = "is not an option of Flink, so Flink ignores it silently"
        yield LintRemark(
            entry.line, "warning", "unknown-option", entry.name, message, f"did you mean {meant}?"
        )
    elif family:
        message = "is not an option that netstack knows; Flink silently ignores a wrong name"
        advice = "compare the name with Flink's documentation"
        yield LintRemark(entry.line, "warning", "unknown-option", entry.name, message, advice)


def concerns(name: str) -> bool:
    """Return whether the option of that name belongs to the network layer or to checkpoints."""
    return (name in CATALOGUE and name not in _OF_THE_CLUSTER) or name in REMOVED or is_of_family(name)


def read_settings(
    entries: list[Entry], preset: NetworkConfig, version: FlinkVersion
) -> tuple[Settings, list[LintRemark]]:
    """Return the settings of the entries under the rules of a version, and the values that Flink cannot read.

    Options that the version ignores and wrong values are left out; the preset's values are used instead.
    """
    fields: dict[str, object] = {}
    others: dict[str, int | float | bool | str] = {}
    places: dict[str, Entry] = {}
    findings: list[LintRemark] = []
    # Later entries replace earlier ones. Old names come first, so that the version's own name wins.
    listed = [(entry, CATALOGUE[entry.name]) for entry in entries if entry.name in CATALOGUE]
    for entry, known in sorted(listed, key=lambda pair: pair[0].name == pair[1].name_in(version)):
        if known.name_in(version) is None or not is_read(entry.name, version):
            continue
        places[known.name] = entry
        if entry.value is None or not entry.value.strip():
            findings.append(LintRemark(entry.line, "error", "bad-value", entry.name, "has no value"))
            continue
        try:
            value = parse(known, entry.value)
        except QuantityError as error:
            message = f"{error.wrong}; it must be {error.right}"
            findings.append(LintRemark(entry.line, "error", "bad-value", entry.name, message))
            continue
        # These options are whole milliseconds in a file, but seconds in the emulator.
        is_plain_millis = known.name.startswith(f"{_BACKOFF}.")
        if known.field is not None and not is_plain_millis:
            fields[known.field] = value
        elif isinstance(value, int | float | bool | str):
            others[known.name] = value
    return Settings(with_options(preset, fields), others, places, version), findings


def about_ranges(settings: Settings) -> Iterator[LintRemark]:
    """Yield values outside of their own range, or outside of a range that another option sets."""
    keys: Mapping[str, str] = {f"flink.{option.name}": field for field, option in OPTIONS.items()}
    for key, message in option_problems(settings.config):
        # Flink has other rules for these two: see below for segments, `_during_recovery` for the other.
        if keys[key] not in ("segment_bytes", "checkpoints_during_recovery"):
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


def about_usual(settings: Settings) -> Iterator[LintRemark]:
    """Yield values that Flink accepts but that are probably mistakes; at most one per option."""
    for name, entry in settings.places.items():
        known = CATALOGUE[name]
        field = known.field if known.field is not None and settings.gives(known.field) else None
        if field is None and name not in settings.others:
            continue  # Flink cannot read this value
        text = (entry.value or "").strip()
        kind = kind_of(known)
        notice = None if kind is None else unit_notice(kind, text)
        usual = None if field is None else _USUAL.get(field)
        if field is not None and usual and not usual.least <= getattr(settings.config, field) <= usual.most:
            message = f"is {text}; {usual.why}"
            yield settings.remark("warning", "unusual-value", name, message, notice or "")
        elif notice is not None:
            severity: Severity = "warning" if int(text) < _FEW else "note"
            yield settings.remark(severity, "no-unit", name, notice)


class Usual(NamedTuple):
    """The usual range of an option, and the reason."""

    least: float
    most: float
    why: str


_USUAL: Mapping[str, Usual] = {
    "debloat_threshold_percent": Usual(0, 100, "a difference cannot exceed 100 %"),
    "debloat_target_s": Usual(
        0.001, 60, "the default is a second, and a target above a minute limits nothing"
    ),
    "debloat_period_s": Usual(0.01, 60, "buffer sizes are adapted once a period; the default is 200 ms"),
    "debloat_samples": Usual(
        1, 1000, "debloating takes this many periods to follow a change of load; the default is 20"
    ),
    "buffer_timeout_interval_s": Usual(
        0, 60, "a record may wait this long in a buffer; the default is 100 ms"
    ),
    "checkpoint_interval_s": Usual(0.05, 86400 * 7, "usual values are seconds to hours"),
    "checkpoint_timeout_s": Usual(0.5, 86400 * 7, "usual values are minutes to hours; the default is 10 min"),
    "max_concurrent_checkpoints": Usual(1, 100, "the default and the usual value is 1"),
    "retained_checkpoints": Usual(1, 10_000, "each retained checkpoint keeps its files; the default is 1"),
    "network_memory_fraction": Usual(
        0, 0.8, "this leaves little memory for anything else; the default is 0.1"
    ),
}


# Combinations


def _off(settings: Settings) -> Iterator[LintRemark]:
    effect = " while taskmanager.network.memory.buffer-debloat.enabled is false, its default"
    for field in _TUNING:
        if settings.gives(field):
            yield settings.remark("warning", "debloating-off", field, f"changes nothing{effect}")
    for field in ("min_segment_bytes", "starting_segment_bytes"):
        if settings.gives(field):
            yield settings.remark("note", "debloating-off", field, f"changes nothing{effect}")


def _sizes(settings: Settings) -> Iterator[LintRemark]:
    """Yield debloating settings with no room between the minimum and the maximum size."""
    config = settings.config
    if config.min_segment_bytes == config.segment_bytes:
        message = (
            f"is {format_size(config.min_segment_bytes)}, the size of a segment, so that no buffer can "
            "become smaller"
        )
        yield settings.remark("warning", "debloating-defeated", "min_segment_bytes", message, "lower it")
    if settings.gives("starting_segment_bytes") and config.starting_segment_bytes < config.min_segment_bytes:
        message = f"is below min-segment-size, {format_size(config.min_segment_bytes)}"
        advice = "raise it to that size; otherwise the first buffers are smaller than the minimum"
        yield settings.remark("note", "start-below-minimum", "starting_segment_bytes", message, advice)


def _threshold(settings: Settings) -> Iterator[LintRemark]:
    """Yield a warning if the threshold is so high that new sizes are hardly ever announced."""
    field, percent = "debloat_threshold_percent", settings.config.debloat_threshold_percent
    if percent == 100:  # `about_usual` warns about larger values
        message = (
            f"is {percent}: sizes hardly ever differ by so much, so a smaller size is announced only "
            "when it reaches the minimum"
        )
        yield settings.remark("warning", "debloating-defeated", field, message, "the default is 25")


def _flushes(settings: Settings) -> Iterator[LintRemark]:
    timeout = settings.config.buffer_timeout_s
    target = settings.config.debloat_target_s
    if timeout == 0:
        message = "is 0, which sends each record in a buffer of its own, whose size debloating cannot change"
        advice = "set it to some milliseconds"
        yield settings.remark("warning", "debloating-defeated", "buffer_timeout_interval_s", message, advice)
    elif timeout is not None and timeout > target > 0:
        message = (
            f"is {format_duration(target)}, but without back-pressure a record may wait for "
            f"{format_duration(timeout)} in a buffer that is not full"
        )
        advice = "debloating cannot shorten this wait"
        yield settings.remark("note", "timeout-above-target", "debloat_target_s", message, advice)


def _inertia(settings: Settings) -> Iterator[LintRemark]:
    """Yield settings with which sizes follow a change of load too slowly: after (samples + 1) / 2 periods."""
    config = settings.config
    follows_s = config.debloat_period_s * (config.debloat_samples + 1) / 2
    if follows_s > SLOW_S:
        field = "debloat_samples" if settings.gives("debloat_samples") else "debloat_period_s"
        message = (
            f"buffer sizes follow a change of load only after about {follows_s:.0f} s "
            f"({config.debloat_samples} samples, one every {format_duration(config.debloat_period_s)})"
        )
        advice = "set fewer samples, or a shorter period"
        yield settings.remark("warning", "slow-debloating", field, message, advice)


def _parallelism(settings: Settings) -> Iterator[LintRemark]:
    parallelism = settings.whole(PARALLELISM)
    floating = settings.config.floating_buffers_per_gate
    if parallelism is None or parallelism <= MOST_CHANNELS or floating >= parallelism:
        return
    message = f"is {parallelism}: above about {MOST_CHANNELS}, debloating may choose wrong sizes"
    if settings.is_flink_1:
        advice = f"raise floating-buffers-per-gate from {floating} to the parallelism"
    else:
        advice = (
            "in Flink 1.x, as many floating buffers as channels would help, but Flink 2 always has "
            f"{floating}"
        )
    yield settings.remark("warning", "debloating-parallelism", PARALLELISM, message, advice)


def _single_records(settings: Settings) -> Iterator[LintRemark]:
    """Yield settings with which a task can block on one record if the record needs many small buffers."""
    if settings.config.max_overdraft_buffers_per_gate == 0:
        message = (
            "is 0, but a debloated buffer may be smaller than a record: the task then blocks within the "
            "record"
        )
        advice = "set it to 5, the default; or raise min-segment-size to the size of a record"
        yield settings.remark("warning", "no-overdraft", "max_overdraft_buffers_per_gate", message, advice)


def _unaligned(settings: Settings) -> Iterator[LintRemark]:
    config = settings.config
    if config.unaligned_enabled and not config.takes_unaligned_checkpoints:
        message = (
            f"has no effect: the checkpointing mode is {config.checkpoint_mode}, and only EXACTLY_ONCE "
            "has unaligned checkpoints"
        )
        advice = "remove this option, or set the mode to EXACTLY_ONCE"
        yield settings.remark("warning", "no-unaligned", "unaligned_enabled", message, advice)
    if not config.unaligned_enabled and not settings.is_unreadable("unaligned_enabled"):
        for field in _OF_UNALIGNED:
            if settings.gives(field):
                message = f"has no effect unless {settings.spelt('unaligned_enabled')} is true"
                yield settings.remark("warning", "no-unaligned", field, message)


def _during_recovery(settings: Settings) -> Iterator[LintRemark]:
    """Yield a remark on the option for checkpoints during recovery."""
    field, config = "checkpoints_during_recovery", settings.config
    if not config.checkpoints_during_recovery:
        return
    if not config.recover_output_on_downstream:
        message = f"has no effect unless {name_of('recover_output_on_downstream')} is true"
        yield settings.remark("warning", "no-unaligned", field, message, "set both, or remove this one")
    elif settings.version == FlinkVersion(2, 3):
        message = (
            "in Flink 2.3.0, a checkpoint may store recovered data of a local channel twice "
            "(FLINK-40016), and a restart from it repeats records"
        )
        advice = "remove it until you use a version after 2.3.0"
        yield settings.remark("warning", "repeated-data", field, message, advice)


def _aligned_timeout(settings: Settings) -> Iterator[LintRemark]:
    """Yield aligned timeouts that conflict with the checkpoint timeout or the debloat target."""
    config = settings.config
    timeout = config.aligned_checkpoint_timeout_s
    if not config.takes_unaligned_checkpoints or timeout <= 0:
        return
    field = "aligned_checkpoint_timeout_s"
    if timeout >= config.checkpoint_timeout_s:
        message = (
            f"is {format_duration(timeout)}, but by then the checkpoint has expired: its timeout is "
            f"{format_duration(config.checkpoint_timeout_s)}"
        )
        advice = "make it shorter than the checkpoint timeout"
        yield settings.remark("warning", "never-unaligned", field, message, advice)
    elif config.debloat_enabled and timeout < config.debloat_target_s:
        message = (
            f"is {format_duration(timeout)}, less than the debloat target of "
            f"{format_duration(config.debloat_target_s)}: each checkpoint under back-pressure becomes "
            "unaligned"
        )
        advice = "make it longer than the target times the number of exchanges on the way, or remove it"
        yield settings.remark("warning", "always-unaligned", field, message, advice)


def _times(settings: Settings) -> Iterator[LintRemark]:
    config = settings.config
    timeout, target = config.checkpoint_timeout_s, config.debloat_target_s
    if config.debloat_enabled and not config.takes_unaligned_checkpoints and 0 < timeout <= target:
        message = (
            f"is {format_duration(timeout)}, but a barrier may wait as long as the debloat target, "
            f"{format_duration(target)}: under back-pressure, hardly any checkpoint completes in time"
        )
        yield settings.remark("warning", "timeout-below-target", "checkpoint_timeout_s", message)
    interval, pause = config.checkpoint_interval_s, config.checkpoint_min_pause_s
    if interval is not None and pause > interval:
        message = (
            f"is {format_duration(pause)}, longer than the checkpoint interval of "
            f"{format_duration(interval)}, which therefore has no effect"
        )
        yield settings.remark("note", "pause-above-interval", "checkpoint_min_pause_s", message)
    if pause > 0 and config.max_concurrent_checkpoints > 1:
        message = (
            f"is {format_duration(pause)}, but {config.max_concurrent_checkpoints} checkpoints may run at "
            "once: the pause counts from the last completed one, so another one may be under way during it"
        )
        advice = f"set {settings.spelt('max_concurrent_checkpoints')} to 1, or remove the pause"
        yield settings.remark("warning", "pause-with-concurrent", "checkpoint_min_pause_s", message, advice)
    backlog = settings.others.get(_BACKLOG)
    if interval is not None and isinstance(backlog, int | float) and 0 < backlog < interval:
        message = f"must be 0 or at least the checkpoint interval, {format_duration(interval)}"
        yield settings.remark("error", "out-of-range", _BACKLOG, message)


def _storage(settings: Settings) -> Iterator[LintRemark]:
    config = settings.config
    if config.checkpoint_dir is not None and config.checkpoint_storage is CheckpointStorageType.JOBMANAGER:
        message = "contains only the metadata, since the checkpoint storage is jobmanager"
        yield settings.remark("note", "storage", "checkpoint_dir", message)


def _no_interval(settings: Settings) -> Iterator[LintRemark]:
    """Yield a note if no interval is set. That is no mistake, because the job's code may set it."""
    interval = "checkpoint_interval_s"
    has_interval = settings.gives(interval) or settings.is_unreadable(interval)
    if has_interval or not settings.gives("unaligned_enabled"):
        return
    message = "has an effect only if the job itself sets a checkpoint interval, since this file sets none"
    yield settings.remark("note", "no-interval", "unaligned_enabled", message)


def _bounds(settings: Settings) -> Iterator[LintRemark]:
    config = settings.config
    least, most = config.network_memory_min_bytes, config.network_memory_max_bytes
    if most is None:
        return
    if least > most:
        given = "" if settings.gives("network_memory_min_bytes") else ", its default"
        message = f"is {format_size(most)}, but the minimum is larger: {format_size(least)}{given}"
        advice = "Flink does not start with these values"
        yield settings.remark("error", "out-of-range", "network_memory_max_bytes", message, advice)
    elif least == most and settings.gives("network_memory_fraction"):
        message = f"has no effect: the minimum and the maximum are both {format_size(most)}"
        yield settings.remark("note", "fraction", "network_memory_fraction", message)


def _network_memory(settings: Settings) -> tuple[int, str] | None:
    """Return the bytes of network memory of a task manager, and the option that limits it; None: unknown.

    They follow from the size of the process or of Flink's memory as in TaskExecutorProcessUtils, with the
    defaults of the other parts, or else from the maximum of network memory.
    """
    config, most = settings.config, settings.config.network_memory_max_bytes
    process, flink = settings.whole(PROCESS_SIZE), settings.whole(FLINK_SIZE)
    limiting = FLINK_SIZE if flink is not None else PROCESS_SIZE
    if flink is None and process is not None:
        overhead = min(max(_OVERHEAD_SHARE * process, _OVERHEAD_BYTES[0]), _OVERHEAD_BYTES[1])
        flink = process - _METASPACE_BYTES - int(overhead)
    if flink is None:
        return None if most is None else (most, "network_memory_max_bytes")
    share = max(int(config.network_memory_fraction * flink), config.network_memory_min_bytes)
    return (share, limiting) if most is None or share < most else (most, "network_memory_max_bytes")


def _too_little(settings: Settings) -> Iterator[LintRemark]:
    """Yield a remark if the network memory is too small for one all-to-all exchange to start."""
    config, memory = settings.config, _network_memory(settings)
    parallelism = settings.whole(PARALLELISM)
    if memory is None or parallelism is None or config.segment_bytes <= 0:
        return
    there_bytes, limiting = memory
    slots = min(settings.whole(SLOTS) or 1, parallelism)
    gate, (partition, _) = _BUFFERS.gate(config, parallelism), _BUFFERS.pool(config, parallelism)
    of_subtask = parallelism * gate.exclusive_per_channel + gate.required_floating + partition
    needed, there = slots * of_subtask, there_bytes // config.segment_bytes
    if needed > there:
        is_maximum = limiting == "network_memory_max_bytes"
        leaves = "" if is_maximum else f"leaves {size(there_bytes)} of network memory, which "
        raised = "it" if is_maximum else settings.spelt("network_memory_min_bytes")
        advice = f"set {raised} to at least {format_size(needed * config.segment_bytes)}"
        message = (
            f"{leaves}has room for {there:,} buffers, but a single exchange between {parallelism} and "
            f"{parallelism} subtasks, with {slots} of each in a task manager, needs at least {needed:,} "
            "to start"
        )
        yield settings.remark("error", "too-little-memory", limiting, message, advice)


def _required(settings: Settings) -> Iterator[LintRemark]:
    config, parallelism = settings.config, settings.whole(PARALLELISM)
    most = config.max_required_buffers_per_gate
    if most is None or parallelism is None:
        return
    each = config.exclusive_buffers_per_channel
    left = _BUFFERS.gate(config, parallelism).exclusive_per_channel
    if left < each:
        message = (
            f"is {most}: with {parallelism} channels, each channel gets only {left} of its {each} "
            "exclusive buffers"
        )
        advice = f"to give each channel all of them, set it to {parallelism * each + 1}"
        yield settings.remark("note", "fewer-exclusive", "max_required_buffers_per_gate", message, advice)


def _counts(settings: Settings) -> Iterator[LintRemark]:
    """Yield unusual numbers of buffers in options that only Flink 1 reads."""
    config = settings.config
    most, each = config.max_buffers_per_channel, config.exclusive_buffers_per_channel
    if most == 1:
        message = "is 1, so no record is ever sent: the only buffer of a channel is the one being filled"
        advice = "set it to 10, the default"
        yield settings.remark("error", "no-buffers", "max_buffers_per_channel", message, advice)
    elif most < each:
        message = (
            f"is {most}, less than the {each} of buffers-per-channel: a channel cannot use all of its "
            "exclusive buffers"
        )
        yield settings.remark("warning", "no-buffers", "max_buffers_per_channel", message)
    if each == 0 and settings.gives("exclusive_buffers_per_channel"):
        message = "is 0, so a channel has to ask for its first buffer, which costs one more round trip"
        yield settings.remark("note", "no-exclusive", "exclusive_buffers_per_channel", message)


def _flushing(settings: Settings) -> Iterator[LintRemark]:
    config = settings.config
    if not settings.gives("buffer_timeout_interval_s"):
        return
    if not config.buffer_timeout_enabled:
        message = f"has no effect while {settings.spelt('buffer_timeout_enabled')} is false"
        yield settings.remark("warning", "no-flushing", "buffer_timeout_interval_s", message)
    elif config.buffer_timeout_interval_s == 0 and not config.debloat_enabled:
        message = "is 0, so each record is sent in a buffer of its own, which costs throughput"
        yield settings.remark("note", "each-record", "buffer_timeout_interval_s", message)


def _backoff(settings: Settings) -> Iterator[LintRemark]:
    first, most = settings.whole(f"{_BACKOFF}.initial"), settings.whole(f"{_BACKOFF}.max")
    if first is not None and most is not None and first > most:
        message = f"is {first} ms, longer than the maximum backoff of {most} ms"
        yield settings.remark("error", "out-of-range", f"{_BACKOFF}.initial", message)


_DEBLOATING = (_sizes, _threshold, _flushes, _inertia, _parallelism, _single_records)
_CHECKPOINTS = (_unaligned, _during_recovery, _aligned_timeout, _times, _storage, _no_interval)
_MEMORY = (_bounds, _too_little, _required, _counts, _flushing, _backoff)


def about_combinations(settings: Settings) -> Iterator[LintRemark]:
    """Yield the findings about combinations of options.

    If debloating is off, its settings only get a remark that they have no effect. Findings that rest on the
    default of an unreadable value are left out.
    """
    rules = _DEBLOATING if settings.config.debloat_enabled else (_off,)
    is_known = not settings.is_unreadable("debloat_enabled")
    for rule in (*(rules if is_known else ()), *_CHECKPOINTS, *_MEMORY):
        yield from rule(settings)
