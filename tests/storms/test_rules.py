"""What storms check besides the output: each check finds what it is for, and nothing where all is right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import trio

from buffers import NetworkBufferPool
from flowcontrol import DebloatSettings
from netstack import (
    Agenda,
    AtTime,
    CutLink,
    Job,
    KillSubtask,
    RestartStrategy,
    SubtaskName,
    Transaction,
)
from netstack.tasks.time_account import Waiting
from tests.storms.case import Neighbour, ReadTrouble, StormCase, StormVertex, Work
from tests.storms.draw import draw_case
from tests.storms.one_storm import run_case
from tests.storms.operators import Broken, records_of
from tests.storms.output_rules import (
    CommitLog,
    Order,
    check_counters,
    check_end,
    check_order,
    check_storage,
    check_turns,
    orders_at,
    turns_of,
)
from tests.storms.result_rules import (
    _COUNTERS,
    _TIMES,
    Notices,
    Span,
    Times,
    _Model,
    check_coordinator,
    check_delays,
    check_figures,
    check_heartbeats,
    check_subsumed,
    check_tolerance,
    check_uploads,
)
from tests.storms.scenario import scenario_of
from tests.storms.small_cases import case_of, vertex
from tests.storms.step_rules import CheckedDebloating, PoolRules, check_machines, check_mail, check_shrunk
from tests.storms.storage import StateWitness, TroubledMemory, storage_of, stored_in

SOURCE = vertex("source0", Work.SOURCE, 2, records=(60,), rates=(100.0,), keys=5)
SUM = vertex("sum", Work.SUM, 2)
SINK = vertex("sink", Work.SINK, 2)
CASE = case_of(
    SOURCE,
    SUM,
    SINK,
    edges=(("source0", "sum", "hash"), ("sum", "sink", "rebalance")),
    checkpoint_interval_s=0.05,
    retained_checkpoints=3,
    state_memory_threshold_bytes=0,
    checkpoint_min_pause_s=0.01,
    restart_strategy=RestartStrategy.FIXED_DELAY,
    restart_attempts=9,
    restart_delay_s=0.05,
    heartbeat_timeout_s=0.1,
)


STRAIGHT = case_of(SOURCE, SINK, edges=(("source0", "sink", "rebalance"),), checkpoint_interval_s=0.05)


@dataclass
class Run:
    """A job that has run, and what it has left."""

    job: Job
    storage: TroubledMemory
    log: CommitLog = field(default_factory=CommitLog)


def run(case: StormCase, tmp_path: Any) -> Run:
    agenda, log = Agenda(), CommitLog()
    storage = storage_of(case, tmp_path)
    assert isinstance(storage, TroubledMemory)
    witness = StateWitness(lambda: agenda.now, storage, None)
    job = Job(scenario_of(case, log.commit, witness, tmp_path), agenda, storage=storage)
    trio.run(job.run)
    return Run(job, storage, log)


def heads_with(run: Run, **changes: Iterable[tuple[int, Any]]) -> None:
    """Change fields of the recorded checkpoints, by their place."""
    heads = run.job.recorder.checkpoints
    for name, values in changes.items():
        for place, value in values:
            heads[place] = heads[place]._replace(**{name: value})


def test_a_run_that_is_right_breaks_no_rule(tmp_path: Any) -> None:
    right = run(CASE, tmp_path)
    assert len(right.job.recorder.checkpoints) > 8
    assert list(check_coordinator(CASE, right.job)) == []
    assert list(check_storage(right.job, right.storage, stored_in(right.storage))) == []
    assert list(check_counters(CASE, right.job)) == []
    assert run_case(CASE, paranoid=True).problems == ()


def test_triggers_come_when_they_are_due(tmp_path: Any) -> None:
    late = run(CASE, tmp_path)
    third = late.job.recorder.checkpoints[2]
    heads_with(late, triggered_at=[(2, third.triggered_at + 0.004)])
    told = list(check_coordinator(CASE, late.job))
    assert len(told) == 2
    assert told[0].startswith("checkpoint 3 was triggered at")
    assert "and the next one was due at" in told[0]
    assert told[1] == f"no checkpoint was triggered at {third.triggered_at:.6f} s, when one was due"


def test_a_request_of_a_user_is_answered(tmp_path: Any) -> None:
    asked = replace(
        CASE,
        manual_checkpoints_s=(0.2,),
        config=replace(CASE.config, checkpoint_interval_s=None),
    )
    assert list(check_coordinator(asked, run(asked, tmp_path).job)) == []
    ignored = run(replace(asked, manual_checkpoints_s=()), tmp_path).job
    assert list(check_coordinator(asked, ignored)) == [
        "no checkpoint was triggered at 0.200000 s, when one a user has asked for"
    ]


def test_checkpoints_are_counted_and_do_not_outlast_their_time(tmp_path: Any) -> None:
    lost = run(CASE, tmp_path)
    del lost.job.recorder.checkpoints[1]
    assert "are recorded" in next(check_coordinator(CASE, lost.job))
    long = run(CASE, tmp_path)
    hasty = replace(CASE, config=replace(CASE.config, checkpoint_timeout_s=0.001))
    assert "its time was over at" in next(check_coordinator(hasty, long.job))
    expired = run(CASE, tmp_path)
    heads_with(expired, failure=[(0, "CHECKPOINT_EXPIRED")])
    assert next(check_coordinator(CASE, expired.job)).startswith("checkpoint 1 expired at")


def test_no_more_go_on_at_once_than_may(tmp_path: Any) -> None:
    both = run(CASE, tmp_path)
    second = both.job.recorder.checkpoints[1]
    heads_with(both, ended_at=[(0, second.triggered_at + 0.001)])
    assert "checkpoint 2 began beside 1 others, and 1 may go on at once" in list(
        check_coordinator(CASE, both.job)
    )


def test_as_many_requests_are_granted_after_several_ends_at_once_as_may_go_on() -> None:
    config = replace(
        CASE.config, checkpoint_interval_s=None, checkpoint_min_pause_s=0.0, max_concurrent_checkpoints=3
    )
    begins = {0.1: 0.5, 0.11: 0.5, 0.12: 0.5}, {0.502: 0.6}, {0.502: 0.7}, {0.502: 0.7}, {0.602: 0.8}
    spans = [span for group in begins for span in group.items()]
    begun = [Times(number, begin, end, None, False) for number, (begin, end) in enumerate(spans, 1)]
    model = _Model(replace(CASE, config=config), Span(0.0, 1.0), [])
    asked = [0.1, 0.11, 0.12, 0.3, 0.31, 0.32, 0.33]
    model.follow(sorted(end for _, end in spans), asked, begun, 1.0)
    assert (model.problems, model.missing) == ([], [])


def test_what_follows_the_end_of_a_checkpoint_is_looked_at(tmp_path: Any) -> None:
    right = run(CASE, tmp_path)
    ends = [*check_subsumed(right.job), *check_tolerance(right.job, Notices()), *check_uploads(right.job)]
    assert ends == []
    assert "no task was told that checkpoint 1 was completed" in list(Notices().check(right.job))
    heads = right.job.recorder.checkpoints
    heads_with(right, ended_at=[(0, heads[1].ended_at + 0.01)])  # type: ignore[operator]
    assert "when checkpoint 2 was complete" in next(check_subsumed(right.job))
    heads_with(right, failure=[(3, "CHECKPOINT_DECLINED")], status=[(3, "FAILED")])
    assert "more in a row than 0, and the job went on" in next(check_tolerance(right.job, Notices()))
    fast = replace(right.job.scenario.costs, upload_rate_bytes_per_s=1.0)
    right.job.scenario = replace(right.job.scenario, costs=fast)
    assert "bytes in" in next(check_uploads(right.job))


def test_a_job_may_fail_for_good_when_no_checkpoint_can_be_read_in_time(tmp_path: Any) -> None:
    failed = run(CASE, tmp_path).job
    damaged = replace(CASE, trouble=(ReadTrouble(number=1, damaged=True),))
    why = "checkpoint 4 cannot be restored: a file is damaged, as the storm will have it"
    failed.failure = f"{why}; the run ended before an older checkpoint was tried"
    assert list(check_end(damaged, failed, False)) == []
    failed.failure = why
    assert "failed for good after 0 restarts" in next(check_end(damaged, failed, False))


def test_a_job_whose_tasks_have_all_ended_has_nothing_left_to_fail(tmp_path: Any) -> None:
    over = run(CASE, tmp_path)
    at, last = over.job.agenda.now - 0.01, len(over.job.recorder.checkpoints) - 1
    failed: dict[str, Any] = {"failure": "FINALIZE_CHECKPOINT_FAILURE", "status": "FAILED", "ended_at": at}
    heads_with(over, **{name: [(last, value)] for name, value in failed.items()})
    assert list(check_tolerance(over.job, Notices())) == []
    told = Notices()
    told.listen(over.job)
    over.job.agenda.now = at
    over.job.coordinator.control_plane.interference[0]("aborted", (0, 0))
    over.job.agenda.now = at + 0.01
    assert "and the job went on" in next(check_tolerance(over.job, told))


@pytest.mark.parametrize(
    ("figure", "changes", "told"),
    [
        ("busy_s", (0.0, 0.0, 0.0), ""),
        ("records_in", (0.0, 9.0, 0.0), "records_in of sum goes back"),
        ("idle_s", (0.0, -0.9, 0.0), "sum was busy, held up or idle for 0.900000 s more than there were"),
    ],
)
def test_figures_do_not_go_back_and_a_task_has_no_more_time_than_passes(
    figure: str, changes: tuple[float, ...], told: str
) -> None:
    """Also not within the run, where the sum of all times is right again at its end."""
    times = np.array([0.0, 1.0, 2.0])

    def samples_of(number: int) -> dict[str, Any]:
        idle = {name: np.zeros((2, 3)) for name in (*_COUNTERS, *_TIMES)} | {"idle_s": np.tile(times, (2, 1))}
        idle[figure] = idle[figure] + (np.array(changes) if CASE.vertices[number] is SUM else 0.0)
        return idle

    job: Any = SimpleNamespace(recorder=SimpleNamespace(times=times, samples_of=samples_of))
    assert "".join(check_figures(CASE, job)) == told


CUT = CutLink(when=AtTime(0.3), from_task_manager="source0", to_task_manager="sum", for_s=0.25)


def test_a_cut_link_fails_the_job_after_the_timeout(tmp_path: Any) -> None:
    cut = replace(CASE, faults=(CUT,))
    failed = run(cut, tmp_path).job
    assert [restart.failed_at for restart in failed.restarts] == pytest.approx([0.4])
    assert list(check_heartbeats(cut, failed)) == []
    assert list(check_delays(cut, failed)) == []
    failed.restarts[0].failed_at += 0.01
    assert len(list(check_heartbeats(cut, failed))) == 2
    assert list(check_delays(cut, failed)) == [
        "restart 1 came after 0.128000 s, and fixed-delay says 0.05 s and deployment"
    ]
    survived = run(replace(cut, config=replace(CASE.config, heartbeat_timeout_s=9.0)), tmp_path).job
    (problem,) = check_heartbeats(cut, survived)
    assert problem == f"{CUT}, and no heartbeat came for 0.1 s: no failure at 0.400000 s"


def test_a_link_need_not_fail_where_a_task_may_have_been_the_last_one() -> None:
    """The sources have ended, and one sink hears late that the last checkpoint is complete."""
    case = draw_case(556639)
    outcome = run_case(case)
    assert (outcome.end, outcome.problems) == ("ended", ())
    told_at_once = replace(case, faults=tuple(each for each in case.faults if isinstance(each, CutLink)))
    assert run_case(told_at_once).problems == ()


def test_retention_is_to_the_number_and_nothing_is_left_over(tmp_path: Any) -> None:
    kept = run(CASE, tmp_path)
    stored = stored_in(kept.storage)
    complete = kept.storage.checkpoints()
    assert len(complete) == 3
    over = [*stored, "chk-1/source0-0-operator"]
    assert list(check_storage(kept.job, kept.storage, over)) == [
        "chk-1/source0-0-operator is left behind, and no checkpoint needs it"
    ]
    kept.storage.discard(complete[0])
    assert list(check_storage(kept.job, kept.storage, stored_in(kept.storage))) == [
        f"checkpoints {complete[1:]} are stored, and of 3 to be retained {complete} should be"
    ]


def test_counters_are_held_against_what_went_through(tmp_path: Any) -> None:
    job = run(CASE, tmp_path).job
    more = replace(CASE, vertices=(replace(SOURCE, records=(61,)), SUM, SINK))
    told = list(check_counters(more, job))
    assert told[0] == "source0 has counted 120 records_out, and 122 were there"
    assert any(problem.startswith("sum has counted 120 records_in") for problem in told)


def orders(*ships: str, parallelisms: tuple[int, ...], work: Work = Work.MARK) -> list[Order]:
    names = ["source0", *(f"step{n}" for n in range(len(ships) - 1)), "sink"]
    works = [Work.SOURCE, *[work] * (len(ships) - 1), Work.SINK]
    vertices = [vertex(*each) for each in zip(names, works, parallelisms, strict=True)]
    edges = tuple(zip(names, names[1:], ships, strict=False))
    return list(orders_at(case_of(*vertices, edges=edges, checkpoint_interval_s=0.05), vertices[0]).values())[
        1:
    ]


@pytest.mark.parametrize(
    ("ships", "parallelisms", "expected"),
    [
        (("forward", "rebalance"), (3, 3, 2), [Order.ALL, Order.ALL]),
        (("rebalance", "hash"), (1, 2, 3), [Order.ALL, Order.NONE]),
        (("hash", "hash"), (2, 3, 2), [Order.ALL, Order.OF_KEYS]),
        (("hash", "rebalance", "hash"), (2, 3, 2, 2), [Order.ALL, Order.OF_KEYS, Order.NONE]),
        (("rebalance", "rebalance"), (2, 1, 4), [Order.ALL, Order.ALL]),
        (("rescale", "forward"), (4, 2, 2), [Order.ALL, Order.ALL]),
        (("rescale", "hash"), (2, 4, 2), [Order.ALL, Order.NONE]),
    ],
)
def test_what_has_to_be_in_order_follows_from_the_way(
    ships: tuple[str, ...], parallelisms: tuple[int, ...], expected: list[Order]
) -> None:
    assert orders(*ships, parallelisms=parallelisms) == expected


def test_sums_have_no_order_and_lists_that_of_keys() -> None:
    both = {"parallelisms": (1, 1, 1)}
    assert orders("hash", "forward", work=Work.SUM, **both) == [Order.NONE, Order.NONE]
    assert orders("hash", "forward", work=Work.GATHER, **both) == [Order.OF_KEYS, Order.OF_KEYS]


def test_records_out_of_order_are_found_within_and_between_transactions() -> None:
    own = records_of(STRAIGHT, SOURCE, 0)[:4]
    sealed = [Transaction("sink", 0, number, (own[number], own[number + 1])) for number in (0, 2)]
    last = Transaction("sink", 0, 0, (own[2], own[3]))
    assert list(check_order(STRAIGHT, sealed[1:] + sealed[:1], 1)) == [
        "out of order in sink[0]: record 0 of source0[0] behind 3"
    ]
    assert list(check_order(STRAIGHT, [Transaction("sink", 0, 1, tuple(own[:2])), last], 0)) == []
    turned = [Transaction("sink", 0, 1, tuple(reversed(own)))]
    assert len(list(check_order(STRAIGHT, turned, 0))) == 1
    elsewhere = [sealed[0], sealed[1]._replace(subtask=1)]
    assert list(check_order(STRAIGHT, elsewhere, 0)) == []


def test_records_that_are_dealt_out_come_in_turns() -> None:
    own = records_of(STRAIGHT, SOURCE, 0)[:5]
    assert turns_of(STRAIGHT, SOURCE) == 2
    assert list(check_turns(STRAIGHT, [Transaction("sink", 1, 1, tuple(own[1::2]))])) == []
    assert list(check_turns(STRAIGHT, [Transaction("sink", 1, 1, (own[1], own[2]))])) == [
        "sink[1] has records [1, 2] of source0[0], which deals out to 2 in turns"
    ]
    assert turns_of(CASE, SOURCE) == 0


@pytest.mark.parametrize(
    ("subtasks", "ship", "others", "turns"),
    [
        (1, "rebalance", (), 2),
        (2, "forward", (), 2),
        (2, "rebalance", (), 0),  # two subtasks of the source come together before they are dealt out
        (1, "rebalance", (vertex("source1", Work.SOURCE, records=(9,)),), 0),
    ],
)
def test_turns_are_those_of_what_comes_alone(
    subtasks: int, ship: str, others: tuple[StormVertex, ...], turns: int
) -> None:
    source, behind = replace(SOURCE, parallelism=subtasks), subtasks if ship == "forward" else 1
    joined = case_of(
        source,
        *others,
        vertex("step0", Work.PASS, behind),
        SINK,
        edges=(
            *((each.name, "step0", ship) for each in (source, *others)),
            ("step0", "sink", "rebalance"),
        ),
        checkpoint_interval_s=0.05,
    )
    assert turns_of(joined, source) == turns


class OneBuffer:
    """A channel as debloating sees it."""

    buffers_in_use = 1


def test_debloating_is_followed_byte_by_byte_while_it_grows() -> None:
    settings = DebloatSettings(
        target_s=0.05, max_size=4096, min_size=64, starting_size=64, threshold_percent=0, samples=1
    )
    checked = CheckedDebloating(settings)
    for throughput in (1499, *[34_000] * 6):
        checked.recalculate(throughput, [OneBuffer()], 0.0)
    assert checked.last_announced == 1700


def test_a_pool_that_gives_back_too_much_is_found() -> None:
    memory = NetworkBufferPool(10, 64)
    pool = memory.create_pool(8, 2, 8)
    for _ in range(3):
        segment = pool.request()
        assert segment is not None
        pool.recycle(segment)
    before = {pool: pool.requested}
    check_shrunk("tm", before)
    pool.requested -= 1
    with pytest.raises(Broken, match="keeps"):
        check_shrunk("tm", before)


def test_a_pool_that_keeps_more_than_its_size_is_found() -> None:
    memory = NetworkBufferPool(10, 64)
    rules = PoolRules()
    pool = memory.create_pool(8, 2, 8)
    held = [pool.request() for _ in range(6)]
    rules.check("tm", memory)
    other = memory.create_pool(6, 6, 6)
    rules.check("tm", memory)  # it has shrunk, and may keep what is in use
    assert (pool.size, pool.requested) == (4, 6)
    pool.size += 1
    with pytest.raises(Broken, match=r"tm has 10 segments, 0 of them exclusive, for pools of 11"):
        rules.check("tm", memory)
    pool.size = 4
    for segment in held:
        assert segment is not None
        pool.recycle(segment)
    rules.check("tm", memory)
    pool.requested += 1
    other.lazy_destroy()
    with pytest.raises(Broken, match="segments, and"):
        rules.check("tm", memory)


def test_segments_are_owed_only_to_tasks_that_were_built_anew() -> None:
    memory = NetworkBufferPool(10, 64)
    pool, other = memory.create_pool(8, 2, 8), memory.create_pool(2, 2, 2)
    held = [pool.request() for _ in range(8)]
    rules = PoolRules()
    rules.check("tm", memory)
    memory.reserve_unpooled(4, owed=True)
    with pytest.raises(Broken, match="tm has lent 13 segments"):
        rules.check("tm", memory)
    rules.check("tm", memory, may_owe=True)
    assert held[0] is not None
    pool.recycle(held[0])
    rules.check("tm", memory, may_owe=True)
    assert memory.owed == 2
    other.requested += 1
    with pytest.raises(Broken, match="what is owed to others"):
        rules.check("tm", memory, may_owe=True)


def test_neighbours_take_memory_and_give_it_back() -> None:
    neighbours = tuple(
        Neighbour(task_manager=name, comes_at_s=at, stays_s=stays, segments=4)
        for name, at, stays in (("sum", 0.1, 0.2), ("source0", 0.2, 100.0), ("nowhere", 0.1, 0.1))
    )
    kill = KillSubtask(when=AtTime(0.25), subtask=SubtaskName("sum", 0))
    pressed = replace(CASE, neighbours=neighbours, faults=(kill,))
    outcome = run_case(pressed, paranoid=True)
    assert (outcome.problems, outcome.restarts, outcome.end) == ((), 1, "ended")
    assert run_case(replace(pressed, neighbours=())).output == outcome.output


class Part:
    """Whose state it is, as far as a witness asks."""

    vertex = "sum"
    subtask = 0


def test_a_witness_compares_what_is_stored_with_what_was_kept(tmp_path: Any) -> None:
    left = run(CASE, tmp_path)
    number = left.storage.checkpoints()[-1]
    witness = StateWitness(lambda: 1.2345, left.storage, None)
    assert witness.now_ms == 1234
    part = cast(Any, Part())
    witness.barrier(part, number, {b"\0\0": 1})
    with pytest.raises(Broken, match=rf"checkpoint {number} of sum\[0\]: of key .* was kept at the barrier"):
        witness.completed(part, number)
    witness.completed(part, number)  # it is looked at once
    witness.barrier(part, 1, {b"\0\0": 1})
    witness.completed(part, 1)  # that is gone


@pytest.mark.parametrize(("timeout_s", "stands"), [(0.0, False), (0.01, True)])
def test_a_job_that_may_stand_still_is_not_held_to_its_end(timeout_s: float, stands: bool) -> None:
    step = vertex("step", Work.PASS, 2)
    edges = (("source0", "step", "forward"), ("step", "sum", "hash"), ("sum", "sink", "rescale"))
    case = case_of(
        SOURCE,
        step,
        replace(SUM, parallelism=4),
        SINK,
        edges=edges,
        checkpoint_interval_s=0.05,
        unaligned_enabled=True,
        aligned_checkpoint_timeout_s=timeout_s,
    )
    sizes = {each.name: each.parallelism for each in case.vertices}
    assert case.may_stand_still(sizes) is stands, "two subtasks of sum write to one of sink"
    assert not case.may_stand_still(sizes | {"sink": 4})
    aligned = replace(case, config=replace(case.config, unaligned_enabled=False))
    assert not aligned.may_stand_still(sizes)


def test_a_task_that_waits_has_no_mail() -> None:
    task = SimpleNamespace(mail=[], outputs=[SimpleNamespace(partition=SimpleNamespace(blocked=False))])
    task.times, task._waiter = SimpleNamespace(state=Waiting.INPUT), SimpleNamespace(_routine=object())
    attempt = SimpleNamespace(subtasks=[task])
    check_mail(attempt)
    task.mail.append(print)
    with pytest.raises(Broken, match="waits for input, and has mail"):
        check_mail(attempt)
    task.outputs[0].partition.blocked = True  # it waits within a record
    check_mail(attempt)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda gate, queue, pool: gate._ready.append(gate.channels[0]), "stands (0, 1) times in its lines"),
        (lambda gate, queue, pool: setattr(gate.channels[0], "queued", True), "and says (0, 1)"),
        (lambda gate, queue, pool: setattr(queue, "data_buffers", 9), "counts 9 data buffers of"),
        (lambda gate, queue, pool: pool._free.extend(pool._free[:1]), "different ones"),
    ],
)
def test_machines_are_held_to_their_word(wrong: Any, problem: str, tmp_path: Any) -> None:
    agenda, found = Agenda(), list[str]()
    storage = storage_of(CASE, tmp_path)
    witness = StateWitness(lambda: agenda.now, storage, None)
    job = Job(scenario_of(CASE, CommitLog().commit, witness, tmp_path), agenda, storage=storage)

    def spoil() -> None:
        assert job.attempt is not None
        check_machines(job.attempt)
        (gate,) = job.attempt.builder.subtasks[1][0].gates  # type: ignore[attr-defined]
        queue = job.attempt.builder.subtasks[0][0].outputs[0].partition.subpartitions[0]
        (pool, *_) = job.attempt.builder.pools["source0"].pools
        assert not gate.channels[0].queued
        assert pool.free
        wrong(gate, queue, pool)
        with pytest.raises(Broken) as broken:
            check_machines(job.attempt)
        found.append(str(broken.value))
        agenda.stop()

    agenda.keep(0.4321, spoil)
    trio.run(job.run)
    assert problem in found[0]
