"""The barrier stage that runs one attempt of a job, what it needs of Spark, and what each of its tasks does.

A task meets the others, hosts its task manager and hands its report on. The rows of sources come to the tasks
that host them before the job starts, by Spark's own exchange::

    files -> Spark's partitions -> pieces: (task, vertex, subtask, number, an Arrow file)
                                      |  repartitionById(task)
                                      v
    the task that hosts the source: a file in a private directory for each piece -> readers, over and over

A subtask reads one partition, in its order: pieces are numbered, as the exchange keeps no order. A source
has to be read again after a restart, and where it repeats, so the pieces are kept until the task ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import trio
from numpy.typing import NDArray

from buffers import RecordBlock
from flowcontrol import Secret
from netstack import (
    Assignment,
    LaunchError,
    Mesh,
    PathSpec,
    Report,
    RestartStrategy,
    Scenario,
    SourceError,
    SourceObject,
    Vertex,
    decode_report,
    encode_report,
    fresh_secret,
    run_task_manager,
    source_of,
    task_managers,
)

from ...storage.directory import DirectoryStorage, storage_at
from ...storage.rocksdb import table_stores
from ...storage.savepoint_requests import RequestFolder
from ..arrow_types import arrow_schema
from ..interrupts import run_cancellable
from ..masters import allows_barriers, count_slots, is_local, no_executor
from ..rendezvous import Rendezvous
from ..rows import RowCodec, key_hash
from ..spark_errors import first_cause, is_from_spark, was_raised_in_task
from ..spool import SUFFIX, SparkReader, by_place, codec_of, require_same_cut
from ..task_notes import Noting, TaskNotes
from ..workers import worker_function

if TYPE_CHECKING:
    from pyspark import BarrierTaskContext, StorageLevel
    from pyspark.sql import DataFrame, SparkSession

PIECES = "task int, vertex int, subtask int, number int, data binary"
"""The columns in which pieces travel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FedSource:
    """A source whose pieces lie in `directory`; None where they are in another process.

    `vertex` is its number in the scenario, `partitions` those of Spark, one for each subtask.
    """

    vertex: int
    partitions: int
    schema: pa.Schema
    key: tuple[str, ...]
    repeat: bool
    directory: str | None = None

    @property
    def parallelism_hint(self) -> int:
        """The number of subtasks: one for each partition."""
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
        """Return the reader of what was a subtask of so many when an earlier run read the source.

        Raises:
            SourceError: Its pieces are not in this process, or are of another number of partitions.
        """
        require_same_cut(parallelism, self.partitions)
        return self.open(subtask, parallelism)

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return Java's hash code of each record's key, or 0 where there is no key."""
        return key_hash(block)


def fed_source(frame: DataFrame, vertex: int, spec: PathSpec) -> FedSource:
    """Return the source of vertex number `vertex`, whose subtasks read the partitions of `frame`.

    Raises:
        SourceError: A column cannot be carried, or is missing.
    """
    schema = arrow_schema(frame)
    RowCodec(schema, spec.key)  # raises now if the columns will not do
    partitions = frame.rdd.getNumPartitions()
    return FedSource(vertex=vertex, partitions=partitions, schema=schema, key=spec.key, repeat=spec.repeat)


def in_pieces(frame: DataFrame, source: FedSource, task: int, first: int) -> DataFrame:
    """Return the rows of a source as pieces for `task`.

    `first` is the number that the first partition of `frame` has in the stage that reads it.
    """
    cutter = _cutter(source.vertex, source.partitions, frame.columns, task, first)
    return by_place(frame).mapInArrow(cutter, PIECES)


def _cutter(
    vertex: int, partitions: int, names: list[str], task: int, first: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that makes pieces of one partition; nested, so it needs pyarrow only."""

    def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        subtask = TaskContext.get().partitionId() - first  # type: ignore[union-attr]
        if not 0 <= subtask < partitions:
            raise RuntimeError(f"Spark has cut the source into other partitions than {partitions}")
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

    return cut


def keep_pieces(batches: Iterable[pa.RecordBatch], task: int, directory: str) -> None:
    """Write the pieces that have come to `task` into its directory; rows without pieces are none.

    Raises:
        SourceError: A piece has come to the wrong task.
    """
    for batch in batches:
        if batch.num_columns != len(PIECES.split(",")):
            continue
        for row in batch.to_pylist():
            if row["task"] != task:
                raise SourceError(f"Spark has brought rows for task {row['task']} to task {task}")
            name = f"{row['vertex']}-{row['subtask']}-{row['number']:08}{SUFFIX}"
            Path(directory, name).write_bytes(row["data"])


