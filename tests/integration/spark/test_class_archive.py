"""The archive of Spark's classes: nobody notices that it is not there, or not made to the end."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from integration.spark.class_archive import CHOICES, ClassArchive, Maker, environment_name, of_this_user
from tests.integration.conftest import ARCHIVE

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("content", [None, b"", b"no archive " * 1000])
def test_java_says_nothing_of_an_archive_that_does_not_do(tmp_path: Path, content: bytes | None) -> None:
    archive = ClassArchive(tmp_path / "with space")
    if content is not None:
        archive.file.write_bytes(content)
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    large = archive.variables(small=False)["SPARK_SUBMIT_OPTS"]
    for options in (
        archive.variables()["SPARK_SUBMIT_OPTS"],
        archive.variables()["SPARK_LAUNCHER_OPTS"],
        large,
    ):
        command = [java, *shlex.split(options), "--version"]
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


def test_a_session_on_this_machine_uses_the_archive_of_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in CHOICES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = of_this_user()
    assert archive is not None
    assert archive.folder.parent == tmp_path / "netstack" / "spark"
    assert (archive.home / "jars").is_dir()
    assert f'"-XX:SharedArchiveFile={archive.file}"' in archive.variables()["SPARK_SUBMIT_OPTS"]


@pytest.mark.parametrize("name", CHOICES)
def test_where_a_user_has_said_how_java_starts_it_is_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in CHOICES:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "as the user says")
    assert of_this_user() is None


WITH_A_CACHE = """
import sys
from integration.spark import spark_session

session = spark_session("local[1]", small=sys.argv[1] == "small")
java = session._jvm.java.lang
print(java.System.getenv("SPARK_SUBMIT_OPTS"), java.System.getenv("SPARK_HOME"))
session.stop()
"""


def test_a_session_starts_java_with_the_archive_and_leaves_one_that_was_tried_in_vain(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in CHOICES}
    archive = ClassArchive(tmp_path / "netstack" / "spark" / environment_name())
    archive.failure.touch()
    done = subprocess.run(
        [sys.executable, "-c", WITH_A_CACHE, "small"],
        env={**kept, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    variables = archive.variables()
    assert done.stdout == f"{variables['SPARK_SUBMIT_OPTS']} {variables['SPARK_HOME']}\n"
    assert sorted(path.name for path in archive.folder.iterdir()) == ["failure.txt", "home"]


def test_links_follow_the_environment(tmp_path: Path) -> None:
    home = ClassArchive(tmp_path).home
    expected = (home / "jars").readlink()
    (home / "jars").unlink()
    (home / "jars").symlink_to("/nowhere")
    ClassArchive(tmp_path)
    assert (home / "jars").readlink() == expected
    assert sorted(path.name for path in home.iterdir()) == ["bin", "jars", "python"]
