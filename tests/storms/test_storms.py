"""Storms: that none goes wrong, that each is its seed, and that a defect would be found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from benches.studied_policies import STUDIED
from netstack import (
    CheckpointMode,
    FailoverStrategy,
    RestartStrategy,
    StateBackendType,
    Transaction,
)
from netstack.jobs.restarts import Restart
from tests.storms import __main__ as storm_command
from tests.storms.__main__ import main
from tests.storms.case import Guarantee, Reading, StormCase, Work
from tests.storms.draw import LONGEST_S, draw_case, estimate_s
from tests.storms.expected import Lives, Run, expected_output
from tests.storms.many import digests_elsewhere, run_storms
from tests.storms.one_storm import LITERAL_EVERY, Outcome, in_fair_weather, run_case, run_storm
from tests.storms.operators import is_sum, mark, parse_sum, records_of, sum_record, value_of
from tests.storms.output_rules import CommitLog, check_output
from tests.storms.small_cases import case_of, vertex

SEEDS = 300
CHUNK = 50


@cache
def storms(first: int) -> list[Outcome]:
    return [run_storm(seed) for seed in range(first, first + CHUNK)]


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(CHUNK, SEEDS, CHUNK))]
)
def test_no_storm_goes_wrong(first: int) -> None:
    assert [(storm.replay, storm.problems) for storm in storms(first) if storm.problems] == []


@pytest.mark.long
def test_storms_go_through_all_that_can_happen() -> None:
    outcomes = [storm for first in range(0, SEEDS, CHUNK) for storm in storms(first)]
    cases = [draw_case(seed) for seed in range(SEEDS)]
    checkpoints = sum((storm.checkpoints for storm in outcomes), Counter[str]())
    fired = {fault.partition(" at ")[0].split()[0] for storm in outcomes for fault in storm.fired}

    assert {storm.end for storm in outcomes} == {"ended", "gave up", "stopped"}
    assert sum(storm.restarts > 0 for storm in outcomes) > SEEDS // 4
    assert sum(storm.restarts > 1 for storm in outcomes) > SEEDS // 20
    assert sum(storm.of_regions > 0 for storm in outcomes) > SEEDS // 20
    assert sum(0 < storm.of_regions < storm.restarts for storm in outcomes) > 0
    assert {case.config.failover_strategy for case in cases} == set(FailoverStrategy)
    assert sum(storm.restored_bytes > 0 for storm in outcomes) > SEEDS // 20
    assert sum(storm.moved for storm in outcomes) > SEEDS // 20
    assert sum(storm.moved and storm.moved_bytes > 0 for storm in outcomes) > SEEDS // 50
    assert sum(storm.from_savepoint for storm in outcomes) > SEEDS // 50
    assert checkpoints["COMPLETED"] > 3 * SEEDS
    assert checkpoints["CHECKPOINT_EXPIRED"] > 0
    assert checkpoints["CHECKPOINT_SUBSUMED"] > 0
    assert checkpoints["FINALIZE_CHECKPOINT_FAILURE"] > 0
    assert fired == {"subtask", "task", "the", "messages", "uploads"}
    assert {vertex.work for case in cases for vertex in case.vertices} == set(Work)
    assert {vertex.reading for case in cases for vertex in case.vertices} == set(Reading)
    assert {case.config.retained_checkpoints for case in cases} == {1, 2, 3, 4, 5}
    assert {case.config.debloat_policy for case in cases} == set(STUDIED)
    assert {case.config.state_backend for case in cases} == set(StateBackendType)
    assert {case.config.segment_bytes for case in cases} == {1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10}
    assert {case.restart_strategy for case in cases} == set(RestartStrategy)
    assert max(vertex.parallelism for case in cases for vertex in case.vertices) == 16
    assert sum(case.on_disk for case in cases) > SEEDS // 50
    assert sum(bool(case.neighbours) for case in cases) > SEEDS // 10
    assert sum("cannot be restored" in cause for storm in outcomes for cause in storm.causes) > 0
    assert any(case.continuation is not None and case.continuation.killed for case in cases)
    assert {ship for case in cases for _, _, ship in case.edges} == {
        "forward",
        "rescale",
        "rebalance",
        "hash",
        "broadcast",
    }
    assert {case.guarantee(1) for case in cases} == set(Guarantee)


def test_the_seed_is_the_case_and_its_outcome() -> None:
    assert draw_case(3) == draw_case(3)
    assert len({repr(replace(draw_case(seed), seed=0)) for seed in range(100)}) == 100
    assert run_case(draw_case(3)) == run_case(draw_case(3))


def test_some_storms_are_compared_with_themselves_and_with_fair_weather(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[StormCase] = []
    digests = iter("abc")

    def run(case: StormCase, *, paranoid: bool = False) -> Outcome:
        seen.append(case)
        return replace(run_case(case), digest=next(digests))

    monkeypatch.setattr("tests.storms.one_storm.run_case", run)
    outcome = run_storm(LITERAL_EVERY)
    assert outcome.problems == ("a second run gives another result",)
    assert [case.faults for case in seen] == [
        draw_case(LITERAL_EVERY).faults,
        (),
        draw_case(LITERAL_EVERY).faults,
    ]


def test_what_a_storm_raises_is_its_problem_and_no_other_storms(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(seed: int) -> StormCase:
        case = draw_case(seed)
        return replace(case, edges=()) if seed == 2 else case

    monkeypatch.setattr("tests.storms.one_storm.draw_case", draw)
    first, second, third = run_storms(range(1, 4))
    assert first.problems == third.problems == ()
    assert second.end == "not run"
    assert second.problems[0].startswith("ScenarioError: ")


@pytest.mark.long
def test_a_job_left_alone_takes_no_longer_than_estimated() -> None:
    for seed in range(40):
        case = draw_case(seed)
        assert estimate_s(case) <= LONGEST_S
        alone = replace(
            in_fair_weather(case),
            manual_checkpoints_s=(),
            continuation=None,
            config=replace(case.config, checkpoint_interval_s=None),
        )
        assert run_case(alone).emulated_s < 1.5 * estimate_s(case)


SOURCE = vertex("source", Work.SOURCE, 2, records=(3, 1), keys=5)


def output_of(case: StormCase) -> Counter[bytes]:
    """What the sink of a case puts out, where there is no choice."""
    amount = expected_output(case)["sink"]
    assert amount.is_exact
    return amount.most


def lives_after(case: StormCase, restarts: int) -> Lives:
    """The lives of a job that has come back so often, each time from another checkpoint."""
    parallelism = {vertex.name: vertex.parallelism for vertex in case.vertices}
    back = [Restart(0.1 * number, "a fault") for number in range(1, restarts + 1)]
    for number, each in enumerate(back, 1):
        each.checkpoint_id, each.restarted_at = number, each.failed_at
    return Lives(runs=(Run(parallelism=parallelism, restarts=back),))


def test_what_is_expected_follows_from_records_and_operators() -> None:
    records = [
        record for subtask in range(2) for record in records_of(case_of(SOURCE, edges=()), SOURCE, subtask)
    ]
    assert len(set(records)) == 4
    case = case_of(
        SOURCE,
        vertex("copy", Work.COPY, 3, copies=2),
        vertex("sum", Work.SUM),
        vertex("sink", Work.SINK, 2),
        edges=(
            ("source", "copy", "rebalance"),
            ("copy", "sink", "hash"),
            ("source", "sum", "hash"),
            ("sum", "sink", "broadcast"),
        ),
    )
    expected = output_of(case)
    copies = [record[:2] + digit + record[2:] for record in records for digit in (b"0", b"1")]
    assert Counter({record: n for record, n in expected.items() if not is_sum(record)}) == Counter(copies)
    sums: Counter[bytes] = Counter()
    for record in records:
        sums[record[:2]] += value_of(record)
    told = Counter({parse_sum(record): n for record, n in expected.items() if is_sum(record)})
    assert told == Counter(dict.fromkeys(sums.items(), 2))


def test_a_broadcast_is_seen_by_every_subtask() -> None:
    case = case_of(SOURCE, vertex("sink", Work.SINK, 3), edges=(("source", "sink", "broadcast"),))
    assert set(output_of(case).values()) == {3}
    assert output_of(case).total() == 12


def problems_of(case: StormCase, records: list[bytes], *, restarts: int, ended: bool = True) -> list[str]:
    log = CommitLog()
    log.commit(Transaction("sink", 0, 1, tuple(records)))
    return [
        problem.partition(":")[0] for problem in check_output(case, log, ended, lives_after(case, restarts))
    ]


TO_SINK = (("source", "sink", "rebalance"),)
PLAIN = case_of(SOURCE, vertex("sink", Work.SINK), edges=TO_SINK, checkpoint_interval_s=1.0)
TWICE = replace(PLAIN, config=replace(PLAIN.config, checkpoint_mode=CheckpointMode.AT_LEAST_ONCE))
WITHOUT = replace(PLAIN, config=replace(PLAIN.config, checkpoint_interval_s=None))


def test_each_promise_is_held_to_its_own_word() -> None:
    wanted = list(output_of(PLAIN))
    for case in (PLAIN, TWICE, WITHOUT):
        assert problems_of(case, wanted, restarts=1) == []
        assert problems_of(case, [*wanted, b"other"], restarts=0) == ["put out too often"]
        assert problems_of(case, wanted[1:], restarts=0) == ["missing"]
        assert problems_of(case, wanted[1:], restarts=0, ended=False) == []
    assert problems_of(PLAIN, [*wanted, wanted[0]], restarts=1) == ["put out too often"]
    assert problems_of(TWICE, [*wanted, wanted[0]], restarts=1) == []
    assert problems_of(TWICE, [*wanted, b"other"], restarts=1) == ["invented"]
    assert problems_of(TWICE, wanted[1:], restarts=1) == ["missing"]
    assert problems_of(WITHOUT, wanted[1:] * 2, restarts=1) == []
    assert problems_of(WITHOUT, [b"other"], restarts=1) == ["invented"]


def test_a_sum_may_be_too_large_only_where_records_may_come_twice() -> None:
    edges = (("source", "sum", "hash"), ("sum", "sink", "rebalance"))
    vertices = (SOURCE, vertex("sum", Work.SUM), vertex("sink", Work.SINK))
    exact = case_of(*vertices, edges=edges, checkpoint_interval_s=1.0)
    loose = replace(exact, config=replace(exact.config, checkpoint_mode=CheckpointMode.AT_LEAST_ONCE))
    first, *others = output_of(exact)
    key, total = parse_sum(first)
    larger, smaller = b"%b %d" % (key, total + 1), b"%b %d" % (key, total - 1)
    assert problems_of(exact, [larger, *others], restarts=1) == ["put out too often", "missing"]
    assert problems_of(loose, [larger, *others], restarts=1) == []
    assert problems_of(loose, [smaller, *others], restarts=1) == ["invented"]
    assert problems_of(loose, others, restarts=1) == ["missing"]


def test_a_transaction_must_not_change() -> None:
    log = CommitLog()
    for record in output_of(PLAIN):
        log.commit(Transaction("sink", 0, 1, (record,)))
    problems = list(check_output(PLAIN, log, False, lives_after(PLAIN, 0)))
    assert problems[0] == "sink[0] committed transaction 1 twice, with other records"


def first_wrong(change: Callable[[StormCase], StormCase | None], seeds: int = 300) -> str:
    """The first problem of the first storm that goes wrong; nothing if none does. None leaves a case out."""
    cases = (change(draw_case(seed)) for seed in range(seeds))
    outcomes = (run_case(case) for case in cases if case is not None)
    return next((outcome.problems[0] for outcome in outcomes if outcome.problems), "")


def test_a_sink_without_transactions_is_found_out() -> None:
    assert "put out too often" in first_wrong(
        lambda case: replace(case, transactional=False, continuation=None)
    )


def test_sums_are_told_by_records_with_marks_too() -> None:
    told = sum_record(b"\0\1", 17)
    assert (is_sum(told), parse_sum(told)) == (True, (b"\0\1", 17))
    assert parse_sum(mark(mark(told))) == (b"\0\1''", 17)


@pytest.mark.long
def test_at_least_once_is_not_exactly_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StormCase, "guarantee", lambda case, restarts, went_back: Guarantee.EXACTLY_ONCE)

    def only(case: StormCase) -> StormCase | None:
        return case if case.config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE and case.faults else None

    assert "put out too often" in first_wrong(only)


def test_a_job_that_does_not_end_needs_a_reason() -> None:
    cut_short = first_wrong(lambda case: replace(case, faults=(), manual_checkpoints_s=(), duration_s=0.001))
    assert cut_short == "did not end within 0.001 s, and nothing keeps it from that"


def test_a_job_that_fails_needs_a_reason() -> None:
    hasty = replace(PLAIN, config=replace(PLAIN.config, checkpoint_timeout_s=0.001, restart_attempts=1))
    problems = run_case(replace(hasty, duration_s=3.0)).problems
    assert "failed for no good reason: checkpoint 1 failed: CHECKPOINT_EXPIRED" in problems[1]
    assert run_case(replace(hasty, duration_s=3.0, patient=False)).problems == problems[:1]


@pytest.mark.long
def test_processes_give_the_same_outcomes() -> None:
    assert list(run_storms(range(300, 332), processes=2)) == [run_storm(seed) for seed in range(300, 332)]


@pytest.mark.long
def test_another_process_with_other_hashes_gives_the_same_runs() -> None:
    seeds = range(9)
    assert digests_elsewhere(seeds) == [run_storm(seed).digest for seed in seeds]


def test_the_command_says_how_many_went_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--first-seed", "5"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("3 storms: ")
    assert told[-1] == "wrong: none"


def test_the_command_names_each_storm_that_went_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = replace(run_storm(7), problems=("missing: 3 records",))
    both = [run_storm(6), bad]
    monkeypatch.setattr(storm_command, "run_storms", lambda seeds, paranoid: iter(both))
    monkeypatch.setattr(storm_command, "SHRUNK", 0)  # the case does not fail, so each step would be tried
    assert main(["--seeds", "2", "--first-seed", "6"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == ["seed 7: missing: 3 records", "  python -m tests.storms --seed 7"]
    assert told[-1] == "wrong: 7"


def test_verbose_shows_the_case_and_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1", "--first-seed", "11", "--verbose"]) == 0
    told = capsys.readouterr().out
    for line in [*draw_case(11).lines(), *run_storm(11).lines()]:
        assert line in told


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        (["--seeds", "0"], "--seeds is 0"),
        (["--seeds", "many"], "--seeds"),
        (["--first-seed", "-1"], "--first-seed is -1"),
        (["--spark", "--verbose"], "leave --spark out"),
        (["--spark", "--seed", "1"], "leave --spark out"),
        (["--seed", "-1"], "--seed is -1"),
        (["--log", "log", "--seed", "1"], "leave --log out"),
        (["--simpler", "without faults"], "give its --seed"),
        (["--tcp", "--on-spark"], "two ways to run them; leave one out"),
        (["--tcp", "--paranoid"], "--paranoid is for runs in virtual time, and --tcp runs in real time"),
        (
            ["--on-spark", "--log", "log"],
            "--log is for runs in virtual time, and --on-spark",
        ),
    ],
)
def test_arguments_that_cannot_be_obeyed_are_refused(
    arguments: list[str], mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert mistake in capsys.readouterr().err.splitlines()[-1]


def test_a_step_that_is_none_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1", "--simpler", "without wings"]) == 2
    told = capsys.readouterr().err
    assert "'without wings' is no step" in told
    assert told.count("\n") == 1
