"""Jobs whose task managers run in Spark tasks: each attempt of a job is a barrier stage.

Each task connects to the others, hosts its task manager, and returns its report. Before the job starts,
Spark's own exchange brings the rows of sources to the tasks that host them::

    files -> Spark's partitions -> pieces: (task, vertex, subtask, number, an Arrow file)
                                      |  repartitionById(task)
                                      v
    the task that hosts the source: a file for each piece, in a private directory -> readers, repeatedly

A subtask reads one partition, in its order. Pieces are numbered, because the exchange does not keep their
order. A source is read again after a restart, and if it repeats. So the pieces are kept until the task ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import trio
from numpy.typing import NDArray

from buffers import RecordBlock
from flowcontrol import Secret
from netstack import (
    FROM_SOURCE,
    Assignment,
    FileLayout,
    InitialCheckpoint,
    LaunchError,
    Mesh,
    PathSpec,
    Report,
    RestartStrategy,
    Result,
    SavepointFolder,
    Scenario,
    SourceError,
    SourceObject,
    Trace,
    Vertex,
    decode_report,
    encode_report,
    fresh_secret,
    run_distributed,
    run_task_manager,
    source_of,
    task_managers,
    vertex_key,
)

from ..base.extras import require
from ..storage.directory import DirectoryStorage, storage_at
from ..storage.rocksdb import table_stores
from .data_files import has_scheme, read_files, require_columns, require_path
from .driver import allows_barriers, count_slots, is_local, local_slots, no_executor, run_cancellable
from .failure_causes import first_cause, is_from_spark, one_line, was_raised_in_task
from .python_workers import Noting, TaskNotes, send_packages, task_notes, worker_function
from .rendezvous import Rendezvous
from .rows import RowCodec, arrow_schema, key_hash
from .session import spark_session, starts_spark
from .sources import SUFFIX, SparkReader, by_place, codec_of, require_same_cut

if TYPE_CHECKING:
    from pyspark import BarrierTaskContext
    from pyspark.sql import DataFrame, SparkSession

Progress = Callable[[float | None], None]
"""Callback that gets the seconds for which a job has run; None: not known, as before the job's start."""

LEAST_SLOTS = 2
"""Minimum number of slots of a session that is started for a job."""

PIECES = "task int, vertex int, subtask int, number int, data binary"
"""The columns of pieces."""

REPORTS = "task int, report binary"
"""The columns of the output of the stage."""


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

    Sources with a path have one subtask for each of Spark's partitions. The active session is used as it is.

    Args:
        scenario: The job.
        master: Spark's master for a new session; by default local, with a slot for each task.
        trace: Called with the steps of the checkpoints when an attempt is over.
        storage: Checkpoint storage, which all tasks have to reach; by default the directory that the
            scenario names, else a temporary one on this machine.
        from_checkpoint: The checkpoint to start from, whose storage all tasks have to reach.
        progress: Called a few times a second with the seconds for which the job has run, or with None if
            tasks run on other machines.

    Raises:
        StorageError: Another run uses the directory.
        ScenarioError: The scenario is invalid, or cannot run in several processes.
        SourceError: A source cannot be read, or Spark cannot run the tasks; one line.
        JobFailedError: The job failed and its restart strategy allows no further restart.
    """
    require("pandas", "a job over Spark's tasks")
    tasks = len(task_managers(scenario))
    initial = None if from_checkpoint is None else _root(from_checkpoint)
    master = master or f"local[{max(LEAST_SLOTS, tasks)}]"
    _check_before_start(scenario, master, tasks)
    session = spark_session(master)
    require_slots(session, tasks)
    send_packages(session)
    opened, frames = _read_sources(scenario, session)
    with _checkpoints(scenario, session) as root, task_notes(session) as notes:

        def report_progress() -> None:
            assert progress is not None
            origins = notes.numbers()
            progress(max(0.0, time() - min(origins)) if origins else None)  # restarts included

        stage = BarrierStage(
            session,
            opened,
            frames,
            checkpoints=root,
            initial=initial,
            notes=notes,
            meanwhile=report_progress if progress else None,
        )
        with closing(stage):
            return run_distributed(
                opened,
                stage.launch,
                DirectoryStorage(root) if storage is None else storage,
                from_checkpoint=from_checkpoint,
                trace=trace,
            )


def _check_before_start(scenario: Scenario, master: str, tasks: int) -> None:
    """Find mistakes before Spark is started, because starting takes seconds.

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
    """Check that a job on a cluster has a checkpoint directory that all its tasks can reach.

    Raises:
        SourceError: The scenario names no such directory.
    """
    if scenario.stores_state and not scenario.config.stores_checkpoints_in_files:
        raise SourceError(
            "checkpoints of a job on a cluster need a directory that all machines share; name it as "
            "execution.checkpointing.dir"
        )


