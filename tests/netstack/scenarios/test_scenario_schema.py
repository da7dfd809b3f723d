"""The schema of scenario files and their reader: what the one accepts, the other does."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netstack import (
    OPTIONS,
    QuantityError,
    ScenarioError,
    parse_duration,
    parse_rate,
    read_scenario,
    scenario_schema,
)
from netstack.scenarios.unit_texts import DURATION_S, RATE_BYTES_PER_S, SIZE_BYTES, parse_flink_size
from netstack.scenarios.value_kinds import DEFINITIONS, RATE, TIME
from tests.fuzz.damage import documents
from tests.fuzz.test_scenarios import scenarios, words


@cache
def validator() -> Any:
    jsonschema.Draft7Validator.check_schema(scenario_schema())
    return jsonschema.Draft7Validator(scenario_schema())


def is_valid(document: object) -> bool:
    return bool(validator().is_valid(document))


def is_read(document: Any) -> bool:
    try:
        read_scenario(document, to_run=False)
    except ScenarioError:
        return False
    return True


@pytest.mark.parametrize("document", scenarios(), ids=lambda document: document["name"])
def test_scenarios_of_the_project_are_valid(document: dict[str, Any]) -> None:
    errors = [error.message for error in validator().iter_errors(document)] if is_read(document) else []
    assert errors == []


@given(documents(scenarios(), words()))
def test_a_document_that_is_read_is_valid(document: Any) -> None:
    if isinstance(document, dict) and is_read(document):
        assert [error.message for error in validator().iter_errors(document)] == []


def plain() -> dict[str, Any]:
    return deepcopy(next(each for each in scenarios() if each["name"] == "2x2_200KBs_off"))


def put(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


BAD: dict[str, Callable[[dict[str, Any]], None]] = {
    "no duration": lambda document: document.__delitem__("duration"),
    "a key that there is not": put("wamup", value="20 s"),
    "a time without a unit": put("duration", value="60"),
    "a time with another unit": put("duration", value="60 weeks"),
    "a number for a time": put("warmup", value=20),
    "an unknown preset": put("preset", value="flink-3"),
    "a text for a number": put("seed", value="1"),
    "a window of one end": put("phases", value=[["20 s"]]),
    "an option that there is not": put("flink", "taskmanager.memory.segment", value="32 kb"),
    "a size with decimals": put("flink", "taskmanager.memory.segment-size", value="1.5 kb"),
    "a number below the least": put("flink", "taskmanager.network.memory.floating-buffers-per-gate", value=0),
    "a mode that there is not": put("flink", "execution.checkpointing.mode", value="TWICE"),
    "a vertex without a name": lambda document: document["vertices"][0].__delitem__("name"),
    "a source of two kinds": put("vertices", 0, "source", value={"record_bytes": 8, "path": "a"}),
    "an unknown format": put("vertices", 0, "source", value={"path": "a", "format": "orc"}),
    "a step without its cost": put("vertices", 1, "service", value=[{"at": "0 s"}]),
    "an unknown way to spend service": put("vertices", 1, "service_mode", value="sleep"),
    "an unknown ship": put("edges", 0, "ship", value="shuffle"),
    "an edge that leads nowhere": lambda document: document["edges"][0].__delitem__("to"),
    "an unknown fault": put("faults", value=[{"kind": "explode", "at": "1 s"}]),
    "a fault without a moment": put("faults", value=[{"kind": "fill_storage"}]),
    "a fault of two moments": put("faults", value=[{"kind": "fill_storage", "at": "1 s", "on": "buffer"}]),
    "an outage without a length": put("faults", value=[{"kind": "outage", "at": "1 s"}]),
    "a key of another fault": put("faults", value=[{"kind": "fill_storage", "at": "1 s", "delay": "1 s"}]),
    "a change without a time": put("changes", value=[{"vertex": "stage1", "service": "1 ms"}]),
    "a savepoint that stops otherwise": put("savepoints_at", value=[{"at": "5 s", "stop": "kill"}]),
    "a cost in bytes": put("costs", value={"buffer": "32 kb"}),
    "a bandwidth without a second": put("link", value={"bandwidth": "10 gbit"}),
    "a machine without cores": put("machines", value=[{"task_managers": ["a"]}]),
}  # fmt: skip


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_bad_scenarios_are_neither_read_nor_valid(change: Callable[[dict[str, Any]], None]) -> None:
    document = plain()
    assert (is_read(document), is_valid(document)) == (True, True)
    change(document)
    assert (is_read(document), is_valid(document)) == (False, False)


def test_options_may_be_tables_in_tables() -> None:
    document = plain()
    document["flink"] = {
        "taskmanager": {
            "memory": {"segment-size": "16 kb"},
            "network.memory": {"buffer-debloat.enabled": True},
        }
    }
    assert (is_read(document), is_valid(document)) == (True, True)
    document["flink"]["taskmanager"]["memory"]["segment-sizes"] = "16 kb"
    assert (is_read(document), is_valid(document)) == (False, False)


def test_a_policy_may_change() -> None:
    document = plain()
    document["flink"]["taskmanager.network.memory.buffer-debloat.enabled"] = True
    document["changes"] = [{"at": "30 s", "policy": "flink"}]
    assert (is_read(document), is_valid(document)) == (True, True)


def accepts(shape: Any, value: object) -> bool:
    return bool(jsonschema.Draft7Validator({**shape, "definitions": DEFINITIONS}).is_valid(value))


def quantities(units: list[str]) -> st.SearchStrategy[str]:
    numbers = st.sampled_from(["0", "1", "007", "1.5", "1.", ".5", "-1", "+1", "1e3", "", "1_0", "٣"])
    spaces = st.sampled_from(["", " ", "  ", "\t", "\n"])
    cased = st.sampled_from(units).flatmap(
        lambda unit: st.sampled_from([unit, unit.upper(), unit.title(), unit + "x"])
    )
    return st.tuples(spaces, numbers, spaces, cased | st.just(""), spaces).map("".join)


@given(quantities(list(DURATION_S)))
def test_times_are_accepted_as_they_are_read(text: str) -> None:
    assert accepts(TIME.shape, text) == can(parse_duration, text)


@given(
    quantities([f"{unit}/{second}" for unit in RATE_BYTES_PER_S for second in ("s", "sec", "second", "min")])
)
def test_rates_are_accepted_if_they_are_read(text: str) -> None:
    assert accepts(RATE.shape, text) or not can(parse_rate, text)


@given(quantities(list(SIZE_BYTES)))
def test_sizes_are_accepted_as_they_are_read(text: str) -> None:
    assert accepts(OPTIONS["segment_bytes"].kind.shape, text) == can(parse_flink_size, text)


def can(parse: Callable[[object], object], value: object) -> bool:
    try:
        parse(value)
    except QuantityError:
        return False
    return True


VALUES: list[Any] = [
    *(
        True,
        False,
        "true",
        " TRUE ",
        "no",
        0,
        1,
        -1,
        10,
        0.5,
        1.5,
        "0",
        "1",
        " 7 ",
        "-1",
        "0.5",
        "1e-1",
        "1.5",
    ),
    *(
        "x",
        "",
        "10 ms",
        "1 min",
        "2 s",
        1000,
        "32 kb",
        "1 MB",
        "1.5 kb",
        "EXACTLY_ONCE",
        "at_least_once",
        "none",
    ),
    *(
        "off",
        "Disable",
        "fixed-delay",
        "fixeddelay",
        "FailureRate",
        "region",
        "FULL",
        "jobmanager",
        "filesystem",
    ),
    *("rocksdb", "hashmap", "memory", [], {}, None),
]


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_values_of_options_that_are_read_are_accepted(option: Any) -> None:
    read = [value for value in VALUES if can(option.kind.parse, value)]
    assert [value for value in read if not accepts(option.kind.shape, value)] == []
    assert read
    refused = [value for value in VALUES if not can(option.kind.parse, value)]
    assert [value for value in refused if not accepts(option.kind.shape, value)]


def test_an_editor_is_told_what_keys_mean() -> None:
    schema = scenario_schema()
    vertex = schema["properties"]["vertices"]["items"]["properties"]
    assert vertex["selectivity"]["description"] == "Records emitted for each record read."
    assert vertex["record_bytes"]["description"].endswith(
        "without its length field; absent: those of the record read."
    )
    costs = schema["properties"]["costs"]["properties"]
    assert costs["source_record"]["description"] == "Time for each generated record."
    options = schema["definitions"]["flink"]["properties"]
    assert options["taskmanager.network.memory.buffer-debloat.target"]["description"] == "Default: 1 s."
    assert options["execution.checkpointing.interval"]["description"] == (
        "Time between two triggers; absent: no checkpoints. Default: none."
    )


def test_the_schema_is_plain_json() -> None:
    assert json.loads(json.dumps(scenario_schema())) == scenario_schema()
