"""Flink's options and their presets, and the debloating policy.

Names carry their units: ``_s`` is seconds, ``_bytes`` bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from flowcontrol import MAX_REQUEST_BACKOFF_S, DebloatSettings

from ..errors import QuantityError
from .checkpoint_modes import BarrierMode, CheckpointMode, barrier_mode
from .tables import Alternative, Key, Section, described, object_shape, said_in_files
from .unit_texts import parse_flink_duration
from .value_kinds import (
    BOOLEAN,
    COUNT,
    DURATION,
    FRACTION,
    NUMBER,
    SIZE,
    STRING,
    TEXT,
    WHOLE,
    FlinkVersion,
    Kind,
    Option,
    Shape,
    Subsystem,
    any_of,
    choice,
    option,
    options_of,
    reference,
    table,
    unit_notice,
)

__all__ = [
    "DEFAULT_PRESET",
    "NEWEST_FLINK",
    "OPTIONS",
    "PRESETS",
    "ChangelogStorage",
    "CheckpointStorageType",
    "FailoverStrategy",
    "NetworkConfig",
    "RestartStrategy",
    "StateBackendType",
    "preset_for",
    "read_options",
    "split_assignment",
    "version_of",
    "with_options",
]

_SIZES = DebloatSettings()
"""Defaults of the options for segments and debloating."""


class RestartStrategy(StrEnum):
    """Reaction to the failure of a task: the end of the job, or a restart after a delay."""

    NONE = "none"
    FIXED_DELAY = "fixed-delay"
    EXPONENTIAL_DELAY = "exponential-delay"
    FAILURE_RATE = "failure-rate"


class FailoverStrategy(StrEnum):
    """The tasks that restart with a failed task: all tasks connected with it, or the whole job."""

    REGION = "region"
    FULL = "full"


class CheckpointStorageType(StrEnum):
    """Storage of completed checkpoints: the memory of the job manager, or files."""

    JOBMANAGER = "jobmanager"
    FILESYSTEM = "filesystem"


class StateBackendType(StrEnum):
    """Storage of keyed state: objects in memory, or RocksDB."""

    HASHMAP = "hashmap"
    ROCKSDB = "rocksdb"


class ChangelogStorage(StrEnum):
    """Storage of the changelog of keyed state: inside the tasks' acknowledgements (MEMORY), or in files."""

    MEMORY = "memory"
    FILESYSTEM = "filesystem"


_CHANGELOG = choice(ChangelogStorage)
_MODE = choice(CheckpointMode)
_RESTART_ALIASES = {"disable": "none", "off": "none"} | {
    strategy.replace("-", ""): strategy.value for strategy in RestartStrategy
}
_RESTART = choice(RestartStrategy, _RESTART_ALIASES)
_FAILOVER = choice(FailoverStrategy)
_STORAGE = choice(CheckpointStorageType)
_BACKEND = choice(StateBackendType, {"filesystem": "hashmap", "jobmanager": "hashmap"})


def _flush_interval(value: object) -> float:
    try:
        return parse_flink_duration(value)
    except QuantityError as error:
        if not str(value).strip().startswith("-"):
            raise
        no_flushing = "to send a buffer only when it is full, set execution.buffer-timeout.enabled to false"
        raise QuantityError(error.wrong, f"{error.right}; {no_flushing}") from None


