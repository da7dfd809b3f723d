"""CPU-bound work: routines that share the cores of a machine are slower."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from netstack import (
    CostModel,
    Edge,
    GeneratorSpec,
    Machine,
    Scenario,
    Vertex,
    distribution_problems,
    emulate,
    scenario_problems,
)
from netstack.engine.agenda import Agenda
from netstack.engine.agenda_loop import run_agenda
from netstack.engine.cores import Cores

Work = list[tuple[float, float]]
"""The begin of each routine, and the time that it would take alone, in seconds."""


def ends_of(cores: float, work: Work) -> list[float]:
    agenda = Agenda()
    shared = Cores(agenda, cores)
    ends = [0.0] * len(work)

    async def burn(number: int, begin: float, seconds: float) -> None:
        await agenda.sleep_until(begin)
        await shared.work(seconds)
        ends[number] = agenda.now

    for number, (begin, seconds) in enumerate(work):
        agenda.start(burn(number, begin, seconds))
    trio.run(run_agenda, agenda)
    return ends


def ends_by_steps(cores: float, work: Work) -> list[float]:
    """The same, from one beginning or end to the next."""
    left = {number: seconds for number, (_, seconds) in enumerate(work)}
    begins = [begin for begin, _ in work]
    ends, now = [0.0] * len(work), 0.0
    while left:
        active = [number for number in left if begins[number] <= now]
        speed = min(1.0, cores / len(active)) if active else 1.0
        nexts = [now + left[number] / speed for number in active]
        nexts += [begins[number] for number in left if begins[number] > now]
        later = min(nexts)
        for number in active:
            left[number] -= (later - now) * speed
            if left[number] <= 1e-9:
                ends[number] = later
                del left[number]
        now = later
    return ends


@pytest.mark.parametrize(
    ("cores", "work", "ends"),
    [
        (2, [(0, 1)], [1]),
        (2, [(0, 1), (0, 2)], [1, 2]),
        (2, [(0, 1), (0, 1), (0, 1)], [1.5, 1.5, 1.5]),
        (1, [(0, 1), (0.5, 1)], [1.5, 2]),
        (0.5, [(0, 1)], [2]),
        (1, [(0, 1), (3, 1)], [1, 4]),
    ],
)
def test_all_that_work_share_the_cores(cores, work, ends):
    assert ends_of(cores, work) == pytest.approx(ends)


@given(
    st.floats(0.3, 4.0),
    st.lists(st.tuples(st.floats(0, 5), st.floats(0.01, 3)), min_size=1, max_size=8),
)
def test_whoever_comes_and_goes(cores, work):
    assert ends_of(cores, work) == pytest.approx(ends_by_steps(cores, work), abs=1e-6)


@pytest.mark.parametrize(("cores", "end"), [(1, 1.5), (2, 1.0)])
def test_other_threads_take_idle_cores_first(cores, end):
    agenda = Agenda()
    shared = Cores(agenda, cores)
    ends = []

    async def burn() -> None:
        shared.owe(0.5)
        for _ in range(2):
            await shared.work(0.5)
        ends.append(agenda.now)

    agenda.start(burn())
    trio.run(run_agenda, agenda)
    assert ends == pytest.approx([end])


def test_other_threads_take_what_was_idle_before_the_next_work():
    agenda = Agenda()
    shared = Cores(agenda, 1)
    ends = []

    async def burn() -> None:
        shared.owe(0.5)
        await agenda.sleep_until(0.3)
        await shared.work(1.0)  # 0.2 s are left of the other threads' time
        ends.append(agenda.now)
        shared.owe(0.5)
        await agenda.sleep_until(10.0)
        await shared.work(1.0)
        ends.append(agenda.now)

    agenda.start(burn())
    trio.run(run_agenda, agenda)
    assert ends == pytest.approx([1.5, 11.0])


@pytest.mark.parametrize(("cores", "is_full"), [(2, True), (6, False)])
def test_buffers_take_processor_time_from_tasks_that_use_all_cores(cores, is_full):
    scenario = burning((Machine(cores=cores, task_managers=("a", "b")),))
    scenario = replace(
        scenario, config=replace(scenario.config, segment_bytes=4096), duration_s=4.0, warmup_s=2.0
    )
    free = replace(scenario, costs=CostModel(network_send_s=0.0, network_receive_s=0.0))
    lost = 1 - served(scenario)[0] / served(free)[0]
    assert lost > 0.02 if is_full else abs(lost) < 0.01


def burning(machines: tuple[Machine, ...] = (), mode: str = "burn") -> Scenario:
    """Four subtasks that work for 2 ms a record, in two task managers; then a sink."""
    work = Vertex(
        name="work",
        parallelism=4,
        task_manager=("a", "b"),
        service=((0.0, 0.002),),
        service_mode=mode,
    )
    sink = Vertex(name="sink", task_manager="a", service=((0.0, 0.0001),), service_mode=mode)
    source = Vertex(name="source", task_manager="a", source=GeneratorSpec(record_bytes=8000, rates=(0.0,)))
    return Scenario(
        name="burning",
        duration_s=10.0,
        warmup_s=5.0,
        vertices=(source, work, sink),
        edges=(Edge(source="source", target="work"), Edge(source="work", target="sink")),
        machines=machines,
    )


def served(scenario: Scenario) -> tuple[float, float]:
    """Records per second of each subtask, and the share of its time in which one is busy."""
    vertex = emulate(scenario).steady[0].vertices[1]
    return sum(vertex.records_in_per_s) / 4, vertex.busy_ms_per_s[0] / 1000


@pytest.mark.parametrize(
    ("machines", "per_s"),
    [
        ((), 500),
        ((Machine(cores=4, task_managers=("a", "b")),), 475),
        ((Machine(cores=2, task_managers=("a", "b")),), 238),
        ((Machine(cores=1, task_managers=("a",)), Machine(cores=1, task_managers=("b",))), 227),
    ],
)
def test_what_burns_is_as_slow_as_its_machine_is_full(machines, per_s):
    rate, busy = served(burning(machines))
    assert rate == pytest.approx(per_s, rel=0.03)
    assert busy > 0.9


def test_a_machine_that_makes_no_sense_is_refused():
    a, b = Machine(cores=0, task_managers=("a",)), Machine(cores=2, task_managers=("a", "bb"))
    assert scenario_problems(burning((a, b))) == [
        ("machines.0.cores", "is 0; it must be more than 0"),
        ("machines.1.task_managers", "a is already on machine 0; put each task manager on one machine only"),
        ("machines.1.task_managers", "no task manager is named 'bb'; did you mean 'b'?"),
    ]
    (problem,) = scenario_problems(burning((Machine(cores=2, task_managers=("a",)),), mode="exact"))
    assert problem[0] == "machines"
    assert list(distribution_problems(burning((Machine(cores=2, task_managers=("a", "b")),))))
