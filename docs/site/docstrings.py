"""Docstrings and signatures of the reference where Sphinx would show less, or something else."""

from __future__ import annotations

import dataclasses
import pydoc
import re

from sphinx.application import Sphinx

from netstack.scenarios.tables import documented

FIELDS = ("attribute", "data", "property")
FIRST, LAST = 1, 999
"""Priorities, before and behind napoleon's."""

HIDDEN = re.compile(r"<factory>|<function [^>]*<lambda>>|<function <lambda>>|<[\w.]+ object at 0x[0-9a-f]+>")
BOUNDED = re.compile(r"Annotated\[(\w+), (?:msgspec\.)?Meta\([^()]*\)\]")
MODULE = re.compile(r"~?\b(?:[a-z_]\w*\.)+(?=[A-Z]\w*)")

_texts: dict[str, list[str]] = {}


def keep(app: Sphinx, what: str, name: str, member: object, options: object, lines: list[str]) -> None:
    """Take note of what is said of a field: napoleon takes the words before a colon for its type.

    A key of scenario files is described where it is declared.
    """
    if what in FIELDS:
        owner, _, field = name.rpartition(".")
        cls = pydoc.locate(owner)
        declared = dict(documented(cls)) if isinstance(cls, type) and dataclasses.is_dataclass(cls) else {}
        _texts[name] = [declared[field], ""] if field in declared else list(lines)


def restore(app: Sphinx, what: str, name: str, member: object, options: object, lines: list[str]) -> None:
    """Say of a field what its author said."""
    if what in FIELDS:
        lines[:] = _texts.pop(name)


def says_nothing(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool:
    """Leave out fields of named tuples that have but their number: the signature names them."""
    return skip or str(member.__doc__).startswith("Alias for field number")


def shortened(
    app: Sphinx,
    what: str,
    name: str,
    member: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """A signature without modules before types, the bounds of numbers, and unreadable defaults."""
    if signature is not None:
        signature = BOUNDED.sub(r"\1", MODULE.sub("", HIDDEN.sub("...", signature)))
    return signature, returns if returns is None else MODULE.sub("", returns)


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx whom to ask."""
    app.connect("autodoc-process-docstring", keep, priority=FIRST)
    app.connect("autodoc-process-docstring", restore, priority=LAST)
    app.connect("autodoc-skip-member", says_nothing)
    app.connect("autodoc-process-signature", shortened)
    return {"parallel_read_safe": True}
