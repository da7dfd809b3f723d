"""Changes of a running job: what they do, that they outlive a restart, and which make no sense."""

import dataclasses
import json
import tomllib
from functools import cache
from itertools import pairwise
from math import inf
from typing import Any

import pytest

from netstack import (
    OPTIONS,
    Job,
    Result,
    Scenario,
    ScenarioError,
    distribution_problems,
    emulate,
    read_scenario,
    scenario_document,
    scenario_toml,
)
from netstack.exchange.selectors import RoundRobin
from netstack.scenarios.changes import rendered
from netstack.scenarios.options import CHANGEABLE
from netstack.scenarios.value_kinds import Subsystem
from netstack.tasks.operator_subtask import OperatorSubtask
from tests.netstack.whole_jobs import run as run_job

DEBLOAT = "taskmanager.network.memory.buffer-debloat"
CHECKPOINTS = "execution.checkpointing"


def document(*changes: dict[str, Any], **flink: Any) -> dict[str, Any]:
    """Two sources, two maps and two sinks of 300 us a record, of which they get 3,000 a second each."""
    return {
        "name": "changed",
        "duration": "12 s",
        "flink": {f"{CHECKPOINTS}.interval": "1 s"} | flink,
        "vertices": [
            {"name": "source", "parallelism": 2, "source": {"record_bytes": 200, "rate": [3000]}},
            {"name": "map", "parallelism": 2, "service": "50 us"},
            {"name": "sink", "parallelism": 2, "service": "300 us"},
        ],
        "edges": [
            {"from": "source", "to": "map", "ship": "rebalance"},
            {"from": "map", "to": "sink", "ship": "hash"},
        ],
        "changes": list(changes),
    }


def run(*changes: dict[str, Any], **flink: Any) -> Result:
    return emulate(read_scenario(document(*changes, **flink)))


def rate_of(result: Result, vertex: str, start: int, end: int) -> float:
    """Records a second of all subtasks that went in or, of a source, out between two seconds."""
    (series,) = [each for each in result.series if each.vertex == vertex]
    counts = series.numRecordsOut if vertex == "source" else series.numRecordsIn
    return sum(of_subtask[end] - of_subtask[start] for of_subtask in counts) / (end - start)


def most_queued(result: Result, start: int, end: int) -> int:
    """Bytes that waited at one sink at the most, between two seconds."""
    (series,) = [each for each in result.series if each.vertex == "sink"]
    return max(max(of_subtask[start:end]) for of_subtask in series.inputQueueSize)


def types(result: Result, start: float, end: float) -> set[str]:
    return {each.checkpoint_type for each in result.checkpoints if start < each.t < end}


def test_a_vertex_costs_what_a_change_says() -> None:
    result = run({"at": "4 s", "vertex": "sink", "service": "1 ms"})
    assert rate_of(result, "sink", 1, 4) == pytest.approx(6000, rel=0.05)
    assert rate_of(result, "sink", 6, 11) == pytest.approx(2000, rel=0.1)


def test_a_skew_is_one_of_the_cost_that_holds() -> None:
    skewed = {"at": "4 s", "vertex": "sink", "service_skew": [10.0, 1.0]}
    result = run(skewed, **{f"{CHECKPOINTS}.interval": "1 min"})  # alignment would hold the fast one back
    (series,) = [each for each in result.series if each.vertex == "sink"]
    slow, fast = (of_subtask[11] - of_subtask[8] for of_subtask in series.numRecordsIn)
    assert slow / 3 == pytest.approx(1 / 3e-3, rel=0.1)
    assert fast < 1.3 * slow  # keys are spread evenly, so the slow one holds both back


def test_adaptive_partition_selection_spares_a_slow_consumer_and_can_be_switched() -> None:
    adaptive = "taskmanager.network.adaptive-partitioner.enabled"
    job = document(
        {"at": "1 s", "vertex": "map", "service": "1 ms", "service_skew": [1.0, 4.0]},
        {"at": "5 s", "flink": {adaptive: True}},
        {"at": "9 s", "flink": {adaptive: False}},
        **{f"{CHECKPOINTS}.interval": "1 min"},  # sinks align, which would hold the fast map back
    )
    job["vertices"][0]["source"]["record_bytes"] = 4000  # so that queues are soon full
    result = emulate(read_scenario(job))
    assert rate_of(result, "map", 3, 5) == pytest.approx(2 * 250, rel=0.1)
    assert rate_of(result, "map", 6, 9) == pytest.approx(1000 + 250, rel=0.1)
    assert rate_of(result, "map", 10, 12) == pytest.approx(2 * 250, rel=0.2)


