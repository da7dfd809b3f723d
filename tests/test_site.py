"""The site of the documentation: sorted, whole, and of use without a network."""

import itertools
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import integration
import integration.spark
import integration.tuning
import netstack
from integration.cli.app import app
from netstack import OPTIONS

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LISTED = re.compile(r"^- \[([^\]]+)\]\(([\w/-]+\.(?:md|ipynb))\): ", re.MULTILINE)
PAGE_LINK = re.compile(r"\[([^\]\[]*\.md)\]\([^)]*\)")
TITLE = re.compile(r"^(?: *\")?# (.*?)(?:\\n\",)?$", re.MULTILINE)
"""The first heading, of a notebook in its JSON."""
NAMED = re.compile('<span class="sig-prename.*?<span class="sig-name descname">.*?</span></span>')
PARTS = ["Tutorial", "How-to", "Reference", "Explanation", "Internals", "Studies"]
INDEXES = (DOCS / "index.md", DOCS / "reference/PYTHON.md")


def test_every_page_is_in_one_part_of_the_index() -> None:
    titles = re.findall(r"^## (.*)$", (DOCS / "index.md").read_text("utf-8"), re.MULTILINE)
    assert titles == PARTS
    listed = [
        index.parent / page for index in INDEXES for _, page in LISTED.findall(index.read_text("utf-8"))
    ]
    assert sorted([DOCS / "index.md", *listed]) == sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")])


def test_the_index_has_the_titles_of_pages() -> None:
    listed = [
        (name, index.parent / page)
        for index in INDEXES
        for name, page in LISTED.findall(index.read_text("utf-8"))
    ]
    titles = [match[1] for _, page in listed if (match := TITLE.search(page.read_text("utf-8")))]
    assert [name for name, _ in listed] == titles


def test_links_to_pages_have_titles_and_no_file_names() -> None:
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md"]
    assert [(page.name, name) for page in pages for name in PAGE_LINK.findall(page.read_text("utf-8"))] == []


def test_the_commands_are_in_the_groups_of_the_help() -> None:
    text = (DOCS / "reference/COMMANDS.md").read_text("utf-8")
    listed = re.findall(r"^## (.+)\n\n(?:.*\n){4}   :commands: (.*)$", text, re.MULTILINE)
    groups: dict[str, list[str]] = {}
    for name in app:
        for group in app[name].group:
            if not name.startswith("-"):
                groups.setdefault(str(getattr(group, "name", group)), []).append(name)
    groups["Developer"].append("--install-completion")
    assert [(group, names.split(", ")) for group, names in listed] == list(groups.items())


