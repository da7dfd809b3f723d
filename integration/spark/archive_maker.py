"""The process that makes an archive of Spark's Java classes: a session, used a little, that ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from .class_archive import SILENT, SMALL_JAVA, ClassArchive
from .session import spark_session

USED_BY_CLUSTERS = (
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.deploy.worker.ExecutorRunner",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend",
)
"""Classes that are loaded beside those that a local session loads."""


def make(archive: ClassArchive) -> None:
    """Start Spark, use it a little, and have Java leave the archive when it ends.

    Where another process is about to make it, nothing is done.
    """
    with suppress(Timeout), FileLock(archive.folder / "lock", blocking=False):
        for other in (archive.failure, *archive.folder.glob("*.jsa*")):
            other.unlink(missing_ok=True)
        part = archive.file.with_suffix(f".jsa.{os.getpid()}")
        os.environ |= archive.variables
        os.environ["SPARK_SUBMIT_OPTS"] = f'{SMALL_JAVA} {SILENT} "-XX:ArchiveClassesAtExit={part}"'
        _use_spark()
        with suppress(FileNotFoundError):  # this Java makes none
            part.replace(archive.file)


def _use_spark() -> None:
    """Have Spark load the classes that most sessions need."""
    session = spark_session("local[2]")
    numbers = session.range(0, 100, 1, 2)
    numbers.mapInArrow(lambda batches: batches, "id long", barrier=True).collect()
    gateway = session.sparkContext._gateway
    assert gateway is not None
    for name in USED_BY_CLUSTERS:
        with suppress(Exception):  # of another version of Spark
            gateway.jvm.java.lang.Class.forName(name)
    session.stop()
    java = gateway.proc
    java.stdin.close()
    java.wait()


def _end_with_stdin() -> None:
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)  # with Java, which would make the archive before it ended


def main(folder: str, *words: str) -> None:
    """Make the archive of a folder; where nobody waits for it, when the processor has nothing else to do."""
    if words:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    else:
        os.nice(19)
    archive = ClassArchive(Path(folder))
    try:
        make(archive)
    except Exception:
        archive.failure.write_text(traceback.format_exc())
        os.killpg(0, signal.SIGKILL)  # or it would wait for Java's end, and Java for its
