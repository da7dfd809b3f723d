"""The notebooks of the documentation show what they show when they are run, and are what Jupyter reads."""

import json
from pathlib import Path

import pytest

from tests.integration.clusters import ROOT
from tests.integration.notebook_cells import code_cells, outputs_of, run_cell, run_cells

NOTEBOOKS = sorted((ROOT / "docs" / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_its_cells_come_to(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    cells = code_cells(notebook)
    assert cells
    for number, (cell, shown) in enumerate(zip(cells, run_cells(notebook), strict=True), 1):
        assert cell["outputs"] == outputs_of(shown, number)
        assert cell["execution_count"] == number
        html = getattr(shown.value, "_repr_html_", None)
        assert html is None or html()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_in_the_format_that_it_names(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    for cell in notebook["cells"]:
        assert {"cell_type", "id", "metadata", "source"} <= cell.keys()
    assert path.stat().st_size < 50_000


def test_the_value_of_a_cell_is_that_of_its_last_expression() -> None:
    names: dict[str, object] = {}
    assert run_cell("a = 1\na + 1", names, "first") == 2
    assert run_cell("b = a", names, "second") is None
    assert run_cell("", names, "third") is None
    assert names["b"] == 1
