"""The same doors, with inputs from Atheris (libFuzzer), which looks for those that reach new code.

Atheris is no dependency of the project; it needs an environment of its own, which finds the packages of the
project's::

    python3.11 -m venv /tmp/atheris && /tmp/atheris/bin/pip install atheris
    PYTHONPATH=.:.venv/lib/python3.11/site-packages /tmp/atheris/bin/python -m tests.fuzz.guided \
        frames -runs=1000000 CORPUS_FOLDER

The folder keeps what was found for the next run; an empty one is filled with drawn inputs first. Of an input
that has more than bytes the rest is one of those drawn, which the last byte chooses.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["flowcontrol", "buffers", "netstack", "integration"]):
    from .doors import DOORS

from .door import Arguments, Door

_FIRST = 256


class Guided:
    """One door, with bytes of libFuzzer in the place of those that are drawn."""

    def __init__(self, door: Door) -> None:
        self._check = door.check
        self._drawn: list[Arguments] = list(islice(door.inputs(Random(0)), _FIRST))
        kinds = [type(each) for each in self._drawn[0]]
        if bytes not in kinds:
            raise SystemExit(f"inputs of {door.name} are more than bytes; draw them")
        self._place = kinds.index(bytes)

    def check_one(self, data: bytes) -> None:
        """Run one input of libFuzzer."""
        drawn = self._drawn[data[-1] if data else 0]
        self._check(*drawn[: self._place], data[:-1], *drawn[self._place + 1 :])

    def fill(self, folder: Path) -> None:
        """Begin with inputs that are mostly right."""
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            for number, drawn in enumerate(self._drawn):
                (folder / f"first-{number}").write_bytes(drawn[self._place] + bytes((number,)))


if __name__ == "__main__":
    guided = Guided(DOORS[sys.argv.pop(1)])
    for argument in sys.argv[1:]:
        if not argument.startswith("-"):
            guided.fill(Path(argument))
    atheris.Setup(sys.argv, guided.check_one)
    atheris.Fuzz()
