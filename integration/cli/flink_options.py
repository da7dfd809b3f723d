"""What the commands that read a running Flink job have in common: their options, and what they say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TypeVar

from cyclopts import Parameter
from rich.text import Text

from netstack import SERVICE_MODES, QuantityError, parse_duration, split_assignment

from ..errors import UsageError
from ..files.writing import prepare_file, write_outputs
from ..flink.rest import (
    Answers,
    Imported,
    Overrides,
    Recorder,
    Recording,
    import_scenario,
)
from ..flink.rest.job_options import EVERYWHERE
from ..flink.rest.recording import packed
from ..present.console import say, to_stderr
from .arguments import Settings, Several

_SILENT_S = 10.0
"""For so long a command may say nothing."""

T = TypeVar("T")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """How a running job becomes a scenario: what stands in for what is read, and how long to watch."""

    record_bytes: Several = ()
    """Bytes of a record, in place of those measured: VERTEX:BYTES, or BYTES for all sources."""
    service: Several = ()
    """What a record costs, in place of what was measured: VERTEX:TIME, or TIME for all."""
    service_mode: Several = ()
    """How a record's cost is spent: VERTEX:MODE, or MODE for all; burn takes a core, throttle waits."""
    cores: float | None = None
    """Cores of each machine, in place of those that its task managers tell; what burns shares them."""
    rate: Several = ()
    """Records per second of each subtask of a source, 0 for as fast as possible: VERTEX:RATE, or RATE."""
    settings: Settings = ()
    """An option of Flink, OPTION=VALUE, in place of the cluster's."""
    latency: str | None = None
    """Of the network between task managers."""
    watch: str | None = None
    """How long to watch the metrics; by default until they have changed three times, at least 20 s."""
    recording: Path | None = None
    """File to write all answers of the cluster to, packed if its name ends in ".gz"; it does for a URL."""

    def overrides(self) -> Overrides:
        """Return what stands in for what is read.

        Raises:
            UsageError: with a line for each option that cannot be read.
        """
        return overrides_of(
            record_bytes=self.record_bytes,
            service=self.service,
            service_mode=self.service_mode,
            cores=self.cores,
            rate=self.rate,
            settings=self.settings,
            latency=self.latency,
        )


AS_READ = ReadingOptions()
"""Nothing stands in."""


def overrides_of(
    *,
    record_bytes: Sequence[str] = (),
    service: Sequence[str] = (),
    service_mode: Sequence[str] = (),
    cores: float | None = None,
    rate: Sequence[str] = (),
    settings: Sequence[str] = (),
    latency: str | None = None,
) -> Overrides:
    """Read the options of a command line: VERTEX:VALUE or VALUE, for `settings` OPTION=VALUE.

    Raises:
        UsageError: with a line for each that cannot be read.
    """
    problems: list[str] = []
    given = Overrides(
        record_bytes=_by_vertex("--record-bytes", record_bytes, _whole, problems),
        service_s=_by_vertex("--service", service, parse_duration, problems),
        service_mode=_by_vertex("--service-mode", service_mode, _mode, problems),
        cores=_cores(cores, problems),
        rate=_by_vertex("--rate", rate, _rate, problems),
        options=_settings(settings, problems),
        latency_s=0.0 if latency is None else _read("--latency", latency, parse_duration, problems) or 0.0,
    )
    if problems:
        raise UsageError(problems)
    return given


def read_flink(
    cluster: Answers, job: str | None, given: Overrides, watch: str | None, recording: Path | None = None
) -> Imported:
    """Read a job, with progress on stderr; what could not be read is said there too.

    All that was answered is written to `recording`.

    Raises:
        FlinkRestError: the cluster cannot be read.
        UsageError: `watch` is no time, or an override is wrong.
        OutputError: the recording cannot be written.
    """
    watch_s = read_watch(watch)
    prepare_file(recording)
    recorder = Recorder(cluster)
    with watching(cluster, f"reading {cluster.name}") as report:
        imported = import_scenario(recorder, job, overrides=given, watch_s=watch_s, watching=report)
    for note in imported.notes:
        say(f"{cluster.name}: {note}")
    write_recording(recorder, imported, recording)
    return imported


def read_watch(watch: str | None) -> float | None:
    """Return the seconds of ``--watch``; None: it was not given.

    Raises:
        UsageError: it is no time.
    """
    problems: list[str] = []
    watch_s = None if watch is None else _read("--watch", watch, parse_duration, problems)
    if problems:
        raise UsageError(problems)
    return watch_s


def write_recording(recorder: Recorder, imported: Imported, recording: Path | None) -> None:
    """Write all that was answered while a job was imported, if there is a file for it.

    Raises:
        OutputError: it cannot be written.
    """
    if recording is not None:
        write_outputs({recording: packed(recorder.document(imported), recording)})
        say(f"wrote {recording}")


@contextmanager
def watching(
    cluster: Answers, doing: str, *, always: bool = False
) -> Iterator[Callable[[float, float], None]]:
    """Show on stderr what is done while the block runs; what is given is told how long metrics were watched.

    A line says how long that takes where it is long and nobody looks on; with `always`, in any case. Of a
    recording, whose metrics take no time, nothing is said.
    """
    takes_time = not isinstance(cluster, Recording)
    with to_stderr().status(Text(doing)) as status:

        def report(done: float, total: float) -> None:
            if not takes_time:
                return
            if not done and (always or (total > _SILENT_S and not status.console.is_terminal)):
                say(f"{cluster.name}: watching the job's metrics for {total:.0f} s")
            status.update(Text(f"watching the job's metrics: {done:.0f} of {total:.0f} s"))

        yield report


def _by_vertex(
    option: str, texts: Sequence[str], read: Callable[[str], T], problems: list[str]
) -> Mapping[str, T]:
    values: dict[str, T] = {}
    for text in texts:
        vertex, colon, value = text.rpartition(":")
        quantity = _read(option, value, read, problems)
        if quantity is not None:
            values[vertex if colon else EVERYWHERE] = quantity
    return values


def _settings(texts: Sequence[str], problems: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in texts:
        assigned = split_assignment(text)
        if assigned is None:
            problems.append(f"--set {text}: has no value; write OPTION=VALUE")
        else:
            values[assigned[0]] = assigned[1]
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


def _mode(text: str) -> str:
    if text not in SERVICE_MODES:
        raise QuantityError(f"{text!r} is unknown", f"one of {', '.join(SERVICE_MODES)}")
    return text


def _cores(cores: float | None, problems: list[str]) -> float | None:
    if cores is not None and not 0 < cores < inf:
        problems.append(f"--cores {cores:g}: must be a number above 0")
    return cores


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise QuantityError(f"{text!r} is not a number", "records per second, such as 100") from None
