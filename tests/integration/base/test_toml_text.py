"""Scenarios as TOML, which has to load back to the same scenario."""

import dataclasses
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.base.reading import load_scenario
from netstack import CostModel, GeneratorSpec, LinkConditions, Vertex, read_scenario, scenario_toml

ROOT = Path(__file__).parents[3]
FILES = sorted([*ROOT.glob("tests/data/flink-reference/*.toml"), *ROOT.glob("docs/examples/*.toml")])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_written_loads_back(file):
    scenario = load_scenario(file)
    assert read_scenario(tomllib.loads(scenario_toml(scenario))) == scenario


def test_costs_and_links_stand_there_where_they_are_not_the_defaults():
    scenario = load_scenario(ROOT / "tests/data/flink-reference/2x2_200KBs_off.toml")
    assert "[costs]" not in scenario_toml(scenario)
    assert "[link]" not in scenario_toml(scenario)
    other = dataclasses.replace(
        scenario, costs=CostModel(wake_up_s=1e-4), link=LinkConditions(bandwidth_bytes_per_s=1e6)
    )
    written = tomllib.loads(scenario_toml(other))
    assert written["costs"] == {"wake_up": "100 us"}
    assert written["link"] == {"bandwidth": "1 MB/s"}
    assert read_scenario(written) == other


@given(name=st.text(min_size=1), comment=st.text())
def test_no_name_or_comment_breaks_the_file(name, comment):
    try:
        name.encode()
    except UnicodeEncodeError:
        return  # half of a surrogate pair, which no file can hold
    vertex = Vertex(name=name, source=GeneratorSpec(record_bytes=100))
    scenario = load_scenario(ROOT / "tests/data/flink-reference/2x2_200KBs_off.toml")
    renamed = dataclasses.replace(scenario, name=name, vertices=(vertex,), edges=())
    assert read_scenario(tomllib.loads(scenario_toml(renamed, [comment]))) == renamed
