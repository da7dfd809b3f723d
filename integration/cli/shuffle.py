"""The command ``netstack shuffle``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec
from cyclopts import Parameter

from netstack import SourceError, split_assignment

from ..base.errors import ShuffleError, ShuffleWarning, UsageError
from ..base.extras import require
from ..base.signals import held_interrupts
from ..base.writing import require_place
from ..show.terminal.console import say, to_stderr
from ..show.terminal.documents import Shuffled, present
from ..show.terminal.progress import activity
from ..show.terminal.spark_work import print_shuffle, shuffle_progress
from ..spark.data_files import (
    count_rows,
    has_scheme,
    require_columns,
    require_new_path,
    require_path,
    write_files,
)
from ..spark.driver import local_slots, run_cancellable
from ..spark.failure_causes import is_from_spark, java_exit_status, one_line, resource_problem
from ..spark.python_workers import TaskNotes, send_packages, task_notes
from ..spark.session import is_running, spark_session
from ..spark.shuffling.api import (
    NO_SLOT,
    Partitioner,
    Ship,
    check_arguments,
    check_movement,
    require_slots,
    transport_config,
)
from ..spark.shuffling.api import shuffle as shuffle_frame
from ..spark.shuffling.frame_partitions import read_in_partitions
from ..spark.shuffling.pieces import Compression
from ..spark.shuffling.reports import shuffle_statistics
from .arguments import Flag, Settings, Several, Whole, require_some, usage_error, warn_of_bare_numbers
from .option_names import Sets, naming_options, usage_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Format = Literal["parquet", "csv", "json"]

SPARK_OPTION = "spark."
"""Prefix of Spark's options."""

TASK_CORES = "spark.task.cpus"
"""Spark's option for the number of cores that a task occupies."""

SLOTS_PER_CORE = 4
"""Maximum number of slots per core of a local Spark. Up to this limit, each partition has its own task."""


class Options(NamedTuple):
    """Values of options, by owner: Flink or Spark."""

    spark: dict[str, str]
    flink: dict[str, str]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingOptions:
    """Placement of rows in partitions, and their transport."""

    ship: Ship = "hash"
    """Distribution of rows to partitions."""
    bound: Several = ()
    """For ranges: the greatest key of each partition except the last, in ascending order."""
    partitioner: Partitioner = "flink"
    """Placement of keys in partitions: by Flink's key groups, or as Spark does it."""
    master: str | None = None
    """Spark's master URL; by default this machine, with a slot per partition (per core, if there are many
    partitions).
    """
    max_memory: str | None = None
    """Maximum memory for the rows of a task with several partitions, such as "256 mb"; by default 128 MiB."""
    compression: Compression | None = None
    """Compression of columns in transfer."""
    settings: Annotated[Settings, Sets("config")] = ()
    """An option of Flink's network layer, or of Spark (spark...), as OPTION=VALUE; may be repeated."""


AS_FLINK = RoutingOptions()
"""Shuffle by the hash of keys, as in Flink, on this machine."""


def shuffle(
    *,
    input: str,
    output: str,
    partitions: Annotated[Whole, Sets("num_partitions")],
    key: Several = (),
    format: Format | None = None,
    routing: RoutingOptions = AS_FLINK,
    json: Flag = False,
) -> int:
    """Shuffle the rows of a file through the network layer, inside Spark, and write them to another.

    Args:
        input: Parquet, CSV or JSON file, or a folder of them.
        output: New folder with a file for each partition. The files are CSV or JSON if the folder's name ends
            in .csv or .json, otherwise Parquet.
        partitions: Number of partitions. If Spark has fewer slots, each task takes several partitions.
        key: Column that decides the partition of a row; may be repeated.
        format: Format of the input, if the file names do not show it.
        json: Print the counts of each task as one JSON document.
    """
    require_some(
        "shuffle", "--partitions", partitions, most=sys.maxsize
    )  # the shuffle has a maximum of its own
    require("pandas", "netstack shuffle")
    require_path(input)
    require_new_path(output)
    if not has_scheme(output):
        require_place(Path(output).expanduser())
    wanted = Shuffled(
        input=input,
        output=output,
        keys=list(key),
        partitions=partitions,
        ship=routing.ship,
        partitioner=routing.partitioner,
    )
    options = read_assignments(routing.settings)
    warn_of_bare_numbers("netstack shuffle: --set", routing.settings)
    done = _shuffled(wanted, format, routing, options)
    present(done, print_shuffle, json=json)
    return 0


