"""The phases of checkpoints: one definition, whose parts add up, and which all commands print."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from integration.advise.diagnose.checkpoint_rules import phases
from integration.advise.diagnose.observation import observations
from integration.runs.checkpoint_times import (
    ACKNOWLEDGEMENT,
    ALIGNMENT,
    ASYNC,
    PHASES,
    START_DELAY,
    SYNC,
    UNREPORTED,
    CheckpointTimes,
    checkpoint_times,
    completed_within,
    last_part,
    mean_times,
    phases_in,
    subtask_parts,
    window_times,
)
from integration.runs.measures import measure
from integration.runs.window_figures import figures_of
from integration.show.terminal.run import print_result
from netstack import CheckpointResult, CheckpointStatus, Result, VertexCheckpoint, emulate, read_scenario
from tests.integration.sample_results import sample_result, sample_results

Milliseconds = float | None


def checkpoint_of(unaligned: bool | None = None, **lists: Milliseconds) -> CheckpointResult:
    """A checkpoint of one subtask, with these milliseconds."""
    figures: dict[str, Any] = {f"{name}_ms": [value] for name, value in lists.items()}
    vertex = VertexCheckpoint(name="v", unaligned=[unaligned], **figures)
    kind = "UNALIGNED_CHECKPOINT" if unaligned else "CHECKPOINT"
    return CheckpointResult(
        id=1, t=0.0, duration_ms=lists["end_to_end"], checkpoint_type=kind, vertices=[vertex]
    )


def test_phases_follow_one_another_and_add_up_to_the_end() -> None:
    checkpoint = checkpoint_of(
        end_to_end=100.0, start_delay=40.0, alignment=30.0, sync=5.0, **{"async": 20.0}
    )
    times = checkpoint_times(checkpoint)
    assert times is not None
    assert times.phases == {START_DELAY: 40.0, ALIGNMENT: 30.0, SYNC: 5.0, ASYNC: 20.0, ACKNOWLEDGEMENT: 5.0}
    assert (times.snapshot_ms, times.vertex) == (25.0, "v")


@pytest.mark.parametrize(
    ("sync", "asynchronous", "shown"),
    [(5.0, 20.0, (0.0, 0.0)), (5.0, 40.0, (0.0, 15.0)), (33.0, 4.0, (3.0, 4.0))],
)
def test_of_an_unaligned_part_that_which_outlasts_the_alignment_is_shown(
    sync: float, asynchronous: float, shown: tuple[float, float]
) -> None:
    checkpoint = checkpoint_of(
        True, end_to_end=100.0, start_delay=10.0, alignment=30.0, sync=sync, **{"async": asynchronous}
    )
    part = last_part(checkpoint)
    assert part is not None
    assert (part.phases[SYNC], part.phases[ASYNC]) == shown
    assert (part.sync_ms, part.async_ms) == (sync, asynchronous)
    assert sum(part.phases.values()) == pytest.approx(part.end_to_end_ms)


def test_a_phase_that_was_not_measured_is_not_told_and_none_is_taken_for_zero() -> None:
    times = checkpoint_times(checkpoint_of(end_to_end=100.0, start_delay=40.0, sync=5.0, **{"async": 5.0}))
    assert times is not None
    assert times.phases == {START_DELAY: 40.0, SYNC: 5.0, ASYNC: 5.0, UNREPORTED: 50.0}
    assert (times.start_delay_ms, times.alignment_ms, times.acknowledgement_ms) == (40.0, None, None)


def test_a_subtask_that_does_not_say_if_it_was_aligned_says_nothing_of_what_ran_beside() -> None:
    told = checkpoint_of(None, end_to_end=100.0, start_delay=40.0, alignment=20.0, sync=5.0, **{"async": 5.0})
    unknown = msgspec.structs.replace(told, checkpoint_type="UNALIGNED_CHECKPOINT")
    assert [sorted(found.phases) for found in map(checkpoint_times, (told, unknown)) if found] == [
        sorted(PHASES),
        sorted((START_DELAY, ALIGNMENT, UNREPORTED)),
    ]


def test_what_flink_writes_for_nothing_is_nothing() -> None:
    times = checkpoint_times(checkpoint_of(end_to_end=100.0, start_delay=-1.0, alignment=20.0))
    assert times is not None
    assert times.start_delay_ms is None


def test_the_last_part_is_that_of_the_last_acknowledgement() -> None:
    checkpoint = sample_result(debloated=True).checkpoints[0]
    part = last_part(checkpoint)
    assert part is not None
    assert (part.vertex, part.subtask) == ("consumer", 0)
    assert part.end_to_end_ms == checkpoint.duration_ms == pytest.approx(sum(part.phases.values()))


def test_what_comes_after_the_last_acknowledgement_is_part_of_it() -> None:
    late = msgspec.structs.replace(sample_result(debloated=True).checkpoints[0], duration_ms=306.0)
    times = checkpoint_times(late)
    assert times is not None
    assert times.acknowledgement_ms == pytest.approx(104.0)
    assert sum(times.phases.values()) == pytest.approx(306.0)


def test_subtasks_that_did_not_acknowledge_have_no_part() -> None:
    silent = checkpoint_of(end_to_end=None, start_delay=None, alignment=None)
    assert list(subtask_parts(silent)) == []
    assert last_part(silent) is None
    assert checkpoint_times(silent) is None


def test_a_checkpoint_of_which_no_part_is_known_still_took_its_time() -> None:
    times = checkpoint_times(CheckpointResult(id=1, t=0.0, duration_ms=80.0))
    assert times == CheckpointTimes(end_to_end_ms=80.0, phases={UNREPORTED: 80.0}, vertex=None)


def test_only_results_with_something_untold_have_a_phase_for_it() -> None:
    result = sample_result(debloated=True)
    bare = [msgspec.structs.replace(vertex, alignment_ms=[]) for vertex in result.checkpoints[0].vertices]
    untold = msgspec.structs.replace(result.checkpoints[0], vertices=bare)
    assert phases_in(sample_results().values()) == PHASES
    assert phases_in([msgspec.structs.replace(result, checkpoints=[untold])]) == (*PHASES, UNREPORTED)


MAYBE = st.none() | st.floats(-1.0, 500.0)
SUBTASKS = 2


@st.composite
def vertices(draw: st.DrawFn, name: str) -> VertexCheckpoint:
    """A vertex's part, with figures that need not fit together, or are missing."""

    def figures() -> list[float | None]:
        return draw(st.just([]) | st.lists(MAYBE, min_size=SUBTASKS, max_size=SUBTASKS))

    return VertexCheckpoint(
        name=name,
        end_to_end_ms=figures(),
        start_delay_ms=figures(),
        alignment_ms=figures(),
        sync_ms=figures(),
        async_ms=figures(),
        unaligned=draw(st.lists(st.sampled_from([True, False, None]), max_size=SUBTASKS)),
    )


