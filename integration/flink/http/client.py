"""Client of Flink's REST API: credentials, HTTP requests with limits, decoding and validation of answers.

::

    RestClient --> Answers: LiveCluster --> fetch --> HTTP
                            Recording (of recording.py)
                            Recorder, which keeps the answers of another

An error names the address and what to do. Transient failures (no connection, or a 502, 503 or 504 of a proxy
or of a job manager that is being elected) are retried. A path that the cluster does not have (a 404), or at
which it fails (a 500 or above), is no error: `RestClient.missing` lists these paths.
"""

from __future__ import annotations

import base64
import math
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import trio

from netstack import InputError

from ...base.errors import FlinkRestError, Note, Parameter, TooLargeError, TooManyValuesError, TransferError
from ...base.reading import (
    DEEPEST,
    LARGEST_CONFIGURATION,
    levels_within,
    one_line,
    read_user_file,
    read_user_text,
)
from ...base.signals import ctrl_c_to_trio

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 10.0
"""Time limit of one answer."""

LARGEST_ANSWER = 64 << 20
"""Maximum size of an answer, in bytes. Answers take kilobytes, or some megabytes for large jobs."""

MOST_VALUES = 1 << 20
"""Maximum number of values in an answer: 32 for each subtask at Flink's maximum parallelism."""

PAUSES_S = (0.2, 0.4, 0.8)
"""Pauses in seconds before the retries of one request."""

MOST_RETRIES = 15
"""Maximum retries of all requests together, so that a failing cluster is not retried hundreds of times."""

WITH_VALUES = "/metrics?get="
"""Part of the path of a metrics request, between the address and the names of the metrics."""

MOST_REDIRECTIONS = 5
REDIRECTIONS = frozenset({301, 302, 303, 307, 308})
LARGEST_REFUSAL = 1 << 16
"""Maximum bytes to read of an error's body, which may contain the reason."""

_NOT_FOUND, _FAILURE, _TRANSIENT = 404, 500, frozenset({502, 503, 504})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_HEADERS_OF_CONNECTION = frozenset({"connection", "content-length", "host", "transfer-encoding"})
_HEADERS = (("Accept", "application/json"), ("Accept-Encoding", "identity"))

_OTHER_NAME, _OTHER_TIME = frozenset({62, 64}), frozenset({9, 10})
"""OpenSSL's codes for a certificate of another host or address, and for one that is not valid now."""

_OPENS_OR_SEPARATES = (b"[", b"{", b",")
_AT_BYTE = re.compile(r"\(byte (\d+)\)$")
_NO_NUMBER = re.compile(rb"NaN|Infinity")
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

_CREDENTIALS = (Parameter("user"), Parameter("headers"))
_LOG_IN = "set {}, or {} for a token."
_CLIENT_CERTIFICATE = (Parameter("cert"), Parameter("key"))
_WITH_CERTIFICATE = "Set {} and {} to the files of your certificate and its key."


# Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """TLS trust and client credentials.

    By default the system's authorities are trusted, and there are no credentials. Secrets are left out of
    `repr`, and are only sent to the server of the address.
    """

    ca: Path | None = None
    """PEM file of the only authorities to trust; None: those of the system."""
    cert: Path | None = None
    """PEM file of the client certificate, with the chain to its authority."""
    key: Path | None = None
    """PEM file of the client's private key; None: the key is in the file of the certificate."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Names and values that are sent with every request."""
    user: str | None = None
    password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        problem = None
        if self.key is not None and self.cert is None:
            text = "A private key requires its certificate."
            problem = Note(text, Parameter("cert"), advice="Set {} as well.")
        elif self.user is not None and ":" in self.user:
            advice = "Set {} to the name alone, and {} to the password."
            text = "The name of a user contains a colon."
            problem = Note(text, Parameter("user"), Parameter("password"), advice=advice)
        elif self.user is not None and any(name.lower() == "authorization" for name, _ in self.headers):
            text = "Both a user and an Authorization header are set."
            problem = Note(text, *_CREDENTIALS, advice="Set either {} or {}.")
        if problem is not None:
            raise FlinkRestError(problem)

    @property
    def identifies(self) -> bool:
        """Whether requests carry credentials."""
        return self.user is not None or bool(self.headers)

    def all_headers(self) -> list[tuple[str, str]]:
        """Return the headers of every request. User and password become a Basic authorization header."""
        if self.user is None:
            return list(self.headers)
        token = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return [*self.headers, ("Authorization", f"Basic {token}")]

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context of connections.

        Raises:
            FileError: a file is missing.
            FlinkRestError: a file contains no certificate, or no key for it.
        """
        return _tls_context(self.ca, self.cert, self.key)


ANONYMOUS = Access()


@cache
def _tls_context(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """Return the TLS context for these PEM files; cached, because reading all authorities takes long."""
    context = ssl.create_default_context() if ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is not None:
        text = read_user_text(ca, LARGEST_CONFIGURATION, "certificates are PEM files")
        try:
            context.load_verify_locations(cadata=text)
        except (ssl.SSLError, ValueError):
            raise FlinkRestError(
                Note(f"{ca}: contains no certificate.", Parameter("ca"), advice="Set {} to a PEM file.")
            ) from None
    if cert is None:
        return context
    for file in (cert, key or cert):
        read_user_file(file, LARGEST_CONFIGURATION)  # names a missing or unreadable file in its error
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except _EncryptedError:
        raise FlinkRestError(
            f"{key or cert}: the key is encrypted. Name a file with the key decrypted."
        ) from None
    except (ssl.SSLError, ValueError) as error:
        note = Note(
            f"{cert}: contains no certificate with its key in PEM.",
            Parameter("key"),
            advice="If the key is in a file of its own, set {} to it.",
        )
        if "MISMATCH" in (getattr(error, "reason", None) or ""):
            text = f"{key or cert}: is not the key of the certificate {cert}."
            note = Note(text, *_CLIENT_CERTIFICATE, advice=_WITH_CERTIFICATE)
        elif key:
            text = f"{cert} and {key}: contain no certificate with its key in PEM."
            note = Note(text, *_CLIENT_CERTIFICATE, advice=_WITH_CERTIFICATE)
        raise FlinkRestError(note) from None
    return context


class _EncryptedError(Exception):
    """OpenSSL asked for the password of a key."""


def _no_password() -> str:
    raise _EncryptedError


def read_headers(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Parse lines "Name: value"; the keys of `given` are the origins of the lines.

    Raises:
        FlinkRestError: a line is no header. The message does not repeat it, since it may contain a secret.
    """
    headers, problems = [], []
    for where, line in given.items():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not _HEADER_NAME.fullmatch(name):
            problems.append(f'{where}: is not a header. Write "Name: value".')
        elif name.lower() in _HEADERS_OF_CONNECTION:
            problems.append(f"{where}: {name} belongs to the connection and cannot be set.")
        elif not _HEADER_VALUE.fullmatch(value):
            problems.append(f"{where}: the value of {name} contains a character that headers must not have.")
        else:
            headers.append((name, value))
    if problems:
        raise FlinkRestError(*problems)
    return tuple(headers)


# One request


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
        raise _transfer_error(error, url) from None


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


def _transfer_error(error: BaseException, url: str) -> TransferError:
    """Translate an error of httpx. Errors of TLS and of name servers are not transient."""
    import httpx

    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return TransferError(_about_server_certificate(cause))
        if isinstance(cause, ssl.SSLError) and (note := _about_tls(cause.reason or "")) is not None:
            return TransferError(note)
    in_transfer = isinstance(error, httpx.TransportError)
    why = (_strerror(error) or one_line(error) or type(error).__name__).rstrip(".") + "."
    note = Note(why)
    answers = isinstance(error, httpx.RemoteProtocolError) and "without sending a response" not in why
    if answers:
        note = Note(f"the answer is incomplete or malformed: {why}")
    if isinstance(error, httpx.RemoteProtocolError) and url.startswith("http:"):
        note = Note(f"{note} If the server speaks TLS, write https://.")
    elif in_transfer and url.startswith("https:") and not isinstance(error, httpx.ConnectError):
        note = Note(
            why, *_CLIENT_CERTIFICATE, advice="If the server asks for a certificate, set {} and {} to yours."
        )
    of_name_server = any(isinstance(cause, socket.gaierror) for cause in causes)
    return TransferError(note, transient=in_transfer and not of_name_server, answers=answers)


