import msgspec
import pytest

from integration.show.terminal.sentences import (
    are_plain,
    checkpoints_by_end,
    down_times,
    incidents,
    never_fired,
    price,
    restore_ms,
    what_went_wrong,
)
from netstack import CheckpointResult, FaultResult, RestartResult
from tests.integration.sample_results import (
    MIB,
    sample_result,
    unaligned_result,
    with_document,
    with_flink,
)


def changed(result, **fields):
    return msgspec.structs.replace(result, **fields)


def test_incidents_are_told_in_their_order():
    assert [(each.t, each.what, each.text) for each in incidents(unaligned_result())] == [
        (9.0, "kill subtask", "subtask consumer[1] is killed"),
        (9.0, "failure", "restored checkpoint 4 (3.00 MiB in 500 ms), down for 2.00 s"),
        (13.0, "fill storage", "the checkpoint storage is full"),
    ]
    assert incidents(sample_result(debloated=True)) == []


def with_savepoint(location, scenario, flink):
    """A run with a savepoint at a location, with these keys in its scenario and these options of Flink."""
    result = sample_result(debloated=True, checkpoints=False)
    taken = CheckpointResult(id=1, t=5.0, duration_ms=20.0, savepoint=location)
    return with_flink(changed(with_document(result, scenario), checkpoints=[taken]), flink)


@pytest.mark.parametrize(
    ("location", "scenario", "flink", "shown"),
    [
        ("{here}/sp/savepoint-1", {"savepoints_at": ["5 s"]}, {"savepoint-dir": "sp"}, "sp/savepoint-1"),
        ("{here}/sp/savepoint-1", {"savepoints_at": [{"at": "5 s", "directory": "./sp"}]},
         {"savepoint-dir": "other"}, "./sp/savepoint-1"),
        ("{here}/sp/savepoint-1", {}, {"savepoint-dir": "{here}/sp"}, "{here}/sp/savepoint-1"),
        ("/elsewhere/sp/savepoint-1", {}, {"savepoint-dir": "sp"}, "/elsewhere/sp/savepoint-1"),
        ("s3://bucket/sp/savepoint-1", {}, {"savepoint-dir": "s3://bucket/sp"}, "s3://bucket/sp/savepoint-1"),
        ("savepoint-1", {}, {"dir": "cp"}, "cp/savepoint-1"),
    ],
)  # fmt: skip
def test_the_path_of_a_savepoint_is_as_the_scenario_gives_it(
    tmp_path, monkeypatch, location, scenario, flink, shown
):
    monkeypatch.chdir(tmp_path)
    options = {f"execution.checkpointing.{key}": value.format(here=tmp_path) for key, value in flink.items()}

    (incident,) = incidents(with_savepoint(location.format(here=tmp_path), scenario, options))

    assert incident.text == f"0 B in 20 ms: {shown.format(here=tmp_path)}"


def test_changes_are_listed_with_the_steps_of_service_times():
    document = {
        "vertices": [
            {"name": "flights", "parallelism": 4, "source": {"record_bytes": 100, "rate": 100}},
            {
                "name": "consumer",
                "parallelism": 4,
                "service": [{"at": f"{at} s", "cost": f"{at + 1} ms"} for at in (0, 3, 12)],
            },
        ],
        "changes": [
            {"at": "10 s", "vertex": "consumer", "service": "5 ms"},
            {"at": "2 s", "vertex": "flights", "rate": 300},
            {"at": "16 s", "flink": {"execution.checkpointing.unaligned.enabled": True}},
        ],
    }
    result = with_document(sample_result(debloated=True), document)

    # The change at 10 s replaces the step at 12 s.
    assert [(each.t, each.what, each.text) for each in incidents(result)] == [
        (2.0, "change", "flights: rate is 300"),
        (3.0, "change", "consumer: service is 4 ms"),
        (10.0, "change", "consumer: service is 5 ms"),
        (16.0, "change", "execution.checkpointing.unaligned.enabled is true"),
    ]
    failed = incidents(changed(result, emulated_seconds=8.0, failure="no more"))
    assert [each.t for each in failed] == [2.0, 3.0, 8.0]


