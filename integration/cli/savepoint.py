"""The command ``netstack savepoint``."""

from __future__ import annotations

from typing import Literal

from flowcontrol import PostCheckpointAction, SavepointFormat
from netstack import SavepointRequest, StorageError

from ..files.reading import one_line
from ..present.console import print_line, shown, to_stderr
from ..present.progress import activity
from .arguments import Flag, usage_error


def savepoint(
    directory: str,
    /,
    *,
    to: str | None = None,
    stop: Flag = False,
    drain: Flag = False,
    format: Literal["canonical", "native"] = "canonical",
) -> int:
    """Take a savepoint of a job that runs with `--real-time` or `--on-spark`, and print its path.

    `netstack run --from-savepoint` continues from the savepoint. It is kept until you delete it.

    Args:
        directory: The directory of the job's checkpoints (execution.checkpointing.dir).
        to: Directory in which the savepoint's folder is created. By default, the job's savepoint directory,
            or its checkpoint directory if it has no savepoint directory.
        stop: Stop the job with the savepoint. The sources send no data after its barriers.
        drain: End the job with the savepoint. Operators first emit the data that they hold, as at the end of
            input.
        format: canonical, which all state backends can read, or native, which is faster for RocksDB.
    """
    # Imported here, because few commands need it and it takes a while.
    from ..storage.savepoint_requests import RequestFolder

    if stop and drain:
        raise usage_error("savepoint", "--drain already stops the job; give only one of --stop and --drain")
    action = PostCheckpointAction.NONE
    if stop or drain:
        action = PostCheckpointAction.TERMINATE if drain else PostCheckpointAction.SUSPEND
    request = SavepointRequest(directory=to, format=SavepointFormat[format.upper()], action=action)
    try:
        with activity("savepoint", to_stderr()) as report:
            location = RequestFolder(directory).ask(request, report)
    except StorageError as error:
        raise usage_error("savepoint", one_line(error)) from None
    print_line(shown(location))
    return 0
