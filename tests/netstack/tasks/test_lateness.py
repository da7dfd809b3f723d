"""Delay of the tasks of several processes behind the wall clock."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import pytest
import trio
import trio.testing

from netstack import (
    CollectionSource,
    Edge,
    GeneratorSpec,
    JobFailedError,
    LaunchError,
    MemoryStorage,
    NetworkConfig,
    Report,
    Result,
    Scenario,
    SourceObject,
    Vertex,
    run_distributed,
    sink,
)
from netstack.cluster.distributed_run import RunHistory
from netstack.cluster.task_manager import CHECK_EVERY_S, LEAST_DELAY_S, Stalls
from netstack.engine.agenda import Agenda
from netstack.engine.cores import Cores
from netstack.engine.randomness import Randomness
from netstack.jobs.job import Job
from netstack.scenarios.costs import CostModel
from netstack.tasks.service_time import Throttle
from netstack.tasks.subtask_environment import Environment
from netstack.tasks.time_account import Lateness, TimeAccount, Waiting
from tests.netstack.engine.test_agenda_clock import Clocked
from tests.netstack.local_cluster import launch_locally

COSTS = CostModel(
    consumer_buffer_s=0.01,
    consumer_record_s=0.001,
    source_record_s=0.002,
    subtask_factor=(1.0, 3.0),
    sync_s=(0.1, 0.3),
)


class Task:
    """A task that works and waits on request; the lateness is read after each piece of work."""

    def __init__(self) -> None:
        self.lateness = Lateness(COSTS)
        self.times = TimeAccount()
        self.now = self._done_s = 0.0
        self.snapshots = 0
        self.look()

    def look(self) -> None:
        self.lateness.measure(self.now, self.times, self._done_s, self.snapshots)

    def work(self, seconds: float, took: float) -> None:
        """Do work of so many seconds, in `took` seconds."""
        self.now += took
        self._done_s += seconds
        self.look()

    def wait(self, reason: Waiting, seconds: float) -> None:
        self.times.enter(reason, self.now)
        self.now += seconds
        self.times.enter(Waiting.NOTHING, self.now)
        self.look()

    def behind_s(self, held_up_s: float = 0.0) -> float:
        return round(self.lateness.behind_s(held_up_s), 9)


def test_a_task_that_works_in_its_time_is_not_behind() -> None:
    task = Task()
    for _ in range(5):
        task.work(2.0, took=2.0)
    assert task.behind_s() == 0.0


def test_what_takes_longer_than_it_should_adds_up() -> None:
    task = Task()
    task.work(2.0, took=2.5)
    task.work(2.0, took=3.0)
    assert task.behind_s() == 1.5


@pytest.mark.parametrize("reason", [Waiting.INPUT, Waiting.OUTPUT, Waiting.TIME])
def test_who_waits_catches_up(reason: Waiting) -> None:
    task = Task()
    task.work(2.0, took=6.0)
    task.wait(reason, 3.0)
    assert task.behind_s() == 1.0


def test_nobody_is_ahead() -> None:
    task = Task()
    task.wait(Waiting.INPUT, 100.0)
    task.work(5.0, took=1.0)
    task.work(2.0, took=2.5)
    assert task.behind_s() == 0.5


def test_who_waits_for_input_while_its_process_is_held_up_does_not_catch_up() -> None:
    task = Task()
    task.work(2.0, took=3.0)
    task.wait(Waiting.INPUT, 7.0)
    assert task.behind_s(held_up_s=4.0) == 4.0
    assert task.behind_s(held_up_s=20.0) == 8.0  # there was not more time than that without work


def test_who_has_worked_all_the_time_was_not_held_up() -> None:
    task = Task()
    task.work(10.0, took=10.0)
    assert task.behind_s(held_up_s=4.0) == 0.0


def test_who_waits_for_its_outputs_is_ahead_of_its_consumers_however_much_it_was_held_up() -> None:
    task = Task()
    task.work(2.0, took=3.0)
    task.wait(Waiting.OUTPUT, 7.0)
    assert task.behind_s(held_up_s=4.0) == 0.0


def test_a_snapshot_is_work() -> None:
    task = Task()
    task.snapshots = 2
    task.work(1.0, took=1.5)
    assert task.behind_s() == 0.1  # each takes 0.2 s


def test_work_costs_what_the_cost_model_says() -> None:
    lateness = Lateness(COSTS)
    assert lateness.of_reading(10, 100) == pytest.approx(10 * 0.01 * 2.0 + 100 * 0.001)
    assert lateness.of_emitting(100, None) == pytest.approx(0.2)
    assert lateness.of_emitting(100, 0.03) == pytest.approx(3.0)


@pytest.mark.parametrize("mode", ["throttle", "exact", "burn"])
@pytest.mark.parametrize("steps", [((0.0, 0.0004),), ((0.0, 0.0004), (100.0, 0.1))])
def test_a_throttle_knows_the_cost_of_all_records(mode: str, steps: tuple[tuple[float, float], ...]) -> None:
    throttle = Throttle(steps, CostModel(), Randomness(1, 0.0).uniform(), mode=mode)
    throttle.charge_all(12, 0.0, 0.0)
    assert throttle.charged_s == pytest.approx(12 * 0.0004)
    paid, _ = throttle.charge(2, 0.0)
    assert throttle.charged_s == pytest.approx((12 + paid) * 0.0004)


def test_to_wait_for_a_core_is_work_and_to_sleep_too_long_is_none() -> None:
    cores = Cores(Agenda(), 1.0)
    burning = Throttle(((0.0, 1.0),), CostModel(), Randomness(1, 0.0).uniform(), mode="burn", cores=cores)
    sleeping = Throttle(((0.0, 1.0),), CostModel(), Randomness(1, 0.0).uniform())
    for throttle in (burning, sleeping):
        throttle.charge(1, 0.0)
        throttle.overslept(0.5)
    assert (burning.charged_s, sleeping.charged_s) == (1.5, 1.0)


class HeldUp(Clocked):
    """A process whose time passes while one of its callbacks works."""

    def __init__(self) -> None:
        super().__init__()
        self.stalls = Stalls(self.agenda)
        self.stalls.start(0.0)

    def work(self, seconds: float) -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(seconds)

    def total_s(self) -> float:
        self.agenda.at(10.0, self.agenda.stop)
        self.run()
        return self.stalls.total_s


def test_a_process_without_anything_to_do_is_not_held_up() -> None:
    assert HeldUp().total_s() == 0.0


def test_a_slow_callback_holds_up_what_is_due_meanwhile() -> None:
    process = HeldUp()
    process.agenda.at(1.0, process.work, 2.0)
    process.agenda.at(5.0, process.work, 0.5)
    assert process.total_s() == pytest.approx(2.5, abs=2 * CHECK_EVERY_S)


def test_many_short_callbacks_hold_nothing_up() -> None:
    process = HeldUp()
    for number in range(100):
        process.agenda.at(1.0 + 0.01 * number, process.work, LEAST_DELAY_S / 2)
    assert process.total_s() == 0.0


def job(*, slow_s: float = 0.0, service_s: float = 0.0) -> Scenario:
    """A source and a sink whose function takes `slow_s` for a record, which the scenario says nothing of."""
    numbers = [[b"%d" % number for number in range(200)]]
    return Scenario(
        name="job",
        duration_s=60.0,
        config=NetworkConfig(segment_bytes=1024, buffer_timeout_interval_s=0.01),
        vertices=(
            Vertex(name="numbers", source=SourceObject(source=CollectionSource(numbers))),
            Vertex(name="sink", service=((0.0, service_s),), operator=sink(lambda _: time.sleep(slow_s))),
        ),
        edges=(Edge(source="numbers", target="sink"),),
    )


def run_over_processes(scenario: Scenario) -> Result:
    storage = MemoryStorage()
    return run_distributed(scenario, launch_locally(storage), storage)


def test_a_slow_function_puts_its_process_behind() -> None:
    result = run_over_processes(job(slow_s=0.004))
    assert isinstance(result.task_managers_behind_s, dict)
    behind_s = result.task_managers_behind_s["sink"]
    assert behind_s is not None
    assert behind_s > 0.2 * 0.004 * 200
    assert result.behind_s == max(value or 0.0 for value in result.task_managers_behind_s.values())


def virtual_job() -> Scenario:
    """A source without end, a vertex that is always busy, and one that joins its records with others."""
    costs = CostModel(
        source_record_s=0.001, consumer_record_s=0.002, consumer_buffer_s=0.01, subtask_factor=(1.0, 1.0)
    )
    return Scenario(
        name="virtual",
        duration_s=20.0,
        costs=replace(costs, oversleep_s=0.0, after_sleep_s=0.0, wake_up_s=0.0),
        config=NetworkConfig(segment_bytes=1024, checkpoint_interval_s=2.0),
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=100)),
            Vertex(name="few", source=GeneratorSpec(record_bytes=100, rates=(5.0,))),
            Vertex(name="busy", service=((0.0, 0.003), (10.0, 0.006))),
            Vertex(name="join", service=((0.0, 0.001),)),
        ),
        edges=(
            Edge(source="source", target="busy"),
            Edge(source="busy", target="join", input=0),
            Edge(source="few", target="join", input=1, service=((0.0, 0.02),)),
        ),
    )


def at_the_end(
    judged_by: CostModel, patch: pytest.MonkeyPatch, scenario: Scenario | None = None
) -> dict[str, tuple[float, int]]:
    """Lateness of each subtask at the end of a job in virtual time, and the number of records it handled."""
    patch.setattr("netstack.jobs.job.Environment", partial(Environment, judged_by=judged_by))
    scenario, found = scenario or virtual_job(), dict[str, tuple[float, int]]()
    agenda = Agenda()
    running = Job(scenario, agenda)

    def look() -> None:
        assert running.attempt is not None
        for subtask in running.attempt.subtasks:
            behind_s = subtask.behind_s(0.0)
            assert behind_s is not None
            sample = subtask.sample()
            found[subtask.name] = round(behind_s, 6), max(sample.records_in, sample.records_out)

    agenda.keep(scenario.duration_s - 1e-6, look)
    trio.run(running.run)
    return found


def test_by_the_costs_that_work_has_nobody_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    found = at_the_end(virtual_job().costs, monkeypatch)
    lateness = {name: behind_s for name, (behind_s, _) in found.items()}
    expected = dict.fromkeys(("source", "few", "busy", "join"), 0.0)
    assert lateness == pytest.approx(expected, abs=0.001)  # a snapshot costs a random time


def test_by_lower_costs_who_works_all_the_time_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = virtual_job().costs
    found = at_the_end(replace(costs, consumer_record_s=0.0, source_record_s=0.0), monkeypatch)
    assert (found["source"][0], found["few"][0]) == (0.0, 0.0)  # they wait for their outputs, or for the time
    behind_s, records = found["busy"]
    assert behind_s == pytest.approx(records * costs.consumer_record_s, rel=0.05)


@pytest.mark.parametrize("own_cost_s", [None, 0.004])
def test_a_source_that_nothing_holds_back_is_judged_by_its_cost(
    own_cost_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = CostModel(source_record_s=0.002, consumer_record_s=0.0)
    scenario = Scenario(
        name="free",
        duration_s=20.0,
        costs=costs,
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=100, cost_s=own_cost_s)),
            Vertex(name="sink"),
        ),
        edges=(Edge(source="source", target="sink"),),
    )
    assert at_the_end(costs, monkeypatch, scenario)["source"][0] == pytest.approx(0.0, abs=0.1)
    cheaper = replace(costs, source_record_s=0.0)
    behind_s, records = at_the_end(cheaper, monkeypatch, scenario)["source"]
    assert behind_s == pytest.approx(records * 0.002 if own_cost_s is None else 0.0, abs=1.1)


def told(history: RunHistory) -> tuple[object, object]:
    result = history.result(wall_seconds=1.0, failure=None)
    return result.behind_s, result.task_managers_behind_s


def report(index: int, behind_s: float | None, begins_at: float | None = 0.0) -> Report:
    return Report(index=index, origin=0.0, begins_at=begins_at, ended_at=5.0, subtasks=1, behind_s=behind_s)


def test_a_run_is_as_far_behind_as_the_process_that_is_the_furthest() -> None:
    history = RunHistory(job())
    history.add([report(1, 0.5), report(0, 0.25)])
    assert told(history) == (0.5, {"numbers": 0.25, "sink": 0.5})


def test_a_process_that_has_not_reported_is_not_in_time() -> None:
    history = RunHistory(job())
    history.add([report(0, 0.25)])
    assert told(history) == (None, {"numbers": 0.25, "sink": None})


def test_of_a_run_that_has_not_begun_nothing_is_known() -> None:
    history = RunHistory(job())
    assert told(history) == (None, {"numbers": None, "sink": None})
    history.add([report(0, None, None), report(1, None, None)])
    assert told(history) == (None, {"numbers": None, "sink": None})


def test_the_last_attempt_is_told_of() -> None:
    history = RunHistory(job())
    history.add([report(0, 3.0), report(1, 3.0)])
    history.failed(5.0, "killed")
    history.add([report(0, 0.0), report(1, 0.125)])
    assert told(history) == (0.125, {"numbers": 0.0, "sink": 0.125})
    history.failed(5.0, "killed again")
    history.add([report(0, 0.0)])
    assert told(history) == (None, {"numbers": 0.0, "sink": None})


def test_of_an_attempt_whose_processes_died_nothing_is_known() -> None:
    def launch(assignment: object) -> list[Report]:
        raise LaunchError("a worker has died", again=False)

    with pytest.raises(JobFailedError) as failed:
        run_distributed(job(), launch, MemoryStorage())
    result = failed.value.result
    assert (result.behind_s, result.task_managers_behind_s) == (None, {"numbers": None, "sink": None})
