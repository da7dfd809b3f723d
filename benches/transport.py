"""Base class of a transport under test, and the shape of the measured exchange.

A subclass moves blocks of records. It replaces this project's transport in the network cases::

    pytest benches -k networkThroughput --transport docs.examples.bench_transport:MemoryChannels

In one process, an object is both ends. Between processes there are two objects, of the same class and shape::

    process:   listen, connect | write ... write | read ... read | close
    tcp:       listen          |                 | read ... read | close     where records arrive
                       connect | write ... write |               | close     where they are written

The harness writes from one trio task for each writer, and reads in another task. It measures the time from
before the first `write` until the last record has been read. A transport does not learn which record is the
last. So it must send waiting records after some time, as Flink does at the buffer timeout.
"""

from __future__ import annotations

import ssl
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import trio
import trustme

from buffers import RecordBlock

SERVER_NAME = "localhost"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate for one run, signed by an authority that exists for that run alone.

    The fields are PEM texts: the authority's certificate, and the server's key with its chain.
    """

    authority: str
    server: bytes

    def server_context(self) -> ssl.SSLContext:
        """Return the TLS context of the listening end."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.TemporaryDirectory() as folder:  # Python's ssl reads keys from files only
            path = Path(folder, "server.pem")
            path.touch(0o600)
            path.write_bytes(self.server)
            context.load_cert_chain(path)
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return the TLS context of the connecting end, which accepts this authority only."""
        return ssl.create_default_context(cadata=self.authority)


def fresh_certificate() -> Certificate:
    """Create an authority and a certificate signed by it."""
    authority = trustme.CA()
    server = authority.issue_cert(SERVER_NAME)
    return Certificate(
        authority.cert_pem.bytes().decode("ascii"), server.private_key_and_cert_chain_pem.bytes()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Shape of an exchange."""

    writers: int = 4
    """Number of writers, each of which writes to all channels."""
    channels: int = 100
    """Number of channels of each writer."""
    flush_s: float = 0.1
    """Maximum seconds that a record waits for further records (Flink's ``execution.buffer-timeout``)."""
    broadcast: bool = False
    """Whether every record goes to all channels of its writer."""
    certificate: Certificate | None = None
    """Certificate for TLS; None: nothing is encrypted."""


class BenchTransport(ABC):
    """A transport under test; pass the subclass to ``--transport``.

    An object is created for a shape, within a trio program. It may start tasks in `nursery`, which are
    cancelled after `close`. An exception that it raises fails the case.
    """

    name: ClassVar[str]
    """Name of the transport in messages."""

    between_processes: ClassVar[bool] = True
    """Whether the two ends may be in different processes."""

    def __init__(self, shape: Shape, nursery: trio.Nursery) -> None:
        self.shape = shape
        self.nursery = nursery

    @abstractmethod
    async def listen(self) -> str:
        """Open the end where records arrive; returns the address for `connect`, which may be empty."""

    @abstractmethod
    async def connect(self, address: str) -> None:
        """Open the end where records are written; `address` is the result of `listen`."""

    @abstractmethod
    async def write(self, writer: int, block: RecordBlock, channels: Sequence[int]) -> None:
        """Write the records of a block, in order; wait while there is no room for them.

        `channels` has the channel of each record, 0 to ``shape.channels - 1``; it is empty if every record
        goes to all channels. The tasks of several writers may call this method at the same time.
        """

    @abstractmethod
    async def read(self) -> int:
        """Wait until records have arrived, and return their number over all channels.

        A record that was sent to all channels counts once for each channel.
        """

    async def close(self) -> None:  # noqa: B027 - there may be nothing to do
        """Release all resources; called once at each end, also after a failure."""
