"""The command ``netstack schema``: what editors check scenario files by."""

from __future__ import annotations

import msgspec

from netstack import scenario_schema

from ..files.shipped import shipped
from ..report.output import indented, write_json
from .arguments import Flag

SCHEMA_FILE = "share/netstack/scenario.schema.json"
"""Where the schema is installed."""


def schema(*, path: Flag = False) -> int:
    """Print the JSON Schema of scenario files, by which editors complete and check them.

    An editor that knows TOML schemas, as with Even Better TOML or taplo, goes by a first line such as
    "#:schema PATH", with the path that --path prints.

    Args:
        path: Print where the schema is installed instead.
    """
    if path:
        print(shipped(SCHEMA_FILE))
    else:
        write_json(schema_file().rstrip(b"\n"))
    return 0


def schema_file() -> bytes:
    """Return the schema as its file has it."""
    return indented(msgspec.json.encode(scenario_schema()))