_FLUSH_INTERVAL = replace(DURATION, parse=_flush_interval)
"""Kind of the buffer timeout. Flink's Java interface takes -1 for no flushing, and its files do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Flink's options of the network layer and of checkpoints, one field for each, and the debloating policy.

    The defaults are those of the preset ``flink-2.3``; see `PRESETS` for the others. `OPTIONS` maps a field
    to its option. An option that is ``inert`` is read and kept, but has no effect. `given` holds the fields
    that were set explicitly and not taken from the preset.
    """

    segment_bytes: int = option("taskmanager.memory.segment-size", SIZE, _SIZES.max_size)
    min_segment_bytes: int = option("taskmanager.memory.min-segment-size", SIZE, _SIZES.min_size)
    starting_segment_bytes: int = option(
        "taskmanager.memory.starting-segment-size", SIZE, _SIZES.starting_size
    )
    network_memory_fraction: float = option("taskmanager.memory.network.fraction", FRACTION, 0.1, inert=True)
    network_memory_min_bytes: int = option("taskmanager.memory.network.min", SIZE, 64 << 20, inert=True)
    network_memory_max_bytes: int | None = option(
        "taskmanager.memory.network.max",
        SIZE,
        None,
        "Network memory of each task manager; None: as much as its buffer pools can use.",
    )
    exclusive_buffers_per_channel: int = option(
        "taskmanager.network.memory.buffers-per-channel", WHOLE, 2, only_1x=True
    )
    floating_buffers_per_gate: int = option(
        "taskmanager.network.memory.floating-buffers-per-gate", COUNT, 8, only_1x=True
    )
    max_buffers_per_channel: int = option(
        "taskmanager.network.memory.max-buffers-per-channel", COUNT, 10, only_1x=True
    )
    max_overdraft_buffers_per_gate: int = option(
        "taskmanager.network.memory.max-overdraft-buffers-per-gate", WHOLE, 20, only_1x=True
    )
    max_required_buffers_per_gate: int | None = option(
        "taskmanager.network.memory.read-buffer.required-per-gate.max",
        COUNT,
        None,
        "Maximum number of buffers that a gate may require; None: no limit, as in a streaming job.",
    )
    request_backoff_initial_s: float = option(
        "taskmanager.network.request-backoff.initial", DURATION, 0.1, inert=True
    )
    request_backoff_max_s: float = option(
        "taskmanager.network.request-backoff.max", DURATION, MAX_REQUEST_BACKOFF_S
    )
    debloat_enabled: bool = option(
        "taskmanager.network.memory.buffer-debloat.enabled", BOOLEAN, False, changed_in=Subsystem.DEBLOATING
    )
    debloat_period_s: float = option(
        "taskmanager.network.memory.buffer-debloat.period", DURATION, _SIZES.period_s
    )
    debloat_target_s: float = option(
        "taskmanager.network.memory.buffer-debloat.target",
        DURATION,
        _SIZES.target_s,
        changed_in=Subsystem.DEBLOATING,
    )
    debloat_samples: int = option(
        "taskmanager.network.memory.buffer-debloat.samples",
        COUNT,
        _SIZES.samples,
        changed_in=Subsystem.DEBLOATING,
    )
    debloat_threshold_percent: int = option(
        "taskmanager.network.memory.buffer-debloat.threshold-percentages",
        WHOLE,
        _SIZES.threshold_percent,
        changed_in=Subsystem.DEBLOATING,
    )
    adaptive_partitioner_enabled: bool = option(
        "taskmanager.network.adaptive-partitioner.enabled",
        BOOLEAN,
        False,
        "Whether rebalance and rescale choose the least loaded of a few subpartitions for each record.",
        since=FlinkVersion(2, 3),
        changed_in=Subsystem.PARTITION_SELECTION,
    )
    adaptive_partitioner_max_traverse_size: int = option(
        "taskmanager.network.adaptive-partitioner.max-traverse-size",
        COUNT,
        4,
        "Number of subpartitions that are compared for each record, at least 2.",
        since=FlinkVersion(2, 3),
    )
    buffer_timeout_enabled: bool = option("execution.buffer-timeout.enabled", BOOLEAN, True)
    buffer_timeout_interval_s: float = option(
        "execution.buffer-timeout.interval", _FLUSH_INTERVAL, 0.1, former=("execution.buffer-timeout",)
    )
    auto_watermark_interval_s: float = option(
        "pipeline.auto-watermark-interval",
        DURATION,
        0.2,
        "Time between two watermarks of a source; 0: no watermarks.",
    )
    checkpoint_interval_s: float | None = option(
        "execution.checkpointing.interval",
        DURATION,
        None,
        "Time between two triggers; None: no checkpoints.",
        changed_in=Subsystem.CHECKPOINTS,
    )
    checkpoint_mode: CheckpointMode = option(
        "execution.checkpointing.mode", _MODE, CheckpointMode.EXACTLY_ONCE
    )
    checkpoint_timeout_s: float = option(
        "execution.checkpointing.timeout", DURATION, 600.0, changed_in=Subsystem.CHECKPOINTS
    )
    checkpoint_min_pause_s: float = option(
        "execution.checkpointing.min-pause", DURATION, 0.0, changed_in=Subsystem.CHECKPOINTS
    )
    max_concurrent_checkpoints: int = option("execution.checkpointing.max-concurrent-checkpoints", COUNT, 1)
    tolerable_failed_checkpoints: int = option(
        "execution.checkpointing.tolerable-failed-checkpoints",
        WHOLE,
        0,
        "Number of checkpoints that may fail in a row before the job fails.",
    )
    unaligned_enabled: bool = option(
        "execution.checkpointing.unaligned.enabled", BOOLEAN, False, changed_in=Subsystem.CHECKPOINTS
    )
    unaligned_forced: bool = option("execution.checkpointing.unaligned.forced", BOOLEAN, False, inert=True)
    aligned_checkpoint_timeout_s: float = option(
        "execution.checkpointing.aligned-checkpoint-timeout",
        DURATION,
        0.0,
        "Time after which barriers of an unaligned checkpoint overtake data; 0: at once.",
        changed_in=Subsystem.CHECKPOINTS,
    )
    max_subtasks_per_channel_state_file: int = option(
        "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file", WHOLE, 5, inert=True
    )
    recover_output_on_downstream: bool = option(
        "execution.checkpointing.unaligned.recover-output-on-downstream.enabled",
        BOOLEAN,
        False,
        "Whether the in-flight data of outputs is restored at the consumers.",
        since=FlinkVersion(2, 3),
    )
    checkpoints_during_recovery: bool = option(
        "execution.checkpointing.unaligned.during-recovery.enabled",
        BOOLEAN,
        False,
        "Whether checkpoints are taken before the restored in-flight data has been read.",
        since=FlinkVersion(2, 3),
    )
    checkpoints_after_tasks_finish: bool = option(
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled", BOOLEAN, True
    )
    changelog_enabled: bool = option(
        "state.changelog.enabled",
        BOOLEAN,
        False,
        "Whether checkpoints store the changes of keyed state instead of the state.",
        former=("state.backend.changelog.enabled",),
    )
    changelog_storage: ChangelogStorage = option(
        "state.changelog.storage",
        _CHANGELOG,
        ChangelogStorage.MEMORY,
        former=("state.backend.changelog.storage",),
    )
    materialize_enabled: bool = option(
        "state.changelog.periodic-materialize.enabled",
        BOOLEAN,
        True,
        former=("state.backend.changelog.periodic-materialize.enabled",),
    )
    materialize_interval_s: float = option(
        "state.changelog.periodic-materialize.interval",
        DURATION,
        600.0,
        "Time from the end of one materialisation to the next; 0: no materialisation.",
        former=("state.backend.changelog.periodic-materialize.interval",),
    )
    materialize_max_failures: int = option(
        "state.changelog.max-failures-allowed",
        WHOLE,
        3,
        "Number of materialisations that may fail in a row before the task fails.",
        former=("state.backend.changelog.max-failures-allowed",),
    )
    retained_checkpoints: int = option(
        "execution.checkpointing.num-retained", COUNT, 1, former=("state.checkpoints.num-retained",)
    )
    state_memory_threshold_bytes: int = option(
        "state.storage.fs.memory-threshold",
        SIZE,
        20 << 10,
        "State of at most this size is stored in the metadata instead of a file.",
    )
    checkpoint_dir: str | None = option(
        "execution.checkpointing.dir",
        TEXT,
        None,
        "Path or URI of checkpoints; None: no checkpoint is written to files.",
        former=("state.checkpoints.dir",),
    )
    savepoint_dir: str | None = option(
        "execution.checkpointing.savepoint-dir",
        TEXT,
        None,
        "Path or URI of savepoints; None: beside the checkpoints.",
        former=("state.savepoints.dir",),
    )
    checkpoint_storage: CheckpointStorageType | None = option(
        "execution.checkpointing.storage",
        _STORAGE,
        None,
        "Kind of checkpoint storage; None: files if a checkpoint directory is set, else memory.",
        former=("state.checkpoint-storage",),
    )
    state_backend: StateBackendType = option(
        "state.backend.type", _BACKEND, StateBackendType.HASHMAP, former=("state.backend",)
    )
    incremental_checkpoints: bool = option(
        "execution.checkpointing.incremental",
        BOOLEAN,
        False,
        "Whether a checkpoint stores only files that no earlier checkpoint has; no effect with hashmap.",
        former=("state.backend.incremental",),
    )
    rocksdb_write_buffer_bytes: int = option("state.backend.rocksdb.writebuffer.size", SIZE, 64 << 20)
    rocksdb_target_file_bytes: int = option(
        "state.backend.rocksdb.compaction.level.target-file-size-base", SIZE, 64 << 20
    )
    rocksdb_level_base_bytes: int = option(
        "state.backend.rocksdb.compaction.level.max-size-level-base", SIZE, 256 << 20
    )
    rocksdb_block_bytes: int = option("state.backend.rocksdb.block.blocksize", SIZE, 4 << 10)
    rocksdb_localdir: str | None = option(
        "state.backend.rocksdb.localdir",
        TEXT,
        None,
        "Folder of RocksDB's files while a job runs; None: a temporary folder.",
    )
    restart_strategy: RestartStrategy | None = option(
        "restart-strategy.type",
        _RESTART,
        None,
        "Restart strategy; None: exponential-delay if the job takes checkpoints, else no restart.",
        former=("restart-strategy",),
    )
    restart_attempts: int = option("restart-strategy.fixed-delay.attempts", COUNT, 1)
    restart_delay_s: float = option("restart-strategy.fixed-delay.delay", DURATION, 1.0)
    restart_initial_backoff_s: float = option(
        "restart-strategy.exponential-delay.initial-backoff", DURATION, 1.0
    )
    restart_max_backoff_s: float = option("restart-strategy.exponential-delay.max-backoff", DURATION, 60.0)
    restart_backoff_multiplier: float = option(
        "restart-strategy.exponential-delay.backoff-multiplier", NUMBER, 1.5
    )
    restart_reset_backoff_threshold_s: float = option(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        DURATION,
        3600.0,
        "Time that a job must run without a failure until the restart delay returns to its initial value.",
    )
    restart_jitter_factor: float = option("restart-strategy.exponential-delay.jitter-factor", NUMBER, 0.1)
    restart_attempts_before_reset: int | None = option(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        COUNT,
        None,
        "Maximum number of restarts before the delay is reset; None: no limit.",
    )
    restart_max_failures_per_interval: int = option(
        "restart-strategy.failure-rate.max-failures-per-interval", COUNT, 1
    )
    restart_failure_rate_interval_s: float = option(
        "restart-strategy.failure-rate.failure-rate-interval", DURATION, 60.0
    )
    restart_failure_rate_delay_s: float = option("restart-strategy.failure-rate.delay", DURATION, 1.0)
    failover_strategy: FailoverStrategy = option(
        "jobmanager.execution.failover-strategy",
        _FAILOVER,
        FailoverStrategy.REGION,
        "Tasks that restart with a failed task: the tasks of its pipelined region, or all tasks.",
    )
    heartbeat_timeout_s: float = option(
        "heartbeat.timeout",
        DURATION,
        50.0,
        "Time for which a task manager may be unreachable before its tasks fail.",
    )
    debloat_policy: str = dataclasses.field(default="flink", metadata={"changed_in": Subsystem.DEBLOATING})
    """Debloating policy, no option of Flink: a name in `flowcontrol.POLICIES` or "package.module:Class"."""
    given: frozenset[str] = dataclasses.field(default=frozenset(), compare=False)

    @property
    def buffer_timeout_s(self) -> float | None:
        """Time between two flushes of unfinished buffers; 0: after each record; None: no flushes."""
        return self.buffer_timeout_interval_s if self.buffer_timeout_enabled else None

    @property
    def barrier_mode(self) -> BarrierMode:
        """The way in which barriers pass tasks."""
        return barrier_mode(
            self.checkpoint_mode,
            unaligned=self.unaligned_enabled,
            timeout_s=self.aligned_checkpoint_timeout_s,
        )

    @property
    def takes_unaligned_checkpoints(self) -> bool:
        """Whether barriers may overtake data."""
        return self.barrier_mode.overtakes

    @property
    def stores_checkpoints_in_files(self) -> bool:
        """Whether checkpoints are written below `checkpoint_dir`."""
        if self.checkpoint_storage is None:
            return self.checkpoint_dir is not None
        return self.checkpoint_storage is CheckpointStorageType.FILESYSTEM

    @property
    def materializes(self) -> bool:
        """Whether state with a changelog is materialised periodically."""
        return self.materialize_enabled and self.materialize_interval_s > 0

    def restart_strategy_for(self, *, takes_checkpoints: bool) -> RestartStrategy:
        """Return the configured strategy, or the default of Flink since 1.19."""
        if self.restart_strategy is not None:
            return self.restart_strategy
        return RestartStrategy.EXPONENTIAL_DELAY if takes_checkpoints else RestartStrategy.NONE


