"""The options of Flink's network layer and checkpoints: their names in all versions, and their syntax.

Options of the emulator are in `netstack.OPTIONS`. Flink's other options are listed here, so that they are not
taken for misspelt names. The first version of a name is from Flink's documentation and tickets. A name
without a first version exists in Flink 1.12 and all later versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from netstack import NEWEST_FLINK, OPTIONS, FlinkVersion, Kind, QuantityError

from ...base.errors import UsageError

FIRST_OF_1, LAST_OF_1 = FlinkVersion(1, 12), FlinkVersion(1, 20)
FIRST_OF_2 = FlinkVersion(2, 0)

STANDARD_YAML = FlinkVersion(1, 19)
"""The first version that reads config.yaml; earlier ones read flink-conf.yaml only."""

_DEBLOAT = "taskmanager.network.memory.buffer-debloat"
_CHECKPOINTS = "execution.checkpointing"
_BACKOFF = "restart-strategy.exponential-delay"
_HYBRID = "taskmanager.network.hybrid-shuffle"

_BY_VERSION: Mapping[FlinkVersion, tuple[str, ...]] = {
    FlinkVersion(1, 0): ("state.backend.fs.checkpointdir",),  # already an old name in 1.12
    FlinkVersion(1, 13): (
        *("state.checkpoint-storage", "state.storage.fs.memory-threshold"),
        *(f"{_BACKOFF}.{end}" for end in ("initial-backoff", "max-backoff", "backoff-multiplier")),
        *(f"{_BACKOFF}.{end}" for end in ("reset-backoff-threshold", "jitter-factor")),
    ),
    FlinkVersion(1, 14): (
        *(f"{_DEBLOAT}.{end}" for end in ("enabled", "period", "samples", "target", "threshold-percentages")),
        "taskmanager.memory.min-segment-size",
        f"{_CHECKPOINTS}.aligned-checkpoint-timeout",
        f"{_CHECKPOINTS}.checkpoints-after-tasks-finish.enabled",
    ),
    FlinkVersion(1, 15): ("taskmanager.network.max-num-tcp-connections",),
    FlinkVersion(1, 16): (
        "taskmanager.network.memory.max-overdraft-buffers-per-gate",
        "taskmanager.network.batch-shuffle.compression.enabled",
        f"{_HYBRID}.num-retained-in-memory-regions-max",
        *(f"{_HYBRID}.spill-index-{end}" for end in ("region-group-size", "segment-size")),
    ),
    FlinkVersion(1, 17): (
        "taskmanager.network.memory.read-buffer.required-per-gate.max",
        f"{_CHECKPOINTS}.unaligned.enabled",
        f"{_CHECKPOINTS}.unaligned.max-subtasks-per-channel-state-file",
        "restart-strategy.type",
        "state.backend.type",
    ),
    FlinkVersion(1, 18): (
        "execution.buffer-timeout.enabled",
        "execution.buffer-timeout.interval",
        f"{_HYBRID}.enable-new-mode",
    ),
    FlinkVersion(1, 19): (
        f"{_CHECKPOINTS}.interval-during-backlog",
        f"{_BACKOFF}.attempts-before-reset-backoff",
    ),
    FlinkVersion(1, 20): (
        *(f"{_CHECKPOINTS}.{end}" for end in ("dir", "storage", "savepoint-dir", "num-retained")),
        *(f"{_CHECKPOINTS}.{end}" for end in ("incremental", "data-inline-threshold", "write-buffer-size")),
        *(f"{_CHECKPOINTS}.{end}" for end in ("create-subdir", "cleaner.parallel-mode")),
        *(f"{_CHECKPOINTS}.local-backup.{end}" for end in ("dirs", "enabled")),
        *(f"{_CHECKPOINTS}.file-merging.{end}" for end in ("enabled", "pool-blocking", "max-file-size")),
        f"{_CHECKPOINTS}.file-merging.across-checkpoint-boundary",
        f"{_CHECKPOINTS}.file-merging.max-space-amplification",
        f"{_CHECKPOINTS}.file-merging.max-subtasks-per-file",
        f"{_CHECKPOINTS}.unaligned.interruptible-timers.enabled",
        f"{_CHECKPOINTS}.checkpoints-after-tasks-finish",
        "taskmanager.network.memory.buffers-request-timeout",
        *(f"state.changelog.{end}" for end in ("enabled", "storage", "max-failures-allowed")),
        *(f"state.changelog.periodic-materialize.{end}" for end in ("enabled", "interval")),
        f"{_HYBRID}.memory-decoupling.enabled",
        f"{_HYBRID}.external-remote-tier-factory.class",
    ),
    FlinkVersion(2, 0): ("taskmanager.memory.starting-segment-size",),
}
"""Names that are no options of scenarios, or whose first version decides nothing there."""

SINCE: Mapping[str, FlinkVersion] = {
    **{name: version for version, names in _BY_VERSION.items() for name in names},
    **{option.name: option.since for option in OPTIONS.values() if option.since is not None},
}
"""First version that reads each name. Names that are missing here are read by all versions."""

FAMILIES = (
    "taskmanager.network.",
    "taskmanager.memory.network.",
    "execution.checkpointing.",
    "execution.buffer-timeout",
)
"""Prefixes of option names. All of Flink's options with these prefixes are listed in this module."""

