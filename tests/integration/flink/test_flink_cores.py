"""Whether the work of a running Flink job takes cores: what is in use beside how busy tasks are."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from operator import mul
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.advise.diagnose.flink_job import diagnose_job
from integration.cli.app import main
from integration.flink import Imported, Overrides, Recorder, Recording, import_scenario
from integration.flink.fit.processor_time import (
    Burning,
    Task,
    burning_of,
    core_remarks,
    share_with_core,
    shares_of_core,
)
from integration.flink.fit.words import note_of
from integration.flink.http.answers import Answers, Refused
from integration.flink.http.client import RestClient
from integration.flink.read.cores_in_use import CPU_LOAD, CPU_TIME, Host, Processors
from integration.flink.read.job import FlinkEdge, FlinkJob, FlinkVertex, host_of
from integration.flink.read.samples import SubtaskSamples
from integration.flink.recording import packed
from netstack import (
    CostModel,
    Edge,
    GeneratorSpec,
    Machine,
    NetworkConfig,
    Scenario,
    Vertex,
    emulate,
    scenario_toml,
)
from tests.integration.flink.flink_cluster import NAMES, RECORDINGS, recording

LOOKS = 12
LOOK_S = 2.0

BUSY = (0.8, 0.8, 1.0, 0.8)
"""Busy shares of four subtasks, two in each of two task managers, which share two cores."""


def task(busy: float | SubtaskSamples | None, looks: int = LOOKS) -> SubtaskSamples:
    """Answers 2 s apart, by the task's own account; None: it keeps none."""
    if isinstance(busy, SubtaskSamples):
        return busy
    if busy is None:
        return SubtaskSamples(tuple({} for _ in range(looks)), tuple(LOOK_S * n for n in range(looks)))
    at_s = [50 + LOOK_S * n for n in range(looks)]
    parts = {"busy_ms": busy, "idle_ms": 1 - busy, "backpressured_ms": 0.0}
    return SubtaskSamples(tuple({part: 1e3 * s * share for part, share in parts.items()} for s in at_s))


def held_back(share: float) -> SubtaskSamples:
    """A source of the old kind, held back for that share: it does not tell for how long it was busy."""
    at_s = [50 + LOOK_S * n for n in range(LOOKS)]
    return SubtaskSamples(tuple({"idle_ms": 0.0, "backpressured_ms": 1e3 * s * share} for s in at_s))


MANAGERS = ("tm0", "tm0", "tm1", "tm1")
JOB = FlinkJob(
    id="job",
    name="job",
    version="2.2.1",
    batch=False,
    running_since_ms=0.0,
    age_s=100.0,
    vertices=(
        FlinkVertex(id="source", name="source", parallelism=2, managers=("tm0", "tm1")),
        FlinkVertex(id="work", name="work", parallelism=4, managers=MANAGERS),
        FlinkVertex(id="sink", name="sink", parallelism=4, managers=MANAGERS),
    ),
    edges=(
        FlinkEdge(source="source", target="work", strategy="REBALANCE"),
        FlinkEdge(source="work", target="sink", strategy="FORWARD"),
    ),
    configuration={},
    checkpointing=None,
)


def read(
    *hosts: Host,
    work: Sequence[float | SubtaskSamples | None] = BUSY,
    sink: Sequence[float | None] = (0.05,) * 4,
    source: Sequence[float | SubtaskSamples | None] = (0.0, 0.0),
    given: Overrides | None = None,
    job: FlinkJob | None = None,
) -> tuple[Burning, list[str]]:
    """Return the estimate from the use of machines, and its notes."""
    samples = {"source": [*map(task, source)], "work": [*map(task, work)], "sink": [*map(task, sink)]}
    burning = burning_of(job or JOB, samples, hosts, given or Overrides())
    return burning, list(map(note_of, core_remarks(burning)))


def with_places(**managers: tuple[str | None, ...]) -> FlinkJob:
    """The job, of which these vertices tell these task managers."""
    vertices = (replace(vertex, managers=managers.get(vertex.id, vertex.managers)) for vertex in JOB.vertices)
    return replace(JOB, vertices=tuple(vertices))


def machine(cores: float | None, used: float | None, *managers: str, other_jobs: bool = False) -> Host:
    return Host(managers=managers or ("tm0", "tm1"), cores=cores, cores_in_use=used, other_jobs=other_jobs)


