"""A file of the storms that were run, by which many of them go on where they were stopped.

Its first line says which storms they are: seeds mean other cases when what is drawn changes. Each further
line tells of a range of seeds that is done, and of those of them that failed. A last line that is cut off, as
a process leaves it that is ended from outside, counts for nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from netstack import ScenarioError

from .draw import draw_case
from .storm_outcome import Outcome

SEEDS_A_LINE = 256
"""Seeds that a line tells of at most."""

_DRAWN = 64
"""So many cases tell what seeds mean."""


class _Head(msgspec.Struct, frozen=True):
    storms: str
    """Equal if the same seeds are the same cases."""


class _Done(msgspec.Struct, frozen=True):
    first: int
    seeds: int
    wrong: dict[int, tuple[str, ...]] = {}


def meaning_of_seeds() -> str:
    """Return a text that is another one when seeds mean other cases."""
    cases = repr([draw_case(seed) for seed in range(_DRAWN)])
    return hashlib.sha256(cases.encode()).hexdigest()[:16]


class StormLog:
    """The storms of a file, which is made if there is none; `wrong` has what failed, by seed.

    Raises:
        ScenarioError: it is no log of storms, or one of others than these; or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.wrong: dict[int, tuple[str, ...]] = {}
        self._path = path
        self._done: list[range] = []
        self._outcomes: list[Outcome] = []
        try:
            lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
            if not lines:
                self._append(_Head(meaning_of_seeds()))
                return
            if not lines[-1].endswith(b"\n"):
                path.write_bytes(b"".join(lines[:-1]))
                del lines[-1]
            self._read(lines)
        except (OSError, msgspec.DecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no log of storms; name another file"
            raise ScenarioError([f"{path}: {reason}"]) from error

    def _read(self, lines: Sequence[bytes]) -> None:
        head = msgspec.json.decode(lines[0], type=_Head)
        if head.storms != meaning_of_seeds():
            text = "its seeds were other storms than those of this version; name another file"
            raise ScenarioError([f"{self._path}: {text}"])
        for line in lines[1:]:
            done = msgspec.json.decode(line, type=_Done)
            self._done.append(range(done.first, done.first + done.seeds))
            self.wrong.update(done.wrong)

    def left(self, seeds: range) -> list[range]:
        """Return those of some seeds that are not done, in ranges as long as can be."""
        left = [seeds]
        for done in sorted(self._done, key=lambda each: each.start):
            parts = [
                part
                for each in left
                for part in (
                    range(each.start, min(each.stop, done.start)),
                    range(max(each.start, done.stop), each.stop),
                )
            ]
            left = [part for part in parts if part]
        return left

    def wrong_among(self, seeds: range) -> dict[int, tuple[str, ...]]:
        """What has failed before of some seeds."""
        return {seed: self.wrong[seed] for seed in sorted(self.wrong) if seed in seeds}

    def note(self, outcome: Outcome) -> None:
        """Take note of a storm; they come in the order of their seeds, each once.

        Raises:
            OSError: the file cannot be written.
        """
        if self._outcomes and outcome.seed != self._outcomes[-1].seed + 1:
            self.close()
        self._outcomes.append(outcome)
        if len(self._outcomes) == SEEDS_A_LINE:
            self.close()

    def close(self) -> None:
        """Write down what is not written yet."""
        outcomes, self._outcomes = self._outcomes, []
        if outcomes:
            wrong = {each.seed: each.problems for each in outcomes if each.problems}
            self._append(_Done(outcomes[0].seed, len(outcomes), wrong))

    def _append(self, line: _Head | _Done) -> None:
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
