"""The command ``netstack schema``."""

from __future__ import annotations

from netstack import scenario_schema

from ..base.shipped_files import shipped
from ..show.terminal.console import print_line
from ..show.terminal.documents import indented, print_document
from .arguments import Flag

SCHEMA_FILE = "share/netstack/scenario.schema.json"
"""Path of the installed schema."""


def schema(*, path: Flag = False) -> int:
    """Print the JSON Schema of scenario files, which editors use to complete and check them.

    Editors with Even Better TOML or taplo use the schema if the first line of the scenario file is "#:schema
    PATH", with the path that --path prints.

    Args:
        path: Print the path of the installed schema instead.
    """
    if path:
        print_line(str(shipped(SCHEMA_FILE)))
    else:
        print_document(schema_file().rstrip(b"\n"))
    return 0


def schema_file() -> bytes:
    """Return the contents of the schema's file."""
    return indented(scenario_schema())