@pytest.mark.parametrize(
    ("restart", "text"),
    [
        (RestartResult(failed_at=5.0, cause="c"), "c; not restarted before the end"),
        (
            RestartResult(failed_at=5.0, cause="c", restarted_at=6.0),
            "c; restarted from the beginning, since no checkpoint was complete, but was not running "
            "again before the next failure or the end",
        ),
        (
            RestartResult(failed_at=5.0, cause="c", restarted_at=6.0, running_at=6.0, checkpoint_id=3),
            "c; restored checkpoint 3 (0 B), down for 1.00 s",
        ),
        (
            RestartResult(failed_at=5.0, cause="c", restarted_at=6.0, running_at=6.0, tasks=["a[0]", "b"]),
            "c; a[0], b alone: restarted from the beginning, since no checkpoint was complete, down for "
            "1.00 s",
        ),
    ],
)
def test_a_failure_that_no_fault_explains_has_its_cause(restart, text):
    (incident,) = incidents(changed(unaligned_result(), faults=[], restarts=[restart]))

    assert (incident.what, incident.text) == ("failure", text)


def killed(t):
    return FaultResult(t=t, kind="kill_subtask", what="s[0] is killed")


def test_a_kill_while_the_job_is_down_is_said_to_have_met_nobody():
    restarts = [
        RestartResult(failed_at=2.0, cause="s[0] is killed", restarted_at=3.0, running_at=3.5),
        RestartResult(failed_at=3.25, cause="s[0] is killed", restarted_at=4.0),
        RestartResult(failed_at=8.0, cause="s[0] is killed"),
    ]
    faults = [killed(t) for t in (2.0, 2.5, 3.0, 3.25, 5.0, 8.0, 9.0)]
    told = incidents(changed(unaligned_result(), faults=faults, restarts=restarts))

    lost = {each.t for each in told if each.text == "s[0] is killed, without effect, since the job was down"}
    assert lost == {2.5, 3.0, 9.0}
    assert sum(each.text == "s[0] is killed" for each in told) == 4


@pytest.mark.parametrize(
    ("tasks", "kills", "lost"),
    [
        (["s"], ["s[0]", "s[10]", "t[0]"], ["s[0]", "s[10]"]),
        (["r", "s[0, 2]"], ["s[0]", "s[1]", "s[2]", "s[20]", "r[7]"], ["s[0]", "s[2]", "r[7]"]),
    ],
)
def test_a_kill_while_its_region_is_down_is_said_to_have_met_nobody(tasks, kills, lost):
    restart = RestartResult(failed_at=2.0, cause="c", restarted_at=4.0, tasks=tasks)
    faults = [FaultResult(t=3.0, kind="kill_subtask", what=f"subtask {name} is killed") for name in kills]
    faults.append(FaultResult(t=3.0, kind="kill_task_manager", what="task manager s is killed"))
    told = incidents(changed(unaligned_result(), faults=faults, restarts=[restart]))

    assert [each.text for each in told if "without effect" in each.text] == [
        f"subtask {name} is killed, without effect, since it was down" for name in lost
    ]


def test_the_kill_that_ends_a_job_has_its_effect():
    restart = RestartResult(failed_at=2.0, cause="s[0] is killed", restarted_at=3.0)
    result = changed(unaligned_result(), faults=[killed(2.0), killed(3.0)], restarts=[restart])

    first, _, last, _ = incidents(changed(result, failure="no more", emulated_seconds=3.0))
    assert (first.text, last.text) == ("s[0] is killed", "s[0] is killed")


def test_faults_that_never_fired_are_counted():
    result = unaligned_result()
    kill = {"kind": "kill_subtask", "at": "9 s", "vertex": "consumer", "subtask": 1}
    given = [kill, {"kind": "fill_storage", "at": "13 s"}, kill]
    some = with_document(result, {"faults": given})

    assert never_fired(result) is None
    assert never_fired(some) == "1 of 3 faults never occurred: kill_subtask"
    assert list(what_went_wrong(some))[-1] == "1 of 3 faults never occurred: kill_subtask."
    none = changed(some, faults=[])
    assert never_fired(none) == "3 of 3 faults never occurred: 2 kill_subtask, 1 fill_storage"


def test_a_checkpoint_that_does_not_end_is_worth_a_line_where_a_fault_fired():
    plain = sample_result(debloated=True)
    *ended, last = plain.checkpoints
    pending = changed(plain, checkpoints=[*ended, changed(last, status="IN_PROGRESS")])

    assert are_plain(pending)
    assert are_plain(changed(plain, faults=[killed(1.0)]))
    assert not are_plain(changed(pending, faults=[killed(1.0)]))


