"""The command ``netstack checkpoints``."""

from __future__ import annotations

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from netstack import StorageError

from ..analysis.wording import NOTHING, milliseconds, size
from ..checkpoints.directory import DirectoryStorage
from ..checkpoints.inventory import CheckpointEntry, Inventory, take_inventory
from ..errors import FileError
from ..report.output import say, to_stdout, write_json
from .arguments import Flag
from .exit_status import FAILED

_HEAD = ("id", "", "type", "triggered", "took", "size", "files")
_RIGHT = {"id", "triggered", "took", "size", "files"}


def checkpoints(directory: str, /, *, verify: Flag = False, json: Flag = False) -> int:
    """List the checkpoints in a directory; exit status 1 where `--verify` finds something wrong.

    Args:
        directory: The directory that holds chk-1, chk-2 and so on: a path, or a URI such as s3://bucket/path.
        verify: Read every file and compare it with its checksum; name what is missing, corrupt or left over.
        json: Print what was found as one JSON document.
    """
    try:
        storage = DirectoryStorage(directory)
        if not storage.exists():
            raise FileError([f"{directory}: no such directory"])
        inventory = take_inventory(storage, directory, verify=verify)
    except StorageError as error:
        raise FileError([f"netstack checkpoints: {error}"]) from error
    if verify and not inventory.checkpoints and not inventory.problems:
        raise FileError([f"{inventory.root}: holds no checkpoints, so there is nothing to verify"])
    if json:
        write_json(msgspec.json.encode(inventory))
    else:
        _print(inventory, to_stdout())
    return FAILED if inventory.problems else 0


def _print(inventory: Inventory, console: Console) -> None:
    if inventory.checkpoints:
        console.print(_table(inventory.checkpoints))
    else:
        say(f"{inventory.root}: holds no checkpoints")
    for problem in inventory.problems:
        line = Text.assemble((f"{problem.wrong}: ", "bold"), f"{problem.path}: {problem.why}")
        console.print(line, soft_wrap=True)
    if inventory.verified and not inventory.problems:
        console.print("all files are as they were written", highlight=False)


def _table(entries: list[CheckpointEntry]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for head in _HEAD:
        table.add_column(head, justify="right" if head in _RIGHT else "left", no_wrap=True)
    for entry in entries:
        table.add_row(*_cells(entry))
    return table


def _cells(entry: CheckpointEntry) -> tuple[str | Text, ...]:
    kind = (entry.checkpoint_type or NOTHING).replace("_", " ").lower()
    triggered = NOTHING if entry.triggered_at is None else f"{entry.triggered_at:.1f} s"
    took = milliseconds(None if entry.duration_s is None else entry.duration_s * 1000)
    return (
        str(entry.checkpoint_id) if entry.savepoint is msgspec.UNSET else Text(entry.savepoint),
        str(entry.status),
        Text(kind),
        triggered,
        took,
        size(entry.size),
        str(entry.files),
    )
