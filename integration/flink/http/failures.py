"""Reasons for which a request got no answer, and what to do."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator

from ...base.errors import Note, Parameter, TransferError
from ...base.reading import one_line
from .access import CLIENT_CERTIFICATE, WITH_CERTIFICATE

_OTHER_NAME, _OTHER_TIME = frozenset({62, 64}), frozenset({9, 10})
"""OpenSSL's codes for a certificate of another host or address, and for one that is not valid now."""


def transfer_error(error: BaseException, url: str) -> TransferError:
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
            why, *CLIENT_CERTIFICATE, advice="If the server asks for a certificate, set {} and {} to yours."
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
        return Note("the server asks for a client certificate.", *CLIENT_CERTIFICATE, advice=WITH_CERTIFICATE)
    if "_ALERT_" in reason and reason.endswith(
        ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED", "ACCESS_DENIED")
    ):
        alert = reason.partition("_ALERT_")[2].lower().replace("_", " ")
        return Note(
            f"the server rejects your certificate ({alert}).",
            *CLIENT_CERTIFICATE,
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
