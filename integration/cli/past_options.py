"""Options of the commands that can read the figures of an earlier time from a Prometheus.

Annotations are not postponed here, because cyclopts would look for those of inherited options in the module
of the inheriting class.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from netstack import QuantityError, parse_duration

from ..base.errors import UsageError
from ..base.number_text import time_span
from ..flink import Answers, Past, PastCluster, PrometheusServer
from ..flink.http.past_cluster import of_metrics
from ..flink.read.past_window import MOST_WINDOWS
from .arguments import Several
from .cluster_access import AccessOptions
from .option_names import Sets, option_for

PASSWORD = "NETSTACK_METRICS_PASSWORD"
"""Environment variable with the password of ``--metrics-user``."""

USUAL_SEARCH = "24h"
"""Time to search for slow checkpoints, in suggestions."""

_LEAST_S = 10.0
"""Minimum length of the window, so that its figures change."""

_TIME = re.compile(r"\d{4}-?\d\d-?\d\d[T ]\d\d")
_RIGHT_TIME = "a date and a time such as 2026-11-27T20:15, 2026-11-27T20:15+01:00 or 2026-11-27T19:15Z"


@Parameter(name="*", group=Group("Figures of an earlier time", sort_key=5))
@dataclass(frozen=True, slots=True, kw_only=True)
class PastOptions:
    """A time in the past, and the Prometheus that has its figures."""

    metrics_from: str | None = None
    """Address of a Prometheus that scrapes Flink's reporter: read the job's figures of an earlier time there.
    """
    at: Annotated[str | None, Sets("begin_s")] = None
    """Begin of that time, such as 2026-11-27T20:15; without a zone, it is local time."""
    for_: Annotated[str | None, Parameter(name="--for"), Sets("for_s")] = None
    """Length of that time; by default 5m."""
    worst: str | None = None
    """Instead of --at: find the time with the slowest checkpoints in the last hours, such as 24h."""
    metrics_ca: Path | None = None
    """PEM file of the authority that signed the certificate of Prometheus; no other authority is trusted."""
    metrics_cert: Path | None = None
    """PEM file of your certificate, if Prometheus asks for one."""
    metrics_key: Path | None = None
    """PEM file of the private key of --metrics-cert, not encrypted."""
    metrics_header: Annotated[Several, Sets("metrics_headers")] = ()
    """Header for Prometheus, as "Name: value". For secrets: @FILE, with a header on each line."""
    metrics_user: str | None = None
    """Your user name in Prometheus; the password is read from --metrics-password-file,
    $NETSTACK_METRICS_PASSWORD, or the terminal."""
    metrics_password_file: Annotated[Path | None, Sets("metrics_password")] = None
    """File that contains the password for Prometheus and nothing else."""

    def of(self, cluster: Callable[[], Answers], *, watch: str | None = None) -> Answers:
        """Return the cluster, with the figures of the past if the options ask for these.

        Args:
            cluster: Returns the cluster; called after the options were checked.
            watch: The option ``--watch`` of the command.

        Raises:
            InputError: an option cannot be used.
        """
        if self.metrics_from is None:
            self.refuse("without --metrics-from")
            return cluster()
        past = self._past(time.time())
        if watch is not None:
            raise UsageError(["--watch is for present figures; use --for, or remove --metrics-from"])
        given = AccessOptions(
            ca=self.metrics_ca,
            cert=self.metrics_cert,
            key=self.metrics_key,
            header=self.metrics_header,
            user=self.metrics_user,
            password_file=self.metrics_password_file,
        )
        with of_metrics():
            access = given.access("--metrics-", PASSWORD)
        return PastCluster(cluster(), PrometheusServer(self.metrics_from, access), past)

    def refuse(self, why: str) -> None:
        """Reject these options in a call that does not use them.

        Raises:
            UsageError: one of these options is set.
        """
        given = [
            option_for(field.name)
            for field in fields(self)
            if getattr(self, field.name) != getattr(NOW, field.name)
        ]
        if given:
            raise UsageError([f"{' and '.join(given)} cannot be used {why}"])

    def _past(self, now_s: float) -> Past:
        """Return the time to read.

        Raises:
            UsageError: an option is invalid; the error has a line for each such option.
        """
        problems: list[str] = []
        for_s = _read("--for", self.for_ or "5m", parse_duration, problems)
        if for_s is not None and for_s < _LEAST_S:
            problems.append(f"--for {self.for_}: is too short; it must be at least {time_span(_LEAST_S)}")
        begin_s = end_s = None
        if (self.at is None) == (self.worst is None):
            problems.append("--metrics-from requires either --at, a time, or --worst, such as --worst 24h")
        elif self.at is not None:
            begin_s = _read("--at", self.at, _moment, problems)
            if begin_s is not None and for_s is not None:
                end_s = begin_s + for_s
                if end_s > now_s:
                    problems.append(
                        f"--at {self.at}: {time_span(for_s)} from then on are not over yet; it must be "
                        "an earlier time, or set a shorter --for"
                    )
        elif (searched_s := _read("--worst", self.worst, parse_duration, problems)) and for_s:
            end_s = float(int(now_s))
            begin_s = end_s - searched_s
            if not for_s < searched_s <= MOST_WINDOWS * for_s:
                problems.append(
                    f"--worst {self.worst}: must be longer than --for, {time_span(for_s)}, and at most "
                    f"{MOST_WINDOWS:,} times as long"
                )
        if problems or begin_s is None or end_s is None or for_s is None:
            raise UsageError(problems)
        return Past(begin_s=begin_s, end_s=end_s, for_s=for_s)


NOW = PastOptions()
"""The present figures."""


def _moment(text: str) -> float:
    """Return the seconds since 1970 of a time in ISO 8601; without a zone, it is local time."""
    try:
        if _TIME.match(text.strip()):
            return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        pass
    raise QuantityError(f"{text!r} is not a time", _RIGHT_TIME)


def _read(option: str, text: str | None, read: Callable[[str], float], problems: list[str]) -> float | None:
    """Parse the text of an option, if given. Append a line to `problems` if the text is invalid."""
    try:
        return None if text is None else read(text)
    except QuantityError as error:
        problems.append(f"{option} {text}: {error.wrong}; it must be {error.right}")
        return None
