"""Views of objects in a notebook: a line, tables, pictures, and HTML that needs only the page around it."""

import dataclasses
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt
import msgspec
import pandas as pd
import pyarrow as pa
import pytest
from msgspec.structs import replace

from integration.advise.forecast.forecast import Forecast
from integration.advise.tune.recommend import Recommendation
from integration.base.errors import MissingExtraError
from integration.flink import Imported, Recording, import_scenario
from integration.runs.reference_comparison import ComparedFigure, Comparison, Spread
from integration.show.charts.chart_style import Chart, to_png, to_svg
from integration.show.charts.run_charts import charts
from integration.show.notebook.views import COMPARISON, FORECAST, IMPORTED, RECOMMENDATION, RESULT
from netstack import Result, Viewed
from tests.integration.advise.tune import made_up
from tests.integration.clusters import ROOT
from tests.integration.missing_extras import take_away
from tests.integration.sample_results import CONSUMER, SECONDS, SUBTASKS, sample_result
from tests.integration.show import made_up_forecast

NASTY = '</table><script>alert(1)</script> & "quotes" \x1b[31m'

CLASSES: list[tuple[type[Viewed], Any]] = [
    (Comparison, COMPARISON),
    (Forecast, FORECAST),
    (Imported, IMPORTED),
    (Recommendation, RECOMMENDATION),
    (Result, RESULT),
]


def result() -> Result:
    return sample_result(debloated=True)


def comparison(name: str = "2x2") -> Comparison:
    def row(quantity: str, ours: Spread | None, ok: bool) -> ComparedFigure:
        flink = Spread(100.0, 90.0, 110.0)
        ratio = None if ours is None else ours.median / 100.0
        return ComparedFigure(
            window="20-60 s", vertex=name, quantity=quantity, unit="ms", flink=flink, ours=ours, ratio=ratio,
            tolerance=15.0, ok=ok, why="tolerance" if ok else "outside",
        )  # fmt: skip

    near, far = Spread(105.0, 104.0, 106.0), Spread(150.0, 140.0, 160.0)
    rows = [row("end to end", near, True), row("start delay", far, False), row("alignment", None, False)]
    return Comparison(scenario=name, seeds=[1, 2], rows=rows)


def recommendation() -> Recommendation:
    return made_up.recommendation()


@cache
def imported() -> Imported:
    return import_scenario(Recording(ROOT / "docs" / "examples" / "wordcount_off.rest.json.gz"))


def each() -> list[Viewed]:
    return [comparison(), made_up_forecast.forecast(), imported(), recommendation(), result()]


def test_a_repr_is_one_short_line() -> None:
    assert [repr(shown) for shown in each()] == [
        "<Comparison of 2x2 with Flink, 2 seeds: 1 of 3 numbers is inside the tolerance>",
        "<Forecast of paced: sink is the first to reach its limit, at 2 times today's load.>",
        f"<Imported {imported().scenario.name} from Flink {imported().measured.flink}: "
        f"{len(imported().scenario.vertices)} vertices, {len(imported().notes)} notes>",
        f"<Recommendation for made-up, now debloating off, 11 settings tried: {recommendation().words[0]}>",
        "<Result of sample: 20 s of virtual time with seed 3, 2 vertices, 10 of 10 checkpoints completed>",
    ]


def test_a_repr_says_that_a_job_failed_in_one_line() -> None:
    failed = replace(result(), failure="first line\nsecond" + "x" * 1000)
    line = repr(failed)
    assert "failed for good: first line\\nsecondxxx" in line
    assert "\n" not in line
    assert len(line) < 400


def test_checkpoints_are_those_of_the_result() -> None:
    table = result().to_arrow("checkpoints")
    assert isinstance(table, pa.Table)
    assert table["duration_ms"].to_pylist() == [each.duration_ms for each in result().checkpoints]
    assert table["checkpointed_bytes"].to_pylist() == [each.state_bytes for each in result().checkpoints]


def test_series_have_a_row_for_each_subtask_and_sample() -> None:
    frame = result().to_pandas("series")
    assert isinstance(frame, pd.DataFrame)
    of_consumer = frame[(frame.vertex == CONSUMER) & (frame.subtask == 2)]
    (series,) = [each for each in result().series if each.vertex == CONSUMER]
    assert of_consumer.t.tolist() == series.t
    assert of_consumer.inputQueueLength.tolist() == series.inputQueueLength[2]
    assert len(frame) == sum(
        len(each.t) * len(each.numRecordsIn or each.numRecordsOut) for each in result().series
    )
    assert frame[frame.vertex != CONSUMER].debloatedBufferSize.isna().all()


