"""The command ``netstack state``: what lies in a checkpoint or savepoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from netstack import InitialCheckpoint, StateError, StorageError

from ..analysis.wording import NOTHING, counted, size
from ..errors import FileError
from ..files.reading import one_line
from ..report.output import say, to_stdout, write_json
from .arguments import Flag, Whole

if TYPE_CHECKING:
    from ..state.state_contents import KeyedContents, StateContents

_HEAD = ("vertex", "state", "kind", "keys", "entries", "size", "largest\ngroup", "largest\nsubtask")
_LONGEST_KEY = 48


def state(
    path: str,
    /,
    *,
    vertex: str | None = None,
    state: str | None = None,
    top: Whole = 3,
    json: Flag = False,
    arrow: Path | None = None,
) -> int:
    """Show what lies in a checkpoint or savepoint: states by vertex, sizes, how evenly they are spread, keys.

    Args:
        path: A chk-N, a savepoint, or a directory of checkpoints, of which the latest is taken.
        vertex: Only the state of this vertex.
        state: Only the keyed state of this name.
        top: So many keys of each state, those that take the most.
        json: Print it as one JSON document, with the bytes of each key group.
        arrow: Write all entries of keyed state to this file, in Arrow's format; keys and values as JSON.
    """
    # Here, since few commands need what it takes a while to import.
    from ..checkpoints.inventory import find_checkpoint
    from ..state.state_contents import contents_of, require_state

    try:
        checkpoint = find_checkpoint(path)
        require_state(checkpoint, vertex, state)
        contents = contents_of(checkpoint, vertex, state, top)
        if arrow is not None:
            _write_arrow(checkpoint, vertex, state, arrow)
    except (StorageError, StateError) as error:
        raise FileError([f"netstack state: {one_line(error)}"]) from None
    if json:
        write_json(msgspec.json.encode(contents))
    else:
        _print(contents, to_stdout())
    return 0


def _write_arrow(checkpoint: InitialCheckpoint, vertex: str | None, state: str | None, file: Path) -> None:
    from ..state.entry_batches import write_entries

    try:
        rows = write_entries(checkpoint, vertex, state, file)
    except OSError as error:
        raise FileError([f"netstack state: {file}: {error.strerror or error}"]) from None
    say(f"wrote {file}: {counted(rows, 'row')}")


def _print(contents: StateContents, console: Console) -> None:
    kind = contents.checkpoint_type.replace("_", " ").lower()
    head = f"  {kind} {contents.checkpoint_id} of {contents.job}, {size(contents.size)}"
    console.print(Text.assemble((contents.path, "bold"), head), soft_wrap=True)
    if contents.keyed:
        console.print()
        console.print(_keyed_table(contents.keyed))
        _print_keys(contents.keyed, console)
    _print_rest(contents, console)


def _keyed_table(keyed: list[KeyedContents]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for head in _HEAD:
        table.add_column(head, justify="left" if head in _HEAD[:3] else "right", overflow="fold")
    for each in keyed:
        spread = (f"{each.group_skew:.2f} x", f"{each.skew:.2f} x")
        numbers = (f"{each.keys:,}", f"{each.entries:,}", size(each.size))
        table.add_row(Text(each.vertex), Text(each.state), each.kind, *numbers, *spread)
    return table


def _print_keys(keyed: list[KeyedContents], console: Console) -> None:
    console.print(
        "largest group, subtask: its bytes over those of the mean one; x: entries, values of a list",
        style="dim",
        highlight=False,
    )
    for each in keyed:
        if each.largest:
            console.print()
            console.print(Text(f"largest keys of {each.vertex}, {each.state}"))
            grid = Table.grid(padding=(0, 2, 0, 0))
            for justify in ("left", "right", "right", "left"):
                grid.add_column(justify=justify, no_wrap=True)
            for key in each.largest:
                text = key.key if len(key.key) <= _LONGEST_KEY else f"{key.key[:_LONGEST_KEY]}..."
                group = f"key group {key.key_group}"
                grid.add_row(Text(f"  {text}"), size(key.size), f"{key.entries:,} x", group)
            console.print(grid, highlight=False)


def _print_rest(contents: StateContents, console: Console) -> None:
    lines = [
        (
            f"{each.vertex}, {each.state}",
            f"{each.redistribution}, {size(each.size)}, values by subtask: "
            f"{' '.join(map(str, each.by_subtask))}",
        )
        for each in contents.operator
    ]
    lines += [
        (
            f"{each.vertex}, in flight",
            f"{size(each.input_bytes) if each.input_bytes else NOTHING} of inputs, "
            f"{size(each.output_bytes) if each.output_bytes else NOTHING} of outputs, "
            f"{counted(each.channels, 'channel')}",
        )
        for each in contents.in_flight
    ]
    if lines:
        grid = Table.grid(padding=(0, 2, 0, 0))
        for name, text in lines:
            grid.add_row(Text(name), Text(text, overflow="fold"))
        console.print()
        console.print(grid, highlight=False)
    if not (lines or contents.keyed):
        say(f"{contents.path}: has no state")
