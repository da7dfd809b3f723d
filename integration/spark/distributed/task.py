"""What a task of the barrier stage does: meets the others, hosts its task manager, hands its report on."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import trio

from flowcontrol import Secret
from netstack import Assignment, Mesh, Report, encode_report, run_task_manager, task_managers

from ...checkpoints.directory import DirectoryStorage
from ..shuffle.rendezvous import Rendezvous
from ..shuffle.shipping import MapFunction, shipped
from .feeding import found_in, keep_pieces

if TYPE_CHECKING:
    from pyspark import BarrierTaskContext

REPORTS = "task int, report binary"
"""The columns of what the stage gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every task is given."""

    assignment: Assignment
    checkpoints: str
    """The root of the checkpoint storage."""
    initial: str | None
    """The root of the storage that has the checkpoint to begin with; None where there is none."""
    secret: Secret
    """What only the tasks and the driver know."""
    loopback: bool
    """Whether all tasks run on one machine, so that none has to be reached from another."""


def barrier_task(job: Job) -> MapFunction:
    """Return the function that each task of the stage runs."""
    from pyspark import cloudpickle

    payload = cloudpickle.dumps(job)  # type: ignore[no-untyped-call]
    return shipped("integration.spark.distributed.task", "run_task", payload, on_one_machine=job.loopback)


def run_task(batches: Iterable[pa.RecordBatch], payload: bytes) -> Iterator[pa.RecordBatch]:
    """Take part in the job that these bytes describe; the rows are the pieces of the sources hosted here."""
    from pyspark import BarrierTaskContext, SparkFiles

    context = BarrierTaskContext.get()
    task = context.partitionId()
    job: Job = pickle.loads(payload)
    assignment = job.assignment
    name = task_managers(assignment.scenario)[task]
    # In a directory of Spark's, which it deletes in the end even if this process is killed.
    with tempfile.TemporaryDirectory(prefix="netstack-", dir=SparkFiles.getRootDirectory()) as directory:
        keep_pieces(batches, task, directory)
        fed = replace(assignment, scenario=found_in(directory, assignment.scenario, name))
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
    initial = None if job.initial is None else DirectoryStorage(job.initial)
    report = await run_task_manager(job.assignment, task, streams, storage, initial=initial)
    rendezvous.finish()
    return report