@st.composite
def checkpoints(draw: st.DrawFn) -> CheckpointResult:
    return CheckpointResult(
        id=draw(st.integers(1, 99)),
        t=0.0,
        status=draw(st.sampled_from(CheckpointStatus)),
        duration_ms=draw(st.none() | st.floats(0.0, 1000.0)),
        checkpoint_type=draw(st.sampled_from(["CHECKPOINT", "UNALIGNED_CHECKPOINT", "UNKNOWN"])),
        vertices=[draw(vertices("a")), draw(vertices("b"))],
    )


def holds(times: CheckpointTimes) -> None:
    """No phase is below 0, they stand in their order, and together they are the whole."""
    assert all(ms >= 0 for ms in times.phases.values())
    assert [name for name in (*PHASES, UNREPORTED) if name in times.phases] == list(times.phases)
    assert (ACKNOWLEDGEMENT in times.phases) != (UNREPORTED in times.phases)
    assert sum(times.phases.values()) == pytest.approx(times.end_to_end_ms)


@given(st.lists(checkpoints(), max_size=6))
def test_whatever_was_measured_phases_add_up(history: list[CheckpointResult]) -> None:
    each = [found for found in map(checkpoint_times, history) if found is not None]
    for vertex in (None, "a", "b"):
        mean = mean_times(history, vertex)
        for times in [*each, *([mean] if mean else [])]:
            holds(times)
    mean = mean_times(history)
    assert (mean is None) == (not each)
    if mean is not None:
        wholes = [found.end_to_end_ms for found in each]
        assert mean.end_to_end_ms == pytest.approx(sum(wholes) / len(wholes))