class TestRule:
    def test_a_job_that_burns_on_too_few_cores(self) -> None:
        burning, notes = read(machine(2, 1.8))
        assert burning.modes == {"work": "burn", "sink": "burn"}
        assert burning.machines == (Machine(cores=2, task_managers=("tm0", "tm1")),)
        assert notes == [
            "tm0, tm1: the work of tasks is CPU-bound (1.80 of 2 cores in use; tasks that report their busy "
            "time would use 2.00 if CPU-bound). They had a core for 56 % of their busy time. The costs are "
            "processor time, including any other use of the cores. If the work of a vertex waits and is not "
            "CPU-bound, set service_mode={'VERTEX': 'throttle'}. To override the number of cores, set cores."
        ]

    def test_shares_of_tasks_add_up_to_the_cores_that_they_keep_in_use(self) -> None:
        burning, _ = read(machine(2, 1.8), sink=(0.0,) * 4)
        shares = [burning.shares["work", subtask] for subtask in range(4)]
        # With a chance of 0.2 ** 3 only the one that is always busy is; else all cores are in use.
        used = sum(share * busy for share, busy in zip(shares, BUSY, strict=True))
        assert used == pytest.approx(2 - 0.2**3, abs=0.01)
        # It is alone with two others at most of the time, and they with it and one more.
        assert shares[2] == pytest.approx(0.008 + 0.096 + 0.384 * 2 / 3 + 0.512 / 2, abs=0.01)
        assert shares[0] == pytest.approx(0.04 + 0.32 * 2 / 3 + 0.64 / 2, abs=0.01)

    @pytest.mark.parametrize("used", [0.0, 0.18, 0.4])
    def test_a_job_whose_work_waits(self, used: float) -> None:
        assert read(machine(2, used)) == (Burning(), [])

    def test_serialization_and_network_are_not_the_work(self) -> None:
        """Sources that work all the time, and network threads, use cores; what tasks do besides waits."""
        assert read(machine(16, 2.4), work=(1.0,) * 4, source=(1.0, 1.0)) == (Burning(), [])
        burning, notes = read(machine(4, 1.6), work=(1.0,) * 4, sink=(0.5,) * 4, source=(1.0, 1.0))
        assert burning == Burning()
        assert notes == [
            "tm0, tm1: this work may have used the cores, or other work may have (1.60 of 4 cores in use; "
            "tasks that report their busy time would use 4.00 if CPU-bound); assuming that the work of "
            "tasks is not CPU-bound, but waits (for example for I/O). Set service_mode={'': 'burn'} if the "
            "work is CPU-bound."
        ]

    def test_with_cores_to_spare_busy_time_is_processor_time(self) -> None:
        burning, notes = read(machine(16, 3.7))
        assert burning.modes == {"work": "burn", "sink": "burn"}
        assert set(burning.shares.values()) == {1.0}
        assert burning.machines == (Machine(cores=16, task_managers=("tm0", "tm1")),)
        assert "for 100 % of their busy time" in notes[0]

    def test_other_threads_do_not_make_more_than_a_core_of_a_busy_second(self) -> None:
        burning, _ = read(machine(16, 9.0))
        assert set(burning.shares.values()) == {1.0}

    def test_what_is_not_told_is_not_taken_for_zero(self) -> None:
        burning, notes = read(machine(2, None))
        assert burning == Burning()
        assert notes == [
            "tm0, tm1: there are fewer cores than tasks, and it is not reported whether the work of tasks is "
            "CPU-bound; assuming that the work of tasks is not CPU-bound, but waits (for example for I/O). "
            "Set service_mode={'': 'burn'} if the work is CPU-bound."
        ]

    @pytest.mark.parametrize("host", [machine(16, None), machine(None, None), machine(None, 0.6)])
    def test_nothing_is_said_where_it_makes_no_difference(self, host: Host) -> None:
        assert read(host) == (Burning(), [])

    def test_as_many_cores_as_needed_where_they_are_not_told(self) -> None:
        burning, _ = read(machine(None, 3.0))
        assert (burning.modes["work"], burning.machines) == ("burn", ())
        assert set(burning.shares.values()) == {1.0}

    def test_it_is_said_that_cores_are_not_told_where_many_are_in_use(self) -> None:
        """All that there are may be in use: of 3.60 busy cores 1.00 is little, and of one core all."""
        burning, notes = read(machine(None, 1.0))
        assert burning == Burning()
        assert notes == [
            "tm0, tm1: the number of cores is not reported, so it is unknown whether tasks wait for one "
            "(1.00 cores in use; tasks that report their busy time would use 3.60 if CPU-bound); assuming "
            "that the work of tasks is not CPU-bound, but waits (for example for I/O). Set cores to override."
        ]
        assert read(machine(None, 1.0), given=Overrides(cores=1))[0].modes["work"] == "burn"
        assert read(machine(None, 1.0), work=(0.0,) * 4, sink=(0.0,) * 4) == (Burning(), [])
        _, notes = read(machine(None, 3.0))
        assert notes[1:] == [
            "tm0, tm1: the number of cores is not reported; assuming as many as the tasks need. Set "
            "cores to override."
        ]

    def test_it_is_said_that_busy_time_is_not_told_where_many_cores_are_in_use(self) -> None:
        untold = (None,) * 4
        assert read(machine(2, 1.8), work=untold, sink=untold) == (
            Burning(),
            [
                "tm0, tm1: this work may have used the cores, or other work may have, such as that of 8 "
                "tasks that do not report their busy time (1.80 of 2 cores in use; tasks that report their "
                "busy time would use 0.00 if CPU-bound); assuming that the work of tasks is not CPU-bound, "
                "but waits (for example for I/O). "
                "Set service_mode={'': 'burn'} if the work is CPU-bound."
            ],
        )
        assert read(machine(2, 0.4), work=untold, sink=untold) == (Burning(), [])
        waits = Overrides(service_mode={"": "throttle"})
        assert read(machine(2, 1.8), work=untold, sink=untold, given=waits)[1] == []

    def test_tasks_that_do_not_tell_may_have_used_cores_that_are_free(self) -> None:
        assert read(machine(16, 3.2))[0].modes["work"] == "burn"
        assert read(machine(16, 3.2), source=(None, None))[0] == Burning()
        assert read(machine(16, 4.2), source=(None, None))[0].modes["work"] == "burn"

    def test_tasks_that_do_not_tell_use_no_more_than_their_share_of_few_cores(self) -> None:
        """If the others want cores, they get theirs, though as many tasks do not tell as there are cores."""
        assert read(machine(2, 1.8), source=(None, None))[0].modes["work"] == "burn"
        burning, notes = read(machine(2, 1.2), source=(None, None))
        assert burning == Burning()
        assert notes[0].startswith(
            "tm0, tm1: this work may have used the cores, or other work may have, such as that of 2 tasks "
            "that do not report their busy time (1.20 of 2 cores in use;"
        )

    def test_tasks_that_do_not_tell_used_no_core_while_they_were_held_back(self) -> None:
        source = (held_back(0.9), held_back(0.9))
        assert read(machine(2, 1.4), source=(None, None))[0] == Burning()
        assert read(machine(2, 1.4), source=source)[0].modes["work"] == "burn"
        assert read(machine(16, 3.2), source=source)[0].modes["work"] == "burn"

    def test_use_says_nothing_of_tasks_that_would_have_a_small_part_of_it(self) -> None:
        assert read(machine(2, 2.2), work=(None,) * 4, sink=(0.1,) * 4, source=(None, None))[0] == Burning()

    def test_tasks_that_wait_as_the_user_says_used_none(self) -> None:
        waits = Overrides(service_mode={"work": "throttle"})
        busy = {"work": (None,) * 4, "sink": (0.5,) * 4}
        assert read(machine(16, 2.0), work=busy["work"], sink=busy["sink"])[0].modes == {}
        burning, _ = read(machine(16, 2.0), work=busy["work"], sink=busy["sink"], given=waits)
        assert burning.modes == {"work": "throttle", "sink": "burn"}

    @pytest.mark.parametrize(
        ("host", "given", "used", "would_use"),
        [
            (machine(2, 2.3), None, "2.30 of 2", "2.00"),
            (machine(4, 2.3), 2, "2.30 of 2", "2.00"),
            (machine(None, 9.0), None, "9.00", "3.60"),
        ],
    )
    def test_a_note_has_the_figures(self, host: Host, given: float | None, used: str, would_use: str) -> None:
        _, notes = read(host, given=Overrides(cores=given))
        figures = f"{used} cores in use; tasks that report their busy time would use {would_use} if CPU-bound"
        assert notes[0].startswith(f"tm0, tm1: the work of tasks is CPU-bound ({figures}).")

    def test_what_the_cores_of_a_machine_do_not_tell_is_said_to_be_told_elsewhere(self) -> None:
        _, notes = read(machine(1, 0.95, "tm0"), machine(1, 0.1, "tm1"), work=(0.9, 0.9, 0.5, 0.5))
        assert notes[0].startswith("tm0: the work of tasks is CPU-bound (0.95 of 1 cores in use")
        assert notes[1].startswith(
            "tm1: as on the other machines, the work of tasks is CPU-bound (0.10 of 1 cores"
        )
        _, notes = read(machine(2, 0.1), given=Overrides(service_mode={"": "burn"}))
        assert notes[0].startswith("tm0, tm1: as overridden, the work of tasks is CPU-bound (0.10 of 2")

    def test_tasks_of_a_vertex_whose_places_are_not_all_told_may_run_anywhere(self) -> None:
        some = with_places(sink=("tm0", "tm1"))
        burning, notes = read(machine(2, 1.9), job=some)
        assert burning == Burning()
        assert "other tasks may run there, too" in notes[0]
        waits = Overrides(service_mode={"sink": "throttle"})
        assert read(machine(2, 1.9), job=some, given=waits)[0].modes["work"] == "burn"

    def test_a_machine_names_no_task_manager_that_the_scenario_does_not_have(self) -> None:
        places = with_places(source=("tm0", "tm0"), sink=("tm1",), work=("tm0",) * 4)
        given = Overrides(service_mode={"sink": "throttle"})
        (here,) = read(machine(2, 1.9), job=places, given=given)[0].machines
        assert here == Machine(cores=2, task_managers=("tm0",))

    def test_tasks_of_other_jobs_may_have_used_them_too(self) -> None:
        burning, notes = read(machine(2, 1.8, other_jobs=True))
        assert burning == Burning()
        assert "other tasks may run there, too" in notes[0]

    def test_an_idle_job_says_nothing(self) -> None:
        assert read(machine(2, 0.3), work=(0.0,) * 4, sink=(0.0,) * 4) == (Burning(), [])

    def test_each_machine_has_its_own_say(self) -> None:
        hosts = machine(1, 0.95, "tm0"), machine(1, 0.1, "tm1")
        burning, notes = read(*hosts, work=(0.9, 0.9, 0.5, 0.5))
        assert burning.modes == {"work": "burn"}  # most of its busy time is where cores are in use
        assert [machine.task_managers for machine in burning.machines] == [("tm0",), ("tm1",)]
        assert [note[:4] for note in notes] == ["tm0:", "tm1:"]
        burning, _ = read(*hosts, work=(0.5, 0.5, 0.9, 0.9))
        assert burning.modes == {}

    def test_network_threads_take_their_part_of_the_cores_first(self) -> None:
        without, _ = read(machine(2, 1.8), work=(1.0,) * 4, sink=(0.0,) * 4)
        answers = task(1.0)
        sent = [
            {"buffers_in_remote": 1e3 * LOOK_S * n, "buffers_out": 1e3 * LOOK_S * n} for n in range(LOOKS)
        ]
        counted = SubtaskSamples(
            tuple({**answer, **counts} for answer, counts in zip(answers.samples, sent, strict=True))
        )
        burning, _ = read(machine(2, 1.8), work=(counted,) * 4, sink=(0.0,) * 4)
        costs = CostModel()
        used = 4e3 * (costs.network_receive_s + costs.network_send_s)
        assert without.shares["work", 0] == pytest.approx(2 / 4)
        assert burning.shares["work", 0] == pytest.approx((2 - used) / 4)


