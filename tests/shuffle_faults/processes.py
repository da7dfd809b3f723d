"""The processes of a Spark session as ``/proc`` shows them: who they are, and what they have open."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
STOPPED = "T"
_LISTENS = "0A"
_EXECUTOR = "CoarseGrainedExecutorBackend"

Address = tuple[str, int]


class Process(NamedTuple):
    """A process at one moment."""

    pid: int
    parent: int
    state: str
    """A letter, as in ``ps``: `STOPPED`, or Z once it has ended and its parent has not looked."""
    command: str

    @property
    def is_executor(self) -> bool:
        """Whether it is an executor of Spark's."""
        return _EXECUTOR in self.command

    @property
    def is_python(self) -> bool:
        """Whether it runs Python for Spark."""
        return "daemon" in self.command and "python" in self.command


def process(pid: int) -> Process | None:
    """Return a process, unless it has ended."""
    with suppress(OSError):
        # Its name, in brackets, may have any characters.
        rest = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        command = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        if rest[0] not in "ZX":
            return Process(pid, int(rest[1]), rest[0], command)
    return None


def descendants(root: int) -> dict[int, Process]:
    """Return all processes below one, by their ids."""
    everybody = filter(None, (process(int(entry.name)) for entry in PROC.glob("[0-9]*")))
    children: dict[int, list[Process]] = {}
    for each in everybody:
        children.setdefault(each.parent, []).append(each)
    found: dict[int, Process] = {}
    left = [root]
    while left:
        for child in children.get(left.pop(), ()):
            found[child.pid] = child
            left.append(child.pid)
    return found


def executor_of(pid: int, tree: dict[int, Process]) -> int | None:
    """Return the executor below which a process runs; None if that is the driver, or the process is gone."""
    while pid in tree:
        if tree[pid].is_executor:
            return pid
        pid = tree[pid].parent
    return None


def open_files(pid: int) -> list[str]:
    """Return what a process has open, as links of ``/proc``; nothing if it has ended."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(PROC / str(pid) / "fd"):
            with suppress(OSError):
                found.append(os.readlink(entry.path))
    return found


def connections(pid: int) -> list[str]:
    """Return the TCP sockets of a process, as ``local-remote/state`` in the hexadecimals of ``/proc``."""
    mine = set(open_files(pid))
    rows = [line.split() for line in (PROC / "net" / "tcp").read_text().splitlines()[1:]]
    return [f"{row[1]}-{row[2]}/{row[3]}" for row in rows if f"socket:[{row[9]}]" in mine]


def listening(pids: Iterable[int]) -> dict[Address, int]:
    """Return the addresses of IPv4 and mapped ones at which processes listen, each with its process."""
    sockets = {file: pid for pid in pids for file in open_files(pid) if file.startswith("socket:")}
    found = {}
    for line in (PROC / "net" / "tcp").read_text().splitlines()[1:] if sockets else ():
        fields = line.split()
        pid = sockets.get(f"socket:[{fields[9]}]")
        if fields[3] == _LISTENS and pid is not None:
            host, port = fields[1].split(":")
            found[".".join(str(byte) for byte in reversed(bytes.fromhex(host))), int(port, 16)] = pid
    return found


def processes_with(variable: str) -> set[int]:
    """Return the processes that have a variable of the environment so, such as ``NAME=value``."""
    found = set()
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
    return found
