import copy
import json
from typing import Any

import msgspec
import pytest
from rich.console import Console

from integration.base.number_text import figure
from integration.runs.quantities import ALIGNMENT, BUFFER_SIZE, END_TO_END, START_DELAY, THROUGHPUT
from integration.runs.reference_comparison import (
    TOO_SMALL,
    ComparedFigure,
    Comparison,
    Spread,
    buffer_time_ms,
    compare,
    judge,
    measure,
    tolerance,
    without_proof,
)
from integration.show.terminal.comparison import comparison_markdown, print_comparisons, trust, verdict
from netstack import (
    CheckpointResult,
    Edge,
    GeneratorSpec,
    InputError,
    Result,
    Scenario,
    Steady,
    Vertex,
    VertexCheckpoint,
    VertexSteady,
    to_json,
)

FLINK = {END_TO_END: 800.0, THROUGHPUT: 2000.0, START_DELAY: 700.0, ALIGNMENT: 400.0, BUFFER_SIZE: 5000.0}
"""Figures of Flink. A buffer takes 5 ms, less than 10 % of each time, so 10 % is the limit."""

RATE = 1_000_000.0


def run(seed: int = 1, **changes: float) -> Result:
    """A result with those numbers, otherwise Flink's."""
    numbers = FLINK | {name.replace("_", " "): value for name, value in changes.items()}
    delay = numbers[START_DELAY]
    checkpoint = CheckpointResult(
        id=1,
        t=20.0,
        duration_ms=numbers[END_TO_END],
        vertices=[
            VertexCheckpoint(name="source", start_delay_ms=[5.0]),
            # Two subtasks whose mean is the number; a median over subtasks would be another.
            VertexCheckpoint(name="stage1", start_delay_ms=[delay - 100, delay + 100]),
        ],
    )
    stage = VertexSteady(
        name="stage1",
        parallelism=2,
        alignment_ms_max_subtask=numbers[ALIGNMENT],
        records_in_per_s=[numbers[THROUGHPUT] / 2] * 2,
        bytes_in_per_s=[RATE, RATE],
        debloatedBufferSize=[numbers[BUFFER_SIZE], 32768.0],
    )
    steady = Steady(
        from_s=16.0,
        to_s=46.0,
        checkpoints=1,
        end_to_end_ms=numbers[END_TO_END],
        vertices=[VertexSteady(name="source", parallelism=1), stage],
    )
    return Result(
        scenario=Scenario(
            name="job",
            duration_s=46.0,
            vertices=(
                Vertex(name="source", source=GeneratorSpec(record_bytes=100)),
                Vertex(name="stage1", parallelism=2),
            ),
            edges=(Edge(source="source", target="stage1"),),
        ),
        preset="flink-2.2",
        clock="virtual",
        seed=seed,
        emulated_seconds=46.0,
        wall_seconds=1.0,
        checkpoints=[checkpoint],
        steady=[steady],
    )


def reference(*repetitions: Result, **changes: float) -> dict[str, Any]:
    """A measurement as of a real Flink."""
    document: dict[str, Any] = json.loads(to_json(run(**changes)))
    del document["schema"]
    document["repetitions"] = [json.loads(to_json(repetition)) for repetition in repetitions]
    return document


def rows(results: list[Result], flink: dict[str, Any]) -> dict[str, ComparedFigure]:
    return {row.quantity: row for row in compare(results, flink).rows}


def test_equal_numbers_are_inside():
    comparison = compare([run()], reference())
    assert comparison.ok
    assert {row.quantity for row in comparison.rows} == set(FLINK)
    assert {row.ratio for row in comparison.rows} == {1.0}
    assert [row.flink.median for row in comparison.rows if row.quantity == START_DELAY] == [700.0]