def _about_server_certificate(error: ssl.SSLCertVerificationError) -> Note:
    if error.verify_code in _OTHER_NAME:
        reason = one_line(error.verify_message).rstrip(".")
        return Note(f"{reason}. Use the host name of the certificate in the address.")
    if error.verify_code in _OTHER_TIME:
        return Note(f"the server's {error.verify_message}. The server needs a new one.")
    return Note(
        f"the server's certificate is not trusted ({error.verify_message}).",
        Parameter("ca"),
        advice="Set {} to the file of the authority that signed it.",
    )


def _about_tls(reason: str) -> Note | None:
    """Return advice for one of OpenSSL's error reasons; None if there is none for it."""
    if reason.endswith(("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")):
        return Note(
            "the server asks for a client certificate.", *_CLIENT_CERTIFICATE, advice=_WITH_CERTIFICATE
        )
    if "_ALERT_" in reason and reason.endswith(
        ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED", "ACCESS_DENIED")
    ):
        alert = reason.partition("_ALERT_")[2].lower().replace("_", " ")
        return Note(
            f"the server rejects your certificate ({alert}).",
            *_CLIENT_CERTIFICATE,
            advice="Set {} and {} to another one.",
        )
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        return Note("the server does not speak TLS. Write http://.")
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and all its causes."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _causes(each)
        error = error.__cause__ or error.__context__


def _strerror(error: BaseException | None) -> str | None:
    """Return the operating system's text for the innermost cause that has one."""
    if error is None:
        return None
    if isinstance(error, BaseExceptionGroup):
        return next((words for each in error.exceptions if (words := _strerror(each))), None)
    if inner := _strerror(error.__cause__ or error.__context__):
        return inner
    if not isinstance(error, OSError):
        return None
    # Name servers report errors as negative numbers and words.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror


# Answers


class Refused(NamedTuple):
    """An error status in place of an answer, and its reason."""

    code: int
    text: str

    def error(self, where: str) -> FlinkRestError:
        """Return the exception to raise if the path must have an answer."""
        text = self.text
        return FlinkRestError(text.after(f"{where}: ") if isinstance(text, Note) else f"{where}: {text}")


class Answers(Protocol):
    """A source of answers to the paths of Flink's REST API."""

    name: str
    """The address or file, as shown in messages."""

    def answer(self, path: str) -> Any | Refused:
        """Return the JSON of the answer.

        Raises:
            FlinkRestError: there is no answer, or it is not JSON.
        """

    def pause(self, seconds: float) -> None:
        """Wait until this time has passed for the cluster. A recording does not wait."""

    def clock(self) -> float:
        """Return the time of the last answer, in seconds from an arbitrary start."""


def decode_json(body: bytes, shape: type[T], most: int = MOST_VALUES) -> T:
    """Decode JSON into `shape`, if it has at most `most` values.

    Brackets and commas are counted before decoding, including those within texts. Each value is the first in
    a bracket, or follows a comma.

    Raises:
        TooManyValuesError: the JSON has more values.
        ValueError: `body` is not JSON, or has another shape; the message is the reason.
    """
    if sum(map(body.count, _OPENS_OR_SEPARATES)) > most:
        raise TooManyValuesError(most)
    try:
        value = msgspec.json.decode(body)
        *_, deepest = levels_within(value)
        if deepest:
            raise RecursionError
        return msgspec.convert(value, shape)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep") from None
    except msgspec.DecodeError as error:
        at_byte = _AT_BYTE.search(str(error))
        if at_byte and (no_number := _NO_NUMBER.match(body, int(at_byte[1]))):
            why = f"{no_number[0].decode()} at byte {at_byte[1]} is not a number in JSON"
            raise ValueError(why) from None
        raise ValueError(one_line(error)) from None


