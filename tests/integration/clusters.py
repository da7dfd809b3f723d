"""Spark clusters for tests, and drivers that use them.

A standalone cluster is one master and some workers, each a Java process on 127.0.0.1. A process of its own
watches over them, this module run as a program: it prints the master's URL when all workers have registered,
and stops them when its standard input ends, which happens when a test is done, and also when it is killed.

A driver is a script in a process of its own, since a Spark session is one to a process::

    with standalone_cluster(folder) as master:
        rows = drive(folder, master, SCRIPT)       # what the script passed to `answer`
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from filelock import FileLock

ROOT = Path(__file__).parents[2]

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
"""Two executors of one core and 1 GiB, started by the driver itself."""

CORES = 2
"""Of each worker of a standalone cluster, which gives all of them to one executor."""

MASTER_STARTED = "Starting Spark master at "
WORKER_STARTED = "Successfully registered with master"

FOR_ARROW = {"dateutil", "numpy", "numpy.libs", "pandas", "pandas.libs", "pyarrow", "pyarrow.libs", "pytz"}
"""What Spark itself needs on an executor, as it lies in ``site-packages``; and what these need."""

LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
"""

PATIENT = {"spark.scheduler.maxRegisteredResourcesWaitingTime": "300s"}
"""Options of Spark's for a driver on a cluster: a loaded machine takes its time to start an executor."""

JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable with the options of the driver's Java; those of all other processes are the same."""

SHARED = {"SPARK_HOME", "SPARK_LAUNCHER_OPTS", JAVA_OPTIONS}
"""Variables of all tests (see `conftest`) that clusters keep."""

PRELUDE = """\
import json
import sys
from integration.spark.session import spark_session

session = spark_session(sys.argv[1], json.loads(sys.argv[2]))


def answer(value):
    print(json.dumps(value))


"""
"""What each driver begins with; its own arguments are ``sys.argv[3:]``."""


def environment(folder: Path) -> dict[str, str]:
    """The variables of all processes of a cluster: nothing is written but below `folder`."""
    ours = ("PYTHONPATH", "PYSPARK_", "SPARK_")
    logging = folder / "log4j2.properties"
    logging.write_text(LOGGING)
    java = os.environ[JAVA_OPTIONS]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(ours) or name in SHARED},
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f'{java} "-Dlog4j2.configurationFile={logging.as_uri()}"',
    }


def bare_python(folder: Path, libraries: set[str] | None = None) -> Path:
    """Make a Python that lacks our packages, and has only some of our libraries unless all are wanted.

    `libraries` are names as they stand in ``site-packages``.
    """
    venv.create(folder, symlinks=True)
    ours = re.compile(r"netstack|(benches|buffers|flowcontrol|integration)$|__pycache__|_*editable_*")
    (target,) = folder.glob("lib/python*/site-packages")
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not ours.match(entry.name) and (libraries is None or entry.name in libraries):
            (target / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Start a cluster and yield its master's URL; no process of it is left afterwards."""
    command = [sys.executable, "-m", "tests.integration.clusters", str(folder), str(workers)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as watcher:
        assert watcher.stdin is not None
        assert watcher.stdout is not None
        try:
            url = watcher.stdout.readline().strip()
            assert url.startswith("spark://127.0.0.1:"), "the cluster did not start; its log is above"
            yield url
        finally:
            watcher.stdin.close()
            assert watcher.wait() == 0


def processes_in(folder: Path) -> list[str]:
    """Name the processes of a cluster that writes below a folder, as far as the system tells."""
    wanted = f"SPARK_WORKER_DIR={folder / 'work'}\0".encode()
    found = []
    for variables in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if wanted in variables.read_bytes():
                found.append(variables.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def drive(
    folder: Path,
    master: str,
    script: str,
    *arguments: str,
    options: dict[str, str] | None = None,
    variables: dict[str, str] | None = None,
) -> Any:
    """Run a script as a driver, with a `session` on `master`, and return what it passes to `answer`.

    `options` are Spark's, `variables` those of the environment beside the usual ones. Nothing but the answer
    may be printed.
    """
    settings = {"spark.executor.extraJavaOptions": os.environ[JAVA_OPTIONS], **PATIENT, **(options or {})}
    with _own_work(master):
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + script, master, json.dumps(settings), *arguments],
            cwd=folder,
            env={**environment(folder), "PYTHONPATH": str(ROOT), **(variables or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


@contextmanager
def _own_work(master: str) -> Iterator[None]:
    """Keep apart drivers that start executors: these write into the home of Spark, whatever is set."""
    if master != LOCAL_CLUSTER:
        yield
        return
    home = Path(os.environ["SPARK_HOME"])
    with FileLock(home.with_suffix(".lock")):
        try:
            yield
        finally:
            shutil.rmtree(home / "work", ignore_errors=True)


@contextmanager
def _daemon(name: str, *arguments: str, says: str, variables: dict[str, str]) -> Iterator[str]:
    """Run a class of Spark's until the block ends; yields the line in which it says that it has started."""
    command = [f"{variables['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{name}"]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments],
        env=variables,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # so that its executors can be stopped with it
    )
    assert process.stderr is not None
    try:
        line = _line_with(says, process.stderr)
        # What it says further is read, or it would wait for that, and dropped.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield line
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            process.wait()


def _line_with(text: str, stream: IO[str]) -> str:
    before = []
    for line in stream:
        if text in line:
            return line
        before.append(line)
    raise RuntimeError("Spark did not start:\n" + "".join(before))


def watch(folder: Path, workers: int) -> None:
    """Run a cluster until standard input ends."""
    variables = environment(folder)
    with ExitStack() as stack:
        line = stack.enter_context(_daemon("master.Master", says=MASTER_STARTED, variables=variables))
        url = line.partition(MASTER_STARTED)[2].strip()
        for _ in range(workers):
            size = ("--cores", str(CORES), "--memory", "1g")
            stack.enter_context(
                _daemon("worker.Worker", *size, url, says=WORKER_STARTED, variables=variables)
            )
        print(url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    watch(Path(sys.argv[1]), int(sys.argv[2]))
