import msgspec
import pytest

from integration.demo_job import ALIGNED, AT_LEAST_ONCE, DEBLOATED, MODES, TIMED_OUT, UNALIGNED
from integration.present.console import to_stdout
from integration.present.demo import compare_modes, print_demo, print_modes
from integration.present.run import AFTER_BARRIERS, MODE_COLUMNS, job_facts, modes_table
from netstack import CheckpointResult
from tests.integration.sample_results import MIB, sample_result, unaligned_result


def mode_result(took_ms, *, persisted=0.0, processed=0.0, rate=1000.0):
    result = sample_result(debloated=False, rate=rate)
    figures = {"persisted_bytes": persisted, "processed_bytes": processed}
    steady = msgspec.structs.replace(result.steady[0], **figures)
    checkpoints = [] if took_ms is None else [CheckpointResult(id=1, t=10.0, duration_ms=took_ms)]
    return msgspec.structs.replace(result, steady=[steady], checkpoints=checkpoints)


def mode_results(**took_ms):
    """Results of all modes, with end-to-end times by mode."""
    times = {ALIGNED: 3500.0, DEBLOATED: 1200.0, UNALIGNED: 35.0, TIMED_OUT: 1000.0, AT_LEAST_ONCE: 3800.0}
    stored = {UNALIGNED: 2.0 * MIB, TIMED_OUT: 1.0 * MIB}
    processed = {AT_LEAST_ONCE: 0.5 * MIB}
    return {
        mode: mode_result(took, persisted=stored.get(mode, 0.0), processed=processed.get(mode, 0.0))
        for mode, took in (times | took_ms).items()
    }


def test_every_mode_has_results():
    assert list(mode_results()) == list(MODES)


def test_reading_of_the_modes():
    assert compare_modes(mode_results()) == (
        "The fastest was unaligned: a checkpoint took 35 ms instead of 3.50 s, 100 times as fast as "
        "aligned. Its cost: each checkpoint stores 2.00 MiB of data in flight. After a failure, to read "
        "it back would take an estimated 2 ms; to process it takes longer. Of the modes that "
        "store no data in flight, aligned, debloating was the fastest: a checkpoint took 1.20 s. An "
        "at-least-once checkpoint took 3.80 s. Between its first and its last barrier, tasks read 512 "
        "KiB; after a failure, part of this would be processed again."
    )


def test_what_a_restart_took_is_no_estimate():
    results = mode_results()
    restarts = unaligned_result().restarts
    results[UNALIGNED] = msgspec.structs.replace(results[UNALIGNED], restarts=restarts)

    assert "After a failure, to read it back and to process it took up to 500 ms." in compare_modes(results)


def test_a_job_that_no_mode_makes_faster_is_told_as_it_is():
    sentences = compare_modes(mode_results(aligned=30.0))

    assert sentences.startswith(
        "None of the exactly-once modes was faster than aligned: a checkpoint took 30 ms. An at-least"
    )


def test_the_fastest_that_stores_nothing_has_no_price():
    sentences = compare_modes(mode_results(**{DEBLOATED: 20.0}))

    assert sentences.startswith("The fastest was aligned, debloating: a checkpoint took 20 ms instead of")
    assert "price" not in sentences
    assert "Of those" not in sentences


def test_modes_without_checkpoints_are_told():
    none = dict.fromkeys(MODES)
    some = none | {UNALIGNED: 40.0}

    assert compare_modes(mode_results(**none)) == "No checkpoint was completed in any exactly-once mode."
    assert compare_modes(mode_results(**some)).startswith(
        "The fastest was unaligned: a checkpoint took 40 ms. Its cost: each checkpoint stores 2.00 MiB"
    )


def test_a_difference_in_throughput_is_told():
    results = mode_results() | {UNALIGNED: mode_result(35.0, persisted=1.0, rate=900.0)}

    assert compare_modes(results).endswith(" Throughput was between 1,800/s and 2,000/s.")
    assert "Throughput" not in compare_modes(mode_results())


def test_modes_are_a_table_of_80_columns(capsys):
    results = mode_results()

    print_modes(results, to_stdout())

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(lines[0].split()) == "start align- end to pro- exactly"
    for row in modes_table(results).rows:
        texts = [
            text for column, text in zip(MODE_COLUMNS, row.texts, strict=True) if column != AFTER_BARRIERS
        ]
        assert " ".join([row.name, *texts]) in [" ".join(line.split()) for line in lines]


def test_modes_are_printed_with_the_job_and_the_reading(capsys):
    results = mode_results()
    facts = job_facts(results[ALIGNED])

    print_demo(facts, results, "It [red]was[/red] so.", to_stdout(), modes=True)

    out = capsys.readouterr().out
    assert "flights ×4 → hash → consumer ×4" in out
    assert "at least once" in out
    assert "It [red]was[/red] so." in out


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_is_exactly_once_but_for_one(mode):
    assert ("checkpoint_mode" in MODES[mode]) == (mode == AT_LEAST_ONCE)
