"""Feed what reads foreign bytes with millions of inputs: ``python -m tests.fuzz --inputs 10000000``.

The run goes in pieces, each of one door and from a seed of its own, in a process of its own. With
``--log FILE`` each finished piece leaves a line there, and each input that failed another one; a run with the
same file goes on where the last one ended. ``--replay DOOR SEED NUMBER`` runs one input again.
`tests.fuzz.guided` does the same with inputs that a coverage-guided fuzzer makes up.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .door import Door
from .doors import DOORS
from .pieces import Failure, Piece, arguments_of, run_apart

PIECE_S = 5.0
"""About how long a piece takes."""

IN_MEMORY = Path("/dev/shm")
"""Where files cost no disk, if there is such a place."""

_INTERRUPTED = 130


class Run:
    """What of a run is done, and what there is to do."""

    def __init__(self, doors: Sequence[Door], inputs: int, first_seed: int) -> None:
        self.failures = 0
        self.done: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self._doors = doors
        self._seeds: dict[str, set[int]] = {door.name: set() for door in doors}
        self._first_seed = first_seed
        shares = sum(door.share for door in doors)
        self._wanted = {door.name: max(1, round(inputs * door.share / shares)) for door in doors}

    def add(self, door: str, seed: int, piece: Piece) -> None:
        """Count a piece that is done."""
        self._seeds[door].add(seed)
        self.done[door] += piece.inputs
        self.accepted[door] += piece.accepted
        self.seconds[door] += piece.seconds
        self.failures += len(piece.failures)

    def next(self) -> tuple[Door, int, int] | None:
        """The next piece: door, seed and number of inputs; of the door that is farthest behind."""
        left = [door for door in self._doors if self.done[door.name] < self._wanted[door.name]]
        if not left:
            return None
        door = min(left, key=lambda each: self.done[each.name] / self._wanted[each.name])
        seed = self._first_seed
        while seed in self._seeds[door.name]:
            seed += 1
        missing = self._wanted[door.name] - self.done[door.name]
        return door, seed, min(missing, max(1, round(door.per_second * PIECE_S)))

    def rate(self, door: Door) -> float:
        """Inputs of a door in a second, as measured where there is a measurement."""
        seconds = self.seconds[door.name]
        return self.done[door.name] / seconds if seconds else door.per_second

    @property
    def left_s(self) -> float:
        """About how many seconds the rest takes."""
        rest = ((door, self._wanted[door.name] - self.done[door.name]) for door in self._doors)
        return sum(max(0, missing) / self.rate(door) for door, missing in rest)


def read_log(file: Path, run: Run) -> None:
    """Take the pieces of an earlier run as done, as far as they are of doors of this one."""
    pieces: dict[tuple[str, int], dict[str, Any]] = {}
    failures: dict[tuple[str, int], list[Failure]] = {}
    for line in file.read_text("utf-8").splitlines():
        entry = json.loads(line)
        of = (entry["door"], entry["seed"])
        if "inputs" in entry:
            pieces[of] = entry
        else:
            failures.setdefault(of, []).append(Failure(entry["number"], entry["error"]))
    for (door, seed), entry in pieces.items():
        if door in run._seeds:
            found = failures.get((door, seed), [])
            run.add(door, seed, Piece(entry["inputs"], entry["accepted"], entry["seconds"], found))


def write_log(file: Path, door: str, seed: int, piece: Piece) -> None:
    """Add the lines of a piece, failures first, so that the line that it is done vouches for them too."""
    about = {"door": door, "seed": seed}
    lines: list[dict[str, Any]] = [about | failure._asdict() for failure in piece.failures]
    lines.append(about | {key: value for key, value in piece._asdict().items() if key != "failures"})
    with file.open("a", encoding="utf-8") as log:
        log.write("".join(json.dumps(line) + "\n" for line in lines))


def go_on(run: Run, inputs: int, log: Path | None) -> None:
    """Run piece by piece what is left."""
    begun = time.monotonic()
    while (planned := run.next()) is not None:
        door, seed, count = planned
        piece = run_apart(door, seed, count)
        run.add(door.name, seed, piece)
        if log is not None:
            write_log(log, door.name, seed, piece)
        for failure in piece.failures:
            print(f"{door.name} {seed} {failure.number}: {failure.error}", file=sys.stderr)
        done, rate = run.done.total(), round(piece.inputs / max(piece.seconds, 0.01))
        print(
            f"{done:,} of {inputs:,}, {time.monotonic() - begun:.0f} s, {run.left_s:.0f} s left; "
            f"{door.name} {seed}: {piece.inputs:,} inputs, {rate:,}/s, {piece.accepted:,} accepted",
            flush=True,
        )


def replay(name: str, seed: str, number: str) -> None:
    """Print an input, and let what comes of it out."""
    arguments = arguments_of(DOORS[name], int(seed), int(number))
    print(f"{DOORS[name].check.__name__}(*{arguments!r})")
    print("accepted" if DOORS[name].check(*arguments) else "refused")


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many, of all doors (%(default)s)")
    parser.add_argument("--doors", nargs="+", choices=sorted(DOORS), default=sorted(DOORS), metavar="DOOR")
    parser.add_argument(
        "--first-seed", type=int, default=0, help="the seed of the first pieces (%(default)s)"
    )
    parser.add_argument("--log", type=Path, help="a file for the pieces that are done, and for failures")
    parser.add_argument("--replay", nargs=3, metavar=("DOOR", "SEED", "NUMBER"), help="run one input again")
    options = parser.parse_args()
    if IN_MEMORY.is_dir():
        tempfile.tempdir = str(IN_MEMORY)
    if options.replay:
        replay(*options.replay)
        return 0
    run = Run([DOORS[name] for name in options.doors], options.inputs, options.first_seed)
    if options.log and options.log.exists():
        read_log(options.log, run)
    try:
        go_on(run, options.inputs, options.log)
    except KeyboardInterrupt:
        print(f"\nstopped after {run.done.total():,} inputs; the same command goes on if it has a --log")
        return _INTERRUPTED
    for door in sorted(run.done):
        rate = run.rate(DOORS[door])
        print(f"{door:12} {run.done[door]:12,} inputs {rate:10,.0f}/s {run.accepted[door]:12,} accepted")
    print(f"{run.done.total():,} inputs, {run.failures or 'no'} failures")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
