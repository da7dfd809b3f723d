import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib import resources

import msgspec
import pytest

from integration.base.errors import OutputError
from integration.show.page.job_graph import PAGE_WIDTH
from integration.show.page.pages import write_report
from integration.show.terminal.console import PAGE
from integration.show.terminal.run import summary_table
from netstack import from_json
from tests.integration.sample_results import sample_result, sample_results, unaligned_result

FETCHING = {"src", "href", "data", "action", "poster", "srcset"}


class Page(HTMLParser):
    """What a browser would see of a page: its texts, its cells, its scripts and what it would fetch."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.fetched, self.scripts, self.styles, self.texts = [], [], [], [], []
        self._open = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "img", "link", "br"):
            self._open.append(tag)
        self.fetched += [value for name, value in attributes if name in FETCHING]
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        inside = self._open[-1] if self._open else ""
        {"script": self.scripts, "style": self.styles}.get(inside, self.texts).append(data)
        if inside in ("td", "th"):
            self.cells[-1] += data


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "made" / "by it"
    write_report(
        folder,
        sample_results(),
        title="Two <runs>",
        finding="It took 1 s & not 2 s.",
        command="netstack demo --key 'a b'",
    )
    return folder


@pytest.fixture(scope="module")
def page(directory):
    return Page((directory / PAGE).read_text(encoding="utf-8"))


def test_a_page_and_its_graph_use_the_width_of_a_window_of_1400_pixels(page):
    pattern = r"main \{ max-width: (\d+)px; margin: 0 auto; padding: \d+px (\d+)px"
    width, padding = map(int, re.search(pattern, "".join(page.styles)).groups())
    assert 1300 <= width <= 1400
    assert width - 2 * padding >= PAGE_WIDTH


def test_files_of_a_report(directory):
    assert sorted(path.name for path in directory.iterdir()) == [
        "buffer-size.png",
        "checkpoint-history.png",
        "checkpoint-time.png",
        "debloating-off.json",
        "debloating-on.json",
        "in-flight-time.png",
        "load.png",
        "queue-length.png",
        "report.html",
    ]


def test_results_lie_beside_the_page(directory):
    stored = from_json((directory / "debloating-on.json").read_bytes())

    assert stored == sample_results()["debloating on"]


def test_page_fetches_nothing(page):
    # The only references are to the pictures beside it, for browsers without scripts.
    assert [name for name in page.fetched if not re.fullmatch(r"[a-z-]+\.png", name)] == []
    assert not any("url(" in style or "@import" in style for style in page.styles)


def test_page_may_do_nothing_but_run_its_own_scripts_and_use_its_own_style(directory, page):
    text = (directory / PAGE).read_text(encoding="utf-8")

    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text).group(1)
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives == {
        "default-src": "'none'",
        "script-src": " ".join(source_of(script) for script in page.scripts[2:]),
        "style-src": " ".join(map(source_of, page.styles)),
        "img-src": "'self' file:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert len(page.scripts) == 4  # the first two are data


def source_of(content):
    """How a policy names an element with this content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@pytest.mark.parametrize(
    "name", ["report.html.jinja", "tuning.html.jinja", "forecast.html.jinja", "parts.html.jinja"]
)
def test_templates_have_nothing_that_the_policy_forbids(name):
    text = (resources.files("integration.show.page") / "templates" / name).read_text("utf-8")

    assert re.findall(r"\s(?:style|on[a-z]+)=|javascript:", text) == []
    if "<head>" in text:
        assert '<meta http-equiv="Content-Security-Policy" content="{{ policy }}">' in text


def test_script_asks_for_nothing_that_the_policy_forbids(page):
    assert "ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true }" in page.scripts[3]


def test_page_holds_the_library_and_all_charts(page):
    charts = json.loads(page.scripts[0])

    assert [chart["name"] for chart in charts] == [
        "checkpoint-history",
        "load",
        "buffer-size",
        "in-flight-time",
        "checkpoint-time",
        "queue-length",
    ]
    assert {chart["panels"] for chart in charts} == {2}
    assert "vegaEmbed" in page.scripts[2]
    assert len(page.scripts[2]) > 100_000


def test_page_holds_little_data(page):
    assert len(page.scripts[0]) + len(page.scripts[1]) < 200_000


def test_page_holds_every_subtask_of_every_checkpoint(directory, page):
    detail = json.loads(page.scripts[1])

    assert [run["name"] for run in detail["runs"]] == list(sample_results())
    assert [len(run["checkpoints"]) for run in detail["runs"]] == [10, 10]
    assert {len(checkpoint["parts"]) for run in detail["runs"] for checkpoint in run["checkpoints"]} == {8}
    text = (directory / PAGE).read_text(encoding="utf-8")
    assert '<option value="debloating on#10">10: at 18.7 s, complete after 206 ms</option>' in text


def test_numbers_of_the_table_are_the_results(page):
    for row in summary_table(sample_results()).rows:
        start = page.cells.index(row.name)
        cells = [cell.replace("\xa0", " ") for cell in page.cells[start + 1 :]]
        assert cells[: len(row.texts)] == list(row.texts)


