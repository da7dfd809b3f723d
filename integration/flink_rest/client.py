"""Flink's REST API as answers to paths, and everything that can go wrong on the way.

An error names the address and what would help. A path that the cluster does not have (a 404) is no error of
the whole: it costs what it would have told, and `RestClient.missing` says which paths these were.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from netstack import ScenarioError

TIMEOUT_S = 10.0
"""How long one answer may take."""

NOT_FOUND = 404
_SHOWN = 120


class FlinkRestError(ScenarioError):
    """A Flink cluster cannot be read, or shows too little; `problems` has a line for each reason."""

    def __init__(self, *problems: str) -> None:
        super().__init__(problems)


class RestClient:
    """Asks one cluster; `url` is that of its web interface, with a path where it stands behind a proxy.

    Raises:
        FlinkRestError: the address is none.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url = url.rstrip("/")
        self.missing: list[str] = []
        """Paths that the cluster did not have."""
        self._timeout_s = timeout_s
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise FlinkRestError(f"{url}: is no address of Flink's REST API; write http://HOST:8081")

    def get(self, path: str) -> Any:
        """Return the answer to a path that every cluster has.

        Raises:
            FlinkRestError: nobody answers, or not as Flink does.
        """
        answer = self.find(path)
        if answer is None:
            raise FlinkRestError(
                f"{self.url}: has no {path}; is this the address of a Flink cluster's REST API?"
            )
        return answer

    def find(self, path: str, *, may_be_gone: bool = False) -> Any | None:
        """Return the answer to a path, None where the cluster does not have it.

        What may be gone because it is old does not count as missing.

        Raises:
            FlinkRestError: nobody answers, or not as Flink does.
        """
        try:
            body = self._body(path)
        except HTTPError as error:
            with error:
                if error.code == NOT_FOUND:
                    self.missing += [] if may_be_gone else [path]
                    return None
                raise FlinkRestError(f"{self.url}: {path}: {_refusal(error)}") from None
        except (URLError, OSError, http.client.HTTPException) as error:
            raise FlinkRestError(self._unreachable(error)) from None
        try:
            return json.loads(body)
        except ValueError:
            raise FlinkRestError(
                f"{self.url}: {path}: the answer is no JSON; is this the address of Flink's REST API?"
            ) from None

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
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"
            raise FlinkRestError(f"{self.url}: does not answer as Flink's REST API does ({what})") from error

    def _body(self, path: str) -> bytes:
        # `urlsplit` has made sure of the scheme, so no file is opened here.
        request = Request(self.url + quote(path, safe="/?=&,"), headers={"Accept": "application/json"})
        with urlopen(request, timeout=self._timeout_s) as answer:
            return bytes(answer.read())

    def _unreachable(self, error: Exception) -> str:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or " ".join(str(reason).split()) or type(reason).__name__
        if isinstance(reason, TimeoutError):
            why = f"no answer within {self._timeout_s:g} s"
        return f"{self.url}: cannot be reached: {why}; name the address of Flink's web interface"


def _refusal(error: HTTPError) -> str:
    """What a cluster says of its refusal, on one line."""
    try:
        told = json.loads(error.read())["errors"]
        text = " ".join(str(told[0] if isinstance(told, list) else told).split())
    except (ValueError, LookupError, TypeError, OSError):
        text = str(error.reason)
    return f"Flink answers {error.code}: {text[:_SHOWN]}"
