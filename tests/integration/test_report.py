import json
import re
from html.parser import HTMLParser

import msgspec
import pytest

from integration.output import OutputError
from integration.report import PAGE, write_report
from integration.tables import summary_table
from netstack import from_json
from tests.integration.sample_results import sample_result, sample_results

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


def test_files_of_a_report(directory):
    assert sorted(path.name for path in directory.iterdir()) == [
        "buffer-size.png",
        "checkpoint-time.png",
        "debloating-off.json",
        "debloating-on.json",
        "in-flight-time.png",
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


def test_page_forbids_itself_to_fetch(directory):
    text = (directory / PAGE).read_text(encoding="utf-8")

    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy


def test_page_holds_the_library_and_all_charts(page):
    charts = json.loads(page.scripts[0])

    assert [chart["name"] for chart in charts] == [
        "buffer-size",
        "in-flight-time",
        "checkpoint-time",
        "queue-length",
    ]
    assert {chart["panels"] for chart in charts} == {2}
    assert "vegaEmbed" in page.scripts[1]
    assert len(page.scripts[1]) > 100_000


def test_page_holds_little_data(page):
    assert len(page.scripts[0]) < 200_000


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


def test_names_within_data_cannot_end_a_script(tmp_path):
    write_report(tmp_path, {"</script><b>": sample_result(debloated=True)})

    assert len(Page((tmp_path / PAGE).read_text(encoding="utf-8")).scripts) == 3


def test_report_on_one_run(tmp_path):
    files = write_report(tmp_path, {"2x2_1MBs": sample_result(debloated=False)})

    assert [path.name for path in files] == [
        "report.html",
        "in-flight-time.png",
        "checkpoint-time.png",
        "queue-length.png",
        "2x2_1MBs.json",
    ]
    page = Page(files[0].read_text(encoding="utf-8"))
    assert page.texts.count("sample") == 2  # the title and the heading
    assert "1.01\xa0s" in page.cells


def test_every_window_has_its_sentence(tmp_path):
    result = sample_result(debloated=True)
    early = msgspec.structs.replace(result.steady[0], from_s=0, to_s=6, end_to_end_ms=450)
    phased = msgspec.structs.replace(result, steady=[early, *result.steady])

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
