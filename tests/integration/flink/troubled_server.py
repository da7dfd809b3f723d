"""A cluster over HTTP on loopback, with answers that break off, come late, or do not come."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from random import Random
from typing import Any

from integration.flink import Answers
from integration.flink.client import Refused
from tests.integration.flink.loopback_server import Quiet, serving_on_loopback

_ONE_OF = 50
"""One answer of so many is in trouble."""


def _reset(request: BaseHTTPRequestHandler, body: bytes) -> None:
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()


def _unavailable(request: BaseHTTPRequestHandler, body: bytes) -> None:
    _send(request, 503, b'{"errors": ["Service temporarily unavailable due to an ongoing leader election."]}')


def _breaks_off(request: BaseHTTPRequestHandler, body: bytes) -> None:
    _send(request, 200, body[: len(body) // 2], len(body))


def _half(request: BaseHTTPRequestHandler, body: bytes) -> None:
    _send(request, 200, body[: len(body) // 2])


def _never(request: BaseHTTPRequestHandler, body: bytes) -> None:
    request.connection.recv(1)  # until the client has enough of it


TROUBLES: tuple[Callable[[BaseHTTPRequestHandler, bytes], None], ...] = (
    _reset,
    _reset,
    _unavailable,
    _unavailable,
    _breaks_off,
    _half,
    _never,
)


def _send(request: BaseHTTPRequestHandler, status: int, body: bytes, length: int | None = None) -> None:
    request.send_response(status)
    request.send_header("Content-Type", "application/json; charset=UTF-8")
    request.send_header("Content-Length", str(len(body) if length is None else length))
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def troubled(cluster: Answers, random: Random) -> Iterator[str]:
    """The address of a server that answers as the cluster does, most of the time."""
    one_at_a_time = threading.Lock()

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with one_at_a_time:
                answer: Any = cluster.answer(self.path)
                trouble = random.choice(TROUBLES) if random.random() * _ONE_OF < 1 else None
            refused = isinstance(answer, Refused)
            body = json.dumps({"errors": [answer.text]} if refused else answer).encode()
            with suppress(OSError):
                if trouble is not None:
                    trouble(self, body)
                else:
                    _send(self, answer.code if refused else 200, body)

        def finish(self) -> None:
            with suppress(OSError, ValueError):  # of a connection that was reset
                super().finish()

    with serving_on_loopback(Handler) as url:
        yield url
