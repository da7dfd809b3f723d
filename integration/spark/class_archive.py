"""Spark's Java classes in an archive, with which a Java process has started in half the time.

A Java process of Spark's finds, reads and checks some twenty thousand classes before its first task is done.
Java can map them from a file instead (class data sharing) if they come from the same class path, string by
string. So all Java processes of the tests have one home of Spark's, in pytest's cache, beside the archive::

    spark/home/{bin,jars,python}    links into the PySpark package; no folder `conf`, which no archive bears
    spark/1f0c....jsa               named after what it depends on, and kept for the next run
    spark/failure.txt               why it could not be made

A process of its own, this module run as a program, makes the archive while the first tests run. Until it is
there, and where it does not fit, Java starts as it always does, and says nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A Java process that lives for seconds gains nothing from the second compiler."""

SILENT = "-Xshare:auto -Xlog:disable"
"""Without an archive that fits, Java starts as ever and does not say so."""

ROOT = Path(__file__).parents[2]


class ClassArchive:
    """The archive below a folder that lasts from run to run, made or not."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        package = Path(pyspark.__file__).parent
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        for part in ("bin", "jars", "python"):
            _link(self.home / part, package / part)
        self.file = folder / f"{_fingerprint(package / 'jars')}.jsa"
        self.failure = folder / "failure.txt"

    @property
    def variables(self) -> dict[str, str]:
        """Variables that make a driver start from the archive, and be small as the process before it.

        Java's own variables do so too, but Java says on stderr that it has found them.
        """
        options = f'{SMALL_JAVA} {SILENT} "-XX:SharedArchiveFile={self.file}"'
        return {
            "SPARK_HOME": str(self.home),
            "SPARK_SUBMIT_OPTS": options,
            "SPARK_LAUNCHER_OPTS": SMALL_JAVA,
        }

    def make(self) -> None:
        """Start Spark, use it a little, and have Java leave the archive when it ends."""
        for other in (self.failure, *self.folder.glob("*.jsa*")):
            other.unlink(missing_ok=True)
        part = self.file.with_suffix(f".jsa.{os.getpid()}")
        os.environ |= self.variables
        os.environ["SPARK_SUBMIT_OPTS"] = f'{SMALL_JAVA} {SILENT} "-XX:ArchiveClassesAtExit={part}"'
        _use_spark()
        with suppress(FileNotFoundError):  # this Java makes none
            part.replace(self.file)


class Maker:
    """A process that makes an archive, unless it is there; ends with `stop`, or with this process."""

    def __init__(self, archive: ClassArchive) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        if not archive.file.exists():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.class_archive", str(archive.folder)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def stop(self) -> None:
        """End the process, and Java with it."""
        if self.process is not None:
            self.process.communicate()


def _link(link: Path, target: Path) -> None:
    """Make the link, which several processes may do at once, or turn one into another environment."""
    if not link.is_symlink() or link.readlink() != target:
        new = link.with_name(f"{link.name}.{os.getpid()}")
        new.symlink_to(target)
        new.replace(link)


def _fingerprint(jars: Path) -> str:
    """What becomes another when Java, PySpark, or the options that an archive depends on do."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    facts = [SMALL_JAVA, *(f"{path.resolve()} {_changed(path)}" for path in (java, jars))]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


USED_BY_CLUSTERS = (
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.deploy.worker.ExecutorRunner",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend",
)
"""Classes that are loaded beside those that a local session loads."""


def _use_spark() -> None:
    """Have Spark load the classes that most tests need."""
    from integration.spark import spark_session

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


if __name__ == "__main__":
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    archive = ClassArchive(Path(sys.argv[1]))
    try:
        archive.make()
    except Exception:
        archive.failure.write_text(traceback.format_exc())
        os.killpg(0, signal.SIGKILL)  # or it would wait for Java's end, and Java for its