@pytest.mark.parametrize(
    ("quantity", "inside", "outside"),
    [
        (THROUGHPUT, 1.029, 1.031),
        (THROUGHPUT, 0.971, 0.969),
        (END_TO_END, 1.099, 1.12),
        (END_TO_END, 0.901, 0.88),
        (START_DELAY, 1.099, 1.12),
        (ALIGNMENT, 1.099, 1.12),
        (BUFFER_SIZE, 1.099, 1.12),
        (BUFFER_SIZE, 0.901, 0.88),
    ],
)
def test_a_share_of_flinks_number_is_allowed(quantity, inside, outside):
    """With one seed the range is a point, which widening by 10 % stretches hardly beyond the tolerance."""
    key = quantity.replace(" ", "_")
    assert rows([run(**{key: FLINK[quantity] * inside})], reference())[quantity].ok
    row = rows([run(**{key: FLINK[quantity] * outside})], reference())[quantity]
    assert (row.ok, row.why) == (False, "outside")


@pytest.mark.parametrize(
    ("quantity", "flink", "buffer_time", "allowed"),
    [
        (THROUGHPUT, 1000.0, 500.0, 30.0),
        (END_TO_END, 1000.0, 32.0, 100.0),
        (END_TO_END, 100.0, 32.0, 32.0),
        (START_DELAY, 100.0, 3.0, 15.0),
        (ALIGNMENT, 0.0, 0.0, 15.0),
        (ALIGNMENT, 0.0, 160.0, 160.0),
        (BUFFER_SIZE, 10_000.0, 500.0, 1000.0),
        (BUFFER_SIZE, 256.0, 500.0, 64.0),
    ],
)
def test_the_most_of_share_buffer_time_and_least_is_allowed(quantity, flink, buffer_time, allowed):
    assert tolerance(quantity, flink, buffer_time) == pytest.approx(allowed)


@pytest.mark.parametrize(
    ("quantity", "flink", "ours", "why"),
    [
        (END_TO_END, Spread(100, 100, 100), Spread(115, 115, 115), "tolerance"),
        (END_TO_END, Spread(100, 100, 100), Spread(115.1, 112, 120), "outside"),
        (END_TO_END, Spread(100, 100, 100), Spread(130, 111, 140), "our range"),
        (END_TO_END, Spread(100, 100, 100), Spread(130, 112, 140), "outside"),
        (END_TO_END, Spread(100, 100, 100), Spread(60, 50, 91), "our range"),
        (END_TO_END, Spread(100, 100, 100), Spread(60, 50, 90), "outside"),
        (END_TO_END, Spread(100, 60, 140), Spread(60, 60, 60), "Flink's range"),
        (END_TO_END, Spread(100, 60, 140), Spread(59, 59, 59), "outside"),
        (THROUGHPUT, Spread(100, 100, 100), Spread(120, 90, 130), "outside"),
        (THROUGHPUT, Spread(100, 100, 121), Spread(120, 90, 130), "Flink's range"),
        (BUFFER_SIZE, Spread(100, 100, 100), Spread(200, 105, 300), "our range"),
    ],
)
def test_ranges_count_beside_the_tolerance(quantity, flink, ours, why):
    assert judge(quantity, flink, ours, 15.0) == why


def test_ours_is_the_median_over_seeds_and_flinks_over_repetitions():
    results = [run(seed=seed, end_to_end=value) for seed, value in enumerate((700.0, 720.0, 900.0), 1)]
    flink = reference(run(end_to_end=760.0), run(end_to_end=780.0))
    comparison = compare(results, flink)
    assert comparison.seeds == [1, 2, 3]
    [row] = [row for row in comparison.rows if row.quantity == END_TO_END]
    assert (row.ours, row.flink) == (Spread(720.0, 700.0, 900.0), Spread(780.0, 760.0, 800.0))


def test_the_mean_delay_is_the_median_over_checkpoints_of_the_mean_over_subtasks():
    document = reference()
    first = document["checkpoints"][0]
    for at, delays in ((21.0, [0.0, 100.0]), (22.0, [900.0, 1100.0]), (99.0, [0.0, 0.0])):
        later = copy.deepcopy(first) | {"t": at}
        later["vertices"][1]["start_delay_ms"] = delays
        document["checkpoints"].append(later)
    measured = {subject.quantity: value for subject, value in measure(document, [1]).items()}
    assert measured[START_DELAY] == 700.0


