"""The graph of a job in a page: what is in it, where it stands, and what names may do to it."""

import itertools
import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from integration.show.page.job_graph import (
    LEAST_SCALE,
    PAGE_WIDTH,
    JobGraph,
    Runs,
    job_graph,
    placement_text,
    ranks,
)
from integration.show.page.pages import render_page
from netstack import Edge, GeneratorSpec, Scenario, Steady, Vertex, VertexSteady

SOURCE = GeneratorSpec(record_bytes=100)
HOSTILE = '<script>alert("1")</script>&\x1b[2J\u202e' + "x" * 60


def scenario(*edges: tuple[str, str, str], names: tuple[str, ...]) -> Scenario:
    reading = {target for _, target, _ in edges}
    return Scenario(
        name="job",
        duration_s=1,
        vertices=tuple(
            Vertex(name=name, parallelism=2, source=None if name in reading else SOURCE) for name in names
        ),
        edges=tuple(Edge(source=source, target=target, ship=ship) for source, target, ship in edges),
    )


def steady(name: str, **figures: object) -> Steady:
    return Steady(
        from_s=0, to_s=1, checkpoints=1, vertices=[VertexSteady(name=name, parallelism=2, **figures)]
    )


def drawn(graph: JobGraph) -> ElementTree.Element:
    """The picture as it is in a page."""
    page = render_page(
        "validation.html.jinja",
        **dict.fromkeys(("title", "verdict", "legend", "scenario", "graph_note"), ""),
        **{name: [] for name in ("facts", "rows", "notes", "obtained")},
        graph=graph,
    )
    (picture,) = re.findall(r"<svg width=.*</svg>\n</div>", page, re.DOTALL)
    return ElementTree.fromstring(picture.removesuffix("</div>"))