def with_pieces_from(directory: str, scenario: Scenario, task_manager: str) -> Scenario:
    """Return the scenario with the sources of a task manager reading their pieces from `directory`."""
    return replace(
        scenario,
        vertices=tuple(
            _fed_from(directory, vertex) if vertex.manager_of(0) == task_manager else vertex
            for vertex in scenario.vertices
        ),
    )


def _fed_from(directory: str, vertex: Vertex) -> Vertex:
    spec = vertex.source
    if not (isinstance(spec, SourceObject) and isinstance(spec.source, FedSource)):
        return vertex
    source = replace(spec.source, directory=directory)
    return replace(vertex, source=replace(spec, source=source))


REPORTS = "task int, report binary"
"""The columns of what the stage gives."""


def require_slots(session: SparkSession, tasks: int) -> None:
    """Check that Spark can run so many tasks at once, which Spark itself would find out much later.

    Raises:
        SourceError: It cannot; names the setting.
    """
    if not allows_barriers(session):
        problem = "Spark runs no barrier stage, which a job is, with dynamic allocation"
        raise SourceError(f"{problem}; set spark.dynamicAllocation.enabled to false")
    slots, local = count_slots(session, tasks), is_local(session)
    if slots == 0 and not local:
        raise SourceError(no_executor(session))
    if slots < tasks:
        raise too_few_slots(tasks, slots, local=local)


def too_few_slots(tasks: int, slots: int, *, local: bool) -> SourceError:
    """Return the error for a job with more tasks than slots, in a local session or on a cluster."""
    problem = (
        f"the job needs {tasks} tasks at once, one for each task manager, and Spark has slots for {slots}"
    )
    more = f"`master` local[{tasks}]" if local else "more spark.executor.instances or cores"
    return SourceError(f"{problem}; give it {more}, or let vertices share a task_manager")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every task of the stage is given."""

    assignment: Assignment
    checkpoints: str
    """The root of the checkpoint storage."""
    initial: str | None
    """The root of the storage that has the checkpoint to begin with; None where there is none."""
    secret: Secret
    """The secret that only the tasks and the driver know."""
    loopback: bool
    """Whether all tasks run on one machine, so that none has to be reached from another."""


class BarrierStage:
    """Runs attempts of `scenario` as barrier stages of `session`, one after the other.

    `frames` has what the sources read, by the number of their vertex; `checkpoints` is the root of the
    checkpoint storage, `initial` that of the one with the checkpoint to begin with, if there is one. Rows
    that may be needed again, after a restart, stay on Spark's disks until `close`. The first task notes
    in `notes` when the run began, on the wall clock; `meanwhile` is called while tasks run.

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
        pieces = _pieces(scenario, frames)
        if pieces is not None and not hasattr(pieces, "repartitionById"):
            raise SourceError("sources with a path need PySpark 4.1 or newer where a job runs on Spark")
        self._rows = None if pieces is None else pieces.repartitionById(self._tasks, "task")
        if self._rows is not None and scenario.restart_strategy is not RestartStrategy.NONE:
            self._rows = self._rows.persist(_disk_only())

    def launch(self, assignment: Assignment) -> list[Report]:
        """Run one attempt, and return what its tasks report.

        Raises:
            LaunchError: They did not come to that; says why the first of them failed.
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
        """Let go of the rows that Spark keeps."""
        if self._rows is not None:
            self._rows.unpersist()


def _disk_only() -> StorageLevel:
    from pyspark import StorageLevel

    return StorageLevel.DISK_ONLY


def _pieces(scenario: Scenario, frames: Mapping[int, DataFrame]) -> DataFrame | None:
    """The rows of all sources as pieces for the tasks that host them; None where nothing is read."""
    places = {name: task for task, name in enumerate(task_managers(scenario))}
    together: DataFrame | None = None
    first = 0
    for number, frame in frames.items():
        vertex = scenario.vertices[number]
        source = source_of(scenario, vertex)
        assert isinstance(source, FedSource)
        pieces = in_pieces(frame, source, places[vertex.manager_of(0)], first)
        first += source.partitions
        together = pieces if together is None else together.unionAll(pieces)
    return together


def run_task(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Take part in a job; the rows of `batches` are the pieces of the sources hosted here."""
    from pyspark import BarrierTaskContext, SparkFiles

    context = BarrierTaskContext.get()
    task = context.partitionId()
    assignment = job.assignment
    name = task_managers(assignment.scenario)[task]
    # In a directory of Spark's, which it deletes in the end even if this process is killed.
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
    with table_stores(job.assignment.scenario) as tables, ExitStack() as stack:
        requests = None
        if task == 0 and storage.is_local:
            requests = stack.enter_context(RequestFolder(storage.root).opened())
        report = await run_task_manager(
            job.assignment,
            task,
            streams,
            storage,
            initial=initial,
            tables=tables,
            savepoint_requests=requests,
            begun=Noting(context).note if task == 0 else None,
        )
    rendezvous.finish()
    return report
