"""Scenarios become descriptions of Flink jobs; what cannot be made of them is refused by its key."""

from dataclasses import replace
from pathlib import Path

import pytest

from integration import load_scenario
from netstack import InputError, Scenario, in_slots
from tests.flink.job_description import (
    described,
    in_order,
    layout_of,
    managers_of,
    placed,
    placement_of,
    problems_of,
)
from tests.flink.policy_runs import KNOWN, NEW
from tests.flink.references import REFERENCES, scenario_named, write_reference

TEXT = """
name = "job"
duration = "30 s"
warmup = "10 s"
FLINK
[[vertices]]
name = "sink"
parallelism = 3
service = [{ at = "0 s", cost = "1 ms" }, { at = "20 s", cost = "2 ms" }]
service_skew = [1, 2]
service_mode = "burn"
[[vertices]]
name = "orders"
parallelism = 2
SOURCE
[[vertices]]
name = "payments"
source = { record_bytes = 113, rate = 50, burst = "2 s" }
[[vertices]]
name = "join"
parallelism = 2
service = "2 ms"
selectivity = 0.5
record_bytes = 213
VERTEX
[[edges]]
from = "orders"
to = "join"
ship = "hash"
shares = [1, 3]
EDGE
[[edges]]
from = "payments"
to = "join"
ship = "hash"
input = 1
selectivity = 0
service = "100 us"
[[edges]]
from = "join"
to = "sink"
ship = "rescale"
[[edges]]
from = "payments"
to = "sink"
ship = "broadcast"
TOP
"""

ORDERS = (
    "source = { record_bytes = 413, rate = [0, 9], keys = { number = 9, zipf = 0.6, most_frequent = [0.5] } }"
)


def scenario_of(tmp_path: Path, **parts: str) -> Scenario:
    text = TEXT
    for place in ("FLINK", "SOURCE", "VERTEX", "EDGE", "TOP"):
        text = text.replace(place, parts.get(place.lower(), ORDERS if place == "SOURCE" else ""))
    file = tmp_path / "job.toml"
    file.write_text(text, "utf-8")
    return load_scenario(file)


_BY_KEY = {"fraction": 1.0, "shares": [], "ship": "hash"}

DESCRIPTION = {
    "name": "job",
    "vertices": [
        {
            "parallelism": 2,
            "slotGroup": "g1",
            "source": {
                "payloadBytes": 400,
                "rates": [0, 9],
                "batch": 1,
                "catchUpSeconds": 1.0,
                "keys": 9,
                "zipf": 0.6,
                "mostFrequent": [0.5],
            },
        },
        {
            "parallelism": 1,
            "slotGroup": "g2",
            "source": {
                "payloadBytes": 100,
                "rates": [50],
                "batch": 1,
                "catchUpSeconds": 1.0,
                "burstSeconds": 2.0,
            },
        },
        {
            "parallelism": 2,
            "slotGroup": "g3",
            "serviceSkew": [1.0],
            "burns": False,
            "random": False,
            "payloadBytes": 200,
            "inputs": [
                {
                    "service": [[0.0, 0.002]],
                    "selectivity": 0.5,
                    "edges": [_BY_KEY | {"from": 0, "shares": [1, 3]}],
                },
                {"service": [[0.0, 0.0001]], "selectivity": 0, "edges": [_BY_KEY | {"from": 1}]},
            ],
        },
        {
            "parallelism": 3,
            "slotGroup": "g0",
            "serviceSkew": [1, 2],
            "burns": True,
            "random": False,
            "payloadBytes": 0,
            "inputs": [
                {
                    "service": [[0.0, 0.001], [20.0, 0.002]],
                    "selectivity": 1.0,
                    "edges": [
                        {"from": 2, "ship": "rescale", "fraction": 1.0, "shares": []},
                        {"from": 1, "ship": "broadcast", "fraction": 1.0, "shares": []},
                    ],
                }
            ],
        },
    ],
}
"""Of the job of `TEXT`."""


def test_a_scenario_becomes_the_description_of_a_job(tmp_path: Path) -> None:
    scenario = scenario_of(tmp_path)
    assert [vertex.name for vertex in in_order(scenario)] == ["orders", "payments", "join", "sink"]
    assert described(scenario) == DESCRIPTION