def _shuffled(wanted: Shuffled, format: Format | None, routing: RoutingOptions, options: Options) -> Shuffled:
    """Run the shuffle in the running Spark session or, if there is none, in a new one for this command."""
    with _said_in_a_line(wanted.output):
        _check(wanted, routing, options)
        require_columns(wanted.input, wanted.keys, format, as_spark=True)
        with _session(routing.master, wanted.partitions, options.spark) as session:
            rows = count_rows(wanted.input, format)
            if rows is not None and wanted.ship == "broadcast":
                rows *= wanted.partitions
            with task_notes(session) as notes, shuffle_progress(session, notes, rows, to_stderr()) as on_poll:
                work = partial(_run_shuffle, session, notes, wanted, format, routing, options)
                return run_cancellable(session, work, on_poll)


def _run_shuffle(
    session: SparkSession,
    notes: TaskNotes,
    wanted: Shuffled,
    format: Format | None,
    routing: RoutingOptions,
    options: Options,
) -> Shuffled:
    """Read, shuffle and write the rows. Return the document with the counts of the tasks."""
    notes.ask(session)
    tasks = require_slots(session, wanted.partitions)
    started = perf_counter()
    frame = shuffle_frame(
        read_in_partitions(session, wanted.input, tasks, format),
        *wanted.keys,
        num_partitions=wanted.partitions,
        ship=wanted.ship,
        config=options.flink,
        partitioner=wanted.partitioner,
        bounds=routing.bound or None,
        max_memory=routing.max_memory,
        compression=routing.compression,
    )
    write_files(frame, wanted.output)
    seconds = perf_counter() - started
    counters = [row.asDict() for row in shuffle_statistics(frame).collect()]
    last = max((task["run"] for task in counters), default=0)
    of_last_run = [task for task in counters if task["run"] == last]
    return msgspec.structs.replace(wanted, wall_seconds=seconds, tasks=of_last_run)


def _check(wanted: Shuffled, routing: RoutingOptions, options: Options) -> None:
    """Find mistakes before Spark starts, because starting takes a while."""
    bounds = routing.bound or None
    check_arguments(wanted.keys, wanted.ship, wanted.partitioner, bounds, wanted.partitions)
    check_movement(routing.max_memory, routing.compression)
    slots = local_slots(_master(routing.master, wanted.partitions))
    if slots is None or is_running():
        slots = wanted.partitions  # unknown before Spark has started, or set by another Spark
    cores = options.spark.get(TASK_CORES, "1")
    tasks = slots // int(cores) if cores.isdecimal() and int(cores) else slots
    if tasks == 0:
        raise ShuffleError(NO_SLOT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShuffleWarning)  # these are reported again later
        transport_config(options.flink, min(wanted.partitions, tasks))


def _master(master: str | None, partitions: int) -> str:
    """Return the given master, by default this machine with a slot for each partition and at least one for
    each core. With more than `SLOTS_PER_CORE` partitions per core, it has one slot for each core.
    """
    cores = os.cpu_count() or 1
    slots = max(partitions, cores) if partitions <= SLOTS_PER_CORE * cores else cores
    return master or f"local[{slots}]"


def read_assignments(texts: Sequence[str]) -> Options:
    """Return the assignments of "OPTION=VALUE" texts; the last value of an option counts.

    Raises:
        UsageError: a text is not an assignment.
    """
    assigned = [split_assignment(text) for text in texts]
    wrong = [text for text, pair in zip(texts, assigned, strict=True) if pair is None or not pair[0]]
    if wrong:
        raise UsageError([f"netstack shuffle: --set {text}: must be OPTION=VALUE" for text in wrong])
    options = Options({}, {})
    for name, value in filter(None, assigned):
        of_whom = options.spark if name.startswith(SPARK_OPTION) else options.flink
        of_whom[name] = value
    return options


@contextmanager
def _session(master: str | None, partitions: int, options: Mapping[str, str]) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end of the block unless this process was already running it. Show
    progress while Spark starts.
    """
    runs_already = is_running()
    with activity("shuffle", to_stderr()) as report:
        report("Spark starts")
        session = spark_session(_master(master, partitions), options)
    try:
        run_cancellable(session, lambda: send_packages(session))
        yield session
    except Exception as error:
        problem = resource_problem(error, session)
        if problem is None:
            raise
        raise SourceError(problem) from error
    finally:
        if not runs_already and java_exit_status(wait_s=0) is None:
            with held_interrupts():
                session.stop()


@contextmanager
def _said_in_a_line(output: str) -> Iterator[None]:
    """Turn errors into one line for each mistake, and warnings into lines on stderr.

    After an error `output` is deleted, because Spark leaves an empty folder when a job fails.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ShuffleWarning)
            warnings.showwarning = lambda message, *_: say(usage_line(str(message)))
            yield
    except BaseException as error:
        if not has_scheme(output):
            with suppress(OSError):
                Path(output).expanduser().rmdir()
        if isinstance(error, ShuffleError):
            lines = str(error).splitlines()
            raise UsageError(lines) from error
        if is_from_spark(error):
            raise usage_error("shuffle", one_line(error)) from error
        if isinstance(error, SourceError):
            raise usage_error("shuffle", naming_options(" ".join(str(error).split()))) from error
        raise
