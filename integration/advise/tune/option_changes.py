"""Changes of Flink's options: their lines, their Kubernetes patch, and the restart that each one needs.

Flink reads an option at one moment, and a change takes effect only when this moment comes again:

- A task manager reads ``taskmanager.*`` when its process starts. So the task managers have to restart, and
  all jobs on them restart as well.
- A job gets ``execution.*`` when it is submitted, and keeps these options until it ends. So the job has to be
  submitted again. Adaptive partition selection belongs to the job too, although its name does not say so.

In an application cluster, the cluster belongs to one job, so both cases restart the same processes. Flink's
Kubernetes operator redeploys a FlinkDeployment after any change of ``spec.flinkConfiguration``. No option
that a setting changes takes effect without a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from netstack import OPTIONS, NetworkConfig

from ..sweeps.axes import shown_value


class Restart(StrEnum):
    """The part of a cluster that has to restart until it obeys a changed option."""

    TASK_MANAGERS = "task managers"
    JOB = "job"


_RESTARTS = {
    "taskmanager.network.adaptive-partitioner.": Restart.JOB,
    "taskmanager.": Restart.TASK_MANAGERS,
    "execution.": Restart.JOB,
}
"""Restart for each prefix of options. The first prefix that matches counts."""

_REASONS = {
    Restart.TASK_MANAGERS: "Restart the task managers: they read {} only when they start.",
    Restart.JOB: "Restart the job: it gets {} when it is submitted.",
}


class OptionChange(msgspec.Struct, frozen=True, kw_only=True):
    """One option with its value before and after a change, in Flink's syntax."""

    option: str
    """The option's name."""
    before: str | None
    """The value in force before; None: Flink has none by default."""
    configured: str | None
    """The value in the configuration before; None: the configuration does not set the option."""
    after: str
    restart: Restart

    @property
    def line(self) -> str:
        """The line for Flink's config.yaml."""
        return f"{self.option}: {self.after}"


def restart_for(option: str) -> Restart:
    """Return the restart that a change of an option needs.

    Raises:
        KeyError: it is unknown when Flink reads the option.
    """
    for prefix, restart in _RESTARTS.items():
        if option.startswith(prefix):
            return restart
    raise KeyError(option)


def option_changes(fields: Iterable[tuple[str, object]], config: NetworkConfig) -> list[OptionChange]:
    """Return the changes of a job's options by fields of `NetworkConfig`; those in force are left out."""
    changes = []
    for field, value in fields:
        if field not in OPTIONS or getattr(config, field) == value:
            continue
        present, option = getattr(config, field), OPTIONS[field].name
        before = None if present is None else shown_value(field, present)
        changes.append(
            OptionChange(
                option=option,
                before=before,
                configured=before if field in config.given else None,
                after=shown_value(field, value),
                restart=restart_for(option),
            )
        )
    return changes


def restart_sentences(changes: Sequence[OptionChange]) -> list[str]:
    """Return a sentence for each kind of restart that the changes need."""
    sentences = []
    for restart, reason in _REASONS.items():
        names = [each.option for each in changes if each.restart is restart]
        if names:
            which = " and ".join(names)
            if len(names) == len(changes):
                which = "these options" if len(names) > 1 else "this option"
            sentences.append(reason.format(which))
    return sentences


def deployment_patch(changes: Sequence[OptionChange]) -> dict[str, Any]:
    """Return the JSON merge patch of a FlinkDeployment; empty if nothing changes."""
    return _patch({each.option: each.after for each in changes})


def way_back_patch(changes: Sequence[OptionChange]) -> dict[str, Any]:
    """Return the JSON merge patch that undoes the changes. A null removes an option."""
    return _patch({each.option: each.configured for each in changes})


def _patch(options: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"flinkConfiguration": options}} if options else {}


def patch_lines(patch: dict[str, Any]) -> list[str]:
    """Return a patch of a FlinkDeployment as lines of YAML.

    Values are in quotes, because ``spec.flinkConfiguration`` takes texts only.
    """
    if not patch:
        return []
    options = patch["spec"]["flinkConfiguration"]
    texts = {name: msgspec.json.encode(value).decode() for name, value in options.items()}
    return ["spec:", "  flinkConfiguration:", *(f"    {name}: {text}" for name, text in texts.items())]