def test_a_source_has_the_rate_of_a_change() -> None:
    result = run({"at": "4 s", "vertex": "source", "rate": [500, 100]})
    assert rate_of(result, "source", 1, 4) == pytest.approx(6000, rel=0.05)
    assert rate_of(result, "source", 6, 11) == pytest.approx(600, rel=0.05)


def test_a_source_that_was_paced_runs_as_fast_as_possible() -> None:
    result = run({"at": "4 s", "vertex": "source", "rate": 0})
    assert rate_of(result, "source", 6, 11) == pytest.approx(2 / 300e-6, rel=0.1)  # as the sinks allow


def test_debloating_begins_and_ends_with_a_change() -> None:
    slow = {"at": "0 s", "vertex": "sink", "service": "1 ms"}
    on = {"at": "3 s", "flink": {f"{DEBLOAT}.enabled": True, f"{DEBLOAT}.target": "100 ms"}}
    off = {"at": "7 s", "flink": {f"{DEBLOAT}.enabled": False}}
    without, shrunk, back = run(slow), run(slow, on), run(slow, on, off)
    (sizes,) = [each.debloatedBufferSize for each in shrunk.series if each.vertex == "sink"]
    assert all(value is None for of_subtask in sizes for value in of_subtask[:3])
    assert all(of_subtask[8] < 8192 for of_subtask in sizes)

    def delay(result: Result) -> float:
        durations = [each.duration_ms for each in result.checkpoints if each.duration_ms is not None]
        return durations[-1]

    assert delay(shrunk) < delay(without) / 5
    assert most_queued(shrunk, 9, 12) < most_queued(without, 9, 12) / 5
    assert most_queued(back, 9, 12) > most_queued(without, 9, 12) / 2  # whole segments again


def test_another_target_goes_on_from_the_size_in_force() -> None:
    slow = {"at": "0 s", "vertex": "sink", "service": "1 ms"}
    flink = {f"{DEBLOAT}.enabled": True, f"{DEBLOAT}.target": "2 s", f"{DEBLOAT}.samples": 1}
    result = run(slow, {"at": "8 s", "flink": {f"{DEBLOAT}.target": "50 ms"}}, **flink)
    (sizes,) = [each.debloatedBufferSize for each in result.series if each.vertex == "sink"]
    assert all(of_subtask[11] < of_subtask[7] / 4 for of_subtask in sizes)


def test_checkpoints_overtake_from_a_change_on_and_cease_to() -> None:
    slow = {"at": "0 s", "vertex": "sink", "service": "1 ms"}
    begin = {"at": "4 s", "flink": {f"{CHECKPOINTS}.unaligned.enabled": True}}
    end = {"at": "8 s", "flink": {f"{CHECKPOINTS}.unaligned.enabled": False}}
    result = run(slow, begin, end)
    assert types(result, 0, 4) == {"CHECKPOINT"}
    assert types(result, 4, 8) == {"UNALIGNED_CHECKPOINT"}
    assert types(result, 8, 12) == {"CHECKPOINT"}
    assert sum(each.status == "FAILED" for each in result.checkpoints) == 0


@pytest.mark.parametrize("at", range(3000, 4100, 100))
def test_an_alignment_that_goes_on_is_ended_whenever_checkpoints_begin_to_overtake(at: int) -> None:
    slow = {"at": "0 s", "vertex": "sink", "service": "1 ms", "service_skew": [1, 3]}
    begin = {"at": f"{at} ms", "flink": {f"{CHECKPOINTS}.unaligned.enabled": True}}
    result = run(slow, begin, **{"taskmanager.memory.segment-size": "8 kb"})  # short alignments
    ended = [each for each in result.checkpoints if each.status != "IN_PROGRESS"]
    assert types(result, 6, 12) == {"UNALIGNED_CHECKPOINT"}
    assert sum(each.status == "COMPLETED" for each in ended) > 5


def test_checkpoints_come_at_another_interval() -> None:
    result = run({"at": "5 s", "flink": {f"{CHECKPOINTS}.interval": "250 ms"}})
    times = [each.t for each in result.checkpoints if each.t > 5]
    assert times[0] == pytest.approx(5.25, abs=0.01)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == pytest.approx([0.25] * len(gaps), abs=0.03)


