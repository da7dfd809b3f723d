import msgspec
import pytest

from integration.base.number_text import milliseconds, per_second, ratio, size
from integration.base.optional_figures import quotient
from integration.runs.window_figures import WindowFigures, figures_of
from integration.show.terminal.run import (
    SUBTASK_COLUMNS,
    how_obtained,
    job_facts,
    subtask_rows,
    summary_table,
)
from integration.show.terminal.sentences import compare, describe
from tests.integration.sample_results import (
    sample_result,
    sample_results,
    unaligned_result,
    with_document,
    with_flink,
)

OFF = WindowFigures(
    from_s=20,
    to_s=60,
    checkpoints_completed=10,
    start_delay_ms=1500,
    alignment_ms=2000,
    end_to_end_ms=3600,
    in_flight_bytes=900 * 1024,
    sender_bytes=600 * 1024,
    receiver_bytes=300 * 1024,
    buffer_bytes=32768,
    throughput_per_s=7500,
    bytes_per_s=570_000,
)
ON = msgspec.structs.replace(
    OFF,
    checkpoints_completed=19,
    start_delay_ms=400,
    alignment_ms=1000,
    end_to_end_ms=1500,
    in_flight_bytes=300 * 1024,
    sender_bytes=100 * 1024,
    receiver_bytes=200 * 1024,
    buffer_bytes=12_000,
)


def test_what_waits_is_not_known_where_one_queue_is_not():
    result = sample_result(debloated=False)
    source, consumer = result.series
    known = figures_of(result)
    assert known.in_flight_bytes == known.sender_bytes + known.receiver_bytes
    unknown = msgspec.structs.replace(consumer, inputQueueSize=[])

    figures = figures_of(msgspec.structs.replace(result, series=[source, unknown]))

    assert (figures.receiver_bytes, figures.in_flight_bytes) == (None, None)
    assert figures.sender_bytes == known.sender_bytes


def test_figures_are_those_of_the_result():
    result = sample_result(debloated=True)

    found = figures_of(result)

    steady = result.steady[-1]
    consumer = steady.vertices[-1]
    assert found.checkpoints_completed == steady.checkpoints
    phases = (found.start_delay_ms, found.alignment_ms, found.state_ms, found.acknowledgement_ms)
    assert phases == pytest.approx((80.0, 120.0, 2.0, 4.0))
    assert found.end_to_end_ms == pytest.approx(sum(phases))
    assert found.throughput_per_s == sum(consumer.records_in_per_s)
    assert found.buffer_bytes == 5000


def test_bytes_in_flight_are_the_median_of_the_windows_samples():
    # Even seconds: 124,000 bytes at senders, 80,000 at receivers. Odd ones: nine tenths. 7 of 13 are even.
    found = figures_of(sample_result(debloated=True))

    assert (found.sender_bytes, found.receiver_bytes) == (124_000, 80_000)
    assert found.in_flight_bytes == 204_000
    assert found.sender_share == pytest.approx(124 / 204)
    assert found.in_flight_s == pytest.approx(204_000 / 200_000)


def test_without_debloating_a_buffer_is_a_segment():
    result = sample_result(debloated=False)
    given = with_flink(result, {"taskmanager.memory.segment-size": "8 kb"})

    assert figures_of(result).buffer_bytes == 32768
    assert figures_of(given).buffer_bytes == 8192


def test_what_was_not_measured_is_none():
    result = sample_result(debloated=True, checkpoints=False)
    bare = msgspec.structs.replace(result, series=[])

    found = figures_of(bare)

    assert found.end_to_end_ms is found.start_delay_ms is found.alignment_ms is None
    assert found.in_flight_bytes is found.sender_share is found.in_flight_s is None
    assert quotient(1.0, None) is quotient(None, 1.0) is quotient(1.0, 0) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (milliseconds(47.4), "47 ms"),
        (milliseconds(999.4), "999 ms"),
        (milliseconds(999.6), "1.00 s"),
        (milliseconds(123_456), "123 s"),
        (milliseconds(None), "-"),
        (size(900), "900 B"),
        (size(7600), "7.42 KiB"),
        (size(32768), "32.0 KiB"),
        (size(3 << 30), "3.00 GiB"),
        (size(None), "-"),
        (per_second(7512.3), "7,512/s"),
        (per_second(None), "-"),
        (ratio(0.2345), "0.23"),
        (ratio(None), "-"),
    ],
)
def test_numbers_are_short(text, expected):
    assert text == expected


