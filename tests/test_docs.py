"""The documents name files, commands and defaults that exist."""

import re
from pathlib import Path

import pytest

from integration import load_scenario
from netstack import CostModel

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
FOLDERS = {".ci", "benches", "buffers", "docs", "flowcontrol", "integration", "netstack", "tests"}
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]+(/[\w.-]+)+/?")
LINK = re.compile(r"\]\(([^)#\s]+)?(?:#([^)\s]+))?\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors_of(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_files_named_in_a_document_exist(document: Path) -> None:
    paths = [code for code in CODE.findall(document.read_text("utf-8")) if PATH.fullmatch(code)]
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


def test_the_design_lists_every_module() -> None:
    text = (ROOT / "docs/DESIGN.md").read_text("utf-8")
    for package in ("flowcontrol", "buffers", "netstack", "integration"):
        table = text.split(f"| `{package}/` | |\n", 1)[1].split("\n\n", 1)[0]
        listed = set(re.findall(r"`([\w/]+\.py)`", table))
        root = ROOT / package
        modules = {str(path.relative_to(root)) for path in root.rglob("*.py") if path.name[:2] != "__"}
        assert listed == modules, package


def test_the_design_lists_every_cost() -> None:
    section = (ROOT / "docs/DESIGN.md").read_text("utf-8").split("\n## 8.", 1)[1].split("\n## 9.", 1)[0]
    listed = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    fields = {re.sub(r"_(s|bytes_per_s)$", "", name) for name in CostModel.__dataclass_fields__}
    assert listed == fields


def code_in(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text("utf-8"), re.DOTALL)


def test_the_scenario_of_the_readme_runs_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slow-consumers.toml").write_text(code_in("README.md", "toml")[0], "utf-8")
    monkeypatch.chdir(tmp_path)
    exec(code_in("README.md", "python")[0], {})
    assert "ms from the trigger to the first barrier" in capsys.readouterr().out


def test_the_word_count_of_the_readme_counts() -> None:
    names: dict[str, list[bytes]] = {}
    exec(code_in("README.md", "python")[1], names)
    assert sorted(names["counts"])[0] == b"be 2"


def test_the_numbered_words_of_the_readme_come_once(capsys: pytest.CaptureFixture[str]) -> None:
    exec(code_in("README.md", "python")[2], {})
    assert capsys.readouterr().out == "1 restart, 600 records, 600 different\n"


def test_the_scenario_of_the_design_loads(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(code_in("docs/DESIGN.md", "toml")[0], "utf-8")
    assert load_scenario(path).name == "2x2_200KBs_on1s"


def test_make_help_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    assert set(phony.group(1).split()) == set(re.findall(r"^([\w-]+):.*## ", text, re.MULTILINE))
