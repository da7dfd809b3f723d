"""The lab without its page: a job run piece by piece, changed, gone back in, run twice, and copied."""

import math
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from flowcontrol import POLICIES
from integration.cli.app import main
from integration.lab.controls import controls_of, policies_of
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
    StopFor,
    TakeCheckpoint,
    encode,
    read_request,
)
from netstack import (
    OPTIONS,
    GeneratorSpec,
    InputError,
    Scenario,
    ScheduledChange,
    emulate,
    read_scenario,
    scenario_toml,
)

DEBLOAT = "taskmanager.network.memory.buffer-debloat.enabled"
DEBLOAT_TARGET = "taskmanager.network.memory.buffer-debloat.target"


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
    """Let the sides that are behind catch up with this moment."""
    while not lab.stands:
        lab.turn(0.05)


def figures(lab: Lab, side: int = 0) -> list[Any]:
    """Return the figures of a side up to now, without its name."""
    job = lab.sides[side]
    job.new_checkpoints()
    return [
        [(row.t, row.records_per_s, row.busy, row.in_flight_bytes) for row in job.rows],
        [(each.id, each.t, each.figures, each.status) for each in job.checkpoints],
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


def test_adaptive_partition_selection_is_offered_where_an_exchange_has_it(lab: Lab) -> None:
    option = OPTIONS["adaptive_partitioner_enabled"].name
    scenario = lab.sides[0].scenario
    by_key = replace(scenario, edges=tuple(replace(edge, ship="hash") for edge in scenario.edges))
    assert option in {control.key for control in controls_of(scenario, [], scenario)}
    assert option not in {control.key for control in controls_of(by_key, [], by_key)}


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
    answer = lab.handle(Copy("a"))
    assert isinstance(answer, Copied)
    document = tomllib.loads(answer.toml)
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


def copied(lab: Lab) -> Scenario:
    """The scenario that a user of the page copies."""
    answer = lab.handle(Copy("a"))
    assert isinstance(answer, Copied)
    return read_scenario(tomllib.loads(answer.toml))


def test_a_copy_ends_where_the_run_is_now(lab: Lab) -> None:
    assert copied(lab).duration_s == 0.001
    run(lab, 2.0)
    assert copied(lab).duration_s == 2.0
    run(lab, 7.25)
    assert copied(lab).duration_s == 9.25
    lab.handle(Change("a", "service", "1 ms", "sink"))
    lab.handle(TakeCheckpoint("a"))
    lab.handle(Kill("a", vertex="map", subtask=1))
    again = copied(lab)
    assert 9.25 < again.duration_s < 9.26
    assert (len(again.changes), len(again.manual_checkpoints_s), len(again.faults)) == (1, 1, 1)
    lab.handle(Back(4.0))
    assert copied(lab).duration_s == 4.0


def test_a_copy_has_neither_a_warm_up_nor_changes_that_are_yet_to_come() -> None:
    later = ScheduledChange(at_s=6.0, settings=(("debloat_enabled", True),))
    lab = Lab(replace(example(), warmup_s=4.0, phases=((4.0, 3600.0),), changes=(later,)))
    lab.paused = True
    try:
        run(lab, 2.0)
        early = copied(lab)
        assert (early.duration_s, early.warmup_s, early.phases, early.changes) == (2.0, 0.0, (), ())
        run(lab, 5.0)
        late = copied(lab)
        assert (late.duration_s, late.warmup_s, late.phases) == (7.0, 4.0, ((4.0, 7.0),))
        assert late.changes == (later,)
    finally:
        lab.close()


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
    with pytest.raises(InputError, match="the run has no moment 7 s"):
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
    assert [frame.replays_to_s for frame in lab.frames()] == [None, 5.0]
    with pytest.raises(
        InputError, match=r"Side b is still replaying the run. Wait until it has reached 5\.000 s"
    ):
        lab.handle(Change("b", "service", "1 ms", "sink"))
    wait(lab)
    assert [frame.replays_to_s for frame in lab.frames()] == [None, None]
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


def test_a_side_can_be_changed_while_it_lags_behind_the_fastest_pace(lab: Lab) -> None:
    run(lab, 1.0)
    lab.handle(Fork())
    wait(lab)
    lab.handle(Change("a", "rate", "1", "source"))
    run(lab, 6.0)  # then side a has almost nothing to do, so that it gets far ahead in one turn
    lab.handle(Pause(paused=False))
    while lab.sides[1].now >= lab.now - 1.0:
        lab.turn(0.0)
    assert [frame.state for frame in lab.frames()] == ["running", "running"]
    lab.handle(Change("b", "service", "1 ms", "sink"))
    assert len(lab.sides[1].scenario.changes) == 1


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
        (
            Change("a", "service", "soon", "sink"),
            "^Cost of a record of sink: 'soon' is .*; it must be a time",
        ),
        (Change("a", "service", "1 ms", "snik"), "'snik' is unknown; did you mean 'sink'"),
        (Change("a", "taskmanager.memory.segment-size", "16 kb"), "cannot change while a job runs"),
        (Change("a", "speed", "1"), "speed is not among the fields of this page"),
        (Change("a", "policy", "os:path"), "^Debloating policy: 'os:path' is not in the list; it must be "),
        (Change("a", "rate", "1, x", "source"), "^Rate of source: .* must be records per second, or 0"),
        (Change("a", "rate", "1e10", "source"), "^Rate: is .*; a rate must be from 0 .* to 1e.09"),
        (Change("a", "service_skew", "1, 4", "sink"), "^Skew of the subtasks of sink: .* such as 1:1:1:4"),
        (Change("a", "execution.checkpointing.interval", "1 ms"), "^Checkpoint interval: is 1 ms; .*10 ms"),
        (Change("a", DEBLOAT_TARGET, "0 s"), "^Debloating target: is 0 s; it must be more than 0"),
        (Change("a", DEBLOAT_TARGET, "5"), "^Debloating target: '5' .* such as"),
        (Change("b", "service", "1 ms", "sink"), "There is no side b. Start a second side first"),
        (Kill("a"), "Nothing was chosen to kill. Choose a task manager or a subtask"),
        (Kill("a", vertex="sink", subtask=9), "^Subtask: is 9; sink has the subtasks 0 to 3"),
        (Kill("a", task_manager="nobody"), "^Task manager: .*nobody"),
        (Cut("a", ("map", "moon"), 1.0), "^Link between task managers: .*moon"),
        (Change("a", "load", "much"), "^Load of the sources: 'much' is not possible; .* such as 1.5"),
        (Change("a", "load", "0"), "^Load of the sources: '0' is not possible; it must be a number above 0"),
        (Change("a", "load", "1e9"), "^Rate: is .*; a rate must be from 0 .* to 1e.09"),
        (StopFor("a", 0.0), "^Duration: is 0 s; it must be more than 0 s"),
        (StopFor("b", 1.0), "There is no side b. Start a second side first"),
        (Cut("a", ("map", "sink"), -1.0), "^Duration: is -1 s; it must be more than 0 s"),
        (Pace(0.0), "^Pace: 0 is not possible; the pace must be from 0.001 to 1000"),
        (Step(-1.0), "must be more than 0 s"),
        (Step(math.inf), "^Length of a step: inf s is not possible"),
        (Back(-1.0), "^Back to: the run has no moment -1 s; the moment must be from 0 s to 2.000 s"),
        (Join("b"), "There is no side b. Start a second side first."),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(request_: Any, problem: str, lab: Lab) -> None:
    run(lab, 2.0)
    scenario, now = lab.sides[0].scenario, lab.now
    with pytest.raises(InputError, match=problem):
        lab.handle(request_)
    assert (lab.sides[0].scenario, lab.now) == (scenario, now)


OWN_POLICY = "flowcontrol:LongestWhenUnblockedPolicy"


def load_of(lab: Lab, side: int = 0) -> str:
    """The load that the page shows."""
    (load,) = [each for each in lab.hello().sides[side].controls if each.key == "load"]
    assert (load.least, load.most, load.why_not) == (0.25, 4.0, None)
    return load.value


def two_sources(*rates: float) -> Scenario:
    """A job whose two sources have these rates for each of their two subtasks."""
    vertices = [
        {
            "name": f"source{number}",
            "parallelism": 2,
            "source": {"record_bytes": 100, "rate": [rate, 2 * rate]},
        }
        for number, rate in enumerate(rates)
    ]
    edges = [{"from": each["name"], "to": "sink"} for each in vertices]
    sink = {"name": "sink", "parallelism": 1}
    return read_scenario(
        {"name": "two", "duration": "1 h", "vertices": [*vertices, sink], "edges": edges}
        | {"flink": {"execution.checkpointing.interval": "1 s"}}
    )


def test_the_load_multiplies_the_rates_of_all_sources_at_once() -> None:
    lab = Lab(two_sources(100.0, 40.0))
    lab.paused = True
    try:
        run(lab, 3.0)
        assert load_of(lab) == "1"
        lab.handle(Change("a", "load", "2.5"))
        assert load_of(lab) == "2.5"
        run(lab, 3.0)
        assert lab.sides[0].rows[-1].records_per_s[:2] == pytest.approx([750, 300], rel=0.01)
        changes = lab.sides[0].scenario.changes
        assert [(each.at_s, each.vertex, each.rates) for each in changes] == [
            (3.001, "source0", (250.0, 500.0)),
            (3.001, "source1", (100.0, 200.0)),
        ]
        lab.handle(Change("a", "load", "0.5"))  # of the scenario's rates, not of the present ones
        run(lab, 3.0)
        assert lab.sides[0].rows[-1].records_per_s[:2] == pytest.approx([150, 60], rel=0.01)
        lab.handle(Change("a", "rate", "7", "source1"))
        assert load_of(lab) == ""
        lab.handle(Back(7.0))
        wait(lab)
        assert load_of(lab) == "0.5"
        lab.handle(Back(2.0))
        wait(lab)
        assert load_of(lab) == "1"
    finally:
        lab.close()


def test_a_load_follows_the_changes_of_the_scenario_itself() -> None:
    later = ScheduledChange(at_s=5.0, vertex="source0", rates=(1000.0,))
    lab = Lab(replace(two_sources(100.0, 40.0), changes=(later,)))
    lab.paused = True
    try:
        run(lab, 2.0)
        lab.handle(Change("a", "load", "2"))
        run(lab, 2.0)
        assert lab.sides[0].rows[-1].records_per_s[:2] == pytest.approx([600, 240], rel=0.01)
        run(lab, 2.0)
        lab.handle(Change("a", "load", "2"))
        run(lab, 2.0)
        assert lab.sides[0].rows[-1].records_per_s[:2] == pytest.approx([4000, 240], rel=0.01)
    finally:
        lab.close()


def test_a_lab_begins_at_a_load() -> None:
    lab = Lab(two_sources(100.0, 40.0), load=1.5)
    lab.paused = True
    try:
        assert load_of(lab) == "1.5"
        run(lab, 3.0)
        assert lab.sides[0].rows[-1].records_per_s[:2] == pytest.approx([450, 180], rel=0.01)
        again = copied(lab)
        assert (again.changes, again.vertices[0].source) == ((), lab.sides[0].scenario.vertices[0].source)
        lab.handle(Change("a", "load", "1"))
        run(lab, 2.0)
        assert lab.sides[0].rows[-1].records_per_s[:2] == pytest.approx([300, 120], rel=0.01)
    finally:
        lab.close()


def test_the_load_of_a_source_without_a_rate_cannot_change_and_the_page_says_why() -> None:
    lab = Lab(two_sources(100.0, 0.0))
    why_not = "source1 emits as fast as possible, so there is no rate to multiply; give it a rate first"
    try:
        (load,) = [each for each in lab.hello().sides[0].controls if each.key == "load"]
        assert (load.value, load.why_not) == ("", why_not)
        with pytest.raises(InputError, match=f"^Load of the sources: {why_not}$"):
            lab.handle(Change("a", "load", "2"))
        assert lab.sides[0].scenario.changes == ()
    finally:
        lab.close()


@pytest.mark.parametrize(
    ("load", "problem"),
    [
        ("0", "--load: is 0; it must be a number above 0"),
        (
            "2",
            "--load: source emits as fast as possible, so there is no rate to multiply; give it a rate first",
        ),
    ],
)
def test_a_load_that_is_impossible_ends_the_command(
    load: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    scenario = example()
    source = replace(scenario.vertices[0], source=GeneratorSpec(record_bytes=8))
    file.write_text(scenario_toml(replace(scenario, vertices=(source, *scenario.vertices[1:]))))
    assert main(["lab", str(file), "--load", load, "--no-browser"]) == 2
    assert f"netstack lab: {problem}" in " ".join(capsys.readouterr().err.split())


def test_during_an_outage_the_job_is_down_and_afterwards_it_reads_the_backlog() -> None:
    lab = Lab(replace(two_sources(500.0, 500.0), seed=1))
    lab.paused = True
    try:
        run(lab, 5.2)
        frame = lab.frames()[0]
        assert (frame.state, frame.catches_up) == ("paused", False)
        assert frame.backlog is not None
        assert frame.backlog <= 4
        lab.handle(StopFor("a", 20.0))
        run(lab, 5.0)
        frame = lab.frames()[0]
        assert (frame.state, frame.text) == ("down", "until 25.201 s")
        assert (frame.backlog, frame.catches_up) == (None, False)
        assert lab.sides[0].incidents[-1].text == "the job fails: the job is down for 20 s"
        lab.handle(StopFor("a", 30.0))
        run(lab, 1.0)
        assert lab.frames()[0].text == "until 40.201 s"
        assert lab.sides[0].incidents[-1].text == "the job is down for 30 s; it was down already"
        lab.handle(Change("a", "load", "2"))  # also the log of a job that is down fills faster
        run(lab, 29.0)
        while lab.frames()[0].backlog is None:
            run(lab, 0.002)
        frame = lab.frames()[0]
        assert frame.catches_up
        assert frame.backlog == pytest.approx(3000 * (11.2 - 5.0) + 6000 * 29.1, rel=0.03)
        while lab.frames()[0].catches_up:
            run(lab, 0.2)
        assert (lab.frames()[0].backlog or 0) <= 100
        run(lab, 2.0)
        row = lab.sides[0].rows[-1]
        assert None not in row.pending_records[:2]
        assert row.pending_records[2] is None
        before = figures(lab)
        kept = lab.sides[0].scenario
        lab.handle(Fork())
        wait(lab)
        assert figures(lab, 1) == before
        assert copied(lab).faults == kept.faults
        lab.handle(Back(5.3))
        wait(lab)
        assert (len(lab.sides[0].scenario.faults), lab.frames()[0].state) == (1, "down")
        lab.handle(Back(5.2))
        wait(lab)
        assert (lab.sides[0].scenario.faults, lab.frames()[0].state) == ((), "paused")
    finally:
        lab.close()


def test_a_backlog_is_not_known_where_no_source_has_a_rate() -> None:
    lab = Lab(two_sources(0.0))
    lab.paused = True
    try:
        run(lab, 2.0)
        assert lab.frames()[0].backlog is None
        assert lab.sides[0].rows[-1].pending_records == [None, None]
    finally:
        lab.close()


def test_a_policy_of_a_module_is_chosen_where_it_was_offered() -> None:
    lab = Lab(example(), policies=[OWN_POLICY])
    try:
        control = next(each for each in lab.hello().sides[0].controls if each.key == "policy")
        assert control.choices == [*sorted(POLICIES), OWN_POLICY]
        run(lab, 1.0)
        lab.handle(Change("a", "policy", OWN_POLICY))
        run(lab, 1.0)
        assert lab.sides[0].incidents[-1].text == f"Set Debloating policy to {OWN_POLICY}"
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


def test_changes_are_listed_in_the_words_of_the_page_and_a_skew_as_it_was_entered(lab: Lab) -> None:
    run(lab, 1.0)
    lab.handle(Change("a", "service_skew", "1:1:1:4", "sink"))
    lab.handle(Change("a", "rate", "2500, 3000", "source"))
    lab.handle(Change("a", DEBLOAT, "true"))
    lab.handle(Change("a", DEBLOAT_TARGET, "1.23 s"))
    run(lab, 1.0)
    values = {(control.key, control.vertex): control.value for control in lab.hello().sides[0].controls}
    assert values["service_skew", "sink"] == "1:1:1:4"
    assert [each.text for each in lab.sides[0].incidents] == [
        "Set Skew of the subtasks of sink to 1:1:1:4",
        "Set Rate of source to 2500, 3000 records/s",
        "Set Buffer debloating to on",
        "Set Debloating target to 1230 ms",
    ]
    assert copied(lab).changes == lab.sides[0].scenario.changes


def test_a_failed_checkpoint_is_told_without_constants_of_flink(lab: Lab) -> None:
    run(lab, 4.0)
    lab.handle(Change("a", "execution.checkpointing.timeout", "500 ms"))
    run(lab, 3.0)
    side = lab.sides[0]
    checkpoint = side.new_checkpoints()[-1]
    assert (checkpoint.status, checkpoint.failure) == ("FAILED", "checkpoint expired")
    (told,) = [each.text for each in side.incidents if each.text.startswith("the job fails")]
    assert told.startswith(
        "the job fails: checkpoint 2 failed: checkpoint expired, acknowledgements missing: "
    )


def test_a_run_that_is_over_says_so(lab: Lab) -> None:
    short = Lab(example().ending_at(3.0))
    short.paused = True
    try:
        run(short, 10.0)
        frame = short.frames()[0]
        text = "after 3 s. Go back to an earlier moment to continue from there."
        assert (frame.state, frame.text) == ("ended", text)
        with pytest.raises(InputError, match=r"The run has ended\. Go back to an earlier moment"):
            short.handle(Change("a", "service", "1 ms", "sink"))
        short.handle(Back(1.0))
        wait(short)
        assert short.frames()[0].state == "paused"
    finally:
        short.close()


def test_messages_are_what_they_were() -> None:
    request = Change("a", "service", "1 ms", "sink")
    assert read_request(encode(request)) == request
