"""A certificate for one run of a case with TLS, signed by an authority that exists for that run alone."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .bench_errors import BenchmarkError

SERVER_NAME = "localhost"


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM texts: of the authority, and of the server's key with its chain."""

    authority: str
    server: bytes

    def server_context(self) -> ssl.SSLContext:
        """Return what the end that listens encrypts with."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.TemporaryDirectory() as folder:  # Python's ssl reads keys from files only
            path = Path(folder, "server.pem")
            path.touch(0o600)
            path.write_bytes(self.server)
            context.load_cert_chain(path)
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return what the end that connects encrypts with; it accepts this authority only."""
        return ssl.create_default_context(cadata=self.authority)


def fresh_certificate() -> Certificate:
    """Make a certificate.

    Raises:
        BenchmarkError: trustme, which makes it, is not installed.
    """
    try:
        import trustme  # needed by cases with TLS only
    except ImportError:
        text = "SSL: trustme, which makes the certificate, is not installed; 'pip install trustme' brings it"
        raise BenchmarkError(text) from None
    authority = trustme.CA()
    server = authority.issue_cert(SERVER_NAME)
    return Certificate(
        authority.cert_pem.bytes().decode("ascii"), server.private_key_and_cert_chain_pem.bytes()
    )
