"""Kept connections to one cluster: GETs with limits on their time, size and redirections.

httpx keeps connections only within one event loop. The readers of a cluster have none, so the loop runs in a
thread, from the first request until its `Connections` are no longer used.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from ...base.errors import Note, TooLargeError, TransferError
from .access import ANONYMOUS, Access
from .failures import transfer_error

if TYPE_CHECKING:
    import httpx

CONNECTIONS = 6
"""Maximum number of requests at the same time, each on a connection of its own, as of a browser."""

MOST_REDIRECTIONS = 5
REDIRECTIONS = frozenset({301, 302, 303, 307, 308})
LARGEST_REFUSAL = 1 << 16
"""Maximum bytes to read of an error's body, which may contain the reason."""

_HEADERS = (("Accept", "application/json"), ("Accept-Encoding", "identity"))
_KEPT_S = 60.0
"""Time for which an idle connection is kept: longer than the pause between two polls."""


class Answer(NamedTuple):
    """A response."""

    status: int
    reason: str
    """The reason phrase, or the target of a redirection that is not followed."""
    body: bytes
    leads_to: str = ""
    """The target of a redirection that was not followed, without its query."""


Received = Answer | TransferError | TooLargeError
"""A response or a failure.

A failure is a `TransferError` if there is no HTTP response or it is not complete in time, and a
`TooLargeError` if the body is larger than allowed.
"""


class Connections:
    """A few connections, which stay open between requests.

    Redirections are followed only to the same scheme, host and port.
    """

    def __init__(self, access: Access = ANONYMOUS, *, timeout_s: float, largest: int) -> None:
        """Set the credentials, the time limit of a response, and the maximum bytes of its body."""
        self._access = access
        self._timeout_s = timeout_s
        self._largest = largest
        self._loop: _Loop | None = None

    def get(self, urls: Sequence[str]) -> list[Received]:
        """Return the responses to GETs of these URLs, in order, up to the first failure if there is one.

        Raises:
            InputError: a file with credentials cannot be used.
        """
        if self._loop is None:
            self._loop = _Loop(self._access)
            weakref.finalize(self, self._loop.stop)
        get = partial(_get_all, self._loop, urls, self._timeout_s, self._largest)
        return trio.from_thread.run(get, trio_token=self._loop.token)


class _Loop:
    """An event loop in a thread, and the client that belongs to it."""

    token: trio.lowlevel.TrioToken

    def __init__(self, access: Access) -> None:
        self._tls = access.tls()
        self._headers = [*_HEADERS, *access.all_headers()]
        self._client: httpx.AsyncClient | None = None
        self._end = trio.CancelScope()
        self._started = threading.Event()
        # A daemon, so that Python's exit does not wait for it before it calls `stop`.
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)
        self._thread.start()
        self._started.wait()

    async def _run(self) -> None:
        self.token = trio.lowlevel.current_trio_token()
        self._started.set()
        with self._end:
            await trio.sleep_forever()
        if self._client is not None:
            await self._client.aclose()

    def client(self) -> httpx.AsyncClient:
        """Return the client. Call it only within the loop."""
        if self._client is None:
            import httpx  # imported here: few commands need it, and importing it takes a while

            limits = httpx.Limits(max_connections=CONNECTIONS, keepalive_expiry=_KEPT_S)
            self._client = httpx.AsyncClient(
                verify=self._tls, timeout=None, headers=self._headers, limits=limits
            )
        return self._client

    def stop(self) -> None:
        """Close the connections, and wait for the end of the thread.

        Garbage collection may call this in the thread itself, which then ends later.
        """
        self.token.run_sync_soon(self._end.cancel)
        if threading.current_thread() is not self._thread:
            self._thread.join()


async def _get_all(loop: _Loop, urls: Sequence[str], timeout_s: float, largest: int) -> list[Received]:
    answers: dict[int, Received] = {}
    last = len(urls) - 1
    turns = iter(range(len(urls)))

    async def get_in_turn() -> None:
        nonlocal last
        for place in turns:
            if place <= last:
                answers[place] = await _get(loop, urls[place], timeout_s, largest)
                if not isinstance(answers[place], Answer):
                    last = min(last, place)

    async with trio.open_nursery() as nursery:
        for _ in range(min(CONNECTIONS, len(urls))):
            nursery.start_soon(get_in_turn)
    return [answers[place] for place in range(last + 1)]


async def _get(loop: _Loop, url: str, timeout_s: float, largest: int) -> Received:
    """Return the response, or the failure.

    httpx applies its timeout to each read, so a server that sends single bytes could exceed any total time.
    Therefore one deadline covers everything: name server, connection, TLS, headers, interim responses, body
    and redirections.
    """
    import httpx

    try:
        with trio.fail_after(timeout_s):
            client, at = loop.client(), httpx.URL(url)
            for _ in range(MOST_REDIRECTIONS):
                answer, target = await _get_once(client, at, largest)
                if target is None or _origin(target) != _origin(at):
                    break
                at = target
        return answer
    except trio.TooSlowError:
        return TransferError(Note(f"no complete answer within {timeout_s:g} s."), answers=True)
    except TooLargeError as error:
        return error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ImportError, ValueError) as error:
        # ImportError and ValueError: the environment names proxies that cannot be used.
        return transfer_error(error, url)


async def _get_once(
    client: httpx.AsyncClient, at: httpx.URL, largest: int
) -> tuple[Answer, httpx.URL | None]:
    """Return one response, and the target of a redirection.

    The body of an error is cut at `LARGEST_REFUSAL` bytes, and may be incomplete.
    """
    import httpx

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
