"""Under which options a job is emulated: the cluster's, the job's own, and those a user gives instead."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

from netstack import (
    OPTIONS,
    PRESETS,
    NetworkConfig,
    QuantityError,
    Section,
    read_options,
    with_options,
)

from ...errors import FlinkRestError, UsageError
from .cluster_job import FlinkJob

EVERYWHERE = ""
"""The key of an override that holds for all vertices of its kind."""

T = TypeVar("T")

_LEFT_OUT = frozenset(
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
"""Fields that mean something else here: each vertex has a task manager of its own, and there is no state."""

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
"""Of each key of ``/jobs/ID/checkpoints/config`` the field that it is; times are in milliseconds there."""

_NEVER_MS = 1 << 62
"""A longer interval than this is Flink's way to say that there is none."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values in place of those read; by a vertex's name in the scenario, or `EVERYWHERE`."""

    record_bytes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Of sources: bytes of a record, without its length."""
    service_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Of vertices with input: seconds a record, in all subtasks."""
    rate: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Of sources: records per second of each subtask, 0 for as fast as possible."""
    service_mode: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Of vertices with input: one of `SERVICE_MODES`, such as "burn" for work that takes a core."""
    cores: float | None = None
    """Of each machine."""
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Options of Flink by their names."""
    latency_s: float = 0.0
    """Of the network between task managers, which Flink does not measure."""


def of_vertex(values: Mapping[str, T], name: str) -> T | None:
    """Return the override for a vertex, or the one for all; None: there is none."""
    return values.get(name, values.get(EVERYWHERE))


def check_names(given: Overrides, job: FlinkJob, names: Mapping[str, str]) -> None:
    """Refuse overrides for vertices that are not there, or of the other kind.

    Raises:
        FlinkRestError: with a line for each.
    """
    sources = [names[vertex.id] for vertex in job.vertices if not job.inputs(vertex)]
    others = [name for name in names.values() if name not in sources]
    kinds: tuple[tuple[str, Mapping[str, object], list[str], str], ...] = (
        ("--record-bytes", given.record_bytes, sources, "source"),
        ("--rate", given.rate, sources, "source"),
        ("--service", given.service_s, others, "vertex with input"),
        ("--service-mode", given.service_mode, others, "vertex with input"),
    )
    wrong = [
        f"{option} {name}: no {kind} has that name; use one of {', '.join(known)}"
        for option, values, known, kind in kinds
        for name in values
        if name not in (EVERYWHERE, *known)
    ]
    if wrong:
        raise FlinkRestError(*wrong)


def preset_of(version: str) -> str:
    """Return the preset whose defaults a version of Flink has, or comes nearest to."""
    return "flink-1.20" if version.startswith("1.") else "flink-2.2"


def read_config(job: FlinkJob, given: Mapping[str, str], notes: list[str]) -> NetworkConfig:
    """Return a job's options; `given` are those that a user gives in their place.

    What the job itself says of its checkpoints goes before what the cluster was configured with. `notes`
    gets a line for each thing that could not be taken over.

    Raises:
        UsageError: an option that the user gives is none, or has no such value.
    """
    preset = preset_of(job.version)
    if not job.version.startswith(preset.removeprefix("flink-")):
        notes.append(f"Flink {job.version} is taken to have the defaults of {preset}")
    values = _from_cluster(job, notes)
    of_job = _from_job(job, notes)
    values |= {
        field: value
        for field, value in of_job.items()
        if field in values or value != getattr(PRESETS[preset], field)
    }
    if job.version.startswith("1."):
        _start_with_whole_buffers(values, PRESETS[preset], notes)
    config = with_options(
        PRESETS[preset], {field: value for field, value in values.items() if value is not None}
    )
    problems: list[str] = []
    config = read_options(Section(given, "--set ", problems), config)
    if problems:
        raise UsageError(problems)
    return config


def _start_with_whole_buffers(values: dict[str, object], preset: NetworkConfig, notes: list[str]) -> None:
    """Before 2.0 Flink has no starting size: debloating begins with segments of full size."""
    segment = values.get("segment_bytes", preset.segment_bytes)
    values.pop("starting_segment_bytes", None)
    if segment != preset.starting_segment_bytes:
        name = OPTIONS["starting_segment_bytes"].name
        values["starting_segment_bytes"] = segment
        notes.append(f"debloating begins with whole buffers in Flink 1.x; {name} makes it so here")


def _from_cluster(job: FlinkJob, notes: list[str]) -> dict[str, object]:
    if not job.configuration:
        notes.append(
            "the cluster does not tell its configuration; give options that are not Flink's by --set"
        )
        return {}
    wrong: dict[str, str] = {}
    values = _parsed(job.configuration, wrong)
    notes.extend(f"{name}: {why}; the preset's value is used" for name, why in wrong.items())
    for field in [field for field in values if OPTIONS[field].only_1x and not job.version.startswith("1.")]:
        notes.append(
            f"{OPTIONS[field].name} is configured, but Flink {job.version} ignores it, and so it is here"
        )
        del values[field]
    if factory := job.configuration.get("shuffle-service-factory.class"):
        notes.append(f"the shuffle service is {factory}, not Flink's own; what it changes is not known here")
    return {field: value for field, value in values.items() if not _unused(field)}


def _unused(field: str) -> bool:
    return field in _LEFT_OUT or OPTIONS[field].inert


def _parsed(options: Mapping[str, object], wrong: dict[str, str]) -> dict[str, object]:
    """Values by field of those options that we have; `wrong` gets what cannot be read."""
    values: dict[str, object] = {}
    for field, option in OPTIONS.items():
        for name in (*option.former, option.name):
            if name not in options:
                continue
            try:
                values[field] = option.kind.parse(options[name])
            except QuantityError as error:
                wrong[name] = error.wrong
    return values


def _from_job(job: FlinkJob, notes: list[str]) -> dict[str, object]:
    settings = job.checkpointing
    if settings is None:
        notes.append(
            "the job does not tell its checkpoint settings: it takes none, or they are the cluster's"
        )
        return {}
    settings = dict(settings)
    interval = settings.get("interval")
    takes_none = not isinstance(interval, int) or not 0 < interval < _NEVER_MS
    if takes_none:
        settings.pop("interval", None)
        notes.append("the job takes no checkpoints by itself; give their interval by --set")
    options = {OPTIONS[field].name: settings[key] for key, field in _CHECKPOINTING.items() if key in settings}
    wrong: dict[str, str] = {}
    values = _parsed(options, wrong)
    notes.extend(f"{name}: {why}; the preset's value is used" for name, why in wrong.items())
    return values | ({"checkpoint_interval_s": None} if takes_none else {})