def test_checkpoints_under_way_expire_by_the_new_timeout() -> None:
    slow = {"at": "0 s", "vertex": "sink", "service": "50 ms"}
    flink = {f"{CHECKPOINTS}.tolerable-failed-checkpoints": 100}
    result = run(slow, {"at": "6 s", "flink": {f"{CHECKPOINTS}.timeout": "500 ms"}}, **flink)
    assert {each.failure for each in result.checkpoints if each.status == "FAILED"} == {"CHECKPOINT_EXPIRED"}
    assert [each.status for each in result.checkpoints if each.t < 5.5][-1] == "FAILED"


def test_a_job_that_restarts_is_what_changes_have_made_it() -> None:
    changes = [
        {"at": "3 s", "vertex": "sink", "service": "1 ms"},
        {"at": "3 s", "flink": {f"{CHECKPOINTS}.unaligned.enabled": True, f"{DEBLOAT}.enabled": True}},
    ]
    kill = {"kind": "kill_subtask", "vertex": "map", "subtask": 0, "at": "5 s"}
    result = emulate(read_scenario(document(*changes) | {"faults": [kill]}))
    assert len(result.restarts) == 1
    assert types(result, 7, 12) == {"UNALIGNED_CHECKPOINT"}
    (sizes,) = [each.debloatedBufferSize for each in result.series if each.vertex == "sink"]
    assert all(of_subtask[11] is not None for of_subtask in sizes)
    assert rate_of(result, "sink", 8, 11) == pytest.approx(2000, rel=0.1)


def test_the_same_changes_give_the_same_numbers() -> None:
    changes = [
        {"at": "2 s", "flink": {f"{DEBLOAT}.enabled": True}, "policy": "longest-when-unblocked"},
        {"at": "4 s", "vertex": "sink", "service": "700 us"},
    ]
    first, second = run(*changes), run(*changes)
    assert first.checkpoints == second.checkpoints
    assert first.series == second.series


def test_a_change_at_the_beginning_is_as_if_the_scenario_said_so() -> None:
    said = read_scenario(document())
    vertices = tuple(
        dataclasses.replace(vertex, service=((0.0, 1e-3),)) if vertex.name == "sink" else vertex
        for vertex in said.vertices
    )
    changed = run({"at": "0 s", "vertex": "sink", "service": "1 ms"})
    assert emulate(dataclasses.replace(said, vertices=vertices)).series == changed.series


OTHERS: dict[str, Any] = {
    "debloat_enabled": True,
    "debloat_target_s": 0.1,
    "debloat_samples": 3,
    "debloat_threshold_percent": 60,
    "debloat_policy": "longest-when-unblocked",
    "unaligned_enabled": True,
    "aligned_checkpoint_timeout_s": 0.4,
    "adaptive_partitioner_enabled": True,
    "checkpoint_interval_s": 0.2,
    "checkpoint_min_pause_s": 0.8,
    "checkpoint_timeout_s": 0.01,
}
"""Another value of each option that may change, than that of the job below."""


def back_pressured(field: str, at_s: float | None = None) -> dict[str, Any]:
    """A job of two regions in which each option matters; the option `field` is another from `at_s` on.

    None: it is another as a whole. Infinite: it never changes.
    """
    flink = {
        f"{DEBLOAT}.enabled": field != "debloat_enabled",
        f"{CHECKPOINTS}.unaligned.enabled": field != "unaligned_enabled",
        f"{CHECKPOINTS}.tolerable-failed-checkpoints": 1000,
        f"{CHECKPOINTS}.interval": "500 ms",
    }
    job = document(**flink) | {"duration": "4 s"}
    job["vertices"][0]["source"] |= {"record_bytes": 4000, "rate": [600]}
    job["vertices"][2] |= {"service": "2 ms", "service_skew": [1, 2]}
    job["vertices"] += [
        {"name": "other source", "source": {"record_bytes": 200, "rate": 100}},
        {"name": "other sink", "parallelism": 2},
    ]
    job["edges"].append({"from": "other source", "to": "other sink", "ship": "rebalance"})
    value = rendered(field, OTHERS[field])
    change = {"flink": {OPTIONS[field].name: value}} if field in OPTIONS else {"policy": value}
    if at_s is None:
        job["flink"] |= change.get("flink", {})
        job |= {name: value for name, value in change.items() if name != "flink"}
    elif at_s < inf:
        job["changes"] = [{"at": f"{at_s} s"} | change]
    return job