def _root(initial: InitialCheckpoint) -> str:
    """Return the path of the checkpoint to start from, in a form that every task can use."""
    if isinstance(initial.storage, DirectoryStorage):
        return _as_tasks_name(initial.storage.root)
    if isinstance(initial.storage, SavepointFolder):
        return _as_tasks_name(initial.path)
    raise SourceError(
        f"{initial.path} is not in a directory that Spark's tasks can reach; give one that all machines share"
    )


def _as_tasks_name(directory: str) -> str:
    return directory if has_scheme(directory) else os.path.abspath(directory)


def _read_sources(scenario: Scenario, session: SparkSession) -> tuple[Scenario, dict[int, DataFrame]]:
    """Return the scenario with its sources opened, and the DataFrame of each source by vertex number."""
    frames: dict[int, DataFrame] = {}
    vertices = list(scenario.vertices)

    def read(number: int, vertex: Vertex, spec: PathSpec) -> tuple[DataFrame, FedSource]:
        frame = read_files(session, spec.path, spec.format)
        if vertex.parallelism != FROM_SOURCE:
            frame = frame.repartition(vertex.parallelism)
        return frame, fed_source(frame, number, spec)

    for number, vertex in enumerate(scenario.vertices):
        spec = vertex.source
        if isinstance(spec, PathSpec):
            try:
                frames[number], source = run_cancellable(session, partial(read, number, vertex, spec))
                vertices[number] = replace(vertex, parallelism=source.partitions, source=spec.opened(source))
            except Exception as error:
                if not (isinstance(error, SourceError) or is_from_spark(error)):
                    raise
                where = vertex_key(vertex.name, "source")
                raise SourceError(f"{where}: {spec.path}: {one_line(error)}") from error
    return replace(scenario, vertices=tuple(vertices)), frames


@contextmanager
def _checkpoints(scenario: Scenario, session: SparkSession) -> Iterator[str]:
    """Yield the root of the checkpoint storage, in a form that every task can use."""
    from pyspark import SparkFiles

    directory = scenario.config.checkpoint_dir
    if scenario.stores_state and scenario.config.stores_checkpoints_in_files:
        assert directory is not None
        yield _as_tasks_name(directory)
        return
    if not is_local(session):
        _require_shared_checkpoints(scenario)
    # Use a directory that Spark deletes when it stops, because a cancelled task may write once more.
    with tempfile.TemporaryDirectory(prefix="netstack-", dir=SparkFiles.getRootDirectory()) as root:
        yield root


# The stage and its tasks.


def require_slots(session: SparkSession, tasks: int) -> None:
    """Check that Spark can run this many tasks at once. Spark itself would report a shortage minutes later.

    Raises:
        SourceError: Spark cannot run so many tasks; the message names the setting.
    """
    if not allows_barriers(session):
        problem = "a job needs a barrier stage, which Spark does not run with dynamic allocation"
        raise SourceError(f"{problem}; set spark.dynamicAllocation.enabled to false")
    slots, local = count_slots(session, tasks), is_local(session)
    if slots == 0 and not local:
        raise SourceError(no_executor(session))
    if slots < tasks:
        raise too_few_slots(tasks, slots, local=local)


