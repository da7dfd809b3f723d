"""One GET, with limits on its time, its size and its redirections."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trio

from ...base.errors import Note, TooLargeError, TransferError
from ...base.signals import ctrl_c_to_trio
from .access import ANONYMOUS, Access
from .failures import transfer_error

if TYPE_CHECKING:
    import httpx

MOST_REDIRECTIONS = 5
REDIRECTIONS = frozenset({301, 302, 303, 307, 308})
LARGEST_REFUSAL = 1 << 16
"""Maximum bytes to read of an error's body, which may contain the reason."""

_HEADERS = (("Accept", "application/json"), ("Accept-Encoding", "identity"))


class Answer(NamedTuple):
    """A response."""

    status: int
    reason: str
    """The reason phrase, or the target of a redirection that is not followed."""
    body: bytes
    leads_to: str = ""
    """The target of a redirection that was not followed, without its query."""


def fetch(url: str, *, timeout_s: float, largest: int, access: Access = ANONYMOUS) -> Answer:
    """Return the response to a GET; follow redirections only to the same scheme, host and port.

    httpx applies its timeout to each read, so a server that sends single bytes could exceed any total time.
    Therefore one deadline covers everything: name server, connection, TLS, headers, interim responses, body
    and redirections. The body of an error is cut at `LARGEST_REFUSAL` bytes, and may be incomplete.

    Raises:
        TransferError: there is no HTTP response, or it is not complete in time.
        TooLargeError: the body is larger than `largest` bytes.
        InputError: a file of `access` cannot be used.
    """
    tls = access.tls()
    import httpx  # imported here: few commands need it, and importing it takes a while

    async def get(client: httpx.AsyncClient, at: httpx.URL) -> tuple[Answer, httpx.URL | None]:
        async with client.stream("GET", at) as response:
            status = response.status_code
            if status in REDIRECTIONS and "location" in response.headers:
                place = response.headers["location"].partition("?")[0]  # the query may contain a secret
                target = at.join(response.headers["location"])
                return Answer(status, f"redirects to {place}, which is not followed", b"", place), target
            if not response.is_success:
                try:
                    body = await _read(response, LARGEST_REFUSAL)
                except httpx.HTTPError:
                    body = b""  # the status is enough
            elif len(body := await _read(response, largest + 1)) > largest:
                raise TooLargeError
            return Answer(status, response.reason_phrase, body), None

    async def follow() -> Answer:
        headers = [*_HEADERS, *access.all_headers()]
        with trio.fail_after(timeout_s):
            async with httpx.AsyncClient(verify=tls, timeout=None, headers=headers) as client:
                at = httpx.URL(url)
                for _ in range(MOST_REDIRECTIONS):
                    answer, target = await get(client, at)
                    if target is None or _origin(target) != _origin(at):
                        break
                    at = target
        return answer

    try:
        return ctrl_c_to_trio(trio.run)(follow)
    except trio.TooSlowError:
        raise TransferError(Note(f"no complete answer within {timeout_s:g} s."), answers=True) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ImportError, ValueError) as error:
        # ImportError and ValueError: the environment names proxies that cannot be used.
        raise transfer_error(error, url) from None


async def _read(response: httpx.Response, most: int) -> bytes:
    """Read at most `most` bytes. Cancelling also closes the response, which a `break` does not."""
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