def figures(result: Result, until_s: float = inf) -> tuple[list[object], list[object]]:
    """Return the checkpoints that ended by a time, and the records read up to it."""
    ended = [each for each in result.checkpoints if each.t + (each.duration_ms or 0.0) / 1e3 < until_s]
    count = sum(t < until_s for t in result.series[0].t)
    return list(ended), [[row[:count] for row in each.numRecordsIn] for each in result.series]


def obeyed(job: Job) -> dict[str, object]:
    """Return what the running tasks and the coordinator obey of the options that may change."""
    attempt, coordinator = job.attempt, job.coordinator
    assert attempt is not None
    debloaters = [gate.debloater for gate in attempt.builder.gates]
    selectors = [output.selector for task in attempt.present for output in task.outputs]
    readers = [task for task in attempt.present if isinstance(task, OperatorSubtask)]
    (config,) = {task.environment.config for task in attempt.present}
    return {
        "config": {name: getattr(config, name) for name in CHANGEABLE},
        "policies": [
            each and (type(each), dataclasses.replace(each.settings, starting_size=0)) for each in debloaters
        ],
        "selection": [each.adaptive for each in selectors if isinstance(each, RoundRobin)],
        "persists": [each.persist is not None for task in readers for each in task.barriers.channels],
        "barriers": coordinator._options,
        "timeout": coordinator._config.checkpoint_timeout_s,
        "scheduler": (coordinator._scheduler._interval, coordinator._scheduler._decider.min_pause_s),
    }


def obeyed_at(document: dict[str, Any], *times: float) -> list[dict[str, object]]:
    """Return what is obeyed at some times of a job."""
    found: list[dict[str, object]] = []
    run_job(read_scenario(document), looks=[(at_s, lambda job: found.append(obeyed(job))) for at_s in times])
    return found


@cache
def obeyed_if_given(field: str) -> dict[str, object]:
    """Return what is obeyed if the option `field` is another from the beginning."""
    (found,) = obeyed_at(back_pressured(field) | {"duration": "600 ms"}, 0.5)
    return found


@cache
def emulated(document: str) -> Result:
    """Return the result of a scenario that several tests run."""
    return emulate(read_scenario(json.loads(document)))


def result_of(field: str, at_s: float | None) -> Result:
    return emulated(json.dumps(back_pressured(field, at_s)))


def test_each_option_that_may_change_has_another_value_here() -> None:
    assert set(OTHERS) == set(CHANGEABLE)


def test_each_part_of_a_job_that_obeys_changes_has_an_option() -> None:
    assert set(CHANGEABLE.values()) == set(Subsystem)


@pytest.mark.parametrize(
    "killed", [None, ("map", "600 ms"), ("map", "1.2 s"), ("other sink", "1.2 s")], ids=str
)
@pytest.mark.parametrize("field", CHANGEABLE)
def test_each_option_that_may_change_reaches_running_tasks(
    field: str, killed: tuple[str, str] | None
) -> None:
    """And those that are down then, or restart later. They obey it as if it had been given at first."""
    changed = back_pressured(field, 1.0) | {"duration": "3 s"}
    if killed is not None:
        vertex, at = killed
        changed["faults"] = [{"kind": "kill_subtask", "vertex": vertex, "subtask": 0, "at": at}]
    before, after = obeyed_at(changed, 0.5, 2.9)
    assert after == obeyed_if_given(field)
    assert before["config"][field] != after["config"][field] == OTHERS[field]  # type: ignore[index]
    assert {name for name in before if before[name] != after[name]} > {"config"}, "no part obeys it"


@pytest.mark.parametrize("field", CHANGEABLE)
def test_each_option_that_may_change_has_its_effect_from_then_on(field: str) -> None:
    unchanged, changed = (result_of(field, at_s) for at_s in (inf, 1.5))
    assert figures(unchanged, 1.5) == figures(changed, 1.5)
    assert figures(unchanged) != figures(changed)


@pytest.mark.parametrize("field", sorted({*CHANGEABLE} - {"debloat_enabled", "checkpoint_interval_s"}))
def test_an_option_that_changes_at_the_beginning_is_as_if_it_were_given(field: str) -> None:
    """But for the options whose first times are drawn before the change."""
    changed, given = (result_of(field, at_s) for at_s in (0.0, None))
    assert (changed.checkpoints, changed.series) == (given.checkpoints, given.series)