def test_the_end_of_a_job_is_the_last_incident():
    *_, last = incidents(changed(unaligned_result(), failure="too many restarts", emulated_seconds=17.0))

    assert (last.t, last.what, last.text) == (17.0, "end of the job", "too many restarts")


def test_a_job_is_down_until_it_runs_or_fails_again_or_the_run_ends():
    restarts = [
        RestartResult(failed_at=2.0, cause="a", restarted_at=3.0, running_at=3.5),
        RestartResult(failed_at=5.0, cause="b", restarted_at=6.0),
        RestartResult(failed_at=7.0, cause="c"),
    ]

    assert down_times(changed(unaligned_result(), restarts=restarts)) == [
        (2.0, 3.5),
        (5.0, 7.0),
        (7.0, 20.0),
    ]
    assert down_times(sample_result(debloated=True)) == []


def test_regions_are_down_until_their_own_next_failure_and_time_counts_once():
    restarts = [
        RestartResult(failed_at=2.0, cause="a", tasks=["a"], restarted_at=3.0, running_at=6.0),
        RestartResult(failed_at=4.0, cause="b", tasks=["b"], restarted_at=5.0),
        RestartResult(failed_at=5.0, cause="c", tasks=["c"], restarted_at=6.0, running_at=6.5),
        RestartResult(failed_at=7.0, cause="b", tasks=["b"], restarted_at=8.0),
        RestartResult(failed_at=8.0, cause="all", restarted_at=9.0, running_at=10.0),
    ]
    result = changed(unaligned_result(), restarts=restarts, faults=[])

    assert down_times(result) == [(2.0, 6.0), (4.0, 7.0), (5.0, 6.5), (7.0, 8.0), (8.0, 10.0)]
    assert next(what_went_wrong(result)) == (
        "Tasks failed 5 times, and the job or a part of it was down for 8.00 s, 40 % of the time."
    )


def test_what_went_wrong_is_said_in_sentences():
    result = changed(unaligned_result(), failure="no more")

    assert list(what_went_wrong(result)) == [
        "The job failed once and was down for 2.00 s, 10 % of the time.",
        "After 20.0 s it failed for good: no more.",
        "1 of 10 checkpoints failed: IO_EXCEPTION.",
    ]
    assert list(what_went_wrong(sample_result(debloated=True))) == []


def test_checkpoints_are_counted_by_type_and_by_reason():
    result = unaligned_result()
    mixed = [changed(result.checkpoints[0], checkpoint_type="CHECKPOINT"), *result.checkpoints]
    failed = changed(result.checkpoints[1], status="FAILED", failure="CHECKPOINT_EXPIRED")

    assert checkpoints_by_end(result) == (
        "8 complete (UNALIGNED_CHECKPOINT), 1 failed (IO_EXCEPTION), 1 had not ended"
    )
    assert checkpoints_by_end(changed(result, checkpoints=[*mixed, failed, failed])) == (
        "9 complete (8 UNALIGNED_CHECKPOINT, 1 CHECKPOINT), 3 failed (2 CHECKPOINT_EXPIRED, 1 "
        "IO_EXCEPTION), 1 had not ended"
    )
    assert checkpoints_by_end(sample_result(debloated=True)) == "10 complete"
    assert are_plain(sample_result(debloated=True))
    assert not are_plain(result)


def test_the_price_of_overtaking_is_what_a_restart_took():
    result = unaligned_result()

    assert price(result) == (
        "A checkpoint stored 2.00 MiB of data in flight. After a failure, to read it back and to "
        "process it took up to 500 ms."
    )
    assert restore_ms(result) == (500.0, True)


@pytest.mark.parametrize(
    ("costs", "ms"), [({}, 2.097152), ({"costs": {"download_rate": "1 MB/s"}}, 2097.152)]
)
def test_without_a_restart_the_price_is_an_estimate_and_said_to_be(costs, ms):
    result = unaligned_result(restarted=False)
    result = with_document(result, costs)

    assert restore_ms(result) == (pytest.approx(ms), False)
    assert "(an estimate: bytes divided by the download rate)" in price(result)
    assert "2.00 MiB" in price(result)


def test_a_restart_without_data_in_flight_measures_nothing():
    result = unaligned_result()
    restart = changed(result.restarts[0], persisted_bytes=0)

    assert restore_ms(changed(result, restarts=[restart])) == (pytest.approx(2 * MIB / 1e6), False)


def test_aligned_checkpoints_have_no_such_price():
    assert price(sample_result(debloated=True)) is None
