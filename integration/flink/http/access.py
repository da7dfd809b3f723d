"""TLS trust and credentials of a client."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ...base.errors import FlinkRestError, Note, Parameter
from ...base.reading import LARGEST_CONFIGURATION, read_user_file, read_user_text

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_HEADERS_OF_CONNECTION = frozenset({"connection", "content-length", "host", "transfer-encoding"})

CLIENT_CERTIFICATE = (Parameter("cert"), Parameter("key"))
WITH_CERTIFICATE = "Set {} and {} to the files of your certificate and its key."
CREDENTIALS = (Parameter("user"), Parameter("headers"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """TLS trust and client credentials.

    By default the system's authorities are trusted, and there are no credentials. Secrets are left out of
    `repr`, and are only sent to the server of the address.
    """

    ca: Path | None = None
    """PEM file of the only authorities to trust; None: those of the system."""
    cert: Path | None = None
    """PEM file of the client certificate, with the chain to its authority."""
    key: Path | None = None
    """PEM file of the client's private key; None: the key is in the file of the certificate."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Names and values that are sent with every request."""
    user: str | None = None
    password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        problem = None
        if self.key is not None and self.cert is None:
            text = "A private key requires its certificate."
            problem = Note(text, Parameter("cert"), advice="Set {} as well.")
        elif self.user is not None and ":" in self.user:
            advice = "Set {} to the name alone, and {} to the password."
            text = "The name of a user contains a colon."
            problem = Note(text, Parameter("user"), Parameter("password"), advice=advice)
        elif self.user is not None and any(name.lower() == "authorization" for name, _ in self.headers):
            text = "Both a user and an Authorization header are set."
            problem = Note(text, *CREDENTIALS, advice="Set either {} or {}.")
        if problem is not None:
            raise FlinkRestError(problem)

    @property
    def identifies(self) -> bool:
        """Whether requests carry credentials."""
        return self.user is not None or bool(self.headers)

    def all_headers(self) -> list[tuple[str, str]]:
        """Return the headers of every request. User and password become a Basic authorization header."""
        if self.user is None:
            return list(self.headers)
        token = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return [*self.headers, ("Authorization", f"Basic {token}")]

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context of connections.

        Raises:
            FileError: a file is missing.
            FlinkRestError: a file contains no certificate, or no key for it.
        """
        return _tls_context(self.ca, self.cert, self.key)


ANONYMOUS = Access()


@cache
def _tls_context(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """Return the TLS context for these PEM files; cached, because reading all authorities takes long."""
    context = ssl.create_default_context() if ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is not None:
        text = read_user_text(ca, LARGEST_CONFIGURATION, "certificates are PEM files")
        try:
            context.load_verify_locations(cadata=text)
        except (ssl.SSLError, ValueError):
            raise FlinkRestError(
                Note(f"{ca}: contains no certificate.", Parameter("ca"), advice="Set {} to a PEM file.")
            ) from None
    if cert is None:
        return context
    for file in (cert, key or cert):
        read_user_file(file, LARGEST_CONFIGURATION)  # names a missing or unreadable file in its error
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except _EncryptedError:
        raise FlinkRestError(
            f"{key or cert}: the key is encrypted. Name a file with the key decrypted."
        ) from None
    except (ssl.SSLError, ValueError) as error:
        note = Note(
            f"{cert}: contains no certificate with its key in PEM.",
            Parameter("key"),
            advice="If the key is in a file of its own, set {} to it.",
        )
        if "MISMATCH" in (getattr(error, "reason", None) or ""):
            text = f"{key or cert}: is not the key of the certificate {cert}."
            note = Note(text, *CLIENT_CERTIFICATE, advice=WITH_CERTIFICATE)
        elif key:
            text = f"{cert} and {key}: contain no certificate with its key in PEM."
            note = Note(text, *CLIENT_CERTIFICATE, advice=WITH_CERTIFICATE)
        raise FlinkRestError(note) from None
    return context


class _EncryptedError(Exception):
    """OpenSSL asked for the password of a key."""


def _no_password() -> str:
    raise _EncryptedError


def read_headers(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Parse lines "Name: value"; the keys of `given` are the origins of the lines.

    Raises:
        FlinkRestError: a line is no header. The message does not repeat it, since it may contain a secret.
    """
    headers, problems = [], []
    for where, line in given.items():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not _HEADER_NAME.fullmatch(name):
            problems.append(f'{where}: is not a header. Write "Name: value".')
        elif name.lower() in _HEADERS_OF_CONNECTION:
            problems.append(f"{where}: {name} belongs to the connection and cannot be set.")
        elif not _HEADER_VALUE.fullmatch(value):
            problems.append(f"{where}: the value of {name} contains a character that headers must not have.")
        else:
            headers.append((name, value))
    if problems:
        raise FlinkRestError(*problems)
    return tuple(headers)