OPTIONS: Mapping[str, Option] = options_of(NetworkConfig)
"""The option of each field of `NetworkConfig`."""

CHANGEABLE: Mapping[str, Subsystem] = {
    field.name: subsystem
    for field in dataclasses.fields(NetworkConfig)
    if (subsystem := field.metadata.get("changed_in")) is not None
}
"""The fields of `NetworkConfig` that may change while a job runs, and the part of the job that obeys each."""

_FIELDS = {name: field for field, option in OPTIONS.items() for name in (option.name, *option.former)}
"""The field of each option, by all its names."""

PRESETS: Mapping[str, NetworkConfig] = {
    "flink-2.3": NetworkConfig(),
    "flink-2.2": NetworkConfig(),
    # This version has no option for the starting size: debloating begins with whole segments.
    "flink-1.20": NetworkConfig(max_overdraft_buffers_per_gate=5, starting_segment_bytes=_SIZES.max_size),
}
"""The defaults of each version of Flink, newest first."""

DEFAULT_PRESET = next(iter(PRESETS))
NEWEST_FLINK = FlinkVersion(*map(int, DEFAULT_PRESET.removeprefix("flink-").split(".")))
"""The newest version that netstack knows."""


def version_of(text: str) -> FlinkVersion:
    """Return the version in a text such as "2.2.1" or "flink-2.2"; a text without numbers: the newest."""
    return FlinkVersion.read(text) or NEWEST_FLINK