def test_the_cluster_gets_the_options_and_the_policy(tmp_path: Path) -> None:
    flink = """policy = "burst"
[flink]
"taskmanager.network.memory.buffer-debloat.enabled" = true
"taskmanager.network.memory.buffers-per-channel" = 0
"taskmanager.memory.network.max" = "64 mb"
"""
    layout = layout_of(scenario_of(tmp_path, flink=flink))
    assert layout.policy == "burst"
    assert layout.network_bytes == 64 << 20
    assert layout.options["taskmanager.network.memory.buffer-debloat.enabled"] is True
    assert layout.options["taskmanager.network.memory.buffers-per-channel"] == 0
    assert layout.options["shuffle-service-factory.class"].endswith("ChosenBuffersFactory")
    assert "shuffle-service-factory.class" not in layout_of(scenario_of(tmp_path)).options


def test_each_machine_has_cores_of_its_own(tmp_path: Path) -> None:
    text = """
[[machines]]
cores = 2
task_managers = ["sink", "orders"]
[[machines]]
cores = 1
task_managers = ["join"]
"""
    scenario = scenario_of(tmp_path, top=text)
    assert scenario.task_managers == ("sink", "orders", "payments", "join")
    assert layout_of(scenario).cores == [[0, 1], [0, 1], [], [2]]
    assert layout_of(scenario_of(tmp_path)).cores == []


def test_waves_and_bursts_are_described(tmp_path: Path) -> None:
    for key in ("wave", "burst"):
        source = f'source = {{ record_bytes = 99, rate = 5, {key} = "2 s" }}'
        orders = described(scenario_of(tmp_path, source=source))["vertices"][0]
        assert orders["source"][f"{key}Seconds"] == 2.0


def test_vertices_share_slots_where_they_agree_on_the_task_managers(tmp_path: Path) -> None:
    scenario = scenario_of(tmp_path)
    apart = placement_of(scenario)
    assert list(apart.rooms) == [{"g0": 3}, {"g1": 2}, {"g2": 1}, {"g3": 2}]
    shared = replace(scenario, vertices=in_slots(scenario.vertices, 2))
    assert set(placement_of(shared).groups.values()) == {"g0"}
    assert list(placement_of(shared).rooms) == [{"g0": 2}, {"g0": 1}]


def test_subtasks_that_flink_has_placed_otherwise_are_placed_so_here(tmp_path: Path) -> None:
    scenario = replace(scenario_of(tmp_path), vertices=in_slots(scenario_of(tmp_path).vertices, 2))
    occupied = {vertex.name: managers_of(vertex) for vertex in scenario.vertices}
    assert occupied == {
        "sink": ("tm-1", "tm-1", "tm-2"),
        "orders": ("tm-1", "tm-1"),
        "payments": ("tm-1",),
        "join": ("tm-1", "tm-1"),
    }
    assert placed(scenario, occupied) is scenario
    other = {"tm-1": "tm-2", "tm-2": "tm-1"}
    swapped = {name: tuple(map(other.__getitem__, managers)) for name, managers in occupied.items()}
    assert placed(scenario, swapped) is scenario
    moved = occupied | {"sink": ("tm-2", "tm-1", "tm-1")}
    assert {v.name: managers_of(v) for v in placed(scenario, moved).vertices} == moved
    together = occupied | {"sink": ("tm-1", "tm-1", "tm-1")}
    assert {v.name: managers_of(v) for v in placed(scenario, together).vertices} == together


