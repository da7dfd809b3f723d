"""The class that a transport under test is, and the shape of the exchange that it is measured by.

A subclass moves blocks of records. It takes the place of ours in the network cases::

    pytest benches -k networkThroughput --transport docs.examples.bench_transport:MemoryChannels

In one process an object has both ends. Between processes there are two, of the same class and shape::

    process:   listen, connect | write ... write | read ... read | close
    tcp:       listen          |                 | read ... read | close     where records arrive
                       connect | write ... write |               | close     where they are written

The harness writes from as many trio tasks as there are writers and reads in another, and takes the time from
before the first `write` until the last record has been read. Nothing says which record is the last one, so
what is not sent at once has to leave by itself, as Flink's buffer timeout sees to.
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

    Both are PEM texts: the authority's certificate, and the server's key with its chain.
    """

    authority: str
    server: bytes

    def server_context(self) -> ssl.SSLContext:
        """Return the context of the end that listens."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.TemporaryDirectory() as folder:  # Python's ssl reads keys from files only
            path = Path(folder, "server.pem")
            path.touch(0o600)
            path.write_bytes(self.server)
            context.load_cert_chain(path)
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return the context of the end that connects; it accepts this authority only."""
        return ssl.create_default_context(cadata=self.authority)


def fresh_certificate() -> Certificate:
    """Make a certificate."""
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
    """The longest that a record may wait for others, in seconds (Flink's ``execution.buffer-timeout``)."""
    broadcast: bool = False
    """Whether every record goes to all channels of its writer."""
    certificate: Certificate | None = None
    """Certificate for TLS; None: nothing is encrypted."""


class BenchTransport(ABC):
    """A transport under test; pass the subclass to ``--transport``.

    An object is made for a shape within a trio program. It may start tasks in `nursery`, which are cancelled
    after `close`. An exception that it raises fails the case.
    """

    name: ClassVar[str]
    """Name in messages."""

    between_processes: ClassVar[bool] = True
    """Whether its two ends may be in two processes."""

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
        """Write the records of a block, in order; waits while there is no room for them.

        `channels` has the channel of each record, 0 to ``shape.channels - 1``, and is empty where every
        record goes to all of them. Writers call it at the same time, each for itself.
        """

    @abstractmethod
    async def read(self) -> int:
        """Wait until something has arrived, and return how many records, of all channels together.

        A record that went to all channels counts once for each of them.
        """

    async def close(self) -> None:  # noqa: B027 - there may be nothing to do
        """Release all resources; called once at each end, also after a failure."""
