"""Tables, pictures and sentences of recommendations whose figures are made up to show something."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from io import StringIO

import msgspec
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from integration.present.chart_style import VEGA_LITE, to_png, to_svg
from integration.present.documents import Tuning
from integration.present.run_charts import charts
from integration.present.tuning import mark, mark_in_words, print_tuning, target_table
from integration.present.tuning_charts import (
    HEIGHT,
    NARROW,
    NOWHERE,
    WIDTH,
    label_boxes,
    placed,
    times_by_target,
    trade_off,
    tuning_charts,
)
from integration.tuning.constraints import Constraints
from integration.tuning.measures import Measures
from integration.tuning.point_rows import PointRow, failed_row
from integration.tuning.points import Probe, point_of
from integration.tuning.recommend import Recommendation, recommendations
from integration.tuning.remedies import Remedy
from netstack import Edge, GeneratorSpec, NetworkConfig, Scenario, Vertex
from tests.integration.sample_results import sample_results

SCENARIO = Scenario(
    name="made-up",
    duration_s=20.0,
    vertices=(
        Vertex(name="source", source=GeneratorSpec(record_bytes=100)),
        Vertex(name="sink", service=((0.0, 0.001),)),
    ),
    edges=(Edge(source="source", target="sink"),),
    config=NetworkConfig(checkpoint_interval_s=1.0),
)

CURVE = {"50 ms": (60.0, 800.0), "100 ms": (110.0, 960.0), "500 ms": (520.0, 995.0), "1 s": (1050.0, 1000.0)}
"""Checkpoint time in ms and records per second of each target, with a knee at 100 ms."""

SEEDS = (1, 2, 3, 4, 5)


def row(labels: dict[str, str], seed: int, time_ms: float, rate: float, probe: Probe = "main") -> PointRow:
    measures = Measures(
        throughput_per_s=rate,
        start_delay_ms=0.9 * time_ms,
        end_to_end_ms=time_ms + seed,
        end_to_end_p95_ms=1.1 * time_ms,
        record_delay_ms=0.8 * time_ms,
        record_delay_p95_ms=0.9 * time_ms,
        in_flight_bytes=100 * time_ms,
        checkpoints_completed=10,
    )
    return PointRow(
        key=f"{labels}{seed}{probe}",
        name="made-up",
        labels=labels,
        seed=seed,
        probe=probe,
        status="finished",
        wall_seconds=0.1,
        versions={"netstack": "0.1.0"},
        measures=measures,
    )


def rows(conditions: dict[str, str] | None = None, slower: float = 1.0) -> list[PointRow]:
    own = conditions or {}
    found = [row(own, seed, 2000.0 * slower, 1000.0, "baseline") for seed in SEEDS]
    for target, (time, rate) in CURVE.items():
        found += [row({"target": target} | own, seed, time * slower, rate) for seed in SEEDS]
    return found


def found_in(points: Sequence[PointRow], **constraints: float) -> list[Recommendation]:
    return recommendations(points, SCENARIO, Constraints(**constraints))


def printed(found: Sequence[Recommendation], *, verbose: bool = False) -> str:
    console = Console(width=80, record=True, file=StringIO())
    tuning = Tuning(
        command="netstack tune x",
        scenario={"preset": "flink-2.2"},
        notes=[],
        recommendations=list(found),
        pitfalls=[],
        points=[],
    )
    print_tuning(tuning, console, following="netstack diagnose x", verbose=verbose)
    return console.export_text()


def test_the_row_of_a_target_says_whether_it_is_set_the_knee_or_what_it_breaks() -> None:
    (found,) = found_in(rows(), min_throughput=0.99)
    assert {one.target: mark(found, one) for one in found.targets} == {
        "50 ms": "thr.",
        "100 ms": "thr.",
        "500 ms": "set",
        "1 s": "",
    }
    knee = found.targets[1]
    assert mark_in_words(found, knee).startswith("knee; throughput is 0.960 of the original")
    assert found.baseline is not None
    assert mark(found, found.baseline) == "now"


def test_the_trade_off_marks_what_is_set_now_the_knee_and_the_recommended_target() -> None:
    chart = trade_off(found_in(rows(), min_throughput=0.99))
    assert chart is not None
    assert chart.title.endswith(": recommended is 500 ms")
    marks = chart.spec["datasets"] if "datasets" in chart.spec else {"": chart.spec["data"]["values"]}
    labels = [mark["label"] for values in marks.values() for mark in values if "label" in mark]
    sides = [mark["side"] for values in marks.values() for mark in values if "label" in mark]
    assert NOWHERE not in sides
    assert labels == ["50 ms", "100 ms: knee", "500 ms: recommended", "1 s", "no debloating: now"]
    assert to_png(chart).startswith(b"\x89PNG")


def test_a_legend_explains_the_outlines_of_the_trade_off() -> None:
    chart = trade_off(found_in(rows(), min_throughput=0.99))
    assert chart is not None
    (legend,) = vl_convert.vegalite_to_vega(chart.spec, vl_version=VEGA_LITE)["legends"]
    assert {"shape", "stroke", "size"} <= legend.keys()
    (outline,) = [layer for layer in chart.spec["layer"] if "shape" in layer["encoding"]]
    assert outline["encoding"]["shape"]["scale"] == {
        "domain": ["recommended", "now", "no debloating", "knee"],
        "range": ["circle", "square", "diamond", "triangle-up"],
    }
    drawn = chart.spec["datasets"][outline["data"]["name"]] if "name" in outline["data"] else None
    marks = drawn if drawn is not None else outline["data"]["values"]
    assert sorted(mark["meaning"] for mark in marks) == ["knee", "no debloating", "now", "recommended"]


FIGURES = st.tuples(st.floats(5, 1e5), st.floats(80, 120), st.booleans())


@given(st.lists(FIGURES, min_size=1, max_size=14))
def test_no_name_in_the_trade_off_covers_another_or_a_mark(marks: list[tuple[float, float, bool]]) -> None:
    drawn = [
        {
            "ms": ms,
            "ms_least": ms,
            "ms_most": ms,
            "share": share,
            "share_least": share,
            "share_most": share,
            "said": "recommended" if said else "",
            "meanings": ["recommended"] if said else [],
            "label": f"{number}00 ms" + (": recommended" if said else ""),
        }
        for number, (ms, share, said) in enumerate(marks)
    ]
    rows_placed = placed(drawn)
    for narrow, width in ((False, WIDTH), (True, NARROW)):
        names = label_boxes(rows_placed, narrow=narrow)
        assert not any(one.covers(other) for one, other in itertools.combinations(names, 2))
        assert all(
            box.left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= HEIGHT for box in names
        )
    if len(marks) == 1:
        assert rows_placed[0]["side"] != NOWHERE


def test_queues_that_settle_in_some_runs_only_are_shown_as_that() -> None:
    stepped = [
        replaced(rows()[-1], probe="step", seed=seed, adaptation_ms=ms)
        for seed, ms in ((1, 26_000.0), (2, None), (3, None))
    ]
    (found,) = found_in([*rows(), *stepped])
    assert adapts(found) == "1/3"
    (never,) = found_in([*rows(), *stepped[1:]])
    assert adapts(never) == "0/2"


def adapts(found: Recommendation) -> str:
    """The last figure of the longest target, in the table of all figures."""
    *_, last = [line for line in printed([found], verbose=True).splitlines() if line.startswith("1 s ")]
    return last.split()[11]


def replaced(one: PointRow, *, probe: Probe, seed: int, **measures: float | None) -> PointRow:
    assert one.measures is not None
    return msgspec.structs.replace(
        one, probe=probe, seed=seed, measures=msgspec.structs.replace(one.measures, **measures)
    )


def test_several_conditions_are_curves_of_one_picture() -> None:
    found = found_in([*rows({"skew": "1:1"}), *rows({"skew": "1:4"}, slower=2.0)], min_throughput=0.9)
    (chart,) = tuning_charts(found)
    assert "(skew 1:1); " in chart.title
    lines = printed(found).splitlines()
    assert [line for line in lines if line in ("skew 1:1", "skew 1:4")] == ["skew 1:1", "skew 1:4"]
    assert sum("\u2500" in line for line in lines) == 1, "one table, of what is advised"
    assert [line.split()[:4] for line in lines[-4:-2]] == [
        ["skew", "1:1", "100", "ms"],
        ["skew", "1:4", "100", "ms"],
    ]


def test_a_legend_has_the_colours_of_its_lines() -> None:
    chart = times_by_target(found_in(rows(), min_throughput=0.99)[0])
    assert chart is not None
    svg = to_svg(chart)
    symbols = re.findall(r'<g class="mark-symbol role-legend-symbol".*?</g>', svg)
    assert [re.findall(r'opacity="([\d.]+)"', symbol) for symbol in symbols] == [["1"]] * 3


def test_the_title_of_an_axis_of_times_stands_beside_its_labels() -> None:
    chart = times_by_target(found_in(rows(), min_throughput=0.99)[0])
    assert chart is not None
    config = {"axis": {"labelFontSize": 12}, "axisY": {"minExtent": 32, "maxExtent": 32}}  # as on the page
    svg = vl_convert.vegalite_to_svg(chart.spec, vl_version=VEGA_LITE, config=config)
    axis = svg[svg.index("Y-axis titled 'time'") :]
    end, label = re.findall(r'text-anchor="end" transform="translate\((-?\d+),[^>]*>(700 ms)<', axis)[0]
    title = re.search(r"translate\((-\d+),[^)]*\) rotate\(-90\)", axis)
    assert title is not None
    assert float(title[1]) < float(end) - 6.0 * len(label)


def test_pictures_give_the_browser_nothing_to_warn_of() -> None:
    """Vega-Lite warns of sizes and widths by the value of a nominal field."""
    found = found_in(rows(), min_throughput=0.99)
    for chart in [*tuning_charts(found), *charts(sample_results())]:
        encodings = re.findall(r'"(?:size|strokeWidth)": \{[^{}]*"type": "(\w+)"', json.dumps(chart.spec))
        assert "nominal" not in encodings


def test_without_checkpoints_there_is_no_trade_off() -> None:
    bare = [
        PointRow(**{name: getattr(one, name) for name in one.__struct_fields__} | {"measures": rated(one)})
        for one in rows()
    ]
    (found,) = found_in(bare)
    assert trade_off([found]) is None
    chart = times_by_target(found)
    assert chart is None


def rated(one: PointRow) -> Measures:
    return Measures(throughput_per_s=one.measures.throughput_per_s if one.measures else None)


def test_failed_points_are_named_and_the_first_of_many_only() -> None:
    failed = [failed_row(point_of(SCENARIO, {"target": "50 ms"}, seed), "no room") for seed in range(10, 20)]
    found = found_in([*rows(), *failed], min_throughput=0.9)
    assert "Some runs failed; the first: target 50 ms, seed 10 (main): no room" in printed(found)
    text = printed(found, verbose=True)
    assert text.count("failed: ") == 7
    assert "failed: target 50 ms, seed 10 (main): no room" in text
    assert "failed: and 4 more points" in text


@pytest.mark.parametrize("least", [0.99, 0.5])
def test_text_fits_the_terminal_and_names_what_made_it(least: float) -> None:
    found = found_in(rows(), min_throughput=least)
    lines = printed(found, verbose=True).splitlines()
    assert "made-up  flink-2.2, seeds 1-5, virtual clock, netstack 0.1.0; now: off" in lines
    assert max(map(len, lines)) <= 80
    assert lines[-2:] == ["netstack tune x", "next: netstack diagnose x"]
    shorter = printed(found).splitlines()
    assert lines[: len(shorter) - 1] == shorter[:-1], "details come after the result"


def test_the_verdict_comes_first_then_the_lines_to_paste_and_one_table() -> None:
    lines = printed(found_in(rows(), min_throughput=0.99)).splitlines()
    assert " ".join(" ".join(lines[:2]).split()) == (
        "Set the debloat target to 500 ms: checkpoints take 523 ms instead of 2.00 s, throughput unchanged."
    )
    assert lines[3:5] == [
        "  taskmanager.network.memory.buffer-debloat.enabled: true",
        "  taskmanager.network.memory.buffer-debloat.target: 500 ms",
    ]
    assert lines[6].split() == ["target", "throughput", "checkpoint", "95", "%"]
    assert [line.split() for line in lines[8:10]] == [
        ["off", "100.0", "%", "2.00", "s", "2.20", "s", "now"],
        ["50", "ms", "80.0", "%", "63", "ms", "66", "ms", "throughput", "too", "low"],
    ]
    assert lines[-1] == "next: netstack diagnose x"
    assert not any(word in " ".join(lines) for word in ("Rule:", "Knee:", "seeds", "Pitfalls"))


def test_what_helps_beside_a_target_is_in_the_verdict_and_among_the_lines_to_paste() -> None:
    (found,) = found_in(rows(), min_throughput=0.99)
    line = "taskmanager.network.adaptive-partitioner.enabled: true"
    remedy = Remedy(name="adaptive partition selection", why="throughput is 3.2", configuration=[line])
    text = printed([msgspec.structs.replace(found, remedies=[remedy])])
    verdict, *_ = text.split("\ntarget ")
    assert "This helps as well: adaptive partition selection: throughput is 3.2 (estimated)." in verdict
    assert f"buffer-debloat.target: 500 ms\n  {line}\n" in verdict


def test_another_policy_is_compared_with_the_best_of_flinks_in_one_table() -> None:
    """The policy is faster at each target; the options for it would be in no Flink."""
    found = found_in([*rows({"policy": "flink"}), *rows({"policy": "my:Policy"}, slower=0.5)])
    text = printed(found)
    lines = text.splitlines()
    assert " ".join(" ".join(lines[:2]).split()) == (
        "my:Policy is better than flink: with a target of 500 ms checkpoints take 263 ms instead of 523 ms "
        "with flink at 500 ms, throughput unchanged."
    )
    assert "taskmanager." not in text
    assert "docs/TRY_A_CHANGE.md" in text
    assert sum("\u2500" in line for line in lines) == 1
    table = [line.split() for line in lines if line.startswith(("flink ", "my:Policy "))]
    assert [row[1] for row in table if row[0] == "my:Policy"].count("off") == 0
    assert [(*row[:2], row[-1]) for row in table if row[-1] in ("now", "set", "better")] == [
        ("flink", "off", "now"),
        ("flink", "500", "set"),
        ("my:Policy", "500", "better"),
    ]


def test_where_another_policy_is_not_better_the_lines_are_flinks() -> None:
    found = found_in([*rows({"policy": "flink"}), *rows({"policy": "my:Policy"})])
    lines = printed(found).splitlines()
    assert lines[0].startswith("my:Policy is not shown to be better than flink: checkpoints take 523 ms")
    assert "  taskmanager.network.memory.buffer-debloat.target: 500 ms" in lines
    own, other = found
    assert (other.configuration, other.reference) == ([], own.advised)


def test_figures_stay_whole_beside_many_marks() -> None:
    rows = [row({}, 1, 1250.0, 1000.0, "baseline"), row({"target": "1500 ms"}, 1, 1249.0, 900.0)]
    full = {"start_delay_ms": 1243.0, "alignment_ms": 1111.0, "persisted_bytes": 1e6, "adaptation_ms": 6e3}
    rows += [
        msgspec.structs.replace(
            one, probe=probe, measures=msgspec.structs.replace(one.measures or Measures(), **full)
        )
        for one in rows[1:]
        for probe in ("unaligned", "step", "main")
    ]
    found = recommendations(rows, SCENARIO, Constraints(max_checkpoint_ms=1.0, max_delay_ms=1.0))
    console = Console(file=StringIO(), width=80)
    console.print(target_table(found[0]))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\u2026" not in text
    assert max(map(len, text.splitlines())) <= 80