def test_texts_are_escaped(page, directory):
    assert "Two <runs>" in page.texts
    assert "It took 1\xa0s & not 2\xa0s." in page.texts
    assert "<runs>" not in (directory / PAGE).read_text(encoding="utf-8")


def test_page_says_how_it_was_obtained(page):
    text = " ".join(page.texts).replace("\xa0", " ")

    for expected in (
        "virtual time",
        "seed 3",
        "netstack 0.1.0",
        "netstack demo --key 'a b'",
        "buffer-debloat",
    ):
        assert expected in text


def test_facts_that_runs_share_stand_once_on_a_page(page):
    text = text_of(page)
    assert text.count("How it was obtained") == 1
    for fact in ("netstack demo --key 'a b'", "seed 3", "netstack 0.1.0", "20 s in 0.2 s of real time"):
        assert text.count(fact) == 1, fact


def test_facts_that_differ_name_their_run(tmp_path):
    off, on = sample_results().values()
    page, *_ = write_report(tmp_path, {"off": off, "on": msgspec.structs.replace(on, seed=4)})
    text = text_of(Page(page.read_text(encoding="utf-8")))
    assert "Clock off: virtual time, emulated links, preset flink-2.2, seed 3" in text
    assert "Clock on: virtual time, emulated links, preset flink-2.2, seed 4" in text
    assert text.count("netstack 0.1.0") == 1


def test_page_says_what_time_was_measured(tmp_path, page):
    assert "of emulated time" in str(page.texts)
    real = msgspec.structs.replace(next(iter(sample_results().values())), clock="real", link="tcp")
    write_report(tmp_path, {"run": real})
    text = (tmp_path / PAGE).read_text("utf-8")
    assert "s of real time, over TCP" in text
    assert "of emulated time" not in text


def test_names_within_data_cannot_end_a_script(tmp_path):
    write_report(tmp_path, {"</script><b>": sample_result(debloated=True)})

    assert len(Page((tmp_path / PAGE).read_text(encoding="utf-8")).scripts) == 4


def test_report_on_one_run(tmp_path):
    files = write_report(tmp_path, {"2x2_1MBs": sample_result(debloated=False)})

    assert [path.name for path in files] == [
        "report.html",
        "checkpoint-history.png",
        "load.png",
        "in-flight-time.png",
        "checkpoint-time.png",
        "queue-length.png",
        "2x2_1MBs.json",
    ]
    page = Page(files[0].read_text(encoding="utf-8"))
    assert page.texts.count("sample") == 2  # the title and the heading
    assert "1.01\xa0s" in page.cells


def text_of(page):
    return " ".join(" ".join(page.texts).replace("\xa0", " ").split())


def test_page_tells_what_happened_and_what_it_cost(tmp_path):
    page, *_ = write_report(tmp_path, {"unaligned": unaligned_result()})

    text = text_of(Page(page.read_text(encoding="utf-8")))
    for expected in (
        "A checkpoint stored 2.00 MiB of data in flight. After a failure, to read it back and to "
        "process it took up to 500 ms",
        "The job failed once and was down for 2.00 s, 10 % of the time.",
        "1 of 10 checkpoints failed: IO_EXCEPTION.",
        "What happened 9.0 s kill subtask subtask consumer[1] is killed 9.0 s failure restored checkpoint 4",
        "every 2 s, exactly once, unaligned",
    ):
        assert expected in text


def test_page_of_a_run_without_incidents_does_not_speak_of_them(page):
    assert "What happened" not in text_of(page)


def test_page_of_a_job_without_checkpoints_has_no_history(tmp_path):
    page, *_ = write_report(tmp_path, {"none": sample_result(debloated=True, checkpoints=False)})

    text = page.read_text(encoding="utf-8")
    assert "<h2>Checkpoints</h2>" not in text
    assert "<select" not in text


def test_every_window_has_its_sentence(tmp_path):
    result = sample_result(debloated=True)
    early = msgspec.structs.replace(result.steady[0], from_s=0, to_s=6)
    long = [
        msgspec.structs.replace(each, duration_ms=450) for each in result.checkpoints if each.t < early.to_s
    ]
    history = [*long, *result.checkpoints[len(long) :]]
    phased = msgspec.structs.replace(result, steady=[early, *result.steady], checkpoints=history)

    page, *_ = write_report(tmp_path, {"sample": phased})

    text = " ".join(Page(page.read_text(encoding="utf-8")).texts).replace("\xa0", " ")
    assert "0 to 6 s: A checkpoint took 450 ms" in text
    assert "8 to 20 s: A checkpoint took 206 ms" in text
    assert "Subtasks in the last window" in text


def test_report_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "report.html").mkdir()

    with pytest.raises(OutputError, match=r"report\.html: cannot be written: Is a directory"):
        write_report(tmp_path, {"sample": sample_result(debloated=False)})


def test_same_results_give_the_same_files(tmp_path, directory):
    again = write_report(tmp_path, sample_results(), title="Two <runs>", finding="It took 1 s & not 2 s.",
                         command="netstack demo --key 'a b'")  # fmt: skip

    assert [path.read_bytes() for path in again] == [(directory / path.name).read_bytes() for path in again]
