"""Meshes within one process, over real sockets of 127.0.0.1, and what must hold of them."""

from __future__ import annotations

import gc
import logging
import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import trio

from flowcontrol import Secret
from netstack.tcp.handshaking import TlsContexts
from netstack.tcp.mesh import Mesh
from netstack.tcp.pipe import ConnectionLimits, Stream

SECRET = Secret(b"the secret of the tests")
PATIENT = ConnectionLimits(connect_timeout_s=300, handshake_timeout_s=300)
"""For tests in which nothing has to end by itself."""

TLS_FILES = Path(__file__).resolve().parent.parent / "data" / "tls"

Address = tuple[str, int]
Streams = dict[int, Stream]


def tls_contexts(server_name: str | None = None) -> TlsContexts:
    """Contexts that trust the authority of the tests and nobody else."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(TLS_FILES / "certificate.pem", TLS_FILES / "key.pem")
    client = ssl.create_default_context(cafile=str(TLS_FILES / "authority.pem"))
    return TlsContexts(server=server, client=client, server_name=server_name)


async def socket_streams() -> tuple[trio.SocketStream, trio.SocketStream]:
    """Both ends of a new connection."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    ours = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
    theirs = await listener.accept()
    await listener.aclose()
    return ours, theirs


class LogLines(logging.Handler):
    """The lines that the network logs, for a test that waits for them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.levels: set[int] = set()
        self._changed = trio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.levels.add(record.levelno)
        self._changed.set()

    async def wait_for(self, count: int) -> None:
        """Wait until there are `count` lines."""
        while len(self.lines) < count:
            self._changed = trio.Event()
            await self._changed.wait()


@contextmanager
def log_lines() -> Iterator[LogLines]:
    """Listen to the log of the network."""
    handler = LogLines()
    logger = logging.getLogger("netstack.tcp")
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)


def open_files() -> int:
    """How many files and sockets this process has open."""
    return len(os.listdir("/dev/fd"))


@contextmanager
def no_socket_left() -> Iterator[None]:
    """Fail if more files are open afterwards than before, closed by nobody but the garbage collector."""
    gc.freeze()  # the search below then is only of what the block leaves
    before = open_files()
    yield
    after = open_files()
    gc.collect()  # an unclosed socket warns here, and a warning is an error
    gc.unfreeze()
    assert after == before


async def relay(
    at: Address,
    to: Address,
    tamper: Callable[[int, bytes], bytes] = lambda _, data: data,
    *,
    task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Pass connections on from one address to another, until cancelled.

    `tamper` gets what goes towards the listener and how many bytes have gone before, and changes it.
    """
    host, port = at

    async def pump(source: trio.SocketStream, target: trio.SocketStream, change: Any) -> None:
        count = 0
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for piece in source:
                await target.send_all(change(count, bytes(piece)))
                count += len(piece)
            await target.send_eof()

    async def pass_on(dialler: trio.SocketStream) -> None:
        async with await trio.open_tcp_stream(*to) as listener, trio.open_nursery() as nursery:
            nursery.start_soon(pump, dialler, listener, tamper)
            nursery.start_soon(pump, listener, dialler, lambda _, data: data)

    await trio.serve_tcp(pass_on, port, host=host, task_status=task_status)


async def connect(
    mesh: Mesh, addresses: Sequence[Address], connected: dict[int, Streams], index: int
) -> None:
    """Connect one process and note its streams."""
    connected[index] = await mesh.connect(addresses, SECRET)


async def check_pairs(connected: dict[int, Streams]) -> None:
    """Hold that each process has a stream to each other one and to nobody else; closes them all."""
    members = set(connected)
    assert {index: set(streams) for index, streams in connected.items()} == {
        index: members - {index} for index in members
    }
    for index, streams in connected.items():
        for peer, stream in streams.items():
            await stream.send_all(f"{index:>4} to {peer:>4}".encode())
    for index, streams in connected.items():
        for peer, stream in streams.items():
            arrived = b""
            while len(arrived) < 12:
                piece = await stream.receive_some(12 - len(arrived))
                assert piece, f"{peer} left {index}"
                arrived += piece
            assert arrived.decode() == f"{peer:>4} to {index:>4}"
    await close(connected)


async def close(connected: dict[int, Streams]) -> None:
    """Close all streams."""
    with trio.CancelScope(shield=True):
        for streams in connected.values():
            for stream in streams.values():
                await trio.aclose_forcefully(stream)