class TestGiven:
    def test_a_vertex_that_waits_leaves_the_cores_to_the_others(self) -> None:
        given = Overrides(service_mode={"sink": "throttle"})
        burning, _ = read(machine(2, 1.9), work=(0.6, 0.6, 0.6, 0.6), sink=(0.5,) * 4, given=given)
        assert burning.modes == {"work": "burn", "sink": "throttle"}
        assert set(burning.shares) == {("work", subtask) for subtask in range(4)}
        all_burn, _ = read(machine(2, 1.9), work=(0.6, 0.6, 0.6, 0.6), sink=(0.5,) * 4)
        assert burning.shares["work", 0] > all_burn.shares["work", 0]

    def test_a_vertex_that_waits_has_no_part_in_the_cores_in_use(self) -> None:
        busy = {"work": (0.5,) * 4, "sink": (1.0,) * 4}
        assert read(machine(16, 1.4), work=busy["work"], sink=busy["sink"])[0].modes == {}
        given = Overrides(service_mode={"sink": "throttle"})
        burning, _ = read(machine(16, 1.4), work=busy["work"], sink=busy["sink"], given=given)
        assert burning.modes == {"work": "burn", "sink": "throttle"}

    def test_all_can_be_said_to_wait_or_to_burn(self) -> None:
        waits = Overrides(service_mode={"": "throttle"})
        assert read(machine(2, 1.9), given=waits)[0].machines == ()
        burns = Overrides(service_mode={"": "burn"})
        for used in (0.1, None):
            burning, notes = read(machine(2, used), given=burns)
            assert burning.shares == read(machine(2, 1.9))[0].shares
            assert len(notes) == 1

    BURN_ON_TWO = Overrides(service_mode={"": "burn"}, cores=2)

    def test_given_cores_are_there_though_no_task_tells_how_busy_it_is(self) -> None:
        untold = (None,) * 4
        burning, notes = read(machine(None, None), work=untold, sink=untold, given=self.BURN_ON_TWO)
        assert burning.machines == (Machine(cores=2, task_managers=("tm0", "tm1")),)
        assert set(burning.core_shares(JOB.vertices[1])) == {1.0}
        assert notes == [
            "tm0, tm1: as overridden, the work of tasks is CPU-bound. The costs are processor time, "
            "including any other use of the cores. If the work of a vertex waits and is not CPU-bound, set "
            "service_mode={'VERTEX': 'throttle'}. To override the number of cores, set cores.",
            "tm0, tm1: 8 of 8 tasks with CPU-bound work do not report their busy time; "
            "assuming that each had a whole core.",
        ]

    def test_tasks_that_do_not_tell_how_busy_they_are_are_named_beside_those_that_do(self) -> None:
        burning, notes = read(machine(1, 0.9), work=(0.8, None, 1.0, 0.8), sink=(0.0,) * 4)
        shares = burning.core_shares(JOB.vertices[1])
        assert [share == 1.0 for share in shares] == [False, True, False, False]
        assert notes[1].startswith("tm0, tm1: 1 of 4 tasks with CPU-bound work do not report")

    def test_where_no_host_is_known_each_task_manager_has_the_given_cores(self) -> None:
        burning, notes = read(given=self.BURN_ON_TWO, work=(1.0,) * 4, sink=(0.0,) * 4)
        assert burning.machines == (
            Machine(cores=2, task_managers=("tm0",)),
            Machine(cores=2, task_managers=("tm1",)),
        )
        assert [note[:4] for note in notes] == ["tm0:", "tm1:"]
        assert read(given=Overrides(service_mode={"": "burn"}))[0].machines == ()

    def test_where_no_place_is_known_each_vertex_has_them(self) -> None:
        job = with_places(source=(), work=(), sink=())
        burning, _ = read(given=self.BURN_ON_TWO, work=(1.0,) * 4, sink=(0.0,) * 4, job=job)
        assert burning.machines == (
            Machine(cores=2, task_managers=("work",)),
            Machine(cores=2, task_managers=("sink",)),
        )
        # Four that always want a core, of two.
        assert {burning.shares["work", number] for number in range(4)} == {0.5}

    def test_cores_can_be_given(self) -> None:
        burning, _ = read(machine(2, 1.8), given=Overrides(cores=3))
        assert burning.machines[0].cores == 3


