"""A cluster's answers in a file: kept while it is read, and answering in its place later.

The file is one JSON document, packed by gzip or not: `job`, `flink` (its version), `flink_options`, and
`answers`, path to answer. ``.../metrics?get=*`` stands for requests that name metrics of that subtask or
task manager; its value is the list of their answers in order, null where there was none. `times_s` says
when these came and `refused` what was refused, with which status; a file without these two does as well,
its answers being `metrics_every_s` apart. Replaying waits for nothing: with each request the next answer is
there.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

import msgspec

from netstack import Scenario, scenario_document

from ...errors import FlinkRestError
from ...files.reading import read_user_file
from .answers import WITH_VALUES, Answers, Refused, decode_json
from .measured import Measured
from .recorded_fields import Names, without_the_cluster

LARGEST_RECORDING = 256 << 20
"""Bytes of the largest file, packed or not; a thousand subtasks have some sixty millions."""

MOST_VALUES_RECORDED = 8 << 20
"""Values of the largest file; a thousand subtasks have some four millions."""

ANY_VALUES = WITH_VALUES + "*"

_NEEDED = ("/config", "/jobs/overview")

_NOT_FOUND = 404

_DECIMALS = 6


class _Document(msgspec.Struct, kw_only=True):
    scenario: str = ""
    job: str = ""
    flink: str = ""
    flink_options: dict[str, Any] = {}
    metrics_every_s: float | None = None
    answers: dict[str, Any]
    times_s: dict[str, list[float]] = {}
    refused: dict[str, int] = {}


class ReadJob(Protocol):
    """What of an import stands in a recording."""

    @property
    def scenario(self) -> Scenario:
        """The job."""
        ...

    @property
    def measured(self) -> Measured:
        """What it showed."""
        ...


class Recorder:
    """Answers as others do, and keeps what they answered."""

    def __init__(self, answers: Answers) -> None:
        self.name = answers.name
        self._answers = answers
        self._kept: dict[str, Any] = {}
        self._times_s: dict[str, list[float]] = {}
        self._refused: dict[str, int] = {}
        self._every_s: float | None = None
        self._began = answers.clock()
        self._now_s = 0.0

    def answer(self, path: str) -> Any | Refused:
        """Return what the others do; errors as theirs."""
        answer = self._answers.answer(path)
        # From the first moment, and rounded, as the file will say it.
        self._now_s = round(self._answers.clock() - self._began, _DECIMALS)
        of, with_values, _ = path.partition(WITH_VALUES)
        if with_values:
            self._keep_values(of + ANY_VALUES, answer)
        elif path not in self._refused and not self._kept.get(path):  # the first one, unless it was empty
            self._keep(path, answer)
        return answer

    def _keep(self, path: str, answer: Any | Refused) -> None:
        if not isinstance(answer, Refused):
            self._kept[path] = answer
        elif path not in self._kept:
            self._refused[path] = answer.code

    def _keep_values(self, path: str, answer: Any | Refused) -> None:
        refused = isinstance(answer, Refused)
        self._kept.setdefault(path, []).append(None if refused else answer)
        self._times_s.setdefault(path, []).append(self._now_s)
        if refused:
            self._refused[path] = answer.code

    def pause(self, seconds: float) -> None:
        """Let the others wait."""
        if self._every_s is None:  # between two looks, which comes before other waits
            self._every_s = seconds
        self._answers.pause(seconds)

    def clock(self) -> float:
        """Return when the last answer came, in seconds since this began."""
        return self._now_s

    def document(self, imported: ReadJob) -> bytes:
        """Return what was kept while that job was imported, without what only this cluster needs to know."""
        shown, names = imported.measured, Names.of(self._kept)
        document = {
            "scenario": imported.scenario.name,
            "job": shown.job,
            "flink": shown.flink,
            "flink_options": scenario_document(imported.scenario).get("flink", {}),
            "metrics_every_s": self._every_s,
            "answers": without_the_cluster(self._kept, shown.job),
            "times_s": {names.in_path(path): times for path, times in self._times_s.items()},
            "refused": {
                names.in_path(path): code for path, code in self._refused.items() if names.knows(path)
            },
        }
        return json.dumps(document).encode() + b"\n"


def packed(document: bytes, file: Path) -> bytes:
    """Return a document as it stands in a file of that name: packed where that ends in ".gz"."""
    return gzip.compress(document, mtime=0) if file.suffix == ".gz" else document


class Recording:
    """Answers as a cluster did.

    Raises:
        ScenarioError: the file cannot be read, or holds no recording.
    """

    def __init__(self, file: Path) -> None:
        self.name = str(file)
        self._document = _read(file)
        self._turns: Counter[str] = Counter()
        self._pace_s = self._document.metrics_every_s
        self._now_s = 0.0

    def answer(self, path: str) -> Any | Refused:
        """Return what was answered; to a request for values what was answered next."""
        of, with_values, names = path.partition(WITH_VALUES)
        key = of + ANY_VALUES if with_values else path
        answer = self._document.answers.get(key)
        if with_values and answer:
            answer = self._values(key, answer, names.split(","))
        if answer is None:
            code = self._document.refused.get(key, _NOT_FOUND)
            return Refused(code, f"{key} is not in the recording")
        return answer

    def _values(self, key: str, rounds: list[Any], names: list[str]) -> list[Any] | None:
        """Those of the next round, or once more those of the last."""
        turn = min(self._turns[key], len(rounds) - 1)
        self._turns[key] += 1
        times_s = self._document.times_s.get(key, ())
        self._now_s = times_s[turn] if turn < len(times_s) else turn * (self._pace_s or 0.0)
        entries = rounds[turn]
        return None if entries is None else [entry for entry in entries if entry["id"] in names]

    def pause(self, seconds: float) -> None:
        """Wait for nothing; where the file does not say how far answers are apart, they are so far."""
        if self._pace_s is None:
            self._pace_s = seconds

    def clock(self) -> float:
        """Return when the last values came, in seconds since recording began."""
        return self._now_s


def _read(file: Path) -> _Document:
    content = _unpacked(file, read_user_file(file, LARGEST_RECORDING))
    try:
        document = decode_json(content, _Document, MOST_VALUES_RECORDED)
    except ValueError as error:
        raise _no_recording(file, str(error)) from None
    missing = [path for path in _NEEDED if path not in document.answers]
    if missing:
        raise _no_recording(file, f"{missing[0]} is not among its answers")
    return document


def _unpacked(file: Path, content: bytes) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as unpacking:
            unpacked = unpacking.read(LARGEST_RECORDING + 1)
    except (OSError, EOFError, zlib.error):
        raise _no_recording(file, "it is not whole") from None
    if len(unpacked) > LARGEST_RECORDING:
        raise _no_recording(file, f"unpacked it has more than {LARGEST_RECORDING >> 20} MiB")
    return unpacked


def _no_recording(file: Path, why: str) -> FlinkRestError:
    return FlinkRestError(
        f"{file}: is no recording of a Flink job, as netstack import-flink --recording FILE writes: {why}"
    )
