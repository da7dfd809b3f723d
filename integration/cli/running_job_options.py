"""Options and steps shared by the commands that read a running Flink job.

Annotations are not postponed here, because cyclopts would look for those of inherited options in the module
of the inheriting class.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Protocol, TypeVar

from cyclopts import Parameter
from rich.text import Text

from netstack import SERVICE_MODES, QuantityError, parse_duration, split_assignment

from ..base.errors import UsageError
from ..base.writing import prepare_file, write_outputs
from ..flink import Answers, Imported, Overrides, Recorder, Recording, import_scenario
from ..flink.fit.overrides import EVERYWHERE, INPUT_KINDS
from ..flink.recording import packed
from ..show.terminal.console import print_assumptions, say, to_stderr
from .arguments import Settings, Several, warn_of_bare_numbers
from .option_names import naming_options

_SILENT_S = 10.0
"""Seconds of work after which a line is printed, if stderr is no terminal."""

_WATCHING = "watching the job's metrics"
_EMULATING = "emulating the job to tell what Flink does not report"

T = TypeVar("T")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Overrides of the load that is read from a running job, and how long to watch it."""

    service: Several = ()
    """Cost of a record, instead of the measured one: VERTEX:TIME, or TIME for all."""
    record_bytes: Several = ()
    """Bytes of a record, instead of the measured ones: VERTEX:BYTES, or BYTES for all sources."""
    service_mode: Several = ()
    """Kind of work: VERTEX:MODE, or MODE for all. "burn": it is CPU-bound; "throttle": it waits."""
    window: Several = ()
    """Size of the windows of a vertex that works when they fire: VERTEX:TIME."""
    inputs: Several = ()
    """Kind of the inputs of a vertex that reads several exchanges: VERTEX:union or VERTEX:join."""
    cores: float | None = None
    """Cores of each machine, instead of the reported number. CPU-bound work shares them."""
    rate: Several = ()
    """Records per second of a source's subtask: VERTEX:RATE, or RATE for all; 0: as fast as possible."""
    latency: str | None = None
    """Latency of the network between task managers."""
    watch: str | None = None
    """Time to watch the metrics; by default until they have changed three times, at least 20 s."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions(LoadOptions):
    """Overrides of what is read from a running job, and how long to watch it."""

    settings: Settings = ()
    """An option of Flink, as OPTION=VALUE, instead of the cluster's value."""
    recording: Path | None = None
    """File for the answers of the cluster, to give later in place of its address; NAME.gz: compressed."""

    def overrides(self) -> Overrides:
        """Return the overrides.

        Raises:
            UsageError: an option cannot be read; the error has a line for each such option.
        """
        problems: list[str] = []
        options: dict[str, str] = {}
        for text in self.settings:
            assigned = split_assignment(text)
            if assigned is None:
                problems.append(f"--set {text}: has no value; write it as OPTION=VALUE")
            else:
                options[assigned[0]] = assigned[1]
        if self.cores is not None and not 0 < self.cores < inf:
            problems.append(f"--cores {self.cores:g}: must be a number above 0")
        given = Overrides(
            record_bytes=_by_vertex("--record-bytes", self.record_bytes, _whole, problems),
            service_s=_by_vertex("--service", self.service, parse_duration, problems),
            service_mode=_by_vertex("--service-mode", self.service_mode, _one_of(SERVICE_MODES), problems),
            window_s=_by_vertex("--window", self.window, parse_duration, problems),
            inputs=_by_vertex("--inputs", self.inputs, _one_of(INPUT_KINDS), problems),
            cores=self.cores,
            rate=_by_vertex("--rate", self.rate, _rate, problems),
            options=options,
            latency_s=_read("--latency", self.latency, parse_duration, problems) or 0.0,
        )
        if problems:
            raise UsageError(problems)
        return given

    def watch_s(self) -> float | None:
        """Return the seconds to watch the metrics; None: the default.

        Raises:
            UsageError: the option is not a time.
        """
        problems: list[str] = []
        watch_s = _read("--watch", self.watch, parse_duration, problems)
        if problems:
            raise UsageError(problems)
        return watch_s


