"""Subtasks with two inputs: who waits for whom, and that checkpoints of them lose and repeat nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from buffers import InsufficientBuffers
from netstack import (
    Agenda,
    AtTime,
    CollectionSource,
    Edge,
    Fault,
    GeneratorSpec,
    Job,
    KillSubtask,
    NetworkConfig,
    RestartStrategy,
    Scenario,
    SourceObject,
    SubtaskName,
    TransactionLog,
    Vertex,
    sink,
    transactional_sink,
)
from netstack.exchange.gate import InputGate
from netstack.tasks.multiple_input_subtask import TaskInput
from tests.netstack.whole_jobs import EXACTLY_ONCE, MODES, run

COUNT = 400
KILLS = (("join", 0.33), ("left", 0.71), ("out", 1.02), ("join", 1.31))


def waits(inputs: tuple[int, int], busy_rate: float, service_s: float = 0.002) -> list[float]:
    """How long each record of a quiet source waits at a join that a busy one keeps at work."""
    agenda, found = Agenda(), list[float]()
    quiet = CollectionSource([[b"quiet %03d" % number for number in range(100)]])

    def note(record: bytes) -> None:
        if record.startswith(b"quiet"):
            found.append(agenda.now - int(record.split()[1]) / 7)

    scenario = Scenario(
        name="waits",
        duration_s=10.0,
        vertices=(
            Vertex(name="busy", source=GeneratorSpec(record_bytes=500, rates=(busy_rate,))),
            Vertex(name="quiet", source=SourceObject(source=quiet, rates=(7.0,))),
            Vertex(name="join", service=((0.0, service_s),)),
            Vertex(name="sink", operator=lambda subtask: sink(note)(subtask)),
        ),
        edges=(
            Edge(source="busy", target="join", input=inputs[0]),
            Edge(source="quiet", target="join", input=inputs[1]),
            Edge(source="join", target="sink"),
        ),
        config=NetworkConfig(buffer_timeout_interval_s=0.0),
    )
    run(Job(scenario, agenda))
    return found


@pytest.mark.parametrize("inputs", [(0, 1), (3, 1)])
def test_a_quiet_input_waits_for_one_record_of_a_saturated_one(inputs: tuple[int, int]) -> None:
    found = waits(inputs, 0.0)
    assert len(found) > 55
    assert max(found) < 0.05


def test_within_a_union_a_buffer_is_waited_for() -> None:
    assert max(waits((0, 1), 50.0)) < 0.05
    assert max(waits((0, 0), 0.0)) > 0.05
    assert max(waits((0, 0), 0.0)) < 0.2


class FullGate:
    """A gate that yields its name as often as it has items."""

    def __init__(self, name: str, items: int) -> None:
        self.name, self.items = name, items

    @property
    def readable(self) -> bool:
        return self.items > 0

    def poll(self, now: float) -> Any:
        if not self.items:
            return None
        self.items -= 1
        return self.name, now


@pytest.mark.interpreted  # a gate of its own
def test_the_gates_of_a_union_are_read_in_turns_while_all_stay_readable() -> None:
    task_input = TaskInput()
    gates = [FullGate("a", 4), FullGate("b", 2), FullGate("empty", 0), FullGate("c", 3)]
    task_input.gates = cast(list[InputGate], gates)
    polled = []
    while task_input.readable:
        if (item := task_input.poll(0.0)) is not None:
            polled.append(str(item[0]))
    assert polled == ["a", "b", "c", "a", "b", "c", "a", "c", "a"]


def records(name: bytes, times: int = 1) -> list[bytes]:
    return [b"%s %d" % (name, number) for number in range(COUNT) for _ in range(times)]


SETTINGS: dict[str, Any] = {
    "checkpoint_interval_s": 0.05,
    "checkpoint_timeout_s": 5.0,
    "segment_bytes": 1024,
    "exclusive_buffers_per_channel": 1,
    "floating_buffers_per_gate": 2,
    "restart_strategy": RestartStrategy.FIXED_DELAY,
    "restart_attempts": 1000,
    "restart_delay_s": 0.05,
    "heartbeat_timeout_s": 0.3,
}


def join_job(
    log: TransactionLog,
    faults: Sequence[Fault],
    settings: dict[str, Any],
    *,
    rate: float = 300.0,
    **of_join: Any,
) -> Scenario:
    """Two sources -> a join that reads them as two inputs -> what commits."""

    def source(name: str) -> Vertex:
        given = CollectionSource([records(name.encode())])
        return Vertex(name=name, source=SourceObject(source=given, rates=(rate,)))

    return Scenario(
        name="join",
        duration_s=60.0,
        config=NetworkConfig(**(SETTINGS | settings)),
        vertices=(
            source("left"),
            source("right"),
            Vertex(name="join", service=((0.0, 0.001),), **of_join),
            Vertex(name="out", parallelism=2, operator=transactional_sink(log.commit)),
        ),
        edges=(
            Edge(source="left", target="join", service=((0.0, 0.002),)),
            Edge(source="right", target="join", input=1),
            Edge(source="join", target="out"),
        ),
        faults=tuple(faults),
    )


def kills(later: float = 1.0) -> list[Fault]:
    return [KillSubtask(when=AtTime(at * later), subtask=SubtaskName(name, 0)) for name, at in KILLS]


@pytest.mark.parametrize("rate", [0.0, 300.0])
@pytest.mark.parametrize("mode", MODES)
def test_two_inputs_come_back_with_every_record(mode: str, rate: float) -> None:
    log = TransactionLog()
    # A barrier has to get through what is in flight before the job is killed.
    settings = MODES[mode] if rate else MODES[mode] | {"segment_bytes": 256, "min_segment_bytes": 64}
    job = run(Job(join_job(log, kills(1.0 if rate else 1.8), settings, rate=rate), Agenda()))
    found, everything = Counter(log.records), Counter(records(b"left") + records(b"right"))
    assert len(job.restarts) >= 2
    assert any(restart.checkpoint_id for restart in job.restarts)
    if mode in EXACTLY_ONCE:
        assert found == everything
    else:
        assert found.keys() == everything.keys()


@pytest.mark.parametrize("mode", EXACTLY_ONCE)
def test_what_an_emission_owes_and_holds_back_comes_back(mode: str) -> None:
    log = TransactionLog()
    scenario = join_job(log, kills(), MODES[mode], emit_every_s=0.12)
    left, right, out = scenario.edges
    edges = (replace(left, selectivity=0.4), replace(right, selectivity=2.0), out)
    job = run(Job(replace(scenario, edges=edges), Agenda()))
    turns = [number for number in range(COUNT) if int((number + 1) * 0.4 + 1e-9) > int(number * 0.4 + 1e-9)]
    assert len(job.restarts) >= 2
    assert Counter(log.records) == Counter([b"left %d" % number for number in turns] + records(b"right", 2))


def test_what_the_only_edge_into_a_vertex_says_holds() -> None:
    log = TransactionLog()
    scenario = join_job(log, [], MODES[EXACTLY_ONCE[0]])
    left, _, out = scenario.edges
    vertices = tuple(vertex for vertex in scenario.vertices if vertex.name != "right")
    edges = (replace(left, selectivity=2.0), out)
    run(Job(replace(scenario, vertices=vertices, edges=edges), Agenda()))
    assert Counter(log.records) == Counter(records(b"left", 2))


def test_a_join_that_gets_no_memory_says_so() -> None:
    small = {"network_memory_max_bytes": 3 << 10}
    with pytest.raises(InsufficientBuffers, match="task manager join"):
        run(Job(join_job(TransactionLog(), [], small), Agenda()))


@pytest.mark.parametrize("mode", EXACTLY_ONCE)
def test_a_join_without_outputs_comes_back_too(mode: str) -> None:
    log = TransactionLog()
    scenario = join_job(log, kills()[:2], MODES[mode], operator=transactional_sink(log.commit))
    left, right, _ = scenario.edges
    edges = (replace(left, service=None), right)
    job = run(Job(replace(scenario, vertices=scenario.vertices[:3], edges=edges), Agenda()))
    assert len(job.restarts) == 2
    assert Counter(log.records) == Counter(records(b"left") + records(b"right"))
