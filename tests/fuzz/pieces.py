"""A piece of a run: so many inputs of a door from one seed, in this process or in one that may be lost."""

from __future__ import annotations

import os
import resource
import signal
import time
import traceback
from collections.abc import Iterator
from itertools import islice
from mmap import mmap
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from .door import Arguments, Door, tidy

LONGEST_INPUT_S = 60.0
"""An input that takes its process more of a core is a failure: it hangs, or as good as that."""

LONGEST_WAIT_S = 600.0
"""So is one that is not over after so long, busy or not; a machine may have other work."""

MOST_MORE_BYTES = 2 << 30
"""Of address space that a piece may take beside what is there at its beginning."""

_ROOT = str(Path(__file__).resolve().parents[2])
_LOOK_S = 0.5


class Failure(NamedTuple):
    """An input that something else came of than what its door promises."""

    number: int
    """Of the input in its piece, from 0 on."""
    error: str


class Piece(NamedTuple):
    """What came of a piece."""

    inputs: int
    accepted: int
    seconds: float
    failures: list[Failure]


def run_here(door: Door, seed: int, first: int, stop: int) -> Iterator[bool | Failure]:
    """Run the inputs from number `first` to before `stop`: whether each was accepted, or how it failed."""
    for number, arguments in enumerate(islice(door.inputs(Random(seed)), first, stop), first):
        try:
            accepted = door.check(*arguments)
        except Exception as error:
            yield Failure(number, described(error))
        else:
            yield accepted


def arguments_of(door: Door, seed: int, number: int) -> Arguments:
    """The input of that number."""
    return next(islice(door.inputs(Random(seed)), number, None))


def described(error: BaseException) -> str:
    """An error in a line: its kind, the last place of ours that it came through, and what it says."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename.startswith(_ROOT)]
    place = f"{frames[-1].filename[len(_ROOT) + 1 :]}:{frames[-1].lineno}" if frames else "elsewhere"
    return f"{type(error).__name__} at {place}: {' '.join(str(error).split())[:200]}"


def run_apart(door: Door, seed: int, count: int) -> Piece:
    """Run a piece in processes of its own, a new one after each input that ends one or hangs."""
    begun, failures = time.perf_counter(), list[Failure]()
    reached, accepted = mmap(-1, 16), 0
    first = 0
    while first < count:
        reached[:8] = first.to_bytes(8)
        receiving, sending = get_context("fork").Pipe(duplex=False)
        process = get_context("fork").Process(target=_work, args=(door, seed, first, count, reached, sending))
        process.start()
        sending.close()
        try:
            told, hung = _listen(receiving, reached, process.pid)
        finally:
            process.kill()
            process.join()
        failures += told
        first = int.from_bytes(reached[:8])
        accepted += int.from_bytes(reached[8:])
        reached[8:] = bytes(8)
        if first < count:
            why = (
                f"no end after {LONGEST_INPUT_S:g} s"
                if hung
                else f"the process ended with {process.exitcode}"
            )
            failures.append(Failure(first, why))
            first += 1
    return Piece(count, accepted, round(time.perf_counter() - begun, 2), failures)


def _listen(receiving: Connection, reached: mmap, process: int | None) -> tuple[list[Failure], bool]:
    """What a process tells until it ends, and whether it hangs."""
    failures: list[Failure] = []
    last, since, worked_s = -1, time.monotonic(), 0.0
    while True:
        if receiving.poll(_LOOK_S):
            try:
                failures.append(Failure(*receiving.recv()))
            except EOFError:
                return failures, False
        at = int.from_bytes(reached[:8])
        if at != last:
            last, since, worked_s = at, time.monotonic(), _processor_s(process)
        elif _processor_s(process) - worked_s > LONGEST_INPUT_S or time.monotonic() - since > LONGEST_WAIT_S:
            return failures, True


def _processor_s(process: int | None) -> float:
    """The processor time that a process has used; 0 of one that is gone."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _work(door: Door, seed: int, first: int, stop: int, reached: mmap, sending: Connection) -> None:
    """Be the process: says in shared memory how far it is, and by the pipe what fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever has started it ends it
    _limit_memory()
    accepted = 0
    for number, outcome in enumerate(run_here(door, seed, first, stop), first + 1):
        if isinstance(outcome, Failure):
            sending.send(tuple(outcome))
        else:
            accepted += outcome
        reached[:] = number.to_bytes(8) + accepted.to_bytes(8)
    tidy()


def _limit_memory() -> None:
    """Have an allocation that a wrong length asks for fail, where it could be had."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + MOST_MORE_BYTES
    hard: Any = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
