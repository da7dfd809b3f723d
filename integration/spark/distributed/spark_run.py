"""Runs a scenario over the tasks of a Spark barrier stage, from its files to its result."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from time import time
from typing import TYPE_CHECKING

from netstack import (
    FROM_SOURCE,
    FileLayout,
    InitialCheckpoint,
    PathSpec,
    Result,
    SavepointFolder,
    Scenario,
    SourceError,
    Trace,
    Vertex,
    run_distributed,
    task_managers,
    vertex_key,
)

from ...extras import require
from ...storage.directory import DirectoryStorage
from ..files import has_scheme, read_files, require_columns, require_path
from ..interrupts import run_cancellable
from ..masters import is_local, local_slots
from ..session import spark_session, starts_spark
from ..spark_errors import is_from_spark, one_line
from ..task_notes import TaskNotes, task_notes
from ..workers import send_packages
from .stage import BarrierStage, fed_source, require_slots, too_few_slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Progress = Callable[[float | None], None]
"""Told how many seconds of a job have passed; None: nobody knows, as before it begins."""

LEAST_SLOTS = 2
"""Slots of a session that is started for a job."""


def run_on_spark(
    scenario: Scenario,
    *,
    master: str | None = None,
    trace: Trace | None = None,
    storage: FileLayout | None = None,
    from_checkpoint: InitialCheckpoint | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run `scenario` in real time over TCP, one Spark task for each of its task managers.

    Sources with a path have one subtask for each of Spark's partitions. `master` is Spark's, by default local
    with a slot for each task; a session that is active is used as it is. Checkpoints go to `storage`, by
    default the directory that the scenario names, which all tasks have to reach, else to a temporary one on
    this machine. So has the storage of `from_checkpoint` to be reached, if the job goes on from one. `trace`
    is told the steps of the checkpoints when an attempt is over, `progress` a few times a second for how many
    seconds the job has run, None where tasks run on other machines.

    Raises:
        StorageError: if another run has the directory.
        ScenarioError: if the scenario makes no sense, or is not possible over several processes.
        SourceError: if a source cannot be read, or Spark cannot run the tasks; one line.
        JobFailedError: if the job failed and its restart strategy allows no further restart.
    """
    require("pandas", "a job over Spark's tasks")
    tasks = len(task_managers(scenario))
    initial = _root(from_checkpoint)
    master = master or f"local[{max(LEAST_SLOTS, tasks)}]"
    _check_before_start(scenario, master, tasks)
    session = spark_session(master)
    require_slots(session, tasks)
    send_packages(session)
    opened, frames = _read_sources(scenario, session)
    with (
        _checkpoints(scenario, session) as root,
        task_notes(session) as notes,
        closing(
            BarrierStage(
                session,
                opened,
                frames,
                root,
                initial,
                notes,
                None if progress is None else partial(_report, notes, progress),
            )
        ) as stage,
    ):
        return run_distributed(
            opened,
            stage.launch,
            DirectoryStorage(root) if storage is None else storage,
            from_checkpoint=from_checkpoint,
            trace=trace,
        )


def _check_before_start(scenario: Scenario, master: str, tasks: int) -> None:
    """Find mistakes before Spark starts, which takes a while, if it has yet to.

    Raises:
        SourceError: Spark could not run the job with this master, or a source cannot be read.
    """
    if not starts_spark():
        return
    slots = local_slots(master)
    if slots is None:
        _require_shared_checkpoints(scenario)
    elif slots < tasks:
        raise too_few_slots(tasks, slots, local=True)
    for vertex in scenario.vertices:
        if isinstance(spec := vertex.source, PathSpec):
            try:
                require_path(spec.path)
                require_columns(spec.path, spec.key, spec.format)
            except SourceError as error:
                raise SourceError(f"{vertex_key(vertex.name, 'source')}: {one_line(error)}") from error


def _require_shared_checkpoints(scenario: Scenario) -> None:
    """Check that the checkpoints of a job on a cluster have a directory that all its tasks can reach.

    Raises:
        SourceError: The scenario names none.
    """
    if scenario.stores_state and not scenario.config.stores_checkpoints_in_files:
        raise SourceError(
            "checkpoints of a job on a cluster need a directory that all machines share; name it as "
            "execution.checkpointing.dir"
        )


def _report(notes: TaskNotes, progress: Progress) -> None:
    """Say how long the job has run; restarts included, since the clock goes on meanwhile."""
    origins = notes.numbers()
    progress(max(0.0, time() - min(origins)) if origins else None)


def _root(initial: InitialCheckpoint | None) -> str | None:
    """Where the checkpoint to go on from lies, as every task can name it."""
    if initial is None:
        return None
    if isinstance(initial.storage, DirectoryStorage):
        return _as_tasks_name(initial.storage.root)
    if isinstance(initial.storage, SavepointFolder):
        return _as_tasks_name(initial.path)
    raise SourceError(f"{initial.path} is not in a directory that the tasks of Spark could reach")


def _as_tasks_name(directory: str) -> str:
    return directory if has_scheme(directory) else os.path.abspath(directory)


def _read_sources(scenario: Scenario, session: SparkSession) -> tuple[Scenario, dict[int, DataFrame]]:
    """The scenario with its paths opened, and what Spark reads of them by the number of the vertex."""
    frames: dict[int, DataFrame] = {}
    vertices = list(scenario.vertices)
    for number, vertex in enumerate(vertices):
        if isinstance(vertex.source, PathSpec):
            spec = vertex.source
            try:
                frames[number], vertices[number] = run_cancellable(
                    session,
                    lambda: _read(session, number, vertex, spec),  # noqa: B023 - called at once
                )
            except Exception as error:
                if not (isinstance(error, SourceError) or is_from_spark(error)):
                    raise
                where = vertex_key(vertex.name, "source")
                raise SourceError(f"{where}: {spec.path}: {one_line(error)}") from error
    return dataclasses.replace(scenario, vertices=tuple(vertices)), frames


def _read(session: SparkSession, number: int, vertex: Vertex, spec: PathSpec) -> tuple[DataFrame, Vertex]:
    frame = read_files(session, spec.path, spec.format)
    if vertex.parallelism != FROM_SOURCE:
        frame = frame.repartition(vertex.parallelism)
    source = fed_source(frame, number, spec)
    opened = spec.opened(source)
    return frame, dataclasses.replace(vertex, parallelism=source.partitions, source=opened)


@contextmanager
def _checkpoints(scenario: Scenario, session: SparkSession) -> Iterator[str]:
    """The root of the checkpoint storage, as every task can name it."""
    from pyspark import SparkFiles

    directory = scenario.config.checkpoint_dir
    if scenario.stores_state and scenario.config.stores_checkpoints_in_files:
        assert directory is not None
        yield _as_tasks_name(directory)
        return
    if not is_local(session):
        _require_shared_checkpoints(scenario)
    # In a directory that Spark deletes when it stops: a task that is cancelled may write there once more.
    with tempfile.TemporaryDirectory(prefix="netstack-", dir=SparkFiles.getRootDirectory()) as root:
        yield root
