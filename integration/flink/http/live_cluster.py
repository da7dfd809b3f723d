"""Answers of a cluster over HTTP, with retries of transient failures.

No connection, or a 502, 503 or 504 of a proxy or of a job manager that is being elected, is transient.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from ...base.errors import FlinkRestError, Note, Parameter, TooLargeError, TooManyValuesError, TransferError
from ...base.reading import one_line
from .access import ANONYMOUS, CREDENTIALS, Access
from .answers import MOST_VALUES, Answers, Refused, decode_json
from .connections import Answer, Connections, Received

TIMEOUT_S = 10.0
"""Time limit of one answer."""

LARGEST_ANSWER = 64 << 20
"""Maximum size of an answer, in bytes. Answers take kilobytes, or some megabytes for large jobs."""

PAUSES_S = (0.2, 0.4, 0.8)
"""Pauses in seconds before the retries of one request."""

MOST_RETRIES = 15
"""Maximum retries of all requests together, so that a failing cluster is not retried hundreds of times."""

_TRANSIENT = frozenset({502, 503, 504})
_TOGETHER = 32
"""Maximum number of paths that are requested together."""

_SHOWN = 120
_LOG_IN = "set {}, or {} for a token."


class Api(NamedTuple):
    """Words of messages about the server that is asked."""

    owner: str
    name: str
    example: str


FLINK = Api("Flink", "Flink's REST API", "http://HOST:8081, or name the file of a recording")


class LiveCluster(Answers):
    """Answers of a Flink cluster, or of a history server, over HTTP or HTTPS.

    `url` is the address of its web interface, including the path if it is behind a proxy. The part after a
    ``#`` or a ``?``, which names a page of the web interface, is ignored.

    Raises:
        FlinkRestError: the address is malformed, or contains a name or password.
    """

    def __init__(
        self,
        url: str,
        access: Access = ANONYMOUS,
        *,
        timeout_s: float = TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
        api: Api = FLINK,
    ) -> None:
        self._api = api
        self.name = url.partition("#")[0].partition("?")[0].strip().rstrip("/")
        try:
            parts = urlsplit(self.name)
            right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # an unclosed bracket, or a port that is no number
            right = False
        if "@" in (self.name.partition("://")[2] or self.name).partition("/")[0]:
            raise FlinkRestError(
                Note(
                    "The address contains a name or a password.", Parameter("user"), advice="Set {} instead."
                )
            )
        if not right:
            raise FlinkRestError(f"{self.name}: is not an address of {api.name}. Write {api.example}.")
        self._access = access
        self._connections = Connections(access, timeout_s=timeout_s, largest=LARGEST_ANSWER)
        self._sleep = sleep
        self._retries = MOST_RETRIES
        self._answered_s = time.monotonic()

    def answer(self, path: str) -> Any | Refused:
        """Return the JSON of the answer, or an error status.

        Raises:
            FlinkRestError: there is no answer, access is denied, or the answer is not JSON.
        """
        (answer,) = self.answer_all([path])
        return answer

    def answer_all(self, paths: Sequence[str]) -> Iterator[Any | Refused]:
        """Yield the answers to several paths, requested at the same time on a few connections."""
        done = 0
        while done < len(paths):
            some = paths[done : done + _TOGETHER]
            received = self._connections.get([self._url(path) for path in some])
            self._answered_s = time.monotonic()
            for path, answer in zip(some, received, strict=False):  # a failure may have ended them
                yield self._decoded(path, self._retried(path, answer))
            done += len(received)

    def pause(self, seconds: float) -> None:
        """Wait."""
        self._sleep(seconds)

    def clock(self) -> float:
        """Return the time of the last answer by this machine's clock."""
        return self._answered_s

    def _url(self, path: str) -> str:
        return self.name + quote(path, safe="/?=&,")

    def _retried(self, path: str, answer: Received) -> Answer:
        """Return the answer to a path, or, if it is a transient failure, that to a later request."""
        for pause_s in PAUSES_S:
            if not self._retries or not _is_transient(answer):
                break
            self._retries -= 1
            self._sleep(pause_s)
            (answer,) = self._connections.get([self._url(path)])
            self._answered_s = time.monotonic()
        if isinstance(answer, TooLargeError):
            raise self._too_large(path, f"{LARGEST_ANSWER >> 20} MiB")
        if isinstance(answer, TransferError):
            why = "" if answer.answers else "cannot be reached: "
            raise FlinkRestError(answer.note.after(f"{self.name}: {why}"))
        return answer

    def _decoded(self, path: str, answer: Answer) -> Any | Refused:
        if not 200 <= answer.status < 300:
            return self._refusal(answer)
        try:
            return decode_json(answer.body, object)
        except TooManyValuesError:
            raise self._too_large(path, f"{MOST_VALUES:,} values") from None
        except ValueError as error:
            if answer.body.lstrip()[:1] == b"<":
                text = f"{self.name}: {_shown(path)}: the answer is a web page, not JSON."
                advice = f"If it is a login page, {_LOG_IN} Otherwise check the address of {self._api.name}."
                raise FlinkRestError(Note(text, *CREDENTIALS, advice=advice)) from None
            raise FlinkRestError(
                f"{self.name}: {_shown(path)}: the answer is not JSON: {one_line(error)}. "
                f"Check that this is the address of {self._api.name}."
            ) from None

    def _too_large(self, path: str, most: str) -> FlinkRestError:
        return FlinkRestError(
            f"{self.name}: {_shown(path)}: the answer has more than {most}. "
            f"Check that this is the address of {self._api.name}."
        )

    def _refusal(self, answer: Answer) -> Refused:
        """Return the cluster's reason in one line, with advice."""
        try:
            body = decode_json(answer.body, dict[str, Any])
            errors = body["errors"] if "errors" in body else body["error"]  # the latter in Prometheus
            reason = one_line(errors[0] if isinstance(errors, list) else errors)
        except (ValueError, LookupError):
            reason = one_line(answer.reason)
        text = f"{self._api.owner} answers {answer.status}: {reason[:_SHOWN]}"
        if answer.leads_to:
            ours, theirs = urlsplit(self.name), urlsplit(answer.leads_to)
            if theirs.hostname == ours.hostname and theirs.scheme != ours.scheme:
                return Refused(answer.status, Note(f"{text}. Write {theirs.scheme}:// in the address."))
            note = Note(f"{text}.", *CREDENTIALS, advice=f"If it is a login page, {_LOG_IN}")
            return Refused(answer.status, note)
        if answer.status not in (401, 403):
            return Refused(answer.status, Note(text))
        if self._access.identifies:
            return Refused(answer.status, Note(f"{text}. These credentials do not suffice."))
        return Refused(answer.status, Note(f"{text}.", *CREDENTIALS, advice=_LOG_IN.capitalize()))


def _shown(path: str) -> str:
    """Return a path without its query, which may name hundreds of metrics."""
    return path.partition("?")[0]


def _is_transient(answer: Received) -> bool:
    """Return whether a later request may succeed."""
    if isinstance(answer, TransferError):
        return answer.transient
    return isinstance(answer, Answer) and answer.status in _TRANSIENT
