"""How a cluster is reached that does not let everybody in: whom we trust, and who we are.

What is secret here is kept out of `repr`, and nobody else gets it but the server that is asked.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ...errors import FlinkRestError
from ...files.reading import LARGEST_CONFIGURATION, read_user_file, read_user_text

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

_VALUE = re.compile(r"[\t\x20-\x7e]*")

_OWN = frozenset({"connection", "content-length", "host", "transfer-encoding"})
"""Headers that belong to the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Whom to trust and who to be at a cluster; as it stands, the system's authorities and nobody."""

    ca: Path | None = None
    """PEM file of the only authorities to trust; None: those of the system."""
    cert: Path | None = None
    """PEM file of our own certificate, with those between it and its authority."""
    key: Path | None = None
    """PEM file of its private key; None: it stands in the same file."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Names and values that go with every request."""
    user: str | None = None
    password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.key is not None and self.cert is None:
            raise FlinkRestError("--key is the key of a certificate; give that too, by --cert FILE")
        if self.user is not None and ":" in self.user:
            raise FlinkRestError("--user: a name has no colon; the password is asked for, or in a file")
        if self.user is not None and any(name.lower() == "authorization" for name, _ in self.headers):
            raise FlinkRestError("--user and --header both say who asks; give one of them")

    @property
    def identifies(self) -> bool:
        """Whether requests say who asks."""
        return self.user is not None or bool(self.headers)

    def all_headers(self) -> list[tuple[str, str]]:
        """Return what goes with every request, user and password included (HTTP's Basic scheme)."""
        if self.user is None:
            return list(self.headers)
        token = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return [*self.headers, ("Authorization", f"Basic {token}")]

    def tls(self) -> ssl.SSLContext:
        """Return what connections are made with.

        Raises:
            ScenarioError: a file is missing, or holds no certificate or no key for it.
        """
        return _context(self.ca, self.cert, self.key)


NOBODY = Access()
"""As it is without any option."""


@cache
def _context(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """Read the files once for all requests; to read whom the system trusts takes longer than an answer."""
    context = ssl.create_default_context() if ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is not None:
        _trust(context, ca)
    if cert is not None:
        _identify(context, cert, key)
    return context


def _trust(context: ssl.SSLContext, ca: Path) -> None:
    text = read_user_text(ca, LARGEST_CONFIGURATION, "certificates are PEM files")
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise FlinkRestError(f"--ca {ca}: holds no certificate; it must be a PEM file") from None


def _identify(context: ssl.SSLContext, cert: Path, key: Path | None) -> None:
    for file in (cert, key or cert):
        read_user_file(file, LARGEST_CONFIGURATION)  # says what is wrong with the file itself
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except _EncryptedError:
        raise FlinkRestError(
            f"{key or cert}: the key is encrypted; name a file with the key as it is"
        ) from None
    except (ssl.SSLError, ValueError) as error:
        raise FlinkRestError(_about_chain(cert, key, getattr(error, "reason", None) or "")) from None


def _about_chain(cert: Path, key: Path | None, reason: str) -> str:
    if "MISMATCH" in reason:
        return f"--cert {cert}: --key {key or cert} is not the key of that certificate"
    where = f"--cert {cert} or --key {key}" if key else f"--cert {cert}"
    hint = "" if key else "; where the key is in a file of its own, name it by --key FILE"
    return f"{where}: there is no certificate with its key, in PEM{hint}"


class _EncryptedError(Exception):
    """A key asks for a password."""


def _no_password() -> str:
    raise _EncryptedError


def read_headers(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return names and values of headers from lines "Name: value"; the keys say where each line came from.

    Raises:
        FlinkRestError: one is none; the line in question is not repeated, as it may hold a secret.
    """
    headers, problems = [], []
    for where, line in given.items():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not _NAME.fullmatch(name):
            problems.append(f'{where}: is no header; write "Name: value", or @FILE with a header a line')
        elif name.lower() in _OWN:
            problems.append(f"{where}: {name} cannot be given")
        elif not _VALUE.fullmatch(value):
            problems.append(f"{where}: the value of {name} has a character that no header has")
        else:
            headers.append((name, value))
    if problems:
        raise FlinkRestError(*problems)
    return tuple(headers)
