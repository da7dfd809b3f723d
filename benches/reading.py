"""Measures the reading of large Flink jobs; prints a table as Markdown.

``python -m benches.reading RECORDING`` reads the recorded job, and jobs of up to 4,000 subtasks that consist
of its copies: each vertex has as many times the subtasks, and each task manager as many copies. A server in a
process of its own answers like Flink, each request after 20 ms. Its counters grow as in the recording, and it
collects them when a request comes, at most once per update interval. It refuses request lines that are too
long for Flink.

"beyond the watch" is the wall time minus the time for which the metrics were watched. The processor time is
that of the reader alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import ceil
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, perf_counter, process_time
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from integration.base.reading import LARGEST_RECORDING, read_user_file, unpacked
from integration.flink import import_scenario

SUBTASKS = (20, 1000, 4000)
ANSWER_S = 0.02
UPDATE_S = 10.0

LONGEST_LINE = 4096
"""Maximum length of the first line of a request, as in Flink (Netty's default)."""

_GROWING = re.compile(r"num(Records|Bytes|Buffers)\w*(?<!PerSecond)|accumulate\w+")
_METRICS = re.compile(r"(?P<vertex>.*)/subtasks/(?P<subtask>\d+)/metrics")
_MANAGER, _MANAGERS = "taskmanager-id", "/taskmanagers"
_CPU = {"Status.JVM.CPU.Time": 2e8, "Status.JVM.CPU.Load": 0.0}
"""Metrics of a task manager, and their growth per second."""


class LargeJob:
    """Answers of a cluster with many copies of the subtasks of a recorded one."""

    def __init__(
        self,
        document: Mapping[str, Any],
        subtasks: int,
        update_s: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._clock = clock
        self._answers: Mapping[str, Any] = document["answers"]
        self._every_s = document.get("metrics_every_s") or 1.0
        self._update_s = update_s
        self._base = f"/jobs/{document['job']}"
        self._vertices = self._answers[self._base]["vertices"]
        self._copies = ceil(subtasks / sum(entry["parallelism"] for entry in self._vertices))
        self._began_s = self._collected_s = clock()
        self._kept: dict[str, Any] = {}
        self._metrics: dict[tuple[str, int], dict[str, tuple[float, float] | str]] = {}

    def answer(self, path: str, names: list[str]) -> Any | None:
        """Return the answer to a path, with these names of metrics; None: there is no such path."""
        if path.endswith("/metrics") and names:
            return self._values(path, names)
        if path not in self._kept:
            self._kept[path] = self._multiplied(path)
        return self._kept[path]

    def _multiplied(self, path: str) -> Any | None:
        if path == "/jobmanager/config":
            entry = {"key": "metrics.fetcher.update-interval", "value": str(round(1e3 * self._update_s))}
            return [entry, *(each for each in self._answers[path] if each["key"] != entry["key"])]
        if path == _MANAGERS:
            recorded = [each for each in self._answers if re.fullmatch(f"{_MANAGERS}/[^/]+", each)]
            copied = [f"{manager}-{copy}" for copy in range(self._copies) for manager in recorded]
            return {"taskmanagers": list(map(self._multiplied, copied))}
        if path.startswith(_MANAGERS):
            manager, _, copy = path.rpartition("-")
            answer = self._answers.get(manager)
            host = f"pekko.tcp://flink@host{copy}:6122/user/rpc/taskmanager_0"
            return answer and answer | {"id": path.removeprefix(f"{_MANAGERS}/"), "path": host}
        answer = self._answers.get(path)
        if path == self._base:
            counts = [
                entry | {"parallelism": entry["parallelism"] * self._copies} for entry in self._vertices
            ]
            return self._answers[path] | {"vertices": counts}
        if isinstance(answer, dict) and "subtasks" in answer:
            return answer | {"subtasks": self._copied(answer["subtasks"])}
        return answer

    def _copied(self, subtasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        copied = []
        for copy in range(self._copies):
            for entry in subtasks:
                numbers = {key: value for key, value in entry.items() if key in ("subtask", "index")}
                moved = {key: number + copy * len(subtasks) for key, number in numbers.items()}
                if (manager := entry.get(_MANAGER)) is not None:
                    moved[_MANAGER] = f"{manager}-{copy}"
                copied.append(entry | moved)
        return copied

    def _values(self, path: str, names: list[str]) -> Any | None:
        if (now_s := self._clock()) >= self._collected_s + self._update_s:
            self._collected_s = now_s
        seconds = self._collected_s - self._began_s
        if path.startswith(_MANAGERS):
            return [{"id": name, "value": str(1e9 + _CPU[name] * seconds)} for name in names if name in _CPU]
        if (one := _METRICS.fullmatch(path)) is not None:
            return self._of_subtask(one["vertex"], int(one["subtask"]), names, seconds)
        vertex, entries = path.removesuffix("/metrics"), []
        if vertex not in self._answers:
            return None
        for name in names:
            subtask, _, of_subtask = name.partition(".")
            values = self._of_subtask(vertex, int(subtask), [of_subtask], seconds) or []
            entries += [{"id": name, "value": entry["value"]} for entry in values]
        return entries

    def _of_subtask(
        self, vertex: str, subtask: int, names: list[str], seconds: float
    ) -> list[dict[str, str]] | None:
        recorded = len(self._answers[vertex]["subtasks"])
        if subtask >= recorded * self._copies:
            return None
        known = self._known(vertex, subtask % recorded)
        entries = []
        for name in names:
            if (value := known.get(name)) is not None:
                now = value if isinstance(value, str) else str(int(value[0] + value[1] * seconds))
                entries.append({"id": name, "value": now})
        return entries

    def _known(self, vertex: str, subtask: int) -> dict[str, tuple[float, float] | str]:
        """Return the metrics of a recorded subtask: a text, or the first value and its growth per second."""
        if (known := self._metrics.get((vertex, subtask))) is None:
            rounds = self._answers[f"{vertex}/subtasks/{subtask}/metrics?get=*"]
            first, last = ({entry["id"]: entry["value"] for entry in rounds[at]} for at in (0, -1))
            known = dict(last)
            for name in filter(_GROWING.fullmatch, first):
                with suppress(ValueError):
                    begin, end = float(first[name]), float(last[name])
                    known[name] = (begin, (end - begin) / self._every_s / (len(rounds) - 1))
            self._metrics[vertex, subtask] = known
        return known


def _serve(document: Mapping[str, Any], subtasks: int, update_s: float, end: Connection) -> None:
    """Answer requests. Send the port, and the numbers of requests and connections when asked."""
    job = LargeJob(document, subtasks, update_s)
    requests = connections = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests, connections
        connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                line, _, _ = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
                requests += 1
                path, _, query = unquote(line.split()[1].decode()).partition("?")
                names = query.removeprefix("get=").split(",") if query else []
                answer = None if len(line) > LONGEST_LINE else job.answer(path, names)
                body = json.dumps({"errors": ["no"]} if answer is None else answer).encode()
                await asyncio.sleep(ANSWER_S)
                status = b"404 Not Found" if answer is None else b"200 OK"
                status = b"414 Too Long" if len(line) > LONGEST_LINE else status
                head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                writer.write(head % (status, len(body)) + body)
                await writer.drain()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=1 << 20)
        end.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(end.recv)
        end.send((requests, connections))

    asyncio.run(serve())


class Figures(NamedTuple):
    """The cost of reading a job."""

    requests: int
    connections: int
    watched_s: float
    wall_s: float
    processor_s: float
    longest_note: int


def read_job(document: Mapping[str, Any], subtasks: int, update_s: float) -> Figures:
    """Return the cost of reading a job with so many subtasks."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(document, subtasks, update_s, theirs)
    )
    server.start()
    try:
        port = ours.recv()
        watched = [0.0]
        began, began_cpu = perf_counter(), process_time()
        imported = import_scenario(
            f"http://127.0.0.1:{port}", watching=lambda done, total: watched.append(total)
        )
        wall_s, processor_s = perf_counter() - began, process_time() - began_cpu
        ours.send(None)
        requests, connections = ours.recv()
    finally:
        server.join(10.0)
        server.terminate()
    longest = max(len(str(note)) for note in imported.notes)
    return Figures(requests, connections, watched[-1], wall_s, processor_s, longest)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benches.reading")
    parser.add_argument("recording", type=Path)
    parser.add_argument("--subtasks", type=int, nargs="*", default=SUBTASKS)
    parser.add_argument(
        "--update", type=float, default=UPDATE_S, help="update interval of metrics, in seconds"
    )
    asked = parser.parse_args()
    content = unpacked(read_user_file(asked.recording, LARGEST_RECORDING), LARGEST_RECORDING)
    document = msgspec.json.decode(content)
    print(
        "| subtasks | requests | connections | wall, s | beyond the watch, s | processor, s | longest note |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for subtasks in asked.subtasks:
        found = read_job(document, subtasks, asked.update)
        print(
            f"| {subtasks:,} | {found.requests:,} | {found.connections:,} | {found.wall_s:.1f} "
            f"| {found.wall_s - found.watched_s:.1f} | {found.processor_s:.1f} | {found.longest_note:,} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
