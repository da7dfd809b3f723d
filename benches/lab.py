"""Measures the processor time of an emulation with and without an open lab page; prints a table as Markdown.

Run it with ``python -m benches.lab``; ``--rounds N`` and ``--sizes 64,300`` select the rounds and the
parallelisms. The job has two vertices with an all-to-all exchange, sinks that are the bottleneck, and a
checkpoint every five seconds; it runs as fast as possible. With a page, ``netstack lab`` runs in another
process. This process connects to the lab by a websocket and reads all frames. At the first and the last
frame, it reads the lab's processor time in ``/proc``. Without a page, ``emulate`` runs the same job over the
same emulated seconds. The two are measured alternately. The processor time is the minimum of all rounds,
since other work on the machine can only increase it; other figures are medians.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import monotonic, process_time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import Request, TextMessage

from netstack import Scenario, core_is_compiled, emulate, read_scenario, scenario_toml

SIZES = (8, 64, 300)
ROUNDS = 5
BEGIN_S = 3.0
"""Emulated seconds after which processor time counts, because queues are full by then."""

END_S = {8: 40.0, 64: 8.0, 300: 5.0}
"""Emulated seconds at which the measurement ends, by parallelism."""

ROOT = Path(__file__).resolve().parent.parent


class Cost(NamedTuple):
    """Cost of a run."""

    cpu_s: float
    """Processor seconds per emulated second."""
    frames_per_s: float
    """Frames per real second; 0 without a page."""
    frame_bytes: float


def job(parallelism: int) -> Scenario:
    """Return a back-pressured job: each source emits 300 records per second, and each sink can read 200."""
    return read_scenario(
        {
            "name": f"{parallelism}x{parallelism}",
            "duration": "1 h",
            "flink": {"execution.checkpointing.interval": "5 s"},
            "vertices": [
                {
                    "name": "source",
                    "parallelism": parallelism,
                    "source": {"record_bytes": 1000, "rate": [300]},
                },
                {"name": "sink", "parallelism": parallelism, "service": "5 ms"},
            ],
            "edges": [{"from": "source", "to": "sink", "ship": "rebalance"}],
        }
    )


def alone(parallelism: int, pipe: Any) -> None:
    """Emulate the job, and send its `Cost` over `pipe`."""
    marks: list[tuple[float, float]] = []
    end_s = END_S.get(parallelism, 10.0)

    def passed(now: float) -> None:
        if now >= BEGIN_S:
            marks.append((now, process_time()))

    emulate(job(parallelism).ending_at(end_s + 1), progress=passed)
    (begin, before), (end, after) = marks[0], next(mark for mark in marks if mark[0] >= end_s)
    pipe.send(Cost((after - before) / (end - begin), 0.0, 0.0))


def without_page(parallelism: int) -> Cost:
    """Run the job in a new process, and return its cost."""
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=alone, args=(parallelism, there))
    process.start()
    cost: Cost = here.recv()
    process.join()
    return cost


def with_page(parallelism: int) -> Cost:
    """Run the job in a lab, read frames like a page, and return the cost."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.toml"
        file.write_text(scenario_toml(job(parallelism)))
        command = [sys.executable, "-m", "integration", "lab", "--no-browser", str(file)]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as lab:
            assert lab.stdout is not None
            try:
                return watched(lab.stdout.readline().strip(), lab.pid, END_S.get(parallelism, 10.0))
            finally:
                lab.terminate()  # not Ctrl-C, which background processes of a shell ignore


class Moment(NamedTuple):
    """A moment of a run, by three clocks in seconds."""

    emulated_s: float
    cpu_s: float
    wall_s: float


def watched(address: str, pid: int, end_s: float) -> Cost:
    """Read frames until `end_s` of the run, and return the cost of the process `pid` meanwhile."""
    first: Moment | None = None
    frames = size = 0
    for text in messages(address):
        frame = json.loads(text)
        if frame["type"] != "frame" or frame["t"] < BEGIN_S:
            continue
        now = Moment(frame["t"], cpu_s(pid), monotonic())
        if first is None:
            first = now
            continue
        frames, size = frames + 1, size + len(text)
        if frame["t"] >= end_s:
            wall_s = now.wall_s - first.wall_s
            cpu_per_s = (now.cpu_s - first.cpu_s) / (now.emulated_s - first.emulated_s)
            return Cost(cpu_per_s, frames / wall_s, size / frames)
    raise RuntimeError("the lab has ended")


def messages(address: str) -> Iterator[str]:
    """Connect to a lab like a page, set the maximum speed, and yield the messages of the lab."""
    url = urlsplit(address)
    page = WSConnection(ConnectionType.CLIENT)
    opening = Request(
        host=url.netloc,
        target=f"/ws?{url.query}",
        extra_headers=[(b"Origin", f"http://{url.netloc}".encode())],
    )
    with socket.create_connection((url.hostname, url.port)) as connection:
        connection.sendall(page.send(opening))
        asked, text = False, ""
        while data := connection.recv(1 << 20):
            page.receive_data(data)
            for event in page.events():
                if isinstance(event, TextMessage):
                    text += event.data
                    if event.message_finished:
                        yield text
                        text = ""
            if not asked:
                asked = True
                connection.sendall(page.send(TextMessage(data='{"type": "pace", "value": null}')))


def cpu_s(pid: int) -> float:
    """Return the processor seconds of a process so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def row(parallelism: int, rounds: int) -> str:
    """Measure one parallelism, and return its row of the table."""
    pairs = [(without_page(parallelism), with_page(parallelism)) for _ in range(rounds)]
    pages = [page for _, page in pairs]
    without, with_one = min(plain.cpu_s for plain, _ in pairs), min(page.cpu_s for page in pages)
    return (
        f"| {parallelism}x{parallelism} | {without:.3f} s | {with_one:.3f} s | {with_one / without:.2f} "
        f"| {median(page.frames_per_s for page in pages):.1f} "
        f"| {median(page.frame_bytes for page in pages) / 1024:.1f} KiB |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    given = parser.parse_args()
    print(f"{'Compiled' if core_is_compiled() else 'Plain Python'}; processor time of an emulated second:\n")
    print("| job | without a page | with a page | ratio | frames a second | bytes of a frame |")
    print("|---|---:|---:|---:|---:|---:|")
    for size in given.sizes.split(","):
        print(row(int(size), given.rounds), flush=True)


if __name__ == "__main__":
    main()
