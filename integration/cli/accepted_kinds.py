"""Kinds of files that commands accept.

If a command does not accept the kind of a file, the error names the command that does.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from ..base.errors import FileError
from ..base.file_kinds import FileKind, kind_of

_ADVICE: Mapping[FileKind, str] = {
    FileKind.SCENARIO: "run it with netstack run {}",
    FileKind.RESULT: "read it with netstack diagnose {}",
    FileKind.RECORDING: "read it with netstack diagnose {0}, or netstack import-flink {0} for a scenario",
    FileKind.CHECKPOINTS: "list them with netstack checkpoints {}",
    FileKind.CONFIGURATION: "check it with netstack lint {}",
    FileKind.MEASUREMENT: "compare a scenario with it: netstack compare SCENARIO {}",
}


def require_kind(file: Path, *wanted: FileKind) -> FileKind | None:
    """Return the kind of a file; None if the kind is unknown, which the file's reader then reports.

    Raises:
        FileError: the kind is not accepted; the line names the command that accepts it.
    """
    kind = kind_of(file)
    if kind is not None and kind not in wanted:
        raise FileError([f"{file} is {kind}; {_ADVICE[kind].format(shlex.quote(str(file)))}"])
    return kind
