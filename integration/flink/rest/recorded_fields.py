"""What a recording leaves out of a cluster's answers: where it is, what it runs on, who else uses it.

Names of hosts and task managers, ports, paths of files, other jobs, options that the network layer does not
ask for, and why checkpoints failed are no part of what a job does. Names and descriptions of its operators
are; so is which task managers share a machine, and how many cores it has, so hosts are numbered like them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from netstack import OPTIONS

from .processors import LOCAL_PATH, host_of, is_local

_LEFT_OUT = frozenset(
    {
        "dataPort",
        "endpoint",
        "external_path",
        "failure_cause",
        "failure_message",
        "host",
        "jmxPort",
        "memoryConfiguration",
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

_HARDWARE = "hardware"
_CORES = "cpuCores"
_PATH = "path"
"""Of a task manager, which has its host in it."""


def without_the_cluster(answers: Mapping[str, Any], job: str) -> dict[str, Any]:
    """Return the answers, by path, as far as they are about that job; task managers become tm0, tm1, ..."""
    names = Names.of(answers)
    return {
        names.in_path(path): _cleaned(_thinned(path, answer, job), names) for path, answer in answers.items()
    }


@dataclass(frozen=True, slots=True)
class Names:
    """What task managers and hosts are called in a recording: tm0, tm1, ..., host0, host1, ..."""

    managers: Mapping[str, str]
    hosts: Mapping[str, str]

    @classmethod
    def of(cls, answers: Mapping[str, Any]) -> Names:
        """Name all that the answers, by path, are about."""
        managers = {*_managers_of(answers), *_listed(answers.get(_MANAGERS))}
        known = sorted(managers, key=lambda manager: (len(manager), manager))  # so that tm10 comes after tm9
        names = {manager: f"tm{number}" for number, manager in enumerate(known)}
        details = (answers.get(f"{_MANAGERS}/{manager}") for manager in known)
        paths = (answer.get(_PATH) for answer in details if isinstance(answer, Mapping))
        hosts = dict.fromkeys(host for host in map(host_of, paths) if host is not None)
        return cls(names, {host: f"host{number}" for number, host in enumerate(hosts)})

    def in_path(self, path: str) -> str:
        """Return a path of Flink's REST API, with the name of its task manager if it is about one."""
        of, slash, rest = path.removeprefix(f"{_MANAGERS}/").partition("/")
        about_one = path.startswith(f"{_MANAGERS}/") and of in self.managers
        return f"{_MANAGERS}/{self.managers[of]}{slash}{rest}" if about_one else path

    def knows(self, path: str) -> bool:
        """Return whether a path is about no task manager, or about one that has a name in the recording."""
        manager = path.removeprefix(f"{_MANAGERS}/").partition("/")[0]
        return not path.startswith(f"{_MANAGERS}/") or manager in self.managers


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


def _cleaned(value: Any, names: Names, key: str = "") -> Any:
    """A value without what is left out within it."""
    if isinstance(value, Mapping):
        kept = {
            name: _cleaned(inner, names, name)
            for name, inner in value.items()
            if name not in (_HARDWARE, _PATH) and not _is_place(name, inner)
        }
        return kept | _machine(value, names)
    if isinstance(value, list):
        return [_cleaned(inner, names, key) for inner in value]
    if isinstance(value, str) and key in ("id", _MANAGER):
        return names.managers.get(value, value)
    return value


def _machine(entry: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """What of a task manager's entry says which machine it is on."""
    hardware, path = entry.get(_HARDWARE), entry.get(_PATH)
    host = host_of(path)
    cores = hardware.get(_CORES) if isinstance(hardware, Mapping) else None
    told = {} if cores is None else {_HARDWARE: {_CORES: cores}}
    if is_local(path):
        return told | {_PATH: LOCAL_PATH}
    return told if host is None or host not in names.hosts else told | {_PATH: f"flink@{names.hosts[host]}"}


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
        return [
            entry for entry in answer if _says_how_it_runs(str(entry.get("key")), str(entry.get("value")))
        ]
    return answer


def _says_how_it_runs(option: str, value: str) -> bool:
    return (option in _READ or option.startswith(_BEGINNINGS)) and "/" not in value
