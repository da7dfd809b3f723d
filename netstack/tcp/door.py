"""The listening socket of a process: lets in who is admitted, and keeps everybody else out.

A stranger holds one of `max_connections` places for `handshake_timeout_s` at most, and leaves one line in the
log ("netstack.tcp") with its address and what was wrong. Nobody else notices, but that a peer which finds all
places taken has to come again.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from .handshaking import UnprovenError
from .limits import ConnectionLimits

_log = logging.getLogger("netstack.tcp")

_LEAST_BACKLOG = 128
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
_PAUSE_S = 0.1


class Door:
    """Listens at `host` and asks `admit` about each connection.

    `admit` returns when the connection is to stay, or raises `UnprovenError` with the reason why not.
    """

    def __init__(
        self, host: str, limits: ConnectionLimits, admit: Callable[[trio.SocketStream], Awaitable[None]]
    ) -> None:
        self._host = host
        self._limits = limits
        self._admit = admit
        self._listener: Any = None
        self._places_taken = 0

    @property
    def is_open(self) -> bool:
        """Whether somebody can connect."""
        return self._listener is not None

    async def open(self, port: int = 0) -> tuple[str, int]:
        """Begin to listen, at a free port unless one is given; returns the address.

        Raises:
            OSError: if that is not possible at this host, or the port is taken.
        """
        self.close()
        try:
            found = await trio.socket.getaddrinfo(self._host, port, type=trio.socket.SOCK_STREAM)
            family, kind, protocol, _, address = found[0]
            self._listener = trio.socket.socket(family, kind, protocol)
            await self._listener.bind(address)
            self._listener.listen(max(_LEAST_BACKLOG, self._limits.max_connections))
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise OSError(error.errno, f"cannot listen at {self._host}: {error.strerror}") from None
            raise
        host, port, *_ = self._listener.getsockname()
        return host, port

    def left(self) -> None:
        """Take back the place of one who had been let in to stay."""
        self._places_taken -= 1

    def close(self) -> None:
        """Listen no more; who has been let in stays."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def serve(self) -> None:
        """Take connections until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    socket, (host, port, *_) = await self._listener.accept()
                except OSError as error:
                    await self._wait_after(error)
                    continue
                self._places_taken += 1
                nursery.start_soon(self._greet, trio.SocketStream(socket), f"{host}:{port}")

    async def _wait_after(self, error: OSError) -> None:
        """Go on at once if a connection was gone before it was taken, later if this machine is exhausted."""
        if error.errno in _EXHAUSTED:
            _log.warning("cannot take connections for %g s: %s", _PAUSE_S, error.strerror)
            await trio.sleep(_PAUSE_S)

    async def _greet(self, stream: trio.SocketStream, address: str) -> None:
        stays = False
        try:
            if self._places_taken > self._limits.max_connections:
                raise UnprovenError(f"there are {self._limits.max_connections} connections already")
            with trio.fail_after(self._limits.handshake_timeout_s):
                await self._admit(stream)
            stays = True
        except UnprovenError as problem:
            _log.warning("refused a connection from %s: %s", address, problem)
        except trio.TooSlowError:
            limit = self._limits.handshake_timeout_s
            _log.warning("refused a connection from %s: not proven within %g s", address, limit)
        finally:
            if not stays:
                self._places_taken -= 1
                await trio.aclose_forcefully(stream)
