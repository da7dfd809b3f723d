"""Recorded answers of real Flink clusters, served again by a real HTTP server on loopback."""

import gzip
import json
import os
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from integration.flink.http.answers import Answers, Refused

RECORDINGS = Path(__file__).parents[2] / "data/flink-rest"
NAMES = (
    "flink-2.2.1_2x2_200KBs_on1s",
    "flink-1.20.5_2x2_200KBs_on1s",
    "flink-2.2.1_2x2x2_1MBs_depth2_off",
)
ALL_METRICS = "?get=*"


def recording(name: str) -> dict[str, Any]:
    """Return the options with which a cluster was started, and its answers."""
    document: dict[str, Any] = json.loads(_text_of(name))
    return document


@cache
def _text_of(name: str) -> bytes:
    return gzip.decompress((RECORDINGS / f"{name}.json.gz").read_bytes())


class ReplayedCluster:
    """Answers to paths; a metric of a subtask gets its next recorded value with each request."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.answers: dict[str, Any] = json.loads(json.dumps(document["answers"]))  # a copy
        self.job: str = document["job"]
        self.asked: list[str] = []
        self.url = ""
        self.refuse: Callable[[BaseHTTPRequestHandler], int | None] = lambda request: None
        """Status with which a request is refused, None where it is not."""
        self._times: Counter[str] = Counter()

    def answer(self, path: str, query: dict[str, list[str]]) -> Any | None:
        """The answer, None where there is none."""
        self.asked.append(path)
        wanted = [name for names in query.get("get", ()) for name in names.split(",")]
        if not wanted:
            return self.answers.get(path)
        if (vertex := path.removesuffix("/metrics")) in self.answers and "/vertices/" in path:
            return self._of_subtasks(vertex, wanted)
        return self._values(path, wanted)

    def _of_subtasks(self, vertex: str, wanted: list[str]) -> list[dict[str, str]]:
        """The values of several subtasks; each name begins with the number of its subtask."""
        names: dict[str, list[str]] = {}
        for name in wanted:
            subtask, _, of_subtask = name.partition(".")
            names.setdefault(subtask, []).append(of_subtask)
        return [
            entry | {"id": f"{subtask}.{entry['id']}"}
            for subtask in names
            for entry in self._values(f"{vertex}/subtasks/{subtask}/metrics", names[subtask]) or []
        ]

    def _values(self, path: str, wanted: list[str]) -> list[dict[str, str]] | None:
        rounds = self.answers.get(path + ALL_METRICS)
        if rounds is None:
            return None
        number = min(self._times[path], len(rounds) - 1)
        self._times[path] += 1
        return [entry for entry in rounds[number] if entry["id"] in wanted]

    def rewind(self) -> None:
        """Begin again with the first recorded value of each metric."""
        self._times.clear()

    def vertex(self, name: str) -> str:
        """The id of a vertex."""
        return str(next(v["id"] for v in self.answers[f"/jobs/{self.job}"]["vertices"] if name in v["name"]))

    def change_metrics(
        self, vertex: str, subtask: int, change: Callable[[str, float, int], float | None]
    ) -> None:
        """Replace values of a subtask: `change` gets name, value and round, and returns the new value."""
        path = f"/jobs/{self.job}/vertices/{self.vertex(vertex)}/subtasks/{subtask}/metrics{ALL_METRICS}"
        for number, entries in enumerate(self.answers[path]):
            for entry in entries:
                try:
                    value = change(entry["id"], float(entry["value"]), number)
                except ValueError:
                    continue
                if value is not None:
                    entry["value"] = str(value)

    def let_queue_grow(self, vertex: str) -> None:
        """Let the barriers of each checkpoint wait 50 ms longer before a vertex than those before them."""
        for path, answer in self.answers.items():
            checkpoint, _, of = path.partition("/subtasks/")
            if "/checkpoints/details/" in checkpoint and of == self.vertex(vertex):
                for subtask in answer["subtasks"]:
                    subtask["start_delay"] = 1000 + 50 * int(checkpoint.rpartition("/")[2])

    def describe(self, vertex: str, description: str) -> None:
        """Let the plan say what a vertex does."""
        self._node(vertex)["description"] = description

    def ship(self, vertex: str, strategy: str) -> None:
        """Set the ship strategy of all inputs of a vertex in the plan."""
        for entry in self._node(vertex)["inputs"]:
            entry["ship_strategy"] = strategy

    def _node(self, vertex: str) -> dict[str, Any]:
        nodes = self.answers[f"/jobs/{self.job}/plan"]["plan"]["nodes"]
        return next(node for node in nodes if node["id"] == self.vertex(vertex))

    def forget(self, part: str) -> list[str]:
        """Drop all answers to paths that hold a text; return which these were."""
        gone = [path for path in self.answers if part in path]
        for path in gone:
            del self.answers[path]
        return gone


class Unserved(Answers):
    """A cluster that is asked without a server, where many imports are made and none is about HTTP."""

    def __init__(self, cluster: ReplayedCluster) -> None:
        self.name = "http://cluster:8081"
        self._cluster = cluster
        self._now_s = 0.0

    def answer(self, path: str) -> Any | Refused:
        """What the server would answer, after a millisecond."""
        self._now_s += 0.001
        parts = urlsplit(path)
        answer = self._cluster.answer(unquote(parts.path), parse_qs(parts.query))
        if answer is None:
            return Refused(404, f"Flink answers 404: Not found: {parts.path}")
        return json.loads(json.dumps(answer))

    def pause(self, seconds: float) -> None:
        """Let the time pass."""
        self._now_s += seconds

    def clock(self) -> float:
        """The time that has passed."""
        return self._now_s


@contextmanager
def serving(cluster: ReplayedCluster, tls: ssl.SSLContext | None = None) -> Iterator[ReplayedCluster]:
    """A server that answers as the cluster does, while the block runs; with `tls`, over HTTPS."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def handle(self) -> None:
            if tls is None or shakes_hands(self.connection):
                super().handle()

        def do_GET(self) -> None:
            status = cluster.refuse(self)
            if status is not None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            parts = urlsplit(self.path)
            answer = cluster.answer(unquote(parts.path), parse_qs(parts.query))
            found = answer is not None
            body = json.dumps(answer if found else {"errors": [f"Not found: {parts.path}"]}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json; charset=UTF-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving_on_loopback(Handler, tls) as url:
        cluster.url = url
        yield cluster


def shakes_hands(connection: socket.socket) -> bool:
    """Whether TLS begins; if not, the connection stays until the client has read why."""
    assert isinstance(connection, ssl.SSLSocket)
    try:
        connection.do_handshake()
    except OSError as error:
        if getattr(error, "reason", None) == "HTTP_REQUEST":
            return False  # who does not speak TLS waits for an answer
        with socket.socket(fileno=os.dup(connection.fileno())) as raw, suppress(OSError):
            while raw.recv(4096):
                pass
        return False
    return True


@contextmanager
def replayed(name: str) -> Iterator[ReplayedCluster]:
    """A recorded cluster that can be asked."""
    with serving(ReplayedCluster(recording(name))) as cluster:
        yield cluster


class Quiet:
    """A handler of requests that has no line for each on stderr, as the first of its bases."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving_on_loopback(
    handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """The address of a server that runs while the block does; with `tls`, over HTTPS."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
