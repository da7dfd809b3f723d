"""An exchange of records between processes, for programs with threads and without an event loop.

One thread writes records, another thread reads arriving records, and both block when necessary. The network
runs in a third thread, on trio::

    thread that writes -- write --> |                 |
                                    | network thread  | <== TCP ==> the other processes
    thread that reads  <-- read --- |                 |

    with Transport(index, size) as transport:
        address = transport.listen()            # the others learn it by other means
        transport.connect(addresses, secret)    # addresses of all, by index; shared secret
        ...
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TypeVar

import trio

from flowcontrol import RemoteProtocolError, Secret

from ..errors import ConnectionLostError, LinkClosedError, TransportError
from ..exchange.tcp_link import TcpLink
from ..tcp.handshaking import TlsContexts
from ..tcp.mesh import Mesh
from ..tcp.pipe import Stream
from .endpoint import Endpoint
from .transport_config import TransportConfig, TransportStatistics

__all__ = ["Transport"]

T = TypeVar("T")

Record = tuple[int, bytes | memoryview]
"""A record and the index of its target process, or `ALL_TARGETS`."""


class Transport:
    """Process `index` of an exchange of records between `size` processes.

    `host` is the address to listen at. A record has at most 256 MiB. Records from one process to another
    arrive once, in the order in which they were written. Whatever the skew, a process takes at most the
    network memory in `config`, plus the records of one `read`, one record of each sender, and, for its
    records to itself, as much as one channel may hold.

    One thread calls `write` and `finish_writing`, another thread calls `read`. After any failure, all calls
    raise a `TransportError` with the first cause.
    """

    def __init__(
        self,
        index: int,
        size: int,
        config: TransportConfig | None = None,
        *,
        host: str = "127.0.0.1",
        tls: TlsContexts | None = None,
    ) -> None:
        self.index = index
        self.leaked_segments = 0
        """Number of segments that were not released, known after `close`."""
        config = config or TransportConfig()
        self._config = config
        self._endpoint = Endpoint(index, size, config)
        self._mesh = Mesh(index, size, config.limits, host=host, tls=tls)
        self._thread: threading.Thread | None = None
        self._token: Future[trio.lowlevel.TrioToken] = Future()
        self._statistics: TransportStatistics | None = None
        self._connecting = trio.CancelScope()
        self._connect_lock = trio.Lock()
        self._closing = trio.Event()
        self._running_links = 0
        self._links_ended = trio.Event()

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    def listen(self) -> tuple[str, int]:
        """Start the network thread; returns the address and port, to be passed to the other processes.

        Raises:
            OSError: if it cannot listen at this host.
        """
        if self._thread is not None:
            raise RuntimeError("the transport already listens, or has been closed")
        name = f"netstack-transport-{self.index}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._token.result()
        return self._call(self._mesh.listen)

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:
            if self._token.done():
                raise
            self._thread = None  # it was never usable
            self._token.set_exception(error)

    def connect(self, addresses: Sequence[tuple[str, int]], secret: Secret) -> None:
        """Connect to all other processes. `addresses` holds the addresses of all processes by index,
        including this one.

        All processes share `secret`; each proves that it knows it before records are sent.

        Raises:
            HandshakeError: if some peers do not connect in time, or do not know the secret.
        """
        self._call(self._connect, addresses, secret)

    def write(self, records: Sequence[Record]) -> None:
        """Send records, in order; blocks while the network memory is full.

        Raises:
            TransportError: if the exchange has failed.
        """
        self._call(self._endpoint.write, records)

    def finish_writing(self) -> None:
        """End writing.

        Raises:
            TransportError: if the exchange has failed.
        """
        self._call(self._finish_writing)

    def read(self) -> list[memoryview] | None:
        """Block until at least one record has arrived, and return all that have arrived; None after the last
        record.

        Raises:
            TransportError: if the exchange has failed.
        """
        return self._call(self._read)

    def statistics(self) -> TransportStatistics:
        """Return the current counters, or those at the time of closing."""
        if self._thread is not None:
            with suppress(LinkClosedError):
                return self._call(self._get_statistics)
            self._thread.join()
        return self._statistics or self._endpoint.statistics()

    def close(self, cause: BaseException | None = None) -> None:
        """End the exchange and the network thread; further calls do nothing.

        Without a `cause`, it waits until all processes have read their records. With a cause, or if this
        process has not written and read everything, the reason is sent to the other processes, which fail.

        Raises:
            TransportError: if the exchange fails during the wait.
        """
        if self._thread is None:
            return
        try:
            with suppress(LinkClosedError):  # another thread has closed it
                self._call(self._close, cause)
        finally:
            self._thread.join()

    def _call(self, work: Callable[..., Awaitable[T]], *args: object) -> T:
        """Run `work` in the network thread, and wait for the result."""
        if self._thread is None:
            raise RuntimeError("the transport must listen first")
        try:
            return trio.from_thread.run(partial(work, *args), trio_token=self._token.result())
        except (trio.RunFinishedError, trio.Cancelled):  # the thread ended before the work was done
            raise self._closed() from None

    def _closed(self) -> LinkClosedError:
        return LinkClosedError(f"task {self.index}", "this side of the transport has been closed")

    async def _serve(self) -> None:
        """Run the network thread until `close`."""
        async with self._mesh, trio.open_nursery() as self._nursery:
            self._token.set_result(trio.lowlevel.current_trio_token())
            await self._closing.wait()
            self._nursery.cancel_scope.cancel()
        self._statistics = self._endpoint.statistics()
        self.leaked_segments = self._endpoint.release()

    async def _connect(self, addresses: Sequence[tuple[str, int]], secret: Secret) -> None:
        async with self._connect_lock:
            if not self._connecting.cancel_called:
                with self._connecting:
                    self._begin(await self._mesh.connect(addresses, secret), addresses)
                    return
        raise self._closed()

    def _begin(self, streams: Mapping[int, Stream], addresses: Sequence[tuple[str, int]]) -> None:
        for peer, stream in streams.items():
            host, port = addresses[peer]
            link = TcpLink(stream, self._config.limits, f"task {peer} at {host}:{port}")
            link.on_error = partial(self._link_failed, link.peer)
            self._endpoint.attach(peer, link)
            self._running_links += 1
            self._nursery.start_soon(self._run_link, link)
        self._endpoint.open()
        self._nursery.start_soon(self._every, self._config.network.buffer_timeout_s, self._endpoint.flush)
        if self._config.network.debloat_enabled:
            self._nursery.start_soon(
                self._every, self._config.network.debloat_period_s, self._endpoint.debloat
            )

    async def _run_link(self, link: TcpLink) -> None:
        try:
            await link.run()
        except Exception as error:
            self._link_failed(link.peer, error)
        finally:
            self._running_links -= 1
            if not self._running_links:
                self._links_ended.set()

    def _link_failed(self, peer: str, error: Exception) -> None:
        wrong = isinstance(error, RemoteProtocolError)
        self._fail(ConnectionLostError(peer, str(error)) if wrong else error)

    async def _every(self, period_s: float | None, work: Callable[[], None]) -> None:
        while period_s:
            await trio.sleep(period_s)
            try:
                work()
            except Exception as error:
                self._fail(error)

    async def _read(self) -> list[memoryview] | None:
        try:
            return await self._endpoint.read()
        except TransportError as error:  # a failure of one channel, which other calls do not know yet
            self._fail(error)
            raise

    async def _finish_writing(self) -> None:
        self._endpoint.finish_writing()

    async def _get_statistics(self) -> TransportStatistics:
        return self._endpoint.statistics()

    def _fail(self, error: BaseException) -> None:
        """Report the first cause to all tasks here and, once, to all peers."""
        if self._endpoint.error is None:
            text = str(error) if isinstance(error, TransportError) else self._in_words(error)
            for link in self._endpoint.links.values():
                link.fail(text)
        self._endpoint.fail(error)

    def _in_words(self, error: BaseException) -> str:
        text = " ".join(str(error).split())
        return f"task {self.index} failed: {type(error).__name__}" + (f": {text}" if text else "")

    async def _close(self, cause: BaseException | None) -> None:
        self._connecting.cancel()
        async with self._connect_lock:
            pass  # `connect` has ended, and has cleaned up
        try:
            if cause is not None:
                self._fail(cause)
            elif not self._endpoint.reading_ended:
                early = "the transport was closed before all records had been read"
                self._fail(LinkClosedError(f"task {self.index}", early))
            else:
                await self._endpoint.wait_done()
        finally:
            if self._running_links:
                await self._links_ended.wait()
            self._endpoint.fail(self._closed())
            self._closing.set()