def number(value: object) -> float | None:
    """Return a number from Flink's text. None: not measured (Flink reports NaN), or no number."""
    try:
        parsed = float(str(value))
    except ValueError:
        return None
    return parsed if math.isfinite(parsed) else None


class LiveCluster:
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
    ) -> None:
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
            raise FlinkRestError(
                f"{self.name}: is not an address of Flink's REST API. "
                "Write http://HOST:8081, or name the file of a recording."
            )
        self._access = access
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._retries = MOST_RETRIES

    def answer(self, path: str) -> Any | Refused:
        """Return the answer of the cluster.

        Raises:
            FlinkRestError: there is no answer, access is denied, or the answer is not JSON.
        """
        answer = self._fetch(path)
        if not 200 <= answer.status < 300:
            return self._refusal(answer)
        try:
            return decode_json(answer.body, object)
        except TooManyValuesError:
            raise self._too_large(path, f"{MOST_VALUES:,} values") from None
        except ValueError as error:
            if answer.body.lstrip()[:1] == b"<":
                text = f"{self.name}: {path}: the answer is a web page, not JSON."
                advice = f"If it is a login page, {_LOG_IN} Otherwise check the address of Flink's REST API."
                raise FlinkRestError(Note(text, *_CREDENTIALS, advice=advice)) from None
            raise FlinkRestError(
                f"{self.name}: {path}: the answer is not JSON: {one_line(error)}. "
                "Check that this is the address of Flink's REST API."
            ) from None

    def pause(self, seconds: float) -> None:
        """Wait."""
        self._sleep(seconds)

    def clock(self) -> float:
        """Return the time of this machine's clock."""
        return time.monotonic()

    def _fetch(self, path: str) -> Answer:
        """Return the response; if all retries fail, the last failed response."""
        url = self.name + quote(path, safe="/?=&,")
        attempt = 0
        while True:
            is_last = attempt == len(PAUSES_S) or not self._retries
            try:
                answer = fetch(url, timeout_s=self._timeout_s, largest=LARGEST_ANSWER, access=self._access)
                if is_last or answer.status not in _TRANSIENT:
                    return answer
            except TooLargeError:
                raise self._too_large(path, f"{LARGEST_ANSWER >> 20} MiB") from None
            except TransferError as error:
                if is_last or not error.transient:
                    why = "" if error.answers else "cannot be reached: "
                    raise FlinkRestError(error.note.after(f"{self.name}: {why}")) from None
            self._retries -= 1
            self._sleep(PAUSES_S[attempt])
            attempt += 1

    def _too_large(self, path: str, most: str) -> FlinkRestError:
        return FlinkRestError(
            f"{self.name}: {path}: the answer has more than {most}. "
            "Check that this is the address of Flink's REST API."
        )

    def _refusal(self, answer: Answer) -> Refused:
        """Return the cluster's reason in one line, with advice."""
        try:
            errors = decode_json(answer.body, dict[str, Any])["errors"]
            reason = one_line(errors[0] if isinstance(errors, list) else errors)
        except (ValueError, LookupError):
            reason = one_line(answer.reason)
        text = f"Flink answers {answer.status}: {reason[:_SHOWN]}"
        if answer.leads_to:
            ours, theirs = urlsplit(self.name), urlsplit(answer.leads_to)
            if theirs.hostname == ours.hostname and theirs.scheme != ours.scheme:
                return Refused(answer.status, Note(f"{text}. Write {theirs.scheme}:// in the address."))
            note = Note(f"{text}.", *_CREDENTIALS, advice=f"If it is a login page, {_LOG_IN}")
            return Refused(answer.status, note)
        if answer.status not in (401, 403):
            return Refused(answer.status, Note(text))
        if self._access.identifies:
            return Refused(answer.status, Note(f"{text}. These credentials do not suffice."))
        return Refused(answer.status, Note(f"{text}.", *_CREDENTIALS, advice=_LOG_IN.capitalize()))


