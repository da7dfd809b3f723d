"""Options of an imported job: the cluster's, and the job's own."""

from __future__ import annotations

from collections.abc import Mapping

from netstack import (
    OPTIONS,
    PRESETS,
    NetworkConfig,
    QuantityError,
    Section,
    preset_for,
    read_options,
    version_of,
    with_options,
)

from ...base.errors import UsageError
from ..read.job import FlinkJob
from .noted import Noted, Remark, Remarks

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


def read_config(job: FlinkJob, given: Mapping[str, str]) -> Noted[NetworkConfig]:
    """Return a job's options; `given` overrides them.

    The job's own checkpoint settings override the cluster's options. A remark names each option that cannot
    be imported.

    Raises:
        UsageError: an option of `given` is unknown, or its value is invalid.
    """
    version, name = version_of(job.version), preset_for(job.version)
    preset, remarks = PRESETS[name], list[Remark]()
    if version != version_of(name):
        remarks.append(Remark("preset_assumed", values={"preset": name, "version": job.version}))
    values, about_cluster = _of_cluster(job)
    of_job, about_job = _of_job(job)
    remarks += about_cluster + about_job
    for field, value in of_job.items():
        if field in values or value != getattr(preset, field):
            values[field] = value
    if values.get("checkpoints_during_recovery") and not values.get("recover_output_on_downstream"):
        del values["checkpoints_during_recovery"]
        needed = OPTIONS["recover_output_on_downstream"].name
        remarks.append(Remark("no_effect", OPTIONS["checkpoints_during_recovery"].name, {"needed": needed}))
    if version.major == 1:
        # Flink before 2.0 has no starting size: debloating begins with full segments.
        values.pop("starting_segment_bytes", None)
        segment = values.get("segment_bytes", preset.segment_bytes)
        if segment != preset.starting_segment_bytes:
            values["starting_segment_bytes"] = segment
            remarks.append(Remark("begins_with_full_buffers", OPTIONS["starting_segment_bytes"].name))
    config = with_options(preset, {field: value for field, value in values.items() if value is not None})
    problems: list[str] = []
    config = read_options(Section(given, "", problems), config)
    if problems:
        raise UsageError(problems)
    return Noted(config, tuple(remarks))


def _of_cluster(job: FlinkJob) -> Noted[dict[str, object]]:
    """Return the options of the cluster by field, without those that an import leaves out."""
    if not job.configuration:
        return Noted({}, (Remark("configuration_unreported"),))
    parsed, remarks = _parse(job.configuration)
    values: dict[str, object] = {}
    for field, value in parsed.items():
        option = OPTIONS[field]
        if option.only_1x and version_of(job.version).major > 1:
            remarks += (Remark("ignored_by_flink", option.name, {"version": job.version}),)
        elif field not in _NOT_IMPORTED and not option.inert:
            values[field] = value
    if factory := job.configuration.get("shuffle-service-factory.class"):
        remarks += (Remark("other_shuffle_service", values={"factory": factory}),)
    return Noted(values, remarks)


def _of_job(job: FlinkJob) -> Noted[dict[str, object]]:
    """Return the job's checkpoint settings by field. The interval is None if checkpoints are off."""
    if job.checkpointing is None:
        return Noted({}, (Remark("checkpoint_settings_unreported"),))
    settings = dict(job.checkpointing)
    interval = settings.get("interval")
    takes_none = not isinstance(interval, int) or not 0 < interval < _NEVER_MS
    if takes_none:
        settings.pop("interval", None)
    options = {OPTIONS[field].name: settings[key] for key, field in _CHECKPOINTING.items() if key in settings}
    values, remarks = _parse(options)
    if takes_none:
        values["checkpoint_interval_s"] = None
        remarks = (Remark("no_checkpoints", OPTIONS["checkpoint_interval_s"].name), *remarks)
    return Noted(values, remarks)


def _parse(options: Mapping[str, object]) -> Noted[dict[str, object]]:
    """Return the values of options that the emulator has, by field. A remark names each unreadable one."""
    values: dict[str, object] = {}
    remarks: Remarks = ()
    for field, option in OPTIONS.items():
        for name in (*option.former, option.name):
            if name not in options:
                continue
            try:
                values[field] = option.kind.parse(options[name])
            except QuantityError as error:
                remarks += (Remark("option_unreadable", name, {"wrong": error.wrong}),)
    return Noted(values, remarks)
