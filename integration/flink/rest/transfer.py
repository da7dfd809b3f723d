"""One answer to one GET, whole within a time limit and a size limit, or in a few words why there is none.

Whatever arrives and however slowly: the limit of httpx itself is for each read, so that a peer which sends a
byte now and then is never late. Here one deadline stands over all of it: name server, connection, TLS, status
line, headers, what comes before an answer (``100 Continue``), body, and the redirections on the way.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import trio

from ...emulating import heard_by_trio
from ...errors import TooLargeError, TransferError
from ...files.reading import one_line
from .access import NOBODY, Access

if TYPE_CHECKING:
    import httpx

MOST_REDIRECTIONS = 5

REDIRECTIONS = frozenset({301, 302, 303, 307, 308})

LARGEST_REFUSAL = 1 << 16
"""Bytes that are read of an answer that is none; there stands why."""

_HEADERS = (("Accept", "application/json"), ("Accept-Encoding", "identity"))

_OTHER_NAME = frozenset({62, 64})
"""OpenSSL's numbers for a certificate of another host name or address."""

_OTHER_TIME = frozenset({9, 10})
"""Likewise for one that is not valid yet, or no longer."""


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    reason: str
    """What the status line says beside the status, or where a redirection leads that is not followed."""
    body: bytes
    leads_to: str = ""
    """Where a redirection leads that is not followed, without its query."""


def fetch(url: str, *, timeout_s: float, largest: int, access: Access = NOBODY) -> Answer:
    """Return what a server answers to a GET; redirections are followed on the same scheme, host and port.

    So nobody else gets the headers of `access`. Of an answer that is no success at most `LARGEST_REFUSAL`
    bytes are read, and it need not be whole.

    Raises:
        TransferError: nobody answers, not by HTTP, or not all of it within the time.
        TooLargeError: the answer is larger than `largest` bytes.
        ScenarioError: a file of `access` cannot be used.
    """
    tls = access.tls()
    # Here, since few commands need it and it takes a while to import.
    import httpx

    try:
        return heard_by_trio(trio.run)(_fetch, url, timeout_s, largest, access, tls)
    except trio.TooSlowError:
        raise TransferError(f"no answer within {timeout_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ImportError, ValueError) as error:
        # The last two: proxies of the environment that are none.
        raise _trouble(error, url, isinstance(error, httpx.TransportError)) from None


async def _fetch(url: str, timeout_s: float, largest: int, access: Access, tls: ssl.SSLContext) -> Answer:
    import httpx

    headers = [*_HEADERS, *access.all_headers()]
    with trio.fail_after(timeout_s):
        async with httpx.AsyncClient(verify=tls, timeout=None, headers=headers) as client:
            at = httpx.URL(url)
            for _ in range(MOST_REDIRECTIONS):
                answer, leads_to = await _ask(client, at, largest)
                if leads_to is None or _origin(leads_to) != _origin(at):
                    break
                at = leads_to
    return answer


async def _ask(client: httpx.AsyncClient, at: httpx.URL, largest: int) -> tuple[Answer, httpx.URL | None]:
    """Return the answer, and where it leads if it is a redirection."""
    async with client.stream("GET", at) as response:
        status = response.status_code
        if status in REDIRECTIONS and "location" in response.headers:
            place = response.headers["location"].partition("?")[0]  # what follows may be a secret
            answer = Answer(status, f"it is at {place}, which is not followed", b"", place)
            return answer, at.join(response.headers["location"])
        if response.is_success:
            return Answer(status, response.reason_phrase, await _body(response, largest)), None
        return Answer(status, response.reason_phrase, await _refusal_body(response)), None


async def _body(response: httpx.Response, largest: int) -> bytes:
    body = await _read(response, largest + 1)
    if len(body) > largest:
        raise TooLargeError
    return body


async def _refusal_body(response: httpx.Response) -> bytes:
    import httpx

    try:
        return await _read(response, LARGEST_REFUSAL)
    except httpx.HTTPError:
        return b""  # the status tells enough


async def _read(response: httpx.Response, most: int) -> bytes:
    """Read at most so many bytes; what is cancelled closes itself from within, which a `break` does not."""
    pieces, size = [], 0
    with trio.CancelScope() as reading:
        async for piece in response.aiter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size >= most:
                reading.cancel()
    return b"".join(pieces)[:most]


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _trouble(error: BaseException, url: str, in_transfer: bool) -> TransferError:
    """What the error comes to; TLS and name servers say for good what they say."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return TransferError(_about_their_certificate(cause))
        if isinstance(cause, ssl.SSLError) and (why := _about_tls(cause.reason or "")):
            return TransferError(why)
    import httpx

    why = _strerror(error) or one_line(error) or type(error).__name__
    if isinstance(error, httpx.RemoteProtocolError) and url.startswith("http:"):
        why += "; if it speaks TLS, write https://"
    elif in_transfer and url.startswith("https:") and not isinstance(error, httpx.ConnectError):
        why += "; if it asks for a certificate, name yours by --cert FILE and --key FILE"
    asked = any(isinstance(cause, socket.gaierror) for cause in _causes(error))
    return TransferError(why, passing=in_transfer and not asked)


def _about_their_certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _OTHER_NAME:
        return f"{one_line(error.verify_message).rstrip('.')}; write the name that it is for"
    if error.verify_code in _OTHER_TIME:
        return f"its {error.verify_message}; it needs a new one"
    return (
        f"its certificate is not trusted ({error.verify_message}); "
        "name the file of the authority that signed it by --ca FILE"
    )


def _about_tls(reason: str) -> str | None:
    """What OpenSSL's word for an error comes to; None where it says nothing that would help."""
    if reason.endswith(("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")):
        return "it asks for a certificate of yours; name its files by --cert FILE and --key FILE"
    if "_ALERT_" in reason and reason.endswith(
        ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED", "ACCESS_DENIED")
    ):
        said = reason.partition("_ALERT_")[2].lower().replace("_", " ")
        return f"it does not take your certificate ({said}); name another one by --cert FILE and --key FILE"
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        return "it does not speak TLS; write http://"
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and all that it came of."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _causes(each)
        error = error.__cause__ or error.__context__


def _strerror(error: BaseException | None) -> str | None:
    if error is None:
        return None
    if isinstance(error, BaseExceptionGroup):
        return next((words for each in error.exceptions if (words := _strerror(each))), None)
    return _strerror(error.__cause__ or error.__context__) or _told(error)


def _told(error: BaseException) -> str | None:
    """In the system's words; those of name servers have numbers below 0, and their own words."""
    if not isinstance(error, OSError):
        return None
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