def test_an_emulation_makes_the_same_busy_time_of_the_costs() -> None:
    """Service times are busy time by share; in an emulation with these cores tasks are as busy again."""
    burning, _ = read(machine(2, 1.8), sink=(0.0,) * 4)
    rates = [80.0, 80.0, 60.0, 80.0]
    costs = [
        busy / rate * burning.shares["work", n]
        for n, (busy, rate) in enumerate(zip(BUSY, rates, strict=True))
    ]
    scenario = Scenario(
        name="contended",
        duration_s=60.0,
        warmup_s=20.0,
        config=replace(NetworkConfig(), checkpoint_interval_s=None),
        vertices=(
            Vertex(name="source", parallelism=1, source=GeneratorSpec(record_bytes=1000, rates=(300.0,))),
            Vertex(
                name="work",
                parallelism=4,
                task_manager=MANAGERS,
                service=((0.0, costs[0]),),
                service_skew=tuple(cost / costs[0] for cost in costs),
                service_mode="burn",
            ),
        ),
        edges=(Edge(source="source", target="work", ship="hash", shares=tuple(rates)),),
        machines=burning.machines,
    )
    work = emulate(scenario).steady[0].vertices[1]
    shares = [(busy or 0.0) / 1e3 for busy in work.busy_ms_per_s or ()]
    assert shares == pytest.approx(BUSY, abs=0.06)


