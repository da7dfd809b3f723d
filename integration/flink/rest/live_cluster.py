"""A Flink cluster, or a history server, that is asked over HTTP or HTTPS.

An error names the address and what would help. What passes (no connection, or a 502, 503 or 504 of a proxy or
of a job manager that is being chosen) is asked again, after a pause that doubles.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from ...errors import FlinkRestError, TooLargeError, TooManyValuesError, TransferError
from ...files.reading import one_line
from .access import NOBODY, Access
from .answers import MOST_VALUES, Refused, decode_json
from .transfer import Answer, fetch

TIMEOUT_S = 10.0
"""How long one answer may take."""

LARGEST_ANSWER = 64 << 20
"""Bytes of the largest answer that is read; Flink's are kilobytes, and some megabytes of large jobs."""

PAUSES_S = (0.2, 0.4, 0.8)
"""Before each time that a request is tried again."""

MOST_RETRIES = 15
"""Of all requests together: a cluster in trouble answers none of hundreds."""

_PASSING = frozenset({502, 503, 504})

_SHOWN = 120


class LiveCluster:
    """Asks one cluster; `url` is that of its web interface, with a path where it stands behind a proxy.

    What a browser shows after a ``#`` or a ``?`` is the page that one looks at, and does not count.

    Raises:
        FlinkRestError: the address is none, or holds a name or password.
    """

    def __init__(
        self,
        url: str,
        access: Access = NOBODY,
        *,
        timeout_s: float = TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = url.partition("#")[0].partition("?")[0].strip().rstrip("/")
        _check_address(self.name)
        self._access = access
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._retries = MOST_RETRIES

    def answer(self, path: str) -> Any | Refused:
        """Return what the cluster answers.

        Raises:
            FlinkRestError: nobody answers, who asks is not let in, or what answers is no JSON.
        """
        answer = self._fetched(path)
        if not 200 <= answer.status < 300:
            return Refused(answer.status, _refusal(answer) + self._advice(answer))
        try:
            return decode_json(answer.body, object)
        except TooManyValuesError:
            raise self._too_large(path, f"{MOST_VALUES:,} values") from None
        except ValueError as error:
            raise FlinkRestError(f"{self.name}: {path}: {_about_no_json(answer.body, error)}") from None

    def pause(self, seconds: float) -> None:
        """Wait."""
        self._sleep(seconds)

    def clock(self) -> float:
        """Return the time of this machine's clock."""
        return time.monotonic()

    def _fetched(self, path: str) -> Answer:
        """The answer of the last try."""
        for pause_s in PAUSES_S:
            try:
                answer = self._fetched_once(path)
            except TransferError as error:
                if not error.passing or not self._retries:
                    raise self._unreachable(error) from None
            else:
                if answer.status not in _PASSING or not self._retries:
                    return answer
            self._retries -= 1
            self._sleep(pause_s)
        try:
            return self._fetched_once(path)
        except TransferError as error:
            raise self._unreachable(error) from None

    def _fetched_once(self, path: str) -> Answer:
        url = self.name + quote(path, safe="/?=&,")
        try:
            return fetch(url, timeout_s=self._timeout_s, largest=LARGEST_ANSWER, access=self._access)
        except TooLargeError:
            raise self._too_large(path, f"{LARGEST_ANSWER >> 20} MiB") from None

    def _too_large(self, path: str, most: str) -> FlinkRestError:
        return FlinkRestError(
            f"{self.name}: {path}: the answer has more than {most}; is this the address of Flink's REST API?"
        )

    def _unreachable(self, error: TransferError) -> FlinkRestError:
        about = "" if "; " in str(error) else "; name the address of Flink's web interface"
        return FlinkRestError(f"{self.name}: cannot be reached: {error}{about}")

    def _advice(self, answer: Answer) -> str:
        """What would help against a refusal."""
        if answer.leads_to:
            return _about_redirection(self.name, answer.leads_to)
        if answer.status not in (401, 403):
            return ""
        if self._access.identifies:
            return "; what --header or --user says of who asks is not enough there"
        return "; say who asks: --user NAME, or a token by --header @FILE"


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an end, a port that is no number
        right = False
    if "@" in (url.partition("://")[2] or url).partition("/")[0]:
        raise FlinkRestError("the address holds a name or a password; give --user NAME in place of that")
    if not right:
        raise FlinkRestError(
            f"{url}: is no address of Flink's REST API; write http://HOST:8081, or name a recording"
        )


def _about_redirection(name: str, place: str) -> str:
    ours, theirs = urlsplit(name), urlsplit(place)
    if theirs.hostname == ours.hostname and theirs.scheme != ours.scheme:
        return f"; write {theirs.scheme}:// in the address"
    return "; if one logs in there, say who asks: --user NAME, or a token by --header @FILE"


def _about_no_json(body: bytes, error: ValueError) -> str:
    if body.lstrip()[:1] == b"<":
        return (
            "the answer is no JSON but a web page; if one logs in there, say who asks: --user NAME, or a "
            "token by --header @FILE, else name the address of Flink's REST API"
        )
    return f"the answer is no JSON: {one_line(error)}; is this the address of Flink's REST API?"


def _refusal(answer: Answer) -> str:
    """What a cluster says of its refusal, on one line."""
    try:
        errors = decode_json(answer.body, dict[str, Any])["errors"]
        text = one_line(errors[0] if isinstance(errors, list) else errors)
    except (ValueError, LookupError):
        text = one_line(answer.reason)
    return f"Flink answers {answer.status}: {text[:_SHOWN]}"
