import msgspec

from integration.runs.checkpoint_times import (
    ACKNOWLEDGEMENT,
    ALIGNMENT,
    ASYNC,
    PHASES,
    START_DELAY,
    SYNC,
)
from integration.show.charts.run_charts import (
    IN_FLIGHT,
    MAX_CHECKPOINTS,
    MAX_DETAILED,
    OTHER_STATE,
    checkpoint_bytes,
    checkpoint_detail,
    checkpoint_details,
    checkpoint_history,
    checkpoint_time,
    history_rows,
    part_rows,
    stored_rows,
)
from netstack import CheckpointResult, VertexCheckpoint
from tests.integration.sample_results import SUBTASKS, sample_result, sample_results, unaligned_result


def with_checkpoints(result, checkpoints):
    return msgspec.structs.replace(result, checkpoints=checkpoints)


def test_history_has_a_bar_for_each_completed_checkpoint():
    rows = history_rows(sample_results())

    bar = [row for row in rows if (row["run"], row["id"]) == ("debloating on", 3)]
    assert [(row["part"], row["from_s"], row["to_s"]) for row in bar] == [
        (START_DELAY, 0.0, 0.08),
        (ALIGNMENT, 0.08, 0.2),
        (SYNC, 0.2, 0.201),
        (ASYNC, 0.201, 0.202),
        (ACKNOWLEDGEMENT, 0.202, 0.206),
    ]
    assert {(row["last"], row["total"], row["type"]) for row in bar} == {
        ("consumer 0", "206 ms", "CHECKPOINT")
    }
    assert [row["takes"] for row in bar] == ["80 ms", "120 ms", "1 ms", "1 ms", "4 ms"]
    assert len({(row["run"], row["id"]) for row in rows}) == 20


def tooltips(spec):
    """The titles of the numbers in all tooltips of a specification."""
    if isinstance(spec, dict):
        tips = spec.get("tooltip", ())
        yield from (tip["title"] for tip in tips if isinstance(tip, dict) and tip["type"] == "quantitative")
        spec = list(spec.values())
    for part in spec if isinstance(spec, list) else ():
        yield from tooltips(part)


def test_durations_in_tooltips_have_the_units_of_the_titles():
    results = {"run": unaligned_result()}
    specs = [checkpoint_time(results).spec, checkpoint_history(results).spec, checkpoint_detail(results)]
    numbers = {title for spec in specs for title in tooltips(spec)}
    assert numbers == {"checkpoint", "time (s)", "from (s)", "to (s)"}
    assert {row["takes"] for row in part_rows(results) if row["subtask"] == "consumer 0"} == {
        "400 ms",
        "600 ms",
    }


def test_history_names_the_failure_of_a_checkpoint_that_failed():
    rows = history_rows({"run": unaligned_result()})

    others = {row["id"]: row["failure"] for row in rows if row["status"] != "COMPLETED"}
    assert others == {7: "failed: IO_EXCEPTION", 10: "was still in progress at the end"}


def test_types_have_a_band_where_they_differ():
    mixed = checkpoint_history({"run": unaligned_result()})
    plain = checkpoint_history(sample_results())

    assert "The band above shows their types. Crosses: they failed. Rings:" in mixed.note
    assert "All are of the type CHECKPOINT." in plain.note
    assert len(mixed.spec["spec"]["layer"]) > len(plain.spec["spec"]["layer"])
    assert "unaligned checkpoint" in mixed.note
    assert "unaligned checkpoint" not in plain.note


def test_bytes_stored_are_the_results():
    rows = stored_rows({"run": unaligned_result(), "plain": sample_result(debloated=True)})

    assert {row["run"] for row in rows} == {"run"}
    first = [(row["part"], row["size"], row["from_mib"], row["to_mib"]) for row in rows if row["id"] == 1]
    assert first == [
        (IN_FLIGHT, "2.00 MiB", 0.0, 2.0),
        (OTHER_STATE, "1.00 MiB", 2.0, 3.0),
    ]
    assert 7 not in {row["id"] for row in rows}


