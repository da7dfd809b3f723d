"""Archive of Spark's Java classes, which halves the start time of a Java process.

A Java process of Spark finds, reads and verifies some twenty thousand classes before its first task ends.
Instead, Java can map them from a file (class data sharing), if its class path is exactly the text with which
the file was made. So all Java processes that use an archive share one Spark home, in a permanent folder::

    home/{bin,jars,python}    links into the PySpark package; no `conf`: archives allow no such folder
    1f0c....jsa               the archive, named after everything it depends on
    failure.txt               why the archive could not be made

Sessions on this machine use an archive in the user's cache folder, one for each Python environment. When the
first session without an archive has ended, a separate process makes one: it starts a session, uses it briefly
and ends it. Without a fitting archive, Java starts as usual and prints nothing about it.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..files.caches import cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options for a process that lives for seconds, too short for Java's optimising compiler to help."""

SILENT = "-Xshare:auto -Xlog:disable"
"""Java options that make Java start normally and silently if no archive fits."""

CHOICES = ("SPARK_HOME", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_CONF_DIR")
"""Spark's environment variables. If the user has set one of them, Java starts without an archive."""

CLUSTER_CLASSES = (
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.deploy.worker.ExecutorRunner",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend",
)
"""Classes that sessions on clusters load in addition to those of a local session."""

_MAKER = (
    f"import sys; from {__package__}.session import spark_session; from {__name__} import main; "
    "main(spark_session, *sys.argv[1:])"
)
"""Program of the process that makes an archive."""


class ClassArchive:
    """The archive in a permanent folder; it may not exist yet.

    Raises:
        OSError: The folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        package = _pyspark()
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        for part in ("bin", "jars", "python"):
            link, target = self.home / part, package / part
            if not link.is_symlink() or link.readlink() != target:
                new = link.with_name(f"{part}.{os.getpid()}")  # several processes may make it at once
                new.symlink_to(target)
                new.replace(link)
        self.file = folder / f"{_fingerprint(package / 'jars')}.jsa"
        self.failure = folder / "failure.txt"

    def variables(self, *, small: bool = True) -> dict[str, str]:
        """Return environment variables with which a driver starts from the archive.

        With `small`, Java is optimised for a driver that leaves the work to other processes. The options are
        in Spark's variables, because Java prints a line on stderr if its own ones are set.
        """
        options = f'{SMALL_JAVA if small else ""} {SILENT} "-XX:SharedArchiveFile={self.file}"'
        return {
            "SPARK_HOME": str(self.home),
            "SPARK_SUBMIT_OPTS": options.strip(),
            "SPARK_LAUNCHER_OPTS": SMALL_JAVA,
        }


class Maker:
    """Process that makes an archive if none exists. It ends with `stop`, or with this process."""

    def __init__(self, archive: ClassArchive) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        if not archive.file.exists():
            self.process = _start_maker(archive, subprocess.PIPE, "with-stdin")

    def stop(self) -> None:
        """End the process, and its Java process."""
        if self.process is not None:
            self.process.communicate()


def of_this_user() -> ClassArchive | None:
    """Return the archive for sessions on this machine; None if none is possible, or if the user opted out."""
    if any(name in os.environ for name in CHOICES) or (_pyspark() / "conf").exists():
        return None
    folder = cache_folder("spark", environment_name())
    with suppress(OSError):
        return None if folder is None else ClassArchive(folder)
    return None


def environment_name() -> str:
    """Return a folder name for this installation of PySpark."""
    return hashlib.sha256(str(_pyspark()).encode()).hexdigest()[:16]


def make_at_exit(archive: ClassArchive) -> None:
    """Start making an archive when this process ends, unless an archive exists or an attempt has failed."""
    if not archive.file.exists() and not archive.failure.exists():
        _ = atexit.register(_start_maker, archive, subprocess.DEVNULL)


def _start_maker(archive: ClassArchive, stdin: int, *options: str) -> subprocess.Popen[bytes]:
    path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]
    return subprocess.Popen(
        [sys.executable, "-c", _MAKER, str(archive.folder), *options],
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        start_new_session=True,
    )


def _pyspark() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _fingerprint(jars: Path) -> str:
    """Return a digest that changes with Java, PySpark, or the options on which an archive depends."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    facts = [SMALL_JAVA]
    for path in (java, jars):
        facts.append(f"{path.resolve()} {path.stat().st_mtime_ns if path.exists() else 0}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


# The process that makes an archive.


def main(start: Callable[[str], SparkSession], folder: str, *options: str) -> None:
    """Make the archive in `folder`. `start` starts a Spark session for a given master.

    With the option "with-stdin", the process ends when its standard input ends. Otherwise the process runs at
    the lowest priority, because no other process waits for it.
    """
    if options:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    else:
        os.nice(19)
    archive = ClassArchive(Path(folder))
    try:
        make(archive, start)
    except Exception:
        archive.failure.write_text(traceback.format_exc())
        os.killpg(0, signal.SIGKILL)  # or this process and Java would wait for each other to end


def _end_with_stdin() -> None:
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)  # with Java, which would make the archive before it ended


def make(archive: ClassArchive, start: Callable[[str], SparkSession]) -> None:
    """Start Spark, load the classes that most sessions need, and have Java write the archive when it exits.

    If another process is making the archive, do nothing.
    """
    from filelock import FileLock, Timeout  # imported here, because a Spark worker may lack it

    with suppress(Timeout), FileLock(archive.folder / "lock", blocking=False):
        for other in (archive.failure, *archive.folder.glob("*.jsa*")):
            other.unlink(missing_ok=True)
        part = archive.file.with_suffix(f".jsa.{os.getpid()}")
        os.environ |= archive.variables()
        os.environ["SPARK_SUBMIT_OPTS"] = f'{SMALL_JAVA} {SILENT} "-XX:ArchiveClassesAtExit={part}"'
        session = start("local[2]")
        numbers = session.range(0, 100, 1, 2)
        numbers.mapInArrow(lambda batches: batches, "id long", barrier=True).collect()
        gateway = session.sparkContext._gateway
        assert gateway is not None
        for name in CLUSTER_CLASSES:
            with suppress(Exception):  # the archive belongs to another version of Spark
                gateway.jvm.java.lang.Class.forName(name)
        session.stop()
        java = gateway.proc
        java.stdin.close()
        java.wait()
        with suppress(FileNotFoundError):  # this Java cannot make archives
            part.replace(archive.file)
