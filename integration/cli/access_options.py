"""The options by which every command that takes the address of a Flink cluster is let in there."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path

from cyclopts import Parameter

from ..errors import UsageError
from ..files.reading import LARGEST_CONFIGURATION, read_user_text
from ..flink.rest import Access, Answers, LiveCluster, Recording
from ..flink.rest.access import read_headers
from .arguments import Several

PASSWORD = "NETSTACK_PASSWORD"
"""Environment variable with the password of ``--user``."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """How a cluster is reached that does not let everybody in."""

    ca: Path | None = None
    """PEM file of the authority that signed the cluster's certificate, trusted in place of the system's."""
    cert: Path | None = None
    """PEM file of your certificate, where the cluster asks for one."""
    key: Path | None = None
    """PEM file of its private key, not encrypted."""
    header: Several = ()
    """Header for every request, "Name: value", or @FILE with a header a line; a secret belongs in a file."""
    user: str | None = None
    """Your name there; the password is in --password-file or $NETSTACK_PASSWORD, or is asked for."""
    password_file: Path | None = None
    """File that holds the password and nothing else."""

    def cluster(self, place: str) -> Answers:
        """Return what answers at an address, or in place of one out of the file of a recording.

        Raises:
            UsageError: it is neither, or an option cannot be used.
        """
        if "://" in place or not Path(place).is_file():
            return LiveCluster(place, self._access())
        self.refuse_without_address(f"{place} is a recording")
        return Recording(Path(place))

    def refuse_without_address(self, reason: str) -> None:
        """Refuse these options where no cluster is asked.

        Raises:
            UsageError: one was given.
        """
        if self != ANYBODY:
            options = "--ca, --cert, --key, --header, --user and --password-file"
            raise UsageError([f"{options} are for the address of a cluster, and {reason}; leave them out"])

    def _access(self) -> Access:
        return Access(
            ca=self.ca,
            cert=self.cert,
            key=self.key,
            headers=read_headers(_header_lines(self.header)),
            user=self.user,
            password=self._password(),
        )

    def _password(self) -> str:
        if self.user is None:
            if self.password_file is not None:
                raise UsageError(["--password-file: whose password is it? Give --user NAME too"])
            return ""
        if self.password_file is not None:
            text = read_user_text(self.password_file, LARGEST_CONFIGURATION, "it must hold a password")
            return text.rstrip("\r\n")
        if PASSWORD in os.environ:
            return os.environ[PASSWORD]
        if sys.stdin is None or not sys.stdin.isatty():
            raise UsageError([f"--user {self.user}: give the password in --password-file or ${PASSWORD}"])
        return getpass(f"password of {self.user}: ")


ANYBODY = AccessOptions()
"""The cluster lets everybody in."""


def _header_lines(given: Sequence[str]) -> dict[str, str]:
    """Lines of headers, by where they stand."""
    lines: dict[str, str] = {}
    for number, text in enumerate(given, 1):
        if not text.startswith("@"):
            lines["--header" if len(given) == 1 else f"--header, number {number}"] = text
            continue
        written = read_user_text(Path(text[1:]), LARGEST_CONFIGURATION, "headers are text").splitlines()
        lines |= {f"{text[1:]}, line {at}": line for at, line in enumerate(written, 1) if line.strip()}
    return lines