def test_many_machines_of_one_kind_have_one_note() -> None:
    managers = tuple(f"tm{number}" for number in range(400))
    job = replace(
        JOB,
        vertices=tuple(
            replace(vertex, parallelism=len(managers), managers=managers) for vertex in JOB.vertices
        ),
    )
    hosts = [
        Host(managers=managers[at : at + 2], cores=2.0, cores_in_use=1.7 + at / 4000)
        for at in range(0, 400, 2)
    ]
    tasks = (0.8,) * len(managers)
    _, notes = read(*hosts, work=tasks, sink=tasks, source=tasks, job=job)
    assert notes == [
        "400 task managers: the work of tasks is CPU-bound (1.70 to 1.80 of 2 cores in use on each machine; "
        "tasks that report their busy time would use 1.99 if CPU-bound). They had a core for 62 % of their "
        "busy time. The costs are processor time, including any other use of the cores. If the work of a "
        "vertex waits and is not CPU-bound, set service_mode={'VERTEX': 'throttle'}. To override the number "
        "of cores, set cores."
    ]


NO_SAMPLES: dict[str, list[SubtaskSamples]] = {vertex.id: [] for vertex in JOB.vertices}


class OneTaskManager(Answers):
    """A cluster whose task managers give the configured answers, in turn."""

    name = "made up"

    def __init__(self, answers: list[Any]) -> None:
        self.asked: list[str] = []
        self._answers = iter(answers)

    def answer(self, path: str) -> Any | Refused:
        self.asked.append(path)
        return next(self._answers)

    def pause(self, seconds: float) -> None:
        """Return at once; a recording needs no time to change."""

    def clock(self) -> float:
        return 0.0


def metric(**values: object) -> list[dict[str, str]]:
    names = {"time": CPU_TIME, "load": CPU_LOAD}
    return [{"id": names[key], "value": str(value)} for key, value in values.items()]


def used(answers: list[Any], account: Sequence[float] | None = None) -> tuple[float | None, list[str]]:
    """Cores in use by what a task manager of four cores answers, and what it was asked."""
    job = replace(JOB, vertices=(FlinkVertex(id="v", name="v", parallelism=1, managers=("tm0",)),), edges=())
    cluster = OneTaskManager(answers)
    processors = Processors(RestClient(cluster), job, {"tm0": {"hardware": {"cpuCores": 4}}})
    for _ in range(LOOKS):
        processors.poll()
    tasks = task(0.5)
    if account is not None:
        rows = ({"busy_ms": 0.0, "idle_ms": 1e3 * at_s, "backpressured_ms": 0.0} for at_s in account)
        tasks = SubtaskSamples(tuple(rows))
    (host,) = processors.hosts({"v": [tasks]})
    return host.cores_in_use, cluster.asked