def test_sentence_when_debloating_helps():
    assert compare(OFF, ON) == (
        "With debloating a checkpoint took 1.50 s instead of 3.60 s, 2.40 times as fast: for the "
        "subtask that acknowledged last, the first barrier came after 400 ms instead of 1.50 s, the "
        "last one 1.00 s instead of 2.00 s later, with 300 KiB instead of 900 KiB in flight, 67 % of it "
        "waiting at the receivers; throughput stayed at 7,500 records/s."
    )


def test_sentence_when_debloating_changes_nothing():
    same = msgspec.structs.replace(OFF, end_to_end_ms=3550)

    sentence = compare(OFF, same)

    assert sentence.startswith(
        "Debloating changed next to nothing: a checkpoint took 3.55 s with it and 3.60 s without it: "
        "for the subtask that acknowledged last, the first barrier came after 1.50 s as before, the "
        "last one 2.00 s as before later"
    )


def test_sentence_when_debloating_makes_it_worse():
    worse = msgspec.structs.replace(OFF, end_to_end_ms=7200, throughput_per_s=6000)

    sentence = compare(OFF, worse)

    assert sentence.startswith(
        "Debloating did not help: a checkpoint took 7.20 s instead of 3.60 s, 2.00 times as long"
    )
    assert sentence.endswith(
        "67 % of it waiting at the senders; throughput fell by 20.0 % to 6,000 records/s."
    )


def test_sentence_when_throughput_rises():
    faster = msgspec.structs.replace(ON, throughput_per_s=7650)

    assert compare(OFF, faster).endswith("; throughput rose by 2.0 % to 7,650 records/s.")


def test_sentence_without_checkpoints():
    none = msgspec.structs.replace(
        OFF, checkpoints_completed=0, start_delay_ms=None, alignment_ms=None, end_to_end_ms=None
    )

    assert compare(none, ON).startswith(
        "Without debloating no checkpoint completed in 40.0 s; with debloating a checkpoint took 1.50 "
        "s; throughput"
    )
    assert compare(OFF, none).startswith(
        "With debloating no checkpoint completed in 40.0 s; without debloating a checkpoint took 3.60 "
        "s; throughput"
    )
    assert compare(none, none).startswith(
        "No checkpoint completed in 40.0 s, with or without debloating; throughput stayed at"
    )
    assert describe(none) == "No checkpoint completed in 40.0 s; throughput was 7,500 records/s."


def test_sentence_leaves_out_what_was_not_measured():
    bare = msgspec.structs.replace(ON, sender_bytes=None, throughput_per_s=None)

    assert "in flight" not in compare(OFF, bare)
    assert compare(OFF, bare).endswith("; throughput cannot be compared.")


def test_sentence_of_a_single_run():
    assert describe(ON) == (
        "A checkpoint took 1.50 s: for the subtask that acknowledged last, the first barrier came after "
        "400 ms, the last one 1.00 s later, with 300 KiB in flight, 67 % of it waiting at the "
        "receivers; throughput was 7,500 records/s."
    )


def test_table_has_the_numbers_of_both_runs_and_their_ratio():
    table = summary_table(sample_results())

    texts = {row.name: row.texts for row in table.rows}
    assert table.columns == ("debloating off", "debloating on", "ratio")
    assert texts == {
        "Start delay": ("400 ms", "80 ms", "0.20"),
        "Alignment": ("600 ms", "120 ms", "0.20"),
        "Snapshot": ("2 ms", "2 ms", "1.00"),
        "Acknowledgement": ("4 ms", "4 ms", "1.00"),
        "End to end": ("1.01 s", "206 ms", "0.20"),
        "Bytes in flight": ("996 KiB", "199 KiB", "0.20"),
        "Buffer size": ("32.0 KiB", "4.88 KiB", "0.15"),
        "Throughput": ("2,000/s", "2,000/s", "1.00"),
        "Checkpoints": ("6", "6", "-"),
    }


def test_table_of_one_run_has_a_column_for_each_window():
    result = sample_result(debloated=True)
    early = msgspec.structs.replace(result.steady[0], from_s=0, to_s=8)
    long = [
        msgspec.structs.replace(each, duration_ms=450) for each in result.checkpoints if each.t < early.to_s
    ]
    history = [*long, *result.checkpoints[len(long) :]]
    phased = msgspec.structs.replace(result, steady=[early, *result.steady], checkpoints=history)

    table = summary_table({"sample": phased})

    assert table.columns == ("0 to 8 s", "8 to 20 s")
    assert table.rows[4].texts == ("450 ms", "206 ms")


