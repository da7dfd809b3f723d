"""The archive of Spark's classes: nobody notices that it is not there, or not made to the end."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.class_archive import ClassArchive, Maker
from tests.integration.conftest import ARCHIVE

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("content", [None, b"", b"no archive " * 1000])
def test_java_says_nothing_of_an_archive_that_does_not_do(tmp_path: Path, content: bytes | None) -> None:
    archive = ClassArchive(tmp_path / "with space")
    if content is not None:
        archive.file.write_bytes(content)
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        command = [java, *shlex.split(archive.variables[name]), "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        assert len(done.stdout.splitlines()) == 3


def test_an_archive_is_not_made_again(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path)
    archive.file.touch()
    assert Maker(ClassArchive(tmp_path)).process is None


def test_a_session_that_ends_early_leaves_no_process(tmp_path: Path) -> None:
    maker = Maker(ClassArchive(tmp_path))
    assert maker.process is not None
    try:
        maker.stop()
        assert maker.process.returncode == -signal.SIGKILL
        with pytest.raises(ProcessLookupError):  # none is left of its group
            os.killpg(maker.process.pid, 0)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(maker.process.pid, signal.SIGKILL)
    assert list(tmp_path.glob("*.jsa")) == []


def test_the_archive_of_this_run_could_be_made(pytestconfig: pytest.Config) -> None:
    failure = pytestconfig.stash[ARCHIVE].failure
    assert not failure.exists(), failure.read_text()


def test_links_follow_the_environment(tmp_path: Path) -> None:
    home = ClassArchive(tmp_path).home
    expected = (home / "jars").readlink()
    (home / "jars").unlink()
    (home / "jars").symlink_to("/nowhere")
    ClassArchive(tmp_path)
    assert (home / "jars").readlink() == expected
    assert sorted(path.name for path in home.iterdir()) == ["bin", "jars", "python"]