def of_class(picture: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [part for part in picture.iter() if part.get("class") == name]


DIAMOND = scenario(
    ("a", "left", "hash"),
    ("a", "right", "rebalance"),
    ("left", "sink", "forward"),
    ("right", "sink", "broadcast"),
    ("a", "sink", "rescale"),
    names=("a", "left", "right", "sink"),
)


def test_each_vertex_and_each_edge_is_drawn_once() -> None:
    picture = drawn(job_graph(DIAMOND, {"now": []}))
    names = ["".join(part.itertext()) for part in of_class(picture, "name")]
    assert names == ["a", "left", "right", "sink"]
    assert sorted(str(edge.get("aria-label")) for edge in of_class(picture, "edge")) == [
        "from a to left: hash",
        "from a to right: rebalance",
        "from a to sink: rescale",
        "from left to sink: forward",
        "from right to sink: broadcast",
    ]
    ships = [str(edge.findtext("text")) for edge in of_class(picture, "edge")]
    assert ships == ["hash", "rebalance", "forward", "broadcast", "rescale"]


def test_a_vertex_says_what_it_did_in_each_run_and_what_is_not_known() -> None:
    now = steady("sink", records_in_per_s=[400.0, 600.0], busy_ms_per_s=[250.0, 1000.0])
    seeds = [steady("sink", start_delay_ms_max_subtask=ms) for ms in (30.0, 10.0, 2000.0)]
    graph = job_graph(DIAMOND, {"Flink": [now], "ours": seeds})
    sink = graph.vertices[-1]
    assert {row.name: [cell.text for cell in row.cells] for row in sink.rows} == {
        "in": ["1,000/s", "-"],
        "busy": ["100 %", "-"],
        "back-pressure": ["-", "-"],
        "start delay": ["-", "30 ms"],
    }
    assert [row.name for row in graph.vertices[0].rows] == ["out", "busy", "back-pressure", "start delay"]
    assert sink.rows[1].cells[0].share == 1.0
    assert sink.rows[1].cells[1].share is None
    assert sink.spoken.startswith("sink, 2 subtasks in a task manager of its own; Flink: in 1,000/s, busy")
    assert "ours: in -, busy -, back-pressure -, start delay 30 ms" in sink.spoken


def test_names_are_cut_with_the_whole_in_a_title_and_nothing_of_them_is_obeyed() -> None:
    job = scenario((HOSTILE, "sink", "hash"), names=(HOSTILE, "sink"))
    graph = job_graph(job, {"a name that is much too long": []})
    picture = drawn(graph)
    name = of_class(picture, "name")[0].text or ""
    assert name.startswith("<script>alert")
    assert name.endswith("\N{HORIZONTAL ELLIPSIS}")
    titles = ["".join(part.itertext()) for part in picture.iter("title")]
    whole = '<script>alert("1")</script>&\\x1b[2J\\u202e' + "x" * 60
    assert f"{whole}, in a task manager of its own" in titles
    assert "a name that is much too long" in titles
    assert not list(picture.iter("script"))


def test_texts_stand_inside_their_boxes() -> None:
    for runs in ({"one": []}, {"one": [], "two": []}):
        for vertex in of_class(drawn(job_graph(DIAMOND, runs)), "vertex"):
            width, height = float(vertex.get("width", 0)), float(vertex.get("height", 0))
            for text in vertex.iter("text"):
                assert 0 < float(text.get("x", -1)) < width
                assert 0 < float(text.get("y", -1)) < height
            for bar in vertex.iter("rect"):
                assert float(bar.get("x", -1)) + float(bar.get("width", 0)) <= width


def test_a_vertex_says_where_its_subtasks_run() -> None:
    assert placement_text(Vertex(name="v")) == "in a task manager of its own"
    assert placement_text(Vertex(name="v", task_manager="tm1")) == "on tm1"
    several = Vertex(name="v", parallelism=3)
    object.__setattr__(several, "task_manager", ("tm1", "tm2", "tm1"))
    assert placement_text(several) == "on tm1, tm2"


def test_vertices_stand_in_columns_by_rank_in_the_order_of_the_scenario() -> None:
    assert ranks(DIAMOND) == {"a": 0, "left": 1, "right": 1, "sink": 2}
    a, left, right, sink = (vertex.box for vertex in job_graph(DIAMOND, {"now": []}).vertices)
    assert left.left == right.left
    assert a.left + a.width < left.left
    assert left.left + left.width < sink.left
    assert left.top + left.height < right.top


@st.composite
def jobs(draw: st.DrawFn) -> Scenario:
    """Random jobs without circles."""
    count = draw(st.integers(1, 8))
    names = tuple(map(str, range(count)))
    pairs = [(one, other) for place, one in enumerate(names) for other in names[place + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=14)) if pairs else []
    return scenario(*((one, other, "hash") for one, other in chosen), names=names)


@given(jobs(), st.sampled_from(({"one": []}, {"one": [], "two": []})))
def test_vertices_are_apart_and_no_edge_runs_through_one(job: Scenario, runs: Runs) -> None:
    graph = job_graph(job, runs)
    boxes = {vertex.name.whole: vertex.box for vertex in graph.vertices}
    for one, other in itertools.combinations(boxes.values(), 2):
        beside = one.left + one.width < other.left or other.left + other.width < one.left
        below = one.top + one.height < other.top or other.top + other.height < one.top
        assert beside or below
    for edge, drawn_edge in zip(job.edges, graph.edges, strict=True):
        points = drawn_edge.points
        assert points[0][0] == boxes[edge.source].left + boxes[edge.source].width
        assert points[-1][0] == boxes[edge.target].left
        assert points == sorted(points, key=lambda point: point[0]), "an edge runs to the right"
        assert all(0 <= x <= graph.width and 0 <= y <= graph.height for x, y in points)
        for (x, y), (next_x, next_y) in itertools.pairwise(points):
            for box in boxes.values():
                in_column = x < box.left + box.width and box.left < next_x
                in_row = min(y, next_y) < box.top + box.height and box.top < max(y, next_y)
                assert not (in_column and in_row)


def test_a_bar_is_nearer_to_its_own_figure_than_to_the_next_one() -> None:
    now = steady("sink", records_in_per_s=[400.0, 600.0], busy_ms_per_s=[250.0, 1000.0])
    sink = of_class(drawn(job_graph(DIAMOND, {"now": [now]})), "vertex")[-1]
    baselines = {"".join(text.itertext()): float(text.get("y", 0)) for text in sink.iter("text")}
    (track,) = [part for part in sink.iter("rect") if part.get("class") == "track"]
    top, height = float(track.get("y", 0)), float(track.get("height", 0))
    letters = 10  # pixels above the baseline, of a font of 13 pixels
    assert 0 < top - baselines["busy"] < baselines["back-pressure"] - letters - (top + height)


def test_a_graph_of_five_ranks_fits_the_page_and_one_of_more_is_not_smaller() -> None:
    names = tuple("abcdefgh")
    edges = [(one, other, "hash") for one, other in itertools.pairwise(names)]
    for count, least in ((4, 0.95), (5, 0.75), (8, LEAST_SCALE)):
        graph = job_graph(scenario(*edges[: count - 1], names=names[:count]), {"now": [], "then": []})
        assert graph.scale >= least
        assert count > 5 or graph.scale * graph.width <= PAGE_WIDTH + 1e-9
