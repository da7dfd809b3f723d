"""The documents name files, commands and defaults that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FOLDERS = {".ci", "benches", "buffers", "docs", "flowcontrol", "integration", "netstack", "tests"}
CODE = re.compile(r"`([^`\n]+)`(\s+of\s+commit\s)?")
"""Code in a sentence, and whether it is a file of an earlier commit."""
PATH = re.compile(r"[\w.-]+(/[\w.-]+)+/?")
LINK = re.compile(r"\]\(([^)#\s]+)?(?:#([^)\s]+))?\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors_of(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_files_named_in_a_document_exist(document: Path) -> None:
    codes = CODE.findall(document.read_text("utf-8"))
    paths = [code for code, earlier in codes if PATH.fullmatch(code) and not earlier]
    missing = [path for path in paths if path.partition("/")[0] in FOLDERS and not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(document.read_text("utf-8")):
        if "://" in target:
            continue
        path = document.parent / target if target else document
        if not path.exists() or (anchor and anchor not in anchors_of(path.read_text("utf-8"))):
            broken.append(f"{target}#{anchor}")
    assert broken == []


def test_make_help_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    assert set(phony.group(1).split()) == set(re.findall(r"^([\w-]+):.*## ", text, re.MULTILINE))
