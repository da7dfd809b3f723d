"""The navigation of the site: the lists of links in the pages below, which are read on a code host too."""

import re

from sphinx.application import Sphinx

INDEXES = ("index", "reference/PYTHON")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
PAGE = re.compile(r"^- \[[^\]]+\]\(([\w/-]+)\.(?:md|ipynb)\)", re.MULTILINE)


def sections_of(text: str) -> list[tuple[str, list[str]]]:
    """Each heading that has a list of pages below it, and the names of these pages."""
    _, *parts = SECTION.split(text)
    sections = zip(parts[::2], map(PAGE.findall, parts[1::2]), strict=True)
    return [(title, pages) for title, pages in sections if pages]


def toctree(title: str, pages: list[str]) -> str:
    """The lines by which Sphinx puts some pages under a title."""
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```"])


def add_toctrees(app: Sphinx, page: str, source: list[str]) -> None:
    """Put behind a page that lists others what makes Sphinx list them in the sidebar."""
    if page in INDEXES:
        trees = [toctree(title, pages) for title, pages in sections_of(source[0])]
        source[0] = "\n\n".join([source[0], *trees, ""])


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", add_toctrees)
    return {"parallel_read_safe": True}
