"""Doors of what runs have found: results, and measurements of a Flink beside them."""

from __future__ import annotations

import io
import json
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from rich.console import Console

from integration import load_result
from integration.comparison.differences import differences
from integration.comparison.with_flink import compare
from integration.diagnosis.observation import observations
from integration.diagnosis.rule_table import Diagnosis, diagnose
from integration.files.reading import json_document
from integration.present.comparison import comparison_markdown, print_comparisons, print_differences
from integration.present.findings import print_diagnosis
from integration.present.run import print_result
from netstack import InputError, Result, from_json, to_json

from .door import Arguments, Door, refused, written
from .mutation import as_json, mutated, words_in

ROOT = Path(__file__).resolve().parents[2]

_MEASURED = ("2x2_200KBs_off_interval10s", "1x1_5MBs_off", "2x2_unsaturated_on100ms", "2x2_200KBs_unaligned")

_AROUND: dict[str, Any] = {
    "schema": "netstack.result/1",
    "preset": "flink-2.2",
    "clock": "virtual",
    "seed": 1,
    "emulated_seconds": 80.0,
    "wall_seconds": 0.5,
    "behind_s": 0.1,
    "task_managers_behind_s": {"stage1": None, "source": 0.1},
    "versions": {"netstack": "0.1.0"},
    "started_from": {"checkpoint_id": 3, "path": "chk-3", "restored_bytes": 7, "running_at": 0.5},
    "restarts": [
        {"failed_at": 9.0, "cause": "x", "restarted_at": 10.0, "running_at": None, "checkpoint_id": 4}
    ],
    "faults": [{"t": 9.0, "kind": "kill_subtask", "what": "subtask source[0] is killed"}],
    "failure": None,
}

_SERIES: dict[str, Any] = {
    "t": [0.5, 1.0, 1.5],
    "numRecordsIn": [[0, 10, 20], [0, 11, 21]],
    "debloatedBufferSize": [[None, 32768, 1000.5], [None, None, 1]],
    "inputQueueLength": [[1, 2, 3], [3, 2, 1]],
    "inPoolUsage": [[0.5, 1.0, 0.0], [1, 1, 1]],
    "busy_ms": [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]],
}


@cache
def measurements() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What a Flink measured of small jobs, and a result of ours that says the same."""
    return [_measurement(name) for name in _MEASURED]


def _measurement(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    folder = ROOT / "tests/data/flink-reference"
    scenario = tomllib.loads((folder / f"{name}.toml").read_text("utf-8"))
    reference = json.loads((folder / f"{name}.json").read_bytes())
    reference["checkpoints"] = reference["checkpoints"][:3]
    vertices = sorted(scenario["vertices"], key=lambda vertex: "source" not in vertex)
    names = [vertex["name"] for vertex in vertices]
    result = {**_AROUND, "scenario": scenario}
    for key in ("checkpoints", "steady"):
        result[key] = [each | {"vertices": _named(each["vertices"], names)} for each in reference[key]]
    result["series"] = [{"vertex": each["name"], **_series(each["parallelism"])} for each in vertices]
    return reference, result


def _series(subtasks: int) -> dict[str, Any]:
    """Samples of so many subtasks."""
    return {key: values if key == "t" else values[:1] * subtasks for key, values in _SERIES.items()}


def _named(vertices: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """Vertices with the names that they have here, since Flink gives them others."""
    return [vertex | {"name": name} for vertex, name in zip(vertices, names, strict=True)]


@cache
def _words() -> list[str]:
    return words_in(*(each for pair in measurements() for each in pair))


def results(random: Random) -> Iterator[Arguments]:
    """Documents of results with one to three things wrong."""
    while True:
        _, document = random.choice(measurements())
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            document = mutated(random, document, _words())
        yield (as_json(random, document, 0.1),)


@cache
def _right(number: int) -> Result:
    """The result that is beside a mutated one."""
    return from_json(json.dumps(measurements()[number][1]))


def _console() -> Console:
    return Console(file=io.StringIO(), width=80)


def check_result(data: bytes) -> bool:
    """A result can be shown, set beside another one, judged, and written again, or is refused."""
    try:
        result = load_result(written("result.json", data))
    except InputError as error:
        return refused(error)
    assert to_json(from_json(to_json(result))) == to_json(result)
    print_result(result, _console())
    if result.steady:
        differing = differences(("one", result), ("other", _right(0)))
        msgspec.json.encode(differing)
        print_differences(differing, _console())
    windows = [diagnose(view) for view in observations(result)]
    print_diagnosis(Diagnosis(name="a", of="b", windows=windows), _console(), following="c", verbose=True)
    return True


def references(random: Random) -> Iterator[Arguments]:
    """Measurements with one to three things wrong, each with the number of the result that they are of."""
    while True:
        number = random.randrange(len(_MEASURED))
        document = measurements()[number][0]
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            document = mutated(random, document, _words())
        yield number, as_json(random, document, 0.1)


def check_reference(number: int, data: bytes) -> bool:
    """A measurement is compared with a result, or is refused."""
    try:
        compared = compare([_right(number)], json_document(written("reference.json", data)))
    except InputError as error:
        return refused(error)
    print_comparisons([compared], _console())
    comparison_markdown([compared])
    msgspec.json.encode(compared)
    return True


DOORS = [
    Door("result", results, check_result, 40, 0.02),
    Door("reference", references, check_reference, 100, 0.04),
]
