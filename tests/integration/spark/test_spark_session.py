"""What is said when Spark cannot start: in processes of their own, since a session is one to a process."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SCRIPT = """
import sys
from integration.spark import spark_session
from netstack import SourceError
try:
    spark_session(sys.argv[1])
except SourceError as error:
    print(error)
"""


def start(master: str = "local[1]", script: str = SCRIPT, **environment: str) -> str:
    """Try to start a session; returns the error. Nothing else may reach the terminal."""
    done = subprocess.run(
        [sys.executable, "-c", script, master],
        env={"PYTHONPATH": str(ROOT), "HOME": "/nowhere", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    return done.stdout.strip()


def java_that(does: str, home: Path) -> str:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    return str(home)


def test_no_java(tmp_path: Path) -> None:
    message = start(PATH=str(tmp_path))
    assert message.startswith("There is no java on the PATH. Spark needs Java 17 or newer (apt install")


def test_java_home_without_java(tmp_path: Path) -> None:
    message = start(PATH="/usr/bin:/bin", JAVA_HOME=str(tmp_path))
    assert message.startswith(f"JAVA_HOME is {tmp_path}, where there is no bin/java. Spark needs Java 17")


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        (
            "echo 'java.lang.UnsupportedClassVersionError: Main has been compiled by ...' >&2; exit 1",
            "Spark does not start: this Java is too old. Spark needs Java 17 or newer",
        ),
        ("echo 'no room for the heap' >&2; exit 1", "Java has ended (no room for the heap)"),
    ],
)
def test_java_that_does_not_start(tmp_path: Path, does: str, expected: str) -> None:
    message = start(PATH="/usr/bin:/bin", JAVA_HOME=java_that(does, tmp_path))
    assert message.startswith("Spark does not start: ")
    assert expected in message


@pytest.mark.parametrize("master", ["spark://127.0.0.1:{port}", "spark://no.host.invalid:7077,[::1]:{port}"])
@pytest.mark.long
def test_a_master_at_which_nothing_answers(tmp_path: Path, master: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens at this port, and no other process can take it
        master = master.format(port=taken.getsockname()[1])
        message = start(master, PATH="/usr/bin:/bin", JAVA_HOME=java_that("exit 1", tmp_path))
    assert message == f"Spark does not start: nothing answers at {master} within 3 s"


@pytest.mark.long
def test_one_of_several_masters_is_enough(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}"
        message = start(master, PATH="/usr/bin:/bin", JAVA_HOME=java_that("exit 1", tmp_path))
    assert message.startswith("Spark does not start: Java has ended")


@pytest.mark.spark
@pytest.mark.long
def test_a_folder_in_which_spark_can_make_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = start(
        PATH=os.environ["PATH"],
        JAVA_HOME=os.environ.get("JAVA_HOME", ""),
        SPARK_LOCAL_DIRS=f"{tmp_path}/file/a,{tmp_path}/file/b",
    )
    folders = f"{tmp_path}/file/a, {tmp_path}/file/b"
    assert message == (
        f"Spark does not start: no folder can be created in {folders}; set spark.local.dir to a folder "
        "that can be written"
    )


@pytest.mark.spark
def test_a_master_that_is_none() -> None:
    message = start("nonsense", PATH=os.environ["PATH"], JAVA_HOME=os.environ.get("JAVA_HOME", ""))
    assert message.startswith("Spark does not start: ")
    assert message.endswith("(Master must either be yarn or start with spark, k8s, or local)")


INTERRUPTED = """
import signal
import sys
from integration.spark import spark_session

def terminate(number, frame):
    raise SystemExit(143)

signal.signal(signal.SIGTERM, terminate)
try:
    spark_session(sys.argv[1])
except KeyboardInterrupt:
    sys.exit(130)
"""

STATUS = {"SIGINT": 130, "SIGTERM": 143}


@pytest.mark.parametrize("name", STATUS)
def test_an_interrupt_while_java_starts_is_quiet_and_java_ends_as_well(tmp_path: Path, name: str) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    # Like Spark's Java, it ends when its standard input does.
    java = java_that(f"exec 9>{fifo}; echo >&9; exec cat", tmp_path / "java")
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, "local[1]"],
        env={"PYTHONPATH": str(ROOT), "HOME": "/nowhere", "PATH": "/usr/bin:/bin", "JAVA_HOME": java},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        with fifo.open() as alive:
            alive.readline()
            process.send_signal(getattr(signal, name))
            assert alive.read() == ""  # to the end, which is that of Java
        assert (process.communicate()[0], process.returncode) == (b"", STATUS[name])


AS_THE_CONTEXT_STARTS = f"""
import os
import signal
import sys
from pyspark import SparkContext

def interrupted_context(*arguments, **options):
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    return start(*arguments, **options)

start, SparkContext.__init__ = SparkContext.__init__, interrupted_context
{INTERRUPTED}"""


@pytest.mark.spark
@pytest.mark.parametrize("name", STATUS)
@pytest.mark.long
def test_an_interrupt_while_spark_starts_is_quiet(tmp_path: Path, name: str) -> None:
    done = subprocess.run(  # until Java, which inherits the pipe of stdout, has ended too
        [sys.executable, "-c", AS_THE_CONTEXT_STARTS, "local[1]", name],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (STATUS[name], b"", b"")


WORKERS = """
from integration.spark import spark_session

conf = spark_session("local[1]").sparkContext.getConf()
print(conf.get("spark.python.daemon.module"), conf.get("spark.executorEnv.PYTHONPATH"))
"""


@pytest.mark.spark
@pytest.mark.long
def test_workers_search_the_users_folders_first(tmp_path: Path) -> None:
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    done = subprocess.run(
        [sys.executable, "-c", WORKERS],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"integration.spark.worker_daemon {path}{os.pathsep}{ROOT}\n"