class TestUse:
    def test_processor_time_by_the_time_of_the_tasks(self) -> None:
        cores, asked = used([metric(load=0.9, time=int(1e9 * (7 + 1.5 * LOOK_S * n))) for n in range(LOOKS)])
        assert cores == pytest.approx(1.5)
        assert set(asked) == {f"/taskmanagers/tm0/metrics?get={CPU_LOAD},{CPU_TIME}"}

    def test_a_value_that_is_collected_between_two_questions_hardly_matters(self) -> None:
        """The first value of the task manager is one collection ahead of the task's, so 10 s."""
        account = [0, 0, 0, 0, 10, 10, 10, 10, 10, 20, 20, 20]
        seconds = [10, *account[1:]]
        assert used([metric(time=1e9 * 1.5 * s) for s in seconds], account)[0] == pytest.approx(1.5)

    def test_load_stands_in_where_time_is_not_told(self) -> None:
        assert used([metric(load=0.25, time=-1)] * LOOKS)[0] == pytest.approx(1.0)

    @pytest.mark.parametrize("answer", [[], metric(time="NaN", load=-1.0), [{"id": CPU_TIME}]])
    def test_values_that_are_none(self, answer: list[Any]) -> None:
        assert used([answer] * LOOKS)[0] is None

    def test_metrics_that_stand_still(self) -> None:
        assert used([metric(time=5e9)] * LOOKS, [50.0] * LOOKS)[0] is None

    @pytest.mark.parametrize("code", [403, 404, 500])
    def test_who_refuses_is_not_asked_again(self, code: int) -> None:
        cores, asked = used([Refused(code, "")])
        assert (cores, len(asked)) == (None, 1)

    @pytest.mark.parametrize(
        ("path", "host"),
        [
            ("pekko.tcp://flink@10.0.0.1:6122/user/rpc/taskmanager_0", "10.0.0.1"),
            ("akka.tcp://flink@node-7.example.org:4711/user/rpc/taskmanager_0", "node-7.example.org"),
            ("pekko.tcp://flink@[::1]:6122/user/rpc/taskmanager_0", "[::1]"),
            ("pekko://flink/user/rpc/taskmanager_0", None),
            (None, None),
        ],
    )
    def test_the_host_is_in_the_path(self, path: str | None, host: str | None) -> None:
        assert host_of(path) == host

    def test_task_managers_of_one_host_share_its_cores(self) -> None:
        path = "pekko.tcp://flink@10.0.0.{}:6122/user/rpc/taskmanager_0"
        details = {
            f"tm{number}": {"path": path.format(host), "hardware": {"cpuCores": 8}}
            for number, host in ((2, 1), (1, 2), (0, 1), (10, 2))
        }
        hosts = Processors(RestClient(OneTaskManager([])), JOB, details).hosts(NO_SAMPLES)
        assert [host.managers for host in hosts] == [("tm0", "tm2"), ("tm1", "tm10")]
        assert [(host.cores, host.cores_in_use) for host in hosts] == [(8, None), (8, None)]

    def test_task_managers_that_say_nothing_are_machines_of_their_own(self) -> None:
        hosts = Processors(RestClient(OneTaskManager([])), JOB, {"tm0": {}, "tm1": {}}).hosts(NO_SAMPLES)
        assert [(host.managers, host.cores) for host in hosts] == [(("tm0",), None), (("tm1",), None)]

    @staticmethod
    def of_two(path: str | None, times: Sequence[Sequence[int]]) -> list[tuple[Sequence[str], float | None]]:
        """The machines of two task managers with that path, which tell these times of their processors."""
        answers = [metric(time=time) for look in times for time in look]
        details = {manager: {"path": path, "hardware": {"cpuCores": 2}} for manager in ("tm0", "tm1")}
        processors = Processors(RestClient(OneTaskManager(answers)), JOB, details)
        for _ in times:
            processors.poll()
        samples = {vertex.id: [task(0.5)] * vertex.parallelism for vertex in JOB.vertices}
        return [(host.managers, host.cores_in_use) for host in processors.hosts(samples)]

    def test_task_managers_of_one_process_are_on_one_machine_and_use_it_once(self) -> None:
        both, each = ("tm0", "tm1"), [int(1e9 * (7 + 1.5 * LOOK_S * n)) for n in range(LOOKS)]
        same = [(time, time) for time in each]
        assert self.of_two(None, same) == [(both, pytest.approx(1.5))]
        assert self.of_two("pekko.tcp://flink@localhost:6122/user/rpc/taskmanager_0", same) == [
            (both, pytest.approx(1.5))
        ]
        once_other = [*same[:-1], (each[-1], each[-1] + 10_000_000)]
        machines = self.of_two(None, once_other)
        assert [managers for managers, _ in machines] == [("tm0",), ("tm1",)]

    def test_an_address_without_a_host_is_in_the_process_of_the_job_manager(self) -> None:
        """The times of both may be some ticks apart, since each task manager is asked by itself."""
        ticks = [(int(1e9 * 3 * n), int(1e9 * 3 * n) + 10_000_000 * (n % 2)) for n in range(LOOKS)]
        machines = self.of_two("pekko://flink/user/rpc/taskmanager_0", ticks)
        assert machines == [(("tm0", "tm1"), pytest.approx(1.5, rel=0.01))]

    def test_who_tells_no_time_is_not_taken_for_one_process(self) -> None:
        assert [managers for managers, _ in self.of_two(None, [(-1, -1)] * LOOKS)] == [("tm0",), ("tm1",)]


def with_processors(cores_in_use: float) -> dict[str, Any]:
    """A recorded job of two consumers in a task manager with one core that reports its processor time."""
    document = copy.deepcopy(recording(NAMES[0]))
    answers = document["answers"]
    for manager in ("tm0", "tm1"):
        answers[f"/taskmanagers/{manager}"]["hardware"] = {"cpuCores": 1}
        path = f"pekko.tcp://flink@secret-{manager}.example.org:6122/user/rpc/taskmanager_0"
        answers[f"/taskmanagers/{manager}"]["path"] = path
        answers[f"/taskmanagers/{manager}/metrics?get=*"] = [
            metric(load=0.5, time=int(1e9 * (20 + cores_in_use * 1.5 * turn))) for turn in range(6)
        ]
    return document


