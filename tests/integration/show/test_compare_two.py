"""Two results of ``netstack run`` side by side: what differs, on the terminal, as JSON and as a page."""

import itertools
import json
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from integration.cli.app import main
from integration.runs.result_differences import SettingDifference, differences
from integration.show.charts.run_charts import queue_length
from integration.show.terminal.comparison import figure_cells, print_differences
from netstack import Edge, GeneratorSpec, Result, Scenario, Vertex, emulate, to_json
from tests.integration.sample_results import sample_result

CHAIN = ("source", "map", "sink")


def chain(name: str, *vertices: str) -> Scenario:
    return Scenario(
        name=name,
        duration_s=2,
        vertices=tuple(
            Vertex(name=vertex, source=None if number else GeneratorSpec(record_bytes=100, rates=(100.0,)))
            for number, vertex in enumerate(vertices)
        ),
        edges=tuple(
            Edge(source=source, target=target, ship="hash") for source, target in itertools.pairwise(vertices)
        ),
    )


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    return {"long": emulate(chain("long", *CHAIN)), "short": emulate(chain("short", "source", "<b>sink"))}


@pytest.fixture
def files(runs: dict[str, Result], tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"{name}.json" for name in runs]
    for path, result in zip(paths, runs.values(), strict=True):
        path.write_bytes(to_json(result))
    return list(map(str, paths))


def test_settings_that_differ_are_named_with_both_values(runs: dict[str, Result]) -> None:
    found = differences(*runs.items())
    assert {setting.key: (setting.first, setting.second) for setting in found.settings} == {
        "name": ("long", "short"),
        "vertices.map.parallelism": ("1", None),
        "vertices.sink.parallelism": ("1", None),
        "vertices.<b>sink.parallelism": (None, "1"),
        "edges.source → map.ship": ("hash", None),
        "edges.map → sink.ship": ("hash", None),
        "edges.source → <b>sink.ship": (None, "hash"),
    }


@pytest.mark.parametrize("width", [60, 80])
def test_keys_are_broken_between_their_words(runs: dict[str, Result], width: int) -> None:
    key = "flink.taskmanager.network.memory.buffer-debloat.threshold-percentages"
    setting = SettingDifference(key=key, first="1234567", second="x" * 53)
    found = replace(differences(*runs.items()), settings=[setting])
    console = Console(width=width, record=True, file=StringIO())
    print_differences(found, console)
    _, _, below = console.export_text().partition("set otherwise")
    cells = [line.split()[0] for line in below.splitlines()[2:] if line[:1].strip()]
    assert "".join(cells) == key
    assert below.count("x") == 53
    assert all(cell[-1] in ".-" for cell in cells[:-1])


def test_figures_have_difference_and_ratio_and_none_where_one_is_unknown() -> None:
    off, on = sample_result(debloated=False), sample_result(debloated=True)
    found = {figure.quantity: figure for figure in differences(("off", off), ("on", on)).figures}
    assert figure_cells(found["Start delay"]) == ("400 ms", "80 ms", "-320 ms", "0.20")
    assert figure_cells(found["Throughput"])[2:] == ("0.00/s", "1.00")
    none = differences(("off", off), ("bare", sample_result(debloated=False, checkpoints=False)))
    delay = {figure.quantity: figure for figure in none.figures}["Start delay"]
    assert (delay.difference, delay.ratio) == (None, None)
    assert figure_cells(delay) == ("400 ms", "-", "-", "-")


def test_one_result_has_no_differences_from_itself(runs: dict[str, Result], files: list[str], capsys) -> None:
    assert main(["compare", files[0], files[0]]) == 0
    out = capsys.readouterr().out
    assert "Both runs have the same settings." in out
    assert "first: long (1)" in out
    assert max(map(len, out.splitlines())) <= 80


def test_jobs_of_other_shapes_have_one_page(files: list[str], tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    assert main(["compare", *files, "--json", "--out", str(out)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "netstack.differences/1"
    assert json.loads((out / "comparison.json").read_bytes()) == document
    page = (out / "report.html").read_text()
    assert page.count('class="vertex"') == 5
    assert page.count('class="edge"') == 3
    assert "<b>sink" not in page.partition("<main>")[2].partition("<script")[0]
    specs = json.loads(page.partition('id="charts">')[2].partition("</script>")[0])
    assert specs
    for drawing in specs:
        assert drawing["spec"]["facet"]["column"]["sort"] == ["long", "short"]
        assert "resolve" not in drawing["spec"]
        assert (out / f"{drawing['name']}.png").read_bytes().startswith(b"\x89PNG")


def test_a_vertex_that_only_one_job_has_leaves_the_other_panel_empty(runs: dict[str, Result]) -> None:
    chart = queue_length(runs)
    assert chart is not None
    rows = chart.spec["datasets"][chart.spec["data"]["name"]]
    places = chart.spec["facet"]["row"]["sort"]
    assert {"map, receiving", "<b>sink, receiving"} <= set(places)
    assert {(row["run"], row["place"]) for row in rows} == set(itertools.product(runs, places))
    drawn = {(row["run"], row["place"]) for row in rows if "t" in row}
    assert ("short", "map, receiving") not in drawn
    assert ("long", "map, receiving") in drawn


def test_markdown_is_for_a_comparison_with_flink(files: list[str], capsys) -> None:
    assert main(["compare", *files, "--markdown", "table.md"]) == 2
    assert capsys.readouterr().err == (
        "netstack compare: --markdown is possible only in a comparison with a Flink; give --out instead\n"
    )
