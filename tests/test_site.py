"""The site of the documentation: sorted, whole, and of use without a network."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from integration.cli.app import app
from netstack import OPTIONS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LISTED = re.compile(r"^- \[[^\]]+\]\(([\w/-]+\.md)\): ", re.MULTILINE)
PARTS = ["Tutorials", "How-to guides", "Reference", "Explanation"]


def test_every_page_is_in_one_part_of_the_index() -> None:
    titles = re.findall(r"^## (.*)$", (DOCS / "index.md").read_text("utf-8"), re.MULTILINE)
    assert titles == PARTS
    listed = ["index.md", *LISTED.findall((DOCS / "index.md").read_text("utf-8"))]
    listed += [
        f"reference/{page}" for page in LISTED.findall((DOCS / "reference/PYTHON.md").read_text("utf-8"))
    ]
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_every_example_is_in_the_list_of_examples() -> None:
    examples = DOCS / "examples"
    listed = set(re.findall(r"\]\(([\w./]+)\)", (examples / "README.md").read_text("utf-8")))
    files = {path for path in examples.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path for path in listed if not path.startswith("..")} == {
        str(path.relative_to(examples)) for path in files - {examples / "README.md"}
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the site was built, every warning being an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", DOCS, folder]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    return folder


class Loaded(HTMLParser):
    """What a browser fetches to show a page, rather than when somebody follows a link."""

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


def test_the_search_has_the_words_of_pages_and_docstrings(site: Path) -> None:
    index = (site / "searchindex.js").read_text("utf-8")
    assert '"TUTORIAL"' in index
    for word in ("alignment", "debloat", "register_polici", "savepoint"):
        assert word in index


def test_the_reference_has_every_command_and_every_option_of_flink(site: Path) -> None:
    page = (site / "reference/COMMANDS.html").read_text("utf-8")
    names = [name for name in app if not name.startswith("-")]
    assert len(names) > 10
    assert [name for name in names if f"netstack {name} " not in re.sub("<[^>]*>", "", page)] == []
    page = (site / "reference/SCENARIO_FILES.html").read_text("utf-8")
    assert [option.name for option in OPTIONS.values() if f">{option.name}<" not in page] == []


def test_the_reference_says_what_docstrings_say(site: Path) -> None:
    pages = {page.name: page.read_text("utf-8") for page in (site / "reference").glob("*.html")}
    assert "What the scenario has set: a target" in pages["tuning.html"]  # not the type of something
    noise = ("Alias for field number", "&lt;lambda&gt;", "&lt;factory&gt;", " object at 0x", "~netstack.")
    assert [(name, text) for name, page in pages.items() for text in noise if text in page] == []
