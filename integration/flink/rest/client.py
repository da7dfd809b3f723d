"""Flink's REST API as answers to paths, and everything that can go wrong on the way.

An error names the address and what would help. A path that the cluster does not have (a 404), or at which it
fails (a 500 or above), is no error of the whole: it costs what it would have told, and `RestClient.missing`
says which paths these were.

An answer comes whole within a time limit and a size limit, whatever arrives and however slowly (`fetch`). The
limit of httpx itself is for each read, so that a peer which sends a byte now and then is never late. Here one
deadline stands over all of it: name server, connection, status line, headers, what comes before an answer
(``100 Continue``), body, and the redirections on the way.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import trio

from netstack import ScenarioError

from ...emulating import heard_by_trio
from ...files.reading import one_line

if TYPE_CHECKING:
    import httpx

MOST_REDIRECTIONS = 5

REDIRECTIONS = frozenset({301, 302, 303, 307, 308})

LARGEST_REFUSAL = 1 << 16
"""Bytes that are read of an answer that is none; there stands why."""

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}

TIMEOUT_S = 10.0
"""How long one answer may take."""

LARGEST_ANSWER = 64 << 20
"""Bytes of the largest answer that is read; Flink's are kilobytes, and some megabytes of large jobs."""

NOT_FOUND = 404

FAILURE = 500
"""From this status on, a cluster fails at what it was asked."""

_SHOWN = 120

_SHAPES: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}

T = TypeVar("T")


class FlinkRestError(ScenarioError):
    """A Flink cluster cannot be read, or shows too little; `problems` has a line for each reason."""

    def __init__(self, *problems: str) -> None:
        super().__init__(problems)


class RestClient:
    """Asks one cluster; `url` is that of its web interface, with a path where it stands behind a proxy.

    What a browser shows after a ``#`` or a ``?`` is the page that one looks at, and does not count.

    Raises:
        FlinkRestError: the address is none.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url = url.partition("#")[0].partition("?")[0].strip().rstrip("/")
        if not _is_address(self.url):
            raise FlinkRestError(f"{url}: is no address of Flink's REST API; write http://HOST:8081")
        self.missing: list[str] = []
        """Paths that the cluster did not have, or at which it failed."""
        self._timeout_s = timeout_s
        self._asked = ""

    def get(self, path: str) -> dict[str, Any]:
        """Return the object that answers a path which every cluster has.

        Raises:
            FlinkRestError: nobody answers, or not as Flink does.
        """
        answer = self._ask(path)
        if isinstance(answer, _Refused):
            if answer.code != NOT_FOUND:
                raise FlinkRestError(f"{self.url}: {path}: {answer.text}")
            raise FlinkRestError(
                f"{self.url}: has no {path}; is this the address of a Flink cluster's REST API?"
            )
        return self._of_shape(dict, path, answer)

    def find(self, path: str, *, may_be_gone: bool = False) -> dict[str, Any] | None:
        """Return the object that answers a path, None where the cluster does not have it, or fails at it.

        What may be gone because it is old does not count as missing.

        Raises:
            FlinkRestError: nobody answers, or not as Flink does.
        """
        answer = self._found(path, may_be_gone)
        return None if answer is None else self._of_shape(dict, path, answer)

    def find_list(self, path: str) -> list[dict[str, Any]] | None:
        """Return the list of objects that answers a path; None, and errors, as with `find`."""
        answer = self._found(path)
        if answer is None:
            return None
        return [self._of_shape(dict, path, entry) for entry in self._of_shape(list, path, answer)]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While answers are taken apart: one that is not what Flink's REST API documents ends it.

        Raises:
            FlinkRestError: in place of the errors that such an answer causes.
        """
        try:
            yield
        except ScenarioError:
            raise
        except KeyError as error:
            raise self._not_flink(f"an answer has no {error}") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._not_flink("an answer has not the values that are documented") from error

    def _not_flink(self, what: str) -> FlinkRestError:
        return FlinkRestError(f"{self.url}: {self._asked}: does not answer as Flink's REST API does: {what}")

    def _of_shape(self, shape: type[T], path: str, answer: object) -> T:
        if not isinstance(answer, shape):
            is_, right = _SHAPES[type(answer)], _SHAPES[shape]
            raise self._not_flink(f"where {right} should be is {is_}")
        return answer

    def _found(self, path: str, may_be_gone: bool = False) -> Any | None:
        answer = self._ask(path)
        if not isinstance(answer, _Refused):
            return answer
        if answer.code != NOT_FOUND and answer.code < FAILURE:
            raise FlinkRestError(f"{self.url}: {path}: {answer.text}")
        self.missing += [] if may_be_gone and answer.code == NOT_FOUND else [path]
        return None

    def _ask(self, path: str) -> Any | _Refused:
        self._asked = path
        answer = self._fetched(path)
        if not 200 <= answer.status < 300:
            return _Refused(answer.status, _refusal(answer))
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            raise FlinkRestError(
                f"{self.url}: {path}: the answer is no JSON; is this the address of Flink's REST API?"
            ) from None

    def _fetched(self, path: str) -> Answer:
        try:
            url = self.url + quote(path, safe="/?=&,")
            return fetch(url, timeout_s=self._timeout_s, largest=LARGEST_ANSWER)
        except TooLargeError:
            raise FlinkRestError(
                f"{self.url}: {path}: the answer has more than {LARGEST_ANSWER >> 20} MiB; "
                "is this the address of Flink's REST API?"
            ) from None
        except TransferError as error:
            raise FlinkRestError(
                f"{self.url}: cannot be reached: {error}; name the address of Flink's web interface"
            ) from None


class _Refused(NamedTuple):
    """An answer that is none: its status, and what the cluster says."""

    code: int
    text: str


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an end, a port that is no number
        return False


def _refusal(answer: Answer) -> str:
    """What a cluster says of its refusal, on one line."""
    try:
        errors = json.loads(answer.body)["errors"]
        text = one_line(errors[0] if isinstance(errors, list) else errors)
    except (ValueError, LookupError, TypeError, RecursionError):
        text = one_line(answer.reason)
    return f"Flink answers {answer.status}: {text[:_SHOWN]}"


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


@cache
def _trusted() -> ssl.SSLContext:
    """Whom the system trusts; to read that takes longer than an answer."""
    return ssl.create_default_context()


def _why(error: BaseException) -> str:
    """What the system said, which stands deepest, else what the error says."""
    return _strerror(error) or one_line(error) or type(error).__name__


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
