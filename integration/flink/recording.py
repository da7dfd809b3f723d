"""Recordings: a cluster's answers in a file, stored during an import and replayed later.

The file is one JSON document, packed by gzip or not: `job`, `flink` (its version), `flink_options`, and
`answers` (a mapping from path to answer). The path ``.../metrics?get=*`` stands for all requests for metrics
of that subtask or task manager, including those for several subtasks. Its value is the list of their answers
in order, with null for a missing answer. `times_s` has the times of these requests, and `refused` the status
of refused ones. In a file without these two keys, answers are `metrics_every_s` apart. Replaying never waits:
each request gets the next answer.

If the figures are of an earlier time, `past` is that time, and series of Prometheus are among the answers.
The path of a query is cut before its selector. So a replay may ask for other metrics than the recorded ones,
which it then does not get.

A recording leaves out everything that identifies the cluster: names of hosts and task managers, ports, paths
of files, other jobs, options without effect on the network layer, and reasons of failed checkpoints. It keeps
the names and descriptions of operators. It also keeps which task managers share a machine, and the cores of
the machine. Hosts are numbered.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from netstack import OPTIONS, Scenario, scenario_document

from ..base.errors import FlinkRestError, Note
from ..base.reading import LARGEST_RECORDING, read_user_file, unpacked
from .http.answers import WITH_VALUES, Answers, Past, Refused, decode_json
from .http.batches import Batch, subtask_path
from .http.past_cluster import OF_PROMETHEUS
from .read.job import LOCAL_PATH, host_of, is_local
from .read.measurements import Measured
from .read.prometheus import HOST, as_label
from .read.prometheus import MANAGER as MANAGER_LABEL

MOST_VALUES_RECORDED = 8 << 20
"""Maximum number of values in a file. A thousand subtasks have about four million."""

ANY_VALUES = WITH_VALUES + "*"

_NEEDED = ("/config", "/jobs/overview")
_NOT_FOUND = 404
_DECIMALS = 6

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

_OF_THE_JOB = frozenset({"description", "name"})
"""Keys whose values are no addresses, although they may look like one."""

_RECORDED_OPTIONS = (
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
"""Prefixes of options that are recorded in addition to `netstack.OPTIONS`."""

_KNOWN_OPTIONS = frozenset(name for option in OPTIONS.values() for name in (option.name, *option.former))

_MANAGERS, _MANAGER = "/taskmanagers", "taskmanager-id"
_HARDWARE, _PATH = "hardware", "path"
_LABELS = "metric"
"""Key of the labels of a series, in an answer of Prometheus."""


class _Document(msgspec.Struct, kw_only=True):
    scenario: str = ""
    job: str = ""
    flink: str = ""
    flink_options: dict[str, Any] = {}
    metrics_every_s: float | None = None
    past: Past | None = None
    answers: dict[str, Any]
    times_s: dict[str, list[float]] = {}
    refused: dict[str, int] = {}


class Recorder(Answers):
    """Forwards the answers of another source, and records them."""

    def __init__(self, answers: Answers) -> None:
        self.name = answers.name
        self.past = answers.past
        self._answers = answers
        self._kept: dict[str, Any] = {}
        self._times_s: dict[str, list[float]] = {}
        self._refused: dict[str, int] = {}
        self._every_s: float | None = None
        self._began = answers.clock()
        self._now_s = 0.0

    def answer(self, path: str) -> Any | Refused:
        """Return the answer of the recorded source, or raise its error."""
        (answer,) = self.answer_all([path])
        return answer

    def answer_all(self, paths: Sequence[str]) -> Iterator[Any | Refused]:
        """Yield the answers of the recorded source, or raise its error."""
        for path, answer in zip(paths, self._answers.answer_all(paths), strict=True):
            # Times since the beginning, rounded as in the file.
            self._now_s = round(self._answers.clock() - self._began, _DECIMALS)
            self._keep(path, answer)
            yield answer

    def _keep(self, path: str, answer: Any | Refused) -> None:
        of, with_values, _ = path.partition(WITH_VALUES)
        if (batch := Batch.of(path)) is not None:
            parts: Mapping[int, Any] = {}
            if not isinstance(answer, Refused):
                parts = batch.split(answer)
            elif answer.code != _NOT_FOUND:  # otherwise the subtasks are requested one by one
                parts = dict.fromkeys(batch.names, answer)
            for subtask, part in parts.items():
                self._keep_values(subtask_path(of, subtask) + ANY_VALUES, part)
        elif with_values:
            self._keep_values(of + ANY_VALUES, answer)
        elif path.startswith(OF_PROMETHEUS):
            self._keep_series(_without_selector(path), answer)
        else:
            self._keep_first(path, answer)

    def _keep_values(self, path: str, answer: Any | Refused) -> None:
        refused = isinstance(answer, Refused)
        self._kept.setdefault(path, []).append(None if refused else answer)
        self._times_s.setdefault(path, []).append(self._now_s)
        if refused:
            self._refused[path] = answer.code

    def _keep_series(self, path: str, answer: Any | Refused) -> None:
        """Add the series of an answer to those of other queries that differ only in the metrics."""
        if path in self._kept and isinstance(answer, Mapping):
            self._kept[path]["data"]["result"].extend(answer["data"]["result"])
        else:
            self._keep_first(path, deepcopy(answer))

    def _keep_first(self, path: str, answer: Any | Refused) -> None:
        """Keep the first answer to a path, unless it was empty."""
        if path in self._refused or self._kept.get(path):
            return
        if not isinstance(answer, Refused):
            self._kept[path] = answer
        elif path not in self._kept:
            self._refused[path] = answer.code

    def pause(self, seconds: float) -> None:
        """Wait between polls, as the recorded source does; the first wait is stored as the interval."""
        if self._every_s is None:
            self._every_s = seconds
        self._answers.pause(seconds)

    def clock(self) -> float:
        """Return the time of the last answer, in seconds since the recording began."""
        return self._now_s

    def replay(self) -> Replay:
        """Return a source of the answers so far, which needs no network and no time."""
        kept = _Document(
            past=self.past,
            answers=dict(self._kept),
            times_s=dict(self._times_s),
            refused=dict(self._refused),
            metrics_every_s=self._every_s,
        )
        return Replay(self.name, kept)

    def document(self, scenario: Scenario, measured: Measured) -> bytes:
        """Return the document with the answers from which `scenario` and `measured` were read."""
        names = Names.of(self._kept)
        document = {
            "scenario": scenario.name,
            "job": measured.job,
            "flink": measured.flink,
            "flink_options": scenario_document(scenario).get("flink", {}),
            "metrics_every_s": self._every_s,
            **({} if self.past is None else {"past": msgspec.to_builtins(self.past)}),
            "answers": without_the_cluster(self._kept, measured.job),
            "times_s": {names.in_path(path) or path: times for path, times in self._times_s.items()},
            "refused": {new: code for path, code in self._refused.items() if (new := names.in_path(path))},
        }
        return json.dumps(document).encode() + b"\n"


def _without_selector(path: str) -> str:
    """Return the path of a query of Prometheus up to the aggregation and its labels."""
    return path.partition(" ({")[0]


def packed(document: bytes, file: Path) -> bytes:
    """Return the content for a file of that name, compressed if the name ends in ".gz"."""
    return gzip.compress(document, mtime=0) if file.suffix == ".gz" else document


class Replay(Answers):
    """Gives recorded answers."""

    def __init__(self, name: str, document: _Document) -> None:
        self.name = name
        self.past = document.past
        self._document = document
        self._rounds: Counter[str] = Counter()
        self._pace_s = document.metrics_every_s
        self._now_s = 0.0

    def answer(self, path: str) -> Any | Refused:
        """Return the recorded answer; for a request of metric values, the next one."""
        path = _without_selector(path) if path.startswith(OF_PROMETHEUS) else path
        of, with_values, names = path.partition(WITH_VALUES)
        key = of + ANY_VALUES if with_values else path
        answer = self._document.answers.get(key)
        if with_values and answer:
            number = min(self._rounds[key], len(answer) - 1)  # after the end, repeat the last answer
            self._rounds[key] += 1
            times_s = self._document.times_s.get(key, ())
            self._now_s = times_s[number] if number < len(times_s) else number * (self._pace_s or 0.0)
            entries, wanted = answer[number], names.split(",")
            answer = None if entries is None else [entry for entry in entries if entry["id"] in wanted]
        if answer is None:
            code = self._document.refused.get(key, _NOT_FOUND)
            return Refused(code, Note(f"{key} is not in the recording"))
        return answer

    def pause(self, seconds: float) -> None:
        """Return at once. In a file without times, the first `seconds` count as the time between answers."""
        if self._pace_s is None:
            self._pace_s = seconds

    def clock(self) -> float:
        """Return the time of the last metric values, in seconds since the recording began."""
        return self._now_s


class Recording(Replay):
    """Replays the answers of a file.

    Raises:
        FileError: the file cannot be read.
        FlinkRestError: it is not a recording.
    """

    def __init__(self, file: Path) -> None:
        content = read_user_file(file, LARGEST_RECORDING)
        try:
            document = decode_json(unpacked(content, LARGEST_RECORDING), _Document, MOST_VALUES_RECORDED)
            if missing := [path for path in _NEEDED if path not in document.answers]:
                raise ValueError(f"{missing[0]} is not among the recorded answers")
        except ValueError as error:
            raise FlinkRestError(f"{file}: is not a recording of a Flink job: {error}") from None
        super().__init__(str(file), document)


# Anonymous answers


@dataclass(frozen=True, slots=True)
class Names:
    """New names for task managers and hosts in a recording: tm0, tm1, ..., host0, host1, ..."""

    managers: Mapping[str, str]
    hosts: Mapping[str, str]

    @classmethod
    def of(cls, answers: Mapping[str, Any]) -> Names:
        """Create names for all task managers and hosts in the answers, which are mapped by path."""
        listed = answers.get(_MANAGERS)
        entries = listed.get("taskmanagers", ()) if isinstance(listed, Mapping) else ()
        managers = {*_values_in(answers, _MANAGER), *(entry["id"] for entry in entries)}
        written = {as_label(manager) for manager in managers}
        managers |= {label for label in _values_in(answers, MANAGER_LABEL) if label not in written}
        known = sorted(managers, key=lambda manager: (len(manager), manager))  # so that tm10 follows tm9
        details = (answers.get(f"{_MANAGERS}/{manager}") for manager in known)
        paths = (answer.get(_PATH) for answer in details if isinstance(answer, Mapping))
        hosts = dict.fromkeys(host for host in map(host_of, paths) if host is not None)
        written = {as_label(host) for host in hosts}
        labels = {label for metric in _labels_in(answers) if (label := metric.get(HOST)) is not None}
        hosts |= dict.fromkeys(sorted(labels - written))
        return cls(
            {manager: f"tm{number}" for number, manager in enumerate(known)},
            {host: f"host{number}" for number, host in enumerate(hosts)},
        )

    def in_path(self, path: str) -> str | None:
        """Return a REST path with its task manager, if any, renamed; None if it has no new name."""
        if not path.startswith(f"{_MANAGERS}/"):
            return path
        manager, slash, rest = path.removeprefix(f"{_MANAGERS}/").partition("/")
        new = self.managers.get(manager)
        return None if new is None else f"{_MANAGERS}/{new}{slash}{rest}"

    def in_labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels of a series in Prometheus with the new names."""
        renamed = {MANAGER_LABEL: self.managers, HOST: self.hosts}
        new = {of: {as_label(name): new for name, new in names.items()} for of, names in renamed.items()}
        return {label: new.get(label, {}).get(value, value) for label, value in labels.items()}


