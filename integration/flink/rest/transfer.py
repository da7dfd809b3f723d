"""One answer over HTTP: whole within a time limit and a size limit, whatever arrives and however slowly.

The limit of httpx itself is for each read, so that a peer which sends a byte now and then is never late. Here
one deadline stands over all of it: name server, connection, status line, headers, what comes before an answer
(``100 Continue``), body, and the redirections on the way.
"""

from __future__ import annotations

import os
import ssl
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import trio

from ...emulating import heard_by_trio

if TYPE_CHECKING:
    import httpx

MOST_REDIRECTIONS = 5

REDIRECTIONS = frozenset({301, 302, 303, 307, 308})

LARGEST_REFUSAL = 1 << 16
"""Bytes that are read of an answer that is none; there stands why."""

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


class TransferError(Exception):
    """There is no whole answer; the message says why, in a few words."""


class TooLargeError(Exception):
    """An answer has more bytes than are read."""


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    reason: str
    """What the status line says beside the status, or where a redirection leads that is not followed."""
    body: bytes


def fetch(url: str, *, timeout_s: float, largest: int) -> Answer:
    """Return what a server answers to a GET; redirections are followed on the same scheme, host and port.

    Of an answer that is no success at most `LARGEST_REFUSAL` bytes are read, and it need not be whole.

    Raises:
        TransferError: nobody answers, not by HTTP, or not all of it within the time.
        TooLargeError: the answer is larger than `largest` bytes.
    """
    # Here, since few commands need it and it takes a while to import.
    import httpx

    try:
        return heard_by_trio(trio.run)(_fetch, url, timeout_s, largest)
    except trio.TooSlowError:
        raise TransferError(f"no answer within {timeout_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ImportError, ValueError) as error:
        raise TransferError(_why(error)) from None  # the last two: proxies of the environment that are none


async def _fetch(url: str, timeout_s: float, largest: int) -> Answer:
    import httpx

    with trio.fail_after(timeout_s):
        async with httpx.AsyncClient(verify=_trusted(), timeout=None, headers=_HEADERS) as client:
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
            place = response.headers["location"]
            return Answer(status, f"it is at {place}, which is not followed", b""), at.join(place)
        if response.is_success:
            return Answer(status, response.reason_phrase, await _body(response, largest)), None
        return Answer(status, response.reason_phrase, await _refusal(response)), None


async def _body(response: httpx.Response, largest: int) -> bytes:
    body = await _read(response, largest + 1)
    if len(body) > largest:
        raise TooLargeError
    return body


async def _refusal(response: httpx.Response) -> bytes:
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


@cache
def _trusted() -> ssl.SSLContext:
    """Whom the system trusts; to read that takes longer than an answer."""
    return ssl.create_default_context()


def _why(error: BaseException) -> str:
    """What the system said, which stands deepest, else what the error says."""
    return _strerror(error) or " ".join(str(error).split()) or type(error).__name__


def _strerror(error: BaseException | None) -> str | None:
    if error is None:
        return None
    if isinstance(error, BaseExceptionGroup):
        return next((told for each in error.exceptions if (told := _strerror(each))), None)
    return _strerror(error.__cause__ or error.__context__) or _told(error)


def _told(error: BaseException) -> str | None:
    """In the system's words; those of name servers have numbers below 0, and their own words."""
    if not isinstance(error, OSError):
        return None
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
