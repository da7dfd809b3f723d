"""Options of an imported job: the cluster's, the job's own, and the user's overrides."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

from netstack import (
    OPTIONS,
    PRESETS,
    FlinkVersion,
    NetworkConfig,
    QuantityError,
    Section,
    preset_for,
    read_options,
    with_options,
)

from ...base.errors import FlinkRestError, Note, Parameter, ParameterName, UsageError
from ..read.job import FlinkJob
from .union_or_join import InputKind, kind_by_name

EVERYWHERE = ""
"""Key of an override that applies to all vertices of its kind."""

T = TypeVar("T")

_NOT_IMPORTED = frozenset(
    {
        "network_memory_fraction",
        "network_memory_min_bytes",
        "network_memory_max_bytes",
        "checkpoint_dir",
        "checkpoint_storage",
        "retained_checkpoints",
    }
) | {
    field
    for field, option in OPTIONS.items()
    if option.name.startswith(("restart-strategy.", "state.backend.", "execution.checkpointing.incremental"))
}
"""Fields that an import leaves out, because its scenario has no state and no memory budget of its own."""

_CHECKPOINTING: Mapping[str, str] = {
    "mode": "checkpoint_mode",
    "interval": "checkpoint_interval_s",
    "timeout": "checkpoint_timeout_s",
    "min_pause": "checkpoint_min_pause_s",
    "max_concurrent": "max_concurrent_checkpoints",
    "tolerable_failed_checkpoints": "tolerable_failed_checkpoints",
    "unaligned_checkpoints": "unaligned_enabled",
    "aligned_checkpoint_timeout": "aligned_checkpoint_timeout_s",
    "checkpoints_after_tasks_finish": "checkpoints_after_tasks_finish",
}
"""Field for each key of ``/jobs/ID/checkpoints/config``, whose times are in milliseconds."""

_NEVER_MS = 1 << 62
"""An interval of this many ms or more means that checkpoints are off."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """User values that replace reported ones, by a vertex's name in the scenario or by `EVERYWHERE`."""

    record_bytes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Bytes of a source's records, without their length field."""
    service_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Seconds per record in all subtasks of a vertex with input."""
    rate: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Records per second of each subtask of a source, 0: as fast as possible."""
    service_mode: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Service mode (of `SERVICE_MODES`) of a vertex with input. "burn" is for CPU-bound work."""
    inputs: Mapping[str, InputKind] = dataclasses.field(default_factory=dict)
    """Kind of the inputs ("union" or "join") of a vertex that reads several exchanges."""
    cores: float | None = None
    """Cores of each machine."""
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Options of Flink by their names."""
    latency_s: float = 0.0
    """Latency of the network between task managers, which Flink does not measure."""


def of_vertex(values: Mapping[str, T], name: str) -> T | None:
    """Return the override for a vertex, or the one for all vertices; None: there is none."""
    return values.get(name, values.get(EVERYWHERE))


def input_kinds(job: FlinkJob, given: Overrides) -> dict[str, InputKind | None]:
    """Return the kind of the inputs of each vertex that reads several exchanges, by its name.

    The override decides, then the name of the vertex's first operator. None: neither does.
    """
    kinds: dict[str, InputKind | None] = {}
    for vertex in job.vertices:
        if len(job.inputs(vertex)) > 1:
            name = job.names[vertex.id]
            kinds[name] = of_vertex(given.inputs, name) or kind_by_name(vertex)
    return kinds


def check_names(given: Overrides, job: FlinkJob) -> None:
    """Reject overrides for vertices that do not exist or are of the wrong kind, such as the rate of a sink.

    Raises:
        FlinkRestError: with a line for each such override.
    """
    sources = [job.names[vertex.id] for vertex in job.vertices if not job.inputs(vertex)]
    others = [name for name in job.names.values() if name not in sources]
    several = [job.names[vertex.id] for vertex in job.vertices if len(job.inputs(vertex)) > 1]
    kinds: tuple[tuple[ParameterName, Mapping[str, object], list[str], str], ...] = (
        ("record_bytes", given.record_bytes, sources, "source"),
        ("rate", given.rate, sources, "source"),
        ("service_s", given.service_s, others, "vertex with input"),
        ("service_mode", given.service_mode, others, "vertex with input"),
        ("inputs", given.inputs, several, "vertex that reads several exchanges"),
    )
    wrong = [
        Note(
            f"{name}: no {kind} has this name; the job has {', '.join(known) or 'none'}.",
            Parameter(parameter),
            advice="Set {} for one of these." if known else "Remove {}.",
        )
        for parameter, values, known, kind in kinds
        for name in values
        if name not in (EVERYWHERE, *known)
    ]
    if wrong:
        raise FlinkRestError(*wrong)