RENAMED: Mapping[str, str] = {
    **{former: option.name for option in OPTIONS.values() for former in option.former},
    # Names that scenario files do not accept, and old names that scenario files still use.
    "execution.checkpointing.alignment-timeout": "execution.checkpointing.aligned-checkpoint-timeout",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": (
        "execution.checkpointing.checkpoints-after-tasks-finish"
    ),
    "execution.checkpointing.unaligned": "execution.checkpointing.unaligned.enabled",
    "state.backend.fs.checkpointdir": "execution.checkpointing.dir",
    "state.backend.fs.memory-threshold": "execution.checkpointing.data-inline-threshold",
    "state.storage.fs.memory-threshold": "execution.checkpointing.data-inline-threshold",
    "taskmanager.network.blocking-shuffle.compression.enabled": (
        "taskmanager.network.batch-shuffle.compression.enabled"
    ),
    "taskmanager.network.memory.exclusive-buffers-request-timeout-ms": (
        "taskmanager.network.memory.buffers-request-timeout"
    ),
    "taskmanager.network.memory.fraction": "taskmanager.memory.network.fraction",
    "taskmanager.network.memory.max": "taskmanager.memory.network.max",
    "taskmanager.network.memory.min": "taskmanager.memory.network.min",
}
"""Former names of options, with the present name of each."""

REMOVED: Mapping[str, str] = {
    "taskmanager.network.credit-model": "flow control always uses credit",
    "taskmanager.network.numberOfBuffers": "set taskmanager.memory.network.min and .max instead",
}
"""Options that were removed without a replacement, each with advice."""

PARALLELISM = "parallelism.default"
SLOTS = "taskmanager.numberOfTaskSlots"
PROCESS_SIZE = "taskmanager.memory.process.size"
FLINK_SIZE = "taskmanager.memory.flink.size"

_COUNT = OPTIONS["floating_buffers_per_gate"].kind
_WHOLE = OPTIONS["exclusive_buffers_per_channel"].kind
_BOOLEAN = OPTIONS["debloat_enabled"].kind
_TEXT = OPTIONS["checkpoint_dir"].kind
_DURATION = OPTIONS["debloat_period_s"].kind
_SIZE = OPTIONS["segment_bytes"].kind

_MOST_INT = (1 << 31) - 1
_MOST_LONG = (1 << 63) - 1
_SHOWN = 40

_OTHER_KINDS = {
    PARALLELISM: _COUNT,
    SLOTS: _COUNT,
    PROCESS_SIZE: _SIZE,
    FLINK_SIZE: _SIZE,
    # In Flink's files, these two are whole milliseconds without a unit.
    "taskmanager.network.request-backoff.initial": _WHOLE,
    "taskmanager.network.request-backoff.max": _WHOLE,
    "taskmanager.network.detailed-metrics": _BOOLEAN,
    "taskmanager.network.partition-request-timeout": _DURATION,
    "execution.checkpointing.file-merging.enabled": _BOOLEAN,
    "execution.checkpointing.interval-during-backlog": _DURATION,
    "execution.checkpointing.unaligned.interruptible-timers.enabled": _BOOLEAN,
    "state.backend.type": _TEXT,  # Flink has more backends, and accepts any class
}

