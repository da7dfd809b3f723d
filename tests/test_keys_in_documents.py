"""The page of scenario files has every key that is read, and no other."""

import importlib.util
import re
from types import ModuleType
from typing import Any

import pytest

from netstack import EdgeBuffers, InputError, Keys, read_scenario
from netstack.scenarios.tables import all_keys
from tests.code_in_documents import ROOT

PAGE = (ROOT / "docs/reference/SCENARIO_FILES.md").read_text("utf-8")
UNKNOWN = {"zzzzzz": 1}
MADE: dict[str, Any] = {"record_bytes": 8, "keys": UNKNOWN} | UNKNOWN
READ: dict[str, Any] = {"path": "rows.csv"} | UNKNOWN
ASKED: dict[str, Any] = {
    "vertices": [UNKNOWN | {"name": "maker", "source": MADE}, {"name": "reader", "source": READ}],
    "edges": [{"from": "maker", "to": "reader", "buffers": UNKNOWN} | UNKNOWN],
    "machines": [UNKNOWN],
    "savepoints_at": [UNKNOWN | {"at": "1 s"}],
    "changes": [UNKNOWN],
    "link": UNKNOWN,
    "costs": UNKNOWN,
}
"""A document with a key that is no key in each of its tables: what is said of it names those that are."""

TABLES = {
    "Scenario": "",
    "Vertex": "vertices.maker.",
    "GeneratorSpec": "vertices.maker.source.",
    "PathSpec": "vertices.reader.source.",
    "Edge": "edges.maker->reader.",
    "Machine": "machines.0.",
    "ScheduledSavepoint": "savepoints_at.0.",
    "ScheduledChange": "changes.0.",
    "LinkConditions": "link.",
}
"""Tables of the page, and where they are in the document above; costs are too many for a message."""


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scenario_page", ROOT / ".ci" / "scenario_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def known_keys(table: str) -> list[str]:
    with pytest.raises(InputError) as refused:
        read_scenario(ASKED | UNKNOWN)
    said = dict(problem.split(": ", 1) for problem in refused.value.problems if "zzzzzz" in problem)
    return sorted(said[f"{table}zzzzzz"].partition("use one of ")[2].split(", "))


def test_the_tables_of_the_page_are_those_of_the_declarations() -> None:
    assert generator().page(PAGE) == PAGE, "run 'make share'"


def test_every_key_says_what_it_means() -> None:
    tables = [*generator().TABLES.values(), EdgeBuffers, Keys]
    assert [(table.__name__, key.name) for table in tables for key in all_keys(table) if not key.doc] == []


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_the_page_has_the_keys_of_its_part_of_a_file(name: str) -> None:
    table = PAGE.split(f"<!-- keys of {name} -->\n\n", 1)[1].split("\n\n", 1)[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == known_keys(TABLES[name])


@pytest.mark.parametrize(
    ("key", "table"), [("keys", "vertices.maker.source."), ("buffers", "edges.maker->reader.")]
)
def test_tables_within_a_line_have_their_keys(key: str, table: str) -> None:
    (inner,) = re.findall(rf"^\| `{key}` \| `\{{ (.*) \}}` \|", PAGE, re.MULTILINE)
    assert sorted(inner.split(", ")) == known_keys(f"{table}{key}.")
