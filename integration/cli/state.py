"""The command ``netstack state``."""

from __future__ import annotations

from pathlib import Path

from netstack import InitialCheckpoint, StateError, StorageError

from ..base.errors import FileError
from ..base.file_kinds import FileKind
from ..base.number_text import counted
from ..base.reading import one_line
from ..show.terminal.checkpoints import print_state
from ..show.terminal.console import say
from ..show.terminal.documents import present
from .accepted_kinds import require_kind
from .arguments import Flag, Whole


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
    """Show the state in a checkpoint or savepoint: states by vertex, sizes, skew, largest keys.

    Args:
        path: A checkpoint (chk-N), a savepoint, or a directory of checkpoints, whose latest one is read.
        vertex: Show only the state of this vertex.
        state: Show only the keyed state of this name.
        top: Number of keys to show of each state, the largest first.
        json: Print one JSON document, which also has the bytes of each key group.
        arrow: Write all entries of keyed state to this file, in Arrow's format; keys and values as JSON.
    """
    # Imported here, because these modules take a while.
    from ..storage.checkpoint_list import find_checkpoint
    from ..storage.state_contents import contents_of, require_state

    require_kind(Path(path), FileKind.CHECKPOINTS)
    try:
        checkpoint = find_checkpoint(path)
        require_state(checkpoint, vertex, state)
        contents = contents_of(checkpoint, vertex, state, top)
        if arrow is not None:
            _write_arrow(checkpoint, vertex, state, arrow)
    except (StorageError, StateError) as error:
        raise FileError([f"netstack state: {one_line(error)}"]) from None
    present(contents, print_state, json=json)
    return 0


def _write_arrow(checkpoint: InitialCheckpoint, vertex: str | None, state: str | None, file: Path) -> None:
    from ..storage.state_contents import write_entries

    try:
        rows = write_entries(checkpoint, vertex, state, file)
    except OSError as error:
        raise FileError([f"netstack state: {file}: {error.strerror or error}"]) from None
    say(f"wrote {file}: {counted(rows, 'row')}")