class RestClient:
    """Reads one cluster, given as a source of answers or as the address of its web interface.

    Attributes:
        url: The address, or the file of a recording, as messages name it.
        missing: Paths that the cluster did not have, or at which it failed.

    Raises:
        FlinkRestError: the address is malformed.
    """

    def __init__(self, cluster: str | Answers, *, timeout_s: float = TIMEOUT_S) -> None:
        self._answers: Answers = (
            LiveCluster(cluster, timeout_s=timeout_s) if isinstance(cluster, str) else cluster
        )
        self.url = self._answers.name
        self.missing: list[str] = []
        self.pause = self._answers.pause
        self.clock = self._answers.clock
        self._path = ""

    def get(self, path: str) -> dict[str, Any]:
        """Return the object at a path that every cluster has.

        Raises:
            FlinkRestError: there is no answer, or it does not come from Flink.
        """
        answer = self._answer(path)
        if isinstance(answer, Refused):
            if answer.code != _NOT_FOUND:
                raise answer.error(f"{self.url}: {path}")
            raise FlinkRestError(
                f"{self.url}: has no {path}. Check that this is the address of a Flink cluster's REST API."
            )
        return self._of_shape(dict, answer)

    def find(self, path: str, *, may_be_gone: bool = False) -> dict[str, Any] | None:
        """Return the object at a path; None if the cluster does not have it, or fails to answer.

        With `may_be_gone`, as for an old checkpoint, `missing` does not list an absent path.

        Raises:
            FlinkRestError: there is no answer, or it does not come from Flink.
        """
        answer = self._found(path, may_be_gone=may_be_gone)
        return None if answer is None else self._of_shape(dict, answer)

    def find_list(
        self, path: str, *, may_be_gone: bool = False, may_be_denied: bool = False
    ) -> list[dict[str, Any]] | None:
        """Return the list of objects at a path. It returns None, or raises errors, in the same cases as
        `find`.

        With `may_be_denied`, a denied path, as by a proxy, counts as missing.
        """
        answer = self._found(path, may_be_gone=may_be_gone, may_be_denied=may_be_denied)
        if answer is None:
            return None
        return [self._of_shape(dict, entry) for entry in self._of_shape(list, answer)]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Translate the exceptions of code that evaluates answers.

        Raises:
            FlinkRestError: an answer does not have the layout that Flink documents.
        """
        try:
            yield
        except InputError:
            raise
        except KeyError as error:
            raise self._not_flink(f"an answer has no {error}") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._not_flink("an answer does not have the documented values") from error

    def _not_flink(self, what: str) -> FlinkRestError:
        return FlinkRestError(f"{self.url}: {self._path}: does not answer as Flink's REST API does: {what}")

    def _of_shape(self, shape: type[T], answer: object) -> T:
        if not isinstance(answer, shape):
            raise self._not_flink(f"there is {_SHAPES[type(answer)]} in place of {_SHAPES[shape]}")
        return answer

    def _found(self, path: str, *, may_be_gone: bool, may_be_denied: bool = False) -> Any | None:
        answer = self._answer(path)
        if not isinstance(answer, Refused):
            return answer
        is_gone = answer.code == _NOT_FOUND
        is_denied = not is_gone and answer.code < _FAILURE
        if is_denied and not may_be_denied:
            raise answer.error(f"{self.url}: {path}")
        if not (is_gone and may_be_gone):
            self.missing.append(path)
        return None

    def _answer(self, path: str) -> Any | Refused:
        self._path = path
        return self._answers.answer(path)
