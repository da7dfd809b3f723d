"""What is installed beside the code, and an installation of its own, outside the checkout."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from integration.base.shipped_files import example, shipped
from integration.cli.schema import SCHEMA_FILE, schema_file
from tests.integration.clusters import ROOT, bare_python

pytestmark = pytest.mark.long

BUILD = """
import sys
from setuptools import build_meta
print(build_meta.build_sdist(sys.argv[1]) if sys.argv[2] == "sdist" else build_meta.build_wheel(sys.argv[1]))
"""

LEFT_OUT = shutil.ignore_patterns(
    ".*[!i]", "__pycache__", "build", "dist", "*.egg-info", "*.so", "netstack-demo"
)
"""What is no source; ``.ci`` is."""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without our checkout, or a compiler, in its way; returns what it prints."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = variables | {"CC": "no-compiler", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(source: Path, kind: str, target: Path) -> Path:
    """Build what there is to install, as plain Python."""
    output = run(sys.executable, "-c", BUILD, target, kind, cwd=source)
    return target / output.splitlines()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, of a copy of this checkout, and a wheel, of that sdist alone."""
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(ROOT, folder / "copy", ignore=LEFT_OUT)
    sdist = build(folder / "copy", "sdist", folder)
    (folder / "unpacked").mkdir()
    subprocess.run(["tar", "-xf", sdist, "-C", folder / "unpacked"], check=True)
    (source,) = (folder / "unpacked").iterdir()
    return sdist, build(source, "wheel", folder)


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("environment")
    python = bare_python(folder)
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", built[1], cwd=folder)
    return python.parent


def test_the_sdist_has_all_that_is_kept_and_its_tests(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = (
        "benches",
        "buffers",
        "docs",
        "flowcontrol",
        "integration",
        "netstack",
        "share",
        "tests",
        ".ci",
    )
    kept = {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".so", ".pyc")
    }
    assert kept - names == set()
    assert {"constraints.txt", "Makefile", "CHANGELOG.md", "setup.py", "LICENSE"} <= names


def test_the_wheel_has_what_messages_name_and_no_benches(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        names = archive.namelist()
    data = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    examples = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs/examples").rglob("*.*")}
    assert {f"share/doc/netstack/{name}" for name in examples if "__pycache__" not in name} <= data
    assert {
        "share/doc/netstack/studies/POLICIES.md",
        "share/doc/netstack/PERFORMANCE.md",
        "share/doc/netstack/README.md",
        "share/man/man1/netstack.1",
        SCHEMA_FILE,
    } <= data
    packages = {
        name.partition("/")[0] for name in names if "/" in name and ".d" not in name.partition("/")[0]
    }
    assert packages == {"buffers", "flowcontrol", "integration", "netstack"}


def test_a_command_runs_in_an_environment_of_its_own(installed: Path, tmp_path: Path) -> None:
    command = installed / "netstack"
    prefix = installed.parent.resolve()
    path = run(command, "schema", "--path", cwd=tmp_path).strip()
    assert path == str(prefix / SCHEMA_FILE)
    assert json.loads(Path(path).read_text("utf-8")) == json.loads(run(command, "schema", cwd=tmp_path))
    scenario = prefix / "share/doc/netstack/examples/jobs/skewed_on100ms.toml"
    assert "skewed_on100ms" in run(command, "size", scenario, cwd=tmp_path)
    assert "plain Python" in run(command, "--version", cwd=tmp_path)


PROGRAM = """
import importlib.util
import integration, netstack
from integration.base.shipped_files import example
from netstack import Edge, GeneratorSpec, Scenario, Vertex, emulate

vertices = (Vertex(name="a", source=GeneratorSpec(record_bytes=100, rates=(10.0,))), Vertex(name="b"))
edges = (Edge(source="a", target="b"),)
result = emulate(Scenario(name="tiny", duration_s=1.0, vertices=vertices, edges=edges))
print(netstack.__file__)
print(result.to_arrow("vertices")["vertex"].to_pylist(), result._repr_html_().count("<table"))
print(importlib.util.find_spec("benches"), example("pitfalls/slow_input.toml"))
"""


def test_a_program_finds_views_and_examples_there(installed: Path, tmp_path: Path) -> None:
    module, shown, found = run(installed / "python", "-W", "error", "-c", PROGRAM, cwd=tmp_path).splitlines()
    prefix = installed.parent.resolve()
    assert Path(module).is_relative_to(installed.parent)
    assert shown == "['a', 'b'] 1"
    assert found == f"None {prefix}/share/doc/netstack/examples/pitfalls/slow_input.toml"


def test_what_is_installed_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("man_page", ROOT / ".ci" / "man_page.py")
    assert spec is not None
    assert spec.loader is not None
    man_page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(man_page)
    share = ROOT / "share"
    assert (share / "man/man1/netstack.1").read_text("utf-8") == man_page.page(), "run 'make share'"
    assert (ROOT / SCHEMA_FILE).read_bytes() == schema_file(), "run 'make share'"


def test_the_man_page_names_each_command_and_option() -> None:
    text = shipped("share/man/man1/netstack.1").read_text("utf-8").replace("\\-", "-")
    for name in ("run", "tune", "lab", "schema", "diagnose", "--out", "--from-flink", "--max-checkpoint"):
        assert name in text
    assert "System Message" not in text


def test_a_file_that_is_not_installed_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"^share/none: is not installed here"):
        shipped("share/none")
    assert example("none.toml") == "docs/examples/none.toml"
