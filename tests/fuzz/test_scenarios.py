"""Doors of scenarios: files in TOML and in JSON, and the faults in them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st

from integration import load_scenario
from netstack import OPTIONS, InputError, NetworkConfig, read_scenario, scenario_document, scenario_toml
from tests.netstack.scenarios.test_fault_reader import ROWS
from tests.netstack.scenarios.test_scenario import RICH

from .damage import ROOT, as_json, documents, door, encoded, refused, words_in, written

_RARE: dict[str, Any] = {
    "name": "rare",
    "duration": "20 s",
    "savepoints_at": [{"at": "6 s", "directory": "/tmp/x", "format": "native", "stop": "drain"}],
    "policy": "flink",
    "vertices": [
        {"name": "source", "parallelism": 2, "task_manager": ["a", "b"]}
        | {
            "source": {
                "record_bytes": 100,
                "record_spread": 0.5,
                "legacy": True,
                "catch_up": "1 s",
                "out_of_orderness": "1 s",
            }
        },
        {"name": "map", "parallelism": 2, "task_manager": "a", "service": "1 ms", "service_mode": "burn"}
        | {"emit_every": "2 s", "emit_by": "event_time", "emit_cost": "1 ms", "behind": ["1 s"]},
        {"name": "sink"},
    ],
    "edges": [
        {"from": "source", "to": "map", "ship": "hash", "shares": [0.25, 0.75], "selectivity": 0.25},
        {"from": "map", "to": "sink", "buffers": {"exclusive": 2, "floating": 8}},
    ],
    "machines": [{"cores": 2, "task_managers": ["a", "b"]}],
}
"""A scenario with keys that the others lack."""

FAULTS = [tomllib.loads(text) for text, _ in ROWS]


@cache
def scenarios() -> list[dict[str, Any]]:
    """Scenarios of the project as documents, and some that have what these lack."""
    files = [*ROOT.glob("tests/data/flink-reference/*.toml"), *ROOT.glob("docs/examples/**/*.toml")]
    found = [tomllib.loads(file.read_text("utf-8")) for file in sorted(files)]
    plain = next(each for each in found if each["name"] == "2x2_200KBs_off")
    return [
        *found,
        _RARE,
        json.loads(json.dumps(scenario_document(RICH))),
        {**plain, "faults": FAULTS},
        {**plain, "faults": FAULTS[:1], "slots": 2},
        {**plain, "flink": _every_option()},
    ]


def _every_option() -> dict[str, Any]:
    """The options that have a default, with it."""
    config = NetworkConfig()
    values = [(option, getattr(config, field)) for field, option in OPTIONS.items()]
    return {option.name: option.kind.render(value) for option, value in values if value is not None}


@cache
def words() -> list[str]:
    """All names in these scenarios."""
    return words_in(*scenarios(), {option.name: "" for option in OPTIONS.values()})


@st.composite
def scenario_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """Files of scenarios, most of them with mistakes."""
    document = documents(scenarios(), words())
    if draw(st.booleans()):
        return "a.json", draw(as_json(document))
    return "a.toml", draw(encoded(as_toml(draw(document.filter(lambda each: isinstance(each, Mapping))))))


def as_toml(document: Mapping[str, Any]) -> str:
    """A document in TOML, one line for each key, even where TOML has no such value."""
    return "".join(f"{json.dumps(key)} = {_toml(value)}\n" for key, value in document.items())


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


@door(scenario_files())
def test_scenario_files(name: str, data: bytes) -> bool:
    """A file is a scenario, which is the same after it is written and read again, or is refused."""
    path = written(name, data)
    try:
        scenario = load_scenario(path)
    except InputError as error:
        return refused(error)
    text = scenario_toml(scenario)
    assert read_scenario(tomllib.loads(text)) == scenario
    return True


@cache
def _job() -> dict[str, Any]:
    file = ROOT / "tests/data/flink-reference/2x2_200KBs_off.toml"
    return scenario_document(read_scenario(tomllib.loads(file.read_text("utf-8"))))


@door(as_json(documents([[], *([fault] for fault in FAULTS), FAULTS[:3]], words_in(FAULTS))))
def test_faults(data: bytes) -> bool:
    """Faults fit the job, and are the same after they are written and read again, or are refused."""
    whole = json.dumps(_job())
    path = written("faults.json", whole[:-1].encode() + b', "faults": ' + data + b"}")
    try:
        scenario = load_scenario(path)
    except InputError as error:
        return refused(error)
    assert read_scenario(scenario_document(scenario)) == scenario
    return True