REFUSED = {
    "preset": ({"flink": 'preset = "flink-1.20"'}, "preset: is flink-1.20"),
    "cost": ({"top": '[costs]\nwake_up = "1 ms"'}, "costs.wake_up: is set"),
    "link": ({"top": '[link]\nlatency = "1 ms"'}, "link.latency: is set"),
    "machines": (
        {"top": '[[machines]]\ncores = 1.5\ntask_managers = ["sink"]'},
        "machines: have a part of a core",
    ),
    "changes": ({"top": '[[changes]]\nat = "5 s"\nvertex = "sink"\nservice = "1 ms"'}, "changes: cannot"),
    "faults": (
        {"top": '[[faults]]\nkind = "kill_subtask"\nvertex = "sink"\nsubtask = 0\nat = "9 s"'},
        "faults: cannot",
    ),
    "checkpoints": ({"flink": 'checkpoints_at = ["5 s"]'}, "checkpoints_at: cannot"),
    "small records": (
        {"source": "source = { record_bytes = 20 }"},
        "vertices.orders.source.record_bytes: is 20",
    ),
    "legacy": (
        {"source": "source = { record_bytes = 99, legacy = true }"},
        "vertices.orders.source.legacy: is a SourceFunction",
    ),
    "window": ({"vertex": 'emit_every = "1 s"'}, "vertices.join.emit_every: is not made"),
    "exact": ({"vertex": 'service_mode = "exact"'}, "vertices.join.service_mode: is exact"),
    "behind": ({"vertex": 'behind = "1 s"'}, "vertices.join.behind: is work from before"),
    "buffers": (
        {"edge": "buffers = { floating = 4 }"},
        "edges.orders->join.buffers.floating: is of one edge",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_made_is_refused_by_its_key(case: str, tmp_path: Path) -> None:
    parts, expected = REFUSED[case]
    with pytest.raises(InputError) as refused:
        described(scenario_of(tmp_path, **parts))
    assert len(refused.value.problems) == 1
    assert refused.value.problems[0].startswith(expected)


def test_a_policy_that_the_agent_does_not_know_is_refused(tmp_path: Path) -> None:
    scenario = scenario_of(tmp_path)
    other = replace(scenario, config=replace(scenario.config, debloat_policy="mine"))
    assert [key for key, _ in problems_of(other)] == ["policy"]


@pytest.mark.parametrize("name", [*KNOWN, *NEW])
def test_every_scenario_of_the_policy_runs_can_be_made(name: str) -> None:
    scenario = scenario_named(name, "burst")
    assert scenario.config.debloat_enabled
    assert len(described(scenario)["vertices"]) == len(scenario.vertices)


ADAPTIVE = "taskmanager.network.adaptive-partitioner.enabled"


def test_a_scenario_runs_in_the_release_of_its_preset(tmp_path: Path) -> None:
    option = f'[flink]\n"{ADAPTIVE}" = true'
    scenario_of(tmp_path, flink=option)
    file = str(tmp_path / "job.toml")
    newest = scenario_named(file)
    assert newest == scenario_named(file, None, "2.3.0")
    assert newest.preset == "flink-2.3"
    assert layout_of(newest).options[ADAPTIVE] is True
    assert described(newest) == described(scenario_named(file, "burst", "2.3.0"))
    older = scenario_named(file, "burst", "2.2.1")
    assert older == replace(newest, preset="flink-2.2", config=replace(newest.config, debloat_policy="burst"))
    with pytest.raises(InputError) as refused:
        described(older)
    assert refused.value.problems == (
        f"flink.{ADAPTIVE}: came with Flink 2.3, but this run uses 2.2.1; drop it, or use Flink 2.3.0 "
        "(--flink 2.3.0, preset flink-2.3)",
    )
    scenario_of(tmp_path, flink='preset = "flink-2.2"')
    assert described(scenario_named(file, None, "2.2.1")) == DESCRIPTION
    for preset, fix in (("flink-2.2", "use --flink 2.2.1"), ("flink-1.20", "drop it")):
        scenario_of(tmp_path, flink=f'preset = "{preset}"')
        with pytest.raises(InputError) as refused:
            scenario_named(file, None, "2.3.0")
        assert refused.value.problems == (
            f"{file}: preset: is {preset}, but Flink 2.3.0 has the defaults of flink-2.3; {fix}, or "
            "change the preset",
        )


def test_every_reference_of_a_release_that_the_testbed_has_can_be_made() -> None:
    names = sorted(file.stem for file in REFERENCES.glob("*.toml") if not file.stem.startswith("flink1_"))
    assert {"2x2_200KBs_on1s", "flink23_4x4_1MBs_adaptive"} <= set(names)
    for name in names:
        assert described(scenario_named(name))["name"] == name


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="nowhere: is no scenario of tests/flink/scenarios or"):
        scenario_named("nowhere")


def test_a_reference_lies_beside_its_scenario(tmp_path: Path) -> None:
    scenario = scenario_named("2x2_200KBs_on1s", "burst")
    file = write_reference(tmp_path / "out", scenario, {"steady": []})
    assert file.name == "2x2_200KBs_on1s.burst.json"
    assert file.read_text("utf-8") == '{"steady":[]}\n'
    written = load_scenario(file.with_suffix(".toml"))
    assert written.config == scenario.config
    assert written.windows == ((20.0, 60.0),)
