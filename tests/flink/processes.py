"""Processes that must not be left behind: they stand in a file while they run, and are ended in order."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import TestbedError

_PATIENCE_S = 10.0
_NOTE = "processes"


class Processes:
    """The processes of one cluster, whose folder stands in their command lines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def ids(self) -> Mapping[str, int]:
        return {name: process.pid for name, process in self._running.items()}

    def start(self, name: str, command: Sequence[str]) -> None:
        with (self._folder / f"{name}.out").open("wb") as out:
            # A group of its own: Ctrl-C is for us, and we end these in order.
            self._running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                cwd=self._folder, process_group=0,
            )  # fmt: skip
        (self._folder / _NOTE).write_text("".join(f"{pid}\n" for pid in self.ids.values()), "utf-8")

    def check(self) -> None:
        """Say which one has ended, if one has.

        Raises:
            TestbedError: it has.
        """
        for name, process in self._running.items():
            if (status := process.poll()) is not None:
                how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
                log = self._folder / f"{name}.log"
                raise TestbedError(f"the {_spelt(name)} has ended ({how}); its log is {log}")

    def end(self) -> None:
        """End all that run, task managers first, and wait until they have."""
        for process in reversed(self._running.values()):
            if process.poll() is None:
                process.terminate()
        for process in self._running.values():
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        (self._folder / _NOTE).unlink(missing_ok=True)


def _spelt(name: str) -> str:
    return "job manager" if name == "jm" else f"task manager {name}"


def left_behind(folder: Path) -> list[int]:
    """The processes of an earlier cluster in that folder that still run."""
    try:
        noted = [int(line) for line in (folder / _NOTE).read_text("utf-8").split()]
    except (OSError, ValueError):
        return []
    return [process for process in noted if str(folder) in _command_line(process)]


def end_left_behind(folder: Path) -> int:
    """End them; returns how many there were."""
    count = len(left_behind(folder))
    for sent in (signal.SIGTERM, signal.SIGKILL):
        for process in left_behind(folder):
            os.kill(process, sent)
        deadline = time.monotonic() + _PATIENCE_S
        while left_behind(folder) and time.monotonic() < deadline:
            time.sleep(0.1)
    return count


def _command_line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
