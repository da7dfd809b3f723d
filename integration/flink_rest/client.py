"""Flink's REST API as answers to paths, and everything that can go wrong on the way.

An error names the address and what would help. A path that the cluster does not have (a 404), or at which it
fails (a 500 or above), is no error of the whole: it costs what it would have told, and `RestClient.missing`
says which paths these were.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from netstack import ScenarioError

TIMEOUT_S = 10.0
"""How long one answer may take."""

LARGEST_ANSWER = 64 << 20
"""Bytes of the largest answer that is read; Flink's are kilobytes, and some megabytes of large jobs."""

NOT_FOUND = 404
FAILURE = 500
"""From this status on, a cluster fails at what it was asked."""

_CHUNK = 1 << 16
_SHOWN = 120


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

    def get(self, path: str) -> Any:
        """Return the answer to a path that every cluster has.

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
        return answer

    def find(self, path: str, *, may_be_gone: bool = False) -> Any | None:
        """Return the answer to a path, None where the cluster does not have it, or fails at it.

        What may be gone because it is old does not count as missing.

        Raises:
            FlinkRestError: nobody answers, or not as Flink does.
        """
        answer = self._ask(path)
        if not isinstance(answer, _Refused):
            return answer
        if answer.code != NOT_FOUND and answer.code < FAILURE:
            raise FlinkRestError(f"{self.url}: {path}: {answer.text}")
        self.missing += [] if may_be_gone and answer.code == NOT_FOUND else [path]
        return None

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
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"
            raise FlinkRestError(f"{self.url}: does not answer as Flink's REST API does ({what})") from error

    def _ask(self, path: str) -> Any | _Refused:
        try:
            body = self._body(path)
        except HTTPError as error:
            with error:
                return _Refused(error.code, _refusal(error))
        except (OSError, http.client.HTTPException, UnicodeError) as error:  # a URLError is an OSError
            raise FlinkRestError(self._unreachable(error)) from None
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise FlinkRestError(
                f"{self.url}: {path}: the answer is no JSON; is this the address of Flink's REST API?"
            ) from None

    def _body(self, path: str) -> bytes:
        """Read an answer in pieces, so that neither a slow nor an endless one holds us up."""
        # The address begins with http, so no file is opened here.
        request = Request(self.url + quote(path, safe="/?=&,"), headers={"Accept": "application/json"})
        ends, pieces, size = time.monotonic() + self._timeout_s, [], 0
        with urlopen(request, timeout=self._timeout_s) as answer:
            while piece := answer.read1(_CHUNK):
                pieces.append(piece)
                size += len(piece)
                if size > LARGEST_ANSWER:
                    raise FlinkRestError(
                        f"{self.url}: {path}: the answer has more than {LARGEST_ANSWER >> 20} MiB; "
                        "is this the address of Flink's REST API?"
                    )
                if time.monotonic() > ends:
                    raise TimeoutError
            if answer.length:
                raise http.client.IncompleteRead(b"".join(pieces), answer.length)
        return b"".join(pieces)

    def _unreachable(self, error: Exception) -> str:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or _one_line(reason) or type(reason).__name__
        if isinstance(reason, TimeoutError):
            why = f"no answer within {self._timeout_s:g} s"
        return f"{self.url}: cannot be reached: {why}; name the address of Flink's web interface"


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


def _refusal(error: HTTPError) -> str:
    """What a cluster says of its refusal, on one line."""
    try:
        told = json.loads(error.read(_CHUNK))["errors"]
        text = _one_line(told[0] if isinstance(told, list) else told)
    except (ValueError, LookupError, TypeError, OSError, RecursionError, http.client.HTTPException):
        text = _one_line(error.reason)
    return f"Flink answers {error.code}: {text[:_SHOWN]}"


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