def preset_for(version: str) -> str:
    """Return the preset with the defaults of a version of Flink such as 2.1.0, or the nearest preset.

    A version between two presets gets the older one. A version older than the first preset of its major
    version gets that first preset. A version without numbers counts as the newest.
    """
    wanted = version_of(version)
    presets = {name: version_of(name) for name in PRESETS}
    of_major = [name for name in presets if presets[name].major == wanted.major]
    own = of_major or [name for name in presets if presets[name] <= wanted] or list(presets)
    return next((name for name in own if presets[name] <= wanted), own[-1])


def with_options(base: NetworkConfig, values: Mapping[str, object]) -> NetworkConfig:
    """Return `base` with the given values; the names of these fields are added to the field `given`."""
    return dataclasses.replace(base, **values, given=base.given | values.keys())  # type: ignore[arg-type]


def read_options(section: Section, preset: NetworkConfig) -> NetworkConfig:
    """Return a preset with the Flink options in a section.

    Mistakes, and times and sizes without a unit, are reported to the section.
    """
    values: dict[str, object] = {}
    for name, value in _flat(section.values):
        field = _FIELDS.get(name)
        if field is None:
            section.complain(name, f"no version of Flink that netstack knows has this option; {_meant(name)}")
            continue
        if field in values:
            section.complain(
                name, f"is another name of {OPTIONS[field].name}, which is given too; remove one of the two"
            )
        try:
            values[field] = OPTIONS[field].kind.parse(value)
        except QuantityError as error:
            section.complain(name, f"{error.wrong}; it must be {error.right}")
            continue
        notice = unit_notice(OPTIONS[field].kind, value)
        if notice is not None:
            section.notices.append(f"{section.path}{name}: {notice}")
    return with_options(preset, values)