def test_vertices_add_up_rates_and_leave_unknown_ones_unknown() -> None:
    table = result().to_arrow("vertices").to_pylist()
    consumer = next(row for row in table if row["vertex"] == CONSUMER)
    steady = next(vertex for vertex in result().steady[0].vertices if vertex.name == CONSUMER)
    assert consumer["records_in_per_s"] == sum(each or 0.0 for each in steady.records_in_per_s)
    holes = replace(steady, records_in_per_s=[None, *steady.records_in_per_s[1:]])
    holed = replace(result(), steady=[replace(result().steady[0], vertices=[holes])])
    assert holed.to_arrow("vertices")["records_in_per_s"].to_pylist() == [None]


def test_subtasks_of_checkpoints_have_their_parts() -> None:
    table = result().to_arrow("checkpoint_subtasks").to_pylist()
    first = result().checkpoints[0]
    expected = [
        (first.id, vertex.name, subtask, delay)
        for vertex in first.vertices
        for subtask, delay in enumerate(vertex.start_delay_ms)
    ]
    found = [(row["id"], row["vertex"], row["subtask"], row["start_delay_ms"]) for row in table]
    assert found[: len(expected)] == expected
    assert result().to_arrow("subtasks").num_rows == len(result().steady[0].vertices) * SUBTASKS


def test_tables_without_rows_have_their_columns() -> None:
    table = result().to_arrow("restarts")
    assert table.num_rows == 0
    assert {"failed_at", "cause", "tasks"} <= set(table.column_names)


def test_numbers_of_a_comparison_have_their_ranges() -> None:
    numbers = comparison().to_pandas()
    assert numbers[["ours", "ours_least", "ours_most"]].values.tolist()[0] == [105.0, 104.0, 106.0]
    assert numbers.ours.isna().tolist() == [False, False, True]
    assert numbers.ok.tolist() == [True, False, False]


def test_settings_of_a_recommendation_say_which_one_is_advised() -> None:
    settings = recommendation().to_pandas()
    assert settings.setting.tolist()[:3] == ["now", "target 50 ms", "target 100 ms"]
    assert settings.setting[settings.recommended].tolist() == ["target 500 ms"]
    assert settings.end_to_end_ms.tolist()[:2] == [6001.5, 81.0]
    several = settings[settings.seeds > 1]
    assert (several.end_to_end_ms_low <= several.end_to_end_ms).all()


def test_loads_of_a_forecast_have_a_row_for_each_setting_and_load() -> None:
    loads = made_up_forecast.forecast().to_arrow()
    assert loads.num_rows == 10
    assert loads.to_pylist()[0] == {
        "setting": "now", "limit": 2.0, "load": 0.5, "keeps_up": True, "throughput_per_s": 20.0,
        "checkpoint_ms": 50.0, "checkpoint_p95_ms": pytest.approx(55.0), "checkpoint_max_ms": 60.0,
        "record_delay_ms": 25.0, "in_flight_bytes": 5000.0, "persisted_bytes": 0.0, "checkpoints_expired": 0,
        "busiest_vertex": "sink", "busiest_subtask": 0, "busy_share": 0.25,
    }  # fmt: skip
    restarts = made_up_forecast.forecast().to_arrow("restarts").to_pylist()
    assert [(row["setting"], row["down_s"]) for row in restarts] == [("now", 10.0), ("target 300 ms", 10.0)]


def test_an_imported_job_has_what_flink_shows() -> None:
    vertices = imported().to_arrow("vertices")
    assert vertices["vertex"].to_pylist() == [each.name for each in imported().measured.steady.vertices]
    assert imported().to_arrow("notes")["note"].to_pylist() == imported().notes
    assert imported().to_arrow("checkpoints").num_rows == len(imported().measured.checkpoints)


@pytest.mark.parametrize("shown", each(), ids=lambda shown: type(shown).__name__)
def test_the_docstring_of_a_class_names_its_tables_and_pictures(shown: Viewed) -> None:
    (view,) = (view for kind, view in CLASSES if isinstance(shown, kind))
    text = str(type(shown).__doc__)
    assert [name for name in view.tables if f'"{name}"' not in text] == []
    names = [] if isinstance(shown, Result) else [chart.name for chart in view.pictures(shown)]
    assert [name for name in names if f'"{name}"' not in text] == []
    for name in view.tables:
        assert shown.to_arrow(name).column_names == shown.to_pandas(name).columns.tolist()


def test_an_unknown_name_lists_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"^this Result has no table 'tasks'; use one of vertices, sub"):
        result().to_pandas("tasks")
    with pytest.raises(ValueError, match=r"^this Result has no picture 'queues'; use one of .*queue-length"):
        result().plot("queues")


