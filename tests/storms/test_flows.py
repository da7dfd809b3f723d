"""What storms expect where a share of the records goes on: its bounds, and when a number is exact."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffers import RecordBlock
from netstack import (
    AtTime,
    ChangelogStorage,
    CheckpointMode,
    CutLink,
    KillSubtask,
    RestartStrategy,
    SubtaskName,
    Transaction,
)
from netstack.engine.randomness import numbers_of
from netstack.jobs.restarts import Restart
from netstack.tasks.synthetic_output import Emission
from tests.storms.case import Continuation, StormCase, Work
from tests.storms.expected import Lives, Run, at_least, by_chance, expected_output, flows_of, in_turns
from tests.storms.one_storm import run_case
from tests.storms.operators import records_of
from tests.storms.output_rules import CommitLog, check_output
from tests.storms.small_cases import case_of, vertex

TWO_FIFTHS = Fraction(2, 5)

BACK: dict[str, Any] = {
    "checkpoint_interval_s": 0.03,
    "restart_strategy": RestartStrategy.FIXED_DELAY,
    "restart_attempts": 9,
    "restart_delay_s": 0.0,
}
"""Options of jobs that come back."""


def back(checkpoint_id: int | None, *tasks: str) -> Restart:
    restart = Restart(0.1, "a fault", tasks)
    restart.restarted_at, restart.checkpoint_id = 0.2, checkpoint_id
    return restart


def lives(case: StormCase, *restarts: Restart) -> Lives:
    parallelism = {each.name: each.parallelism for each in case.vertices}
    return Lives(runs=(Run(parallelism=parallelism, restarts=restarts),))


SOURCE = vertex("source0", Work.SOURCE, 2, records=(23, 9), keys=5, rates=(200.0,))
SIDE = case_of(
    SOURCE,
    vertex("mark", Work.MARK, 2),
    vertex("sink", Work.SINK),
    edges=(("source0", "mark", "rebalance"), ("mark", "sink", "rebalance"), ("source0", "sink", "rebalance")),
    **BACK,
    fractions=[("source0", "sink", TWO_FIFTHS)],
)
HALVED = case_of(
    SOURCE,
    vertex("emit", Work.EMIT, 2, selectivity=Fraction(3, 2)),
    vertex("sink", Work.SINK),
    edges=(("source0", "emit", "rebalance"), ("emit", "sink", "rebalance")),
    **BACK,
)


@given(st.fractions(Fraction(1, 9), 1, max_denominator=9), st.lists(st.integers(0, 40), min_size=1))
def test_the_bounds_are_those_of_turns_that_begin_anew(share: Fraction, parts: list[int]) -> None:
    goes = sum(len(list(in_turns([b""] * part, share))) for part in parts)
    assert at_least(share, sum(parts), len(parts)) <= goes <= share * sum(parts)


@given(st.fractions(Fraction(1, 9), 1, max_denominator=9), st.integers(1, 9))
def test_no_bound_could_be_tighter(share: Fraction, lives: int) -> None:
    """In the worst case each life leaves off just before a record would go."""
    ends = [n for n in range(1, 2 * share.denominator) if share * n % 1 == 1 - Fraction(1, share.denominator)]
    records = (ends[0] if share < 1 else 1) * lives
    goes = lives * len(list(in_turns([b""] * (records // lives), share)))
    assert at_least(share, records, lives) == goes


def test_of_a_job_that_never_failed_each_record_that_goes_over_an_edge_is_known() -> None:
    sent = flows_of(SIDE)["source0"].sent["sink"]
    own = [records_of(SIDE, SOURCE, subtask) for subtask in range(2)]
    assert sent.is_exact
    assert sent.most == Counter(own[0][2::5] + own[0][4::5] + own[1][2::5] + own[1][4::5])
    assert expected_output(SIDE)["sink"].low == 32 + 9 + 3


def test_each_life_of_a_producer_may_leave_a_part_of_a_record() -> None:
    sent = flows_of(SIDE, lives(SIDE, back(3)))["source0"].sent["sink"]
    assert (sent.low, sent.high) == (10, 12)  # 12.8 - 4 * 4/5, and 9.2 and 3.6 without their parts
    assert (sent.least.total(), sent.most.total()) == (0, 32)
    same_again = flows_of(SIDE, lives(SIDE, back(3), back(3)))["source0"].sent["sink"]
    assert same_again == sent
    one_more = flows_of(SIDE, lives(SIDE, back(3), back(4, "source0[1]", "mark"), back(5, "sink")))
    assert one_more["source0"].sent["sink"].low == 9


def test_a_selectivity_leaves_a_part_of_a_record_in_each_subtask_however_often_it_comes_back() -> None:
    for known in (None, lives(HALVED), lives(HALVED, back(1), back(2), back(3))):
        written = flows_of(HALVED, known)["emit"].written
        assert (written.low, written.high) == (47, 48)
        assert set(written.least.values()) == {1}
        assert set(written.most.values()) == {2}


@pytest.mark.parametrize(("ship", "number"), [("forward", 34 + 13), ("broadcast", 2 * 48), ("hash", None)])
def test_it_is_exact_where_it_is_known_who_reads_how_many(ship: str, number: int | None) -> None:
    written = flows_of(replace(HALVED, edges=(("source0", "emit", ship), HALVED.edges[1])))["emit"].written
    assert written.low == written.high
    assert number is None or written.low == number


DRAWN = replace(HALVED, vertices=(SOURCE, replace(HALVED.vertex("emit"), at_random=True), HALVED.vertices[2]))


@given(st.fractions(0, 3, max_denominator=9), st.integers(0, 2000), st.integers(0, 99))
def test_what_comes_by_chance_is_within_its_bounds(share: Fraction, records: int, seed: int) -> None:
    emission = Emission(float(share), chance=numbers_of(seed))
    emitted = len(emission.process(RecordBlock.blank(records, 8)))
    low, high = by_chance(share, records, 1)
    assert floor(share) * records <= low <= emitted <= high <= ceil(share) * records


def test_bounds_of_chance_say_something_of_many_records() -> None:
    low, high = by_chance(Fraction(1, 2), 2000, 1)
    assert (low, high) == (805, 1195)
    assert by_chance(Fraction(1, 2), 9, 1) == (0, 9)
    assert by_chance(Fraction(1, 2), 2000, 2)[0] < low


def test_by_chance_each_record_gives_the_number_below_or_above() -> None:
    written = flows_of(DRAWN)["emit"].written
    assert (written.low, written.high) == (32, 64)
    assert (set(written.least.values()), set(written.most.values())) == ({1}, {2})


def test_at_another_parallelism_what_several_have_kept_comes_to_one() -> None:
    runs = lives(HALVED).runs
    fewer = Run(parallelism={"source0": 2, "emit": 1, "sink": 1}, restarts=(), began_with=7)
    written = flows_of(HALVED, Lives(runs=(*runs, fewer)))["emit"].written
    assert (written.low, written.high) == (47, 48)
    assert set(written.most.values()) == {2}
    assert Lives(runs=(*runs, fewer)).of("source0") == 4
    nothing_done = replace(runs[0], restarts=[back(7)])
    assert Lives(runs=(nothing_done, fewer)).of("source0") == 4
    assert Lives(runs=(nothing_done, fewer)).of("emit") == 3


def told(case: StormCase, number: int, *restarts: Restart) -> list[str]:
    """What is said of so many records of the first ones that may be there."""
    log = CommitLog()
    amount = expected_output(case, lives(case, *restarts))["sink"]
    records = [*amount.least.elements(), *(amount.most - amount.least).elements()][:number]
    log.commit(Transaction("sink", 0, 1, tuple(records)))
    return list(check_output(case, log, True, lives(case, *restarts)))


def test_more_or_fewer_than_turns_let_through_are_found() -> None:
    assert told(HALVED, 47, back(1)) == told(HALVED, 48, back(1)) == []
    assert told(HALVED, 49, back(1)) == ["sink has put out 49 records, and its shares allow 48 at most"]
    assert told(HALVED, 46, back(1)) == ["sink has put out 46 records, and its shares allow 47 at least"]
    twice = replace(HALVED, config=replace(HALVED.config, checkpoint_mode=CheckpointMode.AT_LEAST_ONCE))
    assert told(twice, 49, back(1)) == []
    assert told(twice, 46, back(1)) == ["sink has put out 46 records, and its shares allow 47 at least"]


@pytest.mark.parametrize("case", [SIDE, HALVED, DRAWN], ids=["fraction", "selectivity", "at random"])
@pytest.mark.parametrize("faults", [(), (0.05,), (0.05, 0.17)], ids=len)
def test_a_job_keeps_within_its_bounds(case: StormCase, faults: tuple[float, ...]) -> None:
    kills = tuple(KillSubtask(when=AtTime(at), subtask=SubtaskName("source0", 0)) for at in faults)
    outcome = run_case(replace(case, faults=kills))
    assert (outcome.problems, outcome.end, outcome.restarts) == ((), "ended", len(faults))


def test_files_of_a_checkpoint_whose_barriers_wait_in_outputs_go_with_the_run() -> None:
    """A barrier that goes with its connection is not sent, so nothing is acknowledged behind the end."""
    case = case_of(
        vertex("source0", Work.SOURCE, records=(200,), rates=(600.0,)),
        vertex("step0", Work.GATHER),
        vertex("sink", Work.SINK, 2),
        edges=(
            ("source0", "step0", "hash"),
            ("step0", "sink", "rebalance"),
            ("source0", "sink", "rebalance"),
        ),
        **BACK,
    )
    config = replace(
        case.config,
        checkpoint_interval_s=0.0163591,
        unaligned_enabled=True,
        aligned_checkpoint_timeout_s=0.3,
        changelog_enabled=True,
        changelog_storage=ChangelogStorage.FILESYSTEM,
        state_memory_threshold_bytes=0,
    )
    cut = CutLink(when=AtTime(0.02), from_task_manager="step0", to_task_manager="sink", for_s=0.3)
    stopped = Continuation(stopped_at_s=0.0548, parallelism=(1, 1, 2), killed=True)
    outcome = run_case(replace(case, config=config, faults=(cut,), continuation=stopped))
    assert outcome.problems == ()
    assert outcome.checkpoints["IN_PROGRESS"] >= 1
