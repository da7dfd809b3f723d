"""What is said when Spark cannot start: in processes of their own, since a session is one to a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from integration.spark.source import spark_session
from netstack import SourceError
try:
    spark_session(sys.argv[1])
except SourceError as error:
    print(error)
"""


def start(master: str = "local[1]", **environment: str) -> str:
    """Try to start a session; returns the error. Nothing else may reach the terminal."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, master],
        env={"PYTHONPATH": str(ROOT), "HOME": "/nowhere", **environment},
        capture_output=True,
        text=True,
        timeout=60,
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
        ("echo 'no room for the heap' >&2; exit 1", "(no room for the heap)"),
    ],
)
def test_java_that_does_not_start(tmp_path: Path, does: str, expected: str) -> None:
    message = start(PATH="/usr/bin:/bin", JAVA_HOME=java_that(does, tmp_path))
    assert message.startswith("Spark does not start: ")
    assert expected in message


@pytest.mark.spark
def test_a_master_that_is_none() -> None:
    message = start("nonsense", PATH=os.environ["PATH"], JAVA_HOME=os.environ.get("JAVA_HOME", ""))
    assert message.startswith("Spark does not start: ")
    assert message.endswith("(Master must either be yarn or start with spark, k8s, or local)")
