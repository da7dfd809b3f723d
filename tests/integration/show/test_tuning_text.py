"""Tables, pictures and sentences of recommendations whose figures are made up to show something."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from io import StringIO
from typing import Any

import msgspec
import pytest
import vl_convert
from rich.console import Console

from integration.advise.sweeps.axes import option_axes
from integration.advise.tune.recommend import Recommendation
from integration.advise.tune.settings import Question
from integration.runs.window_figures import Measures
from integration.show.charts.chart_style import VEGA_LITE, Chart, to_png, to_svg
from integration.show.charts.run_charts import charts
from integration.show.charts.tuning_charts import times_by_target, trade_off, tuning_charts
from integration.show.terminal.documents import Tuning
from integration.show.terminal.tuning import print_tuning
from tests.integration.advise.tune.made_up import SCENARIO, MeasuresOf, advice, measures, recommendation
from tests.integration.sample_results import sample_results

CURVE = {
    "now": (2000.0, 1000.0),
    "target 50 ms": (60.0, 900.0),
    "target 100 ms": (110.0, 960.0),
    "target 300 ms": (320.0, 998.0),
    "target 1 s": (1050.0, 1000.0),
}
"""Checkpoint time in ms and records per second of some settings; the others are like now."""


def curve(name: str, seed: int) -> Measures:
    if name == "unaligned":
        return measures(30.0, 1000.0, delay_ms=2000.0, stored=2e6)
    time, rate = CURVE.get(name, CURVE["now"])
    return measures(time + seed, rate)


def found_in(figures: MeasuresOf = curve, **limits: float) -> Recommendation:
    return recommendation(figures, **limits)


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


def rows_of(chart: Chart) -> list[dict[str, Any]]:
    """The marks of a trade-off."""
    return [row for values in chart.spec["datasets"].values() for row in values if "setting" in row]


def test_the_trade_off_marks_the_present_the_recommended_and_the_alternative_setting() -> None:
    chart = trade_off([found_in()])
    assert chart is not None
    assert chart.title.endswith(": recommended is target 300 ms")
    said = {row["setting"]: row["said"] for row in rows_of(chart) if row["said"]}
    assert said == {"debloating off": "now", "target 300 ms": "recommended", "unaligned": "alternative"}
    assert to_png(chart).startswith(b"\x89PNG")


def test_an_interval_that_reaches_zero_ends_on_the_logarithmic_axis() -> None:
    chart = trade_off([found_in(lambda name, seed: measures(9000.0 if seed == 1 else 10.0))])
    assert chart is not None
    rows = rows_of(chart)
    assert rows
    assert all(0 < row["ms_least"] <= row["ms"] for row in rows)


def test_a_legend_explains_the_outlines_of_the_trade_off() -> None:
    chart = trade_off([found_in()])
    assert chart is not None
    _, legend = vl_convert.vegalite_to_vega(chart.spec, vl_version=VEGA_LITE)["legends"]
    assert {"shape", "stroke", "size"} <= legend.keys()
    (outline,) = [layer for layer in chart.spec["layer"] if "stroke" in layer["encoding"]]
    assert outline["encoding"]["shape"]["scale"] == {
        "domain": ["recommended", "now", "alternative"],
        "range": ["circle", "square", "diamond"],
    }


def test_the_legend_has_every_setting_and_each_has_a_look_of_its_own() -> None:
    chart = trade_off([found_in()])
    assert chart is not None
    (marks,) = [layer["encoding"] for layer in chart.spec["layer"] if "tooltip" in layer["encoding"]]
    colour, shape = marks["color"], marks["shape"]
    names = [row["setting"] for row in rows_of(chart)]
    assert colour["scale"]["domain"] == shape["scale"]["domain"] == names
    looks = list(zip(colour["scale"]["range"], shape["scale"]["range"], strict=True))
    assert len(set(looks)) == len(names)
    of_settings, _ = vl_convert.vegalite_to_vega(chart.spec, vl_version=VEGA_LITE)["legends"]
    assert {"fill", "shape"} <= of_settings.keys(), "one legend for colour and shape"


def test_the_marks_take_at_least_half_of_the_throughput_axis_however_long_their_bars_are() -> None:
    def noisy(name: str, seed: int) -> Measures:
        time, rate = CURVE.get(name, CURVE["now"])
        return measures(time, rate + 20 * (seed - 1) * (name == "target 300 ms"))

    chart = trade_off([found_in(noisy)])
    assert chart is not None
    shares = [row["share"] for row in rows_of(chart)]
    (domain,) = {
        tuple(layer["encoding"]["y"]["scale"]["domain"])
        for layer in chart.spec["layer"]
        if "scale" in layer["encoding"]["y"]
    }
    assert domain[0] < min(shares)
    assert max(shares) < domain[1]
    assert max(shares) - min(shares) > 0.5 * (domain[1] - domain[0])
    assert "Bars that end at the edge go on beyond it." in chart.note


def test_logarithmic_axes_say_so() -> None:
    for chart in tuning_charts([found_in()]):
        axes = [
            layer["encoding"][channel]
            for layer in chart.spec["layer"]
            for channel in ("x", "y")
            if layer["encoding"].get(channel, {}).get("scale", {}).get("type") == "log"
        ]
        assert axes
        assert all(axis["title"].endswith("(logarithmic)") for axis in axes)


def test_several_conditions_are_curves_of_one_picture_and_each_has_its_table() -> None:
    timeout = "execution.buffer-timeout"
    found = advice(curve, axes=option_axes([f"{timeout}=1ms,2ms"])).recommendations
    (chart,) = tuning_charts(found)
    assert f"({timeout} 1 ms); " in chart.title
    lines = printed(found).splitlines()
    assert [line for line in lines if line.startswith(timeout)] == [f"{timeout} 1 ms", f"{timeout} 2 ms"]
    assert sum("\u2500" in line for line in lines) == 2


def test_a_legend_has_the_colours_of_its_lines() -> None:
    chart = times_by_target(found_in())
    assert chart is not None
    svg = to_svg(chart)
    symbols = re.findall(r'<g class="mark-symbol role-legend-symbol".*?</g>', svg)
    assert [re.findall(r'opacity="([\d.]+)"', symbol) for symbol in symbols] == [["1"]] * 3


def test_the_title_of_an_axis_of_times_stands_beside_its_labels() -> None:
    chart = times_by_target(found_in())
    assert chart is not None
    config = {"axis": {"labelFontSize": 12}, "axisY": {"minExtent": 32, "maxExtent": 32}}  # as on the page
    svg = vl_convert.vegalite_to_svg(chart.spec, vl_version=VEGA_LITE, config=config)
    axis = svg[svg.index("Y-axis titled 'time (logarithmic)'") :]
    end, label = re.findall(r'text-anchor="end" transform="translate\((-?\d+),[^>]*>(700 ms)<', axis)[0]
    title = re.search(r"translate\((-\d+),[^)]*\) rotate\(-90\)", axis)
    assert title is not None
    assert float(title[1]) < float(end) - 6.0 * len(label)


def test_pictures_give_the_browser_nothing_to_warn_of() -> None:
    """Vega-Lite warns of sizes and widths by the value of a nominal field."""
    for chart in [*tuning_charts([found_in()]), *charts(sample_results())]:
        encodings = re.findall(r'"(?:size|strokeWidth)": \{[^{}]*"type": "(\w+)"', json.dumps(chart.spec))
        assert "nominal" not in encodings


def test_without_checkpoints_there_is_no_trade_off() -> None:
    found = found_in(lambda name, seed: Measures(throughput_per_s=1000.0))
    assert trade_off([found]) is None
    assert times_by_target(found) is None


def test_failed_points_are_named_and_the_first_of_many_only() -> None:
    found = found_in(lambda name, seed: None if "unaligned" in name else curve(name, seed))
    many = msgspec.structs.replace(found, failures=[f"{found.failures[0]}{number}" for number in range(10)])
    assert "Some runs failed; the first: unaligned, seed 1 (main): out of luck" in printed([many])
    text = printed([many], verbose=True)
    assert text.count("failed: ") == 7
    assert "failed: and 4 more points" in text


@pytest.mark.parametrize("least", [0.99, 0.5])
def test_text_fits_the_terminal_and_names_what_made_it(least: float) -> None:
    found = found_in(min_throughput=least)
    lines = printed([found], verbose=True).splitlines()
    assert any(
        line.startswith("made-up  flink-2.2, seeds 1, 2, virtual clock, netstack 0.1") for line in lines
    )
    assert max(map(len, lines)) <= 80
    assert lines[-2:] == ["netstack tune x", "next: netstack diagnose x"]
    shorter = printed([found]).splitlines()
    assert lines[: len(shorter) - 1] == shorter[:-1], "details come after the result"


def test_the_verdict_comes_first_then_the_lines_to_paste_the_alternative_and_one_table() -> None:
    lines = printed([found_in()]).splitlines()
    assert " ".join(" ".join(lines[:2]).split()) == (
        "Set the debloat target to 300 ms: checkpoints take 322 ms instead of 2.00 s, throughput unchanged."
    )
    assert lines[3:5] == [
        "  taskmanager.network.memory.buffer-debloat.enabled: true",
        "  taskmanager.network.memory.buffer-debloat.target: 300 ms",
    ]
    assert lines[6] == "Restart the task managers: they read these options only when they start."
    assert lines[7].startswith("Fastest: take unaligned checkpoints; checkpoints take 30 ms instead of")
    head = next(number for number, line in enumerate(lines) if line.startswith("setting "))
    assert lines[head].split() == ["setting", "put", "point", "95", "%", "worst", "record", "stored"]
    rows = [" ".join(line.split()) for line in lines[head + 2 : head + 6]]
    assert rows == [
        "now: debloating off 100.0 % 2.00 s 2.00 s - 2.00 s 0",
        "target 50 ms 90.0 % 61 ms 61 ms - 61 ms 0 over limit",
        "target 100 ms 96.0 % 111 ms 111 ms - 111 ms 0",
        "target 200 ms 100.0 % 2.00 s 2.00 s - 2.00 s 0",
    ]
    assert sum("\u2500" in line for line in lines) == 1
    assert lines[-1] == "next: netstack diagnose x"
    assert not any(word in " ".join(lines) for word in ("Rule:", "seeds", "Pitfalls"))


def test_a_setting_over_a_limit_says_which_one_among_the_details() -> None:
    assert "target 50 ms: throughput falls to 90.0 %" in printed([found_in()], verbose=True)


def test_a_policy_that_flink_lacks_has_no_lines_to_paste() -> None:
    """The policy is faster at each target; the options for it would be in no Flink."""

    def faster(name: str, seed: int) -> Measures:
        if name.startswith("longest-when-unblocked, "):
            time, rate = CURVE.get(name.removeprefix("longest-when-unblocked, "), CURVE["now"])
            return measures(time / 2, rate)
        return curve(name, seed)

    question = Question(policies=["longest-when-unblocked"])
    text = printed(advice(faster, question=question).recommendations)
    assert " ".join(text.split()).startswith(
        "longest-when-unblocked is better: with longest-when-unblocked, target 300 ms, "
        "checkpoints take 160 ms"
    )
    assert "taskmanager." not in text
    assert "docs/TRY_A_CHANGE.md" in text
    assert sum("\u2500" in line for line in text.splitlines()) == 1


def test_where_the_jobs_own_policy_is_not_flinks_there_are_no_lines_and_the_reason_is_said() -> None:
    config = dataclasses.replace(SCENARIO.config, debloat_policy="longest-when-unblocked")
    text = printed([recommendation(curve, dataclasses.replace(SCENARIO, config=config))])
    assert text.startswith("Set the debloat target to 300 ms")
    assert "taskmanager." not in text
    assert "Flink does not have this policy" in text


def test_targets_that_differ_by_noise_share_a_row() -> None:
    def alike(name: str, seed: int) -> Measures:
        if name in ("target 100 ms", "target 200 ms", "target 300 ms"):
            return measures(200.0 + seed, 1000.0)
        return curve(name, seed)

    rows = [line[:26].rstrip() for line in printed([found_in(alike)]).splitlines()]
    found = [row for row in rows if re.match("targets? [123]00 ms", row)]
    assert found == ["targets 100 ms to 200 ms", "target 300 ms", "target 300 ms, unaligned"]
