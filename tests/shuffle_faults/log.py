"""A file of outcomes, one to a line, by which many shuffles go on where they were stopped.

Its first line says which cases they are: seeds mean others when what is drawn changes. A last line that is
cut off counts for nothing.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from .case import meaning_of_seeds
from .one_shuffle import Outcome


class _Head(msgspec.Struct, frozen=True):
    shuffle_faults: str


class Log:
    """The outcomes of a file, which is made if there is none; `outcomes` has those that are there, by seed.

    Raises:
        ValueError: it is no such log, or one of other cases.
        OSError: it cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.outcomes: dict[int, Outcome] = {}
        self._path = path
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        if lines and not lines[-1].endswith(b"\n"):
            path.write_bytes(b"".join(lines[:-1]))
            del lines[-1]
        if not lines:
            self._append(_Head(meaning_of_seeds()))
            return
        try:
            head = msgspec.json.decode(lines[0], type=_Head)
            outcomes = [msgspec.json.decode(line, type=Outcome) for line in lines[1:]]
        except msgspec.DecodeError:
            raise ValueError(f"{path}: it is no log of shuffles under faults; name another file") from None
        if head.shuffle_faults != meaning_of_seeds():
            raise ValueError(f"{path}: its seeds were other cases than those of this version")
        self.outcomes = {outcome.seed: outcome for outcome in outcomes}

    def note(self, outcome: Outcome) -> None:
        """Write down an outcome."""
        self.outcomes[outcome.seed] = outcome
        self._append(outcome)

    def _append(self, line: _Head | Outcome) -> None:
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
