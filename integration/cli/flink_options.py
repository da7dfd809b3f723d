"""What the commands that read a running Flink job have in common: their options, and what they say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from rich.text import Text

from netstack import QuantityError, ScenarioError, parse_duration

from ..flink.rest import Imported, Overrides, import_scenario
from ..flink.rest.options import EVERYWHERE
from ..report.output import say, to_stderr

_SILENT_S = 10.0
"""For so long a command may say nothing."""

T = TypeVar("T")


def overrides_of(
    *,
    record_bytes: Sequence[str] = (),
    service: Sequence[str] = (),
    rate: Sequence[str] = (),
    settings: Sequence[str] = (),
    latency: str | None = None,
) -> Overrides:
    """Read the options of a command line: VERTEX:VALUE or VALUE, for `settings` OPTION=VALUE.

    Raises:
        ScenarioError: with a line for each that cannot be read.
    """
    problems: list[str] = []
    given = Overrides(
        record_bytes=_by_vertex("--record-bytes", record_bytes, _whole, problems),
        service_s=_by_vertex("--service", service, parse_duration, problems),
        rate=_by_vertex("--rate", rate, _rate, problems),
        options=_settings(settings, problems),
        latency_s=0.0 if latency is None else _read("--latency", latency, parse_duration, problems) or 0.0,
    )
    if problems:
        raise ScenarioError(problems)
    return given


def read_flink(url: str, job: str | None, given: Overrides, watch: str | None) -> Imported:
    """Read a job, with progress on stderr; what could not be read is said there too.

    Raises:
        FlinkRestError: the cluster cannot be read.
        ScenarioError: `watch` is no time, or an override is wrong.
    """
    problems: list[str] = []
    watch_s = None if watch is None else _read("--watch", watch, parse_duration, problems)
    if problems:
        raise ScenarioError(problems)
    with to_stderr().status(Text(f"reading {url}")) as status:

        def watching(done: float, total: float) -> None:
            if not done and total > _SILENT_S and not status.console.is_terminal:
                say(f"{url}: watching the job's metrics for {total:.0f} s")
            status.update(Text(f"watching the job's metrics: {done:.0f} of {total:.0f} s"))

        imported = import_scenario(url, job, overrides=given, watch_s=watch_s, watching=watching)
    for note in imported.notes:
        say(f"{url}: {note}")
    return imported


def _by_vertex(
    option: str, texts: Sequence[str], read: Callable[[str], T], problems: list[str]
) -> Mapping[str, T]:
    values: dict[str, T] = {}
    for text in texts:
        vertex, colon, value = text.rpartition(":")
        found = _read(option, value, read, problems)
        if found is not None:
            values[vertex if colon else EVERYWHERE] = found
    return values


def _settings(texts: Sequence[str], problems: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            problems.append(f"--set {text}: has no value; write OPTION=VALUE")
        values[name.strip()] = value.strip()
    return values


def _read(option: str, text: str, read: Callable[[str], T], problems: list[str]) -> T | None:
    try:
        return read(text)
    except QuantityError as error:
        problems.append(f"{option} {text}: {error.wrong}; it must be {error.right}")
        return None


def _whole(text: str) -> int:
    if not text.strip().isdecimal():
        raise QuantityError(f"{text!r} is not a whole number", "bytes without a unit, such as 1000")
    return int(text)


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise QuantityError(f"{text!r} is not a number", "records per second, such as 100") from None