def test_a_buffers_time_is_its_debloated_size_or_its_segment_over_the_rate():
    block = {
        "vertices": [{"bytes_in_per_s": [1e6, 2e6]}, {"bytes_in_per_s": [1e6], "debloatedBufferSize": [5000]}]
    }
    assert buffer_time_ms(block, 0, 32768) == pytest.approx((32.768 + 16.384) / 2)
    assert buffer_time_ms(block, 1, 32768) == pytest.approx(5.0)
    assert buffer_time_ms({"vertices": [{"bytes_in_per_s": [0.0, None]}]}, 0, 32768) == 0.0


def test_vertices_are_told_by_their_place_since_flink_renames_them():
    renamed = json.loads(to_json(run()))
    renamed["steady"][0]["vertices"][0]["name"] = "Source: source"
    document = reference() | {"repetitions": [renamed]}
    assert compare([run()], document).ok


def test_a_number_that_we_do_not_have_is_outside():
    result = run()
    steady = msgspec.structs.replace(result.steady[0], end_to_end_ms=None)
    [row] = [
        row
        for row in compare([msgspec.structs.replace(result, steady=[steady])], reference()).rows
        if row.quantity == END_TO_END
    ]
    assert (row.ok, row.ours, row.ratio) == (False, None, None)


def test_what_flink_did_not_measure_is_not_compared():
    document = reference()
    del document["steady"][0]["vertices"][1]["debloatedBufferSize"]
    assert BUFFER_SIZE not in rows([run()], document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.pop("checkpoints"), "missing required field `checkpoints`"),
        (
            lambda document: [each["steady"][0].update(to_s=50) for each in _runs(document)],
            "windows differ: 16-46 s in this run, 16-50 s",
        ),
        (lambda document: _without_the_last(document), r"\[1, 2\] in this run and \[1\]"),
        (
            lambda document: document.update(steady=[]),
            "the reference is not a measurement of Flink: it has no measured window",
        ),
        (
            lambda document: document["steady"][0].update(from_s="x"),
            r"Expected `float`, got `str` - at `\$\.steady",
        ),
        (lambda document: document["steady"][0].update(to_s=1e300), "Expected `float` <= "),
        (
            lambda document: document["steady"][0].pop("persisted_bytes"),
            "missing required field `persisted_bytes`",
        ),
        (lambda document: document.update(repetitions=5), "Expected `array`, got `int`"),
        (
            lambda document: document["repetitions"][0]["steady"].pop(),
            "the reference is not a measurement of Flink: its repetitions have different measured windows",
        ),
        (
            lambda document: document["checkpoints"][0]["vertices"].pop(),
            "not all of its windows and checkpoints have 2 vertices",
        ),
    ],
)
def test_a_reference_of_another_job_is_refused(change, message):
    document = reference()
    document["repetitions"] = [reference()]
    change(document)
    with pytest.raises(InputError, match=message):
        compare([run()], document)


def _runs(document):
    return [document, *document["repetitions"]]


def _without_the_last(document):
    document["repetitions"] = []
    for each in document["steady"] + document["checkpoints"]:
        each["vertices"].pop()


def test_without_a_result_there_is_nothing_to_compare():
    with pytest.raises(InputError, match="no result"):
        compare([], reference())


@pytest.fixture
def comparisons() -> list[Comparison]:
    fine = compare([run()], reference())
    return [
        fine,
        compare([run(seed, throughput=1500.0 + seed) for seed in (1, 2)], reference(run(end_to_end=1e4))),
    ]


def test_the_table_fits_80_columns_and_says_how_it_went(comparisons):
    console = Console(width=80)
    with console.capture() as capture:
        print_comparisons(comparisons, console)
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("throughput" in line and "1502 (1501-1502)" in line and "OUTSIDE" in line for line in lines)
    assert any(line.startswith("job ") and "seeds 1, 2" in line for line in lines)
    assert lines[-1] == "1 of 10 numbers of 2 scenarios is outside the tolerance."