SAVE = "execution.checkpointing."
MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "unaligned": {f"{SAVE}unaligned.enabled": True},
    "timeout": {f"{SAVE}unaligned.enabled": True, f"{SAVE}aligned-checkpoint-timeout": "100 ms"},
    "at least once": {f"{SAVE}mode": "AT_LEAST_ONCE"},
    "debloated": {
        "taskmanager.network.memory.buffer-debloat.enabled": True,
        "taskmanager.network.memory.buffer-debloat.target": "200 ms",
    },
    "expiring": {f"{SAVE}timeout": "500 ms", f"{SAVE}tolerable-failed-checkpoints": 100},
    "without checkpoints": {},
}
KILL = {"kind": "kill_subtask", "vertex": "stage1", "subtask": 0, "at": "5 s"}


def job(mode: str, stages: int, faults: list[dict[str, Any]]) -> Result:
    """A job whose first stage is skewed; a second one is slower still, so that barriers wait in each."""
    interval = {} if mode == "without checkpoints" else {f"{SAVE}interval": "1 s"}
    names = ["source", *(f"stage{number + 1}" for number in range(stages))]
    costs: list[dict[str, Any]] = [{"service": "1 ms", "service_skew": [1, 2]}, {"service": "2 ms"}]
    document = {
        "name": mode,
        "duration": "10 s",
        "warmup": "2 s",
        "flink": interval | MODES[mode],
        "vertices": [
            {"name": "source", "parallelism": 2, "source": {"record_bytes": 1013, "rate": [0, 400]}},
            *(
                {"name": name, "parallelism": 2} | costs[-1 - place % 2]
                for place, name in enumerate(names[1:])
            ),
        ],
        "edges": [{"from": a, "to": b, "ship": "hash"} for a, b in pairwise(names)],
    }
    return emulate(read_scenario(document | ({"faults": faults} if faults else {})))


CASES = [
    *((mode, stages, False) for mode in MODES for stages in (1, 2)),
    ("aligned", 2, True),
    ("unaligned", 1, True),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}, {case[1]}, {case[2]}")
def result(request: pytest.FixtureRequest) -> Result:
    mode, stages, killed = request.param
    return job(mode, stages, [KILL] if killed else [])


def test_phases_of_every_job_add_up(result: Result) -> None:
    for checkpoint in result.checkpoints:
        times = checkpoint_times(checkpoint)
        assert (times is not None) == (checkpoint.completed)
        if times is not None:
            holds(times)
            assert set(times.phases) == set(PHASES)
            assert times.end_to_end_ms == checkpoint.duration_ms
    mean = window_times(result)
    assert (mean is None) == (not completed_within(result.checkpoints, result.steady[-1]))
    if mean is not None:
        holds(mean)


def test_all_commands_say_the_same_of_a_job(result: Result) -> None:
    times = window_times(result)
    of_run = printed(result)
    found, measures, seen = figures_of(result), measure(result), phases(observations(result)[-1])
    assert seen == times
    if times is None:
        assert (found.end_to_end_ms, measures.end_to_end_ms, of_run) == (None, None, {})
        return
    for name, value, reported, tuned in (
        (START_DELAY, times.start_delay_ms, found.start_delay_ms, measures.start_delay_ms),
        (ALIGNMENT, times.alignment_ms, found.alignment_ms, measures.alignment_ms),
        ("snapshot", times.snapshot_ms, found.state_ms, measures.state_ms),
        ("end to end", times.end_to_end_ms, found.end_to_end_ms, measures.end_to_end_ms),
    ):
        assert reported == value
        assert tuned == pytest.approx(value, abs=0.01)
        assert of_run[name] == pytest.approx(value, rel=0.01, abs=0.01)
    assert sum(of_run.values()) == pytest.approx(2 * of_run["end to end"], rel=0.01)


def printed(result: Result) -> dict[str, float]:
    """The times that `run` prints for the last window, by their names."""
    out = StringIO()
    print_result(result, Console(file=out, width=80))
    text = out.getvalue().rpartition("\n\n")[2].partition("\n        ")[0]
    names = "end to end|start delay|alignment|snapshot|acknowledgement"
    return {name: float(number) for name, number in re.findall(rf"({names}) ([0-9.]+)", text)}


def test_a_vertex_has_the_times_of_its_own_last_subtask() -> None:
    result = sample_result(debloated=True)
    source, consumer = (mean_times(result.checkpoints, name) for name in ("flights", "consumer"))
    assert source is not None
    assert consumer is not None
    assert (source.start_delay_ms, source.end_to_end_ms) == (7.0, pytest.approx(12.0))
    assert replace(consumer, vertex=None) == replace(window_times(result) or consumer, vertex=None)
    assert mean_times(result.checkpoints, "nobody") is None