_UNCHECKED = (
    *("bind-policy", "compression.codec", "hybrid-shuffle.external-remote-tier-factory.class"),
    *("hybrid-shuffle.remote.path", "memory.buffers-request-timeout", "netty.client.connectTimeoutSec"),
    *("netty.client.tcp.keepCount", "netty.client.tcp.keepIdleSec", "netty.client.tcp.keepIntervalSec"),
    *("retries", "sort-shuffle.min-buffers", "tcp-connection.enable-reuse-across-jobs"),
)
"""Options below ``taskmanager.network.`` whose values are not checked."""

_UNCHECKED_OF_FLINK_1 = (
    *("batch-shuffle.compression.enabled", "blocking-shuffle.type", "hybrid-shuffle.enable-new-mode"),
    *("hybrid-shuffle.memory-decoupling.enabled", "hybrid-shuffle.num-retained-in-memory-regions-max"),
    *("hybrid-shuffle.spill-index-region-group-size", "hybrid-shuffle.spill-index-segment-size"),
    *("max-num-tcp-connections", "netty.client.numThreads", "netty.num-arenas"),
    *("netty.sendReceiveBufferSize", "netty.server.backlog", "netty.server.numThreads"),
    *("netty.transport", "sort-shuffle.min-parallelism"),
)
"""Unchecked options that Flink 2 removed."""

_UNCHECKED_OF_CHECKPOINTS = (
    *("cleaner.parallel-mode", "create-subdir", "externalized-checkpoint-retention"),
    *("file-merging.across-checkpoint-boundary", "file-merging.max-file-size", "file-merging.pool-blocking"),
    *("file-merging.max-space-amplification", "file-merging.max-subtasks-per-file", "force"),
    *("local-backup.dirs", "local-backup.enabled", "prefer-checkpoint-for-recovery", "region.enabled"),
    *("recover-without-channel-state.checkpoint-id", "region.max-consecutive-failures"),
    *("region.max-failure-ratio", "snapshot-compression", "write-buffer-size"),
)


_NEIGHBOURS = frozenset(
    (
        *("heartbeat.interval", "heartbeat.rpc-failure-threshold"),
        *(f"taskmanager.memory.managed.{end}" for end in ("fraction", "size", "consumer-weights")),
        *(f"taskmanager.memory.jvm-overhead.{end}" for end in ("fraction", "min", "max")),
        *(f"taskmanager.memory.{end}" for end in ("jvm-metaspace.size",)),
        *(f"taskmanager.memory.task.{end}" for end in ("heap.size", "off-heap.size")),
        *(f"taskmanager.memory.framework.{end}" for end in ("heap.size", "off-heap.size")),
    )
)
"""Unchecked options of Flink with similar names. `nearest` does not take them for misspelt names."""


class Known(NamedTuple):
    """An option that Flink has or had."""

    name: str
    """Present name of the option."""
    field: str | None
    """The option's field in `NetworkConfig`, if the emulator knows it."""
    only_1x: bool = False
    """Whether Flink 2 has removed it."""

    def is_removed_in(self, version: FlinkVersion) -> bool:
        """Return whether a version no longer has the option."""
        return self.only_1x and version >= FIRST_OF_2

    def name_in(self, version: FlinkVersion) -> str | None:
        """Return the newest name that a version reads for the option; None: the version lacks the option."""
        if self.is_removed_in(version):
            return None
        older = sorted(
            (name for name, now in RENAMED.items() if now == self.name), key=_first_read, reverse=True
        )
        return next((name for name in (self.name, *older) if is_read(name, version)), None)


def _catalogue() -> dict[str, Known]:
    names = [f"taskmanager.network.{end}" for end in _UNCHECKED]
    names += [f"execution.checkpointing.{end}" for end in _UNCHECKED_OF_CHECKPOINTS]
    catalogue = {name: Known(name, None) for name in (*names, *_OTHER_KINDS)}
    for end in _UNCHECKED_OF_FLINK_1:
        name = f"taskmanager.network.{end}"
        catalogue[name] = Known(name, None, only_1x=True)
    for field, option in OPTIONS.items():
        now = RENAMED.get(option.name, option.name)
        catalogue[now] = Known(now, field, option.only_1x)
    for old, now in RENAMED.items():
        catalogue[old] = catalogue.setdefault(now, Known(now, None))
    return catalogue


CATALOGUE: Mapping[str, Known] = _catalogue()
"""All known options, by each of their names."""


