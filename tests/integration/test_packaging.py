"""The file from which executors get our packages, tried by Pythons that lack them."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from integration.cli import exit_status
from integration.cli.app import main
from integration.spark.python_workers import LIBRARIES, PACKAGES, write_package
from tests.integration.clusters import FOR_ARROW, ROOT, bare_python

pytestmark = pytest.mark.long

IMPORTS = """
import flowcontrol, buffers, netstack, integration
import integration.spark.shuffling.placement, integration.spark.shuffling.pieces
print(netstack.__file__)
"""


def imported_from(python: Path, place: Path) -> str:
    """Import all that a task needs with only `place` added; returns where our package was found."""
    done = subprocess.run(
        [python, "-W", "error", "-c", IMPORTS],
        env={"PYTHONPATH": str(place)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_the_file_has_every_module_of_ours_and_nothing_else(tmp_path):
    path = tmp_path / "netstack.zip"
    assert main(["package", str(path)]) == 0
    sources = {str(file.relative_to(ROOT)) for name in PACKAGES for file in (ROOT / name).rglob("*.py")}
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        assert archive.testzip() is None
    assert {name for name in names if name.endswith(".py")} == sources
    assert {name.partition("/")[0] for name in names} == set(PACKAGES)
    assert not [name for name in names if "__pycache__" in name]


def test_a_python_without_our_packages_imports_them_from_the_file(tmp_path):
    path = tmp_path / "netstack.zip"
    write_package(path)
    python = bare_python(tmp_path / "python")
    assert imported_from(python, path) == str(path / "netstack" / "__init__.py")


def test_a_python_with_nothing_but_arrow_imports_them_from_the_unpacked_file(tmp_path):
    path = tmp_path / "netstack.zip"
    assert main(["package", str(path), "--libraries"]) == 0
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    python = bare_python(tmp_path / "python", FOR_ARROW)
    assert imported_from(python, tmp_path / "unpacked").startswith(str(tmp_path / "unpacked"))


def test_libraries_say_where_they_come_from(tmp_path):
    path = tmp_path / "netstack.zip"
    write_package(path, libraries=True)
    with zipfile.ZipFile(path) as archive:
        records = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    assert sorted(name.partition("-")[0] for name in records) == sorted(LIBRARIES)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("netstack.tar", "the name must end in .zip"),
        ("there.zip", "already exists"),
        ("no/such/folder.zip", "cannot be written: No such file or directory"),
    ],
)
def test_a_place_that_will_not_do_is_one_line_and_status_2(tmp_path, capsys, name, message):
    (tmp_path / "there.zip").write_bytes(b"mine")
    assert main(["package", str(tmp_path / name)]) == exit_status.MISTAKE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err
    assert (tmp_path / "there.zip").read_bytes() == b"mine"