def imported(document: dict[str, Any], folder: Path, given: Overrides | None = None) -> Imported:
    file = folder / "job.json"
    file.write_text(json.dumps(document))
    return import_scenario(Recording(file), overrides=given)


class TestRealJob:
    """A word count that spends 100 us of processor time on each word, in two task managers on two cores."""

    FILE = RECORDINGS / "flink-2.2.1_wordcount_burn_off.json.gz"

    def test_it_is_seen_to_burn(self) -> None:
        scenario = import_scenario(Recording(self.FILE)).scenario
        lines, count = scenario.vertices
        assert (lines.service_mode, count.service_mode) == ("throttle", "burn")
        assert scenario.machines == (Machine(cores=2, task_managers=("tm0", "tm1")),)

    def test_its_cost_is_processor_time_and_that_of_what_the_process_does_besides(self) -> None:
        waits = Overrides(service_mode={"": "throttle"})
        seen, by_busy_time = (
            import_scenario(Recording(self.FILE), overrides=given).scenario.vertices[1]
            for given in (None, waits)
        )
        assert seen.service[0][1] * 1e6 == pytest.approx(125, abs=3)
        assert by_busy_time.service[0][1] * 1e6 == pytest.approx(230, abs=3)
        # A word costs the same in all four subtasks, as far as Flink reports it.
        assert max(seen.service_skew) - min(seen.service_skew) < 0.15
        assert max(by_busy_time.service_skew) - min(by_busy_time.service_skew) > 0.18