def _values_in(answer: Any, key: str) -> Iterator[str]:
    """Yield every text with this key in an answer."""
    if isinstance(answer, list):
        for value in answer:
            yield from _values_in(value, key)
    elif isinstance(answer, Mapping):
        if isinstance(found := answer.get(key), str):
            yield found
        for value in answer.values():
            yield from _values_in(value, key)


def _labels_in(answers: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """Yield the labels of all series of Prometheus."""
    for path, answer in answers.items():
        if path.startswith(OF_PROMETHEUS):
            yield from (found[_LABELS] for found in answer["data"]["result"])


def without_the_cluster(answers: Mapping[str, Any], job: str) -> dict[str, Any]:
    """Return the answers, by path, without data of other jobs. Task managers become tm0, tm1, ..."""
    names = Names.of(answers)
    return {
        names.in_path(path) or path: _cleaned(_of_the_job(path, answer, job), names)
        for path, answer in answers.items()
    }


def _of_the_job(path: str, answer: Any, job: str) -> Any:
    """Reduce an answer about the whole cluster to the job."""
    if path == "/config":
        return {"flink-version": answer.get("flink-version")}
    if path == "/jobs/overview":
        return {"jobs": [entry for entry in answer["jobs"] if entry["jid"] == job]}
    if path.endswith("/jobmanager/config"):
        return [entry for entry in answer if _is_recorded(str(entry.get("key")), str(entry.get("value")))]
    return answer


def _is_recorded(option: str, value: str) -> bool:
    """Whether a recording keeps an option of the cluster. Values with a slash may be paths or addresses."""
    return "/" not in value and (option in _KNOWN_OPTIONS or option.startswith(_RECORDED_OPTIONS))


def _cleaned(value: Any, names: Names, key: str = "") -> Any:
    """Return a value of an answer without addresses, with the new names."""
    if isinstance(value, list):
        return [_cleaned(inner, names, key) for inner in value]
    if isinstance(value, str) and key in ("id", _MANAGER):
        return names.managers.get(value, value)
    if not isinstance(value, Mapping):
        return value
    if key == _LABELS:
        return names.in_labels(value)
    kept = {}
    for name, inner in value.items():
        is_address = isinstance(inner, str) and "://" in inner and name not in _OF_THE_JOB
        if name not in _LEFT_OUT and name not in (_HARDWARE, _PATH) and not is_address:
            kept[name] = _cleaned(inner, names, name)
    # The machine of a task manager: its cores, and its numbered host.
    hardware, path = value.get(_HARDWARE), value.get(_PATH)
    host = host_of(path)
    if isinstance(hardware, Mapping) and hardware.get("cpuCores") is not None:
        kept[_HARDWARE] = {"cpuCores": hardware["cpuCores"]}
    if is_local(path):
        kept[_PATH] = LOCAL_PATH
    elif host is not None and host in names.hosts:
        kept[_PATH] = f"flink@{names.hosts[host]}"
    return kept
