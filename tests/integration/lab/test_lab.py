"""The lab without its page: a job run piece by piece, changed, gone back in, run twice, and copied."""

import math
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

import pytest

from flowcontrol import POLICIES
from integration.cli.app import main
from integration.lab.controls import policies_of
from integration.lab.lab import Lab, example
from integration.lab.messages import (
    Back,
    Change,
    Copied,
    Copy,
    Cut,
    Fork,
    Frame,
    Join,
    Kill,
    Pace,
    Pause,
    Step,
    TakeCheckpoint,
    encode,
    read_request,
)
from netstack import InputError, emulate, read_scenario

DEBLOAT = "taskmanager.network.memory.buffer-debloat.enabled"


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab(example())
    made.paused = True
    yield made
    made.close()


def run(lab: Lab, seconds: float) -> None:
    """Let some emulated seconds pass, as fast as possible."""
    lab.pace = None
    lab.handle(Step(seconds))
    while not lab.stands:
        lab.turn(0.05)


def wait(lab: Lab) -> None:
    """Let the sides that are behind come to this moment."""
    while not lab.stands:
        lab.turn(0.05)


def figures(lab: Lab, side: int = 0) -> list[Any]:
    """What has come of a side so far, without its name."""
    job = lab.sides[side]
    job.new_checkpoints()
    return [
        [(row.t, row.records_per_s, row.busy, row.in_flight_bytes) for row in job.rows],
        [(each.id, each.t, each.end_to_end_s, each.status) for each in job.checkpoints],
    ]


def test_a_job_is_seen_as_it_runs(lab: Lab) -> None:
    run(lab, 12.0)
    frame: Frame = lab.frames()[0]
    assert (frame.side, frame.t, frame.state) == ("a", 12.0, "paused")
    assert [len(edge.sender) for edge in frame.edges] == [16, 16]
    assert all(credit is not None and credit >= 0 for edge in frame.edges for credit in edge.credit)
    assert all(0.99 < sum(shares) < 1.01 for vertex in frame.subtasks for shares in vertex)
    assert min(busy for busy, _, _ in frame.subtasks[2]) > 0.95  # the sinks hold the others back
    hello = lab.hello()
    assert [row.t for row in hello.sides[0].rows][-1] == 12.0
    assert hello.sides[0].rows[-1].records_per_s[2] == pytest.approx(10_000, rel=0.05)
    assert {control.key for control in hello.sides[0].controls if control.vertex == "sink"} == {
        "service",
        "service_skew",
    }


def test_a_barrier_is_seen_on_its_way(lab: Lab) -> None:
    seen = set[str]()
    run(lab, 3.0)
    for _ in range(400):
        run(lab, 0.01)
        for edge in lab.frames()[0].edges:
            seen |= {where for _, where, _ in edge.barriers}
    assert {"sender", "receiver"} <= seen


def test_what_a_user_does_acts_at_once_and_is_copied_to_the_bit(lab: Lab) -> None:
    run(lab, 7.0)
    lab.handle(Change("a", "service", "1 ms", "sink"))
    run(lab, 4.0)
    assert lab.sides[0].rows[-1].records_per_s[2] == pytest.approx(4000, rel=0.1)
    lab.handle(Change("a", DEBLOAT, "true"))
    lab.handle(Change("a", "rate", "2500, 3000", "source"))
    run(lab, 3.0)
    lab.handle(Kill("a", vertex="map", subtask=1))
    run(lab, 5.0)
    lab.handle(Cut("a", ("map", "sink"), 0.5))
    lab.handle(TakeCheckpoint("a"))
    run(lab, 8.0)
    copied = lab.handle(Copy("a"))
    assert isinstance(copied, Copied)
    document = tomllib.loads(copied.toml)
    assert [change["at"] for change in document["changes"]] == ["7001 ms", "11001 ms", "11002 ms"]
    job = lab.sides[0]._job
    document["duration"] = f"{lab.now} s"
    again = emulate(read_scenario(document))
    done = [each for each in job.recorder.checkpoints if each.ended_at is not None]
    assert [(each.id, each.t) for each in again.checkpoints if each.status != "IN_PROGRESS"] == [
        (each.checkpoint_id, round(each.triggered_at, 3)) for each in done
    ]
    for number, series in enumerate(again.series):
        live = job.recorder.samples_of(number)["records_in"].tolist()
        assert [list(map(float, of_subtask)) for of_subtask in series.numRecordsIn] == live


