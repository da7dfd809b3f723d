"""The connections between the processes of a job, one for each pair.

Both ends of a connection prove that they know the job's secret. Each process listens, publishes its address,
and then connects. The process with the higher index dials::

    0 <--- 1 <--- 2
    ^             |
    +-------------+

Since any program can dial a listening process, this process sends no data before the handshake is done. A
process stops listening when all processes with a higher index have connected.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from flowcontrol import (
    Identity,
    Secret,
    ServerHandshake,
)

from ..errors import HandshakeError, UnprovenError
from .handshaking import TlsContexts, answer, converse, dial, fresh_nonce, refuse, say
from .listener import Listener
from .pipe import ConnectionLimits, Stream

__all__ = ["Mesh"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class Mesh(trio.abc.AsyncResource):
    """Connects process `index` of `size` with every other process; can be used once.

    `host` is the address to listen at; it must not be a wildcard, which cannot be dialled.

    Raises:
        ValueError: if `index` or `host` is invalid, or if more peers have to dial this process than the limit
            allows.
    """

    def __init__(
        self,
        index: int,
        size: int,
        limits: ConnectionLimits | None = None,
        *,
        host: str = "127.0.0.1",
        tls: TlsContexts | None = None,
    ) -> None:
        limits = limits or ConnectionLimits()
        if not 0 <= index < size:
            raise ValueError(f"process {index} does not exist among {size} processes")
        if not host:
            raise ValueError("the host to listen on must not be empty; other processes cannot dial it")
        self._diallers = range(index + 1, size)
        if len(self._diallers) > limits.max_connections:
            raise ValueError(
                f"{len(self._diallers)} processes connect to process {index}, but max_connections is "
                f"{limits.max_connections}"
            )
        self._index = index
        self._size = size
        self._secret: Secret  # no peer is admitted before `connect` has set it
        self._limits = limits
        self._tls = tls
        self._listener = Listener(host, limits, self._admit)
        self._diallers_done = trio.CancelScope()
        self._addresses: Sequence[tuple[str, int]] = ()
        self._proven: set[int] = set()
        self._streams: dict[int, Stream] = {}
        self._problems: dict[int, str] = {}
        self._failure: HandshakeError | None = None

    async def listen(self) -> tuple[str, int]:
        """Begin to listen; returns the address and port, to be passed to the other processes.

        Raises:
            OSError: if it cannot listen at this host.
        """
        return await self._listener.open()

    async def connect(self, addresses: Sequence[tuple[str, int]], secret: Secret) -> dict[int, Stream]:
        """Connect to all other processes; `addresses` holds the results of `listen` of all processes, by
        index.

        Each process proves that it knows `secret`. A process that dials this one before `connect` is called
        has to wait. The returned streams have TCP_NODELAY set; the caller closes them.

        Raises:
            HandshakeError: if peers failed to prove themselves or did not connect in time. The message names
                them.
            ValueError: if the number of addresses is not the number of processes.
        """
        if len(addresses) != self._size:
            raise ValueError(f"got {len(addresses)} addresses for {self._size} processes; give one for each")
        if not self._listener.is_open:
            raise RuntimeError("a mesh must listen before it connects")
        self._addresses, self._secret = addresses, secret
        try:
            with trio.move_on_after(self._limits.connect_timeout_s):
                await self._meet()
            if self._failure or len(self._streams) < self._size - 1:
                raise self._failure or self._missing()
            streams, self._streams = self._streams, {}
            return streams
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Stop listening, and close the connections that `connect` has not returned."""
        self._listener.close()
        streams, self._streams = self._streams, {}
        with trio.CancelScope(shield=True):
            for stream in streams.values():
                await trio.aclose_forcefully(stream)

    async def _meet(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_for_diallers)
            for peer in range(self._index):
                nursery.start_soon(self._dial, peer, nursery.cancel_scope)

    async def _wait_for_diallers(self) -> None:
        if self._diallers:
            with self._diallers_done:
                await self._listener.serve()
        self._listener.close()

    async def _admit(self, transport: trio.SocketStream) -> None:
        """Keep a connection if a peer of the job proves itself at its other end.

        Raises:
            UnprovenError: if the peer does not prove itself.
        """
        stream = await answer(transport, self._tls)
        handshake = ServerHandshake(self._secret, self._index, self._size, fresh_nonce())
        proof = await converse(stream, handshake)
        assert handshake.identity is not None
        peer = handshake.identity.dialler
        if peer in self._proven:
            await refuse(stream, handshake)
            raise UnprovenError(f"task {peer} is already connected")
        self._proven.add(peer)
        self._listener.proven(transport)
        try:
            await say(stream, proof)
        except BaseException:
            self._proven.remove(peer)
            raise
        self._streams[peer] = stream
        if all(dialler in self._streams for dialler in self._diallers):
            self._diallers_done.cancel()

    async def _dial(self, peer: int, scope: trio.CancelScope) -> None:
        """Connect to the process with a lower index, with retries; cancel `scope` if retrying is useless."""
        identity = Identity(self._index, peer, self._size)
        pause = _FIRST_PAUSE_S
        while peer not in self._streams:
            try:
                self._streams[peer] = await dial(self._addresses[peer], self._secret, identity, self._tls)
            except UnprovenError as problem:
                if problem.final:
                    self._failure = HandshakeError(self._name(peer), str(problem))
                    scope.cancel()
                self._problems[peer] = str(problem)
                await trio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _missing(self) -> HandshakeError:
        peers = [peer for peer in range(self._size) if peer != self._index and peer not in self._streams]
        reasons = ", ".join(f"{peer}: {self._problem_with(peer)}" for peer in peers)
        return HandshakeError(
            ", ".join(map(self._name, peers)),
            f"could not be connected within {self._limits.connect_timeout_s:g} s ({reasons})",
        )

    def _problem_with(self, peer: int) -> str:
        return "has not connected" if peer in self._diallers else self._problems.get(peer, "has not answered")

    def _name(self, peer: int) -> str:
        host, port = self._addresses[peer]
        return f"task {peer} at {host}:{port}"