def kind_of(known: Known) -> Kind | None:
    """Return the syntax of an option's values; None: unknown."""
    kind = _OTHER_KINDS.get(known.name)
    return OPTIONS[known.field].kind if kind is None and known.field is not None else kind


def parse(known: Known, text: str) -> object:
    """Return the value of an option; the text itself if its syntax is unknown.

    Raises:
        QuantityError: Flink would reject the value.
    """
    kind = kind_of(known)
    if kind is None:
        return text
    try:
        value = kind.parse(text)
    except QuantityError:
        raise
    except ValueError:  # digits that int() rejects: superscripts, or thousands of digits
        raise QuantityError(f"{_short(text)!r} is not a number", "a whole number") from None
    # Flink's options are Java's int and long.
    number = value if isinstance(value, int | float) else 0
    if kind in (_COUNT, _WHOLE) and number > _MOST_INT:
        raise QuantityError(f"{_short(text)!r} is too large", f"at most {_MOST_INT}")
    if kind is _SIZE and number > _MOST_LONG:
        raise QuantityError(f"{_short(text)!r} is too large", f"less than {(_MOST_LONG >> 40) + 1} tb")
    if kind is _DURATION and number > _MOST_LONG / 1e3:
        raise QuantityError(f"{_short(text)!r} is too large", f"at most {_MOST_LONG} ms")
    return value


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def is_of_family(name: str) -> bool:
    """Return whether the name starts with a prefix in `FAMILIES`."""
    return name.startswith(FAMILIES)


def is_read(name: str, version: FlinkVersion) -> bool:
    """Return whether a version already knows this name of an option."""
    return _first_read(name) <= version


def _first_read(name: str) -> FlinkVersion:
    return SINCE.get(name, FIRST_OF_1)


def read_version(text: str, given_by: str) -> FlinkVersion:
    """Return the version that a text such as "2.2", "1.20.1" or "2" names.

    `given_by` names the origin of the text in errors.

    Raises:
        UsageError: the text is no version, or the rules of this version are not known.
    """
    match = re.fullmatch(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?(?:\.[0-9]{1,4})?", text)
    if match is not None:
        last = LAST_OF_1 if match[1] == "1" else NEWEST_FLINK
        version = FlinkVersion(int(match[1]), last.minor if match[2] is None else int(match[2]))
        if FIRST_OF_1 <= version <= LAST_OF_1 or FIRST_OF_2 <= version <= NEWEST_FLINK:
            return version
    raise UsageError(
        [
            f"{given_by} is {text!r}; it must be from {FIRST_OF_1} to {LAST_OF_1}, or from {FIRST_OF_2} "
            f"to {NEWEST_FLINK}"
        ]
    )


def nearest(name: str, only_close: bool = False, version: FlinkVersion = NEWEST_FLINK) -> list[str]:
    """Return the options of a version that a misspelt name may mean, usually one.

    Candidates, in this order: names that end with the misspelt name; a similar name; a name that extends the
    misspelt name or is a prefix of it; a name of the same family with a similar end. With `only_close`, only
    the first two kinds count.
    """
    if name in _NEIGHBOURS:
        return []
    names = sorted({now for known in CATALOGUE.values() if (now := known.name_in(version)) is not None})
    if ends := [each for each in names if each.endswith(f".{name}")]:
        return ends[:3]
    if close := get_close_matches(name, names, n=1, cutoff=0.92):
        return close
    if only_close:
        return []
    if continued := [each for each in names if _continues(name, each) or _continues(each, name)]:
        return [max(continued, key=len)]
    parent = name.rpartition(".")[0]
    siblings = [each for each in names if each.rpartition(".")[0] == parent]
    family = next((each for each in FAMILIES if name.startswith(each)), "")
    return _with_similar_end(name, f"{parent}.", siblings, 0.5) or _with_similar_end(name, family, names, 0.6)


def _with_similar_end(name: str, beginning: str, names: Iterable[str], cutoff: float) -> list[str]:
    """Return the one of the names with this beginning whose end is most similar to that of `name`."""
    ends = [each.removeprefix(beginning) for each in names if each.startswith(beginning)]
    close = get_close_matches(name.removeprefix(beginning), ends, n=1, cutoff=cutoff)
    return [beginning + end for end in close]


def _continues(longer: str, shorter: str) -> bool:
    return is_of_family(shorter) and longer.startswith((f"{shorter}-", f"{shorter}."))