def test_there_is_no_picture_of_what_is_not_there():
    result = sample_result(debloated=True, checkpoints=False)

    assert checkpoint_history({"on": result}) is None
    assert checkpoint_time({"on": result}) is None
    assert checkpoint_bytes(sample_results()) is None


def test_checkpoint_parts_stack_up_to_the_wait():
    rows = part_rows({"on": sample_result(debloated=True)})

    bar = [row for row in rows if row["id"] == 1 and row["subtask"] == "consumer 0"]
    assert [(row["part"], row["from_s"], row["to_s"]) for row in bar] == [
        (START_DELAY, 0.0, 0.08),
        (ALIGNMENT, 0.08, 0.2),
    ]
    assert all(row["t"] < row["until"] < row["t"] + 2 for row in rows)


def test_waits_of_checkpoints_that_failed_are_not_drawn():
    result = sample_result(debloated=True)
    failed = msgspec.structs.replace(result.checkpoints[0], status="FAILED", duration_ms=None)
    result = with_checkpoints(result, [failed, *result.checkpoints[1:]])

    assert {row["id"] for row in part_rows({"on": result})} == set(range(2, 11))


def test_details_have_all_subtasks_of_a_checkpoint():
    (run,) = checkpoint_details({"run": unaligned_result()})

    assert (run["name"], run["chosen"]) == ("run", 1)
    checkpoint = run["checkpoints"][0]
    assert checkpoint["label"] == "1: at 0.7 s, complete after 1.01 s"
    assert checkpoint["text"] == (
        "UNALIGNED_CHECKPOINT, triggered at 0.7 s, complete after 1.01 s; all 8 subtasks acknowledged; 3.00 "
        "MiB of state, 2.00 MiB of it data in flight."
    )
    names = [name for name, *_ in checkpoint["parts"]]
    assert names == [
        f"{vertex} {subtask}" for vertex in ("flights", "consumer") for subtask in range(SUBTASKS)
    ]
    assert checkpoint["parts"][4][1:] == [
        [400.0, 600.0, 0.0, 3.0, 3.0],
        "unaligned; sync 2 ms, async 601 ms in all; 1000 B processed during alignment; 512 KiB persisted",
        ["400 ms", "600 ms", "", "3 ms", "3 ms"],
    ]


def test_details_of_a_failed_checkpoint_say_who_acknowledged():
    result = unaligned_result()
    source, consumer = result.checkpoints[6].vertices
    silent = msgspec.structs.replace(consumer, end_to_end_ms=[None] * SUBTASKS)
    failed = msgspec.structs.replace(result.checkpoints[6], vertices=[source, silent])

    (run,) = checkpoint_details({"run": with_checkpoints(result, [failed])})

    text = run["checkpoints"][0]["text"]
    assert "failed: IO_EXCEPTION; 4 of 8 subtasks acknowledged" in text
    assert len(run["checkpoints"][0]["parts"]) == 4


def test_what_pictures_and_details_hold_is_bounded():
    many = 10 * MAX_DETAILED
    vertex = VertexCheckpoint(
        name="v",
        end_to_end_ms=[float(subtask) for subtask in range(many)],
        start_delay_ms=[1.0] * many,
        alignment_ms=[1.0] * many,
    )
    wide = [CheckpointResult(id=n, t=float(n), duration_ms=5.0, vertices=[vertex]) for n in range(200)]
    result = with_checkpoints(sample_result(debloated=True), wide)

    (run,) = checkpoint_details({"run": result})

    assert [checkpoint["id"] for checkpoint in run["checkpoints"]] == list(range(200 - MAX_CHECKPOINTS, 200))
    parts = run["checkpoints"][0]["parts"]
    assert [name for name, *_ in parts] == [f"v {subtask}" for subtask in range(many - MAX_DETAILED, many)]
    assert f"the slowest {MAX_DETAILED} of a vertex are shown" in run["checkpoints"][0]["text"]
    assert len({row["id"] for row in history_rows({"run": result})}) == MAX_CHECKPOINTS


def test_the_picture_of_one_checkpoint_waits_for_its_rows():
    spec = checkpoint_detail(sample_results())

    assert spec["data"] == {"values": []}
    assert spec["encoding"]["color"]["scale"]["domain"] == list(PHASES)