def too_few_slots(tasks: int, slots: int, *, local: bool) -> SourceError:
    """Return the error for a job with more tasks than slots, in a local session or on a cluster."""
    problem = (
        f"the job needs {tasks} tasks at once, one for each task manager, but Spark has slots for only "
        f"{slots}"
    )
    more = (
        f"set `master` to local[{tasks}]"
        if local
        else "raise spark.executor.instances or spark.executor.cores"
    )
    return SourceError(f"{problem}; {more}, or let vertices share a task_manager")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The input of every task of the stage."""

    assignment: Assignment
    checkpoints: str
    """The root of the checkpoint storage."""
    initial: str | None
    """The root of the storage with the checkpoint to start from; None: the job starts empty."""
    secret: Secret
    """Secret that only the tasks and the driver know."""
    loopback: bool
    """Whether all tasks run on one machine."""


class BarrierStage:
    """Runs attempts of a job as barrier stages, one after the other.

    Rows stay on Spark's disks until `close`, because a restart needs them again. `scenario` has its sources
    opened, and `frames` has their DataFrames by the number of their vertex. `checkpoints` and `initial` are
    the roots of the storages of checkpoints and of the checkpoint to start from. The first task notes in
    `notes` when the run began, in wall-clock time. `meanwhile` is called while tasks run.

    Raises:
        SourceError: This version of Spark cannot bring rows to a task.
    """

    def __init__(
        self,
        session: SparkSession,
        scenario: Scenario,
        frames: Mapping[int, DataFrame],
        checkpoints: str,
        initial: str | None = None,
        notes: TaskNotes | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        self._session = session
        self._notes = notes
        self._meanwhile = meanwhile
        self._checkpoints = checkpoints
        self._initial = initial
        self._tasks = len(task_managers(scenario))
        pieces = _all_pieces(scenario, frames)
        if pieces is not None and not hasattr(pieces, "repartitionById"):
            raise SourceError("sources with a path need PySpark 4.1 or newer where a job runs on Spark")
        self._rows = None if pieces is None else pieces.repartitionById(self._tasks, "task")
        if self._rows is not None and scenario.restart_strategy is not RestartStrategy.NONE:
            from pyspark import StorageLevel

            self._rows = self._rows.persist(StorageLevel.DISK_ONLY)

    def launch(self, assignment: Assignment) -> list[Report]:
        """Run one attempt, and return the reports of its tasks.

        Raises:
            LaunchError: A task failed; the message is the first task's error.
        """
        try:
            return run_cancellable(self._session, lambda: self._run(assignment), self._meanwhile)
        except Exception as error:
            if is_from_spark(error):
                raise LaunchError(first_cause(error), again=not was_raised_in_task(error)) from error
            raise

    def _run(self, assignment: Assignment) -> list[Report]:
        if self._notes is not None:
            self._notes.ask(self._session)
        tasks = self._tasks
        inputs = self._session.range(0, tasks, 1, tasks) if self._rows is None else self._rows
        job = Job(
            assignment=assignment,
            checkpoints=self._checkpoints,
            initial=self._initial,
            secret=fresh_secret(),
            loopback=is_local(self._session),
        )
        work = worker_function(run_task, job, on_one_machine=job.loopback)
        rows = inputs.mapInArrow(work, REPORTS, barrier=True).collect()
        return [decode_report(bytes(row["report"])) for row in rows]

    def close(self) -> None:
        """Release the rows that Spark keeps."""
        if self._rows is not None:
            self._rows.unpersist()


def _all_pieces(scenario: Scenario, frames: Mapping[int, DataFrame]) -> DataFrame | None:
    """Return the rows of all sources as pieces for the tasks that host them; None without file sources."""
    tasks = {name: task for task, name in enumerate(task_managers(scenario))}
    union: DataFrame | None = None
    first = 0
    for number, frame in frames.items():
        vertex = scenario.vertices[number]
        source = source_of(scenario, vertex)
        assert isinstance(source, FedSource)
        pieces = in_pieces(frame, source, tasks[vertex.manager_of(0)], first)
        first += source.partitions
        union = pieces if union is None else union.unionAll(pieces)
    return union


def run_task(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Run a task of a job. The rows of `batches` are the pieces of the sources hosted here."""
    from pyspark import BarrierTaskContext, SparkFiles

    context = BarrierTaskContext.get()
    task = context.partitionId()
    assignment = job.assignment
    name = task_managers(assignment.scenario)[task]
    # Use a directory that Spark deletes at its end, even if this process is killed.
    with tempfile.TemporaryDirectory(prefix="netstack-", dir=SparkFiles.getRootDirectory()) as directory:
        keep_pieces(batches, task, directory)
        fed = replace(assignment, scenario=with_pieces_from(directory, assignment.scenario, name))
        report = trio.run(_take_part, replace(job, assignment=fed), context)
    columns = [pa.array([task], pa.int32()), pa.array([encode_report(report)], pa.binary())]
    yield pa.RecordBatch.from_arrays(columns, ["task", "report"])


async def _take_part(job: Job, context: BarrierTaskContext) -> Report:
    """Connect to the other tasks, then run the task manager."""
    task, tasks = context.partitionId(), len(context.getTaskInfos())
    rendezvous = Rendezvous(context, job.secret, loopback=job.loopback)
    async with Mesh(task, tasks, host=rendezvous.host) as mesh:
        _, port = await mesh.listen()
        meeting = await rendezvous.meet(port)
        streams = await mesh.connect(meeting.addresses, meeting.secret)
    storage = DirectoryStorage(job.checkpoints)
    initial = None if job.initial is None else storage_at(job.initial)
    with table_stores(job.assignment.scenario) as tables:
        report = await run_task_manager(
            job.assignment,
            task,
            streams,
            storage,
            initial=initial,
            tables=tables,
            on_start=Noting(context).note if task == 0 else None,
        )
    rendezvous.finish()
    return report