def test_table_has_what_was_stored_where_anything_was():
    both = {"aligned": sample_result(debloated=False), "unaligned": unaligned_result()}

    texts = {row.name: row.texts for row in summary_table(both).rows}
    assert texts["Stored"] == ("-", "2.00 MiB", "-")


def test_every_subtask_has_a_row():
    rows = subtask_rows(sample_result(debloated=True))

    assert [row[0] for row in rows] == [
        f"{name} {index}" for name in ("flights", "consumer") for index in range(4)
    ]
    assert {len(row) for row in rows} == {len(SUBTASK_COLUMNS)}
    assert rows[4][SUBTASK_COLUMNS.index("Records in")] == "1,000/s"
    assert rows[4][SUBTASK_COLUMNS.index("Buffer size")] == "4.88 KiB"


def test_facts_say_what_the_job_is():
    assert dict(job_facts(sample_result(debloated=True))) == {
        "Job": "flights ×4 → hash → consumer ×4",
        "Sources": "flights.csv, keyed by carrier, over and over; 2 subtasks as fast as possible, "
        "2 subtasks at 100 records/s",
        "Service": "400 µs a record",
        "Checkpoints": "every 2 s, exactly once, aligned",
        "Measured": "8 to 20 s of emulated time",
    }


def test_facts_of_other_jobs():
    result = sample_result(debloated=True)
    document = {
        "flink": {
            "execution.checkpointing.mode": "AT_LEAST_ONCE",
            "execution.checkpointing.interval": "10 s",
        },
        "vertices": [
            {"name": "a", "parallelism": 2, "source": {"record_bytes": 1013, "rate": [0]}},
            {"name": "b", "parallelism": 1, "source": {"object": "Mine", "rate": [2.5]}},
            {
                "name": "c",
                "parallelism": 2,
                "service": "5 ms",
                "service_skew": [1, 4],
                "service_spread": 0.05,
            },
            {"name": "d", "service": [{"at": "0 s", "cost": "1 ms"}, {"at": "9 s", "cost": "2 ms"}]},
        ],
        "edges": [
            {"from": "a", "to": "c", "ship": "hash"},
            {"from": "b", "to": "c"},
            {"from": "c", "to": "d"},
        ],
    }

    other = with_document(result, document)
    facts = job_facts(other)

    assert facts[:-1] == [
        ("Job", "a ×2 → hash → c ×2; b ×1 → rebalance → c ×2; c ×2 → rebalance → d ×1"),
        ("Sources", "a: generated records of 1,013 bytes; 2 subtasks as fast as possible"),
        ("Sources", "b: Mine; 1 subtask at 2.5 records/s"),
        ("Service", "c: 5 ms a record (known within 5 %), times 1:4 by subtask"),
        ("Service", "d: 1 ms a record from 0 s on, 2 ms a record from 9 s on"),
        ("Checkpoints", "every 10 s, at least once, without alignment"),
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "aligned"),
        ({"unaligned.enabled": True}, "unaligned"),
        ({"unaligned.enabled": True, "aligned-checkpoint-timeout": "0 ms"}, "unaligned"),
        (
            {"unaligned.enabled": True, "aligned-checkpoint-timeout": "500 ms"},
            "aligned for 500 ms and then unaligned",
        ),
        ({"aligned-checkpoint-timeout": "500 ms"}, "aligned"),
    ],
)
def test_facts_name_the_mode_of_checkpoints(options, text):
    result = sample_result(debloated=True)
    given = {f"execution.checkpointing.{name}": value for name, value in options.items()}
    result = with_flink(result, given)

    assert dict(job_facts(result))["Checkpoints"] == f"every 2 s, exactly once, {text}"


def test_how_a_result_was_obtained():
    facts = dict(how_obtained({"run": sample_result(debloated=True)}, "netstack run sample.toml"))

    assert facts["Clock"] == "virtual time, emulated links, preset flink-2.2, seed 3"
    assert facts["Emulated"] == "20 s in 0.2 s of real time"
    assert facts["Versions"] == "netstack 0.1.0, python 3.11.2"
    assert facts["Command"] == "netstack run sample.toml"
    assert "Command" not in dict(how_obtained({"run": sample_result(debloated=True)}, ""))
