"""Records have bytes only where a task reads them. Apart from that, blank records change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from buffers import BlankBytes
from netstack import (
    AtTime,
    Edge,
    GeneratorSpec,
    InitialCheckpoint,
    KillSubtask,
    NetworkConfig,
    Result,
    Scenario,
    ScenarioError,
    SubtaskName,
    Vertex,
    emulate,
    map_records,
)
from netstack.checkpoints.storage import MemoryStorage
from netstack.jobs import build
from netstack.scenarios.record_contents import Contents, contents_of
from netstack.scenarios.scenario import Keys
from tests.netstack.whole_jobs import MODES


def pipeline(*vertices: Vertex, ships: tuple[str, ...] = (), **fields: Any) -> Scenario:
    """Vertices one behind the other, the first of them a source."""
    names = [vertex.name for vertex in vertices]
    edges = tuple(
        Edge(source=source, target=target, ship=ship)
        for source, target, ship in zip(names, names[1:], ships or ["rebalance"] * 9, strict=False)
    )
    return Scenario(name="job", vertices=vertices, edges=edges, **({"duration_s": 4.0} | fields))


SOURCE = Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=700, keys=Keys(number=50)))
MIDDLE = Vertex(name="middle", parallelism=2, service=((0.0, 0.0005),))
LAST = Vertex(name="last", parallelism=2, service=((0.0, 0.002),))
MINE = replace(LAST, operator=map_records(bytes.upper))


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        (pipeline(SOURCE, MIDDLE, LAST), Contents(frozenset(), frozenset())),
        (pipeline(SOURCE, MIDDLE, MINE), Contents(frozenset({"source", "middle"}), frozenset({0, 1}))),
        (
            pipeline(SOURCE, MIDDLE, LAST, ships=("forward", "hash")),
            Contents(frozenset({"source", "middle"}), frozenset({0})),
        ),
        (
            pipeline(SOURCE, MIDDLE, LAST, ships=("hash", "forward")),
            Contents(frozenset({"source"}), frozenset()),
        ),
    ],
    ids=["nobody", "a function", "a hash at the end", "a hash at once"],
)
def test_where_bytes_are_looked_at(scenario: Scenario, expected: Contents) -> None:
    assert contents_of(scenario) == expected


def test_records_of_different_lengths_need_bytes_until_a_vertex_gives_them_one_length() -> None:
    source = replace(SOURCE, source=GeneratorSpec(record_bytes=70_000, record_spread=0.5))
    assert contents_of(pipeline(source, MIDDLE, LAST)) == Contents(
        frozenset({"source", "middle"}), frozenset({0, 1})
    )
    assert contents_of(pipeline(source, replace(MIDDLE, record_bytes=90), LAST)).edges == {0}


def test_a_measured_hash_and_watermarks() -> None:
    measured = pipeline(SOURCE, LAST)
    edge = Edge(source="source", target="last", ship="hash", shares=(1.0, 3.0))
    assert contents_of(replace(measured, edges=(edge,))) == Contents(frozenset(), frozenset())
    late = replace(SOURCE, source=GeneratorSpec(record_bytes=700, out_of_orderness_s=0.0))
    windows = replace(LAST, emit_every_s=1.0, emit_by="event_time")
    assert contents_of(pipeline(late, windows, MIDDLE)).edges == {0, 1}


def shown(result: Result) -> Any:
    """All fields of a result but how long it took."""
    return {name: each for name, each in msgspec.to_builtins(result).items() if "wall" not in name}


KILLED = (KillSubtask(when=AtTime(1.1), subtask=SubtaskName("last", 0)),)
JOBS = {
    "chain": pipeline(SOURCE, MIDDLE, LAST),
    "hash": pipeline(SOURCE, MIDDLE, LAST, ships=("hash", "rescale")),
    "sizes": pipeline(SOURCE, replace(MIDDLE, record_bytes=90, selectivity=0.7), LAST),
    "windows": pipeline(SOURCE, replace(MIDDLE, emit_every_s=0.4, selectivity=0.3), LAST),
    "broadcast": pipeline(SOURCE, MIDDLE, LAST, ships=("broadcast", "hash")),
    "long records": pipeline(
        replace(SOURCE, source=GeneratorSpec(record_bytes=100_000)), replace(LAST, service=((0.0, 0.02),))
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", JOBS)
def test_without_bytes_the_numbers_are_the_same(
    name: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = NetworkConfig(
        checkpoint_interval_s=0.3, debloat_enabled=True, debloat_target_s=0.2, **MODES[mode]
    )
    scenario = replace(JOBS[name], config=config, faults=KILLED, duration_s=2.6)
    without = emulate(scenario)
    everything = Contents(
        frozenset(vertex.name for vertex in scenario.vertices), frozenset(range(len(scenario.edges)))
    )
    monkeypatch.setattr(build, "contents_of", lambda scenario: everything)
    assert shown(without) == shown(emulate(scenario))
    assert without.work.records > 0
    assert [restart.running_at is not None for restart in without.restarts] == [True]


def test_unaligned_checkpoints_keep_what_is_in_flight_without_bytes() -> None:
    config = NetworkConfig(
        checkpoint_interval_s=1.0, unaligned_enabled=True, state_memory_threshold_bytes=2000
    )
    storage = MemoryStorage()
    emulate(pipeline(SOURCE, MIDDLE, LAST, config=config), storage=storage)
    kept = [file for path, file in storage.files.items() if path.endswith("-channels")]
    assert kept
    assert all(isinstance(piece, BlankBytes) for file in kept for piece in file)


@pytest.mark.parametrize("kind", ["in flight", "held back", "neither"])
def test_records_without_bytes_are_not_restored_where_they_are_looked_at(kind: str) -> None:
    config = NetworkConfig(checkpoint_interval_s=1.0, unaligned_enabled=kind == "in flight")
    window = replace(MIDDLE, emit_every_s=1.5) if kind == "held back" else MIDDLE
    storage = MemoryStorage()
    emulate(pipeline(SOURCE, window, LAST, config=config, duration_s=5.0), storage=storage)
    newest = max(storage.checkpoints())
    checkpoint = InitialCheckpoint(storage.load(newest), storage, "chk", newest + 1)

    def go_on(last: Vertex) -> None:
        job = pipeline(SOURCE, window, last, config=config, duration_s=0.5)
        emulate(job, storage=MemoryStorage(), from_checkpoint=checkpoint)

    go_on(LAST)
    if kind == "neither":
        go_on(MINE)
        return
    with pytest.raises(
        ScenarioError, match="chk: the checkpoint has in-flight records of middle -> last without their bytes"
    ):
        go_on(MINE)
