"""What a recording leaves out of a cluster's answers: where it is, what it runs on, who else uses it.

Names of hosts and task managers, ports, paths of files, other jobs, options that the network layer does not
ask for, and why checkpoints failed are no part of what a job does. Names and descriptions of its operators
are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from netstack import OPTIONS

_LEFT_OUT = frozenset(
    {
        "dataPort",
        "endpoint",
        "external_path",
        "failure_cause",
        "failure_message",
        "hardware",
        "host",
        "jmxPort",
        "memoryConfiguration",
        "path",
    }
)

_TOLD_BY_THE_JOB = frozenset({"description", "name"})
"""Texts that may look like an address and are none."""

_BEGINNINGS = (
    "execution.",
    "jobmanager.execution.",
    "metrics.fetcher.",
    "parallelism.",
    "pipeline.",
    "restart-strategy",
    "shuffle-service-factory.",
    "state.backend.",
    "table.exec.",
    "taskmanager.memory.",
    "taskmanager.network.",
    "taskmanager.numberOfTaskSlots",
)
"""How those options begin that say how a job runs."""

_READ = frozenset(name for option in OPTIONS.values() for name in (option.name, *option.former))

_MANAGERS = "/taskmanagers"
_MANAGER = "taskmanager-id"


def without_the_cluster(answers: Mapping[str, Any], job: str) -> dict[str, Any]:
    """Return the answers, by path, as far as they are about that job; task managers become tm0, tm1, ..."""
    managers = {*_managers_of(answers), *_listed(answers.get(_MANAGERS))}
    known = sorted(managers, key=lambda manager: (len(manager), manager))  # so that tm10 comes after tm9
    names = {manager: f"tm{number}" for number, manager in enumerate(known)}
    kept = {}
    for path, answer in answers.items():
        manager = path.removeprefix(f"{_MANAGERS}/")
        shown = f"{_MANAGERS}/{names.get(manager, manager)}" if manager != path else path
        kept[shown] = _cleaned(_thinned(path, answer, job), names)
    return kept


def _managers_of(answer: Any) -> Iterator[str]:
    """Every task manager that an answer names."""
    if isinstance(answer, Mapping):
        manager = answer.get(_MANAGER)
        if isinstance(manager, str):
            yield manager
    inside = answer.values() if isinstance(answer, Mapping) else answer if isinstance(answer, list) else ()
    for value in inside:
        yield from _managers_of(value)


def _listed(answer: Any) -> list[str]:
    entries = answer.get("taskmanagers", ()) if isinstance(answer, Mapping) else ()
    return [entry["id"] for entry in entries]


def _cleaned(value: Any, names: Mapping[str, str], key: str = "") -> Any:
    """A value without what is left out within it."""
    if isinstance(value, Mapping):
        return {
            name: _cleaned(inner, names, name) for name, inner in value.items() if not _is_place(name, inner)
        }
    if isinstance(value, list):
        return [_cleaned(inner, names, key) for inner in value]
    if isinstance(value, str) and key in ("id", _MANAGER):
        return names.get(value, value)
    return value


def _is_place(key: str, value: Any) -> bool:
    is_url = isinstance(value, str) and "://" in value
    return key in _LEFT_OUT or (is_url and key not in _TOLD_BY_THE_JOB)


def _thinned(path: str, answer: Any, job: str) -> Any:
    """What of an answer about the whole cluster is about the job."""
    if path == "/config":
        return {"flink-version": answer.get("flink-version")}
    if path == "/jobs/overview":
        return {"jobs": [entry for entry in answer["jobs"] if entry["jid"] == job]}
    if path.endswith("/jobmanager/config"):
        return [entry for entry in answer if _says_how_it_runs(entry["key"], str(entry["value"]))]
    return answer


def _says_how_it_runs(option: str, value: str) -> bool:
    return (option in _READ or option.startswith(_BEGINNINGS)) and "/" not in value
