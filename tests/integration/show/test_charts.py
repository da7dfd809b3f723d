import struct

import msgspec
import pytest

from integration.show.charts.chart_style import (
    CHANGE,
    DOWN,
    FAULT,
    MAX_EVENTS,
    MAX_SUBTASKS,
    PALETTE,
    PANEL_WIDTH,
    event_rows,
    to_png,
    window_edges,
)
from integration.show.charts.run_charts import (
    CONFIGURED,
    EMITTED,
    FIXED,
    MAX_SAMPLES,
    READ,
    RECEIVERS,
    SENDERS,
    buffer_size_rows,
    busy_rows,
    charts,
    in_flight_rows,
    in_flight_time,
    load,
    queue_length,
    queue_length_rows,
    rate_rows,
)
from netstack import FaultResult, Series, scenario_document
from tests.integration.axes import axes_of, has_unit
from tests.integration.sample_results import (
    SUBTASKS,
    sample_result,
    sample_results,
    unaligned_result,
    with_document,
)

NAMES = ["checkpoint-history", "load", "buffer-size", "in-flight-time", "checkpoint-time", "queue-length"]
UNALIGNED_NAMES = [
    "checkpoint-history",
    "checkpoint-bytes",
    "load",
    "in-flight-time",
    "checkpoint-time",
    "queue-length",
]


def rows_of(chart):
    return chart.spec["datasets"][chart.spec["data"]["name"]]


def test_there_is_a_picture_of_each_finding():
    assert [chart.name for chart in charts(sample_results())] == NAMES
    assert [chart.name for chart in charts({"unaligned": unaligned_result()})] == UNALIGNED_NAMES


def test_titles_state_the_quantity_of_both_runs():
    assert [chart.title for chart in charts(sample_results())] == [
        "A checkpoint takes: 1.01 s (debloating off), 206 ms (debloating on)",
        "Throughput: 2,000/s (debloating off), 2,000/s (debloating on)",
        "Size of new buffers: 32.0 KiB (debloating off), 4.88 KiB (debloating on)",
        "Time to consume the records in flight: 5.10 s (debloating off), 1.02 s (debloating on)",
        "Start delay and alignment: 400 ms + 600 ms (debloating off), 80 ms + 120 ms (debloating on)",
        "Buffers that wait at senders and receivers: 175 + 150 (debloating off), 35 + 30 (debloating on)",
    ]


def test_titles_of_one_run_do_not_name_it():
    titles = [chart.title for chart in charts({"sample": sample_result(debloated=True)})]

    assert titles[::2] == [
        "A checkpoint takes: 206 ms",
        "Size of new buffers: 4.88 KiB",
        "Start delay and alignment: 80 ms + 120 ms",
    ]


def test_runs_share_their_scales():
    for chart in charts(sample_results()):
        assert "resolve" not in chart.spec
        assert "column" in chart.spec["facet"]


def test_a_run_without_debloating_needs_no_picture_of_buffer_sizes():
    names = [chart.name for chart in charts({"sample": sample_result(debloated=False)})]
    assert names == [name for name in NAMES if name != "buffer-size"]


def test_buffer_sizes_are_the_results():
    rows = buffer_size_rows(sample_results())

    on = [row for row in rows if row["run"] == "debloating on"]
    off = [row for row in rows if row["run"] == "debloating off"]
    assert {row["kib"] for row in off} == {32.0}
    assert {row["subtask"] for row in off} == {FIXED}
    assert [row["kib"] for row in on if row["subtask"] == "subtask 0"][-1] == round(5000 / 1024, 2)
    assert {row["subtask"] for row in on} == {f"subtask {index}" for index in range(SUBTASKS)}


def test_in_flight_time_is_queued_bytes_over_throughput():
    rows = in_flight_rows({"on": sample_result(debloated=True)})

    first = {row["place"]: row["s"] for row in rows if row["t"] == 0}
    assert first == {SENDERS: 0.62, RECEIVERS: 0.4}
    assert {row["place"]: (row["takes"], row["size"]) for row in rows if row["t"] == 0} == {
        SENDERS: ("620 ms", "121 KiB"),
        RECEIVERS: ("400 ms", "78.1 KiB"),
    }


