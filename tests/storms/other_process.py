"""Runs storms once more in a fresh process of Python, whose sets and hashes are in another order."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from .one_storm import run_storm

_ANOTHER_HASH_SEED = "20011"
_PROGRAM = "from tests.storms.other_process import print_digests; print_digests()"


def print_digests() -> None:
    """Run the storms whose seeds are the arguments, and print what tells their runs apart."""
    for seed in map(int, sys.argv[1:]):
        print(run_storm(seed).digest, flush=True)


def digests_elsewhere(seeds: Sequence[int]) -> list[str]:
    """Return what tells the runs of some storms apart, as another process has it.

    Raises:
        OSError: it cannot be started.
        subprocess.CalledProcessError: it has failed.
    """
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONHASHSEED": _ANOTHER_HASH_SEED, "PYTHONPATH": path}
    command = [sys.executable, "-c", _PROGRAM, *map(str, seeds)]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.split()


def check_elsewhere(digests: dict[int, str]) -> Iterator[tuple[int, str]]:
    """Yield each seed whose run another process does not repeat, with what is to be said of it.

    `digests` are those of the runs here, by seed.
    """
    for (seed, here), there in zip(digests.items(), digests_elsewhere(list(digests)), strict=True):
        if here != there:
            yield seed, "another process gives another result"
