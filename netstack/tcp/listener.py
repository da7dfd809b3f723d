"""The listening socket of a process: admits peers that know the job's secret, and refuses all others.

A connection is a stranger until its peer has proven that it knows the secret. A stranger stays for at most
`handshake_timeout_s`. When all places are taken, the oldest stranger is dropped to make room for the next
connection::

    accept --> [ oldest stranger, ..., newest stranger ] -- proven --> stays until it leaves
                    | dropped if there is no room

A peer proves itself within a few turns of the event loop. So even many strangers that send nothing delay a
peer only by the time to accept them. For each dropped stranger, one line in the log ("netstack.tcp") names
its address and the reason. There are `max_connections` places. Strangers never use more than half of the
process's free file descriptors; the other half is for files that the process opens itself.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import trio

from ..errors import UnprovenError
from .pipe import ConnectionLimits, free_descriptors

_log = logging.getLogger("netstack.tcp")

_BACKLOG = 4096  # connections that wait to be accepted; the system may allow fewer
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
_PAUSE_S = 0.1


class _Stranger(NamedTuple):
    address: str
    scope: trio.CancelScope


class Listener:
    """Listens at `host` and calls `admit` for each connection.

    `admit` calls `proven` as soon as the peer has proven itself. It returns when the connection has been
    served or will be kept. It raises `UnprovenError` with the reason if it refuses the connection.
    """

    def __init__(
        self, host: str, limits: ConnectionLimits, admit: Callable[[trio.SocketStream], Awaitable[None]]
    ) -> None:
        self._host = host
        self._limits = limits
        self._admit = admit
        self._socket: Any = None
        self._strangers: dict[trio.SocketStream, _Stranger] = {}  # the oldest first
        self._proven: set[trio.SocketStream] = set()
        self._descriptors = 0

    @property
    def is_open(self) -> bool:
        """Whether peers can connect."""
        return self._socket is not None

    async def open(self, port: int = 0) -> tuple[str, int]:
        """Begin to listen, at a free port if no port is given; returns the address.

        Raises:
            OSError: if it cannot listen at this host, or the port is taken.
        """
        self.close()
        try:
            addresses = await trio.socket.getaddrinfo(self._host, port, type=trio.socket.SOCK_STREAM)
            family, kind, protocol, _, address = addresses[0]
            self._socket = trio.socket.socket(family, kind, protocol)
            await self._socket.bind(address)
            self._socket.listen(_BACKLOG)
            self._descriptors = free_descriptors()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise OSError(error.errno, f"cannot listen at {self._host}: {error.strerror}") from None
            raise
        host, port, *_ = self._socket.getsockname()
        return host, port

    def proven(self, stream: trio.SocketStream) -> None:
        """Record that the peer has proven itself, so that its connection is not dropped to make room; does
        nothing if the connection is already being closed.
        """
        if self._strangers.pop(stream, None) is not None:
            self._proven.add(stream)

    def left(self, stream: trio.SocketStream) -> None:
        """Release the place of a connection that has ended."""
        self._strangers.pop(stream, None)
        self._proven.discard(stream)

    def close(self) -> None:
        """Stop listening; admitted connections stay."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def serve(self) -> None:
        """Accept connections until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    socket, (host, port, *_) = await self._socket.accept()
                except OSError as error:
                    await self._wait_after(error)
                    continue
                deadline = trio.current_time() + self._limits.handshake_timeout_s
                stranger = _Stranger(f"{host}:{port}", trio.CancelScope(deadline=deadline))
                stream = trio.SocketStream(socket)
                if self._make_room():
                    self._strangers[stream] = stranger
                    nursery.start_soon(self._greet, stream, stranger)
                else:
                    self._log_crowd(stranger)
                    socket.close()

    def _make_room(self) -> bool:
        """Drop strangers, oldest first, until there is room for one more connection; returns False if there
        is no room."""
        proven = len(self._proven)
        descriptors = max(1, (self._descriptors - proven) // 2)
        places = min(self._limits.max_connections - proven, descriptors)
        while self._strangers and len(self._strangers) >= places:
            self._put_out_oldest()
        return places > 0

    def _put_out_oldest(self) -> None:
        oldest = next(iter(self._strangers))
        self._log_crowd(self._strangers[oldest])
        self._strangers.pop(oldest).scope.cancel()

    def _log_crowd(self, stranger: _Stranger) -> None:
        count = len(self._strangers) + len(self._proven)
        crowded = "refused a connection from %s: %d connections are already open"
        _log.warning(crowded, stranger.address, count)

    async def _wait_after(self, error: OSError) -> None:
        """Wait if resources are exhausted. Continue at once if a connection closed before it was accepted."""
        if error.errno not in _EXHAUSTED:
            return
        if self._strangers:
            self._put_out_oldest()
            await trio.lowlevel.checkpoint()
        else:
            _log.warning("cannot accept connections for %g s: %s", _PAUSE_S, error.strerror)
            await trio.sleep(_PAUSE_S)

    async def _greet(self, stream: trio.SocketStream, stranger: _Stranger) -> None:
        stays = False
        try:
            with stranger.scope:
                await self._admit(stream)
                stays = True
            if not stays and (stream in self._strangers or stream in self._proven):
                raise UnprovenError(
                    f"the peer did not prove within {self._limits.handshake_timeout_s:g} s that it "
                    "knows the secret"
                )
        except UnprovenError as problem:
            _log.warning("refused a connection from %s: %s", stranger.address, problem)
        finally:
            if not stays:
                self.left(stream)
                stream.socket.close()
