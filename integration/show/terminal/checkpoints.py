"""Stored checkpoints on a terminal: the checkpoints in a directory, and the state in one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Column
from rich.text import Text

from ...base.number_text import NOTHING, counted, milliseconds, size
from .console import say
from .table_style import figures, grid, number

if TYPE_CHECKING:
    from ...storage.checkpoint_list import CheckpointEntry, Inventory
    from ...storage.state_contents import KeyedContents, LargeKey, StateContents

_LONGEST_KEY = 48

_SKEW_LEGEND = (
    "largest group, largest subtask: their bytes divided by the mean. N x: the state has N entries or list "
    "values."
)


def print_inventory(inventory: Inventory, console: Console) -> None:
    """Print the checkpoints of a directory, and the problems of their files."""
    if inventory.checkpoints:
        text = [Column(head, no_wrap=True) for head in ("", "type")]
        heads = [number("id"), *text, *map(number, ("triggered", "took", "size", "files"))]
        console.print(figures(heads, map(_checkpoint_cells, inventory.checkpoints)))
    else:
        say(f"{inventory.root}: holds no checkpoints")
    for problem in inventory.problems:
        line = Text.assemble((f"{problem.wrong}: ", "bold"), f"{problem.path}: {problem.why}")
        console.print(line, soft_wrap=True)
    if inventory.verified and not inventory.problems:
        console.print("all files are as they were written", highlight=False)


def _checkpoint_cells(entry: CheckpointEntry) -> tuple[str | Text, ...]:
    return (
        str(entry.checkpoint_id) if entry.savepoint is msgspec.UNSET else Text(entry.savepoint),
        str(entry.status),
        Text(_type_text(entry.checkpoint_type or NOTHING)),
        NOTHING if entry.triggered_at is None else f"{entry.triggered_at:.1f} s",
        milliseconds(None if entry.duration_s is None else entry.duration_s * 1000),
        size(entry.size),
        str(entry.files),
    )


def _type_text(checkpoint_type: str) -> str:
    return checkpoint_type.replace("_", " ").lower()


def print_state(contents: StateContents, console: Console) -> None:
    """Print the states in a checkpoint, the largest keys, and the in-flight data."""
    kind = _type_text(contents.checkpoint_type)
    head = f"  {kind} {contents.checkpoint_id} of {contents.job}, {size(contents.size)}"
    console.print(Text.assemble((contents.path, "bold"), head), soft_wrap=True)
    if contents.keyed:
        _print_keyed(contents.keyed, console)
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
        rows = [(Text(name), Text(text, overflow="fold")) for name, text in lines]
        console.print()
        console.print(grid([], rows), highlight=False)
    if not (lines or contents.keyed):
        say(f"{contents.path}: has no state")


def _print_keyed(keyed: list[KeyedContents], console: Console) -> None:
    names = [Column(head, overflow="fold") for head in ("vertex", "state", "kind")]
    heads = ("keys", "entries", "size", "largest\ngroup", "largest\nsubtask")
    counts = [Column(head, justify="right", overflow="fold") for head in heads]
    table = figures([*names, *counts])
    for each in keyed:
        spread = (f"{each.group_skew:.2f} x", f"{each.skew:.2f} x")
        numbers = (f"{each.keys:,}", f"{each.entries:,}", size(each.size))
        table.add_row(Text(each.vertex), Text(each.state), each.kind, *numbers, *spread)
    console.print()
    console.print(table)
    console.print(_SKEW_LEGEND, style="dim", highlight=False)
    for each in keyed:
        if each.largest:
            console.print()
            console.print(Text(f"largest keys of {each.vertex}, {each.state}"))
            columns = [Column(no_wrap=True), number(""), number(""), Column(no_wrap=True)]
            console.print(grid(columns, map(_key_cells, each.largest)), highlight=False)


def _key_cells(key: LargeKey) -> tuple[str | Text, ...]:
    text = key.key if len(key.key) <= _LONGEST_KEY else f"{key.key[:_LONGEST_KEY]}..."
    return Text(f"  {text}"), size(key.size), f"{key.entries:,} x", f"key group {key.key_group}"