def test_every_example_is_in_the_list_of_examples() -> None:
    examples = DOCS / "examples"
    listed = set(re.findall(r"\]\(([\w./]+)\)", (examples / "README.md").read_text("utf-8")))
    files = {path for path in examples.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path for path in listed if not path.startswith("..")} == {
        str(path.relative_to(examples)) for path in files - {examples / "README.md"}
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, with every warning as an error, and return its folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", DOCS, folder]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    return folder


class Loaded(HTMLParser):
    """Addresses that a browser fetches to show a page, without those of links."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("img", "script", "iframe", "source", "video", "audio", "embed"):
            self.addresses.append(values.get("src") or "")
        elif tag == "link":
            self.addresses.append(values.get("href") or "")


def loaded(page: Path) -> Iterator[Path | str]:
    """The files that a page loads, and as texts the addresses elsewhere."""
    parser = Loaded()
    parser.feed(page.read_text("utf-8"))
    for address in filter(None, parser.addresses):
        elsewhere = "//" in address or address.startswith("data:")
        yield address if elsewhere else page.parent / address.partition("?")[0].partition("#")[0]


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))  # those of the search and of names, besides
    missing = {item for page in pages for item in loaded(page) if isinstance(item, str) or not item.exists()}
    assert missing == set()


def test_no_style_loads_anything_from_elsewhere(site: Path) -> None:
    styles = [path.read_text("utf-8") for path in site.rglob("*.css")]
    assert len(styles) > 3
    assert [text for text in styles if re.search(r"url\([\"']?(https?:)?//|@import", text)] == []


def test_the_reference_has_every_command_and_every_option_of_flink(site: Path) -> None:
    page = (site / "reference/COMMANDS.html").read_text("utf-8")
    names = [name for name in app if not name.startswith("-")]
    assert len(names) > 10
    assert [name for name in names if f"netstack {name} " not in re.sub("<[^>]*>", "", page)] == []
    page = (site / "reference/SCENARIO_FILES.html").read_text("utf-8")
    assert [option.name for option in OPTIONS.values() if f">{option.name}<" not in page] == []


def test_the_reference_says_what_docstrings_say(site: Path) -> None:
    pages = {page.name: page.read_text("utf-8") for page in (site / "reference").glob("*.html")}
    assert "Name of the recommended setting" in pages["tuning.html"]  # not the type of something
    noise = (
        "Alias for field number",
        "&lt;lambda&gt;",
        "&lt;factory&gt;",
        " object at 0x",
        "~netstack.",
        "Meta(",
    )
    words = {name: re.sub("<[^>]*>", "", page) for name, page in pages.items()}
    assert [(name, text) for name, page in words.items() for text in noise if text in page] == []


@pytest.mark.parametrize(
    ("package", "least"),
    [(netstack, 21), (integration, 12), (integration.spark, 6), (integration.tuning, 15)],
    ids=["netstack", "integration", "integration.spark", "integration.tuning"],
)
def test_the_reference_has_every_public_name(site: Path, package: ModuleType, least: int) -> None:
    pages = "".join(page.read_text("utf-8") for page in (site / "reference").glob("*.html"))
    said = {re.sub("<[^>]*>", "", head) for head in NAMED.findall(pages)}
    named = [name for name in package.__all__ if callable(getattr(package, name))]
    assert len(named) >= least
    assert [name for name in named if f"{package.__name__}.{name}" not in said] == []


def test_the_reference_has_what_a_result_says_and_how_it_shows_itself(site: Path) -> None:
    page = (site / "reference/results.html").read_text("utf-8")
    for name in ("checkpoints", "wall_seconds", "to_pandas", "to_arrow", "plot"):
        assert f'id="netstack.Result.{name}"' in page


def test_no_two_pages_have_one_title(site: Path) -> None:
    titles = Counter(
        re.findall("<title>(.*?)</title>", page.read_text("utf-8"))[0] for page in site.rglob("*.html")
    )
    assert len(titles) > 20
    assert [title for title, times in titles.items() if times > 1] == []


CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture(scope="module")
def browser() -> Iterator["WebDriver"]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium and chromedriver are not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    chrome = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield chrome
    chrome.quit()


def open_page(browser: "WebDriver", page: Path) -> None:
    """Open a page, and wait for its last element: a file's page may count as loaded before it is parsed."""
    from selenium.webdriver.support.wait import WebDriverWait

    browser.get(page.as_uri())
    loaded = "return document.readyState == 'complete' && document.querySelector('footer') != null"
    WebDriverWait(browser, 60).until(lambda _: browser.execute_script(loaded))


def test_no_page_is_wider_than_its_window(site: Path, browser: "WebDriver") -> None:
    for page, width in itertools.product(("TUTORIAL", "FIDELITY", "reference/results"), (500, 1100, 1400)):
        browser.set_window_size(width, 900)
        open_page(browser, site / f"{page}.html")
        script = "const page = document.documentElement; return page.scrollWidth - page.clientWidth"
        assert (page, width, browser.execute_script(script)) == (page, width, 0)


def test_wide_tables_scroll_in_a_box_of_their_own(site: Path, browser: "WebDriver") -> None:
    browser.set_window_size(500, 900)
    hidden = """
        return [...document.querySelectorAll("article table")].filter(table => {
            for (let box = table.parentElement; box.tagName != "ARTICLE"; box = box.parentElement)
                if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return false;
            return table.getBoundingClientRect().right > innerWidth;
        }).length"""
    for page in ("FIDELITY", "studies/POLICIES", "reference/SCENARIO_FILES", "CONCEPTS"):
        open_page(browser, site / f"{page}.html")
        assert browser.execute_script("return document.querySelectorAll('article table').length") > 0
        assert (page, browser.execute_script(hidden)) == (page, 0)


def test_the_notebook_is_a_page_with_its_outputs(site: Path) -> None:
    page = re.sub("<[^>]*>", "", (site / "examples/debloating.html").read_text("utf-8"))
    assert "What debloating does to a checkpoint" in page
    assert "16 of 17 checkpoints completed" in page