def split_assignment(text: str) -> tuple[str, str] | None:
    """Split a text OPTION=VALUE into name and value, without blanks; None if it has no "="."""
    name, equals, value = text.partition("=")
    return (name.strip(), value.strip()) if equals else None


def _meant(name: str) -> str:
    """Return a suggestion for an unknown name: an option that ends with this name, or has a similar name."""
    ends = [option for option in _FIELDS if option.endswith(f".{name}")]
    if ends:
        return f"did you mean {' or '.join(map(repr, ends))}?"
    close = get_close_matches(name, list(_FIELDS), n=1)
    return f"did you mean {close[0]!r}?" if close else "use the option names of Flink's documentation"


def _flat(values: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Return the options by their full names: TOML reads the dots of unquoted names as nested tables."""
    options: list[tuple[str, object]] = []
    for part, value in values.items():
        name = prefix + part
        options += _flat(value, f"{name}.") if isinstance(value, Mapping) and value else [(name, value)]
    return options


def option_values(config: NetworkConfig, preset: NetworkConfig) -> dict[str, Any]:
    """Return the options that were given or differ from the preset, in the form that documents use."""
    return {
        option.name: option.kind.render(value)
        for field, option in OPTIONS.items()
        if (value := getattr(config, field)) is not None
        and (field in config.given or value != getattr(preset, field))
    }


_OPTIONS_KEY = "flink"
FLINK_OPTIONS = Kind(table, lambda config: {}, reference(_OPTIONS_KEY))
"""Table of options that override a preset, read by `read_options` and written by `option_values`."""

POLICY = Key(
    name="policy",
    kind=STRING,
    default=None,
    doc='Debloating policy: a name, or "package.module:Class"; absent: "flink", or in a change as before.',
)
"""The key for `NetworkConfig.debloat_policy`, which is not an option of Flink."""


def option_definitions() -> dict[str, Shape]:
    """Return the JSON Schemas of option tables by name; TOML reads dots of unquoted names as tables."""
    tables = dict.fromkeys(each for name in _FIELDS for each in _tables_in(name))
    return {_OPTIONS_KEY: _options_shape("")} | {each: _options_shape(f"{each}.") for each in tables}


def _options_shape(prefix: str) -> Shape:
    """Return the schema of the options whose names begin with `prefix`, by full name or as nested tables."""
    shapes: dict[str, list[Shape]] = {
        name.removeprefix(prefix): [described(OPTIONS[field].kind.shape, _description(field))]
        for name, field in _FIELDS.items()
        if name.startswith(prefix)
    }
    for each in dict.fromkeys(each for name in shapes for each in _tables_in(name)):
        shapes.setdefault(each, []).append(reference(f"{prefix}{each}"))
    return object_shape(Alternative({name: any_of(*each) for name, each in shapes.items()}))


def _description(field: str) -> str:
    """Return the meaning of an option, if it is declared, and the default."""
    option = OPTIONS[field]
    defaults = {preset: getattr(config, field) for preset, config in PRESETS.items()}
    texts = {
        preset: "none" if value is None else str(option.kind.render(value))
        for preset, value in defaults.items()
    }
    first, *others = set(texts.values())
    said = ", ".join(f"{text} in {name}" for name, text in texts.items()) if others else first
    return " ".join(filter(None, (said_in_files(option.doc), f"Default: {said}.")))


def _tables_in(name: str) -> Iterable[str]:
    """Return the tables that may contain an option: "a" and "a.b" for "a.b.c"."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]
