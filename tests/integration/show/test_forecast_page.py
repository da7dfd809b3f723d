"""The page of a forecast: its sentences, charts over the load and over time, and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flowcontrol import FailureReason
from integration.advise.forecast.forecast import Forecast
from integration.advise.sweeps.restart_drill import outage_times
from integration.base.number_text import NOTHING
from integration.show.charts.chart_style import Chart
from integration.show.charts.forecast_charts import (
    EXPIRED_MARK,
    FAILED_MARK,
    KEPT_UP,
    MOST_BARS,
    TOO_MUCH,
    drill_charts,
    forecast_charts,
    reading_rates,
)
from integration.show.page.pages import write_forecast
from integration.show.terminal.forecast import (
    autoscaler_text,
    drill_cells,
    drill_text,
    duration_text,
    forecast_words,
    load_rows,
    scaling_table,
)
from netstack import CheckpointStatus, Result
from tests.integration.axes import axes_of, has_unit
from tests.integration.show.made_up_forecast import (
    SCENARIO,
    TARGET,
    curve,
    drill,
    drills,
    forecast,
    headroom,
    point,
)
from tests.integration.show.test_report import Page

OVER_LOAD = ["load-checkpoints", "load-throughput", "load-delay"]
OVER_TIME = ["restart-backlog", "restart-reading", "restart-checkpoints"]


COMMAND = "netstack forecast paced.toml --restart 10s"


def rows_of(chart: Chart) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chart.spec["datasets"][chart.spec["data"]["name"]]
    return found


def values_of(chart: Chart) -> list[dict[str, Any]]:
    """All rows that layers draw from data of their own."""
    names = [layer["data"]["name"] for layer in chart.spec["layer"] if "data" in layer]
    return [row for name in dict.fromkeys(names) for row in chart.spec["datasets"][name]]


def over_load(name: str, shown: Forecast | None = None) -> Chart:
    (chart,) = (each for each in forecast_charts(shown or forecast()) if each.name == name)
    return chart


def over_time(name: str, results: dict[str, Result] | None = None) -> Chart:
    (chart,) = (each for each in drill_charts(forecast(), results or drills()) if each.name == name)
    return chart


def every_chart() -> list[Chart]:
    return [*forecast_charts(forecast()), *drill_charts(forecast(), drills())]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forecast")
    write_forecast(
        folder, forecast(), SCENARIO, drills(), command="netstack forecast paced.toml --restart 10s"
    )
    return folder


@pytest.fixture(scope="module")
def page(directory: Path) -> Page:
    return Page((directory / "report.html").read_text("utf-8"))


def test_the_sentences_name_the_limit_the_outage_and_one_more_subtask() -> None:
    took = [drill_text(each) for each in forecast().restarts]
    assert forecast_words(forecast()) == [
        "sink is the first to reach its limit, at 2 times today's load.",
        "There, checkpoints take 5.00 s. With target 300 ms, they take 400 ms, and the limit is 2.04.",
        *took,
        "With 2 instead of 1 subtasks of sink, the limit is 3.5 instead of 2.04 (then source is first). This "
        "needs 2 slots instead of 1, and 2.00 MiB more network memory to start.",
        "The keys of each present subtask count as evenly spread; a single hot key cannot be divided.",
    ]


def test_a_drill_says_what_happens_to_the_job_and_its_checkpoints() -> None:
    one = replace(
        forecast().restarts[0], caught_up_s=61.0, emulated_s=61.0, checkpoint_ms=1500.0, checkpoints_expired=0
    )
    assert (
        drill_text(one) == "Down 10 s: caught up after 61 s; checkpoints take 1.50 s meanwhile, none expires."
    )
    late = replace(one, setting=TARGET, caught_up_s=4000.0, checkpoints_expired=2, checkpoints_failed=3)
    assert drill_text(late) == (
        "Down 10 s, with target 300 ms: caught up after about 67 min; checkpoints take 1.50 s meanwhile, 2 "
        "checkpoints expire, 1 other checkpoint fails."
    )
    never = replace(one, caught_up_s=None, checkpoint_ms=None, restarts=1)
    assert drill_text(never) == (
        "Down 10 s: it does not catch up; no checkpoint completes meanwhile, none expires, the job restarts "
        "1 more time."
    )
    assert drill_cells(never)[0] == NOTHING
    assert drill_cells(late)[:4] == ["about 67 min", str(one.checkpoints_completed), "2", "1"]


def test_durations_are_in_seconds_and_from_two_minutes_on_in_minutes() -> None:
    assert [duration_text(each) for each in (0.4, 119.4, 120.0, 234.0, 1140.0)] == [
        "0 s", "119 s", "2 min", "3.9 min", "19 min",
    ]  # fmt: skip


def test_rows_over_the_load_mark_the_limit_and_what_is_beyond_it() -> None:
    rows = load_rows(curve("now", 5000.0))
    assert [row.texts[0] for row in rows] == ["0.5", "1", "1.8", "2 limit", "3"]
    assert [(row.is_limit, row.is_beyond) for row in rows[2:]] == [
        (False, False),
        (True, False),
        (False, True),
    ]
    assert [row.texts[5] for row in rows] == ["25 ms", "50 ms", "90 ms", "grows", "grows"]


def test_one_more_subtask_is_compared_with_the_recommended_setting() -> None:
    heads, rows = scaling_table(forecast())
    assert heads == ["1 subtask", "2 subtasks"]
    assert rows == [
        ("limit, as a multiple of today's load", "2.04", "3.5"),
        ("first at its limit", "sink", "source"),
        ("checkpoint at today's load", "100 ms", "60 ms"),
        ("slots", "1", "2"),
        ("network memory to start", "1.00 MiB", "3.00 MiB"),
    ]
    assert scaling_table(replace(forecast(), scaling=None)) == ([], [])


def test_charts_over_the_load_show_both_settings_and_whether_the_job_keeps_up() -> None:
    assert [chart.name for chart in forecast_charts(forecast())] == OVER_LOAD
    kinds = {(row["setting"], row["load"]): row["kind"] for row in rows_of(over_load("load-throughput"))}
    assert kinds == {
        (setting, load): KEPT_UP if load < 2 else TOO_MUCH
        for setting, limit in (("now", 2.0), (TARGET, 2.04))
        for load in (0.5, 1.0, 1.8, limit, 3.0)
    }
    assert {row["load"] for row in rows_of(over_load("load-delay"))} == {0.5, 1.0, 1.8}


def test_rules_stand_at_todays_load_and_at_each_limit() -> None:
    for chart in forecast_charts(forecast()):
        rules = {row["text"]: row["load"] for row in values_of(chart) if "text" in row}
        assert rules == {"today": 1.0, "limit 2 (now)": 2.0, f"limit 2.04 ({TARGET})": 2.04}


def test_a_job_without_a_limit_has_only_the_rule_of_today() -> None:
    points = [point(load, 100.0, 99.0) for load in (1.0, 64.0)]
    alone = curve("now", 1.0)
    unlimited = replace(alone, headroom=headroom(64.0, is_bounded=False), points=points)
    shown = replace(forecast(), curves=[unlimited], scaling=None, restarts=[])
    chart = over_load("load-checkpoints", shown)
    assert [row["text"] for row in values_of(chart)] == ["today"]
    assert chart.title == "Checkpoints over the load: 100 ms at the highest load"
    assert "The job keeps up with all of these loads." in chart.note
    assert drill_charts(shown, drills()) == []


def test_an_axis_of_times_is_logarithmic_only_if_the_times_need_it_and_says_so() -> None:
    wide = over_load("load-checkpoints")
    narrow = over_load("load-checkpoints", replace(forecast(), curves=[curve("now", 300.0)]))
    titles = [
        [title for title in axes_of(chart.spec) if title and "check" in title] for chart in (wide, narrow)
    ]
    assert set(titles[0]) == {"checkpoint (logarithmic)"}
    assert set(titles[1]) == {"checkpoint (ms)"}
    assert "logarithmic" in wide.note
    assert "logarithmic" not in narrow.note


def test_without_checkpoints_there_is_no_chart_of_them() -> None:
    points = [point(load, None, 2.0) for load in (1.0, 2.0)]
    shown = replace(forecast(), curves=[replace(curve("now", 1.0), points=points)])
    assert [chart.name for chart in forecast_charts(shown)] == OVER_LOAD[1:]


def test_charts_over_time_begin_with_the_outage_and_end_with_the_run() -> None:
    assert [chart.name for chart in drill_charts(forecast(), drills())] == OVER_TIME
    begin, over = outage_times(drill().scenario)
    for name in OVER_TIME:
        rows = rows_of(over_time(name))
        down = [row for row in rows if row.get("event") == "down"]
        assert [(row["setting"], row["t"]) for row in down] == [("now", begin - over), (TARGET, begin - over)]
        assert all(row["until"] >= 0 for row in down)
        caught_up = {row["setting"]: row["t"] for row in rows if row.get("event") == "caught up"}
        assert caught_up == {each.setting: each.caught_up_s for each in forecast().restarts}
        (domain,) = {
            tuple(layer["encoding"]["x"]["scale"]["domain"])
            for layer in over_time(name).spec["spec"]["layer"]
            if "scale" in layer["encoding"].get("x", {})
        }
        assert domain == (-over, drill().emulated_seconds - over)


def test_panels_of_settings_are_below_each_other_on_one_axis() -> None:
    for name in OVER_TIME:
        spec = over_time(name).spec
        assert list(spec["facet"]) == ["row"]
        assert spec["facet"]["row"]["sort"] == ["now", TARGET]
        assert "resolve" not in spec


def test_the_backlog_grows_while_the_job_is_down() -> None:
    rows = [row for row in rows_of(over_time("restart-backlog")) if row.get("setting") == "now"]
    records = {row["t"]: row["records"] for row in rows if "records" in row}
    assert max(records.values()) >= 8 * 40  # the rest is in flight again
    assert min(records.values()) == 0.0


def test_sources_read_faster_after_the_outage_and_the_rate_is_unknown_during_it() -> None:
    rates = dict(reading_rates(drill()))
    begin, over = outage_times(drill().scenario)
    assert all(rate is None for t, rate in rates.items() if begin <= t < over)
    before = [rate for t, rate in rates.items() if 5 < t < begin - 5]
    after = [rate for t, rate in rates.items() if over + 3 < t < over + 8]
    assert all(rate is not None and rate <= 45 for rate in before)
    assert sum(rate or 0.0 for rate in after) / len(after) > 60


def with_failures(result: Result, count: int = 1) -> Result:
    """A drill whose first checkpoint expired, and whose second one failed."""
    first, second, *others = result.checkpoints
    ended = [(first, FailureReason.EXPIRED), (second, FailureReason.DECLINED)]
    failed = [
        replace(each, status=CheckpointStatus.FAILED, failure=why, duration_ms=None) for each, why in ended
    ]
    return replace(result, checkpoints=[*failed, *others] * count)


def test_checkpoints_that_expire_or_fail_have_a_shape_and_a_colour_of_their_own() -> None:
    chart = over_time("restart-checkpoints", {"now": with_failures(drill())})
    kinds = [row["kind"] for row in rows_of(chart) if "kind" in row]
    assert sorted(set(kinds)) == ["completed", EXPIRED_MARK, FAILED_MARK]
    marks = [layer["mark"] for layer in chart.spec["spec"]["layer"]]
    assert [mark["shape"] for mark in marks if mark["type"] == "point"] == ["cross", "triangle-down"]
    assert "Red crosses: they expired. Red triangles: they failed." in chart.note
    assert "Red" not in over_time("restart-checkpoints").note


def test_a_chart_of_many_checkpoints_is_bounded_and_keeps_what_failed() -> None:
    many = with_failures(drill(), count=100)
    chart = over_time("restart-checkpoints", {"now": many})
    kinds = [row["kind"] for row in rows_of(chart) if "kind" in row]
    assert kinds.count("completed") <= MOST_BARS
    assert kinds.count(EXPIRED_MARK) == kinds.count(FAILED_MARK) == 100
    assert "completed checkpoints is drawn" in chart.note


def test_every_axis_of_a_forecast_has_a_unit_or_says_that_it_is_logarithmic() -> None:
    titles = [title for chart in every_chart() for title in axes_of(chart.spec)]
    assert titles != []
    assert all(has_unit(title) or str(title).endswith("(logarithmic)") for title in titles)


def test_files_of_the_page(directory: Path) -> None:
    pictures = [f"{name}.png" for name in (*OVER_LOAD, *OVER_TIME)]
    assert sorted(each.name for each in directory.iterdir()) == sorted(["report.html", *pictures])
    assert all((directory / name).read_bytes().startswith(b"\x89PNG") for name in pictures)


def test_the_page_has_the_sentences_options_tables_and_charts(page: Page) -> None:
    text = " ".join(page.texts).replace("\N{NO-BREAK SPACE}", " ")
    scaling = forecast().scaling
    assert scaling is not None
    for sentence in (*forecast_words(forecast()), autoscaler_text(scaling)):
        assert sentence in text
    assert "\n".join(forecast().recommendation.configuration) in text
    assert [chart["name"] for chart in json.loads(page.scripts[0])] == [*OVER_LOAD, *OVER_TIME]
    cells = [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in page.cells]
    assert cells.count("2 limit") == cells.count("2.04 limit") == 1
    assert cells.count(drill_cells(forecast().restarts[0])[0]) == 2
    assert text.count(COMMAND) == 1
    assert "source: 40.0/s" in text
    assert [each for each in page.fetched if each] == [f"{name}.png" for name in (*OVER_LOAD, *OVER_TIME)]


def test_a_page_without_a_drill_and_a_limit_has_no_parts_for_them(tmp_path: Path) -> None:
    shown = replace(forecast(), restarts=[], scaling=None, failures=["now, load 3: no measures"])
    write_forecast(tmp_path, shown, SCENARIO, {}, command="netstack forecast paced.toml")
    text = " ".join(Page((tmp_path / "report.html").read_text("utf-8")).texts)
    assert "restart drill" not in text.lower()
    assert "One more subtask" not in text
    assert "now, load 3: no measures" in text