def test_in_flight_time_follows_the_throughput():
    result = sample_result(debloated=True)
    source, consumer = result.series
    halved = [[*counts[:11], *(counts[10] + (n - counts[10]) // 2 for n in counts[11:])]
              for counts in consumer.numRecordsIn]  # fmt: skip
    series = [source, msgspec.structs.replace(consumer, numRecordsIn=halved)]

    rows = in_flight_rows({"on": msgspec.structs.replace(result, series=series)})

    last = {row["place"]: row["s"] for row in rows if row["t"] == 20}
    assert last == {SENDERS: 1.24, RECEIVERS: 0.8}


def test_windows_are_marked_and_named():
    result = sample_result(debloated=True)
    early = msgspec.structs.replace(result.steady[0], from_s=0, to_s=6)
    phased = {"sample": msgspec.structs.replace(result, steady=[early, *result.steady])}

    assert window_edges({"sample": result}) == [8]
    assert window_edges(phased) == [6, 8]
    assert charts(phased)[2].title == "Size of new buffers: 4.88 KiB (0 to 6 s), 4.88 KiB (8 to 20 s)"


def test_queues_are_those_of_senders_and_receivers():
    rows = queue_length_rows({"on": sample_result(debloated=True)})

    assert {row["place"] for row in rows} == {"flights, sending", "consumer, receiving"}
    assert {row["buffers"] for row in rows if row["t"] == 0 and row["place"] == "flights, sending"} == {
        14,
        15,
        3,
    }


def test_nothing_measured_gives_no_picture():
    result = sample_result(debloated=True, checkpoints=False)
    bare = {"on": msgspec.structs.replace(result, series=[])}

    assert in_flight_time(bare) is None
    assert queue_length(bare) is None
    assert charts(bare) == []


def test_what_a_picture_holds_is_bounded():
    wide = Series(
        vertex="consumer",
        t=[float(t) for t in range(10_000)],
        inputQueueLength=[[1] * 10_000] * 100,
    )
    result = msgspec.structs.replace(sample_result(debloated=True), series=[wide])

    rows = queue_length_rows({"on": result})

    assert len({row["subtask"] for row in rows}) == MAX_SUBTASKS
    assert len(rows) <= MAX_SUBTASKS * (MAX_SAMPLES + 1)
    assert max(row["t"] for row in rows) > 9_900


def test_what_happened_to_a_job_is_in_each_of_its_panels_over_time():
    results = {"unaligned": unaligned_result(), "plain": sample_result(debloated=False)}
    down = {"run": "unaligned", "event": DOWN, "t": 9.0, "until": 11.0}
    faults = [{"run": "unaligned", "event": FAULT, "t": t} for t in (9.0, 13.0)]

    for chart in charts(results):
        events = [row for row in rows_of(chart) if "event" in row]
        panels = {"checkpoint-time": SUBTASKS, "queue-length": 2}.get(chart.name, 1)
        for expected in [down, *faults]:
            assert sum(expected.items() <= event.items() for event in events) == panels
        assert len(events) == 3 * panels
        assert "Red lines: faults. Shaded: the job is down." in chart.note


def test_without_faults_there_is_nothing_of_them():
    for chart in charts(sample_results()):
        assert not any("event" in row for row in rows_of(chart))
        assert "Shaded" not in chart.note
        assert "Red" not in chart.note


CHANGES = [
    {"at": "4 s", "vertex": "flights", "rate": [50, 150]},
    {"at": "15 s", "vertex": "consumer", "service": "1 ms"},
]


def changed_result():
    """A run whose rate falls at 4 s; the service time of its consumer rises at 10 s, and again at 15 s."""
    result = sample_result(debloated=True)
    document = scenario_document(result.scenario)
    source, consumer = document["vertices"]
    steps = [{"at": f"{at} s", "cost": cost} for at, cost in ((0, "400 us"), (10, "600 us"), (18, "1 s"))]
    vertices = [
        source | {"source": {"record_bytes": 100, "rate": [400, 100]}},
        consumer | {"service": steps},
    ]
    return with_document(result, {"vertices": vertices, "changes": CHANGES})


def test_changes_of_load_are_in_each_panel_over_time():
    expected = [
        (4.0, "flights: rate is 50, 150"),
        (10.0, "consumer: service is 600 us"),
        (15.0, "consumer: service is 1 ms"),
    ]
    rows = event_rows({"run": changed_result()})
    assert [(row["t"], row["what"]) for row in rows if row["event"] == CHANGE] == expected
    for chart in charts({"run": changed_result()}):
        drawn = {(row["t"], row["what"]) for row in rows_of(chart) if row.get("event") == CHANGE}
        assert drawn == set(expected), chart.name
        assert "Violet lines: changes of options, rates or service times." in chart.note


def test_changes_after_the_end_of_a_job_are_not_drawn():
    ended = msgspec.structs.replace(changed_result(), emulated_seconds=10.0)
    assert [row["t"] for row in event_rows({"run": ended})] == [4.0]


def test_the_configured_rate_follows_the_changes():
    points = [
        (row["t"], row["per_s"], row["rate"])
        for row in rate_rows({"run": changed_result()})
        if row["line"] == CONFIGURED
    ]
    assert points == [(0.0, 1000.0, "1,000/s"), (4.0, 400.0, "400/s"), (20.0, 400.0, "400/s")]


def test_sources_that_emit_as_fast_as_possible_have_no_configured_rate():
    lines = {row["line"] for row in rate_rows({"run": sample_result(debloated=True)})}
    assert lines == {EMITTED, READ}


def test_rates_are_slopes_of_the_counted_records():
    result = sample_result(debloated=True)
    source, consumer = result.series
    faster = [[2 * count for count in counts] for counts in source.numRecordsOut]
    series = [msgspec.structs.replace(source, numRecordsOut=faster), consumer]

    rows = rate_rows({"run": msgspec.structs.replace(result, series=series)})

    assert {row["per_s"] for row in rows if row["line"] == EMITTED} == {4000.0}
    assert {row["per_s"] for row in rows if row["line"] == READ} == {2000.0}


def test_a_rate_that_is_not_known_for_all_sources_is_not_drawn():
    result = sample_result(debloated=True)
    source, consumer = result.series
    series = [msgspec.structs.replace(source, numRecordsOut=[]), consumer]

    rows = rate_rows({"run": msgspec.structs.replace(result, series=series)})

    assert {row["line"] for row in rows} == {READ}


def test_the_busiest_subtask_is_drawn_as_a_share_of_the_height():
    result = sample_result(debloated=True)
    source, consumer = result.series
    busy = [
        [400 * t for t in consumer.t],
        [250 * t if t <= 10 else 2500 + 900 * (t - 10) for t in consumer.t],
    ]
    measured = msgspec.structs.replace(
        result, series=[source, msgspec.structs.replace(consumer, busy_ms=busy)]
    )

    rows = busy_rows({"run": measured})
    chart = load({"run": measured})

    assert [(row["who"], row["busy"]) for row in rows if row["t"] in (5, 15)] == [
        ("consumer 0", "40 %"),
        ("consumer 1", "90 %"),
    ]
    (top,) = {
        layer["encoding"]["y"]["scale"]["domain"][1]
        for layer in chart.spec["spec"]["layer"]
        if "scale" in layer["encoding"].get("y", {})
    }
    heights = {row["t"]: row["height"] for row in rows_of(chart) if "height" in row}
    assert heights[15] == pytest.approx(0.9 * top)
    assert "the full height is 100 %" in chart.note


def test_without_busy_times_the_chart_does_not_mention_them():
    chart = load({"run": sample_result(debloated=True)})
    assert not any("height" in row for row in rows_of(chart))
    assert "Grey" not in chart.note


def test_many_faults_are_drawn_as_far_as_a_picture_can_show_them():
    faults = [FaultResult(t=float(t), kind="kill_subtask", what="") for t in range(1000)]
    result = msgspec.structs.replace(unaligned_result(), faults=faults)

    drawn = [row for row in event_rows({"on": result}) if row["event"] == FAULT]

    assert [row["t"] for row in drawn] == [float(t) for t in range(MAX_EVENTS)]


@pytest.mark.parametrize(
    "results",
    [
        sample_results(),
        {"sample": sample_result(debloated=True)},
        {"unaligned": unaligned_result()},
    ],
)
def test_pngs_have_the_size_of_their_panels(results):
    for chart in charts(results):
        png = to_png(chart, scale=1)
        width, height = struct.unpack(">II", png[16:24])
        assert png.startswith(b"\x89PNG")
        assert 2 * PANEL_WIDTH < width < 2 * PANEL_WIDTH + 170
        assert 200 < height < 700


def test_colours_differ_and_suffice():
    assert len(set(PALETTE)) == len(PALETTE) == MAX_SUBTASKS


def test_every_axis_with_numbers_has_a_unit_or_says_what_is_counted():
    pictures = [*charts(sample_results()), *charts({"one": unaligned_result()})]
    titles = [title for chart in pictures for title in axes_of(chart.spec)]
    assert len(titles) > 2 * len(pictures)
    assert [title for title in titles if not has_unit(title)] == []


@pytest.mark.parametrize("results", [sample_results(), {"unaligned": unaligned_result()}], ids=len)
def test_the_axis_of_time_ends_where_the_run_ends(results):
    end = max(result.emulated_seconds for result in results.values())
    for chart in charts(results):
        domains = [
            layer["encoding"]["x"].get("scale", {}).get("domain") for layer in chart.spec["spec"]["layer"]
        ]
        assert [domain for domain in domains if domain] == [[0, end]], chart.name
        assert max(row.get("until", row["t"]) for row in rows_of(chart) if "t" in row) <= end, chart.name


def test_lines_of_subtasks_that_coincide_are_told_apart_by_their_widths():
    chart = queue_length({"on": sample_result(debloated=True)})
    (scale,) = (layer["encoding"]["strokeWidth"]["scale"] for layer in chart.spec["spec"]["layer"]
                if "strokeWidth" in layer["encoding"])  # fmt: skip
    assert scale["domain"] == [f"subtask {index}" for index in range(SUBTASKS)]
    assert scale["type"] == "ordinal"  # else only the first two widths count
    assert scale["range"] == sorted(set(scale["range"]))
    drawn = list(dict.fromkeys(row["subtask"] for row in rows_of(chart)))
    assert drawn == scale["domain"][::-1]  # the widest first, below the others
    assert "Lines of subtasks with equal values" in chart.note


def test_the_title_of_queues_counts_what_their_axis_counts():
    chart = queue_length({"on": sample_result(debloated=True)})
    rows = [row for row in rows_of(chart) if row["t"] == 10]
    sent, received = (
        sum(row["buffers"] for row in rows if row["place"].endswith(end)) for end in ("sending", "receiving")
    )
    assert chart.title == f"Buffers that wait at senders and receivers: {sent} + {received}"
