"""Options for access to a Flink cluster. Every command that takes the address of a cluster has them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, fields
from getpass import getpass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from ..base.errors import UsageError
from ..base.file_kinds import FileKind
from ..base.reading import LARGEST_CONFIGURATION, STDIN, read_user_text
from ..flink import Access, Answers, LiveCluster, Recording
from ..flink.http.access import read_headers
from .accepted_kinds import require_kind
from .arguments import Several
from .option_names import Sets, option_for

PASSWORD = "NETSTACK_PASSWORD"
"""Environment variable with the password of ``--user``."""


@Parameter(name="*", group=Group("Access to a protected Flink", sort_key=4))
@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """TLS trust and credentials for a cluster."""

    ca: Path | None = None
    """PEM file of the authority that signed the cluster's certificate; no other authority is trusted."""
    cert: Path | None = None
    """PEM file of your certificate, if the cluster asks for one."""
    key: Path | None = None
    """PEM file of the private key of --cert, not encrypted."""
    header: Annotated[Several, Sets("headers")] = ()
    """Header to send with each request, as "Name: value". For secrets: @FILE, with a header on each line."""
    user: str | None = None
    """Your user name; the password is read from --password-file, $NETSTACK_PASSWORD, or the terminal."""
    password_file: Annotated[Path | None, Sets("password")] = None
    """File that contains the password and nothing else."""

    def cluster(self, place: str) -> Answers:
        """Return the cluster at an address, or the recording in a file.

        Raises:
            InputError: `place` is neither an address nor a recording, or an option cannot be used.
        """
        if "://" not in place and (Path(place).is_file() or Path(place) == STDIN):
            require_kind(Path(place), FileKind.RECORDING)
            self.refuse_without_address(f"{place} is a recording")
            return Recording(Path(place))
        return LiveCluster(place, self.access())

    def access(self, prefix: str = "--", variable: str = PASSWORD) -> Access:
        """Return the trust and the credentials.

        Args:
            prefix: Beginning of the names of these options, for messages.
            variable: Environment variable with the password.

        Raises:
            InputError: an option cannot be used.
        """
        return Access(
            ca=self.ca,
            cert=self.cert,
            key=self.key,
            headers=read_headers(self._headers(f"{prefix}header")),
            user=self.user,
            password=self._password(prefix, variable),
        )

    def refuse_without_address(self, reason: str) -> None:
        """Reject these options in a call that reads no cluster.

        Raises:
            UsageError: one of these options is set.
        """
        if self != ANYBODY:
            *options, last = (option_for(field.name) for field in fields(self))
            raise UsageError(
                [
                    f"{', '.join(options)} and {last} can be used only with the address of a cluster, but "
                    f"{reason}; remove them"
                ]
            )

    def _headers(self, option: str) -> dict[str, str]:
        """Return the lines of the headers by their origins, which messages name."""
        headers: dict[str, str] = {}
        for number, text in enumerate(self.header, 1):
            if text.startswith("@"):
                file = text[1:]
                content = read_user_text(Path(file), LARGEST_CONFIGURATION, "a file of headers must be text")
                lines = enumerate(content.splitlines(), 1)
                headers |= {f"{file}, line {at}": line for at, line in lines if line.strip()}
            else:
                headers[option if len(self.header) == 1 else f"{option}, number {number}"] = text
        return headers

    def _password(self, prefix: str, variable: str) -> str:
        if self.user is None:
            if self.password_file is not None:
                raise UsageError([f"{prefix}password-file requires {prefix}user"])
            return ""
        if self.password_file is not None:
            text = read_user_text(
                self.password_file, LARGEST_CONFIGURATION, "the file must contain the password"
            )
            return text.rstrip("\r\n")
        if variable in os.environ:
            return os.environ[variable]
        if sys.stdin is None or not sys.stdin.isatty():
            raise UsageError([f"{prefix}user {self.user} requires {prefix}password-file or ${variable}"])
        return getpass(f"password of {self.user}: ")


ANYBODY = AccessOptions()
"""No credentials."""
