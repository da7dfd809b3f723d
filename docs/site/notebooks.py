"""Notebooks as pages of the site: their text, their code, and the output stored with it. Nothing is run."""

import json
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx


def fenced(language: str, text: str) -> str:
    """Return a block of code in Markdown."""
    return f"```{language}\n{text}\n```"


def output_text(output: dict[str, Any]) -> str:
    """Return what a cell has printed or shown, as text.

    Raises:
        KeyError: the output has no text, only pictures or HTML.
    """
    return "".join(output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])


def markdown_of(notebook: str) -> str:
    """Return the cells of a notebook as Markdown, each output below its code."""
    parts = []
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        parts.append(fenced("python", source) if cell["cell_type"] == "code" else source)
        parts += [fenced("text", output_text(output)) for output in cell.get("outputs", [])]
    return "\n\n".join(parts)


class NotebookParser(MystParser):  # type: ignore[misc]
    """Reads a notebook as the Markdown that it amounts to."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse a notebook into a document."""
        super().parse(markdown_of(inputstring), document)


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx read files of notebooks."""
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}
