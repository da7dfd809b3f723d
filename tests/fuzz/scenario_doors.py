"""Doors of scenarios: files in TOML and in JSON, and the faults in them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from integration import load_scenario
from netstack import OPTIONS, InputError, read_scenario, scenario_document, scenario_toml

from .door import Arguments, Door, refused, written
from .mutation import as_json, draw_value, encoded, filled, mutated, words_in

ROOT = Path(__file__).resolve().parents[2]

_SECOND_HALF: dict[str, Any] = {
    "name": "all",
    "duration": "20 s",
    "warmup": "4 s",
    "seed": 3,
    "preset": "flink-2.2",
    "phases": [["4 s", "10 s"], ["12 s", "20 s"]],
    "checkpoints_at": ["5 s", "15 s"],
    "savepoints_at": [{"at": "6 s", "directory": "/tmp/x", "format": "native", "stop": "drain"}],
    "policy": "flink",
    "flink": {
        "execution.checkpointing.interval": "5 s",
        "taskmanager.network.memory.buffer-debloat.enabled": True,
        "taskmanager.memory.segment-size": "32 kb",
    },
    "costs": {"buffer": "1 us", "checkpoint_sync": ["1 ms", "2 ms"]},
    "link": {"latency": "1 ms", "bandwidth": "10 gbit/s"},
    "vertices": [
        {
            "name": "source",
            "parallelism": 2,
            "task_manager": ["a", "b"],
            "source": {
                "record_bytes": 100,
                "rate": [250, 10.5],
                "burst": "200 ms",
                "batch": 2,
                "legacy": True,
                "cost": "20 us",
                "catch_up": "1 s",
                "wave": "10 s",
                "out_of_orderness": "1 s",
                "keys": {"number": 1000, "zipf": 0.8, "most_frequent": [0.05]},
            },
        },
        {"name": "file", "source": {"path": "a.csv", "key": ["k"], "repeat": True, "format": "csv"}},
        {
            "name": "map",
            "parallelism": 2,
            "task_manager": "c",
            "service": [{"at": "0 s", "cost": "1 ms"}, {"at": "9 s", "cost": "2 ms"}],
            "service_skew": [1.0, 2.0],
            "service_spread": 0.1,
            "service_mode": "burn",
            "selectivity": 0.5,
            "emission": "random",
            "record_bytes": 260,
            "emit_every": "2 s",
            "emit_by": "event_time",
            "behind": ["1 s"],
        },
        {"name": "sink", "task_manager": "c"},
    ],
    "edges": [
        {"from": "source", "to": "map", "ship": "hash", "fraction": 0.5, "selectivity": 0.25, "input": 1},
        {"from": "file", "to": "map", "shares": [0.25, 0.75], "service": "1 ms"},
        {"from": "map", "to": "sink", "ship": "rebalance", "buffers": {"exclusive": 2, "floating": 8}},
    ],
    "machines": [{"cores": 2, "task_managers": ["a", "b", "c"]}],
}

FAULTS: list[dict[str, Any]] = [
    {"kind": "kill_subtask", "at": "12 s", "vertex": "stage1", "subtask": 0},
    {
        "kind": "kill_subtask",
        "on": "barrier",
        "number": 3,
        "from": "source",
        "from_subtask": 0,
        "to": "stage1",
        "to_subtask": 1,
        "vertex": "source",
        "subtask": 1,
    },
    {
        "kind": "kill_task_manager",
        "on": "buffer",
        "number": 100,
        "from": "source",
        "from_subtask": 1,
        "to": "stage1",
        "to_subtask": 0,
        "task_manager": "stage1",
    },
    {
        "kind": "cut_link",
        "at": "5 s",
        "from_task_manager": "source",
        "to_task_manager": "stage1",
        "for": "1 s",
    },
    {"kind": "delay_messages", "at": "5 s", "messages": "acknowledge", "delay": "2 s", "for": "5 s"},
    {
        "kind": "drop_messages",
        "at": "5 s",
        "messages": "trigger",
        "for": "5 s",
        "vertex": "source",
        "subtask": 0,
    },
    {
        "kind": "fail_upload",
        "on": "acknowledgement",
        "number": 2,
        "from": "stage1",
        "from_subtask": 0,
        "for": "1 s",
    },
    {"kind": "fill_storage", "at": "5 s", "for": "5 s"},
]


@cache
def documents() -> list[dict[str, Any]]:
    """Scenarios of the project as documents, and some that have what these lack."""
    files = [*ROOT.glob("tests/data/flink-reference/*.toml"), *ROOT.glob("docs/examples/**/*.toml")]
    found = [tomllib.loads(file.read_text("utf-8")) for file in sorted(files)]
    plain = next(each for each in found if each["name"] == "2x2_200KBs_off")
    return [
        *found,
        _SECOND_HALF,
        {**plain, "faults": FAULTS},
        {**plain, "faults": FAULTS[:1], "slots": 2},
        {**plain, "flink": {option.name: _option(option) for option in OPTIONS.values()}},
    ]


def _option(option: Any) -> Any:
    return option.kind.render(option.default) if getattr(option, "default", None) is not None else "1"


@cache
def words() -> list[str]:
    """Names that stand somewhere in a scenario."""
    return words_in(*documents(), {option.name: "" for option in OPTIONS.values()})


def scenario_files(random: Random) -> Iterator[Arguments]:
    """Files with scenarios in them, with one to three things wrong in most."""
    while True:
        document = random.choice(documents())
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            document = mutated(random, document, words())
        if random.random() < 0.5:
            yield ("a.json", as_json(random, document))
        elif isinstance(document, Mapping):
            yield ("a.toml", encoded(random, filled(random, as_toml(document)), 0.25))


def as_toml(document: Mapping[str, Any]) -> str:
    """A document in TOML, each key of it on a line; what TOML cannot say is written all the same."""
    return "".join(f"{json.dumps(key)} = {_toml(value)}\n" for key, value in document.items())


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


def check_scenario_file(name: str, data: bytes) -> bool:
    """A file is a scenario, which says the same when it is written and read again, or is refused."""
    path = written(name, data)
    try:
        scenario = load_scenario(path)
    except InputError as error:
        return refused(error)
    text = scenario_toml(scenario)
    assert read_scenario(tomllib.loads(text)) == scenario
    return True


def fault_documents(random: Random) -> Iterator[Arguments]:
    """Documents of faults of one job, with something wrong in most."""
    names = words_in(FAULTS)
    while True:
        faults: Any = [dict(random.choice(FAULTS)) for _ in range(random.choice((1, 1, 2, 4)))]
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            faults = mutated(random, faults, names) if random.random() < 0.9 else draw_value(random)
        yield (as_json(random, faults, 0.05),)


@cache
def _job() -> dict[str, Any]:
    file = ROOT / "tests/data/flink-reference/2x2_200KBs_off.toml"
    return scenario_document(read_scenario(tomllib.loads(file.read_text("utf-8"))))


def check_faults(data: bytes) -> bool:
    """Faults are those of the job, and the same when they are written and read again, or are refused."""
    whole = json.dumps(_job())
    path = written("faults.json", whole[:-1].encode() + b', "faults": ' + data + b"}")
    try:
        scenario = load_scenario(path)
    except InputError as error:
        return refused(error)
    assert read_scenario(scenario_document(scenario)) == scenario
    return True


DOORS = [
    Door("scenario", scenario_files, check_scenario_file, 600, 0.4),
    Door("faults", fault_documents, check_faults, 1500, 0.6),
]