@pytest.mark.parametrize("shown", each(), ids=lambda shown: type(shown).__name__)
def test_a_plot_is_an_altair_chart_with_a_title(shown: Viewed) -> None:
    chart = shown.plot()
    assert isinstance(chart, alt.TopLevelMixin)
    assert chart.to_dict()["title"]["text"] != []


@pytest.mark.parametrize("shown", each(), ids=lambda shown: type(shown).__name__)
def test_a_plot_is_shown_without_a_network(shown: Viewed) -> None:
    for chart in (shown.plot(), shown.plot().properties(background="white")):
        bundle = chart._repr_mimebundle_(include=None, exclude=None)
        assert bundle["text/html"].startswith("<svg ")
        assert "src=" not in bundle["text/html"] + bundle["text/plain"]
        assert bundle["application/vnd.vegalite.v6+json"] == chart.to_dict()


def test_a_result_without_anything_to_draw_says_so() -> None:
    with pytest.raises(ValueError, match=r"^this Result has nothing to draw$"):
        replace(result(), steady=[], checkpoints=[], series=[]).plot()


def test_a_plot_can_be_chosen() -> None:
    chart = result().plot("queue-length").to_dict()
    assert "buffers" in str(chart["spec"]["layer"])


@pytest.mark.parametrize("shown", each(), ids=lambda shown: type(shown).__name__)
def test_html_needs_nothing_but_the_page_around_it(shown: Viewed) -> None:
    html = str(shown._repr_html_())
    assert html.count("<svg ") == html.count("<table ") == 1
    assert "currentColor" in html
    addresses = set(re.findall(r"https?://[^\"' ]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"<(script|link|img|iframe|style)\b|@import|\bon\w+=", html)
    text = re.findall(r"<text[^>]*fill=\"([^\"]+)\"", html)
    assert Counter(text).most_common(1)[0][0] == "currentColor"
    assert "#000" not in text


def test_a_name_cannot_end_its_place() -> None:
    scenario = msgspec.structs.asdict(result())["scenario"]
    object.__setattr__(scenario, "name", NASTY)
    for html in (replace(result(), scenario=scenario)._repr_html_(), comparison(NASTY)._repr_html_()):
        assert "<script" not in str(html)
        assert "&lt;script&gt;" in str(html)


def test_pictures_of_one_page_do_not_share_ids() -> None:
    point = {
        "mark": {"type": "point", "clip": True},
        "encoding": {"x": {"field": "x", "type": "quantitative"}},
    }
    pictures = [
        to_svg(Chart("clipped", "a title", "", point | {"data": {"values": [{"x": x}]}})) for x in (1, 2)
    ]
    ids = [set(re.findall(r' id="([^"]+)"', picture)) for picture in pictures]
    assert sum(map(len, ids)) == len(set().union(*ids)) > 0
    assert all(re.match("[0-9a-f]{12}-", name) for name in set().union(*ids))
    for picture, own in zip(pictures, ids, strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", picture)) == own


def test_control_characters_are_shown_in_pictures() -> None:
    (chart, *_) = charts({"one": result()})
    nasty = dataclasses.replace(chart, title="\x1b[31mred")
    assert "\\x1b[31mred" in to_svg(nasty)
    assert to_png(nasty).startswith(b"\x89PNG")


@pytest.mark.parametrize("shown", each(), ids=lambda shown: type(shown).__name__)
def test_without_charts_the_table_is_there_and_a_line(shown: Viewed, monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(monkeypatch, "report")
    html = str(shown._repr_html_())
    assert "<svg" not in html
    assert "<table" in html
    assert "the picture needs charts: pip install &#x27;netstack[report]&#x27;" in html
    with pytest.raises(MissingExtraError, match=rf"^{type(shown).__name__}.plot needs charts: pip install "):
        shown.plot()


def test_without_pandas_arrow_is_there_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(monkeypatch, "pandas")
    assert result().to_arrow("checkpoints").num_rows == SECONDS // 2
    with pytest.raises(MissingExtraError, match=r"^Result.to_pandas needs pandas: pip install "):
        result().to_pandas()


class Unshown(Viewed):
    """A class that nothing installed shows."""


def test_what_nobody_shows_has_no_html_and_says_what_to_install() -> None:
    assert Unshown()._repr_html_() is None
    with pytest.raises(
        ImportError,
        match="^no installed package can show a Unshown in a notebook; install it with pip install "
        r"'netstack\[notebook\]'",
    ):
        Unshown().to_arrow()


def test_views_are_entry_points_of_the_project() -> None:
    text = Path(ROOT / "pyproject.toml").read_text("utf-8")
    for kind, view in CLASSES:
        assert f'{kind.__name__} = "integration.show.notebook.views:{kind.__name__.upper()}"' in text
        assert view.kind == kind.__name__
