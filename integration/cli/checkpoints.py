"""The command ``netstack checkpoints``."""

from __future__ import annotations

from pathlib import Path

from netstack import StorageError

from ..base.errors import FileError
from ..base.file_kinds import FileKind
from ..show.terminal.checkpoints import print_inventory
from ..show.terminal.documents import present
from ..storage.checkpoint_list import take_inventory
from ..storage.directory import DirectoryStorage
from .accepted_kinds import require_kind
from .arguments import Flag
from .exit_status import FAILED


def checkpoints(directory: str, /, *, verify: Flag = False, json: Flag = False) -> int:
    """List the checkpoints in a directory. With `--verify`, the exit status is 1 if a file is wrong.

    Args:
        directory: The directory that holds chk-1, chk-2 and so on: a path, or a URI such as s3://bucket/path.
        verify: Read every file, compare it with its checksum, and report missing, corrupt and left-over
            files.
        json: Print the list as one JSON document.
    """
    require_kind(Path(directory), FileKind.CHECKPOINTS)
    try:
        storage = DirectoryStorage(directory)
        if not storage.exists():
            raise FileError([f"{directory}: there is no such directory"])
        inventory = take_inventory(storage, directory, verify=verify)
    except StorageError as error:
        raise FileError([f"netstack checkpoints: {error}"]) from error
    if not inventory.checkpoints and not inventory.problems:
        raise FileError([f"{inventory.root}: contains no checkpoints"])
    present(inventory, print_inventory, json=json)
    return FAILED if inventory.problems else 0