class TestImport:
    def test_costs_of_what_burns_are_processor_time(self, tmp_path: Path) -> None:
        plain = imported(recording(NAMES[0]), tmp_path).scenario.vertices[1]
        scenario = imported(with_processors(0.95), tmp_path).scenario
        stage = scenario.vertices[1]
        assert (plain.service_mode, stage.service_mode) == ("throttle", "burn")
        assert scenario.machines == (Machine(cores=1, task_managers=("tm1",)),)
        # Both consumers are busy all the time, and share one core.
        assert stage.service[0][1] == pytest.approx(plain.service[0][1] / 2, rel=0.02)
        assert scenario.vertices[0].service_mode == "throttle"

    def test_a_job_that_waits_is_as_it_was(self, tmp_path: Path) -> None:
        plain = imported(recording(NAMES[0]), tmp_path)
        waits = imported(with_processors(0.1), tmp_path)
        assert scenario_toml(waits.scenario) == scenario_toml(plain.scenario)
        assert not any("core" in note for note in waits.notes)

    IN_DOUBT = RECORDINGS / "flink-2.3.0_wordcount_on1s.json.gz"

    def test_where_it_is_unknown_the_import_has_the_job_for_both_cases(self) -> None:
        waits = import_scenario(Recording(self.IN_DOUBT))
        burns = import_scenario(Recording(self.IN_DOUBT), overrides=Overrides(service_mode={"": "burn"}))
        assert [vertex.service_mode for vertex in waits.scenario.vertices] == ["throttle", "throttle"]
        assert waits.if_cpu_bound is not None
        assert scenario_toml(waits.if_cpu_bound) == scenario_toml(burns.scenario)
        assert burns.if_cpu_bound is None

    def test_there_is_one_case_where_it_is_known(self, tmp_path: Path) -> None:
        for used in (0.1, 0.95):
            assert imported(with_processors(used), tmp_path).if_cpu_bound is None

    def test_a_diagnosis_does_not_depend_on_it(self) -> None:
        notes = diagnose_job(Recording(self.IN_DOUBT)).notes
        assert [note for note in notes if "CPU-bound" in note] == [
            "It is unknown whether the work of tasks is CPU-bound, but no finding depends on it: all follow "
            "from measured times."
        ]

    def test_a_recording_keeps_it_without_the_hosts(self, tmp_path: Path) -> None:
        document = json.loads(json.dumps(with_processors(0.95)).replace("tm1", "secret-7"))
        (tmp_path / "job.json").write_text(json.dumps(document))
        recorder = Recorder(Recording(tmp_path / "job.json"))
        first = import_scenario(recorder)
        file = tmp_path / "kept.json"
        file.write_bytes(packed(recorder.document(first.scenario, first.measured), file))
        assert "secret" not in file.read_text()
        kept = json.loads(file.read_text())
        assert kept["answers"]["/taskmanagers/tm1"]["path"] == "flink@host1"
        assert kept["answers"]["/taskmanagers/tm1"]["hardware"] == {"cpuCores": 1}
        path = "/taskmanagers/tm1/metrics?get=*"
        assert len(kept["answers"][path]) == len(kept["times_s"][path]) == LOOKS
        again = import_scenario(Recording(file))
        assert again.notes == [note.replace("secret-7", "tm1") for note in first.notes]
        assert scenario_toml(again.scenario) == scenario_toml(first.scenario).replace("secret-7", "tm1")

    def test_a_recording_keeps_that_task_managers_are_in_one_process(self, tmp_path: Path) -> None:
        document = with_processors(0.95)
        for manager in ("tm0", "tm1"):
            document["answers"][f"/taskmanagers/{manager}"]["path"] = "pekko://flink/user/rpc/secret_7"
        for entries in document["answers"]["/taskmanagers/tm0/metrics?get=*"]:
            entries[:] = [
                entry | {"value": str(int(entry["value"]) + 10_000_000)}
                for entry in entries
                if entry["id"] == CPU_TIME
            ]
        (tmp_path / "job.json").write_text(json.dumps(document))
        recorder = Recorder(Recording(tmp_path / "job.json"))
        first = import_scenario(recorder)
        file = tmp_path / "kept.json"
        file.write_bytes(packed(recorder.document(first.scenario, first.measured), file))
        assert "secret" not in file.read_text()
        assert first.scenario.machines == (Machine(cores=1, task_managers=("tm0", "tm1")),)
        assert import_scenario(Recording(file)).scenario.machines == first.scenario.machines

    @pytest.mark.parametrize("given", [None, Overrides(service_mode={"": "burn"}, cores=2)])
    def test_a_vertex_that_tells_of_fewer_subtasks_than_it_has(
        self, given: Overrides | None, tmp_path: Path
    ) -> None:
        document = with_processors(0.95)
        stage = document["answers"][f"/jobs/{document['job']}"]["vertices"][1]["id"]
        document["answers"][f"/jobs/{document['job']}/vertices/{stage}"]["subtasks"].pop()
        scenario = imported(document, tmp_path, given).scenario
        assert scenario.vertices[1].task_manager is None
        machines = () if given is None else (Machine(cores=2, task_managers=("stage1",)),)
        assert scenario.machines == machines

    @pytest.mark.parametrize("name", NAMES)
    def test_a_recording_from_before_is_imported_as_before(self, name: str, tmp_path: Path) -> None:
        """Older recordings report no processor time. Those that report cores have enough of them."""
        document = recording(name)
        scenario = imported(document, tmp_path)
        for manager in ("tm0", "tm1", "tm2"):
            for field in ("hardware", "path"):
                document["answers"].get(f"/taskmanagers/{manager}", {}).pop(field, None)
        untold = imported(document, tmp_path)
        assert scenario_toml(untold.scenario) == scenario_toml(scenario.scenario)
        assert scenario.scenario.machines == ()
        assert not any("core" in note for note in untold.notes)
        assert not any("taskmanagers" in note for note in untold.notes)

    def test_the_command_line_can_say_it(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "job.json"
        file.write_text(json.dumps(with_processors(0.1)))
        assert main(["import-flink", str(file), "--service-mode", "stage1:burn", "--cores", "1.5"]) == 0
        text = capsys.readouterr().out
        assert 'service_mode = "burn"' in text
        assert "cores = 1.5" in text

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--service-mode", "boil"], "--service-mode boil: 'boil' is unknown; it must be one of"),
            (["--service-mode", "source:burn"], "source: no vertex with input has this name; the job has "),
            (["--cores", "0"], "--cores 0: must be a number above 0"),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "job.json"
        file.write_text(json.dumps(with_processors(0.1)))
        assert main(["import-flink", str(file), *options]) == 2
        assert said in capsys.readouterr().err


def tasks_of(busy: Sequence[float]) -> list[Task]:
    return [
        Task(place=("work", number), busy=share, reports=True, reads=True, mode=None)
        for number, share in enumerate(busy)
    ]


def cases(busy: Sequence[float]) -> list[tuple[int, float]]:
    """Return, for each set of tasks that may be busy at once, their number and the probability."""
    return [
        (sum(each), prod(share if now else 1 - share for share, now in zip(busy, each, strict=True)))
        for each in product((0, 1), repeat=len(busy))
    ]


SHARES = st.sampled_from((0.0, 0.01, 0.3, 0.5, 0.77, 0.99, 1.0))


@given(busy=st.lists(SHARES, min_size=1, max_size=8), cores=st.sampled_from((1.0, 1.5, 2.0, 3.3, 6.0)))
def test_the_share_of_a_core_is_near_the_mean_over_all_cases(busy: list[float], cores: float) -> None:
    others = [busy[:number] + busy[number + 1 :] for number in range(len(busy))]
    exact = [sum(chance * min(1.0, cores / (1 + count)) for count, chance in cases(rest)) for rest in others]
    assert shares_of_core(tasks_of(busy), cores) == pytest.approx(exact, rel=0.09)


@pytest.mark.parametrize("cores", [2, 64, 2000.5, 4000, 7999])
def test_shares_of_thousands_of_tasks_add_up_to_the_cores_in_use(cores: float) -> None:
    busy = [number % 101 / 100 for number in range(8000)]
    shares = shares_of_core(tasks_of(busy), cores)
    assert sum(map(mul, shares, busy)) == pytest.approx(min(cores, sum(busy)), rel=0.005)
    # A task that is always busy is itself one of those that share; one that is hardly ever busy joins them.
    assert shares[0] <= shares[100]


def test_no_tasks_share_nothing() -> None:
    assert (shares_of_core([], 2), share_with_core([], 2)) == ([], 1.0)