def test_a_result_of_the_emulator_is_not_called_flinks():
    emulated = json.loads(to_json(run(seed=7)))
    for document, other, its in (
        (reference(), "Flink", "Flink's"),
        (emulated, "reference", "the reference's"),
    ):
        compared = compare([run(end_to_end=1e4)], document)
        assert compared.other_side == other
        console = Console(width=80)
        with console.capture() as capture:
            print_comparisons([compared], console)
        text = capture.get()
        assert text.splitlines()[1].split() == [other, "ours", "ratio", "allowed"]
        assert its in text.replace("\n", " ")
        assert ("Flink" in text) is (other == "Flink")
        assert ("Flink" in comparison_markdown([compared])) is (other == "Flink")
        assert f"with {other}, 1 seed:" in repr(compared)


def test_the_markdown_is_one_table_with_a_row_for_each_number(comparisons):
    lines = comparison_markdown(comparisons).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 12
    assert {line.count("|") for line in table} == {10}
    assert (
        "| job | 16-46 s | stage1 | throughput, rec/s | 2000 | 1502 (1501-1502) | 0.75 | 60 | **outside** |"
        in table
    )


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        ([True], "1 number of 1 scenario is inside the tolerance."),
        ([True, True], "All 2 numbers of 1 scenario are inside the tolerance."),
        ([False], "1 of 1 number of 1 scenario is outside the tolerance."),
        ([True, False], "1 of 2 numbers of 1 scenario is outside the tolerance."),
        ([False, False, True], "2 of 3 numbers of 1 scenario are outside the tolerance."),
        ([], "No number of 1 scenario was judged."),
    ],
)
def test_the_verdict_agrees_with_its_counts(verdicts: list[bool], text: str) -> None:
    row = rows([run(start_delay=FLINK[START_DELAY])], reference())[START_DELAY]
    numbers = [msgspec.structs.replace(row, ok=ok, why="tolerance" if ok else "outside") for ok in verdicts]
    assert verdict([Comparison(scenario="x", seeds=[1], rows=numbers)]) == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (16330.5, "16330"),
        (99.96, "100"),
        (9.999, "10.0"),
        (12.34, "12.3"),
        (1.005, "1.00"),
        (15.0, "15"),
    ],
)
def test_figures_have_about_three_digits(value, shown):
    assert figure(value) == shown


def test_a_number_inside_an_allowance_of_more_than_half_of_it_is_too_small_to_judge() -> None:
    """The time to read a buffer allows 188 ms, so half of the measured 160 ms would be inside."""
    row = rows([run(start_delay=FLINK[START_DELAY])], reference())[START_DELAY]
    small = msgspec.structs.replace(row, flink=Spread(160.0, 160.0, 160.0), tolerance=188.0)
    half = msgspec.structs.replace(row, flink=Spread(400.0, 400.0, 400.0), tolerance=188.0)
    outside = msgspec.structs.replace(small, ok=False, why="outside")
    assert [without_proof(each).why for each in (small, half, outside)] == [TOO_SMALL, "tolerance", "outside"]

    def said(*numbers: ComparedFigure) -> tuple[str, str]:
        comparison = Comparison(scenario="x", seeds=[1], rows=list(numbers))
        return verdict([comparison]), trust(comparison)

    time = msgspec.structs.replace(half, quantity=END_TO_END)
    assert said(without_proof(small), time) == (
        "1 number of 1 scenario is inside the tolerance. 1 further number is too small to judge.",
        "Checkpoint times and throughput, which tune compares, are inside: its figures can be trusted.",
    )
    assert said(msgspec.structs.replace(time, ok=False, why="outside"))[1].startswith(
        "Of the figures that tune compares, end to end differs"
    )
    assert said(half)[1].startswith("Checkpoint times were not judged")