AS_READ = ReadingOptions()
"""No overrides."""


def read_flink(cluster: Answers, job: str | None, options: ReadingOptions) -> Imported:
    """Import a job, with progress on stderr. Write the recording if the user names a file for it.

    The notes contain option names. A caller prints the notes after the result, with `say_assumptions`.

    Raises:
        FlinkRestError: the cluster cannot be read.
        UsageError: an option cannot be read.
        OutputError: the recording cannot be written.
    """
    given, watch_s = options.overrides(), options.watch_s()
    warn_of_bare_numbers("--set", options.settings)
    prepare_file(options.recording)
    recorder = Recorder(cluster)
    with watching(cluster, f"reading {cluster.name}") as report:
        imported = import_scenario(
            recorder,
            job,
            overrides=given,
            watch_s=watch_s,
            watching=report,
            emulating=partial(report, doing=_EMULATING),
        )
    imported = with_option_names(imported)
    write_recording(recorder, imported, options.recording)
    return imported


def say_assumptions(notes: Sequence[str]) -> None:
    """Print the notes of an import to stderr, under a heading."""
    print_assumptions(notes, to_stderr())


def with_option_names(imported: Imported) -> Imported:
    """Return an import whose notes have option names in place of parameter names."""
    notes, unsteady = (list(map(naming_options, lines)) for lines in (imported.notes, imported.unsteady))
    return dataclasses.replace(imported, notes=notes, unsteady=unsteady)


def write_recording(recorder: Recorder, imported: Imported, recording: Path | None) -> None:
    """Write the answers from which a job was imported, if the user names a file for them.

    Raises:
        OutputError: the file cannot be written.
    """
    if recording is not None:
        document = recorder.document(imported.scenario, imported.measured)
        write_outputs({recording: packed(document, recording)})
        say(f"wrote {recording}")


class ReadingReport(Protocol):
    """Function that reports the progress of a step of reading a job."""

    def __call__(self, done: float, total: float, *, doing: str = _WATCHING) -> None:
        """Report the seconds done, of the total of this step."""


@contextmanager
def watching(cluster: Answers, first: str, *, always: bool = False) -> Iterator[ReadingReport]:
    """Show the progress of the block on stderr; `first` is shown before the first report.

    If stderr is no terminal, one line reports a long step or, with `always`, any step. Watching a recording
    takes no time, so nothing is reported.
    """
    is_recording = isinstance(cluster, Recording)
    with to_stderr().status(Text(first)) as status:

        def report(done: float, total: float, *, doing: str = _WATCHING) -> None:
            if doing == _WATCHING and is_recording:
                return
            is_long = total > _SILENT_S and not status.console.is_terminal
            if done == 0 and (always or is_long):
                duration = f" for {total:.0f} s" if doing == _WATCHING else ""
                say(f"{cluster.name}: {doing}{duration}")
            status.update(Text(f"{doing}: {done:.0f} of {total:.0f} s"))

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


def _read(option: str, text: str | None, read: Callable[[str], T], problems: list[str]) -> T | None:
    """Parse the text of an option, if given. Append a line to `problems` if the text is invalid."""
    try:
        return None if text is None else read(text)
    except QuantityError as error:
        problems.append(f"{option} {text}: {error.wrong}; it must be {error.right}")
        return None


def _whole(text: str) -> int:
    if not text.strip().isdecimal():
        raise QuantityError(f"{text!r} is not a whole number", "bytes without a unit, such as 1000")
    return int(text)


def _one_of(choices: Iterable[T]) -> Callable[[str], T]:
    """Return a function that reads one of these words."""
    by_name = {str(choice): choice for choice in choices}

    def read(text: str) -> T:
        if text not in by_name:
            raise QuantityError(f"{text!r} is unknown", f"one of {', '.join(by_name)}")
        return by_name[text]

    return read


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise QuantityError(f"{text!r} is not a number", "records per second, such as 100") from None