def test_changes_are_written_and_read_back() -> None:
    scenario = read_scenario(
        document(
            {"at": "2 s", "flink": {f"{DEBLOAT}.enabled": True, f"{DEBLOAT}.target": "300 ms"}},
            {"at": "3 s", "policy": "longest-when-unblocked"},
            {"at": "4.5 s", "vertex": "sink", "service": "700 us", "service_skew": [1, 2.5]},
            {"at": "5 s", "vertex": "source", "rate": [10]},
        )
    )
    assert len(scenario.changes) == 4
    assert read_scenario(json.loads(json.dumps(scenario_document(scenario)))) == scenario
    assert read_scenario(tomllib.loads(scenario_toml(scenario))) == scenario
    assert [change.at_s for change in scenario.ending_at(4.0).changes] == [2.0, 3.0]


def test_a_change_is_told_as_a_file_would_have_it() -> None:
    scenario = read_scenario(
        document(
            {"at": "2 s", "flink": {f"{DEBLOAT}.enabled": True, f"{DEBLOAT}.target": "300 ms"}},
            {"at": "3 s", "policy": "longest-when-unblocked"},
            {"at": "4 s", "vertex": "sink", "service": "700 us", "service_skew": [1, 2.5]},
            {"at": "5 s", "vertex": "source", "rate": [3000, 12345678]},
        )
    )
    assert [str(change) for change in scenario.changes] == [
        f"{DEBLOAT}.enabled is true, {DEBLOAT}.target is 300 ms",
        "policy is longest-when-unblocked",
        "sink: service is 700 us, sink: service_skew is 1, 2.5",
        "source: rate is 3000, 12345678",
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"at": "12 s", "policy": "flink"}, "changes.0.at: is 12 s; it must be from 0 s to before the end"),
        ({"at": "1 s"}, "changes.0: contains no change; give flink, policy, or a vertex with service"),
        ({"vertex": "sink", "service": "1 ms"}, 'changes.0.at: is missing; give a value such as "30 s"'),
        (
            {"at": "1 s", "service": "1 ms"},
            "changes.0.vertex: is missing; give the vertex whose service or rate changes",
        ),
        ({"at": "1 s", "vertex": "snik", "service": "1 ms"}, "changes.0.vertex: 'snik' is unknown; did you"),
        (
            {"at": "1 s", "vertex": "sink", "rate": 5},
            "changes.0.rate: sink is not a source; change its service instead",
        ),
        ({"at": "1 s", "vertex": "source", "service": "1 ms"}, "changes.0.service: source is a source"),
        ({"at": "1 s", "vertex": "sink", "service_skew": [-1]}, "changes.0.service_skew: is [-1"),
        (
            {"at": "1 s", "vertex": "source", "rate": [1e300]},
            "changes.0.rate: is [1e+300]; a rate must be from 0 (as fast as possible) to 1e+09 records",
        ),
        ({"at": "1 s", "policy": "best"}, "changes.0.policy: 'best' is unknown"),
        ({"at": "1 s", "flink": {f"{DEBLOAT}.target": "0 s"}}, f"changes.0.flink.{DEBLOAT}.target: is 0 s"),
        (
            {"at": "1 s", "flink": {"taskmanager.memory.segment-size": "16 kb"}},
            "changes.0.flink.taskmanager.memory.segment-size: cannot change while a job runs; only "
            "these options can: ",
        ),
        ({"at": "1 s", "speed": 2}, "changes.0.speed: is not a key of this table"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(change: dict[str, Any], problem: str) -> None:
    enabled = {f"{DEBLOAT}.enabled": True}
    with pytest.raises(ScenarioError) as caught:
        read_scenario(document(change, **enabled))
    assert any(line.startswith(problem) for line in caught.value.problems), caught.value.problems


def test_checkpoints_do_not_begin_with_a_change_nor_become_exactly_once() -> None:
    overtake = {"at": "1 s", "flink": {f"{CHECKPOINTS}.unaligned.enabled": True}}
    with pytest.raises(
        ScenarioError,
        match=r"changes\.0\.flink: unaligned checkpoints are possible only in mode EXACTLY_ONCE, which this "
        r"job does not use",
    ):
        read_scenario(document(overtake, **{f"{CHECKPOINTS}.mode": "AT_LEAST_ONCE"}))
    without = document(overtake)
    del without["flink"][f"{CHECKPOINTS}.interval"]
    with pytest.raises(ScenarioError, match=r"changes\.0\.flink: the job takes no checkpoints"):
        read_scenario(without)


def test_changes_are_made_in_one_process() -> None:
    scenario: Scenario = read_scenario(document({"at": "1 s", "vertex": "sink", "service": "1 ms"}))
    assert [key for key, _ in distribution_problems(scenario)] == ["changes"]
