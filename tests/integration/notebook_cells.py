"""Runs the cells of notebooks in this process, as a kernel would, and shows their last expressions.

A kernel would do the same over sockets, and bring some thirty packages for it (ipykernel, jupyter-client,
pyzmq, tornado). Run as a program, this writes the outputs of the notebooks that it is given anew::

    python -m tests.integration.notebook_cells docs/examples/*.ipynb
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

Cell = dict[str, Any]


class Shown(NamedTuple):
    """What a cell printed, and the value of its last expression; None: it has none."""

    printed: str
    value: object


def code_cells(notebook: dict[str, Any]) -> list[Cell]:
    """Return the cells that are run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cells(notebook: dict[str, Any]) -> Iterator[Shown]:
    """Run the cells of a notebook one after the other, and yield what each shows."""
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook)):
        printed = StringIO()
        with redirect_stdout(printed):
            value = run_cell("".join(cell["source"]), names, f"cell {number}")
        yield Shown(printed.getvalue(), value)


def run_cell(source: str, names: dict[str, object], where: str) -> object:
    """Run a cell and return the value of the expression that it ends with; None where it ends otherwise."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), where, "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), where, "eval"), names)


def outputs_of(shown: Shown, number: int) -> list[dict[str, Any]]:
    """Return what a notebook keeps of it: text only, since pictures would be most of the file."""
    outputs: list[dict[str, Any]] = []
    if shown.printed:
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(shown.printed)})
    if shown.value is not None:
        data = {"text/plain": lines(repr(shown.value))}
        outputs.append(
            {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


def lines(text: str) -> list[str]:
    """Return a text as notebooks have it."""
    return text.splitlines(keepends=True)


def renew(path: Path) -> None:
    """Write the outputs of a notebook anew."""
    notebook = json.loads(path.read_text("utf-8"))
    pairs = zip(code_cells(notebook), run_cells(notebook), strict=True)
    for number, (cell, shown) in enumerate(pairs, 1):
        cell["execution_count"], cell["outputs"] = number, outputs_of(shown, number)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        renew(Path(each))