def test_a_copy_lasts_as_long_as_the_scenario_or_as_was_run() -> None:
    asked = Lab(example(), asked_s=5.0)
    asked.paused = True
    for seconds, copied_s in ((2.0, 5.0), (7.25, 9.25)):
        run(asked, seconds)
        copied = asked.handle(Copy("a"))
        assert isinstance(copied, Copied)
        document = tomllib.loads(copied.toml)
        assert read_scenario(document).duration_s == pytest.approx(copied_s, abs=2e-3)
    asked.close()


def test_there_is_a_way_back_and_the_same_comes_again(lab: Lab) -> None:
    run(lab, 6.0)
    before = figures(lab)
    run(lab, 2.0)
    lab.handle(Change("a", "service", "2 ms", "sink"))
    run(lab, 3.0)
    lab.handle(Back(6.0))
    wait(lab)
    assert lab.now == 6.0
    assert figures(lab) == before
    assert lab.sides[0].scenario.changes == ()
    with pytest.raises(InputError, match="no way back to 7 s"):
        lab.handle(Back(7.0))


def test_the_way_back_forgets_what_came_later_and_nothing_else(lab: Lab) -> None:
    run(lab, 2.0)
    lab.handle(TakeCheckpoint("a"))
    lab.handle(Cut("a", ("map", "sink"), 0.1))
    lab.handle(Change("a", "service", "1 ms", "sink"))
    run(lab, 2.0)
    kept = lab.sides[0].scenario
    assert (len(kept.manual_checkpoints_s), len(kept.faults), len(kept.changes)) == (1, 1, 1)
    lab.handle(TakeCheckpoint("a"))
    lab.handle(Kill("a", vertex="sink", subtask=0))
    lab.handle(Change("a", "service", "2 ms", "sink"))
    run(lab, 1.0)
    lab.handle(Back(4.0))
    wait(lab)
    assert lab.sides[0].scenario == kept


def test_two_sides_go_on_from_the_same_moment(lab: Lab) -> None:
    run(lab, 5.0)
    lab.handle(Fork())
    with pytest.raises(InputError, match="not there yet"):
        lab.handle(Change("b", "service", "1 ms", "sink"))
    wait(lab)
    assert figures(lab, 0) == figures(lab, 1)
    lab.handle(Change("b", "service", "1 ms", "sink"))
    run(lab, 6.0)
    rates = [lab.sides[side].rows[-1].records_per_s[2] for side in (0, 1)]
    assert rates[0] == pytest.approx(10_000, rel=0.05)
    assert rates[1] == pytest.approx(4000, rel=0.1)
    after = figures(lab, 1)
    lab.handle(Join("b"))
    assert [side.side for side in lab.sides] == ["a"]
    assert figures(lab) == after


def test_single_steps_lead_from_one_thing_to_the_next(lab: Lab) -> None:
    run(lab, 1.0)
    times = []
    for _ in range(5):
        lab.handle(Step(None))
        times.append(lab.now)
    assert times == sorted(set(times))
    assert 1.0 < times[0] <= times[-1] < 1.1


