"""Tables of settings in the reference, made of what the emulator itself reads them by."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

from netstack import DEFAULT_PRESET, OPTIONS, PRESETS, CostModel, LinkConditions, format_duration

SETTINGS = {settings.__name__: settings for settings in (CostModel, LinkConditions)}


class FlinkOptions(Directive):
    """The options of Flink's that a scenario may have, in the order of the fields that hold them."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        head = ("option", f"default ({DEFAULT_PRESET})", "notes")
        rows = (
            (OPTIONS[field].name, default_of(field, DEFAULT_PRESET), "; ".join(notes_on(field)))
            for field in OPTIONS
        )
        return [table(head, rows)]


class Settings(Directive):
    """The keys of a class of settings whose fields end with their units."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        settings = SETTINGS[self.arguments[0]]
        documented = ModuleAnalyzer.for_module(settings.__module__).find_attr_docs()
        rows = (
            (
                field.name.removesuffix("_bytes_per_s").removesuffix("_s"),
                quantity(field.name, field.default),
                " ".join(documented[settings.__name__, field.name]),
            )
            for field in dataclasses.fields(settings)
        )
        return [table(("key", "default", "meaning"), rows)]


def quantity(field: str, value: object) -> str:
    """A value of a field in a unit that people read."""
    if isinstance(value, tuple):
        return " to ".join(quantity(field, end) for end in value)
    if isinstance(value, float) and field.endswith("_bytes_per_s"):
        return f"{value / 1e6:g} MB/s"
    if isinstance(value, float) and field.endswith("_s"):
        return format_duration(value)
    return "none" if value is None else str(value)


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


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> nodes.table:
    """A table whose first column is code."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", row([nodes.paragraph(text=text) for text in head]))
    body = nodes.tbody()
    for name, *others in rows:
        code = nodes.paragraph("", "", nodes.literal(text=name))
        body += row([code, *(nodes.paragraph(text=text) for text in others)])
    group += body
    return nodes.table("", group, classes=["settings"])


def row(cells: Sequence[nodes.Node]) -> nodes.row:
    """A row of a table."""
    return nodes.row("", *(nodes.entry("", cell) for cell in cells))


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx of the directives."""
    app.add_directive("flink-options", FlinkOptions)
    app.add_directive("settings", Settings)
    return {"parallel_read_safe": True}