# The rows of sources, in pieces.


@dataclass(frozen=True, slots=True, kw_only=True)
class FedSource:
    """A source whose pieces are files in `directory`, which is None if another process has the pieces.

    `vertex` is the number of its vertex. It has a subtask for each of Spark's `partitions`.
    """

    vertex: int
    partitions: int
    schema: pa.Schema
    key: tuple[str, ...]
    repeat: bool
    directory: str | None = None

    @property
    def parallelism_hint(self) -> int:
        """Number of subtasks: the number of partitions."""
        return self.partitions

    def open(self, subtask: int, parallelism: int) -> SparkReader:
        """Return the reader of one subtask.

        Raises:
            SourceError: Its pieces are not in this process.
        """
        if self.directory is None:
            raise SourceError(f"the rows of vertex {self.vertex} are in another process")
        files = sorted(Path(self.directory).glob(f"{self.vertex}-{subtask}-*{SUFFIX}"))
        return SparkReader(files, codec_of(files, self.schema, self.key), self.repeat)

    def open_split(self, subtask: int, parallelism: int) -> SparkReader:
        """Return the reader of the rows that a subtask read in an earlier run with this parallelism.

        Raises:
            SourceError: Its pieces are not in this process, or the number of partitions has changed.
        """
        require_same_cut(parallelism, self.partitions)
        return self.open(subtask, parallelism)

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return Java's hash code of each record's key, or 0 without a key."""
        return key_hash(block)


def fed_source(frame: DataFrame, vertex: int, spec: PathSpec) -> FedSource:
    """Return the source of vertex number `vertex`, whose subtasks read the partitions of `frame`.

    Raises:
        SourceError: A column is missing or of an unsupported type.
    """
    schema = arrow_schema(frame)
    RowCodec(schema, spec.key)  # reports unsupported columns now
    partitions = frame.rdd.getNumPartitions()
    return FedSource(vertex=vertex, partitions=partitions, schema=schema, key=spec.key, repeat=spec.repeat)


def in_pieces(frame: DataFrame, source: FedSource, task: int, first: int) -> DataFrame:
    """Return the rows of `frame` as pieces for the task that hosts `source`.

    `first` is the number that the first partition of `frame` has in the stage, so that subtask = partition -
    first.
    """
    vertex, partitions, names = source.vertex, source.partitions, frame.columns

    # Nested, so it is pickled by value: a worker needs pyarrow for it, but not this package.
    def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        subtask = TaskContext.get().partitionId() - first  # type: ignore[union-attr]
        if not 0 <= subtask < partitions:
            raise RuntimeError(
                f"Spark has split the source into more partitions than the {partitions} that were expected"
            )
        number = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            named = batch.rename_columns(names)
            file = pa.BufferOutputStream()
            with pa.ipc.new_file(file, named.schema) as writer:
                writer.write_batch(named)
            columns = [
                *(pa.array([value], pa.int32()) for value in (task, vertex, subtask, number)),
                pa.array([file.getvalue().to_pybytes()], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, ["task", "vertex", "subtask", "number", "data"])
            number += 1

    return by_place(frame).mapInArrow(cut, PIECES)


def keep_pieces(batches: Iterable[pa.RecordBatch], task: int, directory: str) -> None:
    """Write the pieces that have arrived at `task` into its directory. Other rows are skipped.

    Raises:
        SourceError: A piece has arrived at the wrong task.
    """
    for batch in batches:
        if batch.num_columns != len(PIECES.split(",")):
            continue
        for row in batch.to_pylist():
            if row["task"] != task:
                raise SourceError(f"Spark has delivered rows for task {row['task']} to task {task}")
            name = f"{row['vertex']}-{row['subtask']}-{row['number']:08}{SUFFIX}"
            Path(directory, name).write_bytes(row["data"])


def with_pieces_from(directory: str, scenario: Scenario, task_manager: str) -> Scenario:
    """Return the scenario, changed so that one task manager's sources read their pieces from `directory`."""

    def fed(vertex: Vertex) -> Vertex:
        spec = vertex.source
        if vertex.manager_of(0) != task_manager or not isinstance(spec, SourceObject):
            return vertex
        if not isinstance(spec.source, FedSource):
            return vertex
        return replace(vertex, source=replace(spec, source=replace(spec.source, directory=directory)))

    return replace(scenario, vertices=tuple(map(fed, scenario.vertices)))