def test_the_pace_is_that_of_the_clock(lab: Lab) -> None:
    lab.handle(Pace(0.5))
    lab.handle(Pause(paused=False))
    begun = perf_counter()
    while perf_counter() < begun + 0.4:
        lab.turn(0.01)
    assert 0.0 < lab.now <= 0.5 * (perf_counter() - begun) + 1e-6


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (Change("a", "service", "soon", "sink"), "service: "),
        (Change("a", "service", "1 ms", "snik"), "'snik' is unknown"),
        (Change("a", "taskmanager.memory.segment-size", "16 kb"), "cannot change while a job runs"),
        (Change("a", "speed", "1"), "speed cannot be changed here"),
        (Change("a", "policy", "os:path"), "is not offered here"),
        (Change("a", "rate", "1, x", "source"), "is no list of numbers"),
        (Change("b", "service", "1 ms", "sink"), "there is no side 'b'"),
        (Kill("a"), "what is to be killed is not said"),
        (Kill("a", vertex="sink", subtask=9), "subtask"),
        (Kill("a", task_manager="nobody"), "nobody"),
        (Cut("a", ("map", "moon"), 1.0), "moon"),
        (Cut("a", ("map", "sink"), -1.0), "-1"),
        (Pace(0.0), "the pace is 0"),
        (Step(-1.0), "must be more than 0 s"),
        (Step(math.inf), "a step takes inf s"),
        (Back(-1.0), "there is no way back to -1 s"),
        (Join("b"), "there is no side 'b'"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(request_: Any, problem: str, lab: Lab) -> None:
    run(lab, 2.0)
    scenario, now = lab.sides[0].scenario, lab.now
    with pytest.raises(InputError, match=problem):
        lab.handle(request_)
    assert (lab.sides[0].scenario, lab.now) == (scenario, now)


OWN_POLICY = "flowcontrol.debloat_policies:BurstPolicy"


def test_a_policy_of_a_module_is_chosen_where_it_was_offered() -> None:
    lab = Lab(example(), policies=[OWN_POLICY])
    try:
        control = next(each for each in lab.hello().sides[0].controls if each.key == "policy")
        assert control.choices == [*sorted(POLICIES), OWN_POLICY]
        run(lab, 1.0)
        lab.handle(Change("a", "policy", OWN_POLICY))
        run(lab, 1.0)
        assert f"policy is {OWN_POLICY}" in lab.sides[0].incidents[-1].text
        control = next(each for each in lab.hello().sides[0].controls if each.key == "policy")
        assert control.value == OWN_POLICY
    finally:
        lab.close()


def test_a_policy_that_a_scenario_names_is_among_the_choices() -> None:
    scenario = replace(example(), config=replace(example().config, debloat_policy=OWN_POLICY))
    assert policies_of(scenario) == [*sorted(POLICIES), OWN_POLICY]


@pytest.mark.parametrize("policy", ["os:nothing", "no_such_module:Policy", "best"])
def test_a_policy_that_cannot_be_made_ends_the_command(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "--policy", policy, "--no-browser"]) == 2
    assert "netstack lab: --policy: " in capsys.readouterr().err


def test_a_rate_is_shown_as_it_was_given(lab: Lab) -> None:
    lab.handle(Change("a", "rate", "1234567.5, 2000", "source"))
    (rate,) = [each for each in lab.hello().sides[0].controls if each.key == "rate"]
    assert rate.value == "1234567.5, 2000"


def test_a_run_that_is_over_says_so(lab: Lab) -> None:
    short = Lab(example().ending_at(3.0))
    short.paused = True
    try:
        run(short, 10.0)
        frame = short.frames()[0]
        assert (frame.state, frame.text) == ("ended", "after 3 s; go back to a moment to go on from there")
        with pytest.raises(InputError, match="the run is over; go back to a moment"):
            short.handle(Change("a", "service", "1 ms", "sink"))
        short.handle(Back(1.0))
        wait(short)
        assert short.frames()[0].state == "paused"
    finally:
        short.close()


def test_messages_are_what_they_were() -> None:
    request = Change("a", "service", "1 ms", "sink")
    assert read_request(encode(request)) == request
