"""Tables of settings in the reference, made of what the emulator itself reads them by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from netstack import DEFAULT_PRESET, OPTIONS, PRESETS

HEAD = ("option", f"default ({DEFAULT_PRESET})", "notes")


class FlinkOptions(Directive):
    """The options of Flink's that a scenario may have, in the order of the fields that hold them."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        group = nodes.tgroup(cols=len(HEAD))
        group += [nodes.colspec(colwidth=1) for _ in HEAD]
        group += nodes.thead("", row([nodes.paragraph(text=text) for text in HEAD]))
        group += nodes.tbody("", *(option_row(field) for field in OPTIONS))
        return [nodes.table("", group, classes=["settings"])]


def option_row(field: str) -> nodes.row:
    """Name, default and what is special about the option of a field of `NetworkConfig`."""
    name = nodes.paragraph("", "", nodes.literal(text=OPTIONS[field].name))
    default = nodes.paragraph(text=default_of(field, DEFAULT_PRESET))
    return row([name, default, nodes.paragraph(text="; ".join(notes_on(field)))])


def notes_on(field: str) -> Iterator[str]:
    """Where an option has another default or name, or no effect."""
    option = OPTIONS[field]
    for preset in PRESETS:
        if (value := default_of(field, preset)) != default_of(field, DEFAULT_PRESET):
            yield f"{value} in {preset}"
    yield from (f"formerly {name}" for name in option.former)
    if option.only_1x:
        yield "a constant in Flink 2"
    if option.inert:
        yield "read, but changes nothing here"


def default_of(field: str, preset: str) -> str:
    """The default of an option, as a scenario file has it."""
    value = getattr(PRESETS[preset], field)
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(OPTIONS[field].kind.render(value))


def row(cells: Sequence[nodes.Node]) -> nodes.row:
    """A row of a table."""
    return nodes.row("", *(nodes.entry("", cell) for cell in cells))


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx of the directive."""
    app.add_directive("flink-options", FlinkOptions)
    return {"parallel_read_safe": True}
