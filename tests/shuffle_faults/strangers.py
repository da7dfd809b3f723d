"""Strangers at the doors of the workers of a shuffle: at all addresses at which one listens."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from flowcontrol import NONCE_BYTES, ClientHandshake, Identity
from netstack import fresh_secret

from .processes import Address, listening

_PAUSE_S = 0.02
_PATIENCE_S = 1.0
_MOST = 400
"""Connections that are kept open."""


class Strangers:
    """Connect again and again, and say nothing, anything, or a hello without the secret; to be used once.

    Args:
        chance: Draws what each says.
        workers: Gives the processes whose doors they come to.
    """

    def __init__(self, chance: random.Random, workers: Callable[[], list[int]]) -> None:
        self.came = 0
        """Connections so far."""
        self.doors: set[Address] = set()
        """Addresses that somebody came to."""
        self._chance, self._workers = chance, workers
        self._sockets: list[socket.socket] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._come, daemon=True)

    def __enter__(self) -> Strangers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        for each in self._sockets:
            each.close()

    def _come(self) -> None:
        while not self._stopped.wait(_PAUSE_S):
            for address in listening(self._workers()):
                if len(self._sockets) < _MOST:
                    with suppress(OSError):
                        self._knock(address)

    def _knock(self, address: Address) -> None:
        stranger = socket.create_connection(address, _PATIENCE_S)
        self._sockets.append(stranger)
        self.came += 1
        self.doors.add(address)
        stranger.sendall(self._said())
        if self._chance.random() < 0.3:
            self._sockets.remove(stranger)
            stranger.close()

    def _said(self) -> bytes:
        chance = self._chance
        kind = chance.randrange(5)
        if kind == 0:
            return b""
        if kind == 1:
            return chance.randbytes(chance.randint(1, 4000))
        if kind == 2:
            return b"GET / HTTP/1.1\r\n\r\n"
        identity = Identity(1, 0, chance.randint(2, 4))
        hello = ClientHandshake(fresh_secret(), identity, chance.randbytes(NONCE_BYTES)).begin()
        return hello if kind == 3 else hello + chance.randbytes(chance.randint(1, 200))