def read_config(job: FlinkJob, given: Mapping[str, str], notes: list[str]) -> NetworkConfig:
    """Return a job's options; `given` overrides them.

    The job's own checkpoint settings override the cluster's options. `notes` gets a line for each option that
    cannot be imported.

    Raises:
        UsageError: an option of `given` is unknown, or its value is invalid.
    """
    name = preset_for(job.version)
    preset = PRESETS[name]
    if FlinkVersion.of(job.version) != FlinkVersion.of(name):
        notes.append(f"Assuming the defaults of {name} for Flink {job.version}.")
    values = _of_cluster(job, notes)
    for field, value in _of_job(job, notes).items():
        if field in values or value != getattr(preset, field):
            values[field] = value
    if values.get("checkpoints_during_recovery") and not values.get("recover_output_on_downstream"):
        del values["checkpoints_during_recovery"]
        during = OPTIONS["checkpoints_during_recovery"].name
        needed = OPTIONS["recover_output_on_downstream"].name
        notes.append(f"{during} has no effect unless {needed} is true; it is ignored.")
    if FlinkVersion.of(job.version).major == 1:
        # Flink before 2.0 has no starting size: debloating begins with full segments.
        values.pop("starting_segment_bytes", None)
        segment = values.get("segment_bytes", preset.segment_bytes)
        if segment != preset.starting_segment_bytes:
            values["starting_segment_bytes"] = segment
            name = OPTIONS["starting_segment_bytes"].name
            notes.append(
                f"In Flink 1.x, debloating begins with buffers of full size; {name} is set accordingly."
            )
    config = with_options(preset, {field: value for field, value in values.items() if value is not None})
    problems: list[str] = []
    config = read_options(Section(given, "", problems), config)
    if problems:
        raise UsageError(problems)
    return config


def _of_cluster(job: FlinkJob, notes: list[str]) -> dict[str, object]:
    """Return the options of the cluster by field, without those that an import leaves out."""
    if not job.configuration:
        text = "The cluster does not report its configuration; assuming Flink's defaults."
        notes.append(Note(text, Parameter("options"), advice="Use {} to override."))
        return {}
    values: dict[str, object] = {}
    for field, value in _parse(job.configuration, notes).items():
        option = OPTIONS[field]
        if option.only_1x and FlinkVersion.of(job.version).major > 1:
            notes.append(
                f"{option.name} is configured, but Flink {job.version} ignores it, so it is ignored "
                "here, too."
            )
        elif field not in _NOT_IMPORTED and not option.inert:
            values[field] = value
    if factory := job.configuration.get("shuffle-service-factory.class"):
        notes.append(f"The shuffle service is {factory}; assuming Flink's own.")
    return values


def _of_job(job: FlinkJob, notes: list[str]) -> dict[str, object]:
    """Return the job's checkpoint settings by field. The interval is None if checkpoints are off."""
    if job.checkpointing is None:
        notes.append("The job does not report its checkpoint settings; assuming those of the cluster.")
        return {}
    settings = dict(job.checkpointing)
    interval = settings.get("interval")
    takes_none = not isinstance(interval, int) or not 0 < interval < _NEVER_MS
    if takes_none:
        settings.pop("interval", None)
        example = Parameter("options", "10 s", of=OPTIONS["checkpoint_interval_s"].name)
        notes.append(Note("The job takes no periodic checkpoints.", example, advice="Use {} to add them."))
    options = {OPTIONS[field].name: settings[key] for key, field in _CHECKPOINTING.items() if key in settings}
    return _parse(options, notes) | ({"checkpoint_interval_s": None} if takes_none else {})


def _parse(options: Mapping[str, object], notes: list[str]) -> dict[str, object]:
    """Return the values of options that the emulator has, by field.

    `notes` gets a line for each unreadable one.
    """
    values: dict[str, object] = {}
    for field, option in OPTIONS.items():
        for name in (*option.former, option.name):
            if name not in options:
                continue
            try:
                values[field] = option.kind.parse(options[name])
            except QuantityError as error:
                notes.append(f"{name}: {error.wrong}; assuming the default.")
    return values
