"""The page of scenario files has every key that is read, and no other."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from netstack import ScenarioError, read_scenario
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
}
"""A document with a key that is no key in each of its tables: what is said of it names those that are."""


def known_keys(table: str) -> list[str]:
    with pytest.raises(ScenarioError) as refused:
        read_scenario(ASKED | UNKNOWN)
    said = dict(problem.split(": ", 1) for problem in refused.value.problems if "zzzzzz" in problem)
    return sorted(said[f"{table}zzzzzz"].partition("use one of ")[2].split(", "))


def keys_in(text: str, column: int) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("| `"):
            yield from re.findall(r"`(\w+)`", line.split("|")[column])


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize(
    ("title", "table"),
    [("At the top", ""), ("Vertices", "vertices.maker."), ("Edges", "edges.maker->reader.")],
)
def test_a_table_of_the_page_has_the_keys_of_its_part_of_a_file(title: str, table: str) -> None:
    assert sorted(keys_in(section(title), 1)) == known_keys(table)


def test_sources_have_the_keys_of_both_kinds() -> None:
    made, read = section("Sources").split("With `path` in it", 1)
    assert sorted(keys_in(made, 1)) == known_keys("vertices.maker.source.")
    assert sorted(keys_in(read, 1)) == known_keys("vertices.reader.source.")


@pytest.mark.parametrize("part", ["machines", "savepoints_at", "changes"])
def test_small_tables_have_their_keys(part: str) -> None:
    lines = "\n".join(line for line in PAGE.splitlines() if line.startswith(f"| `{part}` | `"))
    rows = [line for line in lines.splitlines() if re.match(rf"\| `{part}` \| `\w+`(, `\w+`)* \|", line)]
    within = "\n".join(row for row in rows if row in section("Machines, savepoints, changes, faults"))
    assert sorted(keys_in(within, 2)) == known_keys(f"{part}.0.")


@pytest.mark.parametrize(
    ("key", "table"), [("keys", "vertices.maker.source."), ("buffers", "edges.maker->reader.")]
)
def test_tables_within_a_line_have_their_keys(key: str, table: str) -> None:
    (inner,) = re.findall(rf"^\| `{key}` \| `\{{ (.*) \}}` \|", PAGE, re.MULTILINE)
    assert sorted(inner.split(", ")) == known_keys(f"{table}{key}.")
